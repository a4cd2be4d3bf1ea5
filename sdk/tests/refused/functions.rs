use tidemill_sdk::window::AggregatingWindows;
use tidemill_sdk::{AggregateFunction, AggregatingState, Detector, ReducingState};

struct Sum;

#[derive(Detector)]
struct Adds {
    sum: ReducingState<i64, Sum>,
}

#[derive(Detector)]
struct Averages {
    average: AggregatingState<Sum>,
}

struct Count;

impl AggregateFunction for Count {
    type Input = i64;
    type Accumulator = i64;
    type Output = i64;

    fn create_accumulator() -> i64 {
        0
    }

    fn add(accumulator: &mut i64, _: i64) {
        *accumulator += 1;
    }

    fn get_result(accumulator: &i64) -> i64 {
        *accumulator
    }
}

#[derive(Detector)]
struct Counts {
    counts: AggregatingWindows<Count>,
}

fn main() {}
