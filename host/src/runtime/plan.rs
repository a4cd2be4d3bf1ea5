//! What a restore would do to each stored state, decided before anything is changed.

use std::fmt;

use serde::Serialize;
use tidemill_core::checkpoint::manifest::{Manifest, OperatorState, StoredState};
use tidemill_core::schema::{Transcoder, changes, describe, equivalent, same_key};
use tidemill_wit::descriptor::StateDescriptor;
use tidemill_wit::schema::TypeTable;

use super::job::{Job, JobOperator};
use super::recovery::Missing;

/// What becomes of everything that is stored, and of what is new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestorePlan {
    /// What is wrong with the job as a whole.
    pub refused: Vec<String>,
    /// The sources whose positions are dropped.
    pub dropped_sources: Vec<String>,
    /// The operators that run another component than when it was stored.
    pub components: Vec<ComponentPlan>,
    /// The stored operators, then the new ones.
    pub operators: Vec<OperatorPlan>,
}

/// Another component of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentPlan {
    /// The operator's uid.
    pub uid: String,
    /// The sha-256 of the component that the operator had.
    pub from: String,
    /// That of the one that it has.
    pub to: String,
}

impl ComponentPlan {
    /// The operators of a job that have another component than when a checkpoint was taken.
    #[must_use]
    pub fn all(job: &Job, manifest: &Manifest) -> Vec<Self> {
        let stored = |uid: &str| manifest.operators.iter().find(|stored| stored.uid == uid).map(|stored| stored.component.clone());
        let changed = |operator: &JobOperator| {
            let (uid, to) = (operator.uid.clone(), operator.component.clone());
            stored(&uid).filter(|from| *from != to).map(|from| Self { uid, from, to })
        };
        job.operators.iter().filter_map(changed).collect()
    }
}

impl fmt::Display for ComponentPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {}: component was sha256:{} and is sha256:{}", self.uid, self.from, self.to)
    }
}

/// What becomes of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorPlan {
    /// Its uid.
    pub uid: String,
    /// What becomes of it as a whole, its timers included.
    #[serde(flatten)]
    pub fate: Fate,
    /// Its states, broadcast ones last.
    pub states: Vec<StatePlan>,
}

/// What becomes of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatePlan {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What a restore does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "lowercase")]
pub enum Fate {
    /// It stays as it is.
    Kept,
    /// Its values become those of a new type.
    Migrated {
        /// What changes, by field.
        changes: Vec<String>,
        /// Why the old version cannot take the new values back; `None`: it can.
        no_way_back: Option<String>,
    },
    /// It is new, and begins empty.
    Added,
    /// It is gone for good.
    Dropped,
    /// The restore is refused.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

impl RestorePlan {
    /// Compares a job with what is stored.
    #[must_use]
    pub fn new(job: &Job, manifest: &Manifest, missing: Missing) -> Self {
        let what = format!("{} {}", if manifest.savepoint { "savepoint" } else { "checkpoint" }, manifest.checkpoint);
        let compare = Compare { what, missing };
        let mut plan =
            Self { refused: Vec::new(), dropped_sources: Vec::new(), components: ComponentPlan::all(job, manifest), operators: Vec::new() };
        if manifest.max_parallelism != job.graph.max_parallelism {
            plan.refused.push(format!(
                "{} has max_parallelism {}, the job asks for {}: it is fixed by the first checkpoint, so leave it at {}",
                compare.what, manifest.max_parallelism, job.graph.max_parallelism, manifest.max_parallelism
            ));
        }
        for positions in &manifest.sources {
            if job.sources.iter().any(|(uid, _)| *uid == positions.uid) {
                continue;
            }
            match missing {
                Missing::Dropped => plan.dropped_sources.push(positions.uid.clone()),
                Missing::Refused => plan.refused.push(compare.gone(&format!("positions of source {}", positions.uid))),
            }
        }
        for state in manifest.operators.iter().filter(|state| is_stateful(state)) {
            plan.operators.push(compare.operator(state, job.operators.iter().find(|operator| operator.uid == state.uid)));
        }
        for operator in &job.operators {
            let (uid, now) = (&operator.uid, operator.state());
            if is_stateful(&now) && !plan.operators.iter().any(|known| known.uid == *uid) {
                let added = |state: &StoredState| StatePlan { name: state.name.clone(), fate: Fate::Added };
                let states = now.states.iter().chain(&now.broadcast_states).map(added).collect();
                plan.operators.push(OperatorPlan { uid: uid.clone(), fate: Fate::Added, states });
            }
        }
        plan
    }

    /// Why the restore is refused, if it is.
    pub fn refusals(&self) -> impl Iterator<Item = &str> {
        self.refused.iter().map(String::as_str).chain(self.fates().filter_map(|fate| match fate {
            Fate::Refused { reason } => Some(reason.as_str()),
            _ => None,
        }))
    }

    /// Whether the old version can go on from what the new one will have stored.
    #[must_use]
    pub fn can_go_back(&self) -> bool {
        self.dropped_sources.is_empty()
            && self.refusals().next().is_none()
            && self.fates().all(|fate| matches!(fate, Fate::Kept | Fate::Migrated { no_way_back: None, .. }))
    }

    fn fates(&self) -> impl Iterator<Item = &Fate> {
        self.operators.iter().flat_map(|operator| std::iter::once(&operator.fate).chain(operator.states.iter().map(|state| &state.fate)))
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Migrated { changes, no_way_back: None } => write!(f, "migrated: {}; can go back", changes.join(", ")),
            Self::Migrated { changes, no_way_back: Some(reason) } => {
                write!(f, "migrated: {}; cannot go back: {reason}", changes.join(", "))
            }
            Self::Added => f.write_str("added, begins empty"),
            Self::Dropped => f.write_str("dropped for good"),
            Self::Refused { reason } => write!(f, "refused: {reason}"),
        }
    }
}

