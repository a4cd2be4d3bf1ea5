//! Checks payments against limits that come on a broadcast stream, per account and in all.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{BroadcastContext, BroadcastState, Context, Detector, Failure, KeyedBroadcastProcessFunction, KeyedProcessFunction};
use tidemill_sdk::{Schema, ValueState};

/// A payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Payment<'a> {
    /// Who pays.
    pub account: &'a str,
    /// When, in milliseconds.
    pub ts: i64,
    /// How much.
    pub amount: i64,
}

/// A rule; the last one of a name holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Rule {
    /// The rule's name.
    pub name: String,
    /// What an account may pay in all; none: the rule holds no more.
    pub limit: Option<i64>,
}

/// A limit that a payment has gone over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Breach {
    /// Whose.
    pub account: String,
    /// Which rule.
    pub rule: String,
    /// What the account has paid in all.
    pub total: i64,
}

/// The detector.
#[derive(Detector)]
#[detector(version = "1", broadcast)]
pub struct Limits {
    total: ValueState<i64>,
    rules: BroadcastState<String, i64>,
}

impl KeyedProcessFunction for Limits {
    type Key = String;
    type Input<'a> = Payment<'a>;
    type Output<'a> = Breach;

    fn process_element(&mut self, payment: Payment<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let total = self.total.value(ctx)?.copied().unwrap_or(0) + payment.amount;
        self.total.update(ctx, total);
        let mut broken = Vec::new();
        self.rules.for_each(ctx, |name, limit| {
            broken.extend((total > *limit).then(|| name.clone()));
            Ok(())
        })?;
        for rule in broken {
            ctx.emit(&Breach { account: payment.account.to_owned(), rule, total });
        }
        Ok(())
    }
}

impl KeyedBroadcastProcessFunction for Limits {
    type Broadcast<'a> = Rule;

    fn process_broadcast_element(&mut self, rule: Rule, ctx: &mut BroadcastContext<'_, Self>) -> Result<(), Failure> {
        match rule.limit {
            Some(limit) if limit < 0 => return Err("a limit is at least 0".into()),
            Some(limit) => self.rules.put(ctx, &rule.name, limit),
            None => self.rules.remove(ctx, &rule.name),
        }
        Ok(())
    }
}

tidemill_sdk::export!(Limits);

#[cfg(test)]
mod tests;
