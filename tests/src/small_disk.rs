//! A disk that can be full.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::cli::Workplace;

/// A small disk of its own under a folder, taken away at the end.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Makes one at a path of the workplace, of a size such as `12m`. `None`, with a word on standard error, where this user may not mount.
    ///
    /// # Panics
    /// The folder cannot be made.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn mount(place: &Workplace, name: &str, size: &str) -> Option<Self> {
        let path = place.path(name);
        fs::create_dir_all(&path).expect("a folder");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        // Past what holds back the output of tests that pass.
        let text = "SKIPPED: this user may not mount a small disk, so no real disk was full; the tests with a limit on file sizes ran";
        _ = writeln!(std::io::stderr(), "\n{text}\n");
        None
    }

    /// Takes all the space that is left, byte by byte at the end.
    pub fn fill(&self) {
        _ = Command::new("dd").arg("if=/dev/zero").arg(format!("of={}", self.filler().display())).args(["bs=4k"]).output();
    }

    /// Gives the space back.
    ///
    /// # Panics
    /// It was not taken.
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("what filled the disk");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
