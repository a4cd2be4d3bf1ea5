//! The components that cases name, each compiled once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidemill_core::{Error, Kind, Result};

use crate::guest::{GuestComponent, GuestEngine};

/// Where the build of guests puts them, below the workspace.
const BUILT: &str = "target/guests";

type Loaded = Arc<OnceLock<Result<Arc<GuestComponent>, (Kind, String)>>>;

/// Loads components.
pub(super) struct Components {
    engine: GuestEngine,
    folders: Vec<PathBuf>,
    loaded: Mutex<HashMap<PathBuf, Loaded>>,
}

impl Components {
    /// Looks for names in the folders, then in [`BUILT`] of the working directory and of those above it.
    pub(super) fn new(engine: GuestEngine, folders: Vec<PathBuf>) -> Self {
        // Other paths in a case begin at its folder, these in the working directory.
        let mut folders: Vec<_> = folders.into_iter().map(|folder| std::path::absolute(&folder).unwrap_or(folder)).collect();
        if let Ok(here) = std::env::current_dir() {
            folders.extend(here.ancestors().map(|folder| folder.join(BUILT)));
        }
        Self { engine, folders, loaded: Mutex::default() }
    }

    /// The file of a component that is given by its name.
    ///
    /// # Errors
    /// No folder has it; the message names those that exist.
    pub(super) fn find(&self, name: &str) -> Result<PathBuf, String> {
        let file = format!("{name}.wasm");
        if let Some(path) = self.folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file()) {
            return Ok(path);
        }
        let existing: Vec<_> = self.folders.iter().filter(|folder| folder.is_dir()).map(|folder| folder.display().to_string()).collect();
        let places = if existing.is_empty() { format!("a folder {BUILT}") } else { existing.join(", ") };
        Err(format!("there is no component `{name}`: {file} is not in {places}; build it, or name its folder with --components"))
    }

    /// The component in a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no component.
    pub(super) fn load(&self, path: &Path) -> Result<Arc<GuestComponent>> {
        let loaded = Arc::clone(self.loaded.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default());
        let loaded = loaded.get_or_init(|| self.compile(path).map_err(|error| (error.kind(), error.chain())));
        loaded.clone().map_err(|(kind, message)| Error::new(kind, message))
    }

    fn compile(&self, path: &Path) -> Result<Arc<GuestComponent>> {
        let bytes =
            std::fs::read(path).map_err(|error| Error::config(format!("reading the component {}", path.display())).caused_by(error))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        self.engine.load(&name, &bytes, None)
    }
}
