use super::{JOB, check, check_added, messages, read};
use crate::spec::job::SourceConnector;

#[test]
fn puts_variables_into_strings() {
    let text = JOB.replace("data/*.jsonl", "${DATA}/*.jsonl").replace("sources:", "parallelism: ${WORKERS}\nsources:");
    let spec = read(&text, &[]).unwrap();
    let SourceConnector::File(file) = &spec.sources[0].connector;
    assert_eq!((&*file.pattern.value, spec.parallelism), ("/srv/data/*.jsonl", 3));

    let parameters = "component: a.wasm\n    parameters: { a: \"${WORKERS}\", b: \"$${X} ${DATA}$\", c: $5 }";
    let spec = read(&JOB.replace("component: basket_lines.wasm", parameters), &[]).unwrap();
    assert_eq!(spec.operators[0].parameters.value, serde_json::json!({ "a": "3", "b": "${X} /srv/data$", "c": "$5" }));
}

#[test]
fn names_the_variable_that_is_not_set() {
    check_added("data_dir: ${NOWHERE}/x", "job.yaml:2:11: the environment variable `NOWHERE` is not set");
    check_added("data_dir: \"${DATA\"", "job.yaml:2:11: `${DATA` has no closing brace");
    check_added("data_dir: ${1}", "job.yaml:2:11: `${1}` does not name an environment variable; write `$${` for a literal `${`");
}

#[test]
fn overrides_values() {
    let changes = [
        "parallelism=3",
        "sources.baskets.max_rate=5000",
        "sources.0.file.path=other/*.jsonl",
        "operators.lines.parameters.confirm=10m",
        "operators.lines.key_by=[a, b]",
        "name=new",
    ];
    let spec = read(JOB, &changes).unwrap();
    let SourceConnector::File(file) = &spec.sources[0].connector;
    assert_eq!((spec.parallelism, &*spec.name, spec.sources[0].max_rate), (3, "new", Some(5000)));
    assert_eq!(file.pattern.value, "/jobs/other/*.jsonl");
    assert_eq!(spec.operators[0].parameters.value, serde_json::json!({ "confirm": "10m" }));
    assert_eq!(spec.operators[0].key_by.as_ref().unwrap().value.len(), 2);
}

#[test]
fn an_override_without_a_value_removes_the_field() {
    let spec = read(JOB, &["sources.baskets.timestamp="]).unwrap();
    assert_eq!(spec.sources[0].timestamp, None);
}

#[test]
fn errors_name_the_override() {
    for (change, expected) in [
        ("parallelism", "--set parallelism: write it as path=value, such as parallelism=2"),
        ("a..b=1", "--set a..b=1: the path `a..b` has an empty part"),
        ("parallelism=x", "--set parallelism=x: `parallelism`: must be a whole number of at least 1, not `x`"),
        ("paralelism=2", "--set paralelism=2: unknown field `paralelism`, did you mean `parallelism`?"),
        ("sources.basket.max_rate=1", "--set sources.basket.max_rate=1: `sources` has no item with uid `basket`, did you mean `baskets`?"),
        ("sources.7.max_rate=1", "--set sources.7.max_rate=1: `sources` has no item with uid `7`; known: baskets"),
        ("name.first=1", "--set name.first=1: `name` is a string, so that `first` cannot be set in it"),
        ("sources.baskets.max_rat=1", "--set sources.baskets.max_rat=1: unknown field `max_rat`, did you mean `max_rate`?"),
        (
            "operators.lines.input=basket",
            "--set operators.lines.input=basket: there is no source or operator `basket`, did you mean `baskets`?",
        ),
    ] {
        let error = read(JOB, &[change]).unwrap_err();
        assert_eq!(error.to_string().lines().next().unwrap_or_default(), expected);
    }
    assert!(
        read(JOB, &["operators.lines.key_by=[a"]).unwrap_err().to_string().starts_with("--set operators.lines.key_by=[a: not valid YAML: ")
    );
}

#[test]
fn relative_paths_may_hold_pattern_characters() {
    check("data/*.jsonl", "a", "nothing is wrong");
    let base = std::path::Path::new("/jobs [1]");
    let text = crate::spec::Text { text: JOB, file: "job.yaml", base };
    let spec = crate::spec::parse(&text, &[], &|_| None).unwrap();
    let SourceConnector::File(file) = &spec.sources[0].connector;
    assert!(glob::Pattern::new(&file.pattern.value).unwrap().matches("/jobs [1]/data/a.jsonl"));
    assert_eq!(messages(JOB), "nothing is wrong");
}