fn is_stateful(state: &OperatorState) -> bool {
    state.key.is_some() || !state.broadcast_states.is_empty()
}

struct Compare {
    /// The savepoint or checkpoint, for messages.
    what: String,
    missing: Missing,
}

impl Compare {
    fn operator(&self, stored: &OperatorState, operator: Option<&JobOperator>) -> OperatorPlan {
        let all = || stored.states.iter().chain(&stored.broadcast_states);
        let whole = |fate: Fate, states: Fate| OperatorPlan {
            uid: stored.uid.clone(),
            fate,
            states: all().map(|state| StatePlan { name: state.name.clone(), fate: states.clone() }).collect(),
        };
        let Some(operator) = operator else {
            return match self.missing {
                Missing::Dropped => whole(Fate::Dropped, Fate::Dropped),
                Missing::Refused => {
                    let mut plan = whole(Fate::Refused { reason: self.gone(&format!("state of operator {}", stored.uid)) }, Fate::Dropped);
                    plan.states.clear();
                    plan
                }
            };
        };
        let descriptor = operator.settings.factory.descriptor();
        if let Some(change) = key_change(stored.key.as_ref(), descriptor.key.as_ref()) {
            let mut plan = whole(self.unfit(stored, &change), Fate::Kept);
            plan.states.clear();
            return plan;
        }
        let mut plan = OperatorPlan { uid: stored.uid.clone(), fate: Fate::Kept, states: Vec::new() };
        for (states, declared) in
            [(&stored.states, &operator.settings.states[..]), (&stored.broadcast_states, &descriptor.broadcast_states[..])]
        {
            for state in states {
                let now = declared.iter().find(|now| now.name == state.name);
                let fate = self.state(stored, state, now.ok_or_else(|| renamed_hint(state, states, declared)));
                plan.states.push(StatePlan { name: state.name.clone(), fate });
            }
            let new = declared.iter().filter(|now| !states.iter().any(|state| state.name == now.name));
            plan.states.extend(new.map(|now| StatePlan { name: now.name.clone(), fate: Fate::Added }));
        }
        plan
    }

    /// What becomes of a state that the component declares, or that it does not declare; then it may have another name, as a hint says.
    fn state(&self, operator: &OperatorState, stored: &StoredState, now: Result<&StateDescriptor, String>) -> Fate {
        let name = &stored.name;
        let now = match now {
            Ok(now) => StoredState::of(now),
            Err(_) if self.missing == Missing::Dropped => return Fate::Dropped,
            Err(hint) => {
                return self.unfit(
                    operator,
                    &format!("it no longer declares state {name} ({hint}--allow-non-restored-state drops what is stored of it for good)"),
                );
            }
        };
        if stored.kind != now.kind {
            let (then, now) = (stored.kind_name(), now.kind_name());
            return self.unfit(operator, &format!("state {name} was a {then} state and is a {now} state"));
        }
        if let (Some(then), Some(now)) = (&stored.entry_key, &now.entry_key)
            && !equivalent(then, now)
        {
            let (then, now) = (describe(then), describe(now));
            return self.unfit(operator, &format!("the type of the map key of state {name} has changed from {then} to {now}"));
        }
        match Transcoder::new(&stored.value, &now.value) {
            Err(mismatch) => self.unfit(operator, &format!("the type of state {name} has changed: {mismatch}")),
            Ok(_) if equivalent(&stored.value, &now.value) => Fate::Kept,
            Ok(_) => Fate::Migrated {
                changes: changes(&stored.value, &now.value),
                no_way_back: Transcoder::new(&now.value, &stored.value).err().map(|mismatch| mismatch.to_string()),
            },
        }
    }

    fn unfit(&self, stored: &OperatorState, change: &str) -> Fate {
        let reason = format!(
            "the component of operator {} does not fit its state in {}: {change}. use the component with digest {}, or start from nothing \
             with --fresh",
            stored.uid, self.what, stored.component
        );
        Fate::Refused { reason }
    }

    fn gone(&self, of: &str) -> String {
        format!(
            "{} has {of}, which the job does not have: restore its uid, drop it for good with --from and --allow-non-restored-state, or start \
             from nothing with --fresh",
            self.what
        )
    }
}

/// What to do if the only new state that is like one that is gone is the same under another name.
fn renamed_hint(gone: &StoredState, stored: &[StoredState], declared: &[StateDescriptor]) -> String {
    let is_new = |now: &&StateDescriptor| !stored.iter().any(|state| state.name == now.name);
    let mut alike = declared.iter().filter(is_new).filter(|now| {
        let now = StoredState::of(now);
        now.kind == gone.kind && now.entry_key == gone.entry_key && equivalent(&now.value, &gone.value)
    });
    match (alike.next(), alike.next()) {
        (Some(now), None) => format!("if {} is it under another name, write #[state(name = \"{}\")] on it; ", now.name, gone.name),
        _ => String::new(),
    }
}

fn key_change(then: Option<&TypeTable>, now: Option<&TypeTable>) -> Option<String> {
    let same = match (then, now) {
        (Some(then), Some(now)) => same_key(now, then),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let shown = |key: Option<&TypeTable>| key.map_or_else(|| "no key".to_owned(), describe);
    (!same).then(|| format!("the type of its key has changed from {} to {}", shown(then), shown(now)))
}
