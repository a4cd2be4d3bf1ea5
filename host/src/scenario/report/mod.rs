//! What became of the cases, for people and machines.

mod json;
mod junit;
mod text;

use super::compare::Row;
use crate::spec::case::{Case, Step, line_of};
use crate::spec::error::Place;

const BATCHES_DIFFER: &str = "what comes of the records depends on the batch size, so the component remembers something that is no state, \
or goes by an order that is not fixed: look for loops over a HashMap or HashSet (take BTreeMap or BTreeSet), a static, a thread_local, a field \
marked #[detector(skip)]";

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// The XML of `JUnit`, which build servers read.
    Junit,
}

/// What became of all cases.
#[derive(Clone, Debug)]
pub struct Report {
    /// By file.
    pub cases: Vec<CaseReport>,
}

/// What became of a case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The file.
    pub file: String,
    /// The case's name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<RunReport>,
    /// What is wrong with the file, a line per problem, each with its place.
    pub unreadable: Option<String>,
}

/// What became of one run of a case.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The state backend.
    pub backend: &'static str,
    /// The batch size.
    pub batch_rows: usize,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Where and why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step, counted from 1; `None`: the case as a whole.
    pub step: Option<usize>,
    /// The step's field.
    pub action: &'static str,
    /// The line, counted from 1.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// Expected and actual, where they were compared.
    pub rows: Vec<Row>,
    /// Whether the case does not fit its component, so that it says nothing about it.
    pub unfit: bool,
}

/// What became of a case, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// Its file is wrong.
    Unreadable,
}

impl Failure {
    /// A failure of a step. A message that begins with a place is about that place.
    pub(super) fn at_step(case: &Case, index: usize, step: &Step, message: &str) -> Self {
        Self { step: Some(index + 1), action: step.action.name(), ..Self::whole(case, &step.at, message) }
    }

    /// A failure of a case as a whole. A message that begins with a place is about that place, any other about `at`.
    pub(super) fn whole(case: &Case, at: &Place, message: &str) -> Self {
        let (at, message) = match Place::split(message, &case.file) {
            Some((Place::Whole, message)) => (at.clone(), message),
            Some(placed) => placed,
            None => (at.clone(), message),
        };
        let (line, column) = line_of(&at);
        Self { step: None, action: "start", line, column, message: message.to_owned(), rows: Vec::new(), unfit: false }
    }
}

impl CaseReport {
    pub(super) fn of(case: &Case, runs: Vec<RunReport>) -> Self {
        Self { file: case.file.clone(), name: case.name.clone(), runs, unreadable: None }
    }

    pub(super) fn unreadable(file: String, message: String) -> Self {
        Self { name: file.clone(), file, runs: Vec::new(), unreadable: Some(message) }
    }

    /// Whether it holds.
    #[must_use]
    pub fn status(&self) -> Status {
        let failures = || self.runs.iter().filter_map(|run| run.failure.as_ref());
        if self.unreadable.is_some() || failures().any(|failure| failure.unfit) {
            Status::Unreadable
        } else if failures().next().is_some() {
            Status::Failed
        } else {
            Status::Passed
        }
    }

    /// What to look for in the component, if what it does depends on where batches end.
    fn hint(&self) -> Option<&'static str> {
        let differ = |run: &RunReport| self.runs.iter().any(|other| other.backend == run.backend && other.failure != run.failure);
        (self.status() == Status::Failed && self.runs.iter().any(differ)).then_some(BATCHES_DIFFER)
    }

    /// The failures, each with the runs in which it is the same.
    fn failures(&self) -> Vec<(&Failure, Vec<&RunReport>)> {
        let mut grouped: Vec<(&Failure, Vec<&RunReport>)> = Vec::new();
        for run in &self.runs {
            let Some(failure) = &run.failure else { continue };
            match grouped.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, runs)) => runs.push(run),
                None => grouped.push((failure, vec![run])),
            }
        }
        grouped
    }
}

impl Report {
    /// The number of cases with this status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.cases.iter().filter(|case| case.status() == status).count()
    }

    /// The number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.cases.iter().map(|case| case.runs.len()).sum()
    }

    /// 0 when all cases hold, 2 when a file is wrong, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.count(Status::Unreadable) > 0 { 2 } else { u8::from(self.count(Status::Failed) > 0) }
    }

    /// The report as text.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text => text::render(self),
            Format::Json => json::render(self),
            Format::Junit => junit::render(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseReport, Failure, Format, Report, RunReport};

    fn failure(message: &str) -> Failure {
        let (message, rows) = (message.to_owned(), Vec::new());
        Failure { step: Some(1), action: "expect", line: 1, column: 1, message, rows, unfit: false }
    }

    /// The hint of a case whose runs at batches of 1 and 3 failed so, on two backends.
    #[expect(clippy::needless_pass_by_value, reason = "so that the tests below are short")]
    fn hint(one: Option<Failure>, three: Option<Failure>) -> Option<&'static str> {
        let run = |backend, (batch_rows, failure): (usize, &Option<Failure>)| RunReport { backend, batch_rows, failure: failure.clone() };
        let runs = ["memory", "rocksdb"].into_iter().flat_map(|backend| [(1, &one), (3, &three)].map(|result| run(backend, result)));
        let case = CaseReport { file: "a.case.yaml".to_owned(), name: "a".to_owned(), runs: runs.collect(), unreadable: None };
        let hint = case.hint();
        let report = Report { cases: vec![case] };
        for format in [Format::Text, Format::Json, Format::Junit] {
            assert_eq!(report.render(format).contains("HashMap"), hint.is_some(), "{format:?}");
        }
        hint
    }

    #[test]
    fn results_that_differ_by_batch_size_are_hinted_at() {
        assert_eq!(hint(None, None), None);
        assert_eq!(hint(Some(failure("a")), Some(failure("a"))), None, "the same at every batch size");
        assert!(hint(Some(failure("a")), Some(failure("b"))).is_some());
        assert!(hint(None, Some(failure("b"))).is_some());
        assert_eq!(hint(None, Some(Failure { unfit: true, ..failure("b") })), None, "the case does not fit its component");
    }
}
