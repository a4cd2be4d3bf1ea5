//! In what two savepoints differ.

use std::collections::BTreeMap;

use serde::Serialize;
use tidemill_core::checkpoint::manifest::{Manifest, OperatorState, StoredState};
use tidemill_core::schema::{changes, equivalent};
use tidemill_core::state::layout::{Item, Reader};
use tidemill_core::{Result, time::Domain};
use xxhash_rust::xxh3::xxh3_64;

use super::{Piece, pieces};
use crate::store::savepoint::Saved;

/// In what one thing differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The source, operator or state: `operator U`, `operator U, state S`.
    pub of: String,
    /// What is different.
    pub what: String,
}

/// In what the second savepoint differs from the first; nothing if they hold the same. How many workers wrote them does not matter.
///
/// # Errors
/// One of them is damaged.
pub fn diff(a: &Saved, b: &Saved) -> Result<Vec<Difference>> {
    let mut found = Vec::new();
    positions(&a.manifest, &b.manifest, &mut found);
    let (then, now) = (Digest::read(a)?, Digest::read(b)?);
    let uids = |manifest: &Manifest| manifest.operators.iter().map(|operator| operator.uid.clone()).collect::<Vec<_>>();
    let (old, new) = (uids(&a.manifest), uids(&b.manifest));
    for uid in old.iter().chain(new.iter().filter(|uid| !old.contains(uid))) {
        let of = format!("operator {uid}");
        match (find(&a.manifest, uid), find(&b.manifest, uid)) {
            (Some(_), None) => found.push(Difference { of, what: "is only in the first".to_owned() }),
            (None, Some(_)) => found.push(Difference { of, what: "is only in the second".to_owned() }),
            (Some(a), Some(b)) => {
                if a.component != b.component {
                    found.push(Difference { of: of.clone(), what: format!("component {} became {}", a.component, b.component) });
                }
                states(&of, (&a.states, &b.states), &mut found);
                states(&of, (&a.broadcast_states, &b.broadcast_states), &mut found);
            }
            (None, None) => {}
        }
    }
    let of_both = then.parts.keys().chain(now.parts.keys().filter(|part| !then.parts.contains_key(*part)));
    for part in of_both {
        let empty = BTreeMap::new();
        compare(part, then.parts.get(part).unwrap_or(&empty), now.parts.get(part).unwrap_or(&empty), &mut found);
    }
    Ok(found)
}

fn find<'a>(manifest: &'a Manifest, uid: &str) -> Option<&'a OperatorState> {
    manifest.operators.iter().find(|operator| operator.uid == uid)
}

fn positions(a: &Manifest, b: &Manifest, found: &mut Vec<Difference>) {
    for source in &a.sources {
        let splits = b.sources.iter().find(|other| other.uid == source.uid).map_or(&[][..], |other| &other.splits[..]);
        for split in &source.splits {
            let other = splits.iter().find(|other| other.id == split.id);
            if other.is_none_or(|other| other.position != split.position) {
                let now = other.map_or_else(|| "gone".to_owned(), |other| format!("at byte {}", other.position));
                let what = format!("split {} was at byte {} and is {now}", split.name, split.position);
                found.push(Difference { of: format!("source {}", source.uid), what });
            }
        }
    }
}

fn states(operator: &str, (then, now): (&[StoredState], &[StoredState]), found: &mut Vec<Difference>) {
    for state in then {
        let of = format!("{operator}, state {}", state.name);
        match now.iter().find(|other| other.name == state.name) {
            None => found.push(Difference { of, what: "is only in the first".to_owned() }),
            Some(other) if !equivalent(&state.value, &other.value) => {
                found.push(Difference { of, what: format!("type: {}", changes(&state.value, &other.value).join(", ")) });
            }
            Some(_) => {}
        }
    }
    for state in now.iter().filter(|state| !then.iter().any(|other| other.name == state.name)) {
        found.push(Difference { of: format!("{operator}, state {}", state.name), what: "is only in the second".to_owned() });
    }
}

/// The hashes of everything, by what it is of and by key.
struct Digest {
    parts: BTreeMap<String, BTreeMap<Vec<u8>, u64>>,
}

impl Digest {
    fn read(saved: &Saved) -> Result<Self> {
        let mut digest = Self { parts: BTreeMap::new() };
        pieces(saved, &mut |uid, piece| {
            let Some(operator) = find(&saved.manifest, uid) else { return Ok(()) };
            match piece {
                Piece::Group(group, bytes) => digest.group(operator, &mut Reader::new(group, bytes)?),
                Piece::Broadcast(bytes) => {
                    digest.add(format!("operator {uid}, broadcast state"), &[], bytes);
                    Ok(())
                }
            }
        })?;
        Ok(digest)
    }

    fn group(&mut self, operator: &OperatorState, reader: &mut Reader<'_>) -> Result<()> {
        let names: Vec<String> = operator.states.iter().map(|state| format!("operator {}, state {}", operator.uid, state.name)).collect();
        let timers = |domain| format!("operator {}, {domain}-time timers", operator.uid);
        let mut key: &[u8] = &[];
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) => key = bytes,
                Item::Tombstone(_) => {}
                Item::Entry(entry) => {
                    let name = names.get(usize::from(entry.state)).cloned().unwrap_or_default();
                    let stamp = entry.stamp.map_or([0; 8], i64::to_le_bytes);
                    self.add(name, key, &[&stamp[..], &(entry.key.len() as u64).to_le_bytes(), entry.key, entry.value].concat());
                }
                Item::Timer(domain, time) => {
                    let domain = if domain == Domain::Event { "event" } else { "processing" };
                    self.add(timers(domain), key, &time.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, part: String, key: &[u8], bytes: &[u8]) {
        let hash = self.parts.entry(part).or_default().entry(key.to_vec()).or_default();
        *hash = xxh3_64(&[&hash.to_le_bytes()[..], bytes].concat());
    }
}

fn compare(of: &str, then: &BTreeMap<Vec<u8>, u64>, now: &BTreeMap<Vec<u8>, u64>, found: &mut Vec<Difference>) {
    let changed = then.iter().filter(|(key, hash)| now.get(*key).is_some_and(|other| other != *hash)).count();
    let removed = then.keys().filter(|key| !now.contains_key(*key)).count();
    let added = now.keys().filter(|key| !then.contains_key(*key)).count();
    if changed + removed + added > 0 {
        found.push(Difference { of: of.to_owned(), what: format!("{added} keys added, {removed} removed, {changed} changed") });
    }
}
