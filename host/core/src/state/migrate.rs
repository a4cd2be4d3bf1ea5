//! Stored state re-encoded from the types that wrote it to those that a new version of a component declares.

use super::layout::{Entry, Form, Item, Reader, Writer};
use crate::key_group::KeyGroup;
use crate::schema::Transcoder;
use crate::time::Domain;
use crate::{Error, Result};

/// What happens to the values of each stored state, by its stored id.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    states: Vec<Change>,
}

/// What happens to the values of a state.
#[derive(Clone, Debug)]
pub struct Change {
    /// The state's name, for messages.
    pub name: String,
    /// How its values change; `None`: they stay as they are.
    pub transcoder: Option<Transcoder>,
}

impl Migration {
    /// A migration of states by their stored ids.
    #[must_use]
    pub fn new(states: Vec<Change>) -> Self {
        Self { states }
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.states.iter().all(|state| state.transcoder.is_none())
    }

    /// Writes the content of a key group anew. Ids of states stay those of the snapshot.
    ///
    /// # Errors
    /// The bytes break the layout, or a value is not of the type that is said to have written it.
    pub fn group<'w>(&self, group: KeyGroup, bytes: &[u8], writer: &'w mut Writer) -> Result<&'w [u8]> {
        let mut reader = Reader::new(group, bytes)?;
        let mut key = Key { migration: self, entries: Vec::new(), event: Vec::new(), processing: Vec::new(), open: false };
        writer.begin(group);
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) => {
                    key.end(writer)?;
                    key.open = true;
                    writer.key(bytes);
                }
                Item::Tombstone(bytes) => {
                    key.end(writer)?;
                    writer.tombstone(bytes);
                }
                Item::Entry(entry) => key.entry(entry, writer)?,
                Item::Timer(Domain::Event, time) => key.event.push(time),
                Item::Timer(Domain::Processing, time) => key.processing.push(time),
            }
        }
        key.end(writer)?;
        Ok(writer.finish())
    }

    /// The value of a state in its new form.
    ///
    /// # Errors
    /// It is not of the type that is said to have written it.
    pub fn value(&self, state: u8, value: &[u8]) -> Result<Vec<u8>> {
        let Some(Change { name, transcoder: Some(transcoder) }) = self.states.get(usize::from(state)) else { return Ok(value.to_vec()) };
        let mut out = Vec::new();
        transcoder
            .transcode(value, &mut out)
            .map_err(|reason| Error::corrupt(format!("a stored value of state {name} is not of its stored type: {reason}")))?;
        Ok(out)
    }
}

/// A key whose content is being written: the number of a state's entries comes before them.
struct Key<'a> {
    migration: &'a Migration,
    entries: Vec<Entry<'a>>,
    event: Vec<i64>,
    processing: Vec<i64>,
    open: bool,
}

impl<'a> Key<'a> {
    fn entry(&mut self, entry: Entry<'a>, writer: &mut Writer) -> Result<()> {
        if self.entries.first().is_some_and(|first| first.state != entry.state) {
            self.state(writer)?;
        }
        self.entries.push(entry);
        Ok(())
    }

    fn state(&mut self, writer: &mut Writer) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        let Some(first) = entries.first() else { return Ok(()) };
        if first.form != Form::Value {
            writer.entries(first.state, first.form, first.stamp.is_some(), entries.len());
        }
        for Entry { state, form, stamp, key, value } in entries {
            let value = self.migration.value(state, value)?;
            match form {
                Form::Value => writer.value(state, stamp, &value),
                Form::List => writer.element(stamp, &value),
                Form::Map => writer.entry(stamp, key, &value),
            }
        }
        Ok(())
    }

    fn end(&mut self, writer: &mut Writer) -> Result<()> {
        self.state(writer)?;
        if std::mem::take(&mut self.open) {
            writer.timers(&self.event, &self.processing);
            self.event.clear();
            self.processing.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Type, TypeTable};

    use super::{Change, Migration};
    use crate::key_group::KeyGroup;
    use crate::schema::Transcoder;
    use crate::state::layout::{Form, Writer};

    /// Two keys, with a value, a list and a map of bytes.
    fn sample(values: [&[u8]; 4]) -> Vec<u8> {
        let [one, two, three, other] = values;
        let mut writer = Writer::default();
        writer.begin(KeyGroup(3));
        writer.key(b"a");
        writer.value(0, Some(9), one);
        writer.entries(1, Form::List, false, 2);
        writer.element(None, two);
        writer.element(None, three);
        writer.entries(2, Form::Map, true, 1);
        writer.entry(Some(4), b"k", one);
        writer.timers(&[1, 2], &[3]);
        writer.tombstone(b"b");
        writer.key(b"c");
        writer.value(0, None, other);
        writer.timers(&[], &[7]);
        writer.finish().to_vec()
    }

    fn migration(states: [bool; 3]) -> Migration {
        let transcoder = Transcoder::new(&TypeTable::of(Type::U8), &TypeTable::of(Type::U16)).unwrap();
        Migration::new(
            states.into_iter().map(|changed| Change { name: "n".to_owned(), transcoder: changed.then(|| transcoder.clone()) }).collect(),
        )
    }

    #[test]
    fn values_elements_and_entries_change_and_nothing_else_does() {
        let before = sample([&[1], &[200], &[3], &[255]]);
        let migrated = |states| migration(states).group(KeyGroup(3), &before, &mut Writer::default()).unwrap().to_vec();
        assert_eq!(migrated([true; 3]), sample([&[1], &[200, 1], &[3], &[255, 1]]));
        assert_eq!(migrated([false; 3]), before);
        assert!(migration([false; 3]).is_identity() && !migration([false, true, false]).is_identity());
    }

    #[test]
    fn values_that_are_not_of_their_type_are_refused_by_name() {
        let error = migration([true; 3]).group(KeyGroup(3), &sample([&[1], &[], &[3], &[255]]), &mut Writer::default()).unwrap_err();
        assert!(error.chain().contains("a stored value of state n is not of its stored type"), "{}", error.chain());
    }
}
