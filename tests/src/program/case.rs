//! A program as a case file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Program, Step};
use crate::model::{Clock, Lives, Model, Saved, Ttl};

/// The case file of a program with so many workers at the start: what comes out is compared after each stretch of records and each other
/// step. `None` if a step goes back to a snapshot that there is not.
#[must_use]
pub fn text(program: &Program, parallelism: u32) -> Option<String> {
    let mut case = Case {
        model: Model::new(program.lives),
        expires: states(program.lives) != json!({}),
        snapshots: BTreeMap::new(),
        start: Saved::default(),
        steps: Vec::new(),
    };
    let mut steps = program.steps.iter().peekable();
    while let Some(step) = steps.next() {
        case.step(step)?;
        if !(matches!(step, Step::Element(..)) && matches!(steps.peek(), Some(Step::Element(..)))) {
            case.expect();
        }
    }
    let head = format!(
        "component: probe\nkey_by: [key]\nparameters: {{ greeting: hello }}\non_error: dead-letter\nparallelism: {parallelism}\nstates: {}\nsteps:\n",
        states(program.lives)
    );
    let steps = case.steps.iter().map(|(name, value)| format!("  - {name}: {value}\n"));
    Some(head + &steps.collect::<String>())
}

struct Case {
    model: Model,
    /// Whether there is state that expires.
    expires: bool,
    snapshots: BTreeMap<usize, Saved>,
    /// What a crash goes back to.
    start: Saved,
    /// The steps of the file.
    steps: Vec<(&'static str, Value)>,
}

impl Case {
    fn step(&mut self, step: &Step) -> Option<()> {
        let number = self.steps.len() + 1;
        let written = match step {
            Step::Element(time, input) => {
                self.model.element(number, *time, input);
                ("element", json!({ "ts": time, "value": input }))
            }
            Step::Watermark(watermark) => {
                self.model.watermark(*watermark);
                ("watermark", json!(watermark))
            }
            Step::Clock(by) => {
                let now = self.model.now() + by;
                self.model.clock(now);
                ("processing_time", json!(now))
            }
            Step::Checkpoint(id) => {
                self.start = self.model.save();
                self.snapshots.insert(*id, self.model.save());
                ("checkpoint", json!(name(*id)))
            }
            Step::Savepoint(id) => {
                self.snapshots.insert(*id, self.model.save());
                ("savepoint", json!(name(*id)))
            }
            Step::Crash => {
                self.model.start(self.start.clone());
                ("crash", json!({}))
            }
            Step::Restore(id, parallelism) => {
                self.start = self.snapshots.get(id)?.clone();
                self.model.start(self.start.clone());
                ("restore", json!({ "from": name(*id), "parallelism": parallelism }))
            }
            Step::End => {
                self.model.end();
                ("end", json!({}))
            }
        };
        self.steps.push(written);
        Some(())
    }

    fn expect(&mut self) {
        let said = std::mem::take(&mut self.model.said);
        let records = said.into_iter().map(|said| json!({ "lane": said.lane, "value": said.value, "ts": said.time }));
        self.steps.push(("expect", records.collect()));
        let mut metrics = vec![
            ("records_in", self.model.records),
            ("late_records", self.model.late),
            ("dead_letters", self.model.dead),
            ("event_timers_pending", self.model.pending(Clock::Event) as u64),
            ("processing_timers_pending", self.model.pending(Clock::Processing) as u64),
        ];
        if !self.expires {
            metrics.push(("keys", self.model.keys() as u64));
        }
        let metrics: serde_json::Map<String, Value> = metrics.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        self.steps.push(("expect_metric", metrics.into()));
    }
}

fn name(id: usize) -> String {
    format!("s{id}")
}

/// The overrides of states in a case.
fn states(lives: Lives) -> Value {
    let Lives { value, list, map, sum, average } = lives;
    let all = [("value", value), ("list", list), ("map", map), ("sum", sum), ("average", average)];
    let update = |ttl: Ttl| if ttl.on_read { "on_read_and_write" } else { "on_create_and_write" };
    let written = |ttl: Ttl| json!({ "ttl": format!("{}ms", ttl.life), "ttl_update": update(ttl) });
    all.into_iter().filter_map(|(name, ttl)| Some((name.to_owned(), written(ttl?)))).collect::<serde_json::Map<_, _>>().into()
}
