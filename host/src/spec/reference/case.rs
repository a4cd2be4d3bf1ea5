//! Cases.

use super::job::{END_OF_INPUT, STATE_OVERRIDE, TABLE};
use super::{Default, Kind, Object, field};

const BACKEND: Kind = Kind::Choice(&["memory", "rocksdb"]);
const PARAMETERS: Kind = Kind::Record;
const TABLES: Kind = Kind::Named(&Kind::Object(&TABLE));
const STATES: Kind = Kind::Named(&Kind::Object(&STATE_OVERRIDE));
const RECORDS: Kind = Kind::List(&Kind::Object(&EXPECTED));

pub(super) static CASE: Object = Object::new(
    "case",
    "The whole file.",
    &[
        field("name", Kind::Text, Default::Words("the file's name"), "What the case is called.", "late lines"),
        field(
            "component",
            Kind::Text,
            Default::Required,
            "The component: a path from this file, or a name without `/` and `.wasm`.",
            "big_orders",
        ),
        field("key_by", Kind::Some(&Kind::Text), Default::Words("no key"), "As in a job spec.", "[customer]"),
        field("parameters", PARAMETERS, Default::Words("those of the component"), "As in a job spec.", "{ limit: 500 }"),
        field("tables", TABLES, Default::Words("none"), "As in a job spec.", "{ prices: { rows: [{ sku: A }], key: [sku] } }"),
        field("states", STATES, Default::Words("as the component declares"), "As in a job spec.", "{ count: { ttl: 3d } }"),
        field("on_error", Kind::Choice(&["fail", "dead-letter"]), Default::Value("fail"), "As in a job spec.", "dead-letter"),
        field("end_of_input", Kind::Object(&END_OF_INPUT), Default::Words("timers fire"), "As in a job spec.", "{ timers: none }"),
        field("parallelism", Kind::Whole(1), Default::Value("1"), "The number of workers.", "2"),
        field("max_parallelism", Kind::Whole(1), Default::Words("as in a job spec"), "The number of key groups.", "128"),
        field(
            "backends",
            Kind::Some(&BACKEND),
            Default::Words("every backend of the program"),
            "The state backends on which the case must hold.",
            "[memory]",
        ),
        field(
            "batch_rows",
            Kind::Some(&Kind::Whole(1)),
            Default::Value("[1, 3, 1024]"),
            "The batch sizes at which the case must hold, at most 1048576.",
            "[1, 16]",
        ),
        field(
            "steps",
            Kind::List(&Kind::Object(&STEP)),
            Default::Required,
            "What happens and what is expected, in order.",
            "[{ watermark: 10 }]",
        ),
    ],
);

static STEP: Object = Object {
    one_of: true,
    ..Object::new(
        "step",
        "One thing that happens, or is expected.",
        &[
            field("element", Kind::Object(&INPUT), Default::Words("absent"), "A record comes in.", "{ ts: 1, value: { id: 1 } }"),
            field(
                "broadcast",
                Kind::Object(&INPUT),
                Default::Words("absent"),
                "A record comes in for every worker.",
                "{ value: { id: 1 } }",
            ),
            field("watermark", Kind::Time, Default::Words("absent"), "The watermark of the source.", "10"),
            field("processing_time", Kind::Time, Default::Words("absent"), "The clock goes on to this time.", "1000"),
            field("expect", RECORDS, Default::Words("absent"), "All output since the last such step, in this order.", "[{ value: 1 }]"),
            field("expect_unordered", RECORDS, Default::Words("absent"), "The same in any order.", "[{ value: 1 }]"),
            field(
                "expect_error",
                Kind::Text,
                Default::Words("absent"),
                "The step before has failed with an error that contains the text.",
                "does not fit",
            ),
            field("expect_metric", Kind::Named(&Kind::Whole(0)), Default::Words("absent"), "The operator's metrics.", "{ keys: 1 }"),
            field("checkpoint", Kind::Text, Default::Words("absent"), "A checkpoint with this name.", "one"),
            field("crash", Kind::Nothing, Default::Words("absent"), "All memory is lost, and the last checkpoint restored.", "{}"),
            field("savepoint", Kind::Text, Default::Words("absent"), "A savepoint with this name.", "one"),
            field(
                "restore",
                Kind::Object(&RESTORE),
                Default::Words("absent"),
                "A job goes on from a savepoint or checkpoint.",
                "{ from: one }",
            ),
            field(
                "swap",
                Kind::Object(&SWAP),
                Default::Words("absent"),
                "The component is replaced at a barrier.",
                "{ component: big_orders }",
            ),
            field("end", Kind::Nothing, Default::Words("absent"), "The input ends.", "{}"),
        ],
    )
};

static INPUT: Object = Object::new(
    "input record",
    "A record that comes in.",
    &[
        field("ts", Kind::TimeOrNull, Default::Words("no event time"), "Its event time.", "1"),
        field("value", Kind::Value, Default::Required, "The record, as the component's type has it.", "{ id: 1 }"),
    ],
);

static EXPECTED: Object = Object::new(
    "expected record",
    "A record that should come out.",
    &[
        field("lane", Kind::Text, Default::Value("main"), "Its lane.", "late"),
        field("value", Kind::Value, Default::Required, "The record.", "{ id: 1 }"),
        field("ts", Kind::TimeOrNull, Default::Words("not compared"), "Its event time; null: none.", "5"),
    ],
);

static RESTORE: Object = Object::new(
    "restore",
    "What to restore, and what is different then. What it does not name stays as it was.",
    &[
        field("from", Kind::Text, Default::Required, "The name of the savepoint or checkpoint.", "one"),
        field("parallelism", Kind::Whole(1), Default::Words("as before"), "The number of workers.", "2"),
        field("max_parallelism", Kind::Whole(1), Default::Words("as before"), "The number of key groups.", "128"),
        field("backend", BACKEND, Default::Words("as before"), "Where live state is held.", "memory"),
        field("component", Kind::Text, Default::Words("as before"), "The component.", "big_orders"),
        field("parameters", PARAMETERS, Default::Words("as before"), "The component's parameters.", "{ limit: 500 }"),
        field(
            "tables",
            TABLES,
            Default::Words("as before"),
            "The rows of its reference tables.",
            "{ prices: { rows: [{ sku: A }], key: [sku] } }",
        ),
        field("states", STATES, Default::Words("as before"), "Changes to its states.", "{ count: { ttl: 3d } }"),
        field(
            "allow_non_restored_state",
            Kind::Bool,
            Default::Value("false"),
            "Whether state that is not declared any more is dropped.",
            "true",
        ),
    ],
);

static SWAP: Object = Object::new(
    "swap",
    "What replaces the component.",
    &[
        field("component", Kind::Text, Default::Required, "The component.", "big_orders"),
        field("parameters", PARAMETERS, Default::Words("as before"), "Its parameters.", "{ limit: 500 }"),
        field(
            "tables",
            TABLES,
            Default::Words("as before"),
            "The rows of its reference tables.",
            "{ prices: { rows: [{ sku: A }], key: [sku] } }",
        ),
        field("states", STATES, Default::Words("as before"), "Changes to its states.", "{ count: { ttl: 3d } }"),
        field(
            "allow_non_restored_state",
            Kind::Bool,
            Default::Value("false"),
            "Whether state that is not declared any more is dropped.",
            "true",
        ),
    ],
);
