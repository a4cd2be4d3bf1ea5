//! The second version of `stock_out`: it also tells when a shelf has one unit left. It takes over the state of the first.
//!
//! The level of a store and SKU is its opening stock minus every unit sold on time. Lines arrive out of order, so they are only buffered
//! under their event time, and applied in `on_timer` when the watermark has passed it: the result does not depend on the order of arrival.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Context, Detector, Duration, Failure, KeyedProcessFunction, MapState, Parameters, Schema, SideOutput};
use tidemill_sdk::{Table, Timer, ValueState};

/// A line of a basket. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Line<'a> {
    /// The basket that it is of.
    pub basket_id: &'a str,
    /// The store.
    pub store_id: i64,
    /// The article.
    pub sku: &'a str,
    /// How many were sold.
    pub qty: i64,
    /// When it was sold.
    pub event_ts: i64,
    /// When the till sent it.
    pub uploaded_at: i64,
}

/// A line that came too late to count, with the watermark that it met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct LateLine<'a> {
    /// The basket that it is of.
    pub basket_id: &'a str,
    /// The store.
    pub store_id: i64,
    /// The article.
    pub sku: &'a str,
    /// How many were sold.
    pub qty: i64,
    /// When it was sold.
    pub event_ts: i64,
    /// When the till sent it.
    pub uploaded_at: i64,
    /// The watermark on arrival.
    pub watermark: i64,
}

/// What the store should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Alert<'a> {
    /// What happened.
    pub kind: Kind,
    /// The store.
    pub store_id: i64,
    /// The article.
    pub sku: &'a str,
    /// The sale that emptied the shelf, or that cannot have been.
    pub since: i64,
    /// When that was certain.
    pub alert_ts: i64,
    /// The level by the books.
    pub level: i64,
    /// The version of the rule.
    pub rule_version: i64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Kind {
    /// The books say that the shelf is empty, and nothing was sold since.
    StockOut,
    /// Something was sold that the books say was not there.
    BookError,
    /// One unit is left.
    LowStock,
}

/// The level of a store and SKU, and what it has led to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Stock {
    /// By the books.
    pub level: i64,
    /// The sale that emptied the shelf, while it is open whether it is out of stock.
    pub out_since: Option<i64>,
    /// A `STOCK_OUT` was sent.
    pub stock_out: bool,
    /// A `BOOK_ERROR` was sent.
    pub book_error: bool,
    /// The sale that left one unit, if there was one since this version runs.
    pub low_since: Option<i64>,
}

/// A row of the opening stock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Opening {
    /// The level at the start of the day.
    pub opening: i64,
}

/// What the job spec may say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct StockOutParameters {
    /// How long nothing may be sold after a shelf was emptied until it counts as out of stock.
    pub confirm: Duration,
    /// How long after the sale a line may be sent to count.
    pub max_upload_delay: Duration,
}

impl Default for StockOutParameters {
    fn default() -> Self {
        Self { confirm: Duration::from_mins(30), max_upload_delay: Duration::from_mins(5) }
    }
}

const RULE_VERSION: i64 = 2;

/// The detector; keyed by store and SKU.
#[derive(Detector)]
#[detector(version = "2")]
pub struct StockOut {
    stock: ValueState<Stock>,
    /// Units sold by event time, until the watermark has passed it.
    pending: MapState<i64, i64>,
    late: SideOutput<LateLine<'static>>,
    opening_stock: Table<(i64, String), Opening>,
    parameters: Parameters<StockOutParameters>,
}

impl KeyedProcessFunction for StockOut {
    type Key = (i64, String);
    type Input<'a> = Line<'a>;
    type Output<'a> = Alert<'a>;

    fn process_element(&mut self, line: Line<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let watermark = ctx.current_watermark();
        let delay = line.uploaded_at.saturating_sub(line.event_ts);
        if line.event_ts <= watermark || delay > self.parameters.max_upload_delay.as_millis() {
            let Line { basket_id, store_id, sku, qty, event_ts, uploaded_at } = line;
            self.late.emit(ctx, &LateLine { basket_id, store_id, sku, qty, event_ts, uploaded_at, watermark });
            return Ok(());
        }
        let units = self.pending.get(ctx, &line.event_ts)?.copied().unwrap_or(0);
        self.pending.put(ctx, &line.event_ts, units.saturating_add(line.qty));
        ctx.register_event_time_timer(line.event_ts);
        Ok(())
    }

