//! The stock-out job for simulations: the real detectors natively, the real file sinks on a simulated disk.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tidemill::codec::{JsonEncoder, from_value, load_table};
use tidemill::runtime::job::{Job, JobOperator};
use tidemill::runtime::restart::Strategy;
use tidemill::sink::file::{FileSink, FileSinkConfig, RowEncode};
use tidemill::spec::error::{At, Place};
use tidemill::spec::job::TableRows;
use tidemill_core::checkpoint;
use tidemill_core::detector::DetectorFactory;
use tidemill_core::disk::Disk;
use tidemill_core::operator::{OnError, OperatorSettings};
use tidemill_core::rate::MaxRate;
use tidemill_core::schema::lanes::dead_letter_type;
use tidemill_core::schema::{FieldPath, KeyEncoder};
use tidemill_core::sink::Sink;
use tidemill_core::state::MemoryBackend;
use tidemill_core::watermark;
use tidemill_core::worker::{Graph, InvalidPolicy, Node, SourceSettings, Wire, WireKind};
use tidemill_wit::schema::TypeTable;

use super::day::{BOUND, Day};
use super::files::open_stored;
use super::moody::Moody;
use super::source::{Gate, MemorySource};
use crate::native::NativeFactory;

/// Where alerts and late lines go.
pub const OUTPUTS: [&str; 2] = ["/out/alerts", "/out/late"];
/// Where bad baskets go.
pub const DEAD_LETTERS: &str = "/out/dead";

/// How a job is built; all of it may differ from run to run without a difference in its output.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of workers.
    pub parallelism: u32,
    /// How many elements a queue holds.
    pub queue_capacity: usize,
    /// How many rows a call gets at most.
    pub batch_rows: usize,
    /// How many rows a source reads in one turn.
    pub source_rows: usize,
    /// How many rows a second the subtasks of the source read together.
    pub max_rate: Option<u64>,
    /// Whether the detectors are [`Moody`].
    pub moody: bool,
}

struct Json(JsonEncoder);

impl RowEncode for Json {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.0.encode(payload, out)
    }
}

/// The uid of the sink that writes to a folder: its name.
fn uid_of(dir: &str) -> String {
    dir.rsplit('/').next().unwrap_or(dir).to_owned()
}

