//! Large specs: what costs the square of their size would take minutes here.

use std::fmt::Write;

use super::{JOB, messages, read};

/// Nearly as many as a document may have: it may have 250,000 values, keys included.
const MANY: usize = 100_000;

fn lines(count: usize, mut line: impl FnMut(usize, &mut String)) -> String {
    let mut text = String::new();
    (0..count).for_each(|index| line(index, &mut text));
    text
}

#[test]
fn many_parameters_rows_and_names() {
    let count = 30_000;
    let parameters = lines(count, |index, text| writeln!(text, "      key{index}: {index}").unwrap());
    let names = lines(count, |index, text| write!(text, "f{index}, ").unwrap());
    let rows = lines(count, |index, text| writeln!(text, "          - {{ id: {index} }}").unwrap());
    let spec = read(
        &format!(
            "{}    key_by: [{names}]\n    parameters:\n{parameters}    tables:\n      t:\n        key: id\n        rows:\n{rows}{}",
            &JOB[..JOB.find("sinks:").unwrap()],
            &JOB[JOB.find("sinks:").unwrap()..]
        ),
        &[],
    );
    let operator = &spec.unwrap().operators[0];
    assert_eq!((operator.parameters.fields.len(), operator.key_by.as_ref().unwrap().value.len()), (count, count));
}

#[test]
fn many_operators_in_a_row_and_in_a_circle() {
    let operator = |index: usize, input: usize, text: &mut String| {
        writeln!(text, "  - {{ uid: o{index}, input: o{input}, component: c.wasm }}").unwrap();
    };
    let count = 20_000;
    let with = |first: &str, last: usize| {
        let chain = lines(count, |index, text| {
            if index > 0 {
                operator(index, index - 1, text);
            }
        });
        format!(
            "{}  - {{ uid: o0, input: [{first}], component: c.wasm }}\n{chain}{}",
            &JOB[..JOB.find("sinks:").unwrap()],
            JOB[JOB.find("sinks:").unwrap()..].replace("input: lines", &format!("input: [lines, o{last}]"))
        )
    };
    assert_eq!(read(&with("baskets", count - 1), &[]).unwrap().operators.len(), count + 1);
    let circle = messages(&with(&format!("baskets, o{}", count - 1), count - 1));
    assert!(circle.contains("operators feed each other in a circle: o0 -> o1 -> "), "{}", &circle[..200]);
}

#[test]
fn a_document_may_not_be_larger_than_that() {
    let fields = lines(3 * MANY, |index, text| writeln!(text, "  f{index}: 1").unwrap());
    let told = messages(&format!("{JOB}x:\n{fields}"));
    assert!(
        told.ends_with(
            "not valid YAML: it has more values than are read (Nodes { nodes: 250001 }): put long tables into files of their own"
        ),
        "{told}"
    );
}

#[test]
fn many_errors_are_counted_and_not_all_told() {
    let fields = lines(MANY, |index, text| writeln!(text, "field{index}: 1").unwrap());
    let told = messages(&format!("{fields}{JOB}"));
    assert_eq!(told.lines().count(), 101);
    assert!(told.starts_with("job.yaml:1:1: unknown field `field0`; known: "), "{told}");
    assert!(told.ends_with("\njob.yaml: there are 99900 more errors"), "{told}");
    let inputs = lines(MANY, |index, text| write!(text, "nobody{index}, ").unwrap());
    let told = messages(&JOB.replace("input: baskets", &format!("input: [baskets, {inputs}]")));
    assert!(told.contains("there is no source or operator `nobody0`; known: baskets, lines") && told.lines().count() == 101, "{told}");
    let twice = lines(MANY, |_, text| writeln!(text, "  a: 1").unwrap());
    let told = messages(&format!("x:\n{twice}{JOB}"));
    assert!(told.contains("job.yaml:3:3: the field `a` is given twice, first at job.yaml:2:3"), "{told}");
}
