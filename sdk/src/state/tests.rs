use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tidemill_wit::descriptor::{StateKind, TtlUpdate, write_op};

use crate::effects::Writes;
use crate::runner::Runner;
use crate::testing::Harness;
use crate::{AggregateFunction, AggregatingState, Context, Detector, Failure, KeyedProcessFunction, ListState, MapState};
use crate::{ReduceFunction, ReducingState, Schema, ValueState};

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
enum Op {
    Value,
    Update(i64),
    Add(i64),
    ClearValue,
    Get(i32),
    Contains(i32),
    Put(i32, String),
    Append(i32),
    Remove(i32),
    ClearMap,
    IsEmpty,
    Len,
    Keys,
    Entries,
    List,
    Push(i64),
    PushAll(Vec<i64>),
    Replace(Vec<i64>),
    ClearList,
    Sum,
    SumAdd(i64),
    ClearSum,
    Average,
    AverageAdd(i64),
    ClearAverage,
    PutAll(Vec<(i32, String)>),
    /// Those below the key.
    Retain(i32),
}

/// Does to its states what its records say, and says what it saw.
#[derive(Detector)]
struct Script {
    value: ValueState<i64>,
    #[state(name = "renamed")]
    map: MapState<i32, String>,
    list: ListState<i64>,
    sum: ReducingState<i64, Sum>,
    average: AggregatingState<Average>,
}

struct Sum;

impl ReduceFunction<i64> for Sum {
    fn reduce(older: i64, newer: i64) -> i64 {
        older.wrapping_add(newer)
    }
}

struct Average;

impl AggregateFunction for Average {
    type Input = i64;
    type Accumulator = (i64, u32);
    type Output = f64;

    fn create_accumulator() -> (i64, u32) {
        (0, 0)
    }

    fn add((sum, count): &mut (i64, u32), input: i64) {
        *sum += input;
        *count += 1;
    }

    fn get_result((sum, count): &(i64, u32)) -> f64 {
        mean(*sum, *count)
    }
}

fn mean(sum: i64, count: u32) -> f64 {
    i32::try_from(sum).map(f64::from).unwrap() / f64::from(count)
}

impl KeyedProcessFunction for Script {
    type Key = u8;
    type Input<'a> = Op;
    type Output<'a> = String;

    fn process_element(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let said = match op {
            Op::Value => format!("{:?}", self.value.value(ctx)?),
            Op::Get(key) => format!("{:?}", self.map.get(ctx, &key)?),
            Op::Contains(key) => format!("{}", self.map.contains(ctx, &key)?),
            Op::IsEmpty => format!("{}", self.map.is_empty(ctx)?),
            Op::Len => format!("{}", self.map.len(ctx)?),
            Op::Keys => format!("{:?}", self.map.keys(ctx)?),
            Op::Entries => format!("{:?}", self.map.entries(ctx)?),
            Op::List => format!("{:?}", self.list.get(ctx)?),
            Op::Sum => format!("{:?}", self.sum.get(ctx)?),
            Op::Average => format!("{:?}", self.average.get(ctx)?),
            other => return self.write(other, ctx),
        };
        ctx.emit(&said);
        Ok(())
    }
}

impl Script {
    fn write(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        match op {
            Op::Update(n) => self.value.update(ctx, n),
            Op::Add(n) => {
                if let Some(value) = self.value.value_mut(ctx)? {
                    *value += n;
                }
            }
            Op::ClearValue => self.value.clear(ctx),
            Op::Put(key, text) => self.map.put(ctx, &key, text),
            Op::Append(key) => {
                if let Some(text) = self.map.get_mut(ctx, &key)? {
                    text.push('+');
                }
            }
            Op::Remove(key) => self.map.remove(ctx, &key),
            Op::ClearMap => self.map.clear(ctx),
            Op::Push(n) => self.list.add(ctx, n),
            Op::PushAll(all) => self.list.add_all(ctx, all),
            Op::Replace(all) => self.list.update(ctx, all),
            Op::ClearList => self.list.clear(ctx),
            Op::SumAdd(n) => self.sum.add(ctx, n)?,
            Op::ClearSum => self.sum.clear(ctx),
            Op::AverageAdd(n) => self.average.add(ctx, n)?,
            Op::ClearAverage => self.average.clear(ctx),
            Op::PutAll(entries) => self.map.put_all(ctx, entries),
            Op::Retain(bound) => self.map.retain(ctx, |&key, text| key < bound && !text.is_empty())?,
            other => return Err(Failure::fatal(format!("{other:?} is a read"))),
        }
        Ok(())
    }
}

/// The same, as plainly as can be, for one key.
#[derive(Default)]
struct Model {
    value: Option<i64>,
    map: BTreeMap<i32, String>,
    list: Vec<i64>,
    sum: Option<i64>,
    average: Vec<i64>,
}

