use tidemill_sdk::{Detector, ValueState};

#[derive(Detector)]
struct Count(ValueState<i64>);

#[derive(Detector)]
enum Either {
    One,
}

fn main() {}
