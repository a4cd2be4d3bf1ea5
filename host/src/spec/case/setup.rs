//! What a case tests, and what a restore changes of it.

use std::path::{Path, PathBuf};

use super::{BACKENDS, Backend, Context};
use crate::spec::Text;
use crate::spec::error::{At, Place, Problems};
use crate::spec::fields::{self, Fields};
use crate::spec::job::{Operator, Parameters, StateOverride, Table};
use crate::spec::read::operator::operator;
use crate::spec::tree::{Entry, Node, Value};

/// The fields of a case that are those of an operator in a job spec.
const OPERATOR: &[&str] = &["component", "key_by", "parameters", "tables", "states", "on_error", "end_of_input"];
const RESTORE: &[&str] =
    &["from", "parallelism", "max_parallelism", "backend", "component", "parameters", "tables", "states", "allow_non_restored_state"];

/// What is tested.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The operator.
    pub operator: Operator,
    /// The number of workers.
    pub parallelism: At<u32>,
    /// The number of key groups, if the case names it.
    pub max_parallelism: Option<At<u32>>,
    /// Where live state is held.
    pub backend: Backend,
}

/// What to restore, and what is different then. What is `None` stays as it was.
#[derive(Clone, Debug)]
pub struct Restore {
    /// The savepoint's or checkpoint's name.
    pub from: String,
    /// The number of workers.
    pub parallelism: Option<At<u32>>,
    /// The number of key groups.
    pub max_parallelism: Option<At<u32>>,
    /// Where live state is held.
    pub backend: Option<Backend>,
    /// The component's file.
    pub component: Option<At<PathBuf>>,
    /// The component's parameters.
    pub parameters: Option<Parameters>,
    /// The rows for the component's reference tables.
    pub tables: Option<Vec<Table>>,
    /// Changes to what the component declares for its states.
    pub states: Option<Vec<StateOverride>>,
    /// Whether state that the job does not have any more is dropped.
    pub allow_non_restored_state: bool,
}

impl Setup {
    /// The setup with what a restore changes of it.
    #[must_use]
    pub fn changed(&self, restore: &Restore) -> Self {
        let mut setup = self.clone();
        replace(&mut setup.parallelism, restore.parallelism.as_ref());
        setup.max_parallelism = restore.max_parallelism.clone().or(setup.max_parallelism);
        replace(&mut setup.backend, restore.backend.as_ref());
        replace(&mut setup.operator.component, restore.component.as_ref());
        replace(&mut setup.operator.parameters, restore.parameters.as_ref());
        replace(&mut setup.operator.tables, restore.tables.as_ref());
        replace(&mut setup.operator.states, restore.states.as_ref());
        setup
    }
}

fn replace<T: Clone>(target: &mut T, with: Option<&T>) {
    if let Some(with) = with {
        target.clone_from(with);
    }
}

pub(super) fn setup(root: &Node, fields: &Fields<'_>, with: (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Option<Setup> {
    let mut parallelism = At { value: 1, at: root.at.clone() };
    fields.update("parallelism", &mut parallelism, fields::at(fields::whole(1)), problems);
    Some(Setup {
        operator: read_operator(root, true, with, problems)?,
        parallelism,
        max_parallelism: fields.read("max_parallelism", fields::at(fields::whole(1)), problems),
        backend: Backend::Memory,
    })
}

pub(super) fn restore(node: &Node, with: (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Option<Restore> {
    let fields = Fields::of(node, "`restore`", RESTORE, problems)?;
    let from = fields.required("from", "the name of the savepoint or checkpoint to go on from", problems);
    let from = from.and_then(|node| fields::value(node, "from", fields::text, problems));
    let given = |name: &str| has(node, name);
    let operator = read_operator(node, false, with, problems)?;
    Some(Restore {
        from: from?,
        parallelism: fields.read("parallelism", fields::at(fields::whole(1)), problems),
        max_parallelism: fields.read("max_parallelism", fields::at(fields::whole(1)), problems),
        backend: fields.read("backend", fields::choice(BACKENDS), problems),
        component: given("component").then_some(operator.component),
        parameters: given("parameters").then_some(operator.parameters),
        tables: given("tables").then_some(operator.tables),
        states: given("states").then_some(operator.states),
        allow_non_restored_state: fields.read("allow_non_restored_state", fields::boolean, problems).unwrap_or(false),
    })
}

fn has(node: &Node, name: &str) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|entry| entry.key == name))
}

/// Reads the fields of an operator by the rules of job specs. What a case does not name stands in; a restore, which is not a `whole`
/// operator, need not name the component either.
fn read_operator(node: &Node, whole: bool, (text, context): (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Option<Operator> {
    let Value::Map(all) = &node.value else { return None };
    let mut entries: Vec<Entry> = all.iter().filter(|entry| OPERATOR.contains(&&*entry.key)).cloned().collect();
    let component = entries.iter_mut().find(|entry| entry.key == "component");
    // What the component lacks in the case is told at the component.
    let at = component.as_ref().map_or(&node.at, |entry| &entry.node.at).clone();
    let stem = match component {
        Some(entry) => locate(&mut entry.node, text, context, problems),
        None if whole => None,
        None => {
            entries.push(stand_in("component", "unchanged", &at));
            None
        }
    };
    entries.push(stand_in("uid", &stem.unwrap_or_else(|| "operator".to_owned()), &at));
    entries.push(stand_in("input", "case", &at));
    operator(&Node { at, value: Value::Map(entries), plain: false }, text, problems)
}

fn stand_in(key: &str, value: &str, at: &Place) -> Entry {
    let node = Node { at: at.clone(), value: Value::Text(value.to_owned()), plain: false };
    Entry { key: key.to_owned(), key_at: at.clone(), node }
}

/// Puts the component's path in the place of its name. Returns a name for the operator.
fn locate(node: &mut Node, text: &Text<'_>, context: &Context<'_>, problems: &mut Problems) -> Option<String> {
    let Value::Text(name) = &node.value else { return None };
    let path = if name.contains('/') || Path::new(name).extension().is_some_and(|extension| extension == "wasm") {
        let path = text.base.join(name);
        if path.is_file() { Ok(path) } else { Err(format!("there is no file {}", path.display())) }
    } else {
        (context.component)(name)
    };
    match path {
        Ok(path) => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let allowed = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
            node.value = Value::Text(path.to_string_lossy().into_owned());
            Some(stem.chars().take(100).map(allowed).collect())
        }
        Err(reason) => {
            problems.add(&node.at, format!("`component`: {reason}"));
            None
        }
    }
}
