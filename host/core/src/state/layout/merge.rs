//! Puts what was written of a key group one after the other together.

use std::collections::BTreeMap;

use super::{Item, Reader, Writer};
use crate::Result;
use crate::key_group::KeyGroup;

/// Writes the content of a key group of which `parts` were written, the oldest first: of each key what was written last, without
/// tombstones. Returns whether there is any key; the bytes are then those of the writer.
///
/// # Errors
/// A part breaks the layout.
pub fn merge<'w>(group: KeyGroup, parts: &[Vec<u8>], writer: &'w mut Writer) -> Result<Option<&'w [u8]>> {
    let mut keys: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for part in parts {
        let mut reader = Reader::new(group, part)?;
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(key) => {
                    keys.insert(key, Some(reader.content(&mut |_| {})?));
                }
                Item::Tombstone(key) => {
                    keys.insert(key, None);
                }
                Item::Entry(_) | Item::Timer(..) => {}
            }
        }
    }
    writer.begin(group);
    let mut is_empty = true;
    for (key, content) in keys {
        if let Some(content) = content {
            writer.key_with(key, content);
            is_empty = false;
        }
    }
    Ok(if is_empty { None } else { Some(writer.finish()) })
}

#[cfg(test)]
mod tests {
    use super::merge;
    use crate::key_group::KeyGroup;
    use crate::state::layout::Writer;

    fn part(keys: &[(&str, Option<&str>)]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.begin(KeyGroup(9));
        for (key, value) in keys {
            if let Some(value) = value {
                writer.key(key.as_bytes());
                writer.value(0, None, value.as_bytes());
                writer.timers(&[1], &[]);
            } else {
                writer.tombstone(key.as_bytes());
            }
        }
        writer.finish().to_vec()
    }

    #[test]
    fn what_was_written_last_counts() {
        let parts = [
            part(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]),
            part(&[("b", None), ("c", Some("2")), ("d", Some("2"))]),
            part(&[("0", Some("3")), ("b", Some("3")), ("d", None), ("e", None)]),
        ];
        let expected = part(&[("0", Some("3")), ("a", Some("1")), ("b", Some("3")), ("c", Some("2"))]);
        let mut writer = Writer::default();
        assert_eq!(merge(KeyGroup(9), &parts, &mut writer).unwrap(), Some(&expected[..]));
        assert_eq!(merge(KeyGroup(9), &parts[..1], &mut writer).unwrap(), Some(&parts[0][..]));
        assert_eq!(merge(KeyGroup(9), &[part(&[("a", None)])], &mut writer).unwrap(), None);
        assert_eq!(merge(KeyGroup(9), &[], &mut writer).unwrap(), None);
        let mut cut = parts[0].clone();
        cut.pop();
        assert!(merge(KeyGroup(9), &[cut], &mut writer).is_err());
        assert!(merge(KeyGroup(8), &parts, &mut writer).is_err(), "another key group");
    }
}
