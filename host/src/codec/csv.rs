//! CSV rows into and out of flat structs, columns by name.

use csv::ByteRecord;
use tidemill_core::schema::JsonEncoder;
use tidemill_core::schema::describe::describe_type;
use tidemill_core::schema::scalar::put_blob;
use tidemill_core::schema::walk::skip;
use tidemill_wit::schema::{Field, Type, TypeTable};

use super::json::{Scratch, decode_text, missing};

/// Decodes the rows of one file.
pub struct CsvDecoder {
    table: TypeTable,
    fields: Vec<Field>,
    /// Per field, the column that it is in.
    columns: Vec<Option<usize>>,
    scratch: Scratch,
    text: Vec<u8>,
}

impl CsvDecoder {
    /// A decoder into a struct.
    ///
    /// # Errors
    /// The type is not a struct.
    pub fn new(table: TypeTable) -> Result<Self, String> {
        let fields = table.fields().ok_or("CSV rows are read into structs, and the type is not one")?.to_vec();
        Ok(Self { table, fields, columns: Vec::new(), scratch: Scratch::default(), text: Vec::new() })
    }

    /// Sets the names of the columns, before any row.
    ///
    /// # Errors
    /// A column that is needed is missing, or there twice.
    pub fn set_header(&mut self, header: &ByteRecord) -> Result<(), String> {
        self.columns.clear();
        for field in &self.fields {
            let is_named = |name: &[u8]| name == field.name.as_bytes() || field.aliases.iter().any(|alias| alias.as_bytes() == name);
            let mut found = header.iter().enumerate().filter(|(_, name)| is_named(name.trim_ascii())).map(|(index, _)| index);
            let column = found.next();
            if found.next().is_some() {
                return Err(format!("column `{}` is there twice", field.name));
            }
            if column.is_none() && field.default.is_none() && !matches!(field.ty, Type::Option(_)) {
                let known: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
                return Err(format!("column `{}` is missing; the file has {}", field.name, known.join(", ")));
            }
            self.columns.push(column);
        }
        Ok(())
    }

    /// Appends a row.
    ///
    /// # Errors
    /// What does not fit, and in which column; then `out` is as it was.
    pub fn decode(&mut self, row: &ByteRecord, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let Self { table, fields, columns, scratch, text } = self;
        for (field, column) in fields.iter().zip(columns) {
            let cell = column.and_then(|column| row.get(column));
            decode_cell(table, field, cell, (&mut *scratch, &mut *text), out).map_err(|reason| {
                out.truncate(start);
                format!("column `{}`: {reason}", field.name)
            })?;
        }
        Ok(())
    }
}

/// A cell is text for strings and JSON for everything else. An empty cell is nothing: an empty string, none, or the default.
fn decode_cell(
    table: &TypeTable,
    field: &Field,
    cell: Option<&[u8]>,
    buffers: (&mut Scratch, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let (scratch, text) = buffers;
    let (ty, cell) = match (cell, &field.ty) {
        (None, _) => return missing::<serde_json::Error>(field, out).map_err(|error| error.to_string()),
        (Some(b""), Type::String) => (&field.ty, &b""[..]),
        (Some(b""), _) => return missing::<serde_json::Error>(field, out).map_err(|_| "the cell is empty".to_owned()),
        (Some(cell), Type::Option(inner)) => {
            out.push(1);
            (inner.as_ref(), cell)
        }
        (Some(cell), ty) => (ty, cell),
    };
    if !is_text(table, ty) {
        return decode_text(table, ty, cell, scratch, out)
            .map_err(|reason| format!("the cell is no {}: {reason}", describe_type(table, ty)));
    }
    if let Type::String = ty
        && let Ok(text) = std::str::from_utf8(cell)
    {
        put_blob(out, text.as_bytes());
        return Ok(());
    }
    let plain = std::str::from_utf8(cell).map_err(|error| format!("the text is not UTF-8 (byte {})", error.valid_up_to() + 1))?;
    text.clear();
    serde_json::to_writer(&mut *text, plain).map_err(|error| error.to_string())?;
    decode_text(table, ty, text, scratch, out)
}

/// Whether JSON would write the type in quotes, which CSV leaves out.
fn is_text(table: &TypeTable, ty: &Type) -> bool {
    use tidemill_wit::schema::Shape;
    match ty {
        Type::String | Type::Bytes | Type::Duration => true,
        Type::Named(index) => match table.named(*index).map(|named| &named.shape) {
            Some(Shape::Newtype(ty)) => is_text(table, ty),
            Some(Shape::Enum(_)) => true,
            _ => false,
        },
        _ => false,
    }
}

/// Encodes rows of one type.
pub struct CsvEncoder {
    table: TypeTable,
    fields: Vec<Field>,
    json: Vec<u8>,
    row: ByteRecord,
}

impl CsvEncoder {
    /// An encoder of a struct.
    ///
    /// # Errors
    /// The type is not a struct.
    pub fn new(table: TypeTable) -> Result<Self, String> {
        let fields = table.fields().ok_or("CSV rows are written from structs, and the type is not one")?.to_vec();
        Ok(Self { table, fields, json: Vec::new(), row: ByteRecord::new() })
    }

    /// The header line, without line end.
    ///
    /// # Errors
    /// None is known: memory only.
    pub fn header(&self) -> Result<Vec<u8>, String> {
        line(&self.fields.iter().map(|field| field.name.as_bytes()).collect())
    }

    /// Appends a row, without line end. Strings are written bare, none as an empty cell, nested values as JSON.
    ///
    /// # Errors
    /// The bytes are not a value of the type.
    pub fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.row.clear();
        let mut rest = payload;
        for field in &self.fields {
            let before = rest;
            skip(&self.table, &field.ty, &mut rest)?;
            let bytes = before.get(..before.len() - rest.len()).unwrap_or(&[]);
            let cell = TypeTable { types: self.table.types.clone(), root: field.ty.clone() };
            self.json.clear();
            JsonEncoder::new(cell).encode(bytes, &mut self.json)?;
            match serde_json::from_slice::<serde_json::Value>(&self.json) {
                Ok(serde_json::Value::String(text)) => self.row.push_field(text.as_bytes()),
                Ok(serde_json::Value::Null) => self.row.push_field(b""),
                _ => self.row.push_field(&self.json),
            }
        }
        out.extend_from_slice(&line(&self.row)?);
        Ok(())
    }
}

