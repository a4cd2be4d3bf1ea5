//! Reference tables: rows from a CSV or JSON lines file, or from the job spec, by key.

use std::path::Path;

use tidemill_core::schema::KeyEncoder;
use tidemill_core::table::Table;
use tidemill_core::{Error, Result};
use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

use super::{CsvDecoder, JsonDecoder};
use crate::spec::error::Place;
use crate::spec::job::TableRows;

/// Why a table cannot be loaded.
#[derive(Debug)]
pub struct TableError {
    /// The row that is wrong, if the rows are in the job spec.
    pub row: Option<Place>,
    /// What is wrong; it names file and line if the rows are in a file.
    pub error: Error,
}

impl From<Error> for TableError {
    fn from(error: Error) -> Self {
        Self { row: None, error }
    }
}

/// Loads a table whose rows and keys have these types; `key` names the fields of the file that make the key.
///
/// # Errors
/// The file cannot be read, or a row does not fit.
pub fn load_table(rows: &TableRows, key: &[String], row: &TypeTable, key_type: &TypeTable) -> Result<Table, TableError> {
    let keys = key_struct(key, key_type).map_err(Error::config)?;
    let encoder = KeyEncoder::new(&keys, key).map_err(Error::config)?;
    let mut loading = Loading { table: Table::default(), encoder, key: Vec::new(), encoded: Vec::new() };
    match rows {
        TableRows::Inline(values) => {
            for value in values {
                let text = value.value.to_string();
                let (mut row_decoder, mut key_decoder) = (JsonDecoder::new(row.clone()), JsonDecoder::new(keys.clone()));
                loading
                    .add_json(text.as_bytes(), &mut row_decoder, &mut key_decoder)
                    .map_err(|reason| TableError { row: Some(value.at.clone()), error: Error::config(format!("row {text}: {reason}")) })?;
            }
        }
        TableRows::File(path) => {
            let path = &path.value;
            let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
            if is_csv { loading.read_csv(path, row, &keys) } else { loading.read_lines(path, row, &keys) }?;
        }
    }
    loading.table.shrink();
    Ok(loading.table)
}

/// A struct of the key fields, typed as the component declares its key: a tuple, or one plain type.
fn key_struct(names: &[String], key_type: &TypeTable) -> Result<TypeTable, String> {
    let types = match &key_type.root {
        Type::Tuple(types) => types.clone(),
        single => vec![single.clone()],
    };
    if types.len() != names.len() {
        return Err(format!("the component's key has {} fields, `key` names {}", types.len(), names.len()));
    }
    let field = |(name, ty): (&String, Type)| Field { name: name.clone(), aliases: Vec::new(), ty, default: None };
    let fields = names.iter().zip(types).map(field).collect();
    let mut table = key_type.clone();
    table.root = Type::Named(u32::try_from(table.types.len()).unwrap_or(u32::MAX));
    table.types.push(NamedType { name: "key".to_owned(), shape: Shape::Struct(fields) });
    Ok(table)
}

struct Loading {
    table: Table,
    encoder: KeyEncoder,
    /// The key's fields as a row.
    key: Vec<u8>,
    encoded: Vec<u8>,
}

impl Loading {
    fn read_csv(&mut self, path: &Path, row: &TypeTable, keys: &TypeTable) -> Result<()> {
        let reading = |error: csv::Error| Error::config(format!("reading {}", path.display())).caused_by(error);
        let mut reader = csv::ReaderBuilder::new().from_path(path).map_err(reading)?;
        let header = reader.byte_headers().map_err(reading)?.clone();
        let decoder = |table: &TypeTable| {
            let mut decoder = CsvDecoder::new(table.clone())?;
            decoder.set_header(&header).map(|()| decoder)
        };
        let at_header = |reason: String| Error::config(format!("{}:1: {reason}", path.display()));
        let (mut rows, mut keys) = (decoder(row).map_err(at_header)?, decoder(keys).map_err(at_header)?);
        let mut record = csv::ByteRecord::new();
        let mut encoded = Vec::new();
        while reader.read_byte_record(&mut record).map_err(reading)? {
            encoded.clear();
            self.key.clear();
            let added =
                keys.decode(&record, &mut self.key).and_then(|()| rows.decode(&record, &mut encoded)).and_then(|()| self.add(&encoded));
            added.map_err(|reason| {
                let line = record.position().map_or(0, csv::Position::line);
                Error::config(format!("{}:{line}: {reason}", path.display()))
            })?;
        }
        Ok(())
    }

    fn read_lines(&mut self, path: &Path, row: &TypeTable, keys: &TypeTable) -> Result<()> {
        let bytes = std::fs::read(path).map_err(|error| Error::config(format!("reading {}", path.display())).caused_by(error))?;
        let (mut rows, mut keys) = (JsonDecoder::new(row.clone()), JsonDecoder::new(keys.clone()));
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty()) {
            self.add_json(line, &mut rows, &mut keys)
                .map_err(|reason| Error::config(format!("{}:{}: {reason}", path.display(), index + 1)))?;
        }
        Ok(())
    }

    fn add_json(&mut self, text: &[u8], rows: &mut JsonDecoder, keys: &mut JsonDecoder) -> Result<(), String> {
        let mut encoded = Vec::new();
        self.key.clear();
        keys.decode(text, &mut self.key)?;
        rows.decode(text, &mut encoded)?;
        self.add(&encoded)
    }

    /// Adds a row under the key whose fields are in `self.key`.
    fn add(&mut self, row: &[u8]) -> Result<(), String> {
        self.encoded.clear();
        self.encoder.encode(&self.key, &mut self.encoded)?;
        self.table.insert(&self.encoded, row)
    }
}
