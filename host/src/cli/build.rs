//! `tidemill build`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use tidemill_core::{Error, Result};

/// What builds the repository's own guests, so that there is one recipe.
const SCRIPT: &str = include_str!("../../../scripts/build-guests.sh");

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The crate, or a workspace of several
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Where the components go [default: target/guests in PATH, where `tidemill test` looks]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cargo's profile
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Where the standard library for WebAssembly comes from
    #[arg(long, value_enum, default_value_t)]
    toolchain: Toolchain,
    /// Refuse to change Cargo.lock
    #[arg(long)]
    locked: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Toolchain {
    /// The active toolchain has it; else say how to install it
    #[default]
    Installed,
    /// If it has not: add it with rustup, else install Debian's packages and build it from source
    Auto,
    /// Debian's packages rustc-web and rust-web-src
    Debian,
}

pub(super) fn build(options: &Options) -> Result<()> {
    let path = &options.path;
    if !path.join("Cargo.toml").is_file() {
        let text =
            format!("{} is no crate, for it has no Cargo.toml: give the folder of one, or make one with `tidemill new`", path.display());
        return Err(Error::config(text));
    }
    let doing = || format!("building {}", path.display());
    let target = path.join("target");
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT, "tidemill build", "--profile", &options.profile, "--toolchain", options.toolchain.name()]);
    command.args(options.locked.then_some("--locked"));
    command.arg("--out").arg(options.out.as_deref().unwrap_or(&target.join("guests"))).arg(path);
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.env("CARGO_TARGET_DIR", absolute(&target)?);
    }
    let status = command.status().map_err(|error| Error::config(format!("{}: running bash", doing())).caused_by(error))?;
    if status.success() { Ok(()) } else { Err(Error::guest(format!("{}: it failed, for the reason above", doing()))) }
}

impl Toolchain {
    fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Auto => "auto",
            Self::Debian => "debian",
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::config(format!("finding {}", path.display())).caused_by(error))
}
