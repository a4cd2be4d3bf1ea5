//! What a manifest must satisfy before anything is done with it. A savepoint may come from anywhere, so its numbers and names may be made to
//! hurt: its checksum says only that it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Component, Path};

use tidemill_wit::descriptor::StateKind;
use tidemill_wit::schema::TypeTable;

use super::manifest::{Manifest, OperatorState, SourcePositions, StateFile, StoredState};
use super::snapshot::Snapshot;
use crate::key_group::{MAX_PARALLELISM_LIMIT, hash_key, key_group, range_of};
use crate::schema::key::key_type_allowed;
use crate::schema::validate;
use crate::state::layout::{Item, Reader};
use crate::{Error, Result};

/// No count and no id is larger, so that the next one and small sums are numbers too.
const MOST: u64 = u64::MAX / 2;
/// The same for numbers of 32 bits.
const MOST_32: u32 = u32::MAX / 2;
/// Names that a job spec gives are not longer.
const LONGEST_NAME: usize = 100;
/// State ids are numbers of 8 bits.
const MOST_STATES: usize = 256;

/// Checks that all numbers are in range, that what must be there once is there once, and that no path leads out of the folder.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub(super) fn check(manifest: &Manifest) -> Result<(), String> {
    names(manifest)?;
    numbers(manifest)?;
    files(manifest)?;
    unique("source", manifest.sources.iter().map(|source| source.uid.as_str()))?;
    manifest.sources.iter().try_for_each(|source| splits(source).map_err(|reason| format!("of source {}: {reason}", source.uid)))?;
    unique("operator", manifest.operators.iter().map(|operator| operator.uid.as_str()))?;
    manifest.operators.iter().try_for_each(|state| operator(state).map_err(|reason| format!("of operator {}: {reason}", state.uid)))?;
    databases(manifest)?;
    unique("sink", manifest.sinks.iter().map(|sink| sink.uid.as_str()))
}

impl Manifest {
    /// Checks that a state file, which has the checksum that was written, holds what the manifest says: the part of its worker, in the key
    /// groups that the worker had.
    ///
    /// # Errors
    /// It is of another checkpoint or worker, or holds an operator or a key that it cannot hold.
    pub fn check_snapshot(&self, file: &StateFile, snapshot: &Snapshot<'_>) -> Result<()> {
        let corrupt = |what: String| Error::corrupt(format!("state file {} {what}", file.path));
        if (snapshot.checkpoint, snapshot.worker) != (self.checkpoint, file.worker) {
            let (checkpoint, worker) = (snapshot.checkpoint, snapshot.worker);
            return Err(corrupt(format!("belongs to worker {worker} of checkpoint {checkpoint}, not to those of the manifest")));
        }
        let range = range_of(file.worker, self.max_parallelism, self.parallelism);
        for operator in &snapshot.operators {
            let uid = operator.uid;
            let Some(stored) = self.operators.iter().find(|stored| stored.uid == uid) else {
                return Err(corrupt(format!("holds operator {uid}, which the manifest does not describe")));
            };
            for (group, content) in &operator.groups {
                if !range.contains(&u32::from(group.0)) {
                    return Err(corrupt(format!("holds key group {} of operator {uid}, which is not one of its worker's", group.0)));
                }
                // One key tells whether the number of key groups is what it was.
                if stored.key.is_some()
                    && let Some(Item::Key(key)) = Reader::new(*group, content)?.next()?
                    && key_group(hash_key(key), self.max_parallelism) != *group
                {
                    return Err(corrupt(format!("holds a key of operator {uid} in key group {}, to which it does not belong", group.0)));
                }
            }
        }
        Ok(())
    }
}

