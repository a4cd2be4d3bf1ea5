//! Measurements: `bench boundary` and `bench job`. Timings of one run are compared with each other; nothing here fails by being slow.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidemill_tests::bench::{boundary, job};

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
    },
    /// The whole stock-out job as a process, from start to exit; cold start, recovery, memory.
    Job(job::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().what {
        What::Boundary { guests, repetitions } => boundary::run(&guests, repetitions),
        What::Job(options) => job::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}
