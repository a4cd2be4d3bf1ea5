//! Sources and sinks.

use std::path::{Path, PathBuf};

use crate::source::file::{OnGone, OnReplaced};
use crate::spec::Text;
use crate::spec::error::{At, Place, Problems};
use crate::spec::fields::{self, Fields};
use crate::spec::job::{Alignment, FileSink, FileSource, Format, OnInvalid, Sink, SinkConnector, Source, SourceConnector, Watermark};
use crate::spec::tree::Node;

const ON_INVALID: &[(&str, OnInvalid)] = &[("fail", OnInvalid::Fail), ("lane", OnInvalid::Lane)];
const FORMATS: &[(&str, Format)] = &[("json", Format::Json), ("csv", Format::Csv)];

const ON_REPLACED: &[(&str, OnReplaced)] = &[("fail", OnReplaced::Fail), ("begin_again", OnReplaced::BeginAgain)];
const ON_GONE: &[(&str, OnGone)] = &[("fail", OnGone::Fail), ("skip", OnGone::Skip)];

/// The longest record, unless the spec says otherwise.
const MAX_RECORD_BYTES: u64 = 16 << 20;

pub(super) fn source(node: &Node, text: &Text<'_>, problems: &mut Problems) -> Option<Source> {
    let fields =
        Fields::of(node, "a source", &["uid", "file", "max_rate", "timestamp", "watermark", "on_invalid", "max_invalid"], problems)?;
    let file = fields.required("file", "the system that the source reads", problems);
    let timestamp = fields.read("timestamp", fields::text_at, problems);
    let node = fields.get("watermark");
    let watermark = node.map(|node| watermark(node, problems)).unwrap_or_default();
    // A source without event times can be idle all the same, so that it does not hold others back for ever.
    let only_idle = watermark == Watermark { idle_timeout: watermark.idle_timeout, ..Watermark::default() };
    if let (Some(node), None, false) = (node, fields.get("timestamp"), only_idle && watermark.idle_timeout.is_some()) {
        problems.add(&node.at, "`watermark` does nothing without `timestamp`, the field that holds the event time");
    }
    let on_invalid = fields.read("on_invalid", fields::at(fields::choice(ON_INVALID)), problems);
    let max_invalid = fields.read("max_invalid", fields::at(fields::whole(1)), problems);
    if let (Some(At { value: OnInvalid::Fail, .. }), Some(most)) = (&on_invalid, &max_invalid) {
        problems.add(&most.at, "`max_invalid` does nothing with on_invalid: fail, which stands no invalid record; remove one of them");
    }
    Some(Source {
        uid: super::uid(&fields, "source", problems),
        connector: SourceConnector::File(file_source(file, fields.at, text, problems)),
        max_rate: fields.read("max_rate", fields::whole(1), problems),
        timestamp,
        watermark,
        on_invalid,
        max_invalid,
    })
}

fn file_source(node: Option<&Node>, at: &Place, text: &Text<'_>, problems: &mut Problems) -> FileSource {
    let mut file = FileSource {
        pattern: At { value: String::new(), at: at.clone() },
        base: text.base.to_owned(),
        format: Format::Json,
        follow: false,
        max_record_bytes: MAX_RECORD_BYTES,
        on_replaced: OnReplaced::default(),
        on_gone: OnGone::default(),
    };
    let known = ["path", "format", "follow", "max_record_bytes", "on_replaced", "on_gone"];
    let Some(fields) = node.and_then(|node| Fields::of(node, "`file`", &known, problems)) else { return file };
    if let Some(node) = fields.required("path", "the files to read, such as data/*.jsonl", problems)
        && let Some(pattern) = fields::value(node, "path", |node| absolute_pattern(node, text.base), problems)
    {
        file.pattern = At { value: pattern, at: node.at.clone() };
    }
    file.format = format(&fields, problems);
    fields.update("follow", &mut file.follow, fields::boolean, problems);
    fields.update("on_replaced", &mut file.on_replaced, fields::choice(ON_REPLACED), problems);
    fields.update("on_gone", &mut file.on_gone, fields::choice(ON_GONE), problems);
    fields.update("max_record_bytes", &mut file.max_record_bytes, fields::size(1), problems);
    file
}

fn absolute_pattern(node: &Node, base: &Path) -> Result<String, String> {
    let pattern = fields::text(node)?;
    glob::Pattern::new(&pattern).map_err(|error| format!("`{pattern}` is not a file pattern: {}", error.msg))?;
    if Path::new(&pattern).is_absolute() {
        return Ok(pattern);
    }
    let base = base.to_str().ok_or_else(|| format!("the folder `{}` is not UTF-8", base.display()))?;
    Ok(format!("{}/{pattern}", glob::Pattern::escape(base.trim_end_matches('/'))))
}

fn watermark(node: &Node, problems: &mut Problems) -> Watermark {
    let mut watermark = Watermark::default();
    let known = ["bounded_out_of_orderness", "idle_timeout", "align_with", "max_drift"];
    if let Some(fields) = Fields::of(node, "`watermark`", &known, problems) {
        fields.update("bounded_out_of_orderness", &mut watermark.bounded_out_of_orderness, fields::millis(0), problems);
        watermark.idle_timeout = fields.read("idle_timeout", fields::millis(1), problems);
        watermark.alignment = alignment(&fields, problems);
    }
    watermark
}

fn alignment(fields: &Fields<'_>, problems: &mut Problems) -> Option<Alignment> {
    let group = fields.read("align_with", super::name, problems);
    if fields.get("align_with").is_none() {
        if let Some(drift) = fields.get("max_drift") {
            problems
                .add(&drift.at, "`max_drift` does nothing without `align_with`, the name of a group of sources that wait for each other");
        }
        return None;
    }
    let why = "how far the source may be ahead of the slowest one of its group, such as 1m";
    let drift = fields.required("max_drift", why, problems)?;
    let max_drift = fields::value(drift, "max_drift", fields::millis(0), problems)?;
    Some(Alignment { group: group?, max_drift })
}

pub(super) fn sink(node: &Node, text: &Text<'_>, problems: &mut Problems) -> Option<Sink> {
    let fields = Fields::of(node, "a sink", &["uid", "input", "file"], problems)?;
    let file = fields.required("file", "the system that the sink writes to", problems);
    Some(Sink {
        uid: super::uid(&fields, "sink", problems),
        inputs: super::inputs(&fields, "sink", problems),
        connector: SinkConnector::File(file_sink(file, fields.at, text, problems)),
    })
}

fn file_sink(node: Option<&Node>, at: &Place, text: &Text<'_>, problems: &mut Problems) -> FileSink {
    let mut file = FileSink { dir: At { value: PathBuf::new(), at: at.clone() }, format: Format::Json };
    let Some(fields) = node.and_then(|node| Fields::of(node, "`file`", &["path", "format"], problems)) else { return file };
    if let Some(node) = fields.required("path", "the folder to write to", problems)
        && let Some(dir) = fields::value(node, "path", |node| super::path(node, text), problems)
    {
        file.dir = dir;
    }
    file.format = format(&fields, problems);
    file
}

fn format(fields: &Fields<'_>, problems: &mut Problems) -> Format {
    let node = fields.required("format", "how records are written: json or csv", problems);
    node.and_then(|node| fields::value(node, "format", fields::choice(FORMATS), problems)).unwrap_or(Format::Json)
}