impl Model {
    fn apply(&mut self, op: &Op) -> Option<String> {
        match op.clone() {
            Op::Value => return Some(format!("{:?}", self.value)),
            Op::Get(key) => return Some(format!("{:?}", self.map.get(&key))),
            Op::Contains(key) => return Some(format!("{}", self.map.contains_key(&key))),
            Op::IsEmpty => return Some(format!("{}", self.map.is_empty())),
            Op::Len => return Some(format!("{}", self.map.len())),
            Op::Keys => return Some(format!("{:?}", self.map.keys().collect::<Vec<_>>())),
            Op::Entries => return Some(format!("{:?}", self.map.iter().collect::<Vec<_>>())),
            Op::List => return Some(format!("{:?}", self.list)),
            Op::Sum => return Some(format!("{:?}", self.sum)),
            Op::Average => {
                let count = u32::try_from(self.average.len()).unwrap();
                return Some(format!("{:?}", (count > 0).then(|| mean(self.average.iter().sum(), count))));
            }
            Op::Update(n) => self.value = Some(n),
            Op::Add(n) => self.value = self.value.map(|value| value + n),
            Op::ClearValue => self.value = None,
            Op::Put(key, text) => drop(self.map.insert(key, text)),
            Op::Append(key) => self.map.get_mut(&key).into_iter().for_each(|text| text.push('+')),
            Op::Remove(key) => drop(self.map.remove(&key)),
            Op::ClearMap => self.map.clear(),
            Op::Push(n) => self.list.push(n),
            Op::PushAll(all) => self.list.extend(all),
            Op::Replace(all) => self.list = all,
            Op::ClearList => self.list.clear(),
            Op::SumAdd(n) => self.sum = Some(self.sum.unwrap_or(0) + n),
            Op::ClearSum => self.sum = None,
            Op::AverageAdd(n) => self.average.push(n),
            Op::ClearAverage => self.average.clear(),
            Op::PutAll(entries) => self.map.extend(entries),
            Op::Retain(bound) => self.map.retain(|&key, _| key < bound),
        }
        None
    }
}

fn random_op(rng: &mut Rng) -> Op {
    let (n, key) = (rng.i64(-9..9), rng.i32(-12..12));
    let all: Vec<i64> = (0..rng.usize(0..3)).map(|_| rng.i64(..)).collect();
    match rng.u8(0..53) {
        0 => Op::ClearValue,
        1 => Op::ClearMap,
        2 => Op::ClearList,
        3 => Op::IsEmpty,
        4 => Op::Len,
        5 => Op::Keys,
        6 => Op::Entries,
        7 | 8 => Op::List,
        9 | 10 => Op::Value,
        11 => Op::Update(n),
        12 => Op::Add(n),
        13 => Op::Replace(all),
        14 => Op::PushAll(all),
        15 | 16 => Op::Push(n),
        17..=20 => Op::Remove(key),
        21..=24 => Op::Get(key),
        25 => Op::Contains(key),
        26..=28 => Op::Append(key),
        40 => Op::ClearSum,
        41 => Op::ClearAverage,
        42 | 43 => Op::Sum,
        44 | 45 => Op::Average,
        46 | 47 => Op::SumAdd(n),
        48..=50 => Op::AverageAdd(n),
        51 => Op::PutAll(vec![(key, format!("{n}")), (key + 1, format!("{n}"))]),
        52 => Op::Retain(key),
        _ => Op::Put(key, format!("{n}")),
    }
}

#[test]
fn random_operations_equal_the_plain_model_at_every_batch_size() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let (rows, whole) = ([1, 3, 40, 1024][rng.usize(0..4)], [0, 2, 64][rng.usize(0..3)]);
        let mut harness = Harness::<Script>::open(&()).unwrap().batch_rows(rows).whole_entries(whole);
        let mut models: BTreeMap<u8, Model> = BTreeMap::new();
        let mut expected = Vec::new();
        for row in 0..600 {
            let key = rng.u8(0..4);
            let model = models.entry(key).or_default();
            let op = random_op(&mut rng);
            expected.extend(model.apply(&op).map(|said| (Some(row), said)));
            harness.element(&key, row, &op).unwrap();
            if rng.u8(0..50) == 0 {
                harness.flush().unwrap();
                once(&harness.last_effects().writes);
            }
        }
        let said = harness.outputs::<String>("main").unwrap();
        assert_eq!(said, expected, "seed {seed}: {rows} rows a batch, up to {whole} entries whole");
        once(&harness.last_effects().writes);
    }
}

/// At most one write per value and entry, and clears come first.
fn once(writes: &Writes) {
    let mut seen = BTreeSet::new();
    for row in 0..writes.op.len() {
        let (op, place) = (writes.op[row], (writes.state[row], writes.slot[row]));
        let entry = writes.entry.get(row).to_vec();
        match op {
            write_op::CLEAR => assert!(!seen.iter().any(|(other, _)| *other == place), "a clear of {place:?} comes after a write"),
            write_op::APPEND => continue,
            _ => {}
        }
        assert!(seen.insert((place, (op != write_op::CLEAR).then_some(entry))), "two writes of {place:?}");
    }
}

