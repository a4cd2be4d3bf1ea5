//! What is refused before it runs, and the cache.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use tidemill_core::Kind;
use tidemill_core::detector::DetectorFactory;

use super::super::component::code_size;
use super::super::{ComponentCache, GuestEngine, GuestFactory};
use super::wat::{ANSWER, Guest, embedded};
use super::{Call, LIMITS, engine};

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = engine().load("bad.wasm", bytes, None).unwrap_err();
    let text = error.chain();
    assert!(text.starts_with("component bad.wasm ") && text.contains(expected) && !text.contains('\n'), "{text}");
    assert_eq!(error.kind(), Kind::Config);
}

fn component(text: &str) -> Vec<u8> {
    ::wat::parse_str(text).unwrap()
}

#[test]
fn what_is_no_guest_is_refused_in_one_sentence() {
    refused(b"", "is empty");
    refused(b"(module)", "is not WebAssembly");
    refused(b"\0asm", "is cut short");
    refused(b"\0asm\x07\0\0\0", "is not valid WebAssembly");
    refused(&component("(module)"), "has no component type");
    refused(&component("(component)"), "exports no detector: export one with tidemill_sdk::export!(YourDetector)");
    refused(&embedded("(module (memory (export \"memory\") 1))", "keyed-process-function"), "does not fit its component type");
    refused(&component("(module (func (result i32)))"), "is not valid WebAssembly: type mismatch");
}

