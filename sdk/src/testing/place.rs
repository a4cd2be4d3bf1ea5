//! Where the engine's detector keeps an instance of the author's.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;

use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::runner::Runner;

/// Where an instance is kept.
pub trait Place<D: KeyedProcessFunction>: Send + 'static {
    /// Takes the instance.
    fn keep(runner: Runner<D>) -> Self;

    /// Calls the instance.
    ///
    /// # Errors
    /// Those of the call, or the instance is not here.
    fn run(&mut self, call: &mut dyn FnMut(&mut Runner<D>) -> Result<u32, BatchFailure>) -> Result<u32, BatchFailure>;
}

/// An instance that may move from thread to thread.
pub struct Owned<D: KeyedProcessFunction>(Box<Runner<D>>);

impl<D: KeyedProcessFunction> Place<D> for Owned<D>
where
    Runner<D>: Send,
{
    fn keep(runner: Runner<D>) -> Self {
        Self(Box::new(runner))
    }

    fn run(&mut self, call: &mut dyn FnMut(&mut Runner<D>) -> Result<u32, BatchFailure>) -> Result<u32, BatchFailure> {
        call(&mut self.0)
    }
}

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(0) };
    static INSTANCES: RefCell<HashMap<u64, Box<dyn Any>>> = RefCell::default();
}

/// An instance that stays on its thread. The engine requires its detectors to be [`Send`], authors' detectors need not be.
pub struct Parked<D> {
    id: u64,
    detector: PhantomData<fn() -> D>,
}

impl<D: KeyedProcessFunction> Place<D> for Parked<D> {
    fn keep(runner: Runner<D>) -> Self {
        let id = NEXT.replace(NEXT.get() + 1);
        INSTANCES.with_borrow_mut(|instances| instances.insert(id, Box::new(runner)));
        Self { id, detector: PhantomData }
    }

    fn run(&mut self, call: &mut dyn FnMut(&mut Runner<D>) -> Result<u32, BatchFailure>) -> Result<u32, BatchFailure> {
        // Taken out for the call, so that a detector may open a harness itself.
        let taken = INSTANCES.with_borrow_mut(|instances| instances.remove(&self.id));
        let Some(mut runner) = taken.and_then(|instance| instance.downcast::<Runner<D>>().ok()) else {
            return Err(BatchFailure::Fatal("the instance is on another thread, or a panic has ended it".to_owned()));
        };
        let outcome = call(&mut runner);
        INSTANCES.with_borrow_mut(|instances| instances.insert(self.id, runner));
        outcome
    }
}

impl<D> Drop for Parked<D> {
    fn drop(&mut self) {
        // The instance is dropped when nothing is borrowed any more. At the end of the thread it is gone already.
        let instance = INSTANCES.try_with(|instances| instances.try_borrow_mut().map(|mut instances| instances.remove(&self.id)));
        drop(instance);
    }
}
