//! Answers of detectors with one thing changed. A failing seed is printed; `TIDEMILL_SEED=n` replays it, `TIDEMILL_ANSWERS=n` tries more.

#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::collections::BTreeMap;

use fastrand::Rng;
use tidemill_core::operator::OnError;
use tidemill_tests::answers::change::{CHANGES, Must, change};
use tidemill_tests::answers::{Input, Recorded, Trial, Verdict, record};
use tidemill_tests::cli::number;

/// So many answers are tried with one operator: what is accepted adds up.
const IN_A_ROW: u64 = 32;
/// What the process may need more than it did after a tenth of the trials. A leak of ten bytes a trial would be more.
const GROWTH: u64 = 2 << 20;

/// Why answers are refused, with `#` for numbers.
const REASONS: [&str; 31] = [
    "a value of state",
    "a key of state",
    "it consumed # of # rows",
    "writes.state has # items",
    "writes.slot has # items",
    "writes.entry has # items",
    "writes.value has # items",
    "ends of writes.entry",
    "ends of writes.value",
    "writes.slot has #, but",
    "writes.state names state #",
    "writes.op has code #",
    "timers.domain has # items",
    "timers.slot has # items",
    "timers.timestamp has # items",
    "timers.op has #, but",
    "timers.domain has #, but",
    "timers.slot has #, but",
    "outputs.row has # items",
    "outputs.timestamp has # items",
    "outputs.timed has # items",
    "outputs.timed has #, but",
    "outputs.payload has # items",
    "ends of outputs.payload",
    "outputs.lane has #, but",
    "outputs.row has #, but",
    "# bytes are left over after the value",
    "a length of # is beyond the # bytes",
    "a string is not UTF-#",
    "the value ends early",
    "an integer is wider than # bits",
];

#[derive(Default)]
struct Counts {
    by_change: BTreeMap<&'static str, [u64; 3]>,
    reasons: BTreeMap<&'static str, u64>,
}

#[test]
fn a_changed_answer_is_accepted_whole_or_refused_with_a_reason() {
    let calls = record(1, 400);
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let total = number("TIDEMILL_ANSWERS", 1_000_000);
    let seeds = one.map_or_else(|| 0..total.div_ceil(IN_A_ROW), |seed: u64| seed..seed + 1);
    let (mut counts, tenth, mut early) = (Counts::default(), seeds.start + (seeds.end - seeds.start) / 10, 0);
    for seed in seeds {
        if let Err(what) = trials(&calls, seed, &mut counts) {
            panic!("TIDEMILL_SEED={seed}: {what}");
        }
        if seed == tenth {
            early = resident();
        }
    }
    for (name, [accepted, refused, repeated]) in &counts.by_change {
        println!("{name}: {accepted} accepted, {refused} refused, {repeated} refused and repeated row by row");
    }
    for (reason, count) in &counts.reasons {
        println!("{count:>7} {reason}");
    }
    if one.is_some() {
        return;
    }
    let grown = resident().saturating_sub(early);
    assert!(grown < GROWTH, "the memory of the process grew by {grown} bytes");
    assert!(CHANGES.iter().all(|name| counts.by_change.contains_key(name)));
    let missing: Vec<_> = REASONS.iter().filter(|reason| !counts.reasons.contains_key(*reason)).collect();
    assert!(missing.is_empty(), "no answer was refused for {missing:?}");
}

fn trials(calls: &[Recorded], seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let call = calls.get(rng.usize(0..calls.len())).ok_or("no calls were recorded")?;
    let is_pass = matches!(call.input, Input::Pass(..));
    let mut trial = Trial::new(call, if rng.bool() { OnError::DeadLetter } else { OnError::Fail })?;
    let mut before = trial.snapshot()?;
    if trial.call(call.rows, &call.effects)? != Verdict::Accepted {
        return Err("the answer as it was recorded is refused".to_owned());
    }
    trial.reset()?;
    let mut tried = 0;
    while tried < IN_A_ROW {
        let (mut effects, mut consumed, which) = (call.effects.clone(), call.rows, rng.usize(0..CHANGES.len()));
        let Some(must) = change(which, &mut effects, &mut consumed, trial.bounds(), &mut rng) else { continue };
        tried += 1;
        let name = CHANGES.get(which).copied().unwrap_or_default();
        let verdict = trial.call(consumed, &effects).map_err(|what| format!("{name}: {what}"))?;
        count(counts, name, &verdict)?;
        let accepted = verdict == Verdict::Accepted;
        if accepted && must == Must::Fail || !accepted && must == Must::Pass {
            return Err(format!("{name}: it must {must:?}, but is {verdict:?}: {consumed} consumed, {effects:?}"));
        }
        if is_pass || matches!(verdict, Verdict::Refused(_)) && rng.u32(0..4) == 0 {
            let after = trial.snapshot()?;
            if !is_pass && after != before {
                return Err(format!("{name}: it was refused, but changed the state"));
            }
        }
        // After a refusal the operator gives fewer rows at once.
        if is_pass || verdict == Verdict::Repeated {
            trial.reset()?;
            before = trial.snapshot()?;
        } else if accepted {
            before = trial.snapshot()?;
        }
    }
    Ok(())
}

fn count(counts: &mut Counts, name: &'static str, verdict: &Verdict) -> Result<(), String> {
    let [accepted, refused, repeated] = counts.by_change.entry(name).or_default();
    match verdict {
        Verdict::Accepted => *accepted += 1,
        Verdict::Repeated => *repeated += 1,
        Verdict::Refused(reason) => {
            *refused += 1;
            let short = without_numbers(reason);
            let known = REASONS.iter().find(|known| short.contains(*known));
            *counts.reasons.entry(known.ok_or_else(|| format!("{name}: not a known reason: {reason}"))?).or_default() += 1;
        }
    }
    Ok(())
}

/// The text with `#` for each number.
fn without_numbers(text: &str) -> String {
    let mut short = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if short.ends_with('#') => {}
            '0'..='9' => short.push('#'),
            other => short.push(other),
        }
    }
    short
}

/// How much memory the process has, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap() << 10
}
