use tidemill_sdk::testing::Harness;

use super::{GoneQuiet, Quiet, Reading};

const HOUR: i64 = 3_600_000;

#[test]
fn a_device_is_told_of_each_hour_after_its_last_reading() {
    let mut harness = Harness::<GoneQuiet>::open(&super::QuietParameters::default()).unwrap();
    for (device, at) in [("a", 0), ("b", 10), ("a", HOUR - 1)] {
        harness.element(&device.to_owned(), at, &Reading { device, at }).unwrap();
    }
    harness.watermark(2 * HOUR + 10).unwrap();
    let told = harness.outputs::<Quiet<'_>>("main").unwrap();
    let told: Vec<_> = told.iter().map(|(_, quiet)| (quiet.device, quiet.at, quiet.readings)).collect();
    assert_eq!(told, [("b", HOUR + 10, 1), ("a", 2 * HOUR - 1, 2), ("b", 2 * HOUR + 10, 1)]);
}

#[test]
fn at_the_end_of_all_time_it_is_told_of_once() {
    let mut harness = Harness::<GoneQuiet>::open(&super::QuietParameters::default()).unwrap();
    harness.element(&"a".to_owned(), 5, &Reading { device: "a", at: 5 }).unwrap();
    harness.watermark(i64::MAX).unwrap();
    assert_eq!(harness.outputs::<Quiet<'_>>("main").unwrap().len(), 1);
}
