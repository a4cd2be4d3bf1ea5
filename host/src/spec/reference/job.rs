//! Job specs.

use super::{Default, Kind, Object, field};

const KEEP: Kind = Kind::Choice(&["keep", "delete"]);

pub(super) static JOB: Object = Object::new(
    "job",
    "The whole file.",
    &[
        field(
            "name",
            Kind::Name,
            Default::Required,
            "The job's name, at most 100 characters; it is also the name of the job's folder.",
            "big-orders",
        ),
        field(
            "parallelism",
            Kind::Whole(1),
            Default::Value("1"),
            "The number of workers, each a thread, at most 512 and max_parallelism.",
            "4",
        ),
        field(
            "max_parallelism",
            Kind::Whole(1),
            Default::Words("from parallelism: 128 up to 85 workers, then 1.5 times as many, rounded up to a power of two"),
            "The number of key groups, at most 32768: the highest parallelism that the job can ever have. Fixed by the first checkpoint.",
            "256",
        ),
        field("state", Kind::Object(&STATE), Default::Words("in memory"), "Where live state is stored.", "{ backend: memory }"),
        field(
            "checkpoints",
            Kind::Object(&CHECKPOINTS),
            Default::Words("as its fields say"),
            "When checkpoints are taken and how long they are kept.",
            "{ interval: 10s }",
        ),
        field(
            "restart",
            Kind::Object(&RESTART),
            Default::Words("as its fields say"),
            "What happens after a failure.",
            "{ strategy: none }",
        ),
        field(
            "data_dir",
            Kind::Text,
            Default::Words("`--data-dir`, else `tidemill-data` beside the spec"),
            "The folder for checkpoints and local state, relative to the spec.",
            "/var/lib/tidemill",
        ),
        field(
            "sources",
            Kind::List(&Kind::Object(&SOURCE)),
            Default::Required,
            "Where records come from; at least one.",
            "[{ uid: orders, file: { path: \"data/*.jsonl\", format: json } }]",
        ),
        field(
            "operators",
            Kind::List(&Kind::Object(&OPERATOR)),
            Default::Words("none"),
            "What is done with records. Each source is read by at least one.",
            "[{ uid: big-orders, input: orders, component: a.wasm }]",
        ),
        field(
            "sinks",
            Kind::List(&Kind::Object(&SINK)),
            Default::Words("none"),
            "Where records go.",
            "[{ uid: alerts, input: big-orders, file: { path: out, format: json } }]",
        ),
    ],
);

static STATE: Object = Object::new(
    "state",
    "Where live state is stored.",
    &[
        field(
            "backend",
            Kind::Choice(&["memory", "rocksdb"]),
            Default::Required,
            "In the memory of the process, or in RocksDB (in programs that were built with it).",
            "memory",
        ),
        field("memory", Kind::Size(8 << 20), Default::Words("512MiB"), "How much memory RocksDB takes in the whole process.", "1GiB")
            .with("backend: rocksdb"),
    ],
);

static CHECKPOINTS: Object = Object::new(
    "checkpoints",
    "When checkpoints are taken and how long they are kept.",
    &[
        field("interval", Kind::Duration(1), Default::Value("10s"), "From the start of one checkpoint to the start of the next.", "30s"),
        field("timeout", Kind::Duration(1), Default::Value("600s"), "How long a checkpoint may take before it has failed.", "5m"),
        field(
            "min_pause",
            Kind::Duration(0),
            Default::Value("0s"),
            "The least time from the end of one checkpoint to the start of the next.",
            "1s",
        ),
        field(
            "tolerable_failures",
            Kind::Whole(0),
            Default::Value("0"),
            "How many checkpoints may fail in a row before the job fails.",
            "3",
        ),
        field("retain", Kind::Whole(1), Default::Value("1"), "How many completed checkpoints are kept.", "3"),
        field("on_cancel", KEEP, Default::Value("keep"), "What becomes of the checkpoints when the job is stopped.", "delete"),
        field("on_finish", KEEP, Default::Value("keep"), "What becomes of the checkpoints when the job has finished.", "delete"),
    ],
);

