//! From a job spec and its components to a job that is ready to run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::detector::DetectorFactory;
use tidemill_core::disk::Disk;
use tidemill_core::operator::{BATCH_ROWS, Observer, OnError, OperatorSettings};
use tidemill_core::rate::MaxRate;
use tidemill_core::schema::{FieldPath, KeyEncoder, describe, equivalent, lanes, same_key};
use tidemill_core::sink::Sink;
use tidemill_core::source::{Source, SplitNames};
use tidemill_core::state::MemoryBackend;
use tidemill_core::table::Table;
use tidemill_core::watermark;
use tidemill_core::worker::{self, Graph, InvalidPolicy, Node, SourceSettings, Wire, WireKind};
use tidemill_core::{Error, Result, checkpoint};
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, TableDescriptor};
use tidemill_wit::schema::{Type, TypeTable};

use super::connectors;
use super::job::{Job, JobOperator};
use super::many::Refusals;
use super::restart::Strategy;
use crate::codec::{TableError, from_configuration, load_table};
use crate::guest::{ComponentCache, GuestComponent, GuestEngine, GuestFactory};
use crate::sink::file::Owner;
use crate::spec::error::{At, Place, SpecError};
use crate::spec::job::{self, Alignment, JobSpec, Ttl};
use crate::spec::plan::{Edge, INVALID, MAIN, Output, Part, Plan, bind};
use crate::state;

/// How many elements a queue between two subtasks holds: a few batches, so that a barrier is never far behind.
const QUEUE_CAPACITY: usize = 4;

/// A table of so many bytes takes a second or so.
const LARGE_TABLE: u64 = 16 << 20;

/// A spec whose components are loaded and fit it.
pub struct Assembly<'a> {
    spec: &'a JobSpec,
    plan: Plan,
    components: HashMap<String, Arc<GuestComponent>>,
    /// What each edge of the plan carries.
    outputs: Vec<Output>,
    /// The job's folder, if sinks are to remember it.
    data_dir: Option<PathBuf>,
    rig: Option<Rig>,
}

/// What a test puts in the place of the outside world.
#[derive(Clone)]
pub struct Rig {
    /// Read instead of what the spec names, in its order.
    pub sources: Vec<Arc<dyn Source>>,
    /// Sees what the operators emit.
    pub observer: Arc<dyn Observer>,
    /// How many rows a source reads in a turn, and a call gets, at most.
    pub batch_rows: usize,
    /// Whether what components log is dropped.
    pub is_silent: bool,
}

impl<'a> Assembly<'a> {
    /// Loads the components of a spec and checks that names, keys and structure fit.
    ///
    /// # Errors
    /// A component cannot be loaded, or does not fit the spec.
    pub fn load(spec: &'a JobSpec, engine: &GuestEngine, cache: Option<&ComponentCache>) -> Result<Self> {
        let (mut components, mut refusals) = (HashMap::new(), Refusals::default());
        for operator in &spec.operators {
            if let Some(loaded) = refusals.keep(load(spec, operator, engine, cache))? {
                components.insert(operator.uid.value.clone(), loaded);
            }
        }
        Self::new(spec, refusals.unless(components)?)
    }

    /// As [`load`](Self::load), with components that are loaded already, by the uids of their operators.
    ///
    /// # Errors
    /// A component does not fit the spec.
    pub fn new(spec: &'a JobSpec, components: HashMap<String, Arc<GuestComponent>>) -> Result<Self> {
        let plan = Plan::of(spec).map_err(refused)?;
        let descriptors = components.iter().map(|(uid, component)| (uid.clone(), component.descriptor().clone())).collect();
        let outputs = bind(spec, &plan, &descriptors).map_err(refused)?;
        Ok(Self { spec, plan, components, outputs, data_dir: None, rig: None })
    }

    /// The same with a test's source and observer.
    #[must_use]
    pub fn with_rig(self, rig: Rig) -> Self {
        Self { rig: Some(rig), ..self }
    }

