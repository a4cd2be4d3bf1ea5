//! Comparing two types: the plan of a [`Transcoder`](super::Transcoder), or the reason why there is none.

use tidemill_wit::schema::{self, Field, Shape, Type, TypeTable, Variant};

use super::super::changes::{alias_hint, renamed_from};
use super::super::describe::describe_type;
use super::super::scalar::Int;
use super::super::walk::{shape, through_newtypes};
use super::{Content, FieldOp, Fields, Mismatch, Op, Plan};

/// How many pairs of named types a plan may have, and how deep they may be nested. Tables come from guests, so the work must have an end.
const MAX_PAIRS: usize = 1_024;
const MAX_NESTING: usize = 256;

/// The plan for the roots of two tables.
///
/// # Errors
/// The first change that values cannot follow.
pub(super) fn compile(from: &TypeTable, to: &TypeTable) -> Result<(Op, Vec<Plan>), Mismatch> {
    let mut compiler = Compiler { from, to, pairs: Vec::new(), plans: Vec::new(), path: Vec::new() };
    let root = compiler.op(&from.root, &to.root)?;
    Ok((root, compiler.plans))
}

/// Whether an operation copies every value, byte for byte. Types that refer to each other copy if nothing in any of them does not.
pub(super) fn copies(root: &Op, plans: &[Plan]) -> bool {
    let mut copying: Vec<bool> = vec![true; plans.len()];
    loop {
        let next: Vec<bool> = plans.iter().map(|plan| plan_copies(plan, &copying)).collect();
        if next == copying {
            return op_copies(root, &copying);
        }
        copying = next;
    }
}

fn plan_copies(plan: &Plan, copying: &[bool]) -> bool {
    match plan {
        Plan::Struct(fields) => fields_copy(fields, copying),
        Plan::Enum(variants) => variants.iter().enumerate().all(|(old, (new, content))| {
            u32::try_from(old) == Ok(*new)
                && match content {
                    Content::Items(ops) => ops.iter().all(|op| op_copies(op, copying)),
                    Content::Fields(fields) => fields_copy(fields, copying),
                }
        }),
    }
}

fn fields_copy(fields: &Fields, copying: &[bool]) -> bool {
    fields.from.len() == fields.to.len()
        && fields.to.iter().enumerate().all(|(new, field)| matches!(field, FieldOp::From(old, op) if *old == new && op_copies(op, copying)))
}

fn op_copies(op: &Op, copying: &[bool]) -> bool {
    match op {
        Op::Copy(_) => true,
        Op::Widen(..) | Op::Wrap(_) => false,
        Op::Option(op) => op_copies(op, copying),
        Op::List(ops) | Op::Tuple(ops) => ops.iter().all(|op| op_copies(op, copying)),
        Op::Named(index) => copying.get(*index).copied().unwrap_or(false),
    }
}

struct Compiler<'a> {
    from: &'a TypeTable,
    to: &'a TypeTable,
    /// The named types that each plan is for; a plan is found here while it is being made.
    pairs: Vec<(u32, u32)>,
    plans: Vec<Plan>,
    path: Vec<String>,
}

impl<'a> Compiler<'a> {
    fn op(&mut self, from: &'a Type, to: &'a Type) -> Result<Op, Mismatch> {
        let (from, to) = (through_newtypes(self.from, from), through_newtypes(self.to, to));
        match (from, to) {
            (Type::Option(old), Type::Option(new)) => Ok(Op::Option(Box::new(self.op(old, new)?))),
            (_, Type::Option(new)) => Ok(Op::Wrap(Box::new(self.op(from, new)?))),
            (Type::List(old), Type::List(new)) => Ok(Op::List(vec![self.inside("[]", |this| this.op(old, new))?])),
            (Type::Map(old_key, old), Type::Map(new_key, new)) => {
                let key = self.inside("{key}", |this| this.op(old_key, new_key))?;
                Ok(Op::List(vec![key, self.inside("{}", |this| this.op(old, new))?]))
            }
            (Type::Tuple(old), Type::Tuple(new)) if old.len() == new.len() => Ok(Op::Tuple(self.items(old, new)?)),
            (Type::Named(old), Type::Named(new)) => self.named(*old, *new),
            (Type::Named(_), _) | (_, Type::Named(_)) => Err(self.mismatch(from, to, "the type has changed")),
            (Type::Duration, _) | (_, Type::Duration) if from != to => Err(self.mismatch(from, to, "the type has changed")),
            _ if from == to => Ok(Op::Copy(from.clone())),
            _ => match (Int::of(from), Int::of(to)) {
                (Some(old), Some(new)) if old.fits(new) => Ok(widen(from, old, new)),
                (Some(_), Some(_)) => Err(self.mismatch(from, to, "the new type does not hold every integer of the old one")),
                _ => Err(self.mismatch(from, to, "the type has changed")),
            },
        }
    }

