use serde::{Deserialize, Serialize};
use tidemill_sdk::{Detector, Schema, ValueState};

#[derive(Serialize, Deserialize, Schema)]
struct Pair<T> {
    first: T,
    second: T,
}

#[derive(Detector)]
struct Characters {
    last: ValueState<Pair<char>>,
}

fn main() {}
