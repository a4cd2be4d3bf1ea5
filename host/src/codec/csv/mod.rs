//! CSV rows into and out of structs, columns by name. What is written is read back the same.
//!
//! A field that is text is bare, everything else is JSON ([`cell`]). An empty field is nothing: none, an empty string where there is no
//! none, or the field's default. An empty text that is not nothing is written `""`.

mod cell;
mod rows;

#[cfg(test)]
mod tests;

use tidemill_core::schema::walk::through_newtypes;
use tidemill_wit::schema::{Field, Type, TypeTable};

use self::cell::Buffers;
pub use self::rows::{Cell, Parsed, Row, RowParser, quotes_do_not_match};

/// Decodes the rows of one file.
pub struct CsvDecoder {
    table: TypeTable,
    fields: Vec<Field>,
    /// Per field, the column that it is in.
    columns: Vec<Option<usize>>,
    blank_rows: bool,
    buffers: Buffers,
}

impl CsvDecoder {
    /// A decoder into a struct.
    ///
    /// # Errors
    /// The type is not a struct.
    pub fn new(table: TypeTable) -> Result<Self, String> {
        let fields = table.fields().ok_or("CSV rows are read into structs, and the type is not one")?.to_vec();
        Ok(Self { table, fields, columns: Vec::new(), blank_rows: false, buffers: Buffers::default() })
    }

    /// Sets the names of the columns, before any row.
    ///
    /// # Errors
    /// A column that is needed is missing, or there twice.
    pub fn set_header(&mut self, header: &Row) -> Result<(), String> {
        self.columns.clear();
        self.blank_rows = false;
        for field in &self.fields {
            let is_named = |name: &[u8]| name == field.name.as_bytes() || field.aliases.iter().any(|alias| alias.as_bytes() == name);
            let is_column = |cell: Cell<'_>| is_named(cell.text) || !cell.quoted && is_named(cell.text.trim_ascii());
            let mut found = header.iter().enumerate().filter(|(_, cell)| is_column(*cell)).map(|(index, _)| index);
            let column = found.next();
            if found.next().is_some() {
                return Err(format!("column `{}` is there twice", field.name));
            }
            let optional = matches!(field.ty, Type::Option(_));
            if column.is_none() && field.default.is_none() && !optional {
                let known: Vec<_> = header.iter().map(|cell| String::from_utf8_lossy(cell.text)).collect();
                return Err(format!("column `{}` is missing; the file has {}", field.name, known.join(", ")));
            }
            self.blank_rows |= column.is_some() && header.len() == 1 && matches!(through_newtypes(&self.table, &field.ty), Type::Option(_));
            self.columns.push(column);
        }
        Ok(())
    }

    /// Whether an empty line is a row: the only column may be nothing. Otherwise empty lines are passed over.
    #[must_use]
    pub fn blank_rows(&self) -> bool {
        self.blank_rows
    }

    /// Appends a row.
    ///
    /// # Errors
    /// What does not fit, and in which column; then `out` is as it was.
    pub fn decode(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let Self { table, fields, columns, buffers, .. } = self;
        for (field, column) in fields.iter().zip(columns) {
            let cell = column.and_then(|column| row.get(column));
            cell::decode(table, field, cell, buffers, out).map_err(|reason| {
                out.truncate(start);
                format!("column `{}`: {reason}", field.name)
            })?;
        }
        Ok(())
    }
}

/// Encodes rows of one type.
pub struct CsvEncoder {
    table: TypeTable,
    fields: Vec<Field>,
    json: Vec<u8>,
}

impl CsvEncoder {
    /// An encoder of a struct.
    ///
    /// # Errors
    /// The type is not a struct, or has no fields.
    pub fn new(table: TypeTable) -> Result<Self, String> {
        let fields = table.fields().ok_or("CSV rows are written from structs, and the type is not one")?.to_vec();
        if fields.is_empty() {
            return Err("CSV rows need a column, and the type has no fields".to_owned());
        }
        Ok(Self { table, fields, json: Vec::new() })
    }

    /// The header line, without line end.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        let mut line = Vec::new();
        for (index, Field { name, .. }) in self.fields.iter().enumerate() {
            line.extend_from_slice(if index == 0 { b"" } else { b"," });
            rows::put_cell(&mut line, name.as_bytes(), name.is_empty() || name.trim() != name);
        }
        line
    }

    /// Appends a row, without line end.
    ///
    /// # Errors
    /// The bytes are not a value of the type; then `out` is as it was.
    pub fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let Self { table, fields, json } = self;
        let (start, mut rest) = (out.len(), payload);
        for (index, field) in fields.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"" } else { b"," });
            let encoded = cell::encode(table, &field.ty, fields.len() == 1, &mut rest, json, out);
            encoded.inspect_err(|_| out.truncate(start))?;
        }
        Ok(())
    }
}