/// The writes of one batch, as (op, state, entry key).
fn writes_of(before: &[Op], ops: &[Op]) -> Vec<(u8, u8, Option<i32>)> {
    let mut harness = Harness::<Script>::open(&()).unwrap();
    for batch in [before, ops] {
        batch.iter().for_each(|op| harness.element(&1, 0, op).unwrap());
        harness.flush().unwrap();
    }
    let writes = &harness.last_effects().writes;
    let entry = |row| crate::ordered::from_bytes(writes.entry.get(row)).ok();
    (0..writes.op.len()).map(|row| (writes.op[row], writes.state[row], entry(row))).collect()
}

#[test]
fn a_batch_writes_what_is_final_and_touches_what_was_only_read() {
    let put = |key: i32| Op::Put(key, "x".to_owned());
    let full = [Op::Update(1), put(1), put(2), Op::Push(1)];
    let touched: &[Op] = &[Op::Value, Op::Value, Op::Get(1), Op::Get(1), Op::Get(9), Op::List];
    assert_eq!(writes_of(&full, touched), [(write_op::TOUCH, 0, None), (write_op::TOUCH, 1, Some(1)), (write_op::TOUCH, 2, None)]);
    // A scan touches all, each once; what is written as well is not touched.
    let scanned = [Op::Get(1), Op::Keys, put(2), Op::Entries];
    assert_eq!(writes_of(&full, &scanned), [(write_op::PUT_ENTRY, 1, Some(2)), (write_op::TOUCH, 1, Some(1))]);
    assert_eq!(writes_of(&full, &[Op::Len, Op::IsEmpty]), []);
    let written = [Op::Value, Op::Update(2), Op::Update(3), Op::Remove(1), put(1), Op::Remove(1)];
    assert_eq!(writes_of(&full, &written), [(write_op::PUT, 0, None), (write_op::REMOVE_ENTRY, 1, Some(1))]);
    // After a clear only what was put after it is left.
    let cleared = [put(1), Op::Get(2), Op::ClearMap, Op::Remove(2), Op::Remove(9), put(3), put(4), Op::Remove(4), Op::Keys];
    assert_eq!(writes_of(&full, &cleared), [(write_op::CLEAR, 1, None), (write_op::PUT_ENTRY, 1, Some(3))]);
    assert_eq!(writes_of(&[Op::SumAdd(1)], &[Op::Sum, Op::Average]), [(write_op::TOUCH, 3, None)]);
    assert_eq!(writes_of(&[Op::AverageAdd(1)], &[Op::AverageAdd(2), Op::Average, Op::Sum]), [(write_op::PUT, 4, None)]);
    let replaced = [Op::Push(7), Op::Replace(vec![8, 9])];
    assert_eq!(writes_of(&full, &replaced), [(write_op::CLEAR, 2, None), (write_op::APPEND, 2, None), (write_op::APPEND, 2, None)]);
    assert_eq!(writes_of(&[], &[Op::Value, Op::Get(1), Op::List, Op::Keys, Op::Append(3), Op::Add(3)]), []);
}

#[derive(Detector)]
struct Expiring {
    #[state(ttl = "10ms", ttl_update = "on_read_and_write")]
    map: MapState<String, i64>,
    #[state(ttl = "2h")]
    value: ValueState<i64>,
}

impl KeyedProcessFunction for Expiring {
    type Key = u8;
    type Input<'a> = bool;
    type Output<'a> = Option<i64>;

    fn process_element(&mut self, write: bool, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if write {
            self.map.put(ctx, "a", 1);
        }
        let found = self.map.get(ctx, "a")?.copied();
        ctx.emit(&found);
        self.value.update(ctx, 1);
        Ok(())
    }
}

#[test]
fn reads_renew_the_time_to_live() {
    let mut harness = Harness::<Expiring>::open(&()).unwrap();
    for (clock, write) in [(0, true), (9, false), (18, false), (28, false)] {
        harness.processing_time(clock).unwrap();
        harness.element(&1, clock, &write).unwrap();
    }
    let found: Vec<_> = harness.outputs::<Option<i64>>("main").unwrap().into_iter().map(|(_, found)| found).collect();
    assert_eq!(found, [Some(1), Some(1), Some(1), None]);
}

#[test]
fn states_are_described_as_declared() {
    let states = Runner::<Expiring>::describe().states;
    let options: Vec<_> = states.iter().map(|state| (state.name.as_str(), state.kind, state.ttl, state.ttl_update)).collect();
    assert_eq!(
        options,
        [
            ("map", StateKind::Map, Some(10), TtlUpdate::OnReadAndWrite),
            ("value", StateKind::Value, Some(7_200_000), TtlUpdate::OnCreateAndWrite)
        ]
    );
    let names: Vec<_> = Runner::<Script>::describe().states.into_iter().map(|state| (state.name, state.kind, state.ttl)).collect();
    let plain = |name: &str, kind| (name.to_owned(), kind, None);
    let one_value = [plain("value", StateKind::Value), plain("sum", StateKind::Reducing), plain("average", StateKind::Aggregating)];
    let [value, sum, average] = one_value;
    assert_eq!(names, [value, plain("renamed", StateKind::Map), plain("list", StateKind::List), sum, average]);
}
