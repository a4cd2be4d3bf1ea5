use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use tidemill_core::{Error, Kind};

use super::handles::Handles;
use super::shared::Shared;
use super::{FileFormat, FileSource, FileSourceConfig, LineDecode, OnGone, OnReplaced, Place, RowDecode};
use crate::codec::Row;

mod copies;
mod gone;
mod overwritten;
mod splits;

/// Takes any line that is UTF-8 without NUL and does not begin with `!`.
struct PlainLines;

impl LineDecode for PlainLines {
    fn decode(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(line);
        match std::str::from_utf8(line) {
            Ok(text) if text.contains('\0') => Err("NUL".to_owned()),
            Ok(text) if text.starts_with('!') => Err("not wanted".to_owned()),
            Ok(_) => Ok(()),
            Err(_) => Err("not UTF-8".to_owned()),
        }
    }
}

/// Joins the fields with `|`.
struct PlainRows;

impl RowDecode for PlainRows {
    fn set_header(&mut self, header: &Row) -> Result<(), String> {
        if header.get(0).is_some_and(|cell| cell.text == b"id") { Ok(()) } else { Err("column `id` is missing".to_owned()) }
    }

    fn blank_rows(&self) -> bool {
        false
    }

    fn decode(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
        for (index, field) in row.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"" } else { b"|" });
            out.extend_from_slice(field.text);
        }
        Ok(())
    }
}

const ALL: Limit = Limit { rows: usize::MAX, bytes: usize::MAX };

/// How to read what matches a pattern in a folder: split names are relative to it, and no time is given to files that are gone.
fn config(dir: &std::path::Path, pattern: &str, follow: bool) -> FileSourceConfig {
    FileSourceConfig {
        uid: "in".to_owned(),
        pattern: dir.join(pattern).to_str().unwrap().to_owned(),
        base: dir.to_owned(),
        follow,
        max_record_bytes: 1 << 20,
        timestamp: None,
        on_replaced: OnReplaced::Fail,
        on_gone: OnGone::Fail,
        gone_after: std::time::Duration::ZERO,
    }
}

/// A source of which so many files stay open.
fn source(config: FileSourceConfig, csv: bool, open: usize) -> FileSource {
    let format = if csv {
        FileFormat::Csv(Arc::new(|| Box::new(PlainRows) as Box<dyn RowDecode>))
    } else {
        FileFormat::Lines(Arc::new(|| Box::new(PlainLines) as Box<dyn LineDecode>))
    };
    FileSource { shared: Arc::new(Shared::new(config, Handles::new(open))), format }
}

struct Fixture {
    _root: TempDir,
    path: PathBuf,
    source: FileSource,
}

impl Fixture {
    fn new(content: &[u8], csv: bool, follow: bool, max_record_bytes: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("input");
        fs::write(&path, content).unwrap();
        let config = FileSourceConfig { max_record_bytes, ..config(root.path(), "input", follow) };
        Self { path, source: source(config, csv, 64), _root: root }
    }

    fn lines(content: impl AsRef<[u8]>) -> Self {
        Self::new(content.as_ref(), false, false, 1 << 20)
    }

    fn csv(content: impl AsRef<[u8]>) -> Self {
        Self::new(content.as_ref(), true, false, 1 << 20)
    }

    fn open(&self, position: u64) -> Result<Box<dyn SplitReader>, Error> {
        self.source.open(&Split { position, ..Split::new(&[], self.path.to_str().unwrap()) })
    }

    fn append(&self, bytes: &[u8]) {
        OpenOptions::new().append(true).open(&self.path).unwrap().write_all(bytes).unwrap();
    }

    /// All records as text with their lines, invalid ones as `line!raw (reason)`, by line.
    fn read(&self) -> Vec<String> {
        let mut rows = SourceRows::default();
        assert_eq!(self.open(0).unwrap().poll(ALL, &mut rows).unwrap(), Polled::End);
        texts(&rows).into_iter().map(|(_, text)| text).collect()
    }
}

/// Records by place, those of which only the byte is known as `@byte`.
fn texts(rows: &SourceRows) -> Vec<(u64, String)> {
    let place = |position: u64| match Place::of(position) {
        Place::Line(line) => line.to_string(),
        Place::Byte(byte) => format!("@{byte}"),
    };
    let valid = rows.position.iter().zip(rows.payload.view().iter());
    let mut all = valid.map(|(at, text)| (*at, format!("{}:{}", place(*at), String::from_utf8_lossy(text)))).collect::<Vec<_>>();
    let invalid = |row: &tidemill_core::source::InvalidRow| {
        (row.position, format!("{}!{} ({})", place(row.position), String::from_utf8_lossy(&row.raw), row.reason))
    };
    all.extend(rows.invalid.iter().map(invalid));
    all.sort();
    all
}

