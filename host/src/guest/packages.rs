//! The packages that a core module's component type names.

use std::collections::{BTreeMap, BTreeSet};

/// By package, the other ones whose types it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Refuses packages that use each other in a circle: the encoder follows them without end, until the stack is full and the process dies.
pub(super) fn check_packages(module: &[u8]) -> Result<(), String> {
    let mut uses = Uses::new();
    for payload in wasmparser::Parser::new(0).parse_all(module).flatten() {
        match payload {
            wasmparser::Payload::CustomSection(section) if section.name().starts_with("component-type") => add(section.data(), &mut uses)?,
            _ => {}
        }
    }
    // What uses nothing that is left is in no circle.
    while let Some(free) = uses.iter().find(|(_, used)| used.is_empty()).map(|(name, _)| name.clone()) {
        uses.remove(&free);
        uses.values_mut().for_each(|used| {
            used.remove(&free);
        });
    }
    match uses.into_keys().next() {
        Some(name) => Err(format!("carries a component type that cannot be read: the package {name:?} depends on itself")),
        None => Ok(()),
    }
}

/// Adds the packages of one section: together they are merged into one type.
fn add(section: &[u8], uses: &mut Uses) -> Result<(), String> {
    if !section.starts_with(b"\0asm") {
        return Err("carries a component type in a format that Tidemill does not know".to_owned());
    }
    let decoded = wit_component::decode(section).map_err(|error| format!("carries a component type that cannot be read: {error:#}"))?;
    let resolve = decoded.resolve();
    // Without versions, since merging may take two of them for one.
    let name = |id| resolve.packages.get(id).map(|package| format!("{}:{}", package.name.namespace, package.name.name));
    for (id, _) in resolve.packages.iter() {
        let Some(package) = name(id) else { continue };
        let used: BTreeSet<String> = resolve.package_direct_deps(id).filter_map(name).filter(|used| *used != package).collect();
        for used in &used {
            uses.entry(used.clone()).or_default();
        }
        uses.entry(package).or_default().extend(used);
    }
    Ok(())
}
