//! `tidemill new`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_core::{Error, Result};

use super::print;

/// The files of a new crate, a sound crate themselves but for the path of the SDK: see [`Name::fill`] for what is replaced.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("template/manifest.toml")),
    (".gitignore", "/target\n/out\n/tidemill-data\n"),
    ("README.md", include_str!("template/README.md")),
    ("src/lib.rs", include_str!("template/lib.rs")),
    ("cases/door.case.yaml", include_str!("template/door.case.yaml")),
    ("data/events.jsonl", include_str!("template/events.jsonl")),
    ("job.yaml", include_str!("template/job.yaml")),
];

/// Names that cargo refuses for a library, or that a dependency of it has.
const TAKEN: [&str; 10] = ["alloc", "build", "core", "deps", "examples", "incremental", "proc-macro", "serde", "std", "test"];

/// Words that no library may be called.
const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let \
loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use virtual where \
while yield ";

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The folder to make; its last part is the name of the detector
    #[arg(value_name = "NAME")]
    path: PathBuf,
    #[arg(
        long,
        value_name = "DIR",
        help = "The folder `sdk` of Tidemill's sources [default: that of the sources that this program was built from]"
    )]
    sdk: Option<PathBuf>,
}

pub(super) fn new(options: &Options) -> Result<()> {
    let path = &options.path;
    let name = Name::of(path)?;
    let sdk = find_sdk(options.sdk.as_deref())?;
    write(path, &name, &sdk).map_err(|error| Error::config(format!("making the crate {}", path.display())).caused_by(error))?;
    let Name { kebab, snake, .. } = &name;
    print(&format!(
        "{kebab}: a detector with a unit test, a case and a job. Next:\n\n\
         \x20   cd {}\n\
         \x20   cargo test               # the unit test, natively\n\
         \x20   tidemill build           # writes target/guests/{snake}.wasm\n\
         \x20   tidemill test            # the case, on the component\n\
         \x20   tidemill run job.yaml    # reads data/*.jsonl, writes out/alerts\n",
        path.display()
    ));
    Ok(())
}

/// The name of a crate in the spellings that its files need.
struct Name {
    kebab: String,
    snake: String,
    camel: String,
}

impl Name {
    fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let refuse =
            |why: &str| Err(Error::config(format!("`{name}` cannot be the name of a detector: {why}; take one such as `my-detector`")));
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return refuse("it must begin with a lower-case letter from a to z");
        }
        if let Some(bad) = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_')) {
            return refuse(&format!("it has a `{}`, and only a to z, 0 to 9, `-` and `_` are allowed", bad.escape_debug()));
        }
        let kebab = name.replace('_', "-");
        if TAKEN.contains(&kebab.as_str()) || kebab.starts_with("tidemill-sdk") || KEYWORDS.contains(&format!(" {kebab} ")) {
            return refuse("Rust or cargo has another use for this word");
        }
        let camel = kebab.split('-').flat_map(capitalized).collect();
        Ok(Self { snake: kebab.replace('-', "_"), kebab: name, camel })
    }

    /// Puts the name in the place of the template's.
    fn fill(&self, text: &str) -> String {
        text.replace("my-detector", &self.kebab).replace("my_detector", &self.snake).replace("MyDetector", &self.camel)
    }
}

fn capitalized(word: &str) -> impl Iterator<Item = char> {
    let mut rest = word.chars();
    rest.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(rest)
}

fn find_sdk(given: Option<&Path>) -> Result<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("sdk");
    let path = given.unwrap_or(&built_from);
    let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
    if !manifest.lines().any(|line| line == "name = \"tidemill-sdk\"") {
        let problem = match given {
            Some(path) => format!("{} is not the folder `sdk` of Tidemill's sources", path.display()),
            None => "the sources that this program was built from are not on this machine".to_owned(),
        };
        return Err(Error::config(format!("finding the SDK: {problem}; get the sources and give that folder with --sdk")));
    }
    fs::canonicalize(path).map_err(|error| Error::config(format!("finding the SDK in {}", path.display())).caused_by(error))
}

fn write(path: &Path, name: &Name, sdk: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => io::Error::new(error.kind(), "the folder exists; take another name, or remove it"),
        _ => error,
    })?;
    let sdk_text = sdk.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    for (file, text) in FILES {
        let file = path.join(file);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, name.fill(text).replace("@SDK@", &sdk_text))?;
    }
    // The versions of libraries that the SDK is tested with; cargo takes those away that the crate does not need.
    let lock = sdk.with_file_name("guests").join("Cargo.lock");
    if lock.is_file() {
        fs::copy(lock, path.join("Cargo.lock"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(name: &str) -> Result<[String; 3], String> {
        Name::of(Path::new(name)).map(|Name { kebab, snake, camel }| [kebab, snake, camel]).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_spelled_as_rust_wants_them() {
        assert_eq!(spellings("a/open-doors").unwrap(), ["open-doors", "open_doors", "OpenDoors"]);
        assert_eq!(spellings("open_doors2").unwrap(), ["open_doors2", "open_doors2", "OpenDoors2"]);
        assert_eq!(spellings("x--y-").unwrap(), ["x--y-", "x__y_", "XY"]);
    }

    #[test]
    fn names_that_cargo_would_refuse_are_refused_with_the_reason() {
        for (name, why) in [
            ("", "it must begin with a lower-case letter"),
            ("..", "it must begin with a lower-case letter"),
            ("2doors", "it must begin with a lower-case letter"),
            ("Doors", "it must begin with a lower-case letter"),
            ("my doors", "it has a ` `"),
            ("doors!", "it has a `!`"),
            ("türen", "it has a `ü`"),
            ("match", "another use for this word"),
            ("test", "another use for this word"),
            ("proc_macro", "another use for this word"),
            ("serde", "another use for this word"),
            ("tidemill-sdk", "another use for this word"),
        ] {
            let message = spellings(name).unwrap_err();
            assert!(message.contains(why) && message.ends_with("take one such as `my-detector`"), "{name}: {message}");
        }
    }
}