/// Names go into paths and messages, so each holds only what the job spec or a component may have given it: see `spec/read/mod.rs` and
/// `guest/describe.rs` of the host.
fn names(manifest: &Manifest) -> Result<(), String> {
    let Manifest { job, sources, operators, sinks, files, databases, .. } = manifest;
    name("the job's name", job)?;
    sources.iter().try_for_each(|source| name("the uid of a source", &source.uid))?;
    operators.iter().try_for_each(|operator| name("the uid of an operator", &operator.uid))?;
    operators.iter().try_for_each(|operator| name("the digest of a component", &operator.component))?;
    sinks.iter().try_for_each(|sink| name("the uid of a sink", &sink.uid))?;
    let states = operators.iter().flat_map(|operator| operator.states.iter().chain(&operator.broadcast_states));
    states.map(|state| &state.name).try_for_each(|name| text("the name of a state", name))?;
    let stored = || databases.iter().flat_map(|database| &database.files);
    let paths = files.iter().map(|file| &file.path).chain(stored().flat_map(|file| [&file.path, &file.name]));
    paths.into_iter().try_for_each(|path| text("the path of a file", path))?;
    let mut checksums = files.iter().map(|file| &file.checksum).chain(stored().map(|file| &file.checksum));
    checksums.try_for_each(|checksum| name("a checksum", checksum))
}

/// Checks what a job spec names. An empty name stands for one that a manifest of tests does not have.
fn name(what: &str, name: &str) -> Result<(), String> {
    // A dot within is what the source of broadcast records has in a test case.
    let allowed = !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    match name.len() {
        length if length > LONGEST_NAME => Err(format!("{what}, of {length} characters, where {LONGEST_NAME} are the most")),
        _ if !allowed => Err(format!("{what} {name:?}, which no job spec can give")),
        _ => Ok(()),
    }
}

/// Checks what a component or a backend names.
fn text(what: &str, text: &str) -> Result<(), String> {
    if text.chars().any(char::is_control) { Err(format!("{what} {text:?}, with control characters")) } else { Ok(()) }
}

fn numbers(manifest: &Manifest) -> Result<(), String> {
    let Manifest { parallelism, max_parallelism, checkpoint, incarnation, records_in, .. } = manifest;
    if !(1..=MAX_PARALLELISM_LIMIT).contains(max_parallelism) {
        return Err(format!("max_parallelism {max_parallelism}, which is not between 1 and {MAX_PARALLELISM_LIMIT}"));
    }
    if !(1..=*max_parallelism).contains(parallelism) {
        return Err(format!("parallelism {parallelism}, which is not between 1 and the max_parallelism {max_parallelism}"));
    }
    let previous = manifest.previous.as_ref().map_or(0, |previous| previous.checkpoint);
    for (what, number) in [("checkpoint id", *checkpoint), ("previous checkpoint id", previous), ("records_in", *records_in)] {
        if number > MOST {
            return Err(format!("{what} {number}, which is more than {MOST}"));
        }
    }
    if *incarnation > MOST_32 {
        return Err(format!("incarnation {incarnation}, which is more than {MOST_32}"));
    }
    Ok(())
}

/// The state files, one of each worker, and the length of everything.
fn files(manifest: &Manifest) -> Result<(), String> {
    let stored = manifest.databases.iter().flat_map(|database| &database.files);
    let all = manifest.files.iter().map(|file| (&file.path, file.bytes, &file.checksum));
    let (mut known, mut sum) = (BTreeMap::new(), 0u64);
    for (path, bytes, checksum) in all.chain(stored.map(|file| (&file.path, file.bytes, &file.checksum))) {
        if path.is_empty() || !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("the file {path}, outside of its folder"));
        }
        if *known.entry(path).or_insert((bytes, checksum)) != (bytes, checksum) {
            return Err(format!("the file {path} twice, with different content"));
        }
        sum = sum.checked_add(bytes).filter(|sum| *sum <= MOST).ok_or_else(|| format!("files of more than {MOST} bytes"))?;
    }
    unique("state file of worker", manifest.files.iter().map(|file| file.worker))?;
    if let Some(file) = manifest.files.iter().find(|file| file.worker >= manifest.parallelism) {
        return Err(format!("a state file of worker {}, though its parallelism is {}", file.worker, manifest.parallelism));
    }
    // Each worker writes one, also if it has no state: without them, all state would be dropped and nobody would be told. Only manifests of
    // tests have none.
    let is_bare = manifest.files.is_empty() && manifest.operators.is_empty();
    if !is_bare && manifest.files.len() != manifest.parallelism as usize {
        return Err(format!("{} state files, though its parallelism is {}", manifest.files.len(), manifest.parallelism));
    }
    Ok(())
}

