//! `larkspur generate DIR`: writes one business day of the Larkspur shops.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larkspur::Summary;

/// A seeded business day of sales, built so that its counts are known.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write six files of baskets and the opening stock into DIR
    Generate {
        /// Folder to write to; made if it does not exist, files of the same names are overwritten
        dir: PathBuf,
        /// Another seed gives another day with the same counts
        #[arg(long, default_value_t = 29)]
        seed: u64,
        /// Multiplies stores, keys, lines and alerts
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
        scale: u16,
    },
}

fn main() -> ExitCode {
    let Command::Generate { dir, seed, scale } = Arguments::parse().command;
    let written = larkspur::generate(&dir, seed, scale).and_then(|summary| print(&summary));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell if even the error stream is closed.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(summary: &Summary) -> std::io::Result<()> {
    let counts = &summary.counts;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} baskets, {} copies among them, in {} files", summary.uploads, summary.copies, larkspur::FILES)?;
    writeln!(out, "{} store-SKUs, {} open at zero or below", counts.store_skus, counts.opens_empty())?;
    writeln!(out, "{} on-time lines over {} store-SKUs, {} late lines", counts.on_time_lines, counts.sold_keys(), counts.late_lines)?;
    writeln!(out, "{} alerts: {} STOCK_OUT, {} BOOK_ERROR", counts.alerts(), counts.stock_outs(), counts.book_errors())
}
