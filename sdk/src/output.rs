//! Side outputs.

use std::marker::PhantomData;

use tidemill_wit::descriptor::{Descriptor, LaneDescriptor};

use crate::detector::{FieldOptions, Handle, Ids};
use crate::schema::table_of;
use crate::{AnyContext, Schema};

/// A second output, named by its field (or `#[output(name = "..")]`). For a type that borrows write `SideOutput<Line<'static>>`; what is
/// emitted may then have any lifetime.
pub struct SideOutput<T> {
    lane: u8,
    record: PhantomData<fn(&T)>,
}

impl<T: Schema> SideOutput<T> {
    /// Emits a record on this lane, with the timestamp that a record of the main lane would have.
    #[inline]
    pub fn emit<'b>(&self, ctx: &mut impl AnyContext<'b>, record: &T::At<'_>) {
        ctx.core().emit(self.lane, record);
    }
}

impl<T: Schema> Handle for SideOutput<T> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.lanes.push(LaneDescriptor { name: options.name.to_owned(), schema: table_of::<T>() });
    }

    fn create(_: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { lane: ids.lane(), record: PhantomData })
    }
}
