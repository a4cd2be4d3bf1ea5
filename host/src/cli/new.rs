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

/// Names that the code of a new crate has for something else, or that Rust's prelude has.
const IN_USE: &[&str] = &[
    "Alert",
    "Box",
    "Clone",
    "Context",
    "Copy",
    "Debug",
    "Default",
    "Deserialize",
    "Detector",
    "Drop",
    "Duration",
    "Eq",
    "Err",
    "Event",
    "Failure",
    "Fn",
    "From",
    "Harness",
    "Hash",
    "Into",
    "Iterator",
    "KeyedProcessFunction",
    "None",
    "Ok",
    "Option",
    "Ord",
    "Parameters",
    "PartialEq",
    "Result",
    "Schema",
    "Self",
    "Send",
    "Serialize",
    "Settings",
    "Some",
    "String",
    "Sync",
    "Timer",
    "ToString",
    "ValueState",
    "Vec",
];

/// The source and the sink of the new job: no operator of it may have one of these names.
const UIDS: [&str; 2] = ["events", "alerts"];

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
    let failed = |error| Error::config(format!("making the crate {}", path.display())).caused_by(error);
    make_folder(path).map_err(failed)?;
    write(path, &name, &sdk).map_err(|error| {
        // Half a crate would only be in the way of the next attempt.
        let _ = fs::remove_dir_all(path);
        failed(error)
    })?;
    let Name { kebab, snake, .. } = &name;
    let note = surrounding_workspace(path).map_or_else(String::new, |manifest| {
        format!(
            "\nIt is a workspace of its own, inside the one of {}. If that one's members match it, cargo finds two: exclude it there.\n",
            manifest.display()
        )
    });
    print(&format!(
        "{kebab}: a detector with a unit test, a case and a job. Next:\n\n\
         \x20   cd {}\n\
         \x20   cargo test               # the unit test, natively\n\
         \x20   tidemill build           # writes target/guests/{snake}.wasm\n\
         \x20   tidemill test            # the case, on the component\n\
         \x20   tidemill run job.yaml    # reads data/*.jsonl, writes out/alerts\n{note}",
        for_shell(path)
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
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let refuse =
            |why: &str| Err(Error::config(format!("`{name}` cannot be the name of a detector: {why}; take one such as `my-detector`")));
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return refuse("it must begin with a lower-case letter from a to z");
        }
        if let Some(bad) = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_')) {
            return refuse(&format!("it has a `{}`, and only a to z, 0 to 9, `-` and `_` are allowed", bad.escape_debug()));
        }
        let kebab = name.replace('_', "-");
        if TAKEN.contains(&kebab.as_str()) || kebab.starts_with("tidemill") || KEYWORDS.contains(&format!(" {kebab} ")) {
            return refuse("Rust or cargo has another use for this word");
        }
        let mut camel: String = kebab.split('-').flat_map(capitalized).collect();
        if IN_USE.contains(&camel.as_str()) {
            camel.push_str("Function");
        }
        Ok(Self { snake: kebab.replace('-', "_"), kebab: name, camel })
    }

    /// Puts the name in the place of the template's.
    fn fill(&self, text: &str) -> String {
        let uid = if UIDS.contains(&self.kebab.as_str()) { format!("{}-detector", self.kebab) } else { self.kebab.clone() };
        let text = ["uid: ", "input: "]
            .iter()
            .fold(text.to_owned(), |text, field| text.replace(&format!("{field}my-detector"), &format!("{field}{uid}")));
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

fn make_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => io::Error::new(error.kind(), "it exists; take another name, or remove it"),
        _ => error,
    })
}

/// The manifest of the workspace that a folder is in, if it is in one.
fn surrounding_workspace(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let mut manifests = path.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
    manifests.find(|manifest| fs::read_to_string(manifest).is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]")))
}

/// A path as it is typed in a shell.
fn for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn write(path: &Path, name: &Name, sdk: &Path) -> io::Result<()> {
    let sdk_text = sdk.to_str().ok_or_else(|| io::Error::other(format!("the path of the SDK, {}, is not UTF-8", sdk.display())))?;
    let sdk_text = sdk_text.replace('\\', "\\\\").replace('"', "\\\"");
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
        assert_eq!(spellings("doors/").unwrap()[0], "doors");
    }

    #[test]
    fn names_that_the_code_or_the_job_uses_already_give_way() {
        assert_eq!(spellings("alert").unwrap(), ["alert", "alert", "AlertFunction"]);
        assert_eq!(spellings("detector").unwrap()[2], "DetectorFunction");
        let (events, doors) = (Name::of(Path::new("events")).unwrap(), Name::of(Path::new("doors")).unwrap());
        let job = include_str!("template/job.yaml");
        assert!(events.fill(job).contains("- uid: events-detector\n") && events.fill(job).contains("input: events-detector,"));
        assert!(doors.fill(job).contains("- uid: doors\n") && doors.fill(job).contains("name: doors\n"));
    }

    #[test]
    fn paths_are_shown_as_a_shell_takes_them() {
        assert_eq!(for_shell(Path::new("a/my-doors")), "a/my-doors");
        assert_eq!(for_shell(Path::new("my folder/it's")), "'my folder/it'\\''s'");
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
            ("tidemill_core", "another use for this word"),
            ("my.doors", "it has a `.`"),
        ] {
            let message = spellings(name).unwrap_err();
            assert!(message.contains(why) && message.ends_with("take one such as `my-detector`"), "{name}: {message}");
        }
    }
}