fn line(row: &ByteRecord) -> Result<Vec<u8>, String> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_byte_record(row).map_err(|error| error.to_string())?;
    let mut bytes = writer.into_inner().map_err(|error| error.to_string())?;
    bytes.pop();
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use csv::ByteRecord;
    use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

    use super::{CsvDecoder, CsvEncoder};
    use crate::codec::to_value;

    fn table() -> TypeTable {
        let field = |name: &str, ty, default| Field { name: name.to_owned(), aliases: vec![], ty, default };
        let fields = vec![
            field("id", Type::I64, None),
            field("name", Type::String, None),
            field("note", Type::Option(Box::new(Type::String)), None),
            field("level", Type::U8, Some(vec![7])),
        ];
        TypeTable { types: vec![NamedType { name: "Row".to_owned(), shape: Shape::Struct(fields) }], root: Type::Named(0) }
    }

    fn decode(header: &[&str], row: &[&str]) -> Result<serde_json::Value, String> {
        let mut decoder = CsvDecoder::new(table())?;
        decoder.set_header(&ByteRecord::from(header.to_vec()))?;
        let mut out = Vec::new();
        decoder.decode(&ByteRecord::from(row.to_vec()), &mut out)?;
        to_value(&table(), &out)
    }

    #[test]
    fn columns_are_found_by_name() {
        let found = decode(&["name", "extra", "id"], &["12", "x", "-3"]).unwrap();
        assert_eq!(found, serde_json::json!({"id": -3, "name": "12", "note": null, "level": 7}));
        let full = decode(&["id", "name", "note", "level"], &["1", "", "true", "9"]).unwrap();
        assert_eq!(full, serde_json::json!({"id": 1, "name": "", "note": "true", "level": 9}));
        assert_eq!(decode(&["id", "name", "note", "level"], &["1", "a", "", ""]).unwrap()["level"], 7);
    }

    #[test]
    fn what_does_not_fit_names_its_column() {
        let cases: [(&[&str], &[&str], &str); 4] = [
            (&["name"], &["a"], "column `id` is missing; the file has name"),
            (&["id", "name"], &["", "a"], "column `id`: the cell is empty"),
            (&["id", "name", "id"], &["1", "a", "2"], "column `id` is there twice"),
            (&["id", "name", "level"], &["1", "a", "300"], "column `level`"),
        ];
        for (header, row, expected) in cases {
            let found = decode(header, row).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn rows_are_written_and_quoted() {
        let mut encoder = CsvEncoder::new(table()).unwrap();
        assert_eq!(encoder.header().unwrap(), b"id,name,note,level");
        let payload = crate::codec::from_value(&table(), &serde_json::json!({"id": 5, "name": "a,\"b\"", "level": 1})).unwrap();
        let mut out = Vec::new();
        encoder.encode(&payload, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#"5,"a,""b""",,1"#);
    }
}
