use tidemill_sdk::{Detector, ValueState};

#[derive(Detector)]
struct Count {
    count: ValueState<i64>,
    seen: u64,
}

fn main() {}
