//! What windows gather.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::{AggregateFunction, MergingAggregateFunction, ReduceFunction, Schema};

/// What a window gathers of the records that it takes, and what it gives when it fires.
pub trait WindowContent {
    /// What is added.
    type Input: Clone;
    /// What is stored.
    type Stored: Schema + DeserializeOwned;
    /// What a window gives when it fires.
    type Result<'a>;

    /// Adds to what a window has, `None` if it is new.
    fn add(stored: Option<Self::Stored>, input: Self::Input) -> Self::Stored;

    /// Makes one content of those of two windows that merge, the earlier one first.
    fn merge(earlier: Self::Stored, later: Self::Stored) -> Self::Stored;

    /// The result of what was added so far.
    fn result(stored: &Self::Stored) -> Self::Result<'_>;
}

/// All records reduced to one value of their type.
pub struct Reduced<T, F>(PhantomData<fn(T, F)>);

/// An accumulator.
pub struct Aggregated<F>(PhantomData<fn(F)>);

/// The records themselves, in the order of arrival: for functions that need all of a window. Each record that is added writes the window's
/// whole list again, so prefer the others for windows of many records.
pub struct Collected<T>(PhantomData<fn(T)>);

impl<T: Schema + DeserializeOwned + Clone + 'static, F: ReduceFunction<T>> WindowContent for Reduced<T, F> {
    type Input = T;
    type Stored = T;
    type Result<'a> = &'a T;

    fn add(stored: Option<T>, input: T) -> T {
        match stored {
            Some(older) => F::reduce(older, input),
            None => input,
        }
    }

    fn merge(earlier: T, later: T) -> T {
        F::reduce(earlier, later)
    }

    fn result(stored: &T) -> &T {
        stored
    }
}

impl<F: MergingAggregateFunction> WindowContent for Aggregated<F>
where
    F::Input: Clone,
{
    type Input = F::Input;
    type Stored = F::Accumulator;
    type Result<'a> = F::Output;

    fn add(stored: Option<F::Accumulator>, input: F::Input) -> F::Accumulator {
        let mut accumulator = stored.unwrap_or_else(<F as AggregateFunction>::create_accumulator);
        F::add(&mut accumulator, input);
        accumulator
    }

    fn merge(earlier: F::Accumulator, later: F::Accumulator) -> F::Accumulator {
        F::merge(earlier, later)
    }

    fn result(stored: &F::Accumulator) -> F::Output {
        F::get_result(stored)
    }
}

impl<T: Schema + DeserializeOwned + Clone + 'static> WindowContent for Collected<T> {
    type Input = T;
    type Stored = Vec<T>;
    type Result<'a> = &'a [T];

    fn add(stored: Option<Vec<T>>, input: T) -> Vec<T> {
        let mut items = stored.unwrap_or_default();
        items.push(input);
        items
    }

    fn merge(mut earlier: Vec<T>, later: Vec<T>) -> Vec<T> {
        earlier.extend(later);
        earlier
    }

    fn result(stored: &Vec<T>) -> &[T] {
        stored
    }
}
