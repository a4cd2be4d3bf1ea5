//! The numbers that a day has by construction.

/// SKUs that every store carries.
pub(crate) const SKUS: usize = 2_429;

/// How many of everything a day has; each count is exact for every seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Stores; each carries every SKU.
    pub stores: usize,
    /// Rows of the opening stock: a store and a SKU.
    pub store_skus: usize,
    /// Keys that open at zero or below and sell on time: a `BOOK_ERROR` each.
    pub opens_empty_sold: usize,
    /// Keys that open at zero or below and sell nothing on time.
    pub opens_empty_unsold: usize,
    /// Keys that run out and sell no more: a `STOCK_OUT` each.
    pub runs_out: usize,
    /// Keys that run out and sell again after the deadline: a `STOCK_OUT` and a `BOOK_ERROR` each.
    pub sells_after: usize,
    /// Keys that run out and sell again up to the deadline: a `BOOK_ERROR` each.
    pub sells_within: usize,
    /// Keys that sell and do not run out.
    pub lasts: usize,
    /// Lines that count, of first copies and the business date.
    pub on_time_lines: usize,
    /// Lines of the business date that were uploaded too late to count.
    pub late_lines: usize,
    /// Baskets of other business dates, on time or late.
    pub other_date_baskets: usize,
}

impl Counts {
    /// The counts of a day that is `scale` times as large.
    pub(crate) fn at_scale(scale: usize) -> Self {
        Self {
            stores: 50 * scale,
            store_skus: 50 * SKUS * scale,
            opens_empty_sold: 1_948 * scale,
            opens_empty_unsold: 4_438 * scale,
            runs_out: 5_801 * scale,
            sells_after: 978 * scale,
            sells_within: 128 * scale,
            lasts: 29_042 * scale,
            on_time_lines: 56_429 * scale,
            late_lines: 1_141 * scale,
            other_date_baskets: 1_200 * scale,
        }
    }

    /// Keys that open at zero or below.
    pub fn opens_empty(&self) -> usize {
        self.opens_empty_sold + self.opens_empty_unsold
    }

    /// Keys with at least one on-time line.
    pub fn sold_keys(&self) -> usize {
        self.opens_empty_sold + self.runs_out + self.sells_after + self.sells_within + self.lasts
    }

    /// Alerts `STOCK_OUT`.
    pub fn stock_outs(&self) -> usize {
        self.runs_out + self.sells_after
    }

    /// Alerts `BOOK_ERROR`.
    pub fn book_errors(&self) -> usize {
        self.opens_empty_sold + self.sells_after + self.sells_within
    }

    /// All alerts.
    pub fn alerts(&self) -> usize {
        self.stock_outs() + self.book_errors()
    }
}
