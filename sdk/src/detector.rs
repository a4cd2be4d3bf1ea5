//! A detector is a struct of handles: its states, side outputs, tables and parameters.

use tidemill_wit::descriptor::{Descriptor, StateDescriptor, StateKind, TtlUpdate};
use tidemill_wit::schema::TypeTable;

use crate::broadcast::BroadcastInput;
use crate::effects::Writes;
use crate::{Failure, KeyedProcessFunction};

/// A struct whose fields are handles. Derive it:
///
/// ```
/// use tidemill_sdk::{Detector, MapState, ValueState};
///
/// #[derive(Detector)]
/// #[detector(name = "stock_out", version = "1")] // by default the package's name and version
/// struct StockOut {
///     #[state(name = "level", ttl = "3d", ttl_update = "on_read_and_write")] // by default the field's name, for ever
///     stock: ValueState<i64>,
///     pending: MapState<i64, i64>,
///     #[detector(skip)] // not a handle: `Default::default()` in a new instance
///     seen: u64,
/// }
/// ```
pub trait Detector: Sized + 'static {
    /// The detector's name.
    const NAME: &'static str;
    /// The detector's version, free text.
    const VERSION: &'static str;

    /// Adds the handles to the descriptor.
    fn describe(descriptor: &mut Descriptor);

    /// How the detector takes broadcast records; `None` if it has no such input.
    #[must_use]
    fn broadcast() -> Option<BroadcastInput<Self>>
    where
        Self: KeyedProcessFunction,
    {
        None
    }

    /// Makes an instance whose handles have the ids of the descriptor.
    ///
    /// # Errors
    /// The parameters do not decode.
    fn create(ids: &mut Ids<'_>) -> Result<Self, String>;

    /// Readies the states for a batch of that many slots, forgetting the last one.
    fn begin(&mut self, slots: usize);

    /// Writes down what the batch changed.
    ///
    /// # Errors
    /// A value does not encode.
    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure>;
}

/// A field of a detector.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handle, so it cannot be a field of a detector",
    label = "not a handle",
    note = "handles are ValueState, ListState, MapState, ReducingState, AggregatingState, BroadcastState, those of windows, SideOutput, Table and \
            Parameters",
    note = "a plain field: mark it #[detector(skip)]; a new instance then has its Default"
)]
pub trait Handle: Sized {
    /// Adds the handle to the descriptor.
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor);

    /// Makes the handle, with the id that `describe` gave it.
    ///
    /// # Errors
    /// The parameters do not decode.
    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String>;

    /// Readies the handle for a batch of that many slots.
    fn begin(&mut self, slots: usize) {
        let _ = slots;
    }

    /// Writes down what the batch changed.
    ///
    /// # Errors
    /// A value does not encode.
    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        let _ = writes;
        Ok(())
    }
}

/// What the attributes of a field say.
#[derive(Clone, Copy, Debug)]
pub struct FieldOptions {
    /// The name under which the host knows the handle.
    pub name: &'static str,
    /// A state's time to live in milliseconds.
    pub ttl: Option<i64>,
    /// What renews it.
    pub ttl_update: TtlUpdate,
    /// The job spec may leave it out (a table).
    pub optional: bool,
}

impl FieldOptions {
    /// Describes a state without entry keys.
    pub(crate) fn state(&self, kind: StateKind, value: TypeTable) -> StateDescriptor {
        let Self { name, ttl, ttl_update, .. } = *self;
        StateDescriptor { name: name.to_owned(), kind, value, entry_key: None, ttl, ttl_update }
    }
}

/// Numbers the handles of a new instance in the order of their fields, as the descriptor does.
#[derive(Debug)]
pub struct Ids<'a> {
    parameters: &'a [u8],
    states: u8,
    values: usize,
    entries: usize,
    lanes: u8,
    tables: u8,
    broadcast_states: u8,
}

/// Where a state is found: its id and the column that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateId {
    pub(crate) name: &'static str,
    pub(crate) state: u8,
    pub(crate) column: usize,
}

impl<'a> Ids<'a> {
    /// Begins to number; `parameters` are the encoded parameters.
    pub(crate) fn new(parameters: &'a [u8]) -> Self {
        // Lane 0 is `main`.
        Self { parameters, states: 0, values: 0, entries: 0, lanes: 1, tables: 0, broadcast_states: 0 }
    }

    /// How many columns of values and of entries a batch has.
    pub(crate) fn columns(&self) -> (usize, usize) {
        (self.values, self.entries)
    }

    pub(crate) fn parameters(&self) -> &'a [u8] {
        self.parameters
    }

    pub(crate) fn value_state(&mut self, name: &'static str) -> StateId {
        self.values += 1;
        StateId { name, state: next(&mut self.states), column: self.values - 1 }
    }

    pub(crate) fn entry_state(&mut self, name: &'static str) -> StateId {
        self.entries += 1;
        StateId { name, state: next(&mut self.states), column: self.entries - 1 }
    }

    pub(crate) fn lane(&mut self) -> u8 {
        next(&mut self.lanes)
    }

    pub(crate) fn table(&mut self) -> u8 {
        next(&mut self.tables)
    }

    pub(crate) fn broadcast_state(&mut self) -> u8 {
        next(&mut self.broadcast_states)
    }
}

/// The derive refuses detectors with more fields than ids.
fn next(id: &mut u8) -> u8 {
    let this = *id;
    *id = this.saturating_add(1);
    this
}
