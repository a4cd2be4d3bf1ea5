//! Random programs on the engine and on the model: the same output at any parallelism and batch size, through crashes and restores. A
//! failing seed is printed with a small case file that shows it; `TIDEMILL_SEED=n` replays it, `TIDEMILL_PROGRAMS=n` runs more.

#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;

use tidemill::scenario::report::{Format, Report, Status};
use tidemill::scenario::{self, Options};
use tidemill_tests::cli::{component, number};
use tidemill_tests::program::{Program, paused, program, smaller, text};

/// Seeds of programs without pauses that once differed: these are always run.
const ONCE_FAILED: [u64; 1] = [4256];
const PARALLELISMS: [u32; 4] = [1, 2, 3, 7];
/// So many programs are run at once: the component is compiled once for all of them.
const AT_ONCE: usize = 100;
/// A failing program is made smaller so often at most.
const SMALLER: usize = 60;

#[test]
fn programs_do_what_the_model_says() {
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let all = || ONCE_FAILED.into_iter().chain(0..number("TIDEMILL_PROGRAMS", 200)).collect();
    let seeds: Vec<u64> = one.map_or_else(all, |seed| vec![seed]);
    let mut runs = 0;
    for seeds in seeds.chunks(AT_ONCE) {
        let cases = seeds.iter().flat_map(|&seed| {
            let program = of(seed);
            PARALLELISMS.map(|parallelism| (format!("{seed}-{parallelism}"), text(&program, parallelism).unwrap()))
        });
        let report = run(cases);
        runs += report.cases.iter().map(|case| case.runs.len()).sum::<usize>();
        if let Some(name) = failed(&report) {
            let (seed, parallelism) = name.split_once('-').unwrap();
            let (small, report) = shrink(of(seed.parse().unwrap()), parallelism.parse().unwrap(), report);
            panic!("TIDEMILL_SEED={seed}: a program differs from the model\n{report}\n{small}");
        }
    }
    println!("{} programs, {runs} runs", seeds.len());
}

fn of(seed: u64) -> Program {
    if ONCE_FAILED.contains(&seed) { program(seed) } else { paused(seed) }
}

/// Runs cases by name.
fn run(cases: impl Iterator<Item = (String, String)>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in cases {
        fs::write(folder.path().join(format!("{name}.case.yaml")), text).unwrap();
    }
    let components = vec![component("probe").parent().unwrap().to_owned()];
    scenario::run(&Options { paths: vec![folder.path().to_owned()], filter: None, components }).unwrap()
}

/// The name of the first case that does not hold.
fn failed(report: &Report) -> Option<String> {
    let case = report.cases.iter().find(|case| case.status() != Status::Passed)?;
    let (_, name) = case.file.rsplit_once('/')?;
    Some(name.trim_end_matches(".case.yaml").to_owned())
}

/// The case file of a program as small as it can be made, and what is wrong with it.
fn shrink(mut program: Program, parallelism: u32, mut report: Report) -> (String, String) {
    for _ in 0..SMALLER {
        let candidates = smaller(&program);
        let cases = candidates.iter().enumerate().filter_map(|(at, less)| Some((format!("{at:05}"), text(less, parallelism)?)));
        let tried = run(cases);
        let Some(at) = failed(&tried) else { break };
        program = candidates.into_iter().nth(at.parse().unwrap()).unwrap();
        report = tried;
    }
    let only_failed = report.cases.into_iter().find(|case| case.status() != Status::Passed);
    (text(&program, parallelism).unwrap(), Report { cases: only_failed.into_iter().collect() }.render(Format::Text))
}
