//! The reference against the parser, and the page and the repository's own files against the reference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{CASE, Default, Document, Field, JOB, Kind, Object, job, markdown, schema};
use crate::spec::{Text, case, tree};
use crate::state::HAS_ROCKSDB;

const UNKNOWN: &str = "zzzzzzzzzzzz";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A mapping with what it must have, and these fields, as YAML.
fn mapping(object: &Object, fields: &[(&str, &str)]) -> String {
    let needed = object.fields.iter().filter(|field| matches!(field.default, Default::Required) && !object.one_of);
    let needed = needed.map(|field| (field.name, field.example)).filter(|(name, _)| fields.iter().all(|(given, _)| given != name));
    // A source must be read by an operator.
    let operators = job::JOB.fields.iter().find(|field| field.name == "operators" && std::ptr::eq(object, JOB.root));
    let operators = operators.map(|field| (field.name, field.example)).filter(|(name, _)| fields.iter().all(|(given, _)| given != name));
    let all: Vec<String> = needed.chain(operators).chain(fields.iter().copied()).map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", all.join(", "))
}

/// A document with such a mapping in it.
fn document(document: &Document, object: &Object, fields: &[(&str, &str)]) -> String {
    let mut text = mapping(object, fields);
    let mut inner = object;
    while !std::ptr::eq(inner, document.root) {
        let holds =
            |outer: &&'static Object| outer.fields.iter().find(|field| field.kind.object().is_some_and(|found| std::ptr::eq(found, inner)));
        let outer = document.objects().into_iter().find(|outer| holds(outer).is_some()).unwrap();
        let field = holds(&outer).unwrap();
        let value = match field.kind {
            Kind::Object(_) => text,
            Kind::Named(_) => format!("{{ x: {text} }}"),
            _ => format!("[{text}]"),
        };
        let mut fields = vec![(field.name, value.as_str())];
        let with = field.with.split_once(": ");
        fields.extend(with);
        text = mapping(outer, &fields);
        inner = outer;
    }
    text
}

/// What the parser says of a document: what it has read, or all that is wrong.
fn parsed(document: &Document, text: &str) -> Result<String, String> {
    let text = Text { text, file: "f.yaml", base: Path::new("/base") };
    let read = if std::ptr::eq(document.root, JOB.root) {
        crate::spec::parse(&text, &[], &|_| None).map(|spec| format!("{spec:?}"))
    } else {
        let context = case::Context { component: &|name| Ok(Path::new("/").join(name)) };
        case::parse(&text, &context).map(|case| format!("{case:?}"))
    };
    read.map_err(|error| error.to_string())
}

