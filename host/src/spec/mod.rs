//! The job spec: read, checked and held, with errors that say where and what was probably meant.
//!
//! [`load`] reads a file into a [`JobSpec`]; [`plan::Plan`] is its graph in the order in which records flow;
//! [`plan::bind`] compares the graph with what the components declare.

pub mod case;
pub mod error;
pub mod job;
pub mod nearest;
pub mod plan;
pub mod reference;
pub mod size;

mod environment;
mod fields;
mod overrides;
mod read;
mod scalar;
mod tree;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use self::error::{At, Problem, SpecError};
use self::error::{Place, Problems};
pub use self::job::JobSpec;
use self::plan::Plan;

/// The largest spec.
const MAX_BYTES: u64 = 4 << 20;

/// Reads a job spec and its overrides (`path=value` each), takes variables from the environment, and checks all that can be checked without
/// components: fields, values, the graph, and that the files of components and reference tables exist.
///
/// # Errors
/// The file cannot be read, or something in it is wrong; every problem found is listed.
pub fn load(path: &Path, overrides: &[String]) -> Result<JobSpec, SpecError> {
    let file = path.display().to_string();
    let bytes = read_bytes(path).map_err(|message| SpecError::one(&*file, Place::Whole, message))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        SpecError::one(&*file, Place::Whole, format!("the job spec is not UTF-8 at byte {at}"))
    })?;
    // Splits are known by their paths in checkpoints, so these may not depend on the working directory.
    let absolute = std::path::absolute(path)
        .map_err(|error| SpecError::one(&*file, Place::Whole, format!("cannot tell the folder of the job spec: {error}")))?;
    let base = absolute.parent().unwrap_or_else(|| Path::new("/"));
    let spec = parse(&Text { text: &text, file: &file, base }, overrides, &|name| std::env::var(name).ok())?;
    check_files(&spec)?;
    Ok(spec)
}

/// The text of a job spec.
pub struct Text<'a> {
    /// The YAML.
    pub text: &'a str,
    /// Its name in messages.
    pub file: &'a str,
    /// The folder that relative paths start from.
    pub base: &'a Path,
}

/// As [`load`], from a text, with variables from `environment`, and without looking for files.
///
/// # Errors
/// Something in it is wrong; every problem found is listed.
pub fn parse(text: &Text<'_>, overrides: &[String], environment: &dyn Fn(&str) -> Option<String>) -> Result<JobSpec, SpecError> {
    let mut problems = Problems::default();
    let mut root = tree::parse(text.text, text.file)?;
    tree::check_twice(&root, text.file, &mut problems);
    environment::substitute(&mut root, environment, &mut problems);
    for change in overrides {
        overrides::apply(&mut root, change, &mut problems);
    }
    let Some(spec) = read::job(&root, text, &mut problems) else { return Err(problems.into_error(text.file)) };
    Plan::check(&spec, &mut problems);
    problems.into_result(text.file, spec)
}

/// The bytes of a spec. What is not a regular file may never end, or wait for a writer.
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot read the job spec: {error}");
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err("the job spec is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("the job spec has more than {} MiB: put long tables into files of their own", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

fn check_files(spec: &JobSpec) -> Result<(), SpecError> {
    let mut problems = Problems::default();
    let mut check = |what: &str, file: &At<std::path::PathBuf>| {
        let path = file.value.display();
        match std::fs::metadata(&file.value) {
            Ok(found) if found.is_file() => {}
            Ok(_) => problems.add(&file.at, format!("{what} `{path}` is not a file")),
            Err(error) => problems.add(&file.at, format!("cannot find {what} `{path}`: {error}")),
        }
    };
    for operator in &spec.operators {
        check("the component", &operator.component);
        for table in &operator.tables {
            if let job::TableRows::File(path) = &table.rows {
                check("the reference table", path);
            }
        }
    }
    problems.into_result(&spec.file, ())
}