fn databases(manifest: &Manifest) -> Result<(), String> {
    unique("database", manifest.databases.iter().map(|database| format!("{} of worker {}", database.operator, database.worker)))?;
    for database in &manifest.databases {
        let operator = &database.operator;
        if database.worker >= manifest.parallelism {
            return Err(format!("a database of worker {}, though its parallelism is {}", database.worker, manifest.parallelism));
        }
        if !manifest.operators.iter().any(|known| known.uid == *operator) {
            return Err(format!("a database of operator {operator}, which it does not describe"));
        }
        let mut known = BTreeMap::new();
        for file in &database.files {
            if file.name.is_empty() || file.name.contains(['/', '\\', '\0']) || file.name.starts_with("..") || file.name == "." {
                return Err(format!("a file {} in a database, which no state has", file.name));
            }
            if *known.entry(&file.name).or_insert(&file.path) != &file.path {
                return Err(format!("the file {} of a database twice, with different content", file.name));
            }
        }
    }
    Ok(())
}

fn splits(source: &SourcePositions) -> Result<(), String> {
    let (mut last, mut known) = (None, BTreeSet::new());
    for split in &source.splits {
        if last.is_some_and(|last| last >= split.id) || split.id > MOST_32 {
            let (name, id) = (split.name.escape_debug(), split.id);
            return Err(format!("split {name} has the id {id}, which does not follow the one before or is too high"));
        }
        last = Some(split.id);
        if i64::try_from(split.position).is_err() {
            return Err(format!("split {} has the position {}, which nothing has", split.name.escape_debug(), split.position));
        }
        // One that has ended may be followed by one that reads the same file on, after it came back.
        if !split.finished && !known.insert((&split.name, &split.identity)) {
            return Err(format!("split {} is there twice", split.name.escape_debug()));
        }
    }
    Ok(())
}

fn operator(operator: &OperatorState) -> Result<(), String> {
    let all = || operator.states.iter().chain(&operator.broadcast_states);
    unique("state", all().map(|state| state.name.as_str()))?;
    if operator.states.len().max(operator.broadcast_states.len()) > MOST_STATES {
        return Err(format!("more than {MOST_STATES} states"));
    }
    if let Some(key) = &operator.key {
        key_type(key).map_err(|reason| format!("its key: {reason}"))?;
    }
    all().try_for_each(|stored| state(stored).map_err(|reason| format!("state {}: {reason}", stored.name)))
}

fn state(state: &StoredState) -> Result<(), String> {
    if StateKind::from_code(state.kind).is_none() {
        return Err(format!("kind {}, which no state has", state.kind));
    }
    validate(&state.value)?;
    state.entry_key.as_ref().map_or(Ok(()), key_type)
}

fn key_type(table: &TypeTable) -> Result<(), String> {
    validate(table)?;
    key_type_allowed(table, &table.root)
}