static RESTART: Object = Object::new(
    "restart",
    "What follows a failure: the job restarts from its last checkpoint, or fails.",
    &[
        field(
            "strategy",
            Kind::Choice(&["exponential-delay", "fixed-delay", "none"]),
            Default::Value("exponential-delay"),
            "Delays that grow, equal delays, or no restart.",
            "fixed-delay",
        ),
        field("initial", Kind::Duration(1), Default::Value("1s"), "exponential-delay: the first delay.", "2s"),
        field(
            "max",
            Kind::Duration(1),
            Default::Words("60s, or `initial` if that is longer"),
            "exponential-delay: the longest delay.",
            "5m",
        ),
        field(
            "multiplier",
            Kind::Number(1, None),
            Default::Value("1.5"),
            "exponential-delay: by how much each delay is longer than the one before.",
            "2",
        ),
        field(
            "jitter",
            Kind::Number(0, Some(1)),
            Default::Value("0.1"),
            "exponential-delay: the part of a delay by which it varies at random.",
            "0.5",
        ),
        field("delay", Kind::Duration(0), Default::Words("1s"), "fixed-delay: the delay.", "10s").with("strategy: fixed-delay"),
        field(
            "attempts",
            Kind::Whole(1),
            Default::Words("any number"),
            "How many restarts are tried; with exponential-delay in a row.",
            "5",
        ),
    ],
);

static SOURCE: Object = Object::new(
    "source",
    "Where records come from. Its type is what the operators that read it declare. Lanes: `main`, and `invalid` with the records that do not fit the type: `{reason, position, raw}`, with the original bytes in `raw` (in base64 where they are not UTF-8).",
    &[
        field(
            "uid",
            Kind::Name,
            Default::Required,
            "The name by which the job and its checkpoints know it, at most 100 characters, unique in the job.",
            "orders",
        ),
        field("file", Kind::Object(&FILE_SOURCE), Default::Required, "Files to read.", "{ path: \"data/*.jsonl\", format: json }"),
        field(
            "max_rate",
            Kind::Whole(1),
            Default::Words("as fast as they can be processed"),
            "The most records per second, over all workers.",
            "5000",
        ),
        field(
            "timestamp",
            Kind::Text,
            Default::Words("records have no event time"),
            "The path of the integer field with a record's event time, in milliseconds since the epoch. A record without one is invalid.",
            "event.ts",
        ),
        field(
            "watermark",
            Kind::Object(&WATERMARK),
            Default::Words("as its fields say"),
            "How event time follows from timestamps.",
            "{ bounded_out_of_orderness: 1m }",
        )
        .with("timestamp: ts"),
        field(
            "on_invalid",
            Kind::Choice(&["fail", "lane"]),
            Default::Words("lane if something reads the lane `invalid` or `max_invalid` is given, else fail"),
            "What happens to records that do not fit the type of their readers: the first one stops the job, or they go to the lane `invalid`, where they are counted and dropped if nothing reads the lane.",
            "lane",
        ),
        field(
            "max_invalid",
            Kind::Whole(1),
            Default::Words("any number"),
            "How many records may go to the lane `invalid`, over all workers and restarts; the next one stops the job.",
            "1000",
        ),
    ],
);

