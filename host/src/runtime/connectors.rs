//! Connectors by the names that a spec gives them, with the formats that they read and write.

use std::sync::Arc;

use tidemill_core::disk::Disk;
use tidemill_core::schema::FieldPath;
use tidemill_core::sink;
use tidemill_core::source::{Source, Split};
use tidemill_core::{Error, Kind};
use tidemill_wit::schema::TypeTable;

use crate::codec::{CsvDecoder, CsvEncoder, JsonDecoder, JsonEncoder, Row};
use crate::sink::file::{FileSink, FileSinkConfig, Owner, RowEncode};
use crate::source::file::{self, FileFormat, FileSource, FileSourceConfig, GONE_AFTER, LineDecode, RowDecode, Unread};
use crate::spec;
use crate::spec::job::{Format, JobSpec, Sink, SinkConnector, SourceConnector};
use crate::store::lock::SinkLock;

/// The source that a spec names, reading records of this type, with their event time in this field.
///
/// # Errors
/// The format cannot hold the type.
pub(super) fn source(spec: &spec::job::Source, input: &TypeTable, timestamp: Option<FieldPath>) -> Result<Arc<dyn Source>, String> {
    let SourceConnector::File(file) = &spec.connector;
    let config = FileSourceConfig { timestamp, ..file_config(spec) };
    let input = input.clone();
    let format = match file.format {
        Format::Json => FileFormat::Lines(Arc::new(move || Box::new(Json(JsonDecoder::new(input.clone()))))),
        Format::Csv => {
            let decoder = move || CsvDecoder::new(input.clone());
            decoder()?;
            FileFormat::Csv(Arc::new(move || Box::new(Csv(decoder()))))
        }
    };
    Ok(Arc::new(FileSource::new(config, format)))
}

/// Where a source reads, without what depends on the types of its records.
fn file_config(spec: &spec::job::Source) -> FileSourceConfig {
    let SourceConnector::File(file) = &spec.connector;
    FileSourceConfig {
        uid: spec.uid.value.clone(),
        pattern: file.pattern.value.clone(),
        base: file.base.clone(),
        follow: file.follow,
        max_record_bytes: usize::try_from(file.max_record_bytes).unwrap_or(usize::MAX),
        timestamp: None,
        on_replaced: file.on_replaced,
        on_gone: file.on_gone,
        gone_after: GONE_AFTER,
    }
}

/// The input of a source that splits which were all read to their ends do not cover.
///
/// # Errors
/// The source cannot be listed.
pub(super) fn unread(spec: &spec::job::Source, known: &[Split]) -> Result<Unread, Error> {
    file::unread(file_config(spec), known)
}

/// The sink that a spec names, writing records of this type.
///
/// # Errors
/// The format cannot hold the type.
pub(super) fn sink(
    connector: &SinkConnector,
    ty: &TypeTable,
    (job, owner): (u64, Option<Owner>),
    disk: &Arc<dyn Disk>,
) -> Result<Arc<dyn sink::Sink>, String> {
    let SinkConnector::File(file) = connector;
    let ty = ty.clone();
    let dir = file.dir.value.clone();
    Ok(match file.format {
        Format::Json => {
            let config = FileSinkConfig { dir, job, owner, extension: file.format.extension().to_owned(), header: None };
            let encoder = Arc::new(move || Box::new(Json(JsonEncoder::new(ty.clone()))) as Box<dyn RowEncode>);
            Arc::new(FileSink::new(config, Arc::clone(disk), encoder))
        }
        Format::Csv => {
            let header = CsvEncoder::new(ty.clone())?.header();
            let config = FileSinkConfig { dir, job, owner, extension: file.format.extension().to_owned(), header: Some(header) };
            let encoder = Arc::new(move || Box::new(Csv(CsvEncoder::new(ty.clone()))) as Box<dyn RowEncode>);
            Arc::new(FileSink::new(config, Arc::clone(disk), encoder))
        }
    })
}

/// Keeps other running jobs away from all places that the sinks of a spec write to, for as long as the result lives.
///
/// # Errors
/// Another running job has one of them, or it cannot be written to.
pub(super) fn lock_sinks(spec: &JobSpec) -> Result<Vec<SinkLock>, Error> {
    let lock = |sink: &Sink| {
        let SinkConnector::File(file) = &sink.connector;
        SinkLock::acquire(&file.dir.value, &spec.name).map_err(|error| match error.kind() {
            Kind::Config => spec.error(&file.dir.at, error.chain()).into(),
            _ => error.while_doing(format!("opening sink {}", sink.uid.value)),
        })
    };
    spec.sinks.iter().map(lock).collect()
}

struct Json<T>(T);
struct Csv<T>(Result<T, String>);

impl LineDecode for Json<JsonDecoder> {
    fn decode(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.decode(line, out)
    }
}

impl RowEncode for Json<JsonEncoder> {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.encode(payload, out)
    }
}

impl RowDecode for Csv<CsvDecoder> {
    fn set_header(&mut self, header: &Row) -> Result<(), String> {
        self.0.as_mut().map_err(|reason| reason.clone())?.set_header(header)
    }

    fn blank_rows(&self) -> bool {
        self.0.as_ref().is_ok_and(CsvDecoder::blank_rows)
    }

    fn decode(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
        self.0.as_mut().map_err(|reason| reason.clone())?.decode(row, out)
    }
}

impl RowEncode for Csv<CsvEncoder> {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.as_mut().map_err(|reason| reason.clone())?.encode(payload, out)
    }
}

#[cfg(test)]
mod tests;
