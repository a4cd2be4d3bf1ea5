//! The manifest: a checkpoint exists once its manifest is durable. It is JSON, so that people can read it, and a line with its checksum.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use tidemill_wit::descriptor::{StateDescriptor, StateKind};
use tidemill_wit::schema::TypeTable;
#[cfg(feature = "json")]
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

#[cfg(feature = "json")]
use super::check::check;
use crate::sink::Committable;
use crate::source::Split;
#[cfg(feature = "json")]
use crate::{Error, Result};

/// The version of the format.
pub const VERSION: u32 = 1;
/// No manifest is longer, in bytes: a longer file is not read.
pub const MOST_BYTES: u64 = 256 << 20;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// The job's incarnation: 0 at first, one more each time it started from nothing over existing output.
    pub incarnation: u32,
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// When it was taken, in milliseconds since the epoch.
    pub created: i64,
    /// The number of workers.
    pub parallelism: u32,
    /// The number of key groups, fixed by the first checkpoint.
    pub max_parallelism: u32,
    /// Whether all input of a bounded job is covered: nothing is left to do but to commit.
    pub end_of_input: bool,
    /// How many records had been read from all sources, valid or not.
    pub records_in: u64,
    /// Whether it is a savepoint: the paths of its files are relative to its own folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub savepoint: bool,
    /// The checkpoint that it follows; `None` in manifests of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Previous>,
    /// What the client called its request for the savepoint: asked again under the same name, it is answered again and not done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The savepoint or checkpoint that the job was told to start from, if this is the copy that it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,
    /// Stands for the state as its checkpoint has it: a savepoint and the checkpoint that was taken with it have the same one, though their
    /// files differ. `None` in manifests of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// The workers' state files.
    pub files: Vec<StateFile>,
    /// The state that is in files of its own, by operator and worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<StoredDatabase>,
    /// Where the sources stand.
    pub sources: Vec<SourcePositions>,
    /// What the operators' state consists of.
    pub operators: Vec<OperatorState>,
    /// What the sinks must commit.
    pub sinks: Vec<SinkCommittables>,
}

/// A checkpoint that another follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its id; 0: there was none.
    pub checkpoint: u64,
    /// The XXH3 hash of its manifest, in hexadecimal: after a crash another checkpoint may get the same id.
    pub manifest: String,
}

/// What a job was told to start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The path of the savepoint or checkpoint.
    pub from: String,
    /// Whether state in it that the job does not have is dropped.
    pub drop_missing: bool,
}

/// A state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Its path within the checkpoint folder.
    pub path: String,
    /// The worker that wrote it.
    pub worker: u32,
    /// Its length.
    pub bytes: u64,
    /// Its XXH3 hash in hexadecimal.
    pub checksum: String,
    /// Older versions wrote `"base": null`. It is written again where it was read, since a manifest is known by the hash of its bytes.
    #[serde(default, rename = "base", deserialize_with = "was_there", skip_serializing_if = "Option::is_none")]
    pub unused_base: Option<()>,
}

fn was_there<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<Option<()>, D::Error> {
    IgnoredAny::deserialize(value).map(|_| Some(()))
}

/// The state of one operator's subtask as files of its backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDatabase {
    /// The operator's uid.
    pub operator: String,
    /// The worker that wrote it.
    pub worker: u32,
    /// What its files are.
    #[serde(default, skip_serializing_if = "FileFormat::is_database")]
    pub format: FileFormat,
    /// Its files. Some belong to other checkpoints too.
    pub files: Vec<StoredFile>,
}

/// What the files of stored state are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// Those of a database.
    #[default]
    Database,
    /// Key groups as they are in every state file: first whole ones, then what has changed, file by file.
    KeyGroups,
}

impl FileFormat {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_database(&self) -> bool {
        *self == Self::Database
    }
}

/// A file of a stored database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its name in the database.
    pub name: String,
    /// Its path within the checkpoint folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its XXH3 hash in hexadecimal.
    pub checksum: String,
}

/// The splits of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePositions {
    /// The source's uid.
    pub uid: String,
    /// Its splits with their positions.
    pub splits: Vec<Split>,
}

/// An operator with keyed state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// The operator's uid.
    pub uid: String,
    /// The sha-256 of its component.
    pub component: String,
    /// The type of its key.
    pub key: Option<TypeTable>,
    /// Its states; a state's index is its id in the state files.
    pub states: Vec<StoredState>,
    /// Its broadcast states, which have ids of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broadcast_states: Vec<StoredState>,
    /// Whether its keys, or those of its maps, have floats, and NaN is one key among them. Earlier versions stored several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_nan: bool,
}

/// A state as it was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredState {
    /// Its name.
    pub name: String,
    /// The code of its kind.
    pub kind: u8,
    /// The type of its value, element or map value.
    pub value: TypeTable,
    /// The type of its map keys.
    pub entry_key: Option<TypeTable>,
}

/// What a sink must commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkCommittables {
    /// The sink's uid.
    pub uid: String,
    /// Its committables.
    pub committables: Vec<Committable>,
}

impl StoredState {
    /// How a state is stored.
    #[must_use]
    pub fn of(state: &StateDescriptor) -> Self {
        Self { name: state.name.clone(), kind: state.kind as u8, value: state.value.clone(), entry_key: state.entry_key.clone() }
    }

    /// The kind in words.
    #[must_use]
    pub fn kind_name(&self) -> String {
        StateKind::from_code(self.kind).map_or_else(|| format!("unknown ({})", self.kind), |kind| format!("{kind:?}").to_lowercase())
    }
}