static FILE_SOURCE: Object = Object::new(
    "file source",
    "Files to read: JSON lines, or CSV with a header line.",
    &[
        field(
            "path",
            Kind::Text,
            Default::Required,
            "A path or a pattern (`*`, `?`, `[..]`, `**`), relative to the spec.",
            "\"data/orders-*.jsonl\"",
        ),
        field("format", Kind::Choice(&["json", "csv"]), Default::Required, "How records are written.", "csv"),
        field(
            "follow",
            Kind::Bool,
            Default::Value("false"),
            "Waits at the end of a file for more records and looks for new files; otherwise the job finishes when all files are read.",
            "true",
        ),
        field("max_record_bytes", Kind::Size(1), Default::Value("16MiB"), "The longest record; a longer one is invalid.", "1MiB"),
        field(
            "on_replaced",
            Kind::Choice(&["fail", "begin_again"]),
            Default::Value("fail"),
            "What happens when a file was overwritten or truncated: the job stops, or the new content is read from its start.",
            "begin_again",
        ),
        field(
            "on_gone",
            Kind::Choice(&["fail", "skip"]),
            Default::Value("fail"),
            "What happens when a file disappears before it was read to its end: the job stops, or the unread rest is skipped.",
            "skip",
        ),
    ],
);

static WATERMARK: Object = Object::new(
    "watermark",
    "How event time follows from timestamps.",
    &[
        field(
            "bounded_out_of_orderness",
            Kind::Duration(0),
            Default::Value("0s"),
            "By how much a record's event time may be behind the newest one of its split.",
            "1m",
        ),
        field(
            "idle_timeout",
            Kind::Duration(1),
            Default::Words("never"),
            "How long a split may have no records before it is idle and no longer holds back the watermark.",
            "30s",
        ),
        field(
            "align_with",
            Kind::Name,
            Default::Words("no group"),
            "The name of a group of sources, none of which reads more than `max_drift` ahead of the slowest.",
            "all",
        )
        .with("max_drift: 1m"),
        field(
            "max_drift",
            Kind::Duration(0),
            Default::Words("required with `align_with`"),
            "How far, in event time, the source may read ahead of the slowest source of its group.",
            "1m",
        )
        .with("align_with: all"),
    ],
);

const INPUT: Kind = Kind::Some(&Kind::Stream);

static OPERATOR: Object = Object::new(
    "operator",
    "A component and what it needs. Lanes: those that the component declares, the first of which is `main`, and `dead-letter` with the records that it cannot handle.",
    &[
        field(
            "uid",
            Kind::Name,
            Default::Required,
            "The name by which the job and its checkpoints know it, at most 100 characters, unique in the job.",
            "big-orders",
        ),
        field(
            "input",
            INPUT,
            Default::Required,
            "The stream that it reads, `UID` or `UID.LANE`, or a list of streams of one type.",
            "orders",
        ),
        field(
            "broadcast",
            INPUT,
            Default::Words("none"),
            "The streams whose records reach every worker, for a component with broadcast state.",
            "orders",
        ),
        field(
            "key_by",
            Kind::Some(&Kind::Text),
            Default::Words("no key"),
            "The fields that make the key, in the order that the component declares; `a.b` is a field of a nested struct.",
            "[customer]",
        ),
        field("component", Kind::Text, Default::Required, "The component's file, relative to the spec.", "target/guests/big_orders.wasm"),
        field(
            "parameters",
            Kind::Record,
            Default::Words("those of the component"),
            "The component's parameters. A duration needs its unit.",
            "{ limit: 500, within: 60s }",
        ),
        field(
            "tables",
            Kind::Named(&Kind::Object(&TABLE)),
            Default::Words("none"),
            "The rows of the component's reference tables, by the tables' names.",
            "{ prices: { path: prices.csv, key: [sku] } }",
        ),
        field(
            "states",
            Kind::Named(&Kind::Object(&STATE_OVERRIDE)),
            Default::Words("as the component declares"),
            "Changes to what the component declares for a state, by the states' names.",
            "{ count: { ttl: 3d } }",
        ),
        field(
            "on_error",
            Kind::Choice(&["fail", "dead-letter"]),
            Default::Value("fail"),
            "What happens to a record that the component cannot handle: the job fails, or the record goes to the lane `dead-letter`.",
            "dead-letter",
        ),
        field(
            "end_of_input",
            Kind::Object(&END_OF_INPUT),
            Default::Words("timers fire"),
            "What happens when all input has ended, or with `stop --drain`.",
            "{ timers: none }",
        ),
        field(
            "limits",
            Kind::Object(&LIMITS),
            Default::Words("as its fields say"),
            "What one instance of the component may use.",
            "{ memory: 64MiB }",
        ),
    ],
);

