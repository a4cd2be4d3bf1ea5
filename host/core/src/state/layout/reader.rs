//! Reads the bytes of one key group, trusting nothing in them.

use xxhash_rust::xxh3::xxh3_64;

use super::{CHECKSUM, CONTENT, END_OF_STATES, Entry, Form, HEADER, Item, STAMPED, TOMBSTONE, VERSION};
use crate::key_group::KeyGroup;
use crate::time::Domain;
use crate::{Error, Result};

/// Reads the items of one key group in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    group: KeyGroup,
    keys: u32,
    key: Option<&'a [u8]>,
    at: At<'a>,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Key,
    State { after: Option<u8> },
    Entries { state: u8, form: Form, stamped: bool, left: u32, after: Option<&'a [u8]> },
    Timers { domain: Domain, left: u32, after: Option<i64> },
}

impl<'a> Reader<'a> {
    /// Opens the bytes of a key group.
    ///
    /// # Errors
    /// The bytes are not whole, are of another group or of an unknown version.
    pub fn new(group: KeyGroup, bytes: &'a [u8]) -> Result<Self> {
        let (&version, _) = bytes.split_first().ok_or_else(|| corrupt(group, "they are empty"))?;
        if version != VERSION {
            return Err(corrupt(group, &format!("they have version {version}, but this program reads version {VERSION}")));
        }
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| corrupt(group, "they are cut off"))?;
        if xxh3_64(body) != u64::from_le_bytes(*checksum) {
            return Err(corrupt(group, "their checksum does not fit"));
        }
        let (header, rest) = body.split_first_chunk::<HEADER>().ok_or_else(|| corrupt(group, "they are cut off"))?;
        let [_, group_low, group_high, keys @ ..] = *header;
        let found = u16::from_le_bytes([group_low, group_high]);
        if found != group.0 {
            return Err(corrupt(group, &format!("they are of key group {found}")));
        }
        Ok(Self { rest, group, keys: u32::from_le_bytes(keys), key: None, at: At::Key })
    }

    /// Reads the content of one key that stands for itself.
    pub(in crate::state) fn of_key(group: KeyGroup, content: &'a [u8]) -> Self {
        Self { rest: content, group, keys: 0, key: None, at: At::State { after: None } }
    }

    /// The next item; `None` after the last.
    ///
    /// # Errors
    /// The bytes break the layout.
    #[expect(clippy::should_implement_trait, reason = "a fallible iterator: it must not be read on after an error")]
    pub fn next(&mut self) -> Result<Option<Item<'a>>> {
        loop {
            if matches!(self.at, At::Key) {
                return self.key();
            }
            let item = self.step()?;
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Passes what is left of the key that has begun on, and returns all of its bytes if nothing of it was read before.
    ///
    /// # Errors
    /// The bytes break the layout.
    pub(in crate::state) fn content(&mut self, each: &mut dyn FnMut(Item<'a>)) -> Result<&'a [u8]> {
        let before = self.rest;
        while !matches!(self.at, At::Key) {
            self.step()?.into_iter().for_each(&mut *each);
        }
        Ok(before.get(..before.len() - self.rest.len()).unwrap_or_default())
    }

    /// Reads on within a key.
    fn step(&mut self) -> Result<Option<Item<'a>>> {
        Ok(match self.at {
            At::Key => None,
            At::State { after } => self.state(after)?,
            At::Entries { left: 0, state, .. } => {
                self.at = At::State { after: Some(state) };
                None
            }
            At::Entries { state, form, stamped, left, after } => {
                let entry = self.entry(state, form, stamped)?;
                if form == Form::Map && after.is_some_and(|after| after >= entry.key) {
                    return Err(self.corrupt("the entries of a map are not in order"));
                }
                self.at = At::Entries { state, form, stamped, left: left - 1, after: Some(entry.key) };
                Some(Item::Entry(entry))
            }
            At::Timers { domain, left: 0, .. } => {
                self.at = match domain {
                    Domain::Event => At::Timers { domain: Domain::Processing, left: self.count()?, after: None },
                    Domain::Processing => At::Key,
                };
                None
            }
            At::Timers { domain, left, after } => {
                let time = self.time()?;
                if after.is_some_and(|after| after >= time) {
                    return Err(self.corrupt("the timers of a key are not in order"));
                }
                self.at = At::Timers { domain, left: left - 1, after: Some(time) };
                Some(Item::Timer(domain, time))
            }
        })
    }

    fn key(&mut self) -> Result<Option<Item<'a>>> {
        if self.keys == 0 {
            return if self.rest.is_empty() { Ok(None) } else { Err(self.corrupt("there are bytes after the last key")) };
        }
        self.keys -= 1;
        let tag = self.byte()?;
        let key = self.blob()?;
        if self.key.is_some_and(|before| before >= key) {
            return Err(self.corrupt("the keys are not in order"));
        }
        self.key = Some(key);
        match tag {
            CONTENT => {
                self.at = At::State { after: None };
                Ok(Some(Item::Key(key)))
            }
            TOMBSTONE => Ok(Some(Item::Tombstone(key))),
            _ => Err(self.corrupt(&format!("a key begins with {tag}"))),
        }
    }

    fn state(&mut self, after: Option<u8>) -> Result<Option<Item<'a>>> {
        let tag = self.byte()?;
        if tag == END_OF_STATES {
            self.at = At::Timers { domain: Domain::Event, left: self.count()?, after: None };
            return Ok(None);
        }
        let stamped = tag & STAMPED != 0;
        let form = Form::from_code(tag & !STAMPED).ok_or_else(|| self.corrupt(&format!("a state begins with {tag}")))?;
        let state = self.byte()?;
        if after.is_some_and(|after| after >= state) {
            return Err(self.corrupt("the states of a key are not in order"));
        }
        let left = if form == Form::Value { 1 } else { self.count()? };
        self.at = At::Entries { state, form, stamped, left, after: None };
        Ok(None)
    }

    fn entry(&mut self, state: u8, form: Form, stamped: bool) -> Result<Entry<'a>> {
        let stamp = if stamped { Some(self.time()?) } else { None };
        let key = if form == Form::Map { self.blob()? } else { &[] };
        Ok(Entry { state, form, stamp, key, value: self.blob()? })
    }

    /// A number of things that take at least a byte each, so that a lie ends early.
    fn count(&mut self) -> Result<u32> {
        let count = self.varint()?;
        if count as usize > self.rest.len() { Err(self.corrupt("they are cut off")) } else { Ok(count) }
    }

    fn blob(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let (blob, rest) = self.rest.split_at_checked(len as usize).ok_or_else(|| self.corrupt("they are cut off"))?;
        self.rest = rest;
        Ok(blob)
    }

    fn time(&mut self) -> Result<i64> {
        let (time, rest) = self.rest.split_first_chunk().ok_or_else(|| self.corrupt("they are cut off"))?;
        self.rest = rest;
        Ok(i64::from_le_bytes(*time))
    }

    fn varint(&mut self) -> Result<u32> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let shortest = byte != 0 || shift == 0;
                return u32::try_from(number).ok().filter(|_| shortest).ok_or_else(|| self.corrupt("a length is out of range"));
            }
        }
        Err(self.corrupt("a length is out of range"))
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.corrupt("they are cut off"))?;
        self.rest = rest;
        Ok(byte)
    }

    fn corrupt(&self, what: &str) -> Error {
        corrupt(self.group, what)
    }
}

fn corrupt(group: KeyGroup, what: &str) -> Error {
    Error::corrupt(format!("the bytes of key group {} are not what was written: {what}", group.0))
}