    /// A timer is a sale, a deadline, or both: then the sale comes first.
    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let now = timer.timestamp;
        let mut stock = match self.stock.value(ctx)? {
            Some(stock) => stock.clone(),
            None => Stock { level: self.opening_level(ctx)?, ..Stock::default() },
        };
        if let Some(units) = self.pending.get(ctx, &now)?.copied() {
            self.pending.remove(ctx, &now);
            self.sell(&mut stock, units, now, ctx)?;
        }
        if let Some(since) = stock.out_since.filter(|&since| self.deadline(since) == now) {
            stock.out_since = None;
            if !stock.stock_out {
                stock.stock_out = true;
                emit(ctx, Kind::StockOut, since, now, stock.level)?;
            }
        }
        self.stock.update(ctx, stock);
        Ok(())
    }
}

impl StockOut {
    fn sell(&self, stock: &mut Stock, units: i64, now: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let before = stock.level;
        stock.level = before.saturating_sub(units);
        // Any sale shows that the shelf was not empty after all. Its deadline's timer stays: a sale may be buffered for the same time.
        stock.out_since = None;
        if before <= 0 {
            if !stock.book_error {
                stock.book_error = true;
                emit(ctx, Kind::BookError, now, now, stock.level)?;
            }
        } else if stock.level <= 0 {
            stock.out_since = Some(now);
            ctx.register_event_time_timer(self.deadline(now));
        } else if before > 1 && stock.level == 1 {
            stock.low_since = Some(now);
            emit(ctx, Kind::LowStock, now, now, stock.level)?;
        }
        Ok(())
    }

    fn deadline(&self, since: i64) -> i64 {
        since.saturating_add(self.parameters.confirm.as_millis())
    }

    fn opening_level(&self, ctx: &mut Context<'_, Self>) -> Result<i64, Failure> {
        let key = ctx.key()?;
        Ok(self.opening_stock.get(ctx, key)?.map_or(0, |row| row.opening))
    }
}

fn emit(ctx: &mut Context<'_, StockOut>, kind: Kind, since: i64, alert_ts: i64, level: i64) -> Result<(), Failure> {
    let (store_id, sku) = ctx.key()?;
    ctx.emit(&Alert { kind, store_id: *store_id, sku, since, alert_ts, level, rule_version: RULE_VERSION });
    Ok(())
}

tidemill_sdk::export!(StockOut);

#[cfg(test)]
mod tests {
    use tidemill_sdk::testing::Harness;

    use super::{Alert, Kind, Line, Opening, StockOut, StockOutParameters};

    const MINUTE: i64 = 60_000;

    /// The alerts of sales of a shelf that opens with 3 units, at these minutes: kind, since, when, level.
    fn alerts(sales: &[(i64, i64)]) -> Vec<(Kind, i64, i64, i64)> {
        let mut harness = Harness::<StockOut>::open(&StockOutParameters::default()).unwrap();
        harness.row("opening_stock", &(1i64, "A"), &Opening { opening: 3 }).unwrap();
        for &(minute, qty) in sales {
            let event_ts = minute * MINUTE;
            let line = Line { basket_id: "b", store_id: 1, sku: "A", qty, event_ts, uploaded_at: event_ts };
            harness.element(&(1, "A".to_owned()), event_ts, &line).unwrap();
        }
        harness.watermark(i64::MAX).unwrap();
        let found = harness.outputs::<Alert<'_>>("main").unwrap();
        assert!(found.iter().all(|(_, alert)| alert.rule_version == 2));
        found.into_iter().map(|(_, alert)| (alert.kind, alert.since / MINUTE, alert.alert_ts / MINUTE, alert.level)).collect()
    }

    #[test]
    fn a_sale_that_leaves_exactly_one_unit_is_low_stock() {
        assert_eq!(alerts(&[(1, 2)]), [(Kind::LowStock, 1, 1, 1)]);
        assert_eq!(alerts(&[(1, 1), (2, 1), (3, 1)]), [(Kind::LowStock, 2, 2, 1), (Kind::StockOut, 3, 33, 0)]);
        assert_eq!(alerts(&[(1, 3), (2, 1)]), [(Kind::BookError, 2, 2, -1)]);
        assert_eq!(alerts(&[(1, 1)]), []);
    }
}
