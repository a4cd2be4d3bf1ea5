//! Structs: fields come in any order and are written in the order of the type.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use tidemill_wit::schema::{Field, Type};

use super::decode::Span;
use super::seed::{Cursor, Seed};

/// Appends the fields of a struct. Values are written to the output as they come, which is right while they come in the type's order; from
/// the first one that does not, their places are noted and they are put in order at the end.
pub(super) struct Fields<'s, 'a> {
    pub(super) at: &'s mut Cursor<'a>,
    pub(super) fields: &'a [Field],
    pub(super) depth: u32,
}

impl<'de> Visitor<'de> for Fields<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut done = 0;
        while let Some(found) = entries.next_key_seed(Name { fields: self.fields, expected: done })? {
            match found {
                Some(index) if index == done => {
                    self.value(index, &mut entries)?;
                    done += 1;
                }
                Some(index) => return self.any_order(done, index, entries),
                None => entries.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        self.fields.iter().skip(done).try_for_each(|field| missing(field, self.at.out))
    }
}

impl<'a> Fields<'_, 'a> {
    fn value<'de, A: MapAccess<'de>>(&mut self, index: usize, entries: &mut A) -> Result<(), A::Error> {
        let Some(field) = self.fields.get(index) else { return Ok(()) };
        entries
            .next_value_seed(Seed { at: self.at, ty: &field.ty, depth: self.depth })
            .inspect_err(|_| self.at.scratch.trail.push(format!(".{}", field.name)))
    }

    /// Goes on where field `index` came instead of field `done`.
    fn any_order<'de, A: MapAccess<'de>>(&mut self, done: usize, index: usize, mut entries: A) -> Result<(), A::Error> {
        let (ordered, first_span) = (self.at.out.len(), self.at.scratch.spans.len());
        let mut next = Some(Some(index));
        let mut expected = index;
        while let Some(found) = next {
            if let Some(index) = found {
                let spans = self.at.scratch.spans.get(first_span..).unwrap_or_default();
                if index < done || spans.iter().any(|span| span.field == index) {
                    return Err(A::Error::custom(format_args!("duplicate field `{}`", self.name(index))));
                }
                let start = self.at.out.len();
                self.value(index, &mut entries)?;
                let end = self.at.out.len();
                self.at.scratch.spans.push(Span { field: index, start, end });
                expected = index + 1;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
            next = entries.next_key_seed(Name { fields: self.fields, expected })?;
        }
        self.put_in_order(done, ordered, first_span)
    }

    fn put_in_order<E: Error>(&mut self, done: usize, ordered: usize, first_span: usize) -> Result<(), E> {
        let scratch = &mut *self.at.scratch;
        let spans = scratch.spans.get_mut(first_span..).unwrap_or_default();
        spans.sort_unstable_by_key(|span| span.field);
        scratch.bytes.clear();
        scratch.bytes.extend_from_slice(self.at.out.get(ordered..).unwrap_or_default());
        self.at.out.truncate(ordered);
        let mut spans = spans.iter().peekable();
        for (index, field) in self.fields.iter().enumerate().skip(done) {
            match spans.next_if(|span| span.field == index) {
                Some(span) => {
                    self.at.out.extend_from_slice(scratch.bytes.get(span.start - ordered..span.end - ordered).unwrap_or_default());
                }
                None => missing(field, self.at.out)?,
            }
        }
        scratch.spans.truncate(first_span);
        Ok(())
    }

    fn name(&self, index: usize) -> &'a str {
        self.fields.get(index).map_or("", |field| field.name.as_str())
    }
}

/// Appends what stands for a field that is not there: its default, or none for an option.
pub(crate) fn missing<E: Error>(field: &Field, out: &mut Vec<u8>) -> Result<(), E> {
    match (&field.default, &field.ty) {
        (Some(default), _) => out.extend_from_slice(default),
        (None, Type::Option(_)) => out.push(0),
        (None, _) => return Err(E::custom(format_args!("missing field `{}`", field.name))),
    }
    Ok(())
}

/// The index of the field that a key names; `None` if there is no such field.
struct Name<'a> {
    fields: &'a [Field],
    /// The field that most likely comes next.
    expected: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Option<usize>, D::Error> {
        key.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        match self.fields.get(self.expected) {
            Some(field) if field.name == name => Ok(Some(self.expected)),
            _ => Ok(self.fields.iter().position(|field| field.name == name || field.aliases.iter().any(|alias| alias == name))),
        }
    }
}