#[test]
fn lines_in_every_shape() {
    assert_eq!(Fixture::lines("").read(), [""; 0]);
    assert_eq!(Fixture::lines("a\nbc\n").read(), ["1:a", "2:bc"]);
    assert_eq!(Fixture::lines("a\r\nhalf").read(), ["1:a", "2:half"]);
    assert_eq!(Fixture::lines("\n \t\r\n\r\n\na\n\n").read(), ["5:a"]);
    assert_eq!(Fixture::lines("\u{feff}a\n\u{feff}b\n").read(), ["1:a", "2:\u{feff}b"]);
    assert_eq!(Fixture::lines(b"a\n\xff\xfe\nb\0c\nd\n").read(), ["1:a", "2!\u{fffd}\u{fffd} (not UTF-8)", "3!b\0c (NUL)", "4:d"]);
    assert_eq!(Fixture::lines("!a\nb").read(), ["1!!a (not wanted)", "2:b"]);
}

#[test]
fn rows_in_every_shape() {
    assert_eq!(Fixture::csv("").read(), [""; 0]);
    assert_eq!(Fixture::csv("id,b\n").read(), [""; 0]);
    assert_eq!(Fixture::csv("id,b").read(), [""; 0]);
    assert_eq!(Fixture::csv("id,b\n1,x\n2,y").read(), ["2:1|x", "3:2|y"]);
    assert_eq!(Fixture::csv("\u{feff}id,b\r\n1,x\r\n\r\n2,\r\n").read(), ["2:1|x", "4:2|"]);
    assert_eq!(Fixture::csv("id,b\n\"1\n\"\"2\",\"x,y\"\n3,z\n").read(), ["2:1\n\"2|x,y", "4:3|z"]);
    assert_eq!(
        Fixture::csv("id,b\n1\n2,y,z\n3,ok\n").read(),
        ["2!1 (the row has 1 fields, the header has 2)", "3!2,y,z (the row has 3 fields, the header has 2)", "4:3|ok"]
    );
    assert_eq!(
        Fixture::csv("id,b\n1,\"x\n2,y\n3,z\n").read(),
        ["2!1,\"x (a quote that is opened in this line is never closed)", "3:2|y", "4:3|z"]
    );
    let stray = "the row that begins in this line spans lines and does not fit the header: is a quote left open?";
    let open = "a quote that is opened in this line is never closed";
    let after = "text follows the quote that closes a field; a quote within quotes is written twice";
    for (rows, expected) in [
        // The quote that was left open in the first line is closed by one that opens a field of another row.
        ("1,\"x\n2,y\n3,\"4\"\n5,z\n", [format!("2!1,\"x ({after})"), "3:2|y".to_owned(), "4:3|4".to_owned(), "5:5|z".to_owned()]),
        ("1,\"x\n2,y\n3,\",4\"\n5,z\n", [format!("2!1,\"x ({stray})"), "3:2|y".to_owned(), "4:3|,4".to_owned(), "5:5|z".to_owned()]),
        (
            "1,\"x\n2,y\n3,\"\",4\n5,z\n",
            [
                format!("2!1,\"x ({open})"),
                "3:2|y".to_owned(),
                "4!3,\"\",4 (the row has 3 fields, the header has 2)".to_owned(),
                "5:5|z".to_owned(),
            ],
        ),
        ("1,\"x\n2,y\n3,\"\"\n5,z", [format!("2!1,\"x ({open})"), "3:2|y".to_owned(), "4:3|".to_owned(), "5:5|z".to_owned()]),
        ("1,x\n2,y\n3,z\n4,\"5\" ", ["2:1|x".to_owned(), "3:2|y".to_owned(), "4:3|z".to_owned(), format!("5!4,\"5\"  ({after})")]),
        ("1,x\n2,y\n3,z\n4,\"5", ["2:1|x".to_owned(), "3:2|y".to_owned(), "4:3|z".to_owned(), format!("5!4,\"5 ({open})")]),
    ] {
        assert_eq!(Fixture::csv(format!("id,b\n{rows}")).read(), expected, "{rows}");
    }
    for (header, expected) in [("id,\"b\"c\n", after), ("id,\"b\n", open)] {
        let error = Fixture::csv(header).open(0).err().unwrap();
        assert!(error.kind() == Kind::Config && error.chain().ends_with(&format!("input` does not fit: {expected}")), "{error}");
    }
    let error = Fixture::csv("no,b\n").open(0).err().unwrap();
    assert!(error.kind() == Kind::Config && error.chain().ends_with("input` does not fit: column `id` is missing"), "{error}");
}

