use tidemill_core::schema::samples::{everything, field, structure};
use tidemill_wit::schema::{Type, TypeTable};

use super::{Cell, CsvDecoder, CsvEncoder, Row};
use crate::codec::{from_value, to_value};

fn table() -> TypeTable {
    let mut fields = vec![
        field("id", Type::I64),
        field("name", Type::String),
        field("note", Type::Option(Box::new(Type::String))),
        field("level", Type::U8),
    ];
    fields[3].default = Some(vec![7]);
    TypeTable { types: vec![structure("Row", fields)], root: Type::Named(0) }
}

/// A row of cells, of which those that begin with `"` are in quotes.
fn row(cells: &[&str]) -> Row {
    let mut row = Row::default();
    for cell in cells {
        let text = cell.strip_prefix('"');
        row.push(Cell { text: text.unwrap_or(cell).as_bytes(), quoted: text.is_some() });
    }
    row
}

fn decode_as(table: &TypeTable, header: &[&str], cells: &[&str]) -> Result<serde_json::Value, String> {
    let mut decoder = CsvDecoder::new(table.clone())?;
    decoder.set_header(&row(header))?;
    let mut out = Vec::new();
    decoder.decode(&row(cells), &mut out)?;
    to_value(table, &out)
}

fn decode(header: &[&str], cells: &[&str]) -> Result<serde_json::Value, String> {
    decode_as(&table(), header, cells)
}

#[test]
fn columns_are_found_by_name() {
    let found = decode(&["name", "extra", " id "], &["12", "x", "-3"]).unwrap();
    assert_eq!(found, serde_json::json!({"id": -3, "name": "12", "note": null, "level": 7}));
    let full = decode(&["id", "name", "note", "level"], &["1", "", "true", "9"]).unwrap();
    assert_eq!(full, serde_json::json!({"id": 1, "name": "", "note": "true", "level": 9}));
    assert_eq!(decode(&["id", "name", "note", "level"], &["1", "a", "", ""]).unwrap()["level"], 7);
}

#[test]
fn what_does_not_fit_names_its_column() {
    let cases: [(&[&str], &[&str], &str); 5] = [
        (&["name"], &["a"], "column `id` is missing; the file has name"),
        (&["id", "name"], &["", "a"], "column `id`: the cell is empty"),
        (&["id", "name"], &["\"", "a"], "column `id`: the cell is empty"),
        (&["id", "name", "id"], &["1", "a", "2"], "column `id` is there twice"),
        (&["id", "name", "level"], &["1", "a", "300"], "column `level`"),
    ];
    for (header, row, expected) in cases {
        let found = decode(header, row).unwrap_err();
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn cells_in_quotes_are_texts_where_a_text_can_be_empty() {
    let found = |note| decode(&["id", "name", "note"], &["1", "a", note]).unwrap()["note"].clone();
    assert_eq!([found(""), found("\""), found("null")], [serde_json::Value::Null, "".into(), "null".into()]);
    let options = [Type::I64, Type::Duration, Type::F64].map(|ty| field("f", Type::Option(Box::new(ty))));
    for field in options {
        let table = TypeTable { types: vec![structure("Row", vec![field])], root: Type::Named(0) };
        assert_eq!(
            decode_as(&table, &["f"], &["\""]).unwrap(),
            serde_json::json!({ "f": null }),
            "as programs write it that put everything in quotes"
        );
    }
}

#[test]
fn durations_need_their_unit_and_floats_may_be_special() {
    let table =
        TypeTable { types: vec![structure("Row", vec![field("wait", Type::Duration), field("f", Type::F32)])], root: Type::Named(0) };
    let decode = |wait, f| decode_as(&table, &["wait", "f"], &[wait, f]);
    assert_eq!(decode("-30m", "-0").unwrap(), serde_json::json!({"wait": -1_800_000, "f": -0.0}));
    for text in ["NaN", "Infinity", "-Infinity"] {
        assert_eq!(decode("0s", text).unwrap()["f"], text);
    }
    assert_eq!(decode("60", "1").unwrap_err(), "column `wait`: 60 has no unit: write 60s or 60ms");
    assert_eq!(decode("1s", "\"nan").unwrap_err(), "column `f`: the cell is no f32: expected ident (column 2)");
}

#[test]
fn rows_are_written_and_quoted() {
    let mut encoder = CsvEncoder::new(table()).unwrap();
    assert_eq!(encoder.header(), b"id,name,note,level");
    for (value, expected) in [
        (serde_json::json!({"id": 5, "name": "a,\"b\"", "level": 1}), r#"5,"a,""b""",,1"#),
        (serde_json::json!({"id": 5, "name": "", "note": "", "level": 1}), r#"5,,"",1"#),
        (serde_json::json!({"id": 5, "name": "a\r", "note": " x", "level": 1}), "5,\"a\r\", x,1"),
    ] {
        let mut out = Vec::new();
        encoder.encode(&from_value(&table(), &value).unwrap(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    let mut out = b"before".to_vec();
    assert!(encoder.encode(&[10, 9], &mut out).is_err() && out == b"before");
}

#[test]
fn a_type_without_columns_is_refused() {
    let none = TypeTable { types: vec![structure("None", vec![])], root: Type::Named(0) };
    assert_eq!(CsvEncoder::new(none.clone()).err().unwrap(), "CSV rows need a column, and the type has no fields");
    assert!(CsvDecoder::new(none).is_ok(), "what is not wanted is passed over");
    assert!(CsvEncoder::new(TypeTable { root: Type::I64, ..everything() }).is_err());
}
