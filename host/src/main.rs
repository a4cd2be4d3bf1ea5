//! The program `tidemill`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidemill::cli::main()
}
