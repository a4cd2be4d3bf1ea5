//! Reference tables.

use std::borrow::Borrow;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, TableDescriptor};

use crate::detector::{FieldOptions, Handle, Ids};
use crate::encode::type_name;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema, ordered};

/// Immutable rows `R`, looked up by key `K`. The job spec gives the table, named by its field (or `#[table(name = "..")]`), a file; its key
/// columns make the key in their order, the other columns are found by the names of `R`'s fields. With `#[table(optional)]` the job spec may leave
/// the table out: it is then empty.
pub struct Table<K, R> {
    name: &'static str,
    table: u8,
    types: PhantomData<fn(&K) -> R>,
}

impl<K: Schema, R: Schema + DeserializeOwned> Table<K, R> {
    /// The row with this key; `None` if there is none. Every call asks the host, so keep what is needed often in a state.
    ///
    /// # Errors
    /// The row does not decode.
    pub fn get<D, Q>(&self, ctx: &mut Context<'_, D>, key: &Q) -> Result<Option<R>, Failure>
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let mut bytes = Vec::new();
        ordered::append(key, &mut bytes)
            .map_err(|error| Failure::Fatal(format!("a key of table {} does not encode: {error}", self.name)))?;
        let Some(row) = ctx.core.host.lookup(self.table, &bytes) else { return Ok(None) };
        let decoded = postcard::from_bytes(&row);
        decoded
            .map(Some)
            .map_err(|error| Failure::Fatal(format!("a row of table {} does not decode as {}: {error}", self.name, type_name::<R>())))
    }
}

impl<K: Schema, R: Schema + DeserializeOwned> Handle for Table<K, R> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        let FieldOptions { name, optional, .. } = *options;
        let table = TableDescriptor { name: name.to_owned(), row: table_of::<R>(), key: table_of::<K>(), optional };
        descriptor.tables.push(table);
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { name: options.name, table: ids.table(), types: PhantomData })
    }
}
