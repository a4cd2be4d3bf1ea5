use tidemill_sdk::failure::BatchFailure;
use tidemill_sdk::testing::Harness;

use super::{Breach, Limits, Payment, Rule};

fn pay(harness: &mut Harness<Limits>, account: &str, ts: i64, amount: i64) {
    harness.element(&account.to_owned(), ts, &Payment { account, ts, amount }).unwrap();
}

fn rule(harness: &mut Harness<Limits>, name: &str, limit: Option<i64>) -> Result<(), BatchFailure> {
    harness.broadcast(None, &Rule { name: name.to_owned(), limit })
}

#[test]
fn the_rules_of_the_moment_hold_for_every_account() {
    let mut harness = Harness::<Limits>::open(&()).unwrap();
    pay(&mut harness, "ada", 1, 500);
    rule(&mut harness, "high", Some(100)).unwrap();
    rule(&mut harness, "low", Some(10)).unwrap();
    pay(&mut harness, "bob", 2, 50);
    pay(&mut harness, "ada", 3, 1);
    rule(&mut harness, "low", None).unwrap();
    pay(&mut harness, "bob", 4, 50);
    pay(&mut harness, "bob", 5, 1);
    let breach = |account: &str, rule: &str, total| Breach { account: account.to_owned(), rule: rule.to_owned(), total };
    let expected = [
        (Some(2), breach("bob", "low", 50)),
        (Some(3), breach("ada", "high", 501)),
        (Some(3), breach("ada", "low", 501)),
        (Some(5), breach("bob", "high", 101)),
    ];
    assert_eq!(harness.outputs::<Breach>("main").unwrap(), expected);
}

#[test]
fn a_negative_limit_is_a_bad_record() {
    let mut harness = Harness::<Limits>::open(&()).unwrap();
    assert_eq!(rule(&mut harness, "odd", Some(-1)), Err(BatchFailure::BadRecord(0, "a limit is at least 0".to_owned())));
}