#[test]
fn too_long_records_are_cut_and_nothing_else_is_lost() {
    let long = "x".repeat(3 << 20);
    let raw = &long[..64 << 10];
    for (end, csv) in [("\n", false), ("\r\n", false), ("\n", true)] {
        let head = if csv { "id\n" } else { "" };
        let content = format!("{head}a{end}{long}{end}b{end}{long}");
        let fixture = Fixture::new(content.as_bytes(), csv, false, 1 << 20);
        let found = fixture.read();
        let at = if csv { 3 } else { 2 };
        assert_eq!(found.len(), 4);
        let length = long.len() + end.len() - 1;
        let reason = format!("(the record has {length} bytes, more than max_record_bytes, 1048576 (raw holds only the first 65536 bytes))");
        assert!(found[1] == format!("{at}!{raw} {reason}"), "{} {}", &found[1][..20], &found[1][65_540..]);
        assert!(found[2].ends_with(":b") && found[3].contains("more than max_record_bytes"), "{}", found[2]);
    }
    let quoted = format!("id\na\n\"open\nb\n{}\nc\n", "y\n".repeat(100));
    let found = Fixture::new(quoted.as_bytes(), true, false, 1000).read();
    assert_eq!(found.len(), 104);
    assert!(found[1].starts_with("3!\"open (") && found[1].contains("never closed"), "{}", found[1]);
    let quoted = format!("id\na\n\"open\nb\n{}\nc\n", "y\n".repeat(1 << 20));
    let found = Fixture::new(quoted.as_bytes(), true, false, 64).read();
    assert_eq!(found.len(), 4 + (1 << 20));
    assert!(found[1].starts_with("3!\"open (the row that begins in this line has more than the limit of 64 bytes"), "{}", found[1]);
}

#[test]
fn a_line_just_at_the_limit_is_whole() {
    let limit = 300_000;
    let content = format!("{}\n{}\nend\n", "a".repeat(limit), "b".repeat(limit + 1));
    let found = Fixture::new(content.as_bytes(), false, false, limit).read();
    assert_eq!((found.len(), found[0].len(), &found[2][..]), (3, 2 + limit, "3:end"));
    assert!(found[1].contains("has 300001 bytes"));
}

#[test]
fn any_limits_and_any_restart_give_the_same_records() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..60 {
        let csv = round % 2 == 1;
        let mut content = if csv { "id,b\n".to_owned() } else { String::new() };
        for _ in 0..rng.usize(1..200) {
            let word = "w".repeat(if rng.u8(..) < 8 { rng.usize(..300_000) } else { rng.usize(..30) });
            let end = *rng.choice(&["\n", "\r\n", "\n\n"]).unwrap();
            match (csv, rng.bool()) {
                (false, _) => content.push_str(&format!("{word}{end}")),
                (true, false) => content.push_str(&format!("{word},2{end}")),
                (true, true) => content.push_str(&format!("\"{word}\n,\"\"\",2{end}")),
            }
        }
        let fixture = Fixture::new(content.as_bytes(), csv, false, 100_000);
        let mut whole = SourceRows::default();
        fixture.open(0).unwrap().poll(ALL, &mut whole).unwrap();

        let (mut reader, mut found) = (fixture.open(0).unwrap(), Vec::new());
        loop {
            let mut rows = SourceRows::default();
            let limit = Limit { rows: rng.usize(1..20), bytes: rng.usize(1..50_000) };
            let polled = reader.poll(limit, &mut rows).unwrap();
            assert!(rows.len() <= limit.rows);
            found.extend(texts(&rows));
            if polled == Polled::End {
                break;
            }
            if rng.bool() {
                let split = Split { position: reader.position(), mark: reader.mark(), ..Split::new(&[], "input") };
                reader = fixture.source.open(&split).unwrap();
            }
        }
        assert_eq!(found, texts(&whole), "round {round}");
    }
}

#[test]
fn a_followed_file_waits_for_whole_records() {
    for csv in [false, true] {
        let fixture = Fixture::new(b"", csv, true, 1 << 20);
        let mut reader = fixture.open(0).unwrap();
        let mut poll = || {
            let mut rows = SourceRows::default();
            assert_eq!(reader.poll(ALL, &mut rows).unwrap(), Polled::Pending);
            texts(&rows).into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(poll(), [""; 0]);
        fixture.append(b"i");
        assert_eq!(poll(), [""; 0]);
        fixture.append(b"d\n");
        assert_eq!(poll(), if csv { vec![] } else { vec!["1:id"] });
        fixture.append(b"first");
        assert_eq!(poll(), [""; 0]);
        fixture.append(b"\nsecond\nthi");
        assert_eq!(poll(), ["2:first", "3:second"]);
        fixture.append(b"rd\n");
        assert_eq!(poll(), ["4:third"]);
        assert_eq!(reader.position(), 22);
    }
}

#[test]
fn where_the_lines_before_are_not_known_a_place_is_a_byte() {
    let fixture = Fixture::lines("a\nb\n!c\n");
    let mut rows = SourceRows::default();
    // As a checkpoint of an earlier version has it.
    fixture.open(2).unwrap().poll(ALL, &mut rows).unwrap();
    assert_eq!(texts(&rows).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["@2:b", "@4!!c (not wanted)"]);
    let place = |position| fixture.source.place("data/a\nb.jsonl", position);
    assert_eq!(place(rows.position[0]), "data/a\\nb.jsonl byte 2");
    assert_eq!(place(Place::Line(7).position()), "data/a\\nb.jsonl line 7");
}
