//! What the sinks' encoders write, the sources read back.

use std::path::Path;

use fastrand::Rng;
use tidemill_core::schema::samples::{basket, everything, field, random_value, structure, tree};
use tidemill_core::schema::{FieldPath, validate, walk};
use tidemill_core::source::{Limit, Polled, SourceRows, Split};
use tidemill_wit::schema::{Content, NamedType, Shape, Type, TypeTable, Variant};

use crate::codec::{CsvEncoder, JsonEncoder};
use crate::source::file::{OnGone, OnReplaced};
use crate::spec::error::{At, Place};
use crate::spec::job::{FileSource, Format, Source, SourceConnector, Watermark};

/// Reads a file of records of a type.
fn read(path: &Path, format: Format, table: &TypeTable, timestamp: Option<FieldPath>) -> SourceRows {
    let pattern = At { value: path.to_str().unwrap().to_owned(), at: Place::Whole };
    let file = FileSource {
        pattern,
        base: path.parent().unwrap().to_owned(),
        format,
        follow: false,
        max_record_bytes: 1 << 20,
        on_replaced: OnReplaced::Fail,
        on_gone: OnGone::Fail,
    };
    let spec = Source {
        uid: At { value: "in".to_owned(), at: Place::Whole },
        connector: SourceConnector::File(file),
        max_rate: None,
        timestamp: None,
        watermark: Watermark::default(),
        on_invalid: None,
        max_invalid: None,
    };
    let source = super::source(&spec, table, timestamp).unwrap();
    let mut rows = SourceRows::default();
    let mut reader = source.open(&Split::new(&[], path.to_str().unwrap())).unwrap();
    assert_eq!(reader.poll(Limit { rows: usize::MAX, bytes: usize::MAX }, &mut rows).unwrap(), Polled::End);
    rows
}

fn assert_comes_back(table: &TypeTable, random: &mut Rng, folder: &Path) {
    let values: Vec<Vec<u8>> = (0..40)
        .map(|_| {
            let mut payload = Vec::new();
            random_value(table, &table.root, &mut || random.u64(..), &mut payload);
            walk::check(table, &payload).unwrap();
            payload
        })
        .collect();
    let mut encoder = CsvEncoder::new(table.clone()).unwrap();
    let (mut csv, mut json) = (encoder.header(), Vec::new());
    csv.push(b'\n');
    for payload in &values {
        encoder.encode(payload, &mut csv).unwrap();
        csv.push(b'\n');
        JsonEncoder::new(table.clone()).encode(payload, &mut json).unwrap();
        json.push(b'\n');
    }
    for (format, text) in [(Format::Csv, csv), (Format::Json, json)] {
        let path = folder.join("written");
        std::fs::write(&path, &text).unwrap();
        let rows = read(&path, format, table, None);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(rows.invalid, [], "{format:?} {table:?}\n{text}");
        let found: Vec<Vec<u8>> = rows.payload.view().iter().map(<[u8]>::to_vec).collect();
        assert_eq!(found, values, "{format:?} {table:?}\n{text}");
    }
}

/// Types of every kind. A null in JSON stands for one thing only, so an option within JSON holds nothing that is null itself.
struct Types<'a> {
    random: &'a mut Rng,
    types: Vec<NamedType>,
}

impl Types<'_> {
    fn name(&mut self, index: usize) -> String {
        let odd = ["", "", "", " ", ",", "\"", "\n", "\u{e9}", "{", "\u{feff}"];
        let (before, after) = (self.random.choice(odd).unwrap(), self.random.choice(odd).unwrap());
        format!("{before}n{index}{after}")
    }

    fn named(&mut self, shape: Shape) -> Type {
        self.types.push(NamedType { name: "Named".to_owned(), shape });
        Type::Named(u32::try_from(self.types.len() - 1).unwrap())
    }

    fn some(&mut self, depth: u32) -> Vec<Type> {
        (0..self.random.usize(1..4)).map(|_| self.ty(depth, false)).collect()
    }

    fn ty(&mut self, depth: u32, in_option: bool) -> Type {
        let plain = [
            Type::Bool,
            Type::I8,
            Type::I16,
            Type::I32,
            Type::I64,
            Type::U8,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::F32,
            Type::F64,
            Type::String,
            Type::Bytes,
            Type::Duration,
        ];
        if depth == 0 || self.random.u8(..3) == 0 {
            return self.random.choice(plain).unwrap();
        }
        match self.random.u8(..9) {
            0 | 1 if !in_option => Type::Option(Box::new(self.ty(depth - 1, true))),
            2 if !in_option => Type::Unit,
            3 => Type::List(Box::new(self.ty(depth - 1, false))),
            4 => Type::Map(Box::new(self.ty(depth - 1, false)), Box::new(self.ty(depth - 1, false))),
            5 => Type::Tuple(self.some(depth - 1)),
            6 => {
                let shape = Shape::Newtype(self.ty(depth - 1, in_option));
                self.named(shape)
            }
            7 => {
                let fields = self.some(depth - 1).into_iter().enumerate().map(|(index, ty)| field(&self.name(index), ty)).collect();
                self.named(Shape::Struct(fields))
            }
            _ => {
                let variants = self.some(depth - 1).into_iter().enumerate().map(|(index, ty)| {
                    let content = match self.random.u8(..5) {
                        0 => Content::Newtype(ty),
                        1 => Content::Tuple(vec![ty, Type::U8]),
                        2 => Content::Struct(vec![field("x", ty)]),
                        _ => Content::Unit,
                    };
                    let name = if index == 0 && self.random.bool() { String::new() } else { self.name(index) };
                    Variant { name, aliases: Vec::new(), content }
                });
                let shape = Shape::Enum(variants.collect());
                self.named(shape)
            }
        }
    }

    /// A struct. An option that is a column of its own may hold anything, since a null is not the same as nothing there.
    fn record(mut self) -> Option<TypeTable> {
        let fields = (0..self.random.usize(1..5)).map(|index| {
            let ty = if self.random.u8(..3) == 0 { Type::Option(Box::new(self.ty(3, true))) } else { self.ty(3, false) };
            field(&self.name(index), ty)
        });
        let mut fields: Vec<_> = fields.collect();
        let mut table = TypeTable { types: self.types, root: Type::Unit };
        for field in &mut fields {
            if self.random.u8(..3) > 0 {
                continue;
            }
            let mut default = Vec::new();
            random_value(&table, &field.ty, &mut || self.random.u64(..), &mut default);
            field.default = Some(default);
        }
        table.root = Type::Named(u32::try_from(table.types.len()).unwrap());
        table.types.push(structure("Record", fields));
        validate(&table).is_ok().then_some(table)
    }
}