    /// The same for a job whose checkpoints are in this folder, as its sinks will remember.
    #[must_use]
    pub fn with_data_dir(self, dir: &Path) -> Self {
        Self { data_dir: Some(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())), ..self }
    }

    /// What is allowed in the spec, but probably not meant.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.plan.warnings.iter().map(|problem| format!("{}: {}", problem.at.within(&self.spec.file), problem.message))
    }

    /// Makes the job, with so many key groups. `id` tells it from all other jobs.
    ///
    /// # Errors
    /// Types, parameters or tables do not fit.
    pub fn job(&self, max_parallelism: u32, id: u64, disk: &Arc<dyn Disk>) -> Result<Job> {
        let splits: Arc<SplitNames> = Arc::default();
        let (mut job, mut refusals) = (self.empty(max_parallelism), Refusals::default());
        for (index, node) in self.plan.nodes.iter().enumerate() {
            let made = match node.part {
                Part::Source(at) => {
                    let Some(settings) = refusals.keep(self.source(index, at, &splits))? else { continue };
                    job.sources.push((node.uid.clone(), Arc::clone(&settings.source)));
                    Node::Source(settings)
                }
                Part::Operator(at) => {
                    let Some(operator) = refusals.keep(self.operator(index, at, max_parallelism, &splits))? else { continue };
                    let settings = Arc::clone(&operator.settings);
                    job.operators.push(operator);
                    Node::Operator(settings)
                }
                Part::Sink(at) => {
                    let Some(sink) = refusals.keep(self.sink(index, at, id, disk))? else { continue };
                    let number = u32::try_from(job.sinks.len()).unwrap_or(u32::MAX);
                    job.sinks.push((node.uid.clone(), Arc::clone(&sink)));
                    Node::Sink(number, sink)
                }
            };
            job.graph.nodes.push(made);
        }
        for (edge, output) in self.edges() {
            job.graph.wires.extend(refusals.keep(self.wire(edge, output))?);
        }
        refusals.unless(job)
    }

    fn empty(&self, max_parallelism: u32) -> Job {
        let JobSpec { name, parallelism, checkpoints, restart, .. } = self.spec;
        Job {
            name: name.clone(),
            parallelism: *parallelism,
            graph: Graph { nodes: Vec::new(), wires: Vec::new(), max_parallelism },
            sources: Vec::new(),
            sinks: Vec::new(),
            operators: Vec::new(),
            backend: Arc::new(MemoryBackend),
            open_stored: state::stored,
            checkpoints: checkpoint::Options {
                interval: millis(checkpoints.interval),
                timeout: millis(checkpoints.timeout),
                min_pause: millis(checkpoints.min_pause),
                tolerable_failures: checkpoints.tolerable_failures,
            },
            retain: checkpoints.retain as usize,
            keep_on_cancel: checkpoints.on_cancel == job::Retention::Keep,
            keep_on_finish: checkpoints.on_finish == job::Retention::Keep,
            restart: Strategy::of(restart),
            queue_capacity: QUEUE_CAPACITY,
        }
    }

    fn source(&self, node: usize, at: usize, splits: &Arc<SplitNames>) -> Result<Arc<SourceSettings>> {
        let Some(spec) = self.spec.sources.get(at) else { return Err(lost()) };
        let input = self.source_type(node, &spec.uid)?;
        let timestamp = spec.timestamp.as_ref().map(|path| {
            let resolved = FieldPath::resolve(&input, &path.value).and_then(FieldPath::as_timestamp);
            resolved.map_err(|reason| self.refuse(&path.at, format!("`timestamp: {}`: {reason}", path.value)))
        });
        let timestamp = timestamp.transpose()?;
        let rigged = self.rig.as_ref().and_then(|rig| rig.sources.get(at));
        let source = rigged
            .map_or_else(|| connectors::source(spec, &input, timestamp.clone()), |source| Ok(Arc::clone(source)))
            .map_err(|reason| self.refuse(&spec.uid.at, format!("source `{}`: {reason}", spec.uid.value)))?;
        Ok(Arc::new(SourceSettings {
            uid: spec.uid.value.clone(),
            index: u32::try_from(at).unwrap_or(u32::MAX),
            timestamp,
            watermark: watermark::Strategy { bound: spec.watermark.bounded_out_of_orderness, idle_timeout: spec.watermark.idle_timeout },
            alignment: spec
                .watermark
                .alignment
                .as_ref()
                .map(|Alignment { group, max_drift }| worker::Alignment { group: group.clone(), max_drift: *max_drift }),
            invalid: self.invalid_policy(node, spec),
            max_rate: spec.max_rate.map(MaxRate::per_second),
            batch_rows: self.rig.as_ref().map_or(BATCH_ROWS, |rig| rig.batch_rows),
            caution: usize::MAX.into(),
            splits: Arc::clone(splits),
            source,
        }))
    }

    fn invalid_policy(&self, node: usize, spec: &job::Source) -> InvalidPolicy {
        let (uid, is_read) = (&spec.uid.value, self.plan.outputs(node).any(|edge| edge.lane == INVALID));
        let most = spec.max_invalid.as_ref().map(|most| most.value);
        match spec.on_invalid(is_read) {
            job::OnInvalid::Lane => {
                InvalidPolicy::new(worker::OnInvalid::Lane, most, "mend the records, or raise max_invalid of the source")
            }
            job::OnInvalid::Fail => {
                let why = if spec.on_invalid.is_some() {
                    "the source has on_invalid: fail".to_owned()
                } else {
                    format!("nothing reads the lane {uid}.{INVALID}, so that it would be lost")
                };
                let advice = format!(
                    "{why}: mend the record, or add a sink with `input: {uid}.{INVALID}`{}, or say `on_invalid: lane` at the source without \
                     such a sink: it then drops such records and counts them",
                    if spec.on_invalid.is_some() { " and remove on_invalid" } else { "" }
                );
                InvalidPolicy::new(worker::OnInvalid::Fail, None, advice)
            }
        }
    }

    /// The type of a source's records is what their readers take: rows are decoded straight into it.
    fn source_type(&self, node: usize, uid: &At<String>) -> Result<TypeTable> {
        let mut found: Option<&TypeTable> = None;
        for (edge, _) in self.edges().filter(|(edge, output)| edge.from == node && matches!(output, Output::Lane(_))) {
            let Some(input) = self.taken(edge) else {
                return Err(self.refuse(
                    &edge.at,
                    format!("a sink cannot read source `{}`: only a component says what type its records have", uid.value),
                ));
            };
            match found {
                Some(known) if !equivalent(known, input) => {
                    let message = format!("source `{}` is read as {} and as {}", uid.value, describe(known), describe(input));
                    return Err(self.refuse(&edge.at, message));
                }
                _ => found = Some(input),
            }
        }
        found.cloned().ok_or_else(|| self.refuse(&uid.at, format!("no operator reads source `{}`", uid.value)))
    }

    fn operator(&self, node: usize, at: usize, max_parallelism: u32, splits: &Arc<SplitNames>) -> Result<JobOperator> {
        let Some(spec) = self.spec.operators.get(at) else { return Err(lost()) };
        let Some(component) = self.components.get(&spec.uid.value) else { return Err(lost()) };
        let factory = GuestFactory::new(Arc::clone(component), spec.limits).map_err(|reason| self.refuse(&spec.uid.at, reason))?;
        let factory = factory.for_operator(&spec.uid.value, self.rig.as_ref().is_some_and(|rig| rig.is_silent));
        let descriptor = component.descriptor();
        let parameters = encode_parameters(&descriptor.parameters, &spec.parameters.value).map_err(|reason| {
            self.refuse(&parameter_place(spec, &reason), format!("the parameters of operator `{}`: {reason}", spec.uid.value))
        })?;
        let tables = descriptor.tables.iter().map(|table| self.table(spec, table)).collect::<Result<Vec<_>>>()?;
        let mut settings =
            OperatorSettings::new(&spec.uid.value, Arc::new(factory) as Arc<dyn DetectorFactory>, parameters, max_parallelism);
        settings.tables = Arc::from(tables);
        settings.states.iter_mut().for_each(|state| change(state, &spec.states));
        settings.fire_at_end = spec.fire_at_end;
        settings.on_error = match spec.on_error {
            job::OnError::Fail => OnError::Fail,
            job::OnError::DeadLetter => OnError::DeadLetter,
        };
        settings.splits = Arc::clone(splits);
        if let Some(rig) = &self.rig {
            settings.batch_rows = rig.batch_rows;
            settings.observer = Some(Arc::clone(&rig.observer));
            settings.clock_timers_singly = self.spec.parallelism > 1;
        }
        Ok(JobOperator { uid: spec.uid.value.clone(), component: component.digest().to_owned(), node, settings: Arc::new(settings) })
    }

    fn table(&self, spec: &job::Operator, declared: &TableDescriptor) -> Result<Table> {
        let TableDescriptor { name, row, key, optional } = declared;
        let Some(table) = spec.tables.iter().find(|table| table.name.value == *name) else {
            if *optional {
                return Ok(Table::default());
            }
            return Err(self.refuse(&spec.component.at, format!("operator `{}` needs table `{name}`", spec.uid.value)));
        };
        say_loading(&spec.uid.value, table);
        load_table(&table.rows, &table.key.value, row, key).map_err(|TableError { row, error }| {
            let error = error.while_doing(format!("loading table {name} of operator {}", spec.uid.value));
            self.refuse(row.as_ref().unwrap_or(&table.name.at), error.chain())
        })
    }

    fn sink(&self, node: usize, at: usize, id: u64, disk: &Arc<dyn Disk>) -> Result<Arc<dyn Sink>> {
        let Some(spec) = self.spec.sinks.get(at) else { return Err(lost()) };
        let mut found: Option<(TypeTable, &Edge)> = None;
        for (edge, output) in self.edges().filter(|(edge, _)| edge.to == node) {
            let carried = self.carried(edge, output)?;
            match &found {
                Some((known, first)) if !equivalent(known, &carried) => {
                    let (uid, known, carried) = (&spec.uid.value, describe(known), describe(&carried));
                    let (one, other) = (self.stream(first), self.stream(edge));
                    let message =
                        format!("sink `{uid}` gets {known} from `{one}` and {carried} from `{other}`: give each type its own sink");
                    return Err(self.refuse(&edge.at, message));
                }
                Some(_) => {}
                None => found = Some((carried, edge)),
            }
        }
        let Some((ty, _)) = found else { return Err(lost()) };
        let owner = self.data_dir.clone().map(|data_dir| Owner { job: self.spec.name.clone(), data_dir });
        connectors::sink(&spec.connector, &ty, (id, owner), disk)
            .map_err(|reason| self.refuse(&spec.uid.at, format!("sink `{}`: {reason}", spec.uid.value)))
    }

    fn wire(&self, edge: &Edge, output: Output) -> Result<Wire> {
        let carried = self.carried(edge, output)?;
        let operator = self.plan.nodes.get(edge.to).and_then(|node| match node.part {
            Part::Operator(at) => self.spec.operators.get(at),
            Part::Source(_) | Part::Sink(_) => None,
        });
        let mut kind = WireKind::Forward;
        if let (Some(operator), Some(descriptor), Some(taken)) = (operator, self.descriptor(edge.to), self.taken(edge)) {
            if !equivalent(&carried, taken) {
                let how = if edge.broadcast { " as broadcast records" } else { "" };
                let (uid, taken, carried) = (&operator.uid.value, describe(taken), describe(&carried));
                let message = format!("operator `{uid}` takes {taken}{how}, but `{}` carries {carried}", self.stream(edge));
                return Err(self.refuse(&edge.at, message));
            }
            if edge.broadcast {
                kind = WireKind::Broadcast;
            } else if let (Some(key_by), Some(key)) = (&operator.key_by, &descriptor.key) {
                kind = WireKind::ByKey(self.key_encoder(&carried, key_by, key)?);
            }
        }
        let lane = match output {
            Output::Lane(lane) => lane,
            Output::Invalid => 1,
            Output::DeadLetter => self.descriptor(edge.from).map_or(0, |descriptor| descriptor.lanes.len()),
        };
        Ok(Wire { from: edge.from, lane, to: edge.to, kind })
    }

    fn key_encoder(&self, carried: &TypeTable, key_by: &At<Vec<At<String>>>, declared: &TypeTable) -> Result<KeyEncoder> {
        let fields: Vec<String> = key_by.value.iter().map(|field| field.value.clone()).collect();
        let encoder = KeyEncoder::new(carried, &fields).map_err(|reason| {
            let named = key_by.value.iter().find(|field| reason.contains(&*field.value));
            self.refuse(named.map_or(&key_by.at, |field| &field.at), format!("`key_by`: {reason}"))
        })?;
        let found = encoder.key_type();
        if same_key(&found, declared) {
            return Ok(encoder);
        }
        Err(self.refuse(
            &key_by.at,
            format!("`key_by` makes keys of type {}, but the component declares {}", describe(&found), describe(declared)),
        ))
    }

    /// The type of what an edge carries.
    fn carried(&self, edge: &Edge, output: Output) -> Result<TypeTable> {
        match output {
            Output::Invalid => Ok(lanes::invalid_type()),
            Output::DeadLetter => Ok(lanes::dead_letter_type()),
            Output::Lane(lane) => match self.descriptor(edge.from) {
                Some(descriptor) => descriptor.lanes.get(lane).map(|lane| lane.schema.clone()).ok_or_else(lost),
                None => self.taken(edge).cloned().ok_or_else(lost),
            },
        }
    }

    /// What the spec calls the stream of an edge.
    fn stream(&self, edge: &Edge) -> String {
        let uid = self.plan.nodes.get(edge.from).map_or("", |node| &node.uid);
        if edge.lane == MAIN { uid.to_owned() } else { format!("{uid}.{}", edge.lane) }
    }

    /// The type that the receiver of an edge takes there; `None` for a sink, which takes any.
    fn taken(&self, edge: &Edge) -> Option<&TypeTable> {
        let descriptor = self.descriptor(edge.to)?;
        if edge.broadcast { descriptor.broadcast.as_ref() } else { Some(&descriptor.input) }
    }

    fn edges(&self) -> impl Iterator<Item = (&Edge, Output)> {
        self.plan.edges.iter().zip(self.outputs.iter().copied())
    }

    fn descriptor(&self, node: usize) -> Option<&Descriptor> {
        self.plan.nodes.get(node).and_then(|node| self.components.get(&node.uid)).map(|component| component.descriptor())
    }

    fn refuse(&self, at: &Place, message: impl Into<String>) -> Error {
        refused(self.spec.error(at, message))
    }
}