    fn named(&mut self, old: u32, new: u32) -> Result<Op, Mismatch> {
        if let Some(index) = self.pairs.iter().position(|pair| *pair == (old, new)) {
            return Ok(Op::Named(index));
        }
        let index = self.pairs.len();
        if index >= MAX_PAIRS || self.path.len() >= MAX_NESTING {
            return Err(self.mismatch(&Type::Named(old), &Type::Named(new), "the types are too large to be compared"));
        }
        self.pairs.push((old, new));
        self.plans.push(Plan::Struct(Fields::default()));
        let plan = match (shape(self.from, old), shape(self.to, new)) {
            (Ok(Shape::Struct(from)), Ok(Shape::Struct(to))) => Plan::Struct(self.fields(from, to)?),
            (Ok(Shape::Enum(from)), Ok(Shape::Enum(to))) => Plan::Enum(self.variants((old, from), (new, to))?),
            _ => return Err(self.mismatch(&Type::Named(old), &Type::Named(new), "the type has changed")),
        };
        if let Some(place) = self.plans.get_mut(index) {
            *place = plan;
        }
        Ok(Op::Named(index))
    }

    fn fields(&mut self, from: &'a [Field], to: &'a [Field]) -> Result<Fields, Mismatch> {
        let mut ops = Vec::with_capacity(to.len());
        for field in to {
            let index = from.iter().position(|old| old.name == field.name).or_else(|| {
                // An old field whose own name is still in use is not the one that an alias means.
                from.iter().position(|old| field.aliases.contains(&old.name) && !to.iter().any(|other| other.name == old.name))
            });
            let op = match index.and_then(|index| from.get(index).map(|old| (index, old))) {
                Some((index, old)) => FieldOp::From(index, self.inside(&format!(".{}", field.name), |this| this.op(&old.ty, &field.ty))?),
                None => match (&field.default, &field.ty) {
                    (Some(default), _) => FieldOp::Bytes(default.clone()),
                    (None, Type::Option(_)) => FieldOp::Bytes(vec![0]),
                    (None, ty) => return Err(self.added(field, ty, (from, to))),
                },
            };
            ops.push(op);
        }
        Ok(Fields { from: from.iter().map(|field| field.ty.clone()).collect(), to: ops })
    }

    fn variants(&mut self, (old, from): (u32, &'a [Variant]), (new, to): (u32, &'a [Variant])) -> Result<Vec<(u32, Content)>, Mismatch> {
        let mut plans = Vec::with_capacity(from.len());
        for variant in from {
            let index = to
                .iter()
                .position(|other| other.name == variant.name)
                .or_else(|| to.iter().position(|other| other.aliases.contains(&variant.name)));
            let found = index.and_then(|index| Some((u32::try_from(index).ok()?, to.get(index)?)));
            let Some((index, other)) = found else {
                let came: Vec<_> = to.iter().filter(|other| !from.iter().any(|old| old.name == other.name)).collect();
                let hint = match &*came {
                    [other] => alias_hint(&variant.name, &format!("`{}`", other.name)),
                    _ => String::new(),
                };
                return Err(self.mismatch(&Type::Named(old), &Type::Named(new), &format!("the variant `{}` is gone{hint}", variant.name)));
            };
            let content = self.inside(&format!(".{}", variant.name), |this| this.content((old, variant), (new, other)))?;
            plans.push((index, content));
        }
        Ok(plans)
    }

    fn content(&mut self, (old, from): (u32, &'a Variant), (new, to): (u32, &'a Variant)) -> Result<Content, Mismatch> {
        match (&from.content, &to.content) {
            (schema::Content::Unit, schema::Content::Unit) => Ok(Content::Items(Vec::new())),
            (schema::Content::Newtype(from), schema::Content::Newtype(to)) => Ok(Content::Items(vec![self.op(from, to)?])),
            (schema::Content::Tuple(from), schema::Content::Tuple(to)) if from.len() == to.len() => {
                Ok(Content::Items(self.items(from, to)?))
            }
            (schema::Content::Struct(from), schema::Content::Struct(to)) => Ok(Content::Fields(self.fields(from, to)?)),
            _ => Err(self.mismatch(&Type::Named(old), &Type::Named(new), "the content of the variant has changed")),
        }
    }

    fn items(&mut self, from: &'a [Type], to: &'a [Type]) -> Result<Vec<Op>, Mismatch> {
        from.iter().zip(to).enumerate().map(|(index, (from, to))| self.inside(&format!(".{index}"), |this| this.op(from, to))).collect()
    }

    fn inside<T>(&mut self, part: &str, work: impl FnOnce(&mut Self) -> Result<T, Mismatch>) -> Result<T, Mismatch> {
        self.path.push(part.to_owned());
        let result = work(self);
        self.path.pop();
        result
    }

    fn added(&mut self, field: &Field, ty: &Type, (from, to): (&[Field], &[Field])) -> Mismatch {
        let hint = renamed_from((self.from, from), (self.to, to), field).map_or_else(String::new, |old| alias_hint(old, "it"));
        self.path.push(format!(".{}", field.name));
        let mismatch = Mismatch {
            path: self.path(),
            from: "none".to_owned(),
            to: describe_type(self.to, ty),
            reason: format!("the new field has neither a default nor an option's type{hint}"),
        };
        self.path.pop();
        mismatch
    }

    fn mismatch(&self, from: &Type, to: &Type, reason: &str) -> Mismatch {
        Mismatch { path: self.path(), from: describe_type(self.from, from), to: describe_type(self.to, to), reason: reason.to_owned() }
    }

    fn path(&self) -> String {
        let path = self.path.concat();
        path.strip_prefix('.').unwrap_or(&path).to_owned()
    }
}

/// Integers of 16 bits or more are varints, which look the same at every width.
fn widen(ty: &Type, from: Int, to: Int) -> Op {
    if from.signed == to.signed && from.bits > 8 { Op::Copy(ty.clone()) } else { Op::Widen(from, to) }
}
