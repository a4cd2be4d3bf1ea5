//! `#[derive(Schema)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, GenericParam, Generics, Lifetime, Token, Type, parse_quote};

use crate::attributes::{Attributes, DefaultValue};
use crate::rename::Rule;

pub(crate) fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let attributes = Attributes::parse(&input.attrs)?;
    let shape = match &input.data {
        Data::Struct(data) => struct_shape(&data.fields, &attributes)?,
        Data::Enum(data) => enum_shape(data, &attributes)?,
        Data::Union(_) => return Err(Error::new_spanned(&input.ident, "a union has no schema: use an enum")),
    };
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::tidemill_sdk::Schema));
    }
    let name = &input.ident;
    let shown = attributes.rename.unwrap_or_else(|| name.unraw().to_string());
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let at = Lifetime::new("'tidemill_at", proc_macro2::Span::call_site());
    let at_generics = with_lifetimes(&input.generics, &at);
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::tidemill_sdk::Schema for #name #type_generics #where_clause {
            type At<#at> = #name #at_generics;

            fn schema(builder: &mut ::tidemill_sdk::expansion::TableBuilder) -> ::tidemill_sdk::expansion::Type {
                ::tidemill_sdk::expansion::named_type(builder, ::std::any::type_name::<Self>(), #shown, #shape)
            }
        }
    })
}

/// The generic arguments of a type with all lifetimes replaced.
fn with_lifetimes(generics: &Generics, at: &Lifetime) -> TokenStream {
    let arguments: Vec<TokenStream> = generics
        .params
        .iter()
        .map(|parameter| match parameter {
            GenericParam::Lifetime(_) => quote!(#at),
            GenericParam::Type(parameter) => {
                let name = &parameter.ident;
                quote!(#name)
            }
            GenericParam::Const(parameter) => {
                let name = &parameter.ident;
                quote!(#name)
            }
        })
        .collect();
    if arguments.is_empty() { TokenStream::new() } else { quote!(<#(#arguments),*>) }
}

fn struct_shape(fields: &Fields, attributes: &Attributes) -> syn::Result<TokenStream> {
    let kept = kept(fields)?;
    if let Some(field) = kept.first().filter(|_| attributes.transparent && kept.len() == 1) {
        let ty = described(&field.field.ty);
        return Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Newtype(#ty)));
    }
    match fields {
        Fields::Named(_) => {
            let fields = named_fields(&kept, attributes.rename_all, attributes.default.as_ref())?;
            Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Struct(#fields)))
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 && kept.len() == 1 => {
            let ty = tuple_types(&kept);
            Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Newtype(#(#ty)*)))
        }
        Fields::Unnamed(_) => {
            let types = tuple_types(&kept);
            Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Tuple(&[#(#types),*])))
        }
        Fields::Unit => Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Newtype(<() as ::tidemill_sdk::Schema>::schema))),
    }
}

fn enum_shape(data: &DataEnum, attributes: &Attributes) -> syn::Result<TokenStream> {
    let mut variants = Vec::new();
    for variant in &data.variants {
        let own = Attributes::parse(&variant.attrs)?;
        if own.skip {
            let message = "a variant cannot be skipped, since that would renumber the others: leave it out, or do not make one";
            return Err(Error::new_spanned(variant, message));
        }
        let name = own.rename.unwrap_or_else(|| {
            let name = variant.ident.unraw().to_string();
            attributes.rename_all.map_or_else(|| name.clone(), |rule| rule.variant(&name))
        });
        let aliases = own.aliases;
        let content = content(&variant.fields, own.rename_all.or(attributes.rename_all_fields))?;
        variants.push(quote! {
            ::tidemill_sdk::expansion::VariantOf {
                name: #name,
                aliases: &[#(#aliases),*],
                content: ::tidemill_sdk::expansion::ContentOf::#content,
            }
        });
    }
    Ok(quote!(::tidemill_sdk::expansion::ShapeOf::Enum(&[#(#variants),*])))
}

fn content(fields: &Fields, rule: Option<Rule>) -> syn::Result<TokenStream> {
    let kept = kept(fields)?;
    let types = tuple_types(&kept);
    match fields {
        Fields::Unit => Ok(quote!(Unit)),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 && kept.len() == 1 => Ok(quote!(Newtype(#(#types)*))),
        Fields::Unnamed(_) => Ok(quote!(Tuple(&[#(#types),*]))),
        Fields::Named(_) => {
            let fields = named_fields(&kept, rule, None)?;
            Ok(quote!(Struct(#fields)))
        }
    }
}

/// A field that is serialized.
struct Kept<'a> {
    field: &'a syn::Field,
    attributes: Attributes,
}

fn kept(fields: &Fields) -> syn::Result<Vec<Kept<'_>>> {
    let mut kept = Vec::new();
    for field in fields {
        let attributes = Attributes::parse(&field.attrs)?;
        if !attributes.skip {
            kept.push(Kept { field, attributes });
        }
    }
    Ok(kept)
}

fn tuple_types(kept: &[Kept<'_>]) -> Vec<TokenStream> {
    kept.iter().map(|kept| described(&kept.field.ty)).collect()
}

/// The function that describes a type.
fn described(ty: &Type) -> TokenStream {
    quote!(<#ty as ::tidemill_sdk::Schema>::schema)
}

fn named_fields(kept: &[Kept<'_>], rule: Option<Rule>, container: Option<&DefaultValue>) -> syn::Result<TokenStream> {
    let mut fields: Punctuated<TokenStream, Token![,]> = Punctuated::new();
    for Kept { field, attributes } in kept {
        let Some(ident) = &field.ident else { return Err(Error::new_spanned(field, "expected a named field")) };
        let name = attributes.rename.clone().unwrap_or_else(|| {
            let name = ident.unraw().to_string();
            rule.map_or_else(|| name.clone(), |rule| rule.field(&name))
        });
        let (ty, described, aliases) = (&field.ty, described(&field.ty), &attributes.aliases);
        let default = match (&attributes.default, container) {
            (Some(DefaultValue::Trait), _) => Some(quote!({ let value: #ty = ::std::default::Default::default(); value })),
            (Some(DefaultValue::Path(path)), _) => Some(quote!({ let value: #ty = #path(); value })),
            // The default of the whole struct, whose fields are the defaults of its fields.
            (None, Some(DefaultValue::Trait)) => Some(quote!(<Self as ::std::default::Default>::default().#ident)),
            (None, Some(DefaultValue::Path(path))) => Some(quote!({ let whole: Self = #path(); whole.#ident })),
            (None, None) => None,
        };
        let default = match default {
            Some(value) => quote!(::std::option::Option::Some(|| ::tidemill_sdk::expansion::default_bytes(&#value))),
            None => quote!(::std::option::Option::None),
        };
        fields.push(quote! {
            ::tidemill_sdk::expansion::FieldOf {
                name: #name,
                aliases: &[#(#aliases),*],
                ty: #described,
                default: #default,
            }
        });
    }
    Ok(quote!(&[#fields]))
}
