//! Measurements: `bench boundary`, `bench job`, `bench big-state`, `bench restore`. Timings of one run are compared with each other; nothing here fails
//! by being slow.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidemill_tests::bench::{big_state, boundary, job, restore};

/// Measures Tidemill.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The stock-out operator as WebAssembly, natively in the same operator, and as a native loop that handles one record at a time.
    Boundary {
        /// The folder of the built components.
        #[arg(long, default_value = "target/guests")]
        guests: PathBuf,
        /// How often each is run; they take turns.
        #[arg(long, default_value_t = 9)]
        repetitions: usize,
        /// How many keys there are; each number is a row of the result.
        #[arg(long, default_values_t = [1_000, 121_450])]
        keys: Vec<u64>,
    },
    /// The whole stock-out job as a process, from start to exit; cold start, recovery, memory.
    Job(job::Options),
    /// A job with more keys than fit its memory, at several sizes of memory.
    BigState(big_state::Options),
    /// The restore of a checkpoint of many keys with a timer each, beside what the machine can do.
    Restore(restore::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().what {
        What::Boundary { guests, repetitions, keys } => boundary::run(&guests, repetitions, &keys),
        What::Job(options) => job::run(&options),
        What::BigState(options) => big_state::run(&options),
        What::Restore(options) => restore::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}