pub(super) static TABLE: Object = Object::new(
    "table",
    "The rows of a reference table: `path` or `rows`.",
    &[
        field(
            "path",
            Kind::Text,
            Default::Words("required without `rows`"),
            "A CSV file (`.csv`) or a JSON lines file, relative to the spec.",
            "prices.csv",
        )
        .with("key: [sku]"),
        field(
            "rows",
            Kind::List(&Kind::Record),
            Default::Words("required without `path`"),
            "The rows themselves. A duration needs its unit.",
            "[{ sku: A, price: 5 }]",
        )
        .with("key: [sku]"),
        field(
            "key",
            Kind::Some(&Kind::Text),
            Default::Required,
            "The fields of a row that make its key, in the order that the component declares.",
            "[sku]",
        )
        .with("path: prices.csv"),
    ],
);

pub(super) static STATE_OVERRIDE: Object = Object::new(
    "state override",
    "Changes to what a component declares for a state.",
    &[
        field(
            "ttl",
            Kind::Ttl,
            Default::Words("as declared"),
            "How long an entry lives after it was last renewed; `none`: without expiry.",
            "3d",
        ),
        field(
            "ttl_update",
            Kind::Choice(&["on_create_and_write", "on_read_and_write"]),
            Default::Words("as declared"),
            "What renews it.",
            "on_read_and_write",
        ),
    ],
);

pub(super) static END_OF_INPUT: Object = Object::new(
    "end of input",
    "What follows when all input has ended.",
    &[field(
        "timers",
        Kind::Choice(&["fire", "none"]),
        Default::Required,
        "Whether the remaining event-time timers fire, as in Flink, or do not. With `fire`, a timer that always registers another timer keeps the job from finishing.",
        "none",
    )],
);

static LIMITS: Object = Object::new(
    "limits",
    "What one instance of a component, and one call of it, may use.",
    &[
        field("memory", Kind::Size(1 << 20), Default::Value("256MiB"), "The memory of an instance.", "64MiB"),
        field("deadline", Kind::Duration(1_000), Default::Value("10s"), "How long a call may take.", "30s"),
        field("output", Kind::Size(1), Default::Value("64MiB"), "How much a call may pass to the host.", "16MiB"),
        field("table", Kind::Whole(1), Default::Value("100000"), "How many functions a table of the component may hold.", "200000"),
        field("stack", Kind::Size(64 << 10), Default::Value("512KiB"), "The stack of a call, at most 2MiB.", "1MiB"),
    ],
);

static SINK: Object = Object::new(
    "sink",
    "Where records go.",
    &[
        field(
            "uid",
            Kind::Name,
            Default::Required,
            "The name by which the job and its checkpoints know it, at most 100 characters, unique in the job.",
            "alerts",
        ),
        field(
            "input",
            INPUT,
            Default::Required,
            "The stream that it writes, `UID` or `UID.LANE`, or a list of streams of one type.",
            "[big-orders, big-orders.late]",
        ),
        field("file", Kind::Object(&FILE_SINK), Default::Required, "Files to write.", "{ path: out/alerts, format: json }"),
    ],
);

static FILE_SINK: Object = Object::new(
    "file sink",
    "Files to write. What is visible in the folder is what completed checkpoints cover.",
    &[
        field("path", Kind::Text, Default::Required, "The folder, relative to the spec. One running job writes to it.", "out/alerts"),
        field("format", Kind::Choice(&["json", "csv"]), Default::Required, "How records are written.", "csv"),
    ],
);