/// The job over a day, with sinks on the disk. The source gives nothing while the gate is shut.
///
/// # Errors
/// The parts do not fit together.
pub fn stock_out(day: &Day, shape: Shape, disk: &Arc<dyn Disk>, gate: &Gate) -> Result<Job, String> {
    let in_mood = |factory| if shape.moody { Arc::new(Moody::new(factory)) as _ } else { factory };
    let first_copy: Arc<dyn DetectorFactory> = in_mood(Arc::new(NativeFactory::<first_copy::FirstCopy>::default()));
    let basket_lines: Arc<dyn DetectorFactory> = in_mood(Arc::new(NativeFactory::<basket_lines::BasketLines>::default()));
    let stock_out: Arc<dyn DetectorFactory> = in_mood(Arc::new(NativeFactory::<stock_out::StockOut>::default()));
    let (basket, line) = (first_copy.descriptor().input.clone(), stock_out.descriptor().input.clone());
    let lanes: Vec<TypeTable> = stock_out.descriptor().lanes.iter().map(|lane| lane.schema.clone()).collect();

    let source = Arc::new(MemorySource::new(day.splits.clone(), basket.clone(), gate.clone()));
    let source_settings = SourceSettings {
        invalid: InvalidPolicy::default(),
        uid: "pos".to_owned(),
        index: 0,
        source: Arc::clone(&source) as _,
        timestamp: Some(FieldPath::resolve(&basket, "event_ts")?.as_timestamp()?),
        watermark: watermark::Strategy { bound: BOUND, idle_timeout: None },
        alignment: None,
        max_rate: shape.max_rate.map(MaxRate::per_second),
        batch_rows: shape.source_rows,
        caution: usize::MAX.into(),
        splits: Arc::default(),
    };
    let operators = [
        operator("first-copy", &first_copy, &Value::Null, shape, None)?,
        operator("basket-lines", &basket_lines, &json!({"business_date": "2026-08-15"}), shape, None)?,
        operator("stock-out", &stock_out, &json!({}), shape, Some(day))?,
    ];
    let outputs = OUTPUTS.into_iter().zip(lanes).chain([(DEAD_LETTERS, dead_letter_type())]);
    let sinks: Vec<(String, Arc<dyn Sink>)> = outputs.map(|(dir, ty)| (uid_of(dir), file_sink(dir, ty, disk))).collect();
    let dead_letters = first_copy.descriptor().lanes.len();

    let mut nodes = vec![Node::Source(Arc::new(source_settings))];
    nodes.extend(operators.iter().map(|settings| Node::Operator(Arc::clone(settings))));
    nodes.extend((0..).zip(&sinks).map(|(index, (_, sink))| Node::Sink(index, Arc::clone(sink))));
    let by_basket = WireKind::ByKey(KeyEncoder::new(&basket, &["basket_id".to_owned()])?);
    let by_shelf = WireKind::ByKey(KeyEncoder::new(&line, &["store_id".to_owned(), "sku".to_owned()])?);
    let wire = |from, lane, to, kind| Wire { from, lane, to, kind };
    let wires = vec![
        wire(0, 0, 1, by_basket),
        wire(1, 0, 2, WireKind::Forward),
        wire(2, 0, 3, by_shelf),
        wire(3, 0, 4, WireKind::Forward),
        wire(3, 1, 5, WireKind::Forward),
        wire(1, dead_letters, 6, WireKind::Forward),
    ];
    Ok(Job {
        name: "stock-out".to_owned(),
        parallelism: shape.parallelism,
        graph: Graph { nodes, wires, max_parallelism: 128 },
        sources: vec![("pos".to_owned(), source as _)],
        sinks,
        operators: (1..).zip(&operators).map(job_operator).collect(),
        backend: Arc::new(MemoryBackend),
        open_stored,
        checkpoints: checkpoint::Options { interval: 5, timeout: 1_000_000, min_pause: 0, tolerable_failures: 2 },
        retain: 1,
        keep_on_cancel: true,
        keep_on_finish: true,
        restart: Strategy::None,
        queue_capacity: shape.queue_capacity,
    })
}

fn job_operator((node, settings): (usize, &Arc<OperatorSettings>)) -> JobOperator {
    JobOperator { uid: settings.uid.clone(), component: "native".to_owned(), node, settings: Arc::clone(settings) }
}

fn operator(
    uid: &str,
    factory: &Arc<dyn DetectorFactory>,
    parameters: &Value,
    shape: Shape,
    day: Option<&Day>,
) -> Result<Arc<OperatorSettings>, String> {
    let descriptor = factory.descriptor();
    let parameters = from_value(&descriptor.parameters, parameters)?;
    let mut settings = OperatorSettings::new(uid, Arc::clone(factory), parameters, 128);
    settings.batch_rows = shape.batch_rows;
    settings.on_error = OnError::DeadLetter;
    if let (Some(day), Some(table)) = (day, descriptor.tables.first()) {
        let rows = day.opening.iter().map(|value| At { value: value.clone(), at: Place::Whole }).collect();
        let key = ["store_id".to_owned(), "sku".to_owned()];
        let loaded = load_table(&TableRows::Inline(rows), &key, &table.row, &table.key).map_err(|refused| refused.error.chain())?;
        settings.tables = Arc::from([loaded]);
    }
    Ok(Arc::new(settings))
}

fn file_sink(dir: &str, ty: TypeTable, disk: &Arc<dyn Disk>) -> Arc<dyn Sink> {
    let config = FileSinkConfig { dir: PathBuf::from(dir), job: 1, owner: None, extension: "jsonl".to_owned(), header: None };
    let encoder = Arc::new(move || Box::new(Json(JsonEncoder::new(ty.clone()))) as Box<dyn RowEncode>);
    Arc::new(FileSink::new(config, Arc::clone(disk), encoder))
}
