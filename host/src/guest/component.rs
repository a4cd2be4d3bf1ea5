//! From the bytes of an upload to a checked and compiled component.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sha2::{Digest, Sha256};
use tidemill_core::detector::Failure;
use tidemill_core::{Error, Kind, Result};
use tidemill_wit::descriptor::Descriptor;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::cache::ComponentCache;
use super::describe;
use super::engine::GuestEngine;
use super::exports::{DetectorPre, Lack, Place};
use super::foreign;
use super::instance;
use super::limits;
use super::packages::check_packages;
use crate::clock::monotonic;
use crate::machine;

/// The interfaces of the contract, without version: the linker compares those.
const OFFERED: [&str; 6] = ["types", "collector", "keyed-state", "broadcast-state", "reference-tables", "telemetry"];
const PACKAGE: &str = "tidemill:process/";
const MACRO: &str = "export one with tidemill_sdk::export!(YourDetector)";
const HINT: &str = "build it for wasm32-unknown-unknown with the Tidemill SDK";

/// A component that was checked, compiled and asked what it is.
pub struct GuestComponent {
    name: String,
    digest: String,
    size: usize,
    descriptor: Descriptor,
    pre: DetectorPre,
}

impl fmt::Debug for GuestComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestComponent").field("name", &self.name).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl GuestComponent {
    /// What messages call the component: the name under which it was loaded.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sha-256 of the bytes as uploaded, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The size of the upload in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the component says about itself, checked.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    pub(super) fn pre(&self) -> &DetectorPre {
        &self.pre
    }

    pub(super) fn load(engine: &GuestEngine, name: &str, bytes: &[u8], cache: Option<&ComponentCache>) -> Result<Self> {
        let refused = |why: String| {
            let kind = if machine::is_lacking(&why) { Kind::Machine } else { Kind::Config };
            Error::new(kind, format!("component {name} {why}"))
        };
        let digest = hex(&Sha256::digest(bytes));
        let engine = &engine.for_code(code_size(bytes))?;
        let component = compiled(engine, (name, bytes), &digest, cache).map_err(refused)?;
        let pre = linked(engine, &component, bytes).map_err(refused)?;
        let answer = instance::describe(&pre).map_err(|failure| match failure {
            Failure::Machine(why) => Error::new(Kind::Machine, format!("loading component {name}: {why}")),
            Failure::BadRecord { reason: why, .. } | Failure::Fatal(why) | Failure::Deadline(why) | Failure::Trap(why) => {
                Error::config(format!("component {name} failed to describe itself: {why}"))
            }
            Failure::CutShort => refused("failed to describe itself: it was cut short".to_owned()),
        })?;
        let descriptor = describe::checked(answer).map_err(|why| refused(format!("describes itself wrongly: {why}")))?;
        Ok(Self { name: name.to_owned(), digest, size: bytes.len(), descriptor, pre })
    }
}

/// The compiled component, from the cache if it has it.
fn compiled(engine: &GuestEngine, (name, bytes): (&str, &[u8]), digest: &str, cache: Option<&ComponentCache>) -> Result<Component, String> {
    if let Some(component) = cache.and_then(|cache| cache.get(engine, digest)) {
        return Ok(component);
    }
    let binary = validated(bytes)?;
    let (began, size) = (monotonic(), bytes.len());
    tracing::info!(component = name, size, "compiling component {name}, {}", limits::bytes(size as u64));
    let component = Component::new(engine.engine(), &binary).map_err(|error| format!("cannot be compiled: {}", chain(&error)))?;
    let took_ms = u64::try_from(monotonic().duration_since(began).as_millis()).unwrap_or(u64::MAX);
    tracing::info!(component = name, took_ms, "compiled component {name} in {took_ms} ms");
    if let Some(cache) = cache {
        cache.put(engine, digest, &component);
    }
    Ok(component)
}