/// Says that a table is being loaded, if that takes long.
fn say_loading(operator: &str, table: &job::Table) {
    let size = match &table.rows {
        job::TableRows::File(path) => std::fs::metadata(&path.value).map_or(0, |metadata| metadata.len()),
        job::TableRows::Inline(_) => 0,
    };
    if size >= LARGE_TABLE {
        tracing::info!(operator, size, "loading table {} of operator {operator}, {} MiB", table.name.value, size >> 20);
    }
}

/// The component of an operator.
fn load(spec: &JobSpec, operator: &job::Operator, engine: &GuestEngine, cache: Option<&ComponentCache>) -> Result<Arc<GuestComponent>> {
    let path = &operator.component.value;
    let bytes = std::fs::read(path).map_err(|error| {
        Error::config(format!("reading the component {} of operator {}", path.display(), operator.uid.value)).caused_by(error)
    })?;
    let name = path.file_stem().map_or_else(|| operator.uid.value.clone(), |stem| stem.to_string_lossy().into_owned());
    engine
        .with_stack(operator.limits.stack)?
        .load(&name, &bytes, cache)
        .map_err(|error| Error::new(error.kind(), spec.error(&operator.component.at, error.chain()).to_string()))
}

/// The line of the parameter that a reason names, else that of all of them.
fn parameter_place(spec: &job::Operator, reason: &str) -> Place {
    let named =
        spec.parameters.fields.iter().find(|field| reason.contains(&format!("`{}`", field.value)) || reason.starts_with(&*field.value));
    named.map_or_else(|| spec.parameters.at.clone(), |field| field.at.clone())
}