#[test]
fn records_of_any_type_come_back_from_csv_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Rng::with_seed(11);
    for table in [basket(), tree(), everything()] {
        (0..20).for_each(|_| assert_comes_back(&table, &mut random, folder.path()));
    }
    let mut tried = 0;
    while tried < 600 {
        let types = Types { random: &mut random, types: Vec::new() };
        if let Some(table) = types.record() {
            assert_comes_back(&table, &mut random, folder.path());
            tried += 1;
        }
    }
}

#[test]
fn nothing_and_a_null_and_an_empty_text_are_three_values_of_a_column() {
    let option = |ty| Type::Option(Box::new(ty));
    let folder = tempfile::tempdir().unwrap();
    for (ty, values, text) in [
        (option(Type::String), vec![vec![0], vec![1, 0], vec![1, 4, b'n', b'u', b'l', b'l']], "f\n\n\"\"\nnull\n"),
        (option(option(Type::U8)), vec![vec![0], vec![1, 0], vec![1, 1, 7]], "f\n\nnull\n7\n"),
        (option(Type::Unit), vec![vec![0], vec![1]], "f\n\nnull\n"),
        (option(Type::Bytes), vec![vec![0], vec![1, 0], vec![1, 1, 255]], "f\n\n\"\"\n/w==\n"),
        (Type::String, vec![vec![0], vec![1, b' ']], "f\n\"\"\n \n"),
    ] {
        let table = TypeTable { types: vec![structure("One", vec![field("f", ty)])], root: Type::Named(0) };
        let mut encoder = CsvEncoder::new(table.clone()).unwrap();
        let mut csv = [&encoder.header()[..], b"\n"].concat();
        for value in &values {
            encoder.encode(value, &mut csv).unwrap();
            csv.push(b'\n');
        }
        assert_eq!(String::from_utf8(csv.clone()).unwrap(), text);
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let path = folder.path().join("written");
            std::fs::write(&path, &text).unwrap();
            let rows = read(&path, Format::Csv, &table, None);
            assert_eq!(
                (rows.payload.view().iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), rows.invalid),
                (values.clone(), vec![]),
                "{text:?}"
            );
        }
    }
}

#[test]
fn a_record_without_its_time_keeps_its_original_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let optional = Type::Option(Box::new(Type::U64));
    let table = TypeTable { types: vec![structure("R", vec![field("ts", optional), field("s", Type::String)])], root: Type::Named(0) };
    let path = || Some(FieldPath::resolve(&table, "ts").unwrap().as_timestamp().unwrap());
    for (format, text, raws) in [
        (
            Format::Json,
            &b"{\"s\":\"a\"}\r\n {\"ts\" : null, \"s\":\"b\"} \n{\"ts\":1,\"s\":\"\"}\n{\"ts\":18446744073709551615,\"s\":\"c\"}\n{\"ts\":-0,\"s\":\"\xFF\"}"[..],
            [&b"{\"s\":\"a\"}"[..], b" {\"ts\" : null, \"s\":\"b\"} ", b"{\"ts\":18446744073709551615,\"s\":\"c\"}", b"{\"ts\":-0,\"s\":\"\xFF\"}"],
        ),
        (
            Format::Csv,
            b"ts,s,other\n, a ,\"x\"\n\"\",\"b\nc\",\n1,,\n18446744073709551615,c,\n-0,\xFF,",
            [b", a ,\"x\"", b"\"\",\"b\nc\",", b"18446744073709551615,c,", b"-0,\xFF,"],
        ),
    ] {
        let file = folder.path().join("in");
        std::fs::write(&file, text).unwrap();
        let rows = read(&file, format, &table, path());
        assert_eq!(rows.invalid.iter().map(|row| &row.raw[..]).collect::<Vec<_>>(), raws);
        let reasons: Vec<&str> = rows.invalid.iter().map(|row| &*row.reason).collect();
        assert_eq!(reasons[..2], ["the timestamp is missing"; 2]);
        assert!(reasons[2].contains("is beyond the range of a timestamp") && reasons[3].contains("not UTF-8"), "{reasons:?}");
        assert_eq!(rows.time, [Some(1)]);
    }
}
