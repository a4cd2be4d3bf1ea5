//! `#[derive(Detector)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Type};

/// Ids are one byte wide.
const MOST_FIELDS: usize = 200;

pub(crate) fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields_of(input)?;
    let Options { name, version, broadcast } = options(input)?;
    check_broadcast(&fields, broadcast)?;
    let detector = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let handles = || fields.iter().filter(|field| !field.skip);
    let (types, idents): (Vec<_>, Vec<_>) = handles().map(|field| (field.ty, field.ident)).unzip();
    let options: Vec<_> = handles().map(HandleField::options).collect();
    let skipped = fields.iter().filter(|field| field.skip).map(|field| field.ident);
    let states = handles().filter(|field| field.kind == Some(Kind::State)).map(|field| field.ty);
    let takes_broadcast = broadcast.then(|| {
        quote! {
            fn broadcast() -> ::std::option::Option<::tidemill_sdk::expansion::BroadcastInput<Self>> {
                ::std::option::Option::Some(::std::default::Default::default())
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::tidemill_sdk::Detector for #detector #type_generics #where_clause {
            const NAME: &'static str = #name;
            const VERSION: &'static str = #version;

            fn describe(descriptor: &mut ::tidemill_sdk::expansion::Descriptor) {
                #(::tidemill_sdk::expansion::is_state::<#states>();)*
                #(<#types as ::tidemill_sdk::expansion::Handle>::describe(&#options, descriptor);)*
            }

            #takes_broadcast

            fn create(ids: &mut ::tidemill_sdk::expansion::Ids<'_>) -> ::std::result::Result<Self, ::std::string::String> {
                ::std::result::Result::Ok(Self {
                    #(#idents: <#types as ::tidemill_sdk::expansion::Handle>::create(&#options, ids)?,)*
                    #(#skipped: ::std::default::Default::default(),)*
                })
            }

            fn begin(&mut self, slots: usize) {
                #(::tidemill_sdk::expansion::Handle::begin(&mut self.#idents, slots);)*
            }

            fn finish(
                &mut self,
                writes: &mut ::tidemill_sdk::expansion::Writes,
            ) -> ::std::result::Result<(), ::tidemill_sdk::Failure> {
                #(::tidemill_sdk::expansion::Handle::finish(&mut self.#idents, writes)?;)*
                ::std::result::Result::Ok(())
            }
        }
    })
}

/// A field of the detector.
struct HandleField<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    skip: bool,
    /// By its attribute, or by its type's name where that is known.
    kind: Option<Kind>,
    name: LitStr,
    ttl: Option<i64>,
    on_read: bool,
    optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    State,
    Broadcast,
    Output,
    Table,
    Parameters,
}

impl HandleField<'_> {
    fn options(&self) -> TokenStream {
        let (name, optional, ttl) = (&self.name, self.optional, self.ttl.map_or_else(|| quote!(None), |ttl| quote!(Some(#ttl))));
        let update = if self.on_read { quote!(OnReadAndWrite) } else { quote!(OnCreateAndWrite) };
        quote! {
            ::tidemill_sdk::expansion::FieldOptions {
                name: #name,
                ttl: ::std::option::Option::#ttl,
                ttl_update: ::tidemill_sdk::expansion::TtlUpdate::#update,
                optional: #optional,
            }
        }
    }

    fn add(&mut self, kind: Kind, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let broadcast = self.kind == Some(Kind::Broadcast);
        if !broadcast {
            self.kind = Some(kind);
        }
        let state = kind == Kind::State && !broadcast;
        if meta.path.is_ident("name") {
            self.name = meta.value()?.parse()?;
        } else if state && meta.path.is_ident("ttl") {
            self.ttl = Some(millis(&meta.value()?.parse()?)?);
        } else if state && meta.path.is_ident("ttl_update") {
            let update: LitStr = meta.value()?.parse()?;
            self.on_read = match update.value().as_str() {
                "on_read_and_write" => true,
                "on_create_and_write" => false,
                _ => return Err(Error::new(update.span(), "use \"on_create_and_write\" or \"on_read_and_write\"")),
            };
        } else if kind == Kind::Table && meta.path.is_ident("optional") {
            self.optional = true;
        } else if broadcast {
            return Err(meta.error("a broadcast state has the option `name`, and no time to live"));
        } else if state {
            return Err(meta.error("a state has the options `name`, `ttl` and `ttl_update`"));
        } else if kind == Kind::Table {
            return Err(meta.error("a table has the options `name` and `optional`"));
        } else {
            return Err(meta.error("the only option here is `name`"));
        }
        Ok(())
    }
}

fn fields_of(input: &DeriveInput) -> syn::Result<Vec<HandleField<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "a detector is a struct whose fields are handles"));
    };
    let fields = match &data.fields {
        Fields::Named(fields) => fields.named.iter().map(field_of).collect::<syn::Result<Vec<_>>>()?,
        Fields::Unit => Vec::new(),
        Fields::Unnamed(_) => {
            return Err(Error::new_spanned(&input.ident, "a detector needs named fields, since states are stored under their names"));
        }
    };
    if fields.len() > MOST_FIELDS {
        return Err(Error::new_spanned(&input.ident, format!("a detector has at most {MOST_FIELDS} fields")));
    }
    unique(&fields)?;
    Ok(fields)
}

