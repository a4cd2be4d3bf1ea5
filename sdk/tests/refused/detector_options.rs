use tidemill_sdk::{Detector, Parameters, SideOutput, Table, ValueState};

#[derive(Detector)]
struct Lives {
    #[state(ttl = "3 days")]
    value: ValueState<i64>,
}

#[derive(Detector)]
struct Renews {
    #[state(ttl = "3d", ttl_update = "on_read")]
    value: ValueState<i64>,
}

#[derive(Detector)]
struct Expires {
    #[state(time_to_live = "3d")]
    value: ValueState<i64>,
}

#[derive(Detector)]
struct Lanes {
    main: SideOutput<i64>,
}

#[derive(Detector)]
struct Tables {
    #[table(required)]
    names: Table<String, String>,
}

#[derive(Detector)]
struct Names {
    first: ValueState<i64>,
    #[state(name = "first")]
    second: ValueState<i64>,
}

#[derive(Detector)]
struct Options {
    first: Parameters<String>,
    second: Parameters<String>,
}

#[derive(Detector)]
struct Stated {
    #[state(name = "late")]
    lane: SideOutput<i64>,
}

fn main() {}
