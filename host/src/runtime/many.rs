//! Several problems at once, so that a user sees all of them.

use tidemill_core::{Error, Kind, Result};

/// More than this is not read.
const MOST: usize = 20;

/// The first of these lines, and how many more there are.
pub(super) fn at_most<T: AsRef<str>>(lines: &[T]) -> Vec<String> {
    let shown = lines.iter().take(MOST).map(|line| line.as_ref().to_owned());
    let more = lines.len().checked_sub(MOST).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    shown.chain(more).collect()
}

/// Gathers what is wrong with the parts of a job, one line each.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<String>);

impl Refusals {
    /// The value, unless it is refused. What is wrong with the world, not the spec, ends the search.
    pub(super) fn keep<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == Kind::Config => {
                // One problem may have several consequences in the same words.
                for line in error.chain().lines().filter(|line| !self.0.iter().any(|known| known == line)).collect::<Vec<_>>() {
                    self.0.push(line.to_owned());
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The value, if nothing was refused.
    pub(super) fn unless<T>(self, value: T) -> Result<T> {
        if self.0.is_empty() { Ok(value) } else { Err(Error::config(at_most(&self.0).join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::{Error, Kind};

    use super::{MOST, Refusals};

    #[test]
    fn all_problems_are_told_once_up_to_a_number() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.keep(Ok(1)).unwrap(), Some(1));
        for n in [1, 1, 2] {
            assert_eq!(refusals.keep::<()>(Err(Error::config(format!("problem {n}")))).unwrap(), None);
        }
        assert_eq!(refusals.unless(()).unwrap_err().chain(), "problem 1\nproblem 2");
        let mut refusals = Refusals::default();
        (0..MOST + 3).for_each(|n| _ = refusals.keep::<()>(Err(Error::config(n.to_string()))).unwrap());
        assert!(refusals.unless(()).unwrap_err().chain().ends_with("19\nand 3 more"));
        let error = Refusals::default().keep::<()>(Err(Error::new(Kind::Storage, "disk"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Storage);
        assert!(Refusals::default().unless(7).is_ok_and(|value| value == 7));
    }
}
