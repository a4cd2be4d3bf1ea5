//! Reference tables: rows from a CSV or JSON lines file, or from the job spec, by key.

use std::path::Path;

use tidemill_core::schema::KeyEncoder;
use tidemill_core::table::Table;
use tidemill_core::{Error, Result};
use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

use super::csv::{Parsed, RowParser, quotes_do_not_match};
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
                let decoder = |table: &TypeTable| JsonDecoder::new(table.clone()).by_hand();
                let (mut row_decoder, mut key_decoder) = (decoder(row), decoder(&keys));
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
        let bytes = read(path)?;
        let mut text = without_mark(&bytes);
        let (mut parser, mut decoders, mut line, mut encoded) = (RowParser::default(), None, 1, Vec::new());
        loop {
            let blank = decoders.as_ref().is_some_and(|(rows, _, _): &(CsvDecoder, CsvDecoder, usize)| rows.blank_rows());
            let ends = text.iter().take_while(|byte| !blank && matches!(byte, b'\r' | b'\n')).count();
            line += lines(take(&mut text, ends));
            let wrong = |reason: &str| Error::config(format!("{} line {line}: {reason}", path.display()));
            let length = match parser.parse(text, true) {
                Parsed::Row(length) => length,
                Parsed::More => return Ok(()),
                Parsed::Malformed(reason) => return Err(wrong(reason)),
            };
            let (raw, found) = (take(&mut text, length), parser.row());
            if let Some((rows, keys, columns)) = &mut decoders {
                quotes_do_not_match(found, raw.trim_ascii_end(), *columns).map_or(Ok(()), |reason| Err(wrong(reason)))?;
                if found.len() != *columns {
                    return Err(wrong(&format!("the row has {} fields, the header has {columns}", found.len())));
                }
                encoded.clear();
                self.key.clear();
                let added =
                    keys.decode(found, &mut self.key).and_then(|()| rows.decode(found, &mut encoded)).and_then(|()| self.add(&encoded));
                added.map_err(|reason| wrong(&reason))?;
            } else {
                let decoder = |table: &TypeTable| {
                    let mut decoder = CsvDecoder::new(table.clone())?;
                    decoder.set_header(found).map(|()| decoder)
                };
                let both = decoder(row).and_then(|row| Ok((row, decoder(keys)?, found.len())));
                decoders = Some(both.map_err(|reason| wrong(&reason))?);
            }
            line += lines(raw);
            parser.reset();
        }
    }

    fn read_lines(&mut self, path: &Path, row: &TypeTable, keys: &TypeTable) -> Result<()> {
        let bytes = read(path)?;
        let (mut rows, mut keys) = (JsonDecoder::new(row.clone()), JsonDecoder::new(keys.clone()));
        for (index, line) in without_mark(&bytes).split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty())
        {
            self.add_json(line, &mut rows, &mut keys)
                .map_err(|reason| Error::config(format!("{} line {}: {reason}", path.display(), index + 1)))?;
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

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::config(format!("reading {}", path.display())).caused_by(error))
}

/// The text without a byte order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn take<'a>(text: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = text.split_at_checked(count).unwrap_or((text, &[]));
    *text = tail;
    head
}

fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}
