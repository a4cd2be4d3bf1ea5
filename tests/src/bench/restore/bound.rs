//! What the machine can do.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidemill::clock::monotonic;
use tidemill_core::{Error, Result};

use super::keys;

/// Lets the operating system forget what it holds of files, if this user may; says whether it did.
pub(super) fn drop_caches() -> bool {
    let _ = std::process::Command::new("sync").status();
    fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// One line of the result.
#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the bench is for")]
pub(super) fn report(what: &str, keys: u64, spent: Duration, cold: bool) {
    let seconds = spent.as_secs_f64();
    let cache = if cold { "nothing in the page cache" } else { "files may be in the page cache" };
    println!("  {what:<62} {seconds:>7.2} s {:>12.0} keys/s   {cache}", keys as f64 / seconds);
}

/// The bound of memory: the keys with a value and a timer's time, put into the standard library's map.
pub(super) fn hash_map(count: u64) {
    let mut key = Vec::new();
    let all: Vec<Box<[u8]>> = (0..count)
        .map(|number| {
            keys::key(number, &mut key);
            key.as_slice().into()
        })
        .collect();
    let begin = monotonic();
    let mut map: HashMap<Box<[u8]>, (u64, i64)> = HashMap::new();
    for (number, key) in (0..).zip(&all) {
        map.insert(key.clone(), (number, 0));
    }
    report("bound: the same keys put into a plain hash map, one thread", map.len() as u64, begin.elapsed(), false);
}

/// The bound of the disk: all files below a folder are read and dropped.
pub(super) fn read(dir: &Path, name: &str, keys: u64) -> Result<()> {
    let cold = drop_caches();
    let begin = monotonic();
    let bytes = read_all(dir).map_err(|error| Error::storage(format!("reading {}", dir.display())).caused_by(error))?;
    let what = format!("bound: the {} MB of the checkpoint of {name} read", bytes >> 20);
    report(&what, keys, begin.elapsed(), cold);
    Ok(())
}

fn read_all(dir: &Path) -> std::io::Result<u64> {
    let (mut folders, mut part, mut bytes): (Vec<PathBuf>, _, _) = (vec![dir.to_owned()], vec![0; 1 << 20], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut file = File::open(path)?;
            loop {
                match file.read(&mut part)? {
                    0 => break,
                    read => bytes += read as u64,
                }
            }
        }
    }
    Ok(bytes)
}
