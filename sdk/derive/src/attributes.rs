//! The serde attributes of a type, a variant or a field.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, ExprPath, LitStr, Token};

use crate::rename::Rule;

/// What `#[serde(..)]` says.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) rename: Option<String>,
    pub(crate) rename_all: Option<Rule>,
    pub(crate) rename_all_fields: Option<Rule>,
    pub(crate) aliases: Vec<String>,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) skip: bool,
    pub(crate) transparent: bool,
}

/// Where a missing value comes from.
pub(crate) enum DefaultValue {
    /// `Default::default()`.
    Trait,
    /// A function.
    Path(ExprPath),
}

impl Attributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| parsed.add(&meta))?;
        }
        Ok(parsed)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "rename" => self.rename = Some(text(meta)?.value()),
            "rename_all" => self.rename_all = Some(Rule::parse(&text(meta)?)?),
            "rename_all_fields" => self.rename_all_fields = Some(Rule::parse(&text(meta)?)?),
            "alias" => self.aliases.push(text(meta)?.value()),
            "default" if meta.input.peek(Token![=]) => self.default = Some(DefaultValue::Path(text(meta)?.parse()?)),
            "default" => self.default = Some(DefaultValue::Trait),
            "skip" => self.skip = true,
            "transparent" => self.transparent = true,
            "borrow" | "bound" | "crate" | "expecting" => {
                if meta.input.peek(Token![=]) {
                    text(meta)?;
                }
            }
            _ => return Err(meta.error(refusal(&name))),
        }
        Ok(())
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    if !meta.input.peek(Token![=]) {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        return Err(meta.error(format!("write `{name} = \"..\"`: the same in both directions")));
    }
    meta.value()?.parse()
}

/// Why an attribute cannot be honoured, and what to do instead.
fn refusal(name: &str) -> String {
    let advice = match name {
        "flatten" => "give the struct the fields themselves, or nest it under a name",
        "tag" | "content" | "untagged" | "other" => "enums are tagged by their variant's name; leave the attribute out",
        "skip_serializing" | "skip_deserializing" | "skip_serializing_if" => {
            "a field is there in both directions or in none: use an Option, or `skip`"
        }
        "with" | "serialize_with" | "deserialize_with" | "from" | "into" | "try_from" | "remote" | "getter" => {
            "the schema could not say what is written: convert in the detector, or wrap the type and implement Schema by hand"
        }
        "deny_unknown_fields" => "fields that the type does not have are left out before the detector sees a record",
        _ => "leave it out",
    };
    format!("Schema does not support serde's `{name}`: {advice}")
}
