//! Drops later copies of a basket: tills send a basket again when they did not hear that it arrived.
//!
//! Keyed by basket. What was seen is forgotten three days of processing time after the first copy, so the state stays bounded.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Context, Detector, Failure, KeyedProcessFunction, Schema, ValueState};

/// A basket as a till sends it. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Basket<'a> {
    /// Unique; the key.
    pub basket_id: &'a str,
    /// The store.
    pub store_id: i64,
    /// The till in the store.
    pub till_id: i64,
    /// The day it counts for, such as "2026-08-15".
    pub business_date: &'a str,
    /// When it was sold.
    pub event_ts: i64,
    /// When the till sent it.
    pub uploaded_at: i64,
    /// What was sold.
    #[serde(borrow)]
    pub lines: Vec<Item<'a>>,
}

/// A line of a basket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Item<'a> {
    /// The article.
    pub sku: &'a str,
    /// How many.
    pub qty: i64,
}

/// Lets the first copy of every basket through, unchanged.
#[derive(Detector)]
#[detector(version = "1")]
pub struct FirstCopy {
    #[state(ttl = "3d")]
    seen: ValueState<bool>,
}

impl KeyedProcessFunction for FirstCopy {
    type Key = String;
    type Input<'a> = Basket<'a>;
    type Output<'a> = Basket<'a>;

    fn process_element(&mut self, basket: Basket<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if self.seen.value(ctx)?.is_none() {
            self.seen.update(ctx, true);
            ctx.emit(&basket);
        }
        Ok(())
    }
}

tidemill_sdk::export!(FirstCopy);

#[cfg(test)]
mod tests;
