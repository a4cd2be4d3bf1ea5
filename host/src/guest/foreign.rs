//! Imports that are none of the contract: which crate brings them, and what to do about it.

/// Crates that bring foreign imports by a feature that is easily overlooked, and how to take them without it.
const CRATES: &[(&str, &str)] = &[
    ("chrono", "chrono = { version = \"0.4\", default-features = false, features = [\"alloc\"] }"),
    ("time", "time without its feature `wasm-bindgen`"),
    ("uuid", "uuid without its features `js`, `v1`, `v4` and `v7`"),
    ("getrandom", "getrandom without its features `js` and `wasm_js`"),
    ("web-time", "no web-time: ctx.current_processing_time() is the clock"),
    ("instant", "no instant: ctx.current_processing_time() is the clock"),
];

/// What the interfaces of WASI that a guest may have asked for are called here.
const WASI: &[(&str, &str)] = &[
    ("clock", "use ctx.current_processing_time()"),
    ("random", "take a seed from the parameters, or a hash of the record"),
    ("fd_write", "write to the log with tidemill_sdk::println! or ctx.log"),
    ("stdout", "write to the log with tidemill_sdk::println! or ctx.log"),
    ("stderr", "write to the log with tidemill_sdk::println! or ctx.log"),
    ("environ", "take settings from the parameters"),
    ("filesystem", "take data from reference tables"),
];

/// Why a component cannot have this import, and what to do. `bytes` are the upload, which may tell what crates it was made of.
pub(super) fn refusal(import: &str, bytes: &[u8]) -> String {
    format!("imports {import}, which Tidemill does not offer: {}", reason(import, bytes))
}

fn reason(import: &str, bytes: &[u8]) -> String {
    if import.starts_with("__wbindgen") || import.starts_with("wbg") {
        let crates: Vec<_> = CRATES.iter().filter(|(name, _)| is_made_of(bytes, name)).collect();
        return match &*crates {
            [] => {
                "a crate in it uses wasm-bindgen, the bindings to JavaScript, as chrono does by its default features; `cargo tree --target \
                   wasm32-unknown-unknown -i wasm-bindgen` names it, take it without that feature"
                    .to_owned()
            }
            crates => {
                let names: Vec<_> = crates.iter().map(|(name, _)| *name).collect();
                let cures: Vec<_> = crates.iter().map(|(_, cure)| *cure).collect();
                format!(
                    "it is wasm-bindgen's, the bindings to JavaScript, which comes in by {}: write {}; `cargo tree --target \
                     wasm32-unknown-unknown -i wasm-bindgen` shows who else uses it",
                    names.join(" or "),
                    cures.join(", and ")
                )
            }
        };
    }
    if import.contains("getrandom") {
        return "getrandom asks for random bytes, which guests do not have, since a batch must be repeatable: `cargo tree --target \
                wasm32-unknown-unknown -i getrandom` shows which crate uses it (rand by default, ahash, uuid with `v4`); take it without, and \
                a seed from the parameters"
            .to_owned();
    }
    if import.starts_with("wasi") {
        let advice = WASI.iter().find(|(part, _)| import.contains(part)).map_or_else(String::new, |(_, advice)| format!("; {advice}"));
        return format!("it was built for a target with WASI: build it for wasm32-unknown-unknown with `tidemill build`{advice}");
    }
    if let Some(symbol) = import.strip_prefix("env.") {
        return format!(
            "the function `{symbol}` is declared in an `extern` block or a C library that is not in it; guests have no files, network, clock or \
             environment: take what needs it out"
        );
    }
    "guests have no files, network, clock or environment: build it for wasm32-unknown-unknown with the Tidemill SDK".to_owned()
}

/// Whether an upload has functions of a crate, by its names or by the paths in its panic messages.
fn is_made_of(bytes: &[u8], name: &str) -> bool {
    let module = name.replace('-', "_");
    let mangled = format!("{}{module}", module.len());
    let path = format!("/{name}-");
    let holds = |needle: &str, follows: fn(u8) -> bool| {
        let needle = needle.as_bytes();
        bytes.windows(needle.len() + 1).any(|window| window.starts_with(needle) && window.last().is_some_and(|byte| follows(*byte)))
    };
    holds(&path, |byte| byte.is_ascii_digit()) || holds(&mangled, |byte| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn imports_of_crates_are_told_with_their_cure() {
        for (import, bytes, expected) in [
            ("__wbindgen_placeholder__.__wbindgen_describe", &b"_ZN6chrono6offset3utc17h"[..], "by chrono: write chrono = { version"),
            ("__wbindgen_externref_xform__.x", b"/registry/src/index/uuid-1.8.0/src/lib.rs", "by uuid: write uuid without"),
            ("wbg.__wbg_now", b"16chronology", "as chrono does by its default features"),
            ("env.__getrandom_v03_custom", b"", "getrandom asks for random bytes"),
            ("wasi_snapshot_preview1.clock_time_get", b"", "use ctx.current_processing_time()"),
            ("wasi:random/random@0.2.0", b"", "take a seed from the parameters"),
            ("wasi_snapshot_preview1.fd_write", b"", "write to the log with tidemill_sdk::println!"),
            ("wasi:cli/stdin@0.2.0", b"", "built for a target with WASI"),
            ("env.gettimeofday", b"", "the function `gettimeofday` is declared in an `extern` block"),
            ("some:other/thing", b"", "guests have no files"),
        ] {
            let refusal = refusal(import, bytes);
            assert!(refusal.contains(expected) && refusal.contains(import), "{refusal}");
        }
    }
}
