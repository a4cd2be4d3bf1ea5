use serde::{Deserialize, Serialize};
use tidemill_sdk::Schema;

#[derive(Serialize, Deserialize, Schema)]
struct Basket {
    #[serde(flatten)]
    head: Head,
}

#[derive(Serialize, Deserialize, Schema)]
struct Head {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    till: Option<i64>,
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(tag = "kind")]
enum Event {
    Sale { quantity: i64 },
}

fn main() {}
