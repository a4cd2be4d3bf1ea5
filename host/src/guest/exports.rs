//! The five exports of a detector, in either of the two places where a component can have them.
//!
//! A component exports them in the interface `detector`. Components that were built before that interface existed export them from the world
//! itself. [`DetectorPre`] looks them up once per component, so the rest of the host does not know the difference.

use std::marker::PhantomData;
use std::result;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower, TypedFunc};
use wasmtime::error::Context as _;
use wasmtime::{Engine, Result, Store, bail, format_err};

use super::generated::tidemill::process::types;
use super::store::Host;

/// The interface that has the exports.
const INTERFACE: &str = "tidemill:process/detector@0.1.0";
const INTERFACE_OF_ANY_VERSION: &str = "tidemill:process/detector@";

const DESCRIBE: &str = "describe";
const OPEN: &str = "open";
const PROCESS_ELEMENTS: &str = "process-elements";
const ON_TIMERS: &str = "on-timers";
const PROCESS_BROADCAST_ELEMENTS: &str = "process-broadcast-elements";
const NAMES: [&str; 5] = [DESCRIBE, OPEN, PROCESS_ELEMENTS, ON_TIMERS, PROCESS_BROADCAST_ELEMENTS];

/// Why a component has no exports that the host can call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// It has none of them.
    All,
    /// It has the interface, but in a version that the host does not know.
    Version(String),
    /// It has some of them, but not these.
    Some(Vec<&'static str>),
}

/// Where a component has its exports: in this instance, or in the world itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(Option<ComponentExportIndex>);

impl Place {
    /// Finds the exports of a component by their names.
    pub(super) fn of(component: &Component) -> result::Result<Self, Lack> {
        let interface = component.get_export_index(None, INTERFACE);
        let missing: Vec<_> = NAMES.into_iter().filter(|name| component.get_export_index(interface.as_ref(), *name).is_none()).collect();
        match missing.len() {
            0 => Ok(Self(interface)),
            len if len == NAMES.len() && interface.is_none() => {
                let ty = component.component_type();
                let of_other_version = ty.exports(component.engine()).find(|(name, _)| name.starts_with(INTERFACE_OF_ANY_VERSION));
                Err(of_other_version.map_or(Lack::All, |(name, _)| Lack::Version(name.to_owned())))
            }
            _ => Err(Lack::Some(missing)),
        }
    }
}

/// An export that was found and has the right type. `P` and `R` are the tuples of its parameters and results.
struct Export<P, R> {
    index: ComponentExportIndex,
    types: PhantomData<fn(P) -> R>,
}

impl<P: ComponentNamedList + Lower, R: ComponentNamedList + Lift> Export<P, R> {
    fn find(pre: &InstancePre<Host>, place: Place, name: &str) -> Result<Self> {
        let found = pre.component().get_export(place.0.as_ref(), name);
        let (item, index) = found.ok_or_else(|| format_err!("there is no export `{name}`"))?;
        let ComponentItem::ComponentFunc(func) = item else { bail!("the export `{name}` is not a function") };
        func.typecheck::<P, R>(&pre.instance_type()).with_context(|| format!("type-checking export func `{name}`"))?;
        Ok(Self { index, types: PhantomData })
    }

    fn of(&self, instance: &Instance, store: &mut Store<Host>) -> Result<TypedFunc<P, R>> {
        instance.get_typed_func(store, self.index)
    }
}

// A `TypedFunc` also takes parameters with a shorter lifetime than its own, so `'static` is no restriction.
type Described = (types::Descriptor,);
type Parameters = (&'static [u8],);
type Opened = (result::Result<(), String>,);
type OfElements = (types::Context<'static>, types::Elements<'static>);
type OfTimers = (types::Context<'static>, types::Timers<'static>);
type Consumed = (result::Result<u32, types::Failure>,);

/// A component that can be instantiated, with its exports.
pub(super) struct DetectorPre {
    pre: InstancePre<Host>,
    describe: Export<(), Described>,
    open: Export<Parameters, Opened>,
    process_elements: Export<OfElements, Consumed>,
    on_timers: Export<OfTimers, Consumed>,
    process_broadcast_elements: Export<OfElements, Consumed>,
}

impl DetectorPre {
    /// Takes the exports at `place`.
    ///
    /// # Errors
    /// An export does not have the type that the contract gives it.
    pub(super) fn new(pre: InstancePre<Host>, place: Place) -> Result<Self> {
        Ok(Self {
            describe: Export::find(&pre, place, DESCRIBE)?,
            open: Export::find(&pre, place, OPEN)?,
            process_elements: Export::find(&pre, place, PROCESS_ELEMENTS)?,
            on_timers: Export::find(&pre, place, ON_TIMERS)?,
            process_broadcast_elements: Export::find(&pre, place, PROCESS_BROADCAST_ELEMENTS)?,
            pre,
        })
    }

    pub(super) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    pub(super) fn instantiate(&self, store: &mut Store<Host>) -> Result<DetectorExports> {
        let instance = self.pre.instantiate(&mut *store)?;
        Ok(DetectorExports {
            describe: self.describe.of(&instance, store)?,
            open: self.open.of(&instance, store)?,
            process_elements: self.process_elements.of(&instance, store)?,
            on_timers: self.on_timers.of(&instance, store)?,
            process_broadcast_elements: self.process_broadcast_elements.of(&instance, store)?,
        })
    }
}

/// The exports of an instance. Each call needs the store of the instance.
pub(super) struct DetectorExports {
    describe: TypedFunc<(), Described>,
    open: TypedFunc<Parameters, Opened>,
    process_elements: TypedFunc<OfElements, Consumed>,
    on_timers: TypedFunc<OfTimers, Consumed>,
    process_broadcast_elements: TypedFunc<OfElements, Consumed>,
}

impl DetectorExports {
    pub(super) fn describe(&self, store: &mut Store<Host>) -> Result<types::Descriptor> {
        Ok(self.describe.call(store, ())?.0)
    }

    pub(super) fn open(&self, store: &mut Store<Host>, parameters: &[u8]) -> Result<result::Result<(), String>> {
        Ok(self.open.call(store, (parameters,))?.0)
    }

    pub(super) fn process_elements(
        &self,
        store: &mut Store<Host>,
        context: types::Context<'_>,
        elements: types::Elements<'_>,
    ) -> Result<result::Result<u32, types::Failure>> {
        Ok(self.process_elements.call(store, (context, elements))?.0)
    }

    pub(super) fn on_timers(
        &self,
        store: &mut Store<Host>,
        context: types::Context<'_>,
        timers: types::Timers<'_>,
    ) -> Result<result::Result<u32, types::Failure>> {
        Ok(self.on_timers.call(store, (context, timers))?.0)
    }

    pub(super) fn process_broadcast_elements(
        &self,
        store: &mut Store<Host>,
        context: types::Context<'_>,
        elements: types::Elements<'_>,
    ) -> Result<result::Result<u32, types::Failure>> {
        Ok(self.process_broadcast_elements.call(store, (context, elements))?.0)
    }
}
