//! A detector's parameters.

use std::ops::Deref;

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::Descriptor;

use crate::Schema;
use crate::detector::{FieldOptions, Handle, Ids};
use crate::encode::type_name;
use crate::schema::table_of;

/// The parameters of the job spec as a typed struct; its fields are read directly. `#[serde(default = "..")]` makes one optional.
#[derive(Clone, Debug)]
pub struct Parameters<P>(P);

impl<P> Deref for Parameters<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.0
    }
}

impl<P: Schema + DeserializeOwned> Handle for Parameters<P> {
    fn describe(_: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.parameters = table_of::<P>();
    }

    fn create(_: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        let decoded = postcard::from_bytes(ids.parameters());
        decoded.map(Self).map_err(|error| format!("the parameters do not decode as {}: {error}", type_name::<P>()))
    }
}
