//! `tidemill build`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use tidemill_core::{Error, Result};

use super::prints;
use crate::guest::GuestEngine;

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
    command.args(["-c", SCRIPT, "tidemill build", "--list", "--profile", &options.profile, "--toolchain", options.toolchain.name()]);
    command.args(options.locked.then_some("--locked"));
    command.arg("--out").arg(options.out.as_deref().unwrap_or(&target.join("guests"))).arg(path);
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.env("CARGO_TARGET_DIR", absolute(&target)?);
    }
    if !decides_about_overflow(path)? {
        command.env(overflow_variable(&options.profile), "true");
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Error::config(format!("{}: running bash", doing())).caused_by(error))?;
    if !output.status.success() {
        let hint = about_randomness(path).unwrap_or_default();
        return Err(Error::guest(format!("{}: it failed, for the reason above{hint}", doing())));
    }
    let built = String::from_utf8_lossy(&output.stdout);
    prints::warnings(path).iter().for_each(|warning| tracing::warn!("{warning}"));
    check(built.lines().map(Path::new)).map_err(|error| error.while_doing(doing()))
}

/// Loads what was built as a job would, so that what no job can run is found here. The error is about all components that do not fit.
fn check<'p>(built: impl Iterator<Item = &'p Path>) -> Result<()> {
    let engine = GuestEngine::new()?;
    let mut unfit = Vec::new();
    for path in built {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let bytes = fs::read(path).map_err(|error| Error::storage(format!("reading {}", path.display())).caused_by(error))?;
        unfit.extend(engine.load(&name, &bytes, None).err().map(|error| error.chain()));
    }
    if unfit.is_empty() { Ok(()) } else { Err(Error::guest(format!("no job can run it: {}", unfit.join("; ")))) }
}

/// Whether the crate or its workspace says itself what happens when a number overflows.
fn decides_about_overflow(path: &Path) -> Result<bool> {
    let path = absolute(path)?;
    let mut manifests = path.ancestors().filter_map(|folder| fs::read_to_string(folder.join("Cargo.toml")).ok());
    Ok(manifests.any(|manifest| manifest.contains("overflow-checks")))
}

/// The variable by which cargo is told that a profile checks for overflow. Without, a sum that is too large wraps in the component, though it
/// panics in a unit test.
fn overflow_variable(profile: &str) -> String {
    format!("CARGO_PROFILE_{}_OVERFLOW_CHECKS", profile.to_uppercase().replace('-', "_"))
}

/// What to say if the crate depends on one that wants random numbers, whose own error tells how to get them in a browser.
fn about_randomness(path: &Path) -> Option<&'static str> {
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--offline", "--target", "wasm32-unknown-unknown", "--edges", "normal", "--prefix", "none"]);
    let output = tree.current_dir(path).stderr(Stdio::null()).output().ok()?;
    let tree = String::from_utf8_lossy(&output.stdout);
    let found = tree.lines().any(|line| line.starts_with("getrandom v") || line.starts_with("uuid v"));
    found.then_some(
        "; if it is about getrandom or a source of randomness: a component has no random numbers, so leave out what asks for them (`cargo tree \
         --target wasm32-unknown-unknown --invert getrandom` shows the crate), such as the default features of rand, or `v4` and `v7` of uuid",
    )
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{decides_about_overflow, overflow_variable};

    #[test]
    fn a_crate_or_its_workspace_decides_about_overflow() {
        let folder = tempfile::tempdir().unwrap();
        let member = folder.path().join("member");
        fs::create_dir(&member).unwrap();
        fs::write(member.join("Cargo.toml"), "[package]\n").unwrap();
        assert!(!decides_about_overflow(&member).unwrap());
        fs::write(folder.path().join("Cargo.toml"), "[profile.release]\noverflow-checks = false\n").unwrap();
        assert!(decides_about_overflow(&member).unwrap());
        assert_eq!(overflow_variable("release"), "CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS");
        assert_eq!(overflow_variable("small-release"), "CARGO_PROFILE_SMALL_RELEASE_OVERFLOW_CHECKS");
    }
}
