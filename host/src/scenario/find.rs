//! Which files are cases.

use std::path::{Path, PathBuf};

use tidemill_core::{Error, Result};

const ENDING: &str = ".case.yaml";

/// The files among the paths, and all case files below the folders among them, sorted within each. Hidden folders and links to folders
/// are left out.
///
/// # Errors
/// A path does not exist, or a folder cannot be read.
pub(super) fn case_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let reading = |error| Error::config(format!("looking for cases in {}", path.display())).caused_by(error);
        if std::fs::metadata(path).map_err(reading)?.is_dir() {
            below(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

fn below(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let reading = |error| Error::config(format!("looking for cases in {}", dir.display())).caused_by(error);
    let mut entries = std::fs::read_dir(dir).map_err(reading)?.collect::<Result<Vec<_>, _>>().map_err(reading)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A folder is shown without `./` in front, as the user would write it.
        let path = if dir == Path::new(".") { PathBuf::from(entry.file_name()) } else { entry.path() };
        if entry.file_type().map_err(reading)?.is_dir() {
            if !name.starts_with('.') {
                below(&path, files)?;
            }
        } else if name.ends_with(ENDING) {
            files.push(path);
        }
    }
    Ok(())
}
