//! Failures of components that repeat: what fails every time is not worth retrying for ever.

use tidemill_core::error::Site;
use tidemill_core::source::Split;
use tidemill_core::{Error, Kind, Result};

/// The same failure of a component this many times in a row, without getting past it, will not go away by itself.
const SAME_FAILURES: u32 = 3;

/// Counts failures of components that repeat in the same way.
#[derive(Default)]
pub(super) struct Repeated {
    last: Option<Last>,
    times: u32,
}

struct Last {
    /// What repeats: the operator and the place in its component, or the whole text where that is not known.
    what: String,
    text: String,
    site: Option<Site>,
    /// The latest time of a timer that has failed so.
    timer: Option<i64>,
    /// The checkpoint that the attempt before it had gone on from.
    checkpoint: u64,
}

impl Last {
    /// Whether the job has got past this failure since, as far as another failure of the same operator and place tells, which came up after
    /// the job had gone on from a checkpoint. A failure with a source record is not over before that was read: see [`Repeated::begin`].
    fn is_over(&self, site: Option<&Site>, text: &str, checkpoint: u64) -> bool {
        let timers = self.timer.zip(site.and_then(|site| site.timer));
        let without_record = site.is_none_or(|site| site.record.is_none());
        // Timers fire in the order of their times, and one that has failed stays until it has fired: only a later one tells that it has. Its
        // text tells nothing, since it may name the key. Without a time it is not known what getting past it means: then another text does.
        checkpoint > self.checkpoint && timers.map_or(without_record && text != self.text, |(last, now)| now > last)
    }
}

impl Repeated {
    /// An attempt goes on from a checkpoint with these splits. If it is past the record that failed last, that failure is over.
    pub(super) fn begin(&mut self, checkpoint: u64, splits: &[Vec<Split>]) {
        let Some(last) = &self.last else { return };
        let is_past = last.site.as_ref().and_then(|site| site.record).is_some_and(|record| {
            let of_source = splits.get(record.source as usize).into_iter().flatten();
            of_source.filter(|split| split.id == record.split).any(|split| split.finished || split.position > record.position)
        });
        if is_past && checkpoint > last.checkpoint {
            *self = Self::default();
        }
    }

