use super::{JOB, check, messages, read};
use crate::spec::plan::{Part, Plan};

#[test]
fn every_part_needs_its_own_uid() {
    check(
        "uid: baskets\n    file",
        "file",
        "job.yaml:3:5: missing field `uid`: every source needs a name of its own that checkpoints keep",
    );
    check("{ uid: out, input", "{ input", "job.yaml:11:5: missing field `uid`: every sink needs a name of its own that checkpoints keep");
    check("uid: out", "uid: lines", "job.yaml:11:12: the uid `lines` is used twice, first at job.yaml:7:10: give each its own");
}

#[test]
fn inputs_must_exist() {
    check("input: baskets", "input: baskts", "job.yaml:8:12: there is no source or operator `baskts`, did you mean `baskets`?");
    check("input: lines", "input: out", "job.yaml:11:24: `out` is a sink, which nothing can read from");
    check("input: baskets", "input: baskets.invald", "job.yaml:8:12: the source `baskets` has no lane `invald`, did you mean `invalid`?");
    check("input: lines", "input: lines.", "job.yaml:11:24: `lines.` names no lane");
    check("input: lines", "input: []", "job.yaml:11:24: `input`: the list is empty; name at least one source or operator");
    check(
        "input: lines",
        "input: [lines, lines.main]",
        "job.yaml:11:32: `input`: `lines.main` is named twice, so that each of its records would come in twice",
    );
    check("    input: baskets\n", "", "job.yaml:7:5: missing field `input`: the source or operator, or UID.LANE, that the operator reads");
}

#[test]
fn cycles_are_named() {
    let more = "\noperators:\n  - { uid: first, input: [baskets, third], component: a.wasm }\n  - { uid: second, input: first, component: a.wasm }\n  - { uid: third, input: second, component: a.wasm }\n  - uid: lines";
    check("\noperators:\n  - uid: lines", more, "job.yaml:7:36: operators feed each other in a circle: first -> second -> third -> first");
    check("input: baskets", "input: [baskets, lines]", "job.yaml:8:22: operators feed each other in a circle: lines -> lines");
}

#[test]
fn sources_need_an_operator() {
    let source = "sources:\n  - uid: other\n    file: { path: x, format: csv }\n";
    check("sources:\n", source, "job.yaml:3:10: nothing reads the source `other`: name it as an input, or remove it");
    let text = JOB.replace("sources:\n", source).replace("input: lines", "input: [lines, other]");
    assert_eq!(messages(&text), "job.yaml:3:10: no operator reads the source `other`, so that the type of its records is not known");
    check(
        "sources:\n",
        "sourcs:\n",
        "job.yaml:1:1: missing field `sources`: where records come from\njob.yaml:2:1: unknown field `sourcs`, did you mean `sources`?\njob.yaml:8:12: there is no source or operator `baskets`; known: lines",
    );
}

#[test]
fn sinks_do_not_share_a_folder() {
    let sinks = "sinks:\n  - { uid: other, input: lines, file: { path: ./x/../out/lines, format: csv } }\n";
    check("sinks:\n", sinks, "job.yaml:12:45: the sinks `other` and `out` write to the same folder: give each its own");
}

#[test]
fn nodes_are_in_the_order_of_the_records() {
    let text = "\
name: a
sources:
  - { uid: s, file: { path: s, format: json } }
operators:
  - { uid: last, input: [first.side, middle], key_by: k, component: a.wasm }
  - { uid: middle, input: first, component: a.wasm }
  - { uid: first, input: s, component: a.wasm }
sinks:
  - { uid: bad, input: s.invalid, file: { path: bad, format: json } }
  - { uid: out, input: last, file: { path: out, format: json } }
";
    let plan = Plan::of(&read(text, &[]).unwrap()).unwrap();
    let uids: Vec<&str> = plan.nodes.iter().map(|node| &*node.uid).collect();
    assert_eq!(uids, ["s", "first", "middle", "last", "bad", "out"]);
    assert_eq!(plan.nodes[3].part, Part::Operator(0));
    let edges: Vec<_> = plan.edges.iter().map(|edge| (edge.from, &*edge.lane, edge.to, edge.keyed)).collect();
    let expected = [
        (0, "main", 1, false),
        (1, "main", 2, false),
        (1, "side", 3, true),
        (2, "main", 3, true),
        (0, "invalid", 4, false),
        (3, "main", 5, false),
    ];
    assert_eq!(edges, expected);
    assert_eq!(plan.inputs(3).count(), 2);
    assert_eq!(plan.outputs(0).count(), 2);
    assert_eq!(plan.warnings, []);
}

