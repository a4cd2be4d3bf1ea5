//! The one line that makes a detector a component.

/// Exports a detector as the crate's component. Natively it does nothing.
///
/// The crate's type must be `cdylib` (and `rlib`, to be tested natively); one detector a crate.
#[macro_export]
macro_rules! export {
    ($detector:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: ::std::cell::RefCell<$crate::guest::Instance<$detector>> = ::std::cell::RefCell::default();
            }

            struct Component;

            impl $crate::guest::Guest for Component {
                fn describe() -> $crate::guest::Descriptor {
                    $crate::guest::Instance::<$detector>::describe()
                }

                fn open(parameters: ::std::vec::Vec<u8>) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with_borrow_mut(|instance| instance.open(&parameters))
                }

                fn process_elements(
                    context: $crate::guest::Context,
                    elements: $crate::guest::Elements,
                ) -> ::std::result::Result<u32, $crate::guest::Failure> {
                    INSTANCE.with_borrow_mut(|instance| instance.process_elements(&context, &elements))
                }

                fn on_timers(
                    context: $crate::guest::Context,
                    timers: $crate::guest::Timers,
                ) -> ::std::result::Result<u32, $crate::guest::Failure> {
                    INSTANCE.with_borrow_mut(|instance| instance.on_timers(&context, &timers))
                }

                fn process_broadcast_elements(
                    context: $crate::guest::Context,
                    elements: $crate::guest::Elements,
                ) -> ::std::result::Result<u32, $crate::guest::Failure> {
                    INSTANCE.with_borrow_mut(|instance| instance.process_broadcast_elements(&context, &elements))
                }
            }

    $crate::guest::export_component!(Component with_types_in $crate::guest::bindings);
        };

        // Natively too, so that a type that cannot be exported is found by a plain `cargo check`.
        const _: fn() = || {
            fn is_detector<D: $crate::KeyedProcessFunction>() {}
            is_detector::<$detector>();
        };
    };
}
