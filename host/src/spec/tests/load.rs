use std::fs;
use std::path::Path;

use super::JOB;
use crate::spec::job::SourceConnector;
use crate::spec::load;

fn message(path: &Path, folder: &Path) -> String {
    load(path, &[]).unwrap_err().to_string().replace(&folder.display().to_string(), "DIR")
}

#[test]
fn files_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.yaml");
    assert_eq!(message(&path, folder.path()), "DIR/job.yaml: cannot read the job spec: No such file or directory (os error 2)");

    assert_eq!(message(Path::new("/dev/zero"), folder.path()), "/dev/zero: the job spec is not a regular file");
    assert_eq!(message(folder.path(), folder.path()), "DIR: the job spec is not a regular file");
    fs::write(&path, "#".repeat((4 << 20) + 1)).unwrap();
    assert_eq!(message(&path, folder.path()), "DIR/job.yaml: the job spec has more than 4 MiB: put long tables into files of their own");

    fs::write(&path, b"name: \xff\n").unwrap();
    assert_eq!(message(&path, folder.path()), "DIR/job.yaml: the job spec is not UTF-8 at byte 6");

    let table = "component: basket_lines.wasm\n    tables: { t: { path: t.csv, key: k } }";
    fs::write(&path, JOB.replace("component: basket_lines.wasm", table)).unwrap();
    fs::create_dir(folder.path().join("basket_lines.wasm")).unwrap();
    let expected = "\
DIR/job.yaml:9:16: the component `DIR/basket_lines.wasm` is not a file
DIR/job.yaml:10:26: cannot find the reference table `DIR/t.csv`: No such file or directory (os error 2)";
    assert_eq!(message(&path, folder.path()), expected);
}

#[test]
fn paths_start_from_the_folder_of_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.yaml");
    fs::write(&path, JOB).unwrap();
    fs::write(folder.path().join("basket_lines.wasm"), "").unwrap();
    let spec = load(&path, &["parallelism=2".to_owned()]).unwrap();
    let SourceConnector::File(file) = &spec.sources[0].connector;
    assert_eq!(Path::new(&file.pattern.value), folder.path().join("data/*.jsonl"));
    assert_eq!((spec.operators[0].component.value.clone(), spec.parallelism), (folder.path().join("basket_lines.wasm"), 2));
}
