//! Misbehaves when a record tells it to: for tests of error policies and limits.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Context, Detector, Failure, KeyedProcessFunction, Level, Parameters, Schema, Timer, dbg, eprintln, println};

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Record<'a> {
    /// Its number.
    pub id: i64,
    /// When it happened.
    pub ts: i64,
    /// What to do: `pass`, `bad`, `fatal`, `trap`, `loop`, `recurse`, `allocate`, `say` or `timer`, which does it when a timer fires.
    pub act: &'a str,
}

/// What to do at the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct Start {
    /// An act of [`Record::act`], for `open`.
    pub open: String,
}

/// The detector; keyed by the record's number.
#[derive(Detector)]
#[detector(version = "1")]
pub struct Picky {
    start: Parameters<Start>,
}

impl KeyedProcessFunction for Picky {
    type Key = i64;
    type Input<'a> = Record<'a>;
    type Output<'a> = i64;

    fn open(&mut self, _: &mut tidemill_sdk::OpenContext<'_>) -> Result<(), Failure> {
        act(&self.start.open)
    }

    fn process_element(&mut self, record: Record<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if record.act == "timer" {
            ctx.register_event_time_timer(record.ts);
            return Ok(());
        }
        if record.act == "loop" {
            ctx.log(Level::Info, "looping as asked");
        }
        if record.act == "say" {
            println!("record {}", record.id);
            eprintln!("it says so");
            dbg!(record.ts);
            ctx.count("said", 1);
        }
        act(record.act)?;
        ctx.emit(&record.id);
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        act("bad")
    }
}

fn act(act: &str) -> Result<(), Failure> {
    match act {
        "" | "pass" | "say" => Ok(()),
        "bad" => Err(Failure::bad_record("this record asked for it")),
        "fatal" => Err(Failure::fatal("this record asked for the end")),
        "loop" => loop {
            std::hint::black_box(());
        },
        "recurse" => Err(Failure::bad_record(format!("{}", recurse(1)))),
        "allocate" => {
            let mut all = Vec::new();
            loop {
                all.push(std::hint::black_box(vec![1u8; 1 << 20]));
            }
        }
        other => trap(other),
    }
}

#[expect(clippy::panic, reason = "this is what it is for")]
fn trap(act: &str) -> ! {
    panic!("asked to {act}")
}

#[expect(unconditional_recursion, reason = "this is what it is for")]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(std::hint::black_box(depth + 1)) + 1)
}

tidemill_sdk::export!(Picky);
