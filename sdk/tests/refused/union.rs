use tidemill_sdk::Schema;

#[derive(Schema)]
union Either {
    number: i64,
    bits: u64,
}

fn main() {}