fn unique<T: Ord + Display>(what: &str, items: impl Iterator<Item = T>) -> Result<(), String> {
    let mut known = BTreeSet::new();
    for item in items {
        if known.contains(&item) {
            return Err(format!("{what} {item} twice"));
        }
        known.insert(item);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, MOST, MOST_32, MOST_STATES, check};
    use crate::checkpoint::manifest::{
        FileFormat, Manifest, OperatorState, Previous, SourcePositions, StateFile, StoredDatabase, StoredFile, StoredState,
    };
    use crate::checkpoint::snapshot::{OperatorSnapshot, Snapshot};
    use crate::key_group::KeyGroup;
    use crate::source::Split;
    use tidemill_wit::schema::{Type, TypeTable};

    /// Changes something so that it cannot be.
    type Change<T> = fn(&mut T);

    fn table(root: Type) -> TypeTable {
        TypeTable { types: vec![], root }
    }

    fn sample() -> Manifest {
        let file = |worker: u32| StateFile {
            path: format!("worker-{worker}.state"),
            worker,
            bytes: 3,
            checksum: "aa".to_owned(),
            unused_base: None,
        };
        let stored = StoredFile { name: "000".to_owned(), path: "shared/000".to_owned(), bytes: 4, checksum: "bb".to_owned() };
        let state = |name: &str| StoredState { name: name.to_owned(), kind: 0, value: table(Type::I64), entry_key: None };
        Manifest {
            files: vec![file(0), file(1)],
            // A file that has two places in a database, as content that came twice has.
            databases: vec![StoredDatabase {
                operator: "op".to_owned(),
                worker: 1,
                format: FileFormat::KeyGroups,
                files: vec![stored.clone(), stored],
            }],
            sources: vec![SourcePositions {
                uid: "in".to_owned(),
                splits: vec![Split::new(&[], "a"), Split { id: 3, ..Split::new(&[], "b") }],
            }],
            operators: vec![OperatorState {
                uid: "op".to_owned(),
                component: String::new(),
                one_nan: true,
                key: Some(table(Type::String)),
                states: vec![state("a"), state("b")],
                broadcast_states: vec![],
            }],
            parallelism: 2,
            max_parallelism: 128,
            ..Manifest::default()
        }
    }

    #[test]
    fn a_manifest_as_jobs_write_it_is_taken() {
        assert_eq!(check(&sample()), Ok(()));
        assert_eq!(check(&Manifest::default()), Ok(()));
        // The file of a split that has ended came back under its name.
        let mut manifest = sample();
        manifest.sources[0].splits = vec![
            Split { finished: true, ..Split::new(&[], "a") },
            Split { id: 1, finished: true, ..Split::new(&[], "a") },
            Split { id: 2, ..Split::new(&[], "a") },
        ];
        assert_eq!(check(&manifest), Ok(()));
    }

    #[test]
    fn whatever_cannot_be_is_refused() {
        let changes: [(&str, Change<Manifest>); 37] = [
            ("max_parallelism 4294967295", |m| m.max_parallelism = u32::MAX),
            ("max_parallelism 0", |m| m.max_parallelism = 0),
            ("parallelism 0", |m| m.parallelism = 0),
            ("parallelism 129", |m| m.parallelism = 129),
            ("2 state files, though its parallelism is 3", |m| m.parallelism = 3),
            ("state file of worker 1, though", |m| m.parallelism = 1),
            ("checkpoint id 18446744073709551615", |m| m.checkpoint = u64::MAX),
            ("previous checkpoint id", |m| m.previous = Some(Previous { checkpoint: u64::MAX, manifest: String::new() })),
            ("records_in", |m| m.records_in = u64::MAX),
            ("incarnation 4294967295", |m| m.incarnation = u32::MAX),
            ("state file of worker 0 twice", |m| m.files[1].worker = 0),
            ("../x, outside of its folder", |m| m.files[0].path = "../x".to_owned()),
            ("/etc/passwd, outside of its folder", |m| m.databases[0].files[0].path = "/etc/passwd".to_owned()),
            ("worker-0.state twice, with different", |m| (m.files[1].path, m.files[1].bytes) = (m.files[0].path.clone(), 9)),
            ("files of more than", |m| (m.files[0].bytes, m.files[1].bytes) = (u64::MAX, u64::MAX)),
            ("database op of worker 1 twice", |m| m.databases.push(m.databases[0].clone())),
            ("a database of worker 2", |m| m.databases[0].worker = 2),
            ("a database of operator other", |m| m.databases[0].operator = "other".to_owned()),
            ("a file ../y in a database", |m| m.databases[0].files[0].name = "../y".to_owned()),
            ("the file 000 of a database twice", |m| m.databases[0].files[1].path = "shared/001".to_owned()),
            ("source in twice", |m| m.sources.push(m.sources[0].clone())),
            ("split b has the id 0", |m| m.sources[0].splits[1].id = 0),
            ("split b has the id 4294967295", |m| m.sources[0].splits[1].id = u32::MAX),
            ("has the position 18446744073709551615", |m| m.sources[0].splits[0].position = u64::MAX),
            ("split a is there twice", |m| m.sources[0].splits[1].name = "a".to_owned()),
            ("operator op twice", |m| m.operators.push(m.operators[0].clone())),
            ("0 state files, though its parallelism is 2", |m| m.files.clear()),
            ("0 state files, though its parallelism is 2", |m| (m.end_of_input, m.files) = (true, vec![])),
            (r#"the job's name "\u{1b}[31mj""#, |m| m.job = "\x1b[31mj".to_owned()),
            ("the job's name, of 101 characters", |m| m.job = "j".repeat(101)),
            (r#"the uid of a source "\u{1b}[31m""#, |m| m.sources[0].uid = "\x1b[31m".to_owned()),
            (r#"the uid of an operator "a/b""#, |m| m.operators[0].uid = "a/b".to_owned()),
            (r#"the uid of an operator "..""#, |m| m.operators[0].uid = "..".to_owned()),
            ("the digest of a component", |m| m.operators[0].component = "\u{9b}".to_owned()),
            (r#"the name of a state "\nx""#, |m| m.operators[0].states[0].name = "\nx".to_owned()),
            ("the path of a file", |m| m.databases[0].files[0].path = "shared/\x1b".to_owned()),
            ("a checksum", |m| m.files[0].checksum = "\x1b".to_owned()),
        ];
        for (reason, change) in changes {
            let mut manifest = sample();
            change(&mut manifest);
            let refused = check(&manifest).unwrap_err();
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
    }

    #[test]
    fn the_highest_numbers_and_longest_names_are_taken() {
        let mut manifest = sample();
        (manifest.checkpoint, manifest.records_in, manifest.incarnation) = (MOST, MOST, MOST_32);
        manifest.job = "j".repeat(LONGEST_NAME);
        manifest.sources[0].splits[1].id = MOST_32;
        let state = manifest.operators[0].states[0].clone();
        let states = (0..MOST_STATES).map(|number| StoredState { name: format!("s{number}"), ..state.clone() });
        manifest.operators[0].states = states.collect();
        assert_eq!(check(&manifest), Ok(()));
    }

    #[test]
    fn a_state_file_of_another_worker_checkpoint_or_job_is_refused() {
        let mut manifest = Manifest { checkpoint: 7, ..sample() };
        // The content of the groups is not what this is about.
        manifest.operators[0].key = None;
        let check = |checkpoint, worker, uid, group| {
            let operators = vec![OperatorSnapshot { uid, pass: None, groups: vec![(KeyGroup(group), &[][..])], broadcast: &[] }];
            let file = &manifest.files[1];
            manifest.check_snapshot(file, &Snapshot { checkpoint, worker, operators }).map_err(|error| error.chain())
        };
        // Of two workers, the second has the upper half of 128 groups.
        assert_eq!((check(7, 1, "op", 64), check(7, 1, "op", 127)), (Ok(()), Ok(())));
        let refused =
            [check(8, 1, "op", 64), check(7, 0, "op", 64), check(7, 1, "other", 64), check(7, 1, "op", 63), check(7, 1, "op", 128)];
        let reasons = ["of checkpoint 8", "worker 0 of checkpoint 7", "operator other", "key group 63", "key group 128"];
        for (refused, reason) in refused.into_iter().zip(reasons) {
            assert!(refused.unwrap_err().contains(reason), "{reason}");
        }
    }

    #[test]
    fn names_that_no_file_of_a_database_has_are_refused() {
        for name in ["", ".", "..", "a/b", "a\\b", "a\0b"] {
            let mut manifest = sample();
            manifest.databases[0].files[0].name = name.to_owned();
            let refused = check(&manifest).unwrap_err();
            assert!(refused.contains("in a database, which no state has") || refused.contains("control characters"), "{name}: {refused}");
        }
    }

    #[test]
    fn types_and_kinds_that_cannot_be_are_refused() {
        let changes: [(&str, Change<OperatorState>); 5] = [
            ("state a twice", |o| o.states[1].name = "a".to_owned()),
            ("kind 9", |o| o.states[0].kind = 9),
            ("state a:", |o| o.states[0].value.root = Type::Named(7)),
            ("its key:", |o| o.key = Some(table(Type::Named(0)))),
            ("state b:", |o| o.states[1].entry_key = Some(table(Type::Named(0)))),
        ];
        for (reason, change) in changes {
            let mut manifest = sample();
            change(&mut manifest.operators[0]);
            let refused = check(&manifest).unwrap_err();
            assert!(refused.contains("of operator op: ") && refused.contains(reason), "{reason}: {refused}");
        }
    }
}