    /// Takes in a failure of an attempt that went on from this checkpoint.
    ///
    /// # Errors
    /// It has repeated too often. Failures of disks and networks never do: they are worth retrying.
    pub(super) fn check(&mut self, failure: &Error, checkpoint: u64) -> Result<()> {
        if failure.kind() != Kind::Guest {
            return Ok(());
        }
        let (site, text) = (failure.site().cloned(), failure.chain());
        let what = site.as_ref().map_or_else(|| text.clone(), |site| site.what.clone());
        let timer = site.as_ref().and_then(|site| site.timer);
        let repeats = self.last.as_ref().filter(|last| last.what == what && !last.is_over(site.as_ref(), &text, checkpoint));
        // Each worker has a timer that fails first, and any of them may be the first of all: after each has been, none is later.
        let timer = timer.max(repeats.and_then(|last| last.timer));
        self.times = if repeats.is_some() { self.times + 1 } else { 1 };
        let same = self.times >= SAME_FAILURES;
        let message = format!("the job has failed {SAME_FAILURES} times in the same way: {text}");
        self.last = Some(Last { what, text, site, timer, checkpoint });
        if same { Err(Error::guest(message)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::Error;
    use tidemill_core::batch::Origin;
    use tidemill_core::error::Site;
    use tidemill_core::source::Split;

    use super::Repeated;

    /// A failure at a place of a component, with a record of a split.
    fn failure(place: u32, split: u32, position: u64) -> Error {
        let record = Some(Origin { source: 0, split, position });
        Error::guest(format!("the record {position} of {split} is bad")).at(Site {
            what: format!("operator o: {place}"),
            record,
            timer: None,
        })
    }

    /// Splits that have come to these positions.
    fn splits(positions: [u64; 2]) -> Vec<Vec<Split>> {
        let split = |(id, position): (u32, u64)| Split { id, position, ..Split::new(&[], "s") };
        vec![[0, 1].into_iter().zip(positions).map(split).collect()]
    }

    /// The failures after each other, each with the checkpoint of its attempt and the positions of that; which of them are final.
    fn run(failures: &[(Error, u64, [u64; 2])]) -> Vec<bool> {
        let mut repeated = Repeated::default();
        let check = |(error, checkpoint, positions): &(Error, u64, [u64; 2])| {
            repeated.begin(*checkpoint, &splits(*positions));
            repeated.check(&error.kind_and_site(), *checkpoint).is_err()
        };
        failures.iter().map(check).collect()
    }

    trait Again {
        fn kind_and_site(&self) -> Error;
    }

    impl Again for Error {
        /// The error as it comes out of an attempt.
        fn kind_and_site(&self) -> Error {
            let again = Error::new(self.kind(), self.chain());
            let again = self.site().cloned().into_iter().fold(again, Error::at);
            again.while_doing("running")
        }
    }

    #[test]
    fn records_of_several_workers_fail_in_the_same_way() {
        let failures = [(failure(1, 0, 5), 0, [0, 0]), (failure(1, 1, 9), 0, [0, 0]), (failure(1, 0, 5), 1, [3, 9])];
        assert_eq!(run(&failures), [false, false, true]);
        let other = [(failure(1, 0, 5), 0, [0, 0]), (failure(2, 1, 9), 0, [0, 0]), (failure(1, 0, 5), 1, [3, 9])];
        assert_eq!(run(&other), [false; 3]);
    }

    #[test]
    fn a_checkpoint_past_the_failure_is_progress_and_one_before_it_is_none() {
        let past =
            [(failure(1, 0, 5), 0, [0, 0]), (failure(1, 0, 7), 1, [6, 0]), (failure(1, 0, 9), 2, [8, 0]), (failure(1, 0, 11), 3, [10, 0])];
        assert_eq!(run(&past), [false; 4]);
        let before = [(failure(1, 0, 5), 0, [0, 0]), (failure(1, 0, 5), 1, [5, 80]), (failure(1, 0, 5), 2, [5, 90])];
        assert_eq!(run(&before), [false, false, true]);
    }

    #[test]
    fn disks_and_networks_fail_without_end_and_say_nothing_of_components() {
        let disk = || (Error::storage("full"), 0, [0, 0]);
        assert_eq!(run(&[disk(), disk(), disk(), disk()]), [false; 4]);
        let mixed = [(failure(1, 0, 5), 0, [0, 0]), disk(), (failure(1, 0, 5), 0, [0, 0]), disk(), (failure(1, 0, 5), 0, [0, 0])];
        assert_eq!(run(&mixed), [false, false, false, false, true]);
    }

    #[test]
    fn timers_fail_in_the_same_way_until_a_later_one_does() {
        let timer = |time, checkpoint| {
            let site = Site { what: "operator o: event-time timers".to_owned(), record: None, timer: Some(time) };
            (Error::guest(format!("the timer of key {checkpoint} failed")).at(site), checkpoint, [0, 0])
        };
        // All at one time, as those of windows: other keys and newer checkpoints are no progress.
        assert_eq!(run(&[timer(100, 0), timer(100, 1), timer(100, 2)]), [false, false, true]);
        assert_eq!(run(&[timer(100, 0), timer(99, 1), timer(100, 2)]), [false, false, true]);
        // One after the other, which a newer checkpoint must confirm.
        assert_eq!(run(&[timer(100, 0), timer(200, 1), timer(300, 2), timer(400, 3)]), [false; 4]);
        assert_eq!(run(&[timer(100, 1), timer(200, 1), timer(300, 1)]), [false, false, true]);
        // Two workers, whose first timers to fail are these, in turn.
        assert_eq!(run(&[timer(100, 0), timer(200, 1), timer(100, 2), timer(200, 3)]), [false, false, false, true]);
    }

    #[test]
    fn without_a_record_or_a_time_the_text_tells_whether_a_later_failure_is_the_same() {
        let site = || Site { what: "operator o: t".to_owned(), record: None, timer: None };
        let timer = |text: &str, checkpoint| (Error::guest(text).at(site()), checkpoint, [0, 0]);
        assert_eq!(run(&[timer("a", 0), timer("b", 0), timer("c", 0)]), [false, false, true]);
        assert_eq!(run(&[timer("a", 0), timer("a", 1), timer("a", 2)]), [false, false, true]);
        assert_eq!(run(&[timer("a", 0), timer("b", 1), timer("c", 2)]), [false; 3]);
        let unknown = |text: &str| (Error::guest(text), 0, [0, 0]);
        assert_eq!(run(&[unknown("a"), unknown("a"), unknown("a")]), [false, false, true]);
        assert_eq!(run(&[unknown("a"), unknown("b"), unknown("a")]), [false; 3]);
    }
}
