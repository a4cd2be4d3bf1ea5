//! The names of parts: `.part-<incarnation>-<sequence>-<subtask>-<attempt>-<job>.<extension>` while hidden, then
//! `part-<checkpoint>-<subtask>`, with the incarnation in front from the second one on.

use tidemill_core::sink::WriterTask;

use crate::source::file::{Name, Piece};

/// The kinds of names that files have in a sink's folder, for the check that no source of the job reads them.
#[must_use]
pub fn part_names(extension: &str) -> Vec<Name> {
    let name = |begin: &str, numbers: &[Piece], end: &str| -> Name {
        let numbers =
            numbers.iter().enumerate().flat_map(|(index, number)| (index > 0).then_some(Piece::Char('-')).into_iter().chain([*number]));
        begin.chars().map(Piece::Char).chain(numbers).chain(end.chars().map(Piece::Char)).collect()
    };
    let end = format!(".{extension}");
    let [digits, hexadecimal] = [Piece::Digits, Piece::Hexadecimal];
    vec![
        name("part-", &[digits; 2], &end),
        name("part-", &[digits; 3], &end),
        name(".part-", &[digits, digits, digits, hexadecimal, hexadecimal], &end),
        name(".tidemill-lock", &[], ""),
    ]
}

/// The name of a writer's part number `sequence` while it is not committed.
pub(super) fn hidden(job: u64, task: WriterTask, sequence: u64, extension: &str) -> String {
    format!(".part-{}-{sequence}-{}-{:x}-{job:x}.{extension}", task.incarnation, task.subtask, task.attempt)
}

/// The name of a committed part.
pub(super) fn visible(task: WriterTask, checkpoint: u64, extension: &str) -> String {
    match task.incarnation {
        0 => format!("part-{checkpoint}-{}.{extension}", task.subtask),
        incarnation => format!("part-{incarnation}-{checkpoint}-{}.{extension}", task.subtask),
    }
}

/// The job that wrote this hidden part, in whatever run; none if the name is not that of a hidden part.
pub(super) fn job_of(name: &str) -> Option<u64> {
    let fields = fields(name, ".part-")?;
    let [incarnation, sequence, subtask, attempt, job] = fields[..] else { return None };
    let _ = (number(incarnation)?, number(sequence)?, number(subtask)?, u64::from_str_radix(attempt, 16).ok()?);
    u64::from_str_radix(job, 16).ok()
}

/// The checkpoint that this visible part belongs to; none if the name is not that of a part.
pub(super) fn checkpoint_of(name: &str) -> Option<u64> {
    numbers_of(name).map(|(_, checkpoint)| checkpoint)
}

/// The incarnation that wrote this visible part and the checkpoint that it belongs to; none if the name is not that of a part.
pub(super) fn numbers_of(name: &str) -> Option<(u32, u64)> {
    let numbers = fields(name, "part-")?.into_iter().map(number).collect::<Option<Vec<_>>>()?;
    match numbers[..] {
        [checkpoint, _] => Some((0, checkpoint)),
        [incarnation, checkpoint, _] => Some((u32::try_from(incarnation).ok()?, checkpoint)),
        _ => None,
    }
}

fn fields<'a>(name: &'a str, prefix: &str) -> Option<Vec<&'a str>> {
    let (stem, extension) = name.strip_prefix(prefix)?.split_once('.')?;
    (!extension.is_empty() && !extension.contains('.')).then(|| stem.split('-').collect())
}

/// A number as this module writes it: decimal digits only.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use tidemill_core::sink::WriterTask;

    use super::{checkpoint_of, hidden, job_of, numbers_of, visible};

    #[test]
    fn names_are_told_apart() {
        let task = |incarnation| WriterTask { subtask: 3, incarnation, attempt: 0xabc };
        assert_eq!(hidden(0xf, task(1), 7, "jsonl"), ".part-1-7-3-abc-f.jsonl");
        assert_eq!(visible(task(0), 12, "jsonl"), "part-12-3.jsonl");
        assert_eq!(visible(task(2), 12, "csv"), "part-2-12-3.csv");
        assert_eq!(job_of(&hidden(0xf, task(1), 7, "jsonl")), Some(0xf));
        let others = [
            ".part-1-7-3-abc.jsonl",
            ".part-1-7-3-xyz-f.jsonl",
            ".part-1-7-3-abc-f",
            "part-1-7.jsonl",
            ".part-1-7-3-abc-f.jsonl.swp",
            ".git",
        ];
        for name in others {
            assert_eq!(job_of(name), None, "{name}");
        }
        assert_eq!((numbers_of("part-12-3.jsonl"), checkpoint_of("part-12-3.jsonl")), (Some((0, 12)), Some(12)));
        assert_eq!(numbers_of("part-2-12-3.csv"), Some((2, 12)));
        for name in ["part-.jsonl", "part-1.jsonl", "part-1-2", "part-1-2-3-4.jsonl", "part-+1-2.jsonl", "part--1.jsonl", "notes.txt"] {
            assert_eq!(numbers_of(name), None, "{name}");
        }
    }
}
