//! The component: the contract's exports.

use std::cell::RefCell;

use tidemill_wit::columns::Blobs;
use tidemill_wit::schema::{Type, TypeTable};

use self::bindings::exports::tidemill::process::detector::{Context, Descriptor, Elements, Failure, Guest, Timers};
use self::bindings::tidemill::process::{collector, types};
use crate::attack::{Answer, Parameters};
use crate::tables;

#[expect(clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/wit",
        world: "keyed-process-function",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

thread_local! {
    static PARAMETERS: RefCell<Parameters> = RefCell::default();
}

struct Hostile;

impl Guest for Hostile {
    fn describe() -> Descriptor {
        let record = tables::record().to_bytes();
        let state = types::StateDescriptor {
            name: "seen".to_owned(),
            kind: 0,
            schema: TypeTable::of(Type::I64).to_bytes(),
            key_schema: Vec::new(),
            ttl: 0,
            ttl_update: 0,
        };
        Descriptor {
            name: "hostile".to_owned(),
            version: "1".to_owned(),
            encoding: "postcard".to_owned(),
            input: record.clone(),
            key: TypeTable::of(Type::String).to_bytes(),
            parameters: tables::parameters().to_bytes(),
            states: vec![state],
            lanes: vec![types::LaneDescriptor { name: "main".to_owned(), schema: record }],
            tables: Vec::new(),
            broadcast: Vec::new(),
            broadcast_states: Vec::new(),
        }
    }

    fn open(parameters: Vec<u8>) -> Result<(), String> {
        let parameters = postcard::from_bytes(&parameters).map_err(|error| error.to_string())?;
        PARAMETERS.set(parameters);
        Ok(())
    }

    fn process_elements(_: Context, elements: Elements) -> Result<u32, Failure> {
        let payload = Blobs { bytes: &elements.payload.bytes, ends: &elements.payload.ends };
        let rows = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut answer = Answer {
            lane: vec![0; payload.len()],
            row: (0..rows).collect(),
            timestamp: elements.timestamp.clone(),
            consumed: rows,
            ..Answer::default()
        };
        payload.iter().for_each(|record| answer.payload.push(record));
        PARAMETERS.with_borrow(|parameters| {
            // A record is its key's text.
            let chosen = |record| postcard::from_bytes::<&str>(record).is_ok_and(|key| key == parameters.only);
            if parameters.only.is_empty() || payload.iter().any(chosen) {
                parameters.attack.spoil(&mut answer);
            }
        });
        emit(&answer);
        Ok(answer.consumed)
    }

    fn on_timers(_: Context, timers: Timers) -> Result<u32, Failure> {
        emit(&Answer::default());
        Ok(u32::try_from(timers.slot.len()).unwrap_or(u32::MAX))
    }

    fn process_broadcast_elements(_: Context, _: Elements) -> Result<u32, Failure> {
        Err(Failure::Fatal("there is no broadcast input".to_owned()))
    }
}

fn emit(answer: &Answer) {
    let slot: Vec<u32> = answer.write_slot.into_iter().collect();
    // An i64 of postcard.
    let (state, value, ends): (&[u8], &[u8], &[u32]) = if slot.is_empty() { (&[], &[], &[]) } else { (&[0], &[2], &[1]) };
    let entry_ends: &[u32] = if slot.is_empty() { &[] } else { &[0] };
    collector::emit(types::Effects {
        writes: types::Writes {
            op: answer.write_op(),
            state,
            slot: &slot,
            entry: types::BlobsParam { bytes: &[], ends: entry_ends },
            value: types::BlobsParam { bytes: value, ends },
        },
        timers: types::TimerOps { op: &[], domain: &[], slot: &[], timestamp: &[] },
        outputs: types::Outputs {
            lane: &answer.lane,
            row: &answer.row,
            timestamp: &answer.timestamp,
            timed: &[],
            payload: types::BlobsParam { bytes: &answer.payload.bytes, ends: &answer.payload.ends },
        },
    });
}

bindings::export!(Hostile with_types_in bindings);
