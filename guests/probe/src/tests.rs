use tidemill_sdk::Duration;
use tidemill_sdk::testing::Harness;

use super::variant::Key;
use super::{Greeting, Input, Lane, Name, Op, Probe, Said};

fn key() -> Key {
    #[cfg(not(feature = "rekeyed"))]
    return "k".to_owned();
    #[cfg(feature = "rekeyed")]
    return 7;
}

fn harness() -> Harness<Probe> {
    let mut harness = Harness::<Probe>::open(&Greeting { greeting: "hello".to_owned() }).unwrap();
    harness.row("names", &"1", &Name { name: "one".to_owned() }).unwrap();
    harness
}

fn send(harness: &mut Harness<Probe>, at: Option<i64>, ops: impl Into<Vec<Op>>) -> Result<(), String> {
    let input = Input { key: key(), ops: ops.into() };
    harness.element(&key(), at, &input).and_then(|()| harness.flush()).map_err(|failure| failure.to_string())
}

/// What was emitted on a lane, with its times.
fn emitted(harness: &mut Harness<Probe>, lane: &str) -> Vec<(Option<i64>, String)> {
    let records = harness.outputs::<Said>(lane).unwrap();
    records.into_iter().inspect(|(_, said)| assert_eq!(said.key, key())).map(|(time, said)| (time, said.say)).collect()
}

/// Sends ops in one record with time 7, and checks what they say.
#[track_caller]
fn check(ops: impl Into<Vec<Op>>, expected: &[&str]) {
    let mut harness = harness();
    send(&mut harness, Some(7), ops).unwrap();
    let said: Vec<_> = emitted(&mut harness, "main").into_iter().map(|(time, text)| (time == Some(7)).then_some(text).unwrap()).collect();
    assert_eq!(said, expected);
}

fn texts<const N: usize>(items: [&str; N]) -> Vec<String> {
    items.map(str::to_owned).to_vec()
}

fn text(item: &str) -> String {
    item.to_owned()
}

#[test]
fn outputs() {
    let side = |lane, say| Op::Side { lane, say: text(say) };
    check([Op::Emit(text("a")), Op::Greet, side(Lane::Main, "m")], &["a", "hello", "m"]);
    check(
        [Op::SayTimestamp, Op::SayWatermark, Op::SayProcessingTime],
        &["timestamp 7", "watermark -9223372036854775808", "processing time 0"],
    );
    check([Op::Lookup(text("1")), Op::Lookup(text("2"))], &["name one", "name none"]);
    let mut harness = harness();
    harness.watermark(3).unwrap();
    harness.processing_time(9).unwrap();
    let ops = [side(Lane::Late, "l"), side(Lane::Other, "o"), Op::SayTimestamp, Op::SayWatermark, Op::SayProcessingTime];
    send(&mut harness, None, ops).unwrap();
    let main = ["timestamp none", "watermark 3", "processing time 9"];
    assert_eq!(emitted(&mut harness, "main"), main.map(|said| (None, text(said))));
    assert_eq!((emitted(&mut harness, "late"), emitted(&mut harness, "other")), (vec![(None, text("l"))], vec![(None, text("o"))]));
}

#[test]
fn values() {
    let ops = [Op::Get, Op::Put(4), Op::Get, Op::Add(3), Op::Get, Op::ClearValue, Op::Get, Op::Add(-2), Op::Get];
    check(ops, &["value none", "value 4", "value 7", "value none", "value -2"]);
}

#[test]
fn notes() {
    let note = |tag| Op::Note { text: text("t"), count: 2, tag: text(tag) };
    let shown = if cfg!(feature = "narrow") {
        ["note t", "note t"]
    } else if cfg!(feature = "v2") {
        ["note t 2 -", "note t 2 x"]
    } else {
        ["note t 2", "note t 2"]
    };
    let ops = [Op::GetNote, note("-"), Op::GetNote, note("x"), Op::GetNote, Op::ClearNote, Op::GetNote];
    check(ops, &["note none", shown[0], shown[1], "note none"]);
}

#[test]
fn lists() {
    let ops = [
        Op::ListGet,
        Op::ListAdd(text("a")),
        Op::ListAddAll(texts(["b", "c"])),
        Op::ListGet,
        Op::ListUpdate(texts(["d", "e"])),
        Op::ListGet,
        Op::ListUpdate(vec![]),
        Op::ListGet,
        Op::ListAdd(text("f")),
        Op::ListClear,
        Op::ListGet,
    ];
    check(ops, &["list", "list a,b,c", "list d,e", "list", "list"]);
}