/// The text without places in the file.
fn without_places(text: &str) -> String {
    let mut parts = text.split("File { line: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('}').map_or("", |(_, rest)| rest))
}

fn each_field(mut check: impl FnMut(&Document, &Object, &Field)) {
    for document in [&JOB, &CASE] {
        for object in document.objects() {
            object.fields.iter().for_each(|field| check(document, object, field));
        }
    }
}

fn companion(field: &Field) -> impl Iterator<Item = (&'static str, &'static str)> {
    field.with.split_once(": ").into_iter()
}

#[test]
fn the_parser_knows_the_same_fields() {
    for kind in [&JOB, &CASE] {
        for object in kind.objects() {
            let error = parsed(kind, &document(kind, object, &[(UNKNOWN, "1")])).unwrap_err();
            let known =
                error.lines().find(|line| line.contains(UNKNOWN)).and_then(|line| line.split_once("known: ")).map(|(_, known)| known);
            let known: BTreeSet<&str> = known.unwrap_or_else(|| panic!("{}: {error}", object.name)).split(", ").collect();
            let fields: BTreeSet<&str> = object.fields.iter().map(|field| field.name).collect();
            assert_eq!(known, fields, "of {}: describe each field in spec/reference", object.name);
        }
    }
}

#[test]
fn every_example_is_accepted_and_every_field_is_read() {
    each_field(|kind, object, field| {
        let given: Vec<_> = companion(field).chain([(field.name, field.example)]).collect();
        if HAS_ROCKSDB || field.with != "backend: rocksdb" {
            let text = document(kind, object, &given);
            assert!(parsed(kind, &text).is_ok(), "{text}: {}", parsed(kind, &text).unwrap_err());
        }
        // What follows a swap is told when it is run.
        if !matches!(field.kind, Kind::Value) && object.name != "swap" {
            let wrong: Vec<_> = companion(field).chain([(field.name, "[[]]")]).collect();
            let text = document(kind, object, &wrong);
            assert!(parsed(kind, &text).is_err(), "{} of {} is not read", field.name, object.name);
        }
        if matches!(field.default, Default::Required) && !matches!(field.kind, Kind::Value) {
            let without = document(kind, object, &[(field.name, "")]);
            assert!(parsed(kind, &without).is_err(), "{} of {} is not required", field.name, object.name);
        }
    });
}

#[test]
fn a_default_is_what_holds_without_the_field() {
    let mut checked = 0;
    each_field(|kind, object, field| {
        if let Default::Value(value) = field.default {
            let read = |fields: &[(&str, &str)]| without_places(&parsed(kind, &document(kind, object, fields)).unwrap());
            // In a mapping that is there either way.
            assert_eq!(read(&[(field.name, value)]), read(&[]), "{} of {}", field.name, object.name);
            checked += 1;
        }
    });
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_page_has_every_field() {
    let path = root().join("docs/job-spec.md");
    let mut page = fs::read_to_string(&path).unwrap();
    for object in JOB.objects() {
        let (begin, end) = (format!("<!-- fields: {} -->\n", object.name), "<!-- end -->");
        let start = page.find(&begin).unwrap_or_else(|| panic!("docs/job-spec.md has no `{}`", begin.trim())) + begin.len();
        let length = page[start..].find(end).unwrap();
        page.replace_range(start..start + length, &markdown(object));
    }
    if std::env::var_os("TIDEMILL_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(found == page, "docs/job-spec.md is not what spec/reference says: TIDEMILL_BLESS=1 writes its tables anew");
    let examples: Vec<&str> = found.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert!(parsed(&JOB, example).is_ok(), "{example}\n{}", parsed(&JOB, example).unwrap_err());
        assert_eq!(Validator::of(&JOB).check(example), Ok(()));
    }
}

/// Keywords that a value has passed when it comes to their last arm, and those that only say something.
const ASSERTED: [&str; 9] = ["type", "enum", "pattern", "minimum", "maximum", "minLength", "minItems", "minProperties", "maxProperties"];
const SAID: [&str; 4] = ["description", "title", "$schema", "$defs"];

/// As much of JSON Schema as ours use.
struct Validator {
    schema: Value,
}

impl Validator {
    fn of(document: &Document) -> Self {
        Self { schema: schema(document) }
    }

    fn check(&self, yaml: &str) -> Result<(), String> {
        self.value(&self.schema, &tree::parse(yaml, "f.yaml").unwrap().to_json()).map_err(|reason| format!("{reason}\n{yaml}"))
    }

    fn value(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{value} does not fit {what}"));
        for (keyword, wanted) in schema.as_object().unwrap() {
            let number = || wanted.as_f64().unwrap();
            match keyword.as_str() {
                "$ref" => self.value(&self.schema["$defs"][wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap()], value)?,
                "anyOf" => {
                    let errors: Vec<_> = wanted.as_array().unwrap().iter().map_while(|schema| self.value(schema, value).err()).collect();
                    if errors.len() == wanted.as_array().unwrap().len() {
                        return Err(errors.join("; "));
                    }
                }
                "type" if !types(wanted).any(|wanted| is(value, wanted)) => return wrong(&wanted.to_string()),
                "enum" if !wanted.as_array().unwrap().contains(value) => return wrong(&wanted.to_string()),
                "pattern" if value.is_string() && !matches(wanted.as_str().unwrap(), value.as_str().unwrap()) => {
                    return wrong(&wanted.to_string());
                }
                "minimum" if value.as_f64().is_some_and(|value| value < number()) => return wrong(">="),
                "maximum" if value.as_f64().is_some_and(|value| value > number()) => return wrong("<="),
                "minLength" if value.as_str() == Some("") => return wrong("minLength"),
                "minItems" if value.as_array().is_some_and(Vec::is_empty) => return wrong("minItems"),
                "minProperties" if value.as_object().is_some_and(|map| (map.len() as f64) < number()) => return wrong("minProperties"),
                "maxProperties" if value.as_object().is_some_and(|map| map.len() as f64 > number()) => return wrong("maxProperties"),
                "items" => value.as_array().into_iter().flatten().try_for_each(|item| self.value(wanted, item))?,
                "required" => {
                    let missing = wanted.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                    missing.map_or(Ok(()), |name| wrong(&format!("required {name}")))?;
                }
                "properties" => {
                    let mut known = value.as_object().into_iter().flatten().filter_map(|(name, value)| Some((wanted.get(name)?, value)));
                    known.try_for_each(|(schema, value)| self.value(schema, value))?;
                }
                "additionalProperties" => {
                    let known = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
                    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
                        match wanted {
                            Value::Bool(false) => return wrong(&format!("no field {name}")),
                            schema => self.value(schema, value)?,
                        }
                    }
                }
                _ => assert!(ASSERTED.contains(&keyword.as_str()) || SAID.contains(&keyword.as_str()), "{keyword} is not known here"),
            }
        }
        Ok(())
    }
}

fn types(wanted: &Value) -> impl Iterator<Item = &str> {
    let one = wanted.as_str().into_iter();
    one.chain(wanted.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is not known here"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match pattern {
        schema::VARIABLE => text.contains("${"),
        schema::NAME => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'),
        schema::DURATION => unit.len() < text.len() && ["ms", "s", "m", "h", "d"].contains(&unit),
        schema::SIZE => unit.len() < text.len() && ["", "KiB", "MiB", "GiB"].contains(&unit),
        other => panic!("{other} is not known here"),
    }
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
}

#[test]
fn the_schemas_take_the_specs_and_cases_of_the_repository() {
    let mut cases = Vec::new();
    files(&root().join("tests/conformance"), ".case.yaml", &mut cases);
    files(&root().join("host/src/cli/template"), ".case.yaml", &mut cases);
    assert!(cases.len() > 20, "{}", cases.len());
    let jobs =
        ["examples/larkspur/job.yaml", "host/src/cli/template/job.yaml", "tests/golden/probe-1/job.yaml"].map(|path| root().join(path));
    for (document, files) in [(&CASE, &cases[..]), (&JOB, &jobs[..])] {
        let validator = Validator::of(document);
        for file in files {
            assert_eq!(validator.check(&fs::read_to_string(file).unwrap()), Ok(()), "{}", file.display());
        }
    }
}

#[test]
fn the_schemas_take_every_example_and_refuse_unknown_fields_and_wrong_values() {
    each_field(|kind, object, field| {
        let validator = Validator::of(kind);
        let given: Vec<_> = companion(field).chain([(field.name, field.example)]).collect();
        assert_eq!(validator.check(&document(kind, object, &given)), Ok(()));
        if !matches!(field.kind, Kind::Value) {
            let wrong = document(kind, object, &[(field.name, "[[]]")]);
            assert!(validator.check(&wrong).is_err(), "{wrong}");
        }
        if matches!(field.kind, Kind::Duration(_) | Kind::Ttl) {
            assert!(validator.check(&document(kind, object, &[(field.name, "60")])).is_err(), "a duration needs its unit");
        }
        let unknown = document(kind, object, &[(UNKNOWN, "1")]);
        assert!(validator.check(&unknown).is_err(), "{unknown}");
    });
    assert_eq!(schema(&JOB)["$schema"], json!("https://json-schema.org/draft/2020-12/schema"));
}
