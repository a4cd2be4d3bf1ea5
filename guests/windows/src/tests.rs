use tidemill_sdk::Duration;
use tidemill_sdk::testing::Harness;

use super::{Fired, Input, Kind, Settings, WindowedNumbers};

#[test]
fn a_session_ends_with_a_gap() {
    let settings = Settings { kind: Kind::Session, size: Duration::from_millis(10), full: true, ..Settings::default() };
    let mut harness = Harness::<WindowedNumbers>::open(&settings).unwrap();
    for (number, time) in [(1, 5), (2, 30), (3, 12)] {
        harness.element(&"a".to_owned(), time, &Input { key: "a".to_owned(), number }).unwrap();
    }
    harness.watermark(21).unwrap();
    let fired = Fired { key: "a".to_owned(), start: 5, end: 22, result: vec![1, 3] };
    assert_eq!(harness.outputs::<Fired>("main").unwrap(), [(Some(21), fired)]);
}
