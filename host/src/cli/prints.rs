//! Finds macros of the standard library that print in the sources of a detector: in a component they do nothing.

use std::fs;
use std::path::{Path, PathBuf};

const MACROS: [&str; 5] = ["println", "eprintln", "dbg", "print", "eprint"];
/// Those that the SDK has too.
const OFFERED: [&str; 3] = ["println", "eprintln", "dbg"];
/// More are not told.
const MOST: usize = 10;

/// What to say of each place where the sources of a crate, or of the members of a workspace below it, print to nowhere.
pub(super) fn warnings(path: &Path) -> Vec<String> {
    let mut files = Vec::new();
    sources(path, 0, &mut files);
    files.sort();
    let texts: Vec<_> = files.into_iter().filter_map(|file| Some((fs::read_to_string(&file).ok()?, file))).collect();
    let mut warnings = Vec::new();
    for (text, file) in &texts {
        // A crate whose root takes the SDK's macros has them in all its files.
        let root = texts.iter().filter(|(_, root)| root.parent().is_some_and(|folder| file.starts_with(folder)));
        if root.into_iter().any(|(text, _)| text.contains("#[macro_use") && text.contains("extern crate tidemill_sdk")) {
            continue;
        }
        for (line, name) in prints(text) {
            let cure = if OFFERED.contains(&name) {
                format!("write `use tidemill_sdk::{name};`")
            } else {
                "use tidemill_sdk::println or ctx.log".to_owned()
            };
            warnings.push(format!("{}:{line}: {name}! of the standard library does nothing in a component: {cure}", file.display()));
        }
    }
    let more = warnings.len().saturating_sub(MOST);
    warnings.truncate(MOST);
    if more > 0 {
        warnings.push(format!("{more} more macros that print do nothing in a component"));
    }
    warnings
}

/// The Rust files in the folders `src` of the crates in a folder.
fn sources(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let within_src = folder.components().any(|part| part.as_os_str() == "src");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.to_string_lossy().starts_with('.');
        if path.is_dir() && !hidden && depth < 8 && name != "target" && name != "tests" && name != "examples" && name != "benches" {
            sources(&path, depth + 1, found);
        } else if within_src && path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" && name != "build.rs" {
            found.push(path);
        }
    }
}

/// The lines, from 1, on which a text uses a macro that prints and is not imported from the SDK. Tests, which run natively, and comments are
/// left out.
fn prints(text: &str) -> Vec<(usize, &'static str)> {
    let tested = text.find("#[cfg(test)]").unwrap_or(text.len());
    let code = text.get(..tested).unwrap_or(text);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or(line);
        for name in MACROS.into_iter().filter(|name| uses(line, name) && !imports(code, name)) {
            found.push((index + 1, name));
        }
    }
    found
}

/// Whether a line has the macro, not by a path of the SDK.
fn uses(line: &str, name: &str) -> bool {
    let call = format!("{name}!");
    line.match_indices(&call).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default();
        let is_part = before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        !is_part && (!before.ends_with("::") || before.ends_with("std::"))
    })
}

/// Whether a text imports the macro from the SDK.
fn imports(text: &str, name: &str) -> bool {
    let imported = text.split("use tidemill_sdk::").skip(1).filter_map(|rest| rest.split(';').next());
    imported.flat_map(|list| list.split(|letter: char| !letter.is_alphanumeric() && letter != '_')).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::{prints, warnings};

    #[test]
    fn macros_of_the_standard_library_are_found() {
        let text = "use serde::Serialize;\n// println!(\"no\")\nfn f() {\n    println!(\"a\"); std::dbg!(1);\n    tidemill_sdk::println!(\"b\");\n    my_println!();\n}\n\
                    #[cfg(test)]\nmod tests { fn g() { println!(\"c\") } }\n";
        assert_eq!(prints(text), [(4, "println"), (4, "dbg")]);
        assert_eq!(
            prints("use tidemill_sdk::{Context,\n    println, dbg};\nprintln!();\ndbg!(1);\neprintln!();\nprint!(\"\");"),
            [(5, "eprintln"), (6, "print")]
        );
    }

    #[test]
    fn the_files_of_a_crate_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "mod rule;\n");
        write("src/rule/deep.rs", "fn f() { println!() }\n");
        write("src/tests.rs", "fn f() { println!() }\n");
        write("target/x/src/lib.rs", "fn f() { println!() }\n");
        let found = warnings(folder.path());
        assert!(found.len() == 1 && found[0].contains("src/rule/deep.rs:1: println! of the standard library does nothing"), "{found:?}");
        write("src/lib.rs", "#[macro_use(println)]\nextern crate tidemill_sdk;\nmod rule;\n");
        assert_eq!(warnings(folder.path()), Vec::<String>::new());
        write("src/lib.rs", &"fn f() { eprint!(\"\") }\n".repeat(12));
        assert_eq!(warnings(folder.path()).len(), 11);
    }
}