/// The bytes of code in an upload, up to the first place where it is not WebAssembly.
pub(super) fn code_size(bytes: &[u8]) -> usize {
    let payloads = wasmparser::Parser::new(0).parse_all(bytes).map_while(Result::ok);
    let code = payloads.filter_map(|payload| match payload {
        wasmparser::Payload::CodeSectionStart { range, .. } => Some(range.len()),
        _ => None,
    });
    code.fold(0, usize::saturating_add)
}

/// The upload as a component. It is validated first, because the encoder panics on what is not valid.
fn validated(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err("is empty".to_owned());
    }
    if !bytes.starts_with(b"\0asm") {
        return Err("is not WebAssembly: a .wasm file in binary form is needed".to_owned());
    }
    wasmparser::Validator::new().validate_all(bytes).map_err(|error| {
        if error.message().starts_with("unexpected end") {
            format!("is cut short: it ends in the middle of something, at byte {}", error.offset())
        } else {
            format!("is not valid WebAssembly: {} at byte {}", error.message(), error.offset())
        }
    })?;
    if wasmparser::Parser::is_component(bytes) {
        return Ok(bytes.to_vec());
    }
    core_imports(bytes)?;
    let encoded = catch_unwind(AssertUnwindSafe(|| encode(bytes)));
    encoded.unwrap_or_else(|_| Err("carries a component type that cannot be read: it is damaged".to_owned()))
}

/// Refuses imports of a core module that are none of the contract, before the encoder does so in its own words.
fn core_imports(bytes: &[u8]) -> Result<(), String> {
    for payload in wasmparser::Parser::new(0).parse_all(bytes).flatten() {
        let wasmparser::Payload::ImportSection(section) = payload else { continue };
        for import in section.into_imports().flatten() {
            if !import.module.starts_with(PACKAGE) {
                return Err(foreign::refusal(&format!("{}.{}", import.module, import.name), bytes));
            }
        }
    }
    Ok(())
}

/// Makes a component of a core module that carries its type.
fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    check_packages(module)?;
    let (typed, _) =
        wit_component::metadata::decode(module).map_err(|error| format!("carries a component type that cannot be read: {error:#}"))?;
    if typed.is_none() {
        return Err(format!(
            "has no component type, so it is no guest of Tidemill: {MACRO}, {HINT}, and keep custom sections when stripping it"
        ));
    }
    let mut encoder = wit_component::ComponentEncoder::default().validate(true);
    encoder = encoder.module(module).map_err(|error| format!("does not fit its component type: {error:#}"))?;
    encoder.encode().map_err(|error| format!("does not fit its component type: {}", one_line(&format!("{error:#}"))))
}

/// Checks imports and exports, and binds the imports to the host's.
fn linked(engine: &GuestEngine, component: &Component, bytes: &[u8]) -> Result<DetectorPre, String> {
    imports_offered(engine.engine(), component, bytes)?;
    let place = Place::of(component).map_err(lacking)?;
    let linked = engine.linker().instantiate_pre(component).and_then(|pre| DetectorPre::new(pre, place));
    linked.map_err(|error| format!("does not fit the contract tidemill:process: {}", chain(&error)))
}

fn imports_offered(engine: &Engine, component: &Component, bytes: &[u8]) -> Result<(), String> {
    let ty = component.component_type();
    for (name, _) in ty.imports(engine) {
        let interface = name.split('@').next().unwrap_or(name).strip_prefix(PACKAGE);
        if !interface.is_some_and(|interface| OFFERED.contains(&interface)) {
            return Err(foreign::refusal(name, bytes));
        }
    }
    Ok(())
}

fn lacking(lack: Lack) -> String {
    match lack {
        Lack::All => format!("exports no detector: {MACRO}, in src/lib.rs of a crate whose type is cdylib, and {HINT}"),
        Lack::Version(name) => {
            format!("exports {name}, a version of the contract that this Tidemill does not know: {HINT} of this version")
        }
        Lack::Some(names) => {
            format!("does not export {}, so it lacks the interface tidemill:process/detector: {MACRO}, and {HINT}", names.join(", "))
        }
    }
}

/// An error of the engine with its causes, in one line.
pub(super) fn chain(error: &wasmtime::Error) -> String {
    one_line(&format!("{error:#}"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;

    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