impl Default for Manifest {
    /// Of a job of one worker that has neither sources nor state.
    fn default() -> Self {
        Self {
            version: 0,
            job: String::new(),
            incarnation: 0,
            checkpoint: 0,
            created: 0,
            parallelism: 1,
            max_parallelism: 128,
            end_of_input: false,
            records_in: 0,
            savepoint: false,
            previous: None,
            trigger: None,
            restored: None,
            cut: None,
            files: Vec::new(),
            databases: Vec::new(),
            sources: Vec::new(),
            operators: Vec::new(),
            sinks: Vec::new(),
        }
    }
}

#[cfg(feature = "json")]
impl Manifest {
    /// The manifest as it is stored.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| Error::storage("writing the manifest as JSON").caused_by(error))?;
        let hash = xxh3_64(&text);
        text.extend_from_slice(format!("\nxxh3 {hash:016x}\n").as_bytes());
        if text.len() as u64 > MOST_BYTES {
            let (splits, most) = (self.sources.iter().map(|source| source.splits.len()).sum::<usize>(), MOST_BYTES >> 20);
            return Err(Error::storage(format!("the manifest would have more than {most} MiB: {splits} splits are too many")));
        }
        Ok(text)
    }

    /// Notes what stands for the state that its files hold.
    pub fn mark_cut(&mut self) {
        let mut hash = Xxh3::new();
        self.files.iter().for_each(|file| hash.update(format!("{} {}\n", file.worker, file.checksum).as_bytes()));
        for StoredDatabase { operator, worker, files, .. } in &self.databases {
            hash.update(format!("{operator} {worker}\n").as_bytes());
            files.iter().for_each(|file| hash.update(format!("{} {}\n", file.name, file.checksum).as_bytes()));
        }
        self.cut = Some(format!("{:032x}", hash.digest128()));
    }

    /// What a checkpoint that follows this one notes of it.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn as_previous(&self) -> Result<Previous> {
        Ok(Previous { checkpoint: self.checkpoint, manifest: format!("{:016x}", xxh3_64(&self.to_bytes()?)) })
    }

    /// Reads a stored manifest.
    ///
    /// # Errors
    /// The bytes are not a whole, unchanged manifest of a version that this program knows, or what it states cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let corrupt = |what: String| Error::corrupt(format!("the manifest {what}"));
        let line = bytes.len().checked_sub(23).and_then(|at| bytes.split_at_checked(at));
        let Some((text, line)) = line else { return Err(corrupt("is cut off".to_owned())) };
        if line != format!("\nxxh3 {:016x}\n", xxh3_64(text)).as_bytes() {
            return Err(corrupt("does not have the checksum that was written".to_owned()));
        }
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        // A newer version may lack what this one has: so its number comes first.
        if let Ok(Versioned { version }) = serde_json::from_slice(text)
            && version > VERSION
        {
            return Err(corrupt(format!(
                "has version {version}, this program reads version {VERSION}: read it with the newer tidemill that wrote it"
            )));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| corrupt("is not valid".to_owned()).caused_by(error))?;
        if manifest.version != VERSION {
            return Err(corrupt(format!("has version {}, this program reads version {VERSION}", manifest.version)));
        }
        check(&manifest).map_err(|reason| corrupt(format!("states what cannot be: {reason}")))?;
        Ok(manifest)
    }
}

#[cfg(all(test, feature = "json"))]
mod tests {
    use super::{Manifest, SourcePositions, StateFile, VERSION};
    use crate::source::Split;

    fn sample() -> Manifest {
        Manifest {
            version: VERSION,
            job: "job".to_owned(),
            incarnation: 0,
            checkpoint: 3,
            created: 1,
            parallelism: 2,
            max_parallelism: 128,
            end_of_input: false,
            records_in: 9,
            savepoint: false,
            previous: None,
            trigger: None,
            cut: None,
            restored: None,
            files: vec![],
            databases: vec![],
            sources: vec![SourcePositions { uid: "pos".to_owned(), splits: vec![Split { position: 17, ..Split::new(&[], "a") }] }],
            operators: vec![],
            sinks: vec![],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Manifest::from_bytes(&sample().to_bytes().unwrap()).unwrap(), sample());
    }

    #[test]
    fn what_older_versions_wrote_is_read_and_written_again() {
        let file = StateFile { path: "a".to_owned(), worker: 0, bytes: 1, checksum: "0".to_owned(), unused_base: None };
        let text = serde_json::to_string(&file).unwrap();
        let old = text.replace('}', ",\"base\":null}");
        assert_eq!(text, r#"{"path":"a","worker":0,"bytes":1,"checksum":"0"}"#);
        for text in [text, old] {
            let read: StateFile = serde_json::from_str(&text).unwrap();
            assert_eq!((serde_json::to_string(&read).unwrap(), StateFile { unused_base: None, ..read }), (text, file.clone()));
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number_whatever_is_in_it() {
        let text = br#"{"version": 9, "job": 7}"#;
        let bytes = [&text[..], format!("\nxxh3 {:016x}\n", xxhash_rust::xxh3::xxh3_64(text)).as_bytes()].concat();
        let error = Manifest::from_bytes(&bytes).unwrap_err().chain();
        assert!(error.contains("has version 9, this program reads version 1"), "{error}");
    }

    #[test]
    fn cut_and_flipped_manifests_are_refused() {
        let bytes = sample().to_bytes().unwrap();
        for at in 0..bytes.len() {
            assert!(Manifest::from_bytes(&bytes[..at]).is_err(), "cut to {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(Manifest::from_bytes(&flipped).is_err(), "flipped at {at}");
        }
    }
}
