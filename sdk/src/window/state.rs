//! The windows of a key: a map state from window to content, driven by records and timers.

use tidemill_wit::descriptor::Descriptor;

use super::{Aggregated, Collected, Reduced, Window, WindowContent, Windows};
use crate::detector::{FieldOptions, Handle, Ids};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::state::{MapState, State};
use crate::{Context, Failure, TimeDomain, Timer};

/// Windows of one reduced value.
pub type ReducingWindows<T, F> = WindowState<Reduced<T, F>>;
/// Windows of an accumulator.
pub type AggregatingWindows<F> = WindowState<Aggregated<F>>;
/// Windows of all their records.
pub type FullWindows<T> = WindowState<Collected<T>>;

/// The windows of each key, and what they have gathered.
pub struct WindowState<C: WindowContent> {
    contents: MapState<Window, C::Stored>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was added to its windows, those that are not gone; a gap between windows has none.
    Taken,
    /// All its windows are gone. Emit it on a lane of its own, or drop it.
    Late,
}

impl<C: WindowContent> WindowState<C> {
    /// Adds a record to the windows of its event time. A window that the watermark has passed already fires at once: then `fire` is called
    /// with the window and its result.
    ///
    /// # Errors
    /// The record has no event time, what is stored does not decode, or `fire` fails.
    #[expect(clippy::needless_pass_by_value, reason = "as the states take what is added; most records have one window")]
    pub fn add<D: KeyedProcessFunction>(
        &mut self,
        ctx: &mut Context<'_, D>,
        windows: &Windows,
        input: C::Input,
        mut fire: impl FnMut(Window, C::Result<'_>, &mut Context<'_, D>) -> Result<(), Failure>,
    ) -> Result<Arrival, Failure> {
        let Some(timestamp) = ctx.timestamp() else {
            return Err(Failure::bad_record("the record has no event time, so it belongs to no window"));
        };
        let (watermark, mut taken) = (ctx.current_watermark(), false);
        for assigned in windows.of(timestamp) {
            let window = if windows.merges() { self.merged(ctx, assigned)? } else { assigned };
            if windows.cleanup_time(window) <= watermark {
                continue;
            }
            taken = true;
            if windows.merges() {
                self.gather(ctx, window)?;
            }
            let input = input.clone();
            self.contents.replace_with(ctx, &window, |stored| C::add(stored, input))?;
            if window.max_timestamp() > watermark {
                ctx.register_event_time_timer(window.max_timestamp());
            } else {
                self.fire(ctx, window, &mut fire)?;
            }
            register_cleanup(ctx, windows.cleanup_time(window));
        }
        let late = !taken && windows.is_late(timestamp, watermark);
        Ok(if late { Arrival::Late } else { Arrival::Taken })
    }

    /// Fires the window that ends with this timer's time, and clears those that are gone with it. Timers that are not the windows' do
    /// nothing, so that all can be passed on.
    ///
    /// # Errors
    /// What is stored does not decode, or `fire` fails.
    pub fn on_timer<D: KeyedProcessFunction>(
        &mut self,
        ctx: &mut Context<'_, D>,
        windows: &Windows,
        timer: Timer,
        mut fire: impl FnMut(Window, C::Result<'_>, &mut Context<'_, D>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if timer.domain != TimeDomain::EventTime {
            return Ok(());
        }
        for window in self.contents.peek_keys(ctx)? {
            if window.max_timestamp() == timer.timestamp {
                self.fire(ctx, window, &mut fire)?;
            }
            if windows.cleanup_time(window) == timer.timestamp {
                self.contents.remove(ctx, &window);
            }
        }
        Ok(())
    }

    /// What comes of a window has its last time, as in Flink, also if it is a late record that makes it fire.
    fn fire<D: KeyedProcessFunction>(
        &mut self,
        ctx: &mut Context<'_, D>,
        window: Window,
        fire: &mut impl FnMut(Window, C::Result<'_>, &mut Context<'_, D>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(stored) = self.contents.get(ctx, &window)? else { return Ok(()) };
        let own = ctx.core.output_timestamp.replace(window.max_timestamp());
        let fired = fire(window, C::result(stored), ctx);
        ctx.core.output_timestamp = own;
        fired
    }

    /// The session that a new one becomes part of: it and all that it meets.
    fn merged<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, new: Window) -> Result<Window, Failure> {
        let met = self.contents.peek_keys(ctx)?.into_iter().filter(|window| window.meets(new));
        Ok(met.fold(new, Window::cover))
    }

    /// Puts the contents of all sessions within one into it. Their timers stay: those of sessions that are no more do nothing.
    fn gather<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, whole: Window) -> Result<(), Failure> {
        let parts: Vec<Window> = self.contents.peek_keys(ctx)?.into_iter().filter(|window| window.meets(whole)).collect();
        if parts == [whole] {
            return Ok(());
        }
        let mut gathered = None;
        for part in parts {
            let content = self.contents.take(ctx, &part)?;
            gathered = match (gathered, content) {
                (Some(earlier), Some(later)) => Some(C::merge(earlier, later)),
                (earlier, later) => earlier.or(later),
            };
        }
        if let Some(gathered) = gathered {
            self.contents.put(ctx, &whole, gathered);
        }
        Ok(())
    }
}

/// A window that lasts to the end of time is never cleared.
fn register_cleanup<D: KeyedProcessFunction>(ctx: &mut Context<'_, D>, at: i64) {
    if at < i64::MAX {
        ctx.register_event_time_timer(at);
    }
}

impl<C: WindowContent> Handle for WindowState<C> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        MapState::<Window, C::Stored>::describe(options, descriptor);
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { contents: MapState::create(options, ids)? })
    }

    fn begin(&mut self, slots: usize) {
        self.contents.begin(slots);
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        self.contents.finish(writes)
    }
}

impl<C: WindowContent> State for WindowState<C> {}
