use serde::{Deserialize, Serialize};
use tidemill_sdk::Schema;

#[derive(Serialize, Deserialize, Schema)]
struct Line {
    quantity: usize,
}

fn main() {}
