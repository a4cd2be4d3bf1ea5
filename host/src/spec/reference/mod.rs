//! What can be written in job specs and cases, field by field: for the page `docs/job-spec.md`, and as a JSON Schema for editors. Tests
//! hold it against the parser.

mod case;
mod job;
mod markdown;
mod schema;

#[cfg(test)]
mod tests;

pub use self::markdown::markdown;
pub use self::schema::schema;

/// A document with everything in it.
#[derive(Debug)]
pub struct Document {
    /// What it is.
    pub title: &'static str,
    /// The mapping that it consists of.
    pub root: &'static Object,
}

/// A job spec.
pub static JOB: Document = Document { title: "Tidemill job spec", root: &job::JOB };
/// A case.
pub static CASE: Document = Document { title: "Tidemill test case", root: &case::CASE };

/// A mapping.
#[derive(Debug)]
pub struct Object {
    /// Its name, unique in a document.
    pub name: &'static str,
    /// What it says.
    pub about: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
    /// Whether it has exactly one of its fields.
    pub one_of: bool,
}

/// A field of a mapping.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// What holds without it.
    pub default: Default,
    /// What it says.
    pub about: &'static str,
    /// A value, as YAML.
    pub example: &'static str,
    /// Fields of the same mapping without which the example would be refused, as YAML.
    pub with: &'static str,
}

/// What holds without a field.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// It must be there.
    Required,
    /// The same as this value, as YAML.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
}

/// What a field's value is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// A string of letters, digits, `_` and `-`.
    Name,
    /// `true` or `false`.
    Bool,
    /// A whole number, at least this.
    Whole(u64),
    /// A whole number of milliseconds since the epoch, possibly before it.
    Time,
    /// A number from the first to the second; no second: any.
    Number(u32, Option<u32>),
    /// A length of time with its unit, at least so many milliseconds.
    Duration(i64),
    /// A length of time with its unit, or `none`.
    Ttl,
    /// A number of bytes, or a whole number of KiB, MiB or GiB; at least so many bytes.
    Size(u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A stream: `UID` or `UID.LANE`.
    Stream,
    /// One of something, or a list.
    Some(&'static Kind),
    /// A list.
    List(&'static Kind),
    /// A mapping.
    Object(&'static Object),
    /// A mapping of names of one's own.
    Named(&'static Kind),
    /// A mapping that a component's type describes.
    Record,
    /// Any value that a component's type describes.
    Value,
    /// Nothing: an empty mapping.
    Nothing,
    /// A time, or null.
    TimeOrNull,
}

impl Object {
    /// An object with any number of its fields.
    const fn new(name: &'static str, about: &'static str, fields: &'static [Field]) -> Self {
        Self { name, about, fields, one_of: false }
    }
}

const fn field(name: &'static str, kind: Kind, default: Default, about: &'static str, example: &'static str) -> Field {
    Field { name, kind, default, about, example, with: "" }
}

impl Field {
    const fn with(self, with: &'static str) -> Self {
        Self { with, ..self }
    }
}

impl Document {
    /// All mappings, each once, in the order in which they are named.
    #[must_use]
    pub fn objects(&self) -> Vec<&'static Object> {
        let mut found: Vec<&'static Object> = vec![self.root];
        let mut next = 0;
        while let Some(object) = found.get(next) {
            for inner in object.fields.iter().filter_map(|field| field.kind.object()) {
                if !found.iter().any(|known| std::ptr::eq(*known, inner)) {
                    found.push(inner);
                }
            }
            next += 1;
        }
        found
    }
}

impl Kind {
    /// The mapping that it is, or is made of.
    fn object(&self) -> Option<&'static Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Some(kind) | Self::List(kind) | Self::Named(kind) => kind.object(),
            _ => None,
        }
    }
}