/// No parameters and none declared fit each other, though one is an empty object and the other nothing.
fn encode_parameters(table: &TypeTable, value: &serde_json::Value) -> Result<Vec<u8>, String> {
    match value.as_object() {
        Some(given) if table.root == Type::Unit && given.is_empty() => Ok(Vec::new()),
        Some(_) if table.root == Type::Unit => Err("the component takes none".to_owned()),
        _ => from_configuration(table, value),
    }
}

/// What the spec changes of a state's declaration.
fn change(state: &mut StateDescriptor, overrides: &[job::StateOverride]) {
    for change in overrides.iter().filter(|change| change.name.value == state.name) {
        state.ttl = change.ttl.map_or(state.ttl, Ttl::millis);
        state.ttl_update = change.ttl_update.unwrap_or(state.ttl_update);
    }
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: SpecError) -> Error {
    Error::config(error.to_string())
}

/// A plan names only what its spec has; were it not so, this says it without a panic.
fn lost() -> Error {
    Error::config("the plan of the job does not fit its spec")
}

#[cfg(test)]
mod tests {
    use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};
    use tidemill_wit::schema::{Type, TypeTable};

    use super::change;
    use crate::spec::error::{At, Place};
    use crate::spec::job::{StateOverride, Ttl};

    #[test]
    fn the_spec_changes_what_a_component_declares_for_a_state() {
        let changed = |name: &str, ttl, ttl_update| {
            let mut state = StateDescriptor {
                name: "seen".to_owned(),
                kind: StateKind::Value,
                value: TypeTable::of(Type::I64),
                entry_key: None,
                ttl: Some(5),
                ttl_update: TtlUpdate::OnReadAndWrite,
            };
            change(&mut state, &[StateOverride { name: At { value: name.to_owned(), at: Place::Whole }, ttl, ttl_update }]);
            (state.ttl, state.ttl_update)
        };
        assert_eq!(changed("seen", Some(Ttl::After(9)), None), (Some(9), TtlUpdate::OnReadAndWrite));
        assert_eq!(changed("seen", None, Some(TtlUpdate::OnCreateAndWrite)), (Some(5), TtlUpdate::OnCreateAndWrite));
        assert_eq!(changed("seen", Some(Ttl::Never), None), (None, TtlUpdate::OnReadAndWrite));
        assert_eq!(changed("other", Some(Ttl::Never), None), (Some(5), TtlUpdate::OnReadAndWrite));
    }
}