#[test]
fn maps() {
    let put = |entries: &[(&str, i64)]| Op::MapPut(entries.iter().map(|&(key, n)| (text(key), n)).collect());
    check([Op::MapIsEmpty, Op::MapLen, Op::MapKeys, Op::MapEntries], &["empty true", "len 0", "keys", "entries"]);
    let ops = [
        put(&[("b", 2), ("a", 1)]),
        Op::MapGet(text("a")),
        Op::MapGet(text("x")),
        Op::MapContains(text("b")),
        Op::MapContains(text("x")),
        Op::MapIsEmpty,
        Op::MapLen,
        Op::MapKeys,
        Op::MapEntries,
        Op::MapRemove(text("a")),
        Op::MapRemove(text("x")),
        put(&[("b", 3)]),
        Op::MapEntries,
        Op::MapClear,
        Op::MapIsEmpty,
    ];
    let first = ["map a 1", "map x none", "contains true", "contains false", "empty false", "len 2", "keys a,b", "entries a=1,b=2"];
    check(ops, &[&first[..], &["entries b=3", "empty true"]].concat());
}

#[test]
fn sums_and_averages() {
    let ops = [Op::GetSum, Op::SumAdd(1), Op::SumAdd(2), Op::GetSum, Op::SumClear, Op::SumAdd(5), Op::GetSum];
    check(ops, &["sum none", "sum 3", "sum 5"]);
    let ops = [
        Op::GetAverage,
        Op::AverageAdd(1),
        Op::AverageAdd(2),
        Op::GetAverage,
        Op::AverageClear,
        Op::GetAverage,
        Op::AverageAdd(4),
        Op::GetAverage,
    ];
    check(ops, &["average none", "average 1.5", "average none", "average 4"]);
    check([Op::SumAdd(i64::MAX), Op::SumAdd(1), Op::GetSum], &["sum -9223372036854775808"]);
}

#[test]
fn event_timers() {
    let mut harness = harness();
    let script = vec![Op::SayTimestamp, Op::EventTimerIn(Duration::from_millis(5)), Op::EventTimer(12)];
    let ops = [
        Op::EventTimer(10),
        Op::EventTimer(11),
        Op::EventTimerIn(Duration::from_millis(3)),
        Op::DeleteEventTimer(11),
        Op::EventTimerDo { at: 8, ops: script },
    ];
    send(&mut harness, Some(7), ops).unwrap();
    harness.watermark(12).unwrap();
    let said = |at: i64, what: &str| (Some(at), format!("{what} {at}"));
    assert_eq!(emitted(&mut harness, "main"), [said(8, "event"), said(8, "timestamp"), said(10, "event"), said(12, "event")]);
    harness.watermark(13).unwrap();
    assert_eq!(emitted(&mut harness, "main")[4..], [said(13, "event")]);
    assert_eq!((harness.pending_timers().unwrap(), harness.stored().unwrap()), (0, 0));
}

#[test]
fn a_deleted_timer_leaves_its_script() {
    let mut harness = harness();
    let ops = [Op::EventTimerDo { at: 8, ops: vec![Op::Emit(text("done"))] }, Op::DeleteEventTimer(8)];
    send(&mut harness, Some(7), ops).unwrap();
    harness.watermark(8).unwrap();
    assert_eq!((emitted(&mut harness, "main").len(), harness.stored().unwrap()), (0, 1));
    send(&mut harness, Some(7), [Op::EventTimer(8)]).unwrap();
    harness.watermark(9).unwrap();
    assert_eq!(emitted(&mut harness, "main"), [(Some(8), text("event 8")), (Some(8), text("done"))]);
}

#[test]
fn processing_timers() {
    let mut harness = harness();
    harness.processing_time(100).unwrap();
    let in_ten = || Op::ProcessingTimerIn(Duration::from_millis(10));
    let ops = [
        Op::ProcessingTimer(120),
        in_ten(),
        Op::ProcessingTimer(105),
        Op::DeleteProcessingTimer(105),
        Op::ProcessingTimerDo { at: 111, ops: vec![Op::SayTimestamp, in_ten()] },
        // The same time on the other clock is another timer, with another script.
        Op::EventTimerDo { at: 111, ops: vec![Op::Emit(text("no"))] },
    ];
    send(&mut harness, None, ops).unwrap();
    harness.processing_time(115).unwrap();
    harness.processing_time(121).unwrap();
    let said = ["processing 110", "processing 111", "timestamp 111", "processing 120"];
    assert_eq!(emitted(&mut harness, "main"), said.map(|said| (None, text(said))));
    harness.processing_time(126).unwrap();
    assert_eq!(emitted(&mut harness, "main")[4..], [(None, text("processing 125"))]);
}

#[test]
fn failures() {
    let failed = |at, op: Op| send(&mut harness(), at, [op]).unwrap_err();
    assert_eq!(failed(None, Op::Fail(text("no good"))), "bad record in row 0: no good");
    assert_eq!(failed(None, Op::Fatal(text("the end"))), "fatal: the end");
    let untimed = failed(None, Op::EventTimerIn(Duration::from_millis(1)));
    assert_eq!(untimed, "bad record in row 0: event_timer_in: the element has no time to count from");
    check([Op::Allocate(1), Op::Emit(text("done"))], &["done"]);
}
