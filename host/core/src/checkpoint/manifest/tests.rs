use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};
use tidemill_wit::schema::{Type, TypeTable};

use super::{FORMAT, Manifest, OperatorEntry, SinkEntry, SourceEntry, StateFile, trailer};
use crate::Kind;
use crate::sink::Committable;
use crate::source::Split;

fn states() -> Vec<StateDescriptor> {
    let state = |name: &str, kind, entry_key| StateDescriptor {
        name: name.to_owned(),
        kind,
        value: TypeTable::of(Type::I64),
        entry_key,
        ttl: Some(5),
        ttl_update: TtlUpdate::OnReadAndWrite,
    };
    vec![
        state("level", StateKind::Value, None),
        StateDescriptor {
            ttl: None,
            ttl_update: TtlUpdate::OnCreateAndWrite,
            ..state("pending", StateKind::Map, Some(TypeTable::of(Type::String)))
        },
    ]
}

fn manifest() -> Manifest {
    Manifest {
        format: FORMAT,
        job: "stock-out \"day\"".to_owned(),
        checkpoint: 7,
        incarnation: 1,
        parallelism: 2,
        max_parallelism: 128,
        created: 1_786_000_000_000,
        end_of_input: true,
        states: vec![StateFile { name: "worker-0.state".to_owned(), worker: 0, bytes: 9, checksum: "ab".to_owned(), base: None }],
        sources: vec![SourceEntry {
            uid: "pos".to_owned(),
            splits: vec![Split { id: 0, name: "/data/pös-0.jsonl".to_owned(), position: u64::MAX, finished: true }],
        }],
        sinks: vec![SinkEntry {
            uid: "alerts".to_owned(),
            committables: vec![Committable { subtask: 1, payload: "{\"a\":1}".to_owned() }],
        }],
        operators: vec![OperatorEntry::new("stock", "sha", Some(&TypeTable::of(Type::String)), &states())],
    }
}

#[test]
fn a_manifest_comes_back_with_its_types() {
    let bytes = manifest().to_bytes().unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains("\n  \"checkpoint\": 7,\n") && text.contains("\"kind\": \"map\""), "{text}");
    let found = Manifest::from_bytes(&bytes).unwrap();
    assert_eq!(found, manifest());
    assert_eq!(found.operators[0].descriptors().unwrap(), states());
    assert_eq!(found.operators[0].key_type().unwrap(), Some(TypeTable::of(Type::String)));
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let bytes = manifest().to_bytes().unwrap();
    for cut in 0..bytes.len() {
        assert_eq!(Manifest::from_bytes(&bytes[..cut]).unwrap_err().kind(), Kind::Corrupt, "cut at {cut}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Manifest::from_bytes(&flipped).unwrap_err().kind(), Kind::Corrupt, "bit {bit}");
    }
    let twice = [&bytes[..], &bytes[..]].concat();
    assert_eq!(Manifest::from_bytes(&twice).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn a_newer_format_and_wrong_types_are_named() {
    let mut body = b"{\"format\": 2}\n".to_vec();
    body.extend_from_slice(trailer(&body.clone()).as_bytes());
    let error = Manifest::from_bytes(&body).unwrap_err();
    assert!(error.kind() == Kind::Config && error.chain().contains("has the format 2, this program reads the format 1"), "{error}");

    let mut wrong = manifest();
    for (text, expected) in [("zz", "not hexadecimal"), ("0", "not hexadecimal"), ("ffffff", "cannot be read")] {
        wrong.operators[0].states[1].value = text.to_owned();
        let error = wrong.operators[0].descriptors().unwrap_err().chain();
        assert!(error.contains("operator `stock`: the type of state `pending`") && error.contains(expected), "{error}");
    }
    wrong.operators[0].states[0].kind = "heap".to_owned();
    assert!(wrong.operators[0].descriptors().unwrap_err().chain().contains("state `level` has the unknown kind `heap`"));
}
