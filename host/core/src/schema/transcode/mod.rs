//! Values of one type into values of another: what a new version of a component does to old state.
//!
//! Fields and variants are matched by name, then by the new type's aliases. An added field takes its declared default, or none if it is an
//! option; a removed field is dropped; integers may be widened; a T may become an option of T. Any other change is a [`Mismatch`].

use std::fmt;

use tidemill_wit::schema::{Type, TypeTable};

use super::scalar::{Int, count, flag, put_varint, varint};
use super::walk::{self, MAX_DEPTH, deeper, finished, no_variant};

mod plan;

/// Turns values of one type into values of another.
#[derive(Clone, Debug)]
pub struct Transcoder {
    from: TypeTable,
    root: Op,
    plans: Vec<Plan>,
    identity: bool,
}

/// A change of type that values cannot follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The field, like `lines[].qty`; empty for the whole value.
    pub path: String,
    /// The old type.
    pub from: String,
    /// The new type.
    pub to: String,
    /// What is wrong, as a sentence about the path.
    pub reason: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "the value".to_owned() } else { format!("field `{}`", self.path) };
        write!(f, "{place}: {} (old type {}, new type {})", self.reason, self.from, self.to)
    }
}

impl std::error::Error for Mismatch {}

impl Transcoder {
    /// A transcoder from one type to another.
    ///
    /// # Errors
    /// The first change that values cannot follow.
    pub fn new(from: &TypeTable, to: &TypeTable) -> Result<Self, Mismatch> {
        let (root, plans) = plan::compile(from, to)?;
        let identity = plan::copies(&root, &plans);
        Ok(Self { from: from.clone(), root, plans, identity })
    }

    /// Whether every value stays as it is, byte for byte.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.identity
    }

    /// Appends the new form of a value.
    ///
    /// # Errors
    /// The bytes are not a value of the old type; `out` is as before.
    pub fn transcode(&self, from: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if self.identity {
            walk::check(&self.from, from)?;
            out.extend_from_slice(from);
            return Ok(());
        }
        let (start, mut input) = (out.len(), from);
        let result = self.run(&self.root, &mut input, out, MAX_DEPTH).and_then(|()| finished(input));
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn run(&self, op: &Op, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match op {
            Op::Copy(ty) => self.copy(ty, input, out),
            Op::Widen(from, to) => {
                let value = from.take(input)?;
                to.put(out, value);
                Ok(())
            }
            Op::Wrap(op) => {
                out.push(1);
                self.run(op, input, out, deeper(depth)?)
            }
            Op::Option(op) => {
                let present = flag(input)?;
                out.push(u8::from(present));
                if present { self.run(op, input, out, deeper(depth)?) } else { Ok(()) }
            }
            Op::List(ops) => {
                let (items, depth) = (count(input)?, deeper(depth)?);
                put_varint(out, items as u64);
                (0..items).try_for_each(|_| self.all(ops, input, out, depth))
            }
            Op::Tuple(ops) => self.all(ops, input, out, deeper(depth)?),
            Op::Named(index) => match self.plans.get(*index) {
                Some(Plan::Struct(plan)) => self.fields(plan, input, out, deeper(depth)?),
                Some(Plan::Enum(variants)) => self.variant(variants, input, out, deeper(depth)?),
                None => Err("the plan has no such type".to_owned()),
            },
        }
    }

    fn all(&self, ops: &[Op], input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        ops.iter().try_for_each(|op| self.run(op, input, out, depth))
    }

    fn copy(&self, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let whole = *input;
        walk::skip(&self.from, ty, input)?;
        out.extend_from_slice(whole.get(..whole.len() - input.len()).unwrap_or_default());
        Ok(())
    }

    fn fields(&self, plan: &Fields, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        let mut values = Vec::with_capacity(plan.from.len());
        for ty in &plan.from {
            values.push(*input);
            walk::skip(&self.from, ty, input)?;
        }
        plan.to.iter().try_for_each(|field| match field {
            FieldOp::From(index, op) => self.run(op, &mut values.get(*index).copied().unwrap_or_default(), out, depth),
            FieldOp::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
        })
    }

    fn variant(&self, variants: &[(u32, Content)], input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        let code = varint(input, 32)?;
        let variant = usize::try_from(code).ok().and_then(|index| variants.get(index));
        let (index, content) = variant.ok_or_else(|| no_variant(code, variants.len()))?;
        put_varint(out, u64::from(*index));
        match content {
            Content::Items(ops) => self.all(ops, input, out, depth),
            Content::Fields(plan) => self.fields(plan, input, out, depth),
        }
    }
}

/// What to do with a value.
#[derive(Clone, Debug)]
enum Op {
    /// The same bytes; the old type tells their end.
    Copy(Type),
    Widen(Int, Int),
    /// A value becomes an option that holds it.
    Wrap(Box<Op>),
    Option(Box<Op>),
    /// A list's items, or a map's keys and values.
    List(Vec<Op>),
    Tuple(Vec<Op>),
    /// A plan, by index: types may be recursive.
    Named(usize),
}

#[derive(Clone, Debug)]
enum Plan {
    Struct(Fields),
    /// The new index and the content, by old index.
    Enum(Vec<(u32, Content)>),
}

#[derive(Clone, Debug)]
enum Content {
    Items(Vec<Op>),
    Fields(Fields),
}

/// The types of the old fields, and where each new field comes from.
#[derive(Clone, Debug, Default)]
struct Fields {
    from: Vec<Type>,
    to: Vec<FieldOp>,
}

#[derive(Clone, Debug)]
enum FieldOp {
    From(usize, Op),
    Bytes(Vec<u8>),
}

#[cfg(test)]
mod tests;