#[test]
fn broadcast_streams_are_edges_of_their_own() {
    let text = JOB
        .replace("sources:\n", "sources:\n  - { uid: rules, file: { path: rules.csv, format: csv } }\n")
        .replace("input: baskets", "input: baskets\n    key_by: k\n    broadcast: rules");
    let plan = Plan::of(&read(&text, &[]).unwrap()).unwrap();
    let edges: Vec<_> = plan.inputs(2).map(|edge| (&*plan.nodes[edge.from].uid, edge.keyed, edge.broadcast)).collect();
    assert_eq!(edges, [("baskets", true, false), ("rules", false, true)]);
    let broadcast = |to: &str, expected: &str| check("input: baskets", &format!("input: baskets\n    broadcast: {to}"), expected);
    broadcast("bskets", "job.yaml:9:16: there is no source or operator `bskets`, did you mean `baskets`?");
    broadcast("lines", "job.yaml:9:16: operators feed each other in a circle: lines -> lines");
    broadcast("[]", "job.yaml:9:16: `broadcast`: the list is empty; name at least one source or operator");
    broadcast(
        "[baskets, baskets]",
        "job.yaml:9:26: `broadcast`: `baskets` is named twice, so that each of its records would come in twice",
    );
}

#[test]
fn what_is_probably_not_meant_is_warned_of() {
    let warnings = |text: &str| {
        let plan = Plan::of(&read(text, &[]).unwrap()).unwrap();
        let others = plan.warnings.iter().filter(|warning| !warning.message.contains("`baskets.invalid`"));
        others.map(|warning| format!("{}: {}", warning.at.within("job.yaml"), warning.message)).collect::<Vec<_>>()
    };
    let sinkless = JOB.split("sinks:").next().unwrap();
    assert_eq!(warnings(sinkless), ["job.yaml: the job has no sinks: its output goes nowhere"]);
    let lossy = JOB.replace("component: b", "on_error: dead-letter\n    component: b");
    assert_eq!(warnings(&lossy), ["job.yaml:7:10: nothing reads `lines.dead-letter`: records that its component cannot handle are lost"]);
    let empty = JOB.replace("input: lines", "input: [lines, lines.dead-letter]");
    assert_eq!(warnings(&empty), ["job.yaml:7:10: `lines.dead-letter` stays empty: the operator has on_error: fail"]);
    let unread = JOB.replace("input: lines", "input: baskets");
    assert_eq!(warnings(&unread), ["job.yaml:7:10: nothing reads the operator `lines`: its output goes nowhere"]);
}

#[test]
fn records_that_do_not_fit_and_that_nobody_reads_are_warned_of() {
    let warnings = |more: &str, sink: &str| {
        let text = JOB.replace("sources:\n", &format!("sources:\n  - {{ uid: web, file: {{ path: web.jsonl, format: json }}{more} }}\n"));
        let text = text.replace("input: lines", &format!("input: [lines, {sink}]")).replace("input: baskets", "input: [baskets, web]");
        let plan = Plan::of(&read(&text, &[]).unwrap()).unwrap();
        plan.warnings.iter().map(|warning| warning.message.clone()).filter(|text| text.contains("`web.invalid`")).collect::<Vec<_>>()
    };
    let [ends] = &*warnings("", "baskets.invalid") else { panic!() };
    assert!(ends.starts_with("nothing reads `web.invalid`, so the first record that does not fit will end the job"), "{ends}");
    let dropped = ["nothing reads `web.invalid`: records that do not fit are dropped and only counted"];
    assert_eq!(warnings(", on_invalid: lane", "baskets.invalid"), dropped);
    assert_eq!(warnings(", max_invalid: 9", "baskets.invalid"), dropped);
    assert_eq!(warnings(", on_invalid: fail", "baskets.invalid"), Vec::<String>::new());
    assert_eq!(warnings(", max_invalid: 9", "web.invalid"), Vec::<String>::new());
    assert_eq!(warnings("", "web.invalid"), Vec::<String>::new());
    assert_eq!(warnings(", on_invalid: fail", "web.invalid"), ["`web.invalid` stays empty: the source has on_invalid: fail"]);
}
