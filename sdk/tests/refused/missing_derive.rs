use serde::{Deserialize, Serialize};
use tidemill_sdk::{Detector, Schema, ValueState};

#[derive(Serialize, Deserialize)]
struct Stock {
    level: i64,
}

#[derive(Serialize, Deserialize, Schema)]
struct Shelf {
    stock: Stock,
}

#[derive(Detector)]
struct StockOut {
    shelf: ValueState<Shelf>,
}

fn main() {}