#[test]
fn imports_that_are_not_offered_are_refused_by_name() {
    let with = |import: &str| Guest { items: import.to_owned(), ..Guest::default() }.build();
    refused(&with(r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32)))"#), "imports wasi_snapshot_preview1.fd_write, which");
    refused(&with(r#"(import "env" "log" (func))"#), "imports env.log, which Tidemill does not offer");
    let wasi = r#"(component (import "wasi:cli/stdin@0.2.0" (instance (export "get" (func (result u32))))))"#;
    refused(&component(wasi), "imports wasi:cli/stdin@0.2.0, which Tidemill does not offer");
    refused(&component(r#"(component (import "tidemill:process/files@0.1.0" (instance)))"#), "imports tidemill:process/files@0.1.0");
}

#[test]
fn a_contract_of_another_shape_is_refused() {
    let exports = r#"(core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (export "describe" (func $f)) (export "open" (func $f))
        (export "process-elements" (func $f)) (export "on-timers" (func $f))
        (export "process-broadcast-elements" (func $f))"#;
    refused(
        &component(&format!("(component {exports})")),
        "does not fit the contract tidemill:process: type-checking export func `describe`",
    );
    let import = r#"(import "tidemill:process/telemetry@0.1.0" (instance (export "log" (func))))"#;
    refused(&component(&format!("(component {import} {exports})")), "does not fit the contract");
    let newer = r#"(import "tidemill:process/telemetry@0.2.0" (instance (export "log" (func))))"#;
    refused(&component(&format!("(component {newer} {exports})")), "tidemill:process/telemetry@0.2.0");
}

#[test]
fn a_bad_description_is_refused() {
    let describe = |body: &str| Guest { describe: body.to_owned(), ..Guest::default() }.build();
    refused(&describe("unreachable"), "failed to describe itself: the guest stopped itself");
    refused(&describe(&format!("(i32.const {ANSWER})")), "describes itself wrongly: its encoding is \"\"");
    refused(&describe("(i32.const 262140)"), "failed to describe itself: the guest broke the contract");
    refused(&Guest { states: vec![7], ..Guest::default() }.build(), "the state \"s0\" is of unknown kind 7");
}

#[test]
fn a_component_is_taken_as_it_is() {
    let module = Guest::default().build();
    let encoded = wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap();
    let (from_module, from_component) = (engine().load("m", &module, None).unwrap(), engine().load("c", &encoded, None).unwrap());
    assert_eq!(from_module.descriptor(), from_component.descriptor());
    assert_eq!((from_component.name(), from_component.size(), from_component.digest().len()), ("c", encoded.len(), 64));
    assert_ne!(from_module.digest(), from_component.digest());
}

#[test]
fn no_damage_panics() {
    let module = Guest::default().build();
    for end in (0..module.len()).step_by(7) {
        assert!(engine().load("cut", &module[..end], None).is_err(), "cut at {end}");
    }
    let encoded = wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap();
    for whole in [module, encoded] {
        for at in (0..whole.len()).step_by(whole.len() / 150) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x15;
            // A flip in a name or in data may well leave a guest that loads: what counts is an answer.
            if let Err(error) = engine().load("flipped", &flipped, None) {
                assert!(error.chain().starts_with("component flipped "), "{}", error.chain());
            }
        }
    }
}

/// The encoder would follow them until the process dies.
#[test]
fn packages_that_depend_on_each_other_are_refused() {
    let mut module = Guest::default().build();
    let name = b"tidemill:process/collector@";
    let at = module.windows(name.len()).position(|bytes| bytes == name).unwrap();
    module[at + 7] = b'b';
    refused(&module, "the package \"tidemilb:process\" depends on itself");
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn the_cache_gives_back_what_it_was_given_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ComponentCache::open(&dir.path().join("compiled")).unwrap();
    let module = Guest::default().build();
    let first = engine().load("first", &module, Some(&cache)).unwrap();
    let file = only_file(&dir.path().join("compiled"));
    let good = fs::read(&file).unwrap();
    assert!(cache.get(engine(), first.digest()).is_some());
    let other = Guest { states: vec![0], ..Guest::default() }.build();
    let other = engine().load("other", &other, None).unwrap();
    assert!(cache.get(engine(), other.digest()).is_none());

    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damaged =
        [vec![], good[..20].to_vec(), good[..good.len() - 1].to_vec(), flipped(3), flipped(50), flipped(100), flipped(good.len() / 2)];
    for bytes in damaged.into_iter().chain([[&good[..], b"x"].concat()]) {
        fs::write(&file, &bytes).unwrap();
        assert!(cache.get(engine(), first.digest()).is_none(), "{} bytes", bytes.len());
        engine().load("again", &module, Some(&cache)).unwrap();
        assert_eq!(only_file(&dir.path().join("compiled")), file);
        assert!(cache.get(engine(), first.digest()).is_some());
    }
    for at in (0..good.len()).step_by(good.len() / 100) {
        for bytes in [flipped(at), good[..at].to_vec()] {
            fs::write(&file, bytes).unwrap();
            assert!(cache.get(engine(), first.digest()).is_none(), "damaged at {at}");
        }
    }
    fs::write(&file, &good).unwrap();
    // The entry of one upload under the name of another.
    fs::rename(&file, file.with_file_name(file.file_name().unwrap().to_str().unwrap().replace(first.digest(), other.digest()))).unwrap();
    assert!(cache.get(engine(), other.digest()).is_none());
}

/// Inlining would take minutes and gigabytes for a large component.
#[test]
fn a_component_with_much_code_runs_on_an_engine_without_inlining() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ComponentCache::open(dir.path()).unwrap();
    // What is behind `unreachable` costs nothing to compile.
    let ballast = "(drop (v128.const i64x2 1 1))".repeat(230_000);
    let large = Guest { items: format!("(func unreachable {ballast})"), ..Guest::default() }.build();
    let encoded = wit_component::ComponentEncoder::default().module(&large).unwrap().encode().unwrap();
    assert!(code_size(&large) > 4 << 20 && code_size(&encoded) == code_size(&large));
    assert!(code_size(&Guest::default().build()) < 1000 && code_size(b"none") == 0);
    let without = engine().for_code(code_size(&large)).unwrap();
    for _ in 0..2 {
        let component = engine().load("large", &large, Some(&cache)).unwrap();
        assert!(cache.get(&without, component.digest()).is_some() && cache.get(engine(), component.digest()).is_none());
        let mut detector = GuestFactory::new(component, LIMITS).unwrap().open(&[]).unwrap();
        assert_eq!(Call::new().elements(&mut *detector), Ok(2));
        only_file(dir.path());
    }
}

/// The checksum of an entry can be computed by anybody.
#[test]
fn an_entry_that_others_may_have_written_is_compiled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ComponentCache::open(&dir.path().join("compiled")).unwrap();
    let module = Guest::default().build();
    let digest = engine().load("guest", &module, Some(&cache)).unwrap().digest().to_owned();
    let file = only_file(&dir.path().join("compiled"));
    let elsewhere = dir.path().join("elsewhere");
    fs::copy(&file, &elsewhere).unwrap();
    let plants: [(&str, &dyn Fn() -> bool); 4] = [
        ("group", &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).is_ok()),
        ("others", &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).is_ok()),
        ("link", &|| fs::remove_file(&file).and_then(|()| symlink(&elsewhere, &file)).is_ok()),
        // Only root can give files away.
        ("owner", &|| chown(&file, Some(65_534), None).is_ok()),
    ];
    for (what, plant) in plants {
        if plant() {
            assert!(cache.get(engine(), &digest).is_none(), "{what}");
            engine().load("guest", &module, Some(&cache)).unwrap();
            assert!(cache.get(engine(), &digest).is_some(), "{what}: it is replaced");
        }
    }
    assert!(fs::symlink_metadata(&file).unwrap().is_file() && elsewhere.exists());
    fs::set_permissions(dir.path().join("compiled"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(ComponentCache::open(&dir.path().join("compiled")).unwrap_err().contains("mode 0777"));
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let in_the_way = dir.path().join("file");
    fs::write(&in_the_way, b"").unwrap();
    assert!(ComponentCache::open(&in_the_way).is_err());
    let cache = ComponentCache::open(&dir.path().join("compiled")).unwrap();
    fs::remove_dir(dir.path().join("compiled")).unwrap();
    engine().load("guest", &Guest::default().build(), Some(&cache)).unwrap();
}

#[test]
fn two_may_load_the_same_component_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ComponentCache::open(dir.path()).unwrap();
    let module = Guest::default().build();
    let load = || engine().load("guest", &module, Some(&cache)).unwrap().digest().to_owned();
    let digests: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| digest == &digests[0]));
    assert!(only_file(dir.path()).exists() && cache.get(engine(), &digests[0]).is_some());
}

#[test]
fn engines_of_one_build_share_a_cache() {
    assert_eq!(GuestEngine::new().unwrap().signature(), engine().signature());
}
