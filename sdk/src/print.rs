//! `println!`, `eprintln!` and `dbg!` for detectors: what they write goes to the job's log.
//!
//! The standard library's go nowhere in a component, since it has no standard output. These shadow them where they are imported, or in the
//! whole crate with `#[macro_use(println, eprintln, dbg)] extern crate tidemill_sdk;`. Natively, as in unit tests, they print as usual.

use std::fmt::Arguments;

/// Writes a line to the job's log, at the level `info`. Natively it goes to standard output.
///
/// ```
/// use tidemill_sdk::println;
///
/// println!("{} open doors", 3);
/// ```
#[macro_export]
macro_rules! println {
    () => { $crate::print::out(::std::format_args!("")) };
    ($($arguments:tt)*) => { $crate::print::out(::std::format_args!($($arguments)*)) };
}

/// Writes a line to the job's log, at the level `warn`. Natively it goes to standard error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::print::err(::std::format_args!("")) };
    ($($arguments:tt)*) => { $crate::print::err(::std::format_args!($($arguments)*)) };
}

/// Writes an expression and its value to the job's log, at the level `info`, with its place, and gives the value back.
///
/// ```
/// use tidemill_sdk::dbg;
///
/// assert_eq!(dbg!(1 + 2), 3);
/// ```
#[macro_export]
macro_rules! dbg {
    () => { $crate::print::debug(::std::format_args!("[{}:{}:{}]", ::std::file!(), ::std::line!(), ::std::column!())) };
    ($value:expr $(,)?) => {
        match $value {
            value => {
                let place = (::std::file!(), ::std::line!(), ::std::column!());
                $crate::print::debug(::std::format_args!(
                    "[{}:{}:{}] {} = {:?}", place.0, place.1, place.2, ::std::stringify!($value), &value
                ));
                value
            }
        }
    };
    ($($value:expr),+ $(,)?) => { ($($crate::dbg!($value)),+,) };
}

#[doc(hidden)]
#[cfg_attr(not(target_arch = "wasm32"), expect(clippy::print_stdout, reason = "this is what it is for"))]
pub fn out(text: Arguments<'_>) {
    #[cfg(target_arch = "wasm32")]
    crate::guest::log(crate::Level::Info, text);
    #[cfg(not(target_arch = "wasm32"))]
    ::std::println!("{text}");
}

#[doc(hidden)]
pub fn err(text: Arguments<'_>) {
    #[cfg(target_arch = "wasm32")]
    crate::guest::log(crate::Level::Warn, text);
    #[cfg(not(target_arch = "wasm32"))]
    ::std::eprintln!("{text}");
}

#[doc(hidden)]
pub fn debug(text: Arguments<'_>) {
    #[cfg(target_arch = "wasm32")]
    crate::guest::log(crate::Level::Info, text);
    #[cfg(not(target_arch = "wasm32"))]
    ::std::eprintln!("{text}");
}