fn field_of(field: &Field) -> syn::Result<HandleField<'_>> {
    let Some(ident) = &field.ident else { return Err(Error::new_spanned(field, "expected a named field")) };
    let name = LitStr::new(&ident.unraw().to_string(), ident.span());
    let mut parsed =
        HandleField { ident, ty: &field.ty, skip: false, kind: kind_of(&field.ty), name, ttl: None, on_read: false, optional: false };
    for attribute in &field.attrs {
        let path = attribute.path();
        if path.is_ident("detector") {
            attribute.parse_nested_meta(|meta| {
                parsed.skip = true;
                if meta.path.is_ident("skip") { Ok(()) } else { Err(meta.error("the only option here is `skip`")) }
            })?;
        } else if path.is_ident("state") {
            attribute.parse_nested_meta(|meta| parsed.add(Kind::State, &meta))?;
        } else if path.is_ident("output") {
            attribute.parse_nested_meta(|meta| parsed.add(Kind::Output, &meta))?;
        } else if path.is_ident("table") {
            attribute.parse_nested_meta(|meta| parsed.add(Kind::Table, &meta))?;
        }
    }
    Ok(parsed)
}

/// The kind of a handle by the last name of its type's path: for messages, not for meaning.
fn kind_of(ty: &Type) -> Option<Kind> {
    let Type::Path(path) = ty else { return None };
    match path.path.segments.last()?.ident.to_string().as_str() {
        "ValueState" | "ListState" | "MapState" | "ReducingState" | "AggregatingState" | "WindowState" | "ReducingWindows"
        | "AggregatingWindows" | "FullWindows" => Some(Kind::State),
        "BroadcastState" => Some(Kind::Broadcast),
        "SideOutput" => Some(Kind::Output),
        "Table" => Some(Kind::Table),
        "Parameters" => Some(Kind::Parameters),
        _ => None,
    }
}

fn unique(fields: &[HandleField<'_>]) -> syn::Result<()> {
    let handles = || fields.iter().filter(|field| !field.skip);
    for (at, field) in handles().enumerate() {
        let Some(kind) = field.kind else { continue };
        if kind == Kind::Output && field.name.value() == "main" {
            let message = "`main` is the lane of `Output`: name the side output otherwise, by its field or #[output(name = \"..\")]";
            return Err(Error::new(field.name.span(), message));
        }
        for other in handles().take(at).filter(|other| other.kind == Some(kind)) {
            if kind == Kind::Parameters {
                return Err(Error::new_spanned(
                    field.ty,
                    "a detector has one field of type Parameters: put all parameters into its struct",
                ));
            }
            if other.name.value() == field.name.value() {
                let message = format!("the name `{}` is taken by the field `{}`", field.name.value(), other.ident);
                return Err(Error::new(field.name.span(), message));
            }
        }
    }
    Ok(())
}

/// Broadcast state is written by broadcast records only, so it needs such an input.
fn check_broadcast(fields: &[HandleField<'_>], broadcast: bool) -> syn::Result<()> {
    let state = fields.iter().find(|field| !field.skip && field.kind == Some(Kind::Broadcast));
    match state {
        Some(state) if !broadcast => Err(Error::new_spanned(
            state.ty,
            "mark the detector #[detector(broadcast)] and implement KeyedBroadcastProcessFunction: a broadcast state is written by its records",
        )),
        _ => Ok(()),
    }
}

/// What the attributes of the detector say.
struct Options {
    name: TokenStream,
    version: TokenStream,
    broadcast: bool,
}

fn options(input: &DeriveInput) -> syn::Result<Options> {
    let (mut name, mut version) = (quote!(::std::env!("CARGO_PKG_NAME")), quote!(::std::env!("CARGO_PKG_VERSION")));
    let mut broadcast = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("detector")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("broadcast") {
                broadcast = true;
                return Ok(());
            }
            let target = if meta.path.is_ident("name") {
                &mut name
            } else if meta.path.is_ident("version") {
                &mut version
            } else {
                return Err(meta.error("a detector has the options `name`, `version` and `broadcast`"));
            };
            let text: LitStr = meta.value()?.parse()?;
            *target = quote!(#text);
            Ok(())
        })?;
    }
    Ok(Options { name, version, broadcast })
}

/// Milliseconds of a duration such as `30m`.
fn millis(text: &LitStr) -> syn::Result<i64> {
    let value = text.value();
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let millis = number.parse::<i64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit)).filter(|&millis| millis > 0);
    millis.ok_or_else(|| refused(text.span(), &value))
}

fn refused(span: Span, value: &str) -> Error {
    Error::new(span, format!("`{value}` is not a time to live: write a whole number above 0 and a unit, ms, s, m, h or d, such as \"3d\""))
}
