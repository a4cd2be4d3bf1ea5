//! What the imports of an instance work on.

use std::mem;
use std::sync::Arc;

use tidemill_core::detector::{KeyRef, Reads};
use tidemill_core::effects::Effects;
use tidemill_core::state::BroadcastStates;
use tidemill_wit::descriptor::StateKind;
use wasmtime::{bail, format_err};

use super::generated::tidemill::process::telemetry::Level;
use super::limits::{Limiter, Limits};
use super::telemetry::Telemetry;

/// The store's data: what the imports work on.
pub(super) struct Host {
    limiter: Limiter,
    output: usize,
    kinds: Arc<[StateKind]>,
    telemetry: Telemetry,
    /// The caller's, swapped in for a call, so that the store need not borrow them.
    reads: Reads,
    effects: Effects,
    emit: Emit,
    fatal: Option<String>,
}

/// Whether the guest may emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emit {
    Outside,
    Awaited,
    Done,
}

impl Host {
    pub(super) fn new(limits: &Limits, telemetry: Telemetry, kinds: Arc<[StateKind]>) -> Self {
        Self {
            limiter: Limiter::new(limits),
            output: usize::try_from(limits.output).unwrap_or(usize::MAX),
            kinds,
            telemetry,
            reads: Reads::default(),
            effects: Effects::default(),
            emit: Emit::Outside,
            fatal: None,
        }
    }

    /// Swaps the caller's parts with the store's: in before a call, out after it.
    pub(super) fn exchange(&mut self, reads: &mut Reads, effects: &mut Effects, emit: Emit) {
        mem::swap(&mut self.reads, reads);
        mem::swap(&mut self.effects, effects);
        self.emit = emit;
    }

    pub(super) fn limiter(&mut self) -> &mut Limiter {
        &mut self.limiter
    }

    /// The bytes of the instance's memory.
    pub(super) fn memory(&self) -> u64 {
        self.limiter.used()
    }

    /// Takes the buffer for the call's effects.
    pub(super) fn begin_emit(&mut self) -> wasmtime::Result<Effects> {
        match mem::replace(&mut self.emit, Emit::Done) {
            Emit::Awaited => Ok(mem::take(&mut self.effects)),
            Emit::Done => bail!("it emitted twice in one call"),
            Emit::Outside => bail!("it emitted outside process-elements, on-timers and process-broadcast-elements"),
        }
    }

    pub(super) fn end_emit(&mut self, effects: Effects) {
        self.effects = effects;
    }

    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(super) fn output_limit(&self) -> usize {
        self.output
    }

    /// Takes in a line for the log.
    pub(super) fn log(&mut self, level: Level, message: &str) {
        if !self.telemetry.keep_panic(level, message) {
            let is_new = self.reads.lines.add();
            self.telemetry.log(level, message, is_new);
        }
    }

    /// The number of a counter that the guest has used before.
    pub(super) fn counter(&self, name: &str) -> Option<usize> {
        self.telemetry.find(name)
    }

    pub(super) fn telemetry(&mut self) -> &mut Telemetry {
        &mut self.telemetry
    }

    /// The key of a slot whose map or list state a guest wants to read.
    pub(super) fn key_with_entries(&self, slot: u32, state: u8) -> wasmtime::Result<KeyRef<'_>> {
        let slots = &self.reads.slots;
        if slot as usize >= slots.len() {
            bail!("it read state of slot {slot}, but the call has {} slots", slots.len());
        }
        match self.kinds.get(usize::from(state)) {
            Some(kind) if kind.has_entries() => Ok(slots.get(slot as usize)),
            Some(kind) => bail!("it read entries of state {state}, which is of kind {kind:?}"),
            None => bail!("it read entries of state {state}, but it declares {} states", self.kinds.len()),
        }
    }

    /// The broadcast states, of which the guest wants to read one.
    pub(super) fn broadcast(&self, state: u8) -> wasmtime::Result<&BroadcastStates> {
        let states = &self.reads.broadcast;
        if usize::from(state) >= states.len() {
            bail!("it read broadcast state {state}, but it declares {}", states.len());
        }
        Ok(states)
    }

    /// Ends the call, and the job, for a reason that is not the guest's.
    pub(super) fn fatal(&mut self, error: &tidemill_core::Error) -> wasmtime::Error {
        let text = format!("reading keyed state: {}", error.chain());
        self.fatal = Some(text.clone());
        format_err!("{text}")
    }

    pub(super) fn take_fatal(&mut self) -> Option<String> {
        self.fatal.take()
    }
}
