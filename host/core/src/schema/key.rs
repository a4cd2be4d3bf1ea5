//! Keys: fields of a value in the order-preserving encoding of [`tidemill_wit::key`].

use tidemill_wit::key::{ordered_f32, ordered_f64, put_bytes};
use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable};

use super::field::{Skip, fields_of, locate};
use super::same::same_types;
use super::scalar::{Int, blob, count, flag, float32, float64, signed_varint, string, varint};
use super::walk::{MAX_DEPTH, deeper, no_variant, shape, through_newtypes};

/// How many fields a key may have.
pub const MAX_KEY_FIELDS: usize = 16;

/// Picks the key fields out of encoded values and encodes them as a key. Allocates nothing per value.
#[derive(Clone, Debug)]
pub struct KeyEncoder {
    table: TypeTable,
    types: Vec<Type>,
    steps: Vec<Step>,
    in_order: bool,
}

impl KeyEncoder {
    /// The encoder of the key that consists of these fields (paths as in [`FieldPath`](super::FieldPath)), in this order.
    ///
    /// # Errors
    /// A field does not exist, is there twice, or cannot be part of a key.
    pub fn new(table: &TypeTable, key_by: &[String]) -> Result<Self, String> {
        if key_by.is_empty() || key_by.len() > MAX_KEY_FIELDS {
            return Err(format!("a key has from 1 to {MAX_KEY_FIELDS} fields, not {}", key_by.len()));
        }
        let paths: Vec<Vec<usize>> = key_by.iter().map(|path| locate(table, path)).collect::<Result<_, _>>()?;
        for (index, path) in paths.iter().enumerate() {
            if let Some(other) = paths.iter().take(index).position(|other| other.starts_with(path) || path.starts_with(other)) {
                let names = [other, index].map(|at| key_by.get(at).map_or("", String::as_str));
                return Err(format!("the key fields `{}` and `{}` are the same or overlap", names[0], names[1]));
            }
        }
        let types: Vec<Type> = paths.iter().map(|path| type_at(table, path)).collect();
        for (ty, name) in types.iter().zip(key_by) {
            key_type_allowed(table, ty).map_err(|reason| format!("field `{name}` cannot be part of a key: {reason}"))?;
        }
        let mut sorted = paths.clone();
        sorted.sort();
        let mut steps = Vec::new();
        plan(table, &table.root, &numbered(&paths), &mut steps);
        Ok(Self { table: table.clone(), types, steps, in_order: sorted == paths })
    }

    /// The type of the key: a tuple, or the bare type of a single field.
    #[must_use]
    pub fn key_type(&self) -> TypeTable {
        let root = match self.types.as_slice() {
            [single] => single.clone(),
            several => Type::Tuple(several.to_vec()),
        };
        TypeTable { types: self.table.types.clone(), root }
    }

    /// Appends the encoded key of a value. Bytes after the last key field are not looked at.
    ///
    /// # Errors
    /// The bytes are not a value of the type; `out` is as before.
    #[inline]
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let result = if self.in_order { self.stream(payload, out) } else { self.gather(payload, out) };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn stream(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let mut input = payload;
        self.steps.iter().try_for_each(|step| match step {
            Step::Skip(skip) => skip.run(&self.table, &mut input),
            Step::Take { ty, .. } => encode_key(&self.table, ty, &mut input, out),
        })
    }

    fn gather(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let (mut input, mut found) = (payload, [&[][..]; MAX_KEY_FIELDS]);
        for step in &self.steps {
            match step {
                Step::Skip(skip) => skip.run(&self.table, &mut input)?,
                Step::Take { slot, skip, .. } => {
                    if let Some(place) = found.get_mut(*slot) {
                        *place = input;
                    }
                    if let Some(skip) = skip {
                        skip.run(&self.table, &mut input)?;
                    }
                }
            }
        }
        self.types.iter().zip(found).try_for_each(|(ty, mut value)| encode_key(&self.table, ty, &mut value, out))
    }
}

/// Whether two key types encode the same keys: the same parts in the same order, where a type T is the same as a tuple (T,), and a struct
/// the same as a tuple.
#[must_use]
pub fn same_key(a: &TypeTable, b: &TypeTable) -> bool {
    same_types((a, &key_parts(a)), (b, &key_parts(b)))
}

/// Takes one value off the front of `input` and appends it in the order-preserving encoding.
///
/// # Errors
/// The bytes are not a value of the type, or the type cannot be part of a key.
#[inline]
pub fn encode_key(table: &TypeTable, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match ty {
        Type::I64 => {
            put_i64(out, signed_varint(input, 64)?);
            Ok(())
        }
        Type::String => {
            put_bytes(out, string(input)?.as_bytes());
            Ok(())
        }
        _ => Writer { table }.value(ty, input, out, MAX_DEPTH),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Skip(Skip),
    Take { slot: usize, ty: Type, skip: Option<Skip> },
}

type Numbered<'a> = Vec<(usize, &'a [usize])>;

fn numbered(paths: &[Vec<usize>]) -> Numbered<'_> {
    paths.iter().map(Vec::as_slice).enumerate().collect()
}

fn plan(table: &TypeTable, ty: &Type, wanted: &Numbered<'_>, steps: &mut Vec<Step>) {
    let last = wanted.iter().filter_map(|(_, path)| path.first()).max().copied().unwrap_or(0);
    for (index, field) in fields_of(table, ty).unwrap_or_default().iter().enumerate().take(last + 1) {
        let inside: Numbered<'_> = wanted
            .iter()
            .filter_map(|(slot, path)| path.split_first().filter(|(first, _)| **first == index).map(|(_, rest)| (*slot, rest)))
            .collect();
        match inside.as_slice() {
            [] => steps.extend(Skip::of(table, &field.ty).map(Step::Skip)),
            [(slot, [])] => {
                let ty = through_newtypes(table, &field.ty);
                steps.push(Step::Take { slot: *slot, ty: ty.clone(), skip: Skip::of(table, ty) });
            }
            // Other key fields may follow, so the struct must be gone through to its end.
            _ => plan_whole(table, &field.ty, &inside, steps),
        }
    }
}

fn plan_whole(table: &TypeTable, ty: &Type, wanted: &Numbered<'_>, steps: &mut Vec<Step>) {
    let last = wanted.iter().filter_map(|(_, path)| path.first()).max().copied().unwrap_or(0);
    plan(table, ty, wanted, steps);
    let rest = fields_of(table, ty).unwrap_or_default().iter().skip(last + 1);
    steps.extend(rest.filter_map(|field| Skip::of(table, &field.ty)).map(Step::Skip));
}

fn type_at(table: &TypeTable, path: &[usize]) -> Type {
    let mut ty = &table.root;
    for index in path {
        if let Some(field) = fields_of(table, ty).and_then(|fields| fields.get(*index)) {
            ty = &field.ty;
        }
    }
    ty.clone()
}

/// Checks that a type can be part of a key: it holds no map.
///
/// # Errors
/// It does.
pub fn key_type_allowed(table: &TypeTable, ty: &Type) -> Result<(), String> {
    let (mut seen, mut todo) = (vec![false; table.types.len()], vec![ty]);
    while let Some(ty) = todo.pop() {
        match ty {
            Type::Map(..) => return Err("maps have no order that could be kept".to_owned()),
            Type::Option(item) | Type::List(item) => todo.push(item),
            Type::Tuple(items) => todo.extend(items),
            Type::Named(index) => {
                if let Some(seen) = seen.get_mut(*index as usize).filter(|seen| !**seen) {
                    *seen = true;
                    todo.extend(parts_of(shape(table, *index)?));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn parts_of(shape: &Shape) -> Vec<&Type> {
    match shape {
        Shape::Struct(fields) => fields.iter().map(|field| &field.ty).collect(),
        Shape::Newtype(ty) => vec![ty],
        Shape::Enum(variants) => variants
            .iter()
            .flat_map(|variant| match &variant.content {
                Content::Unit => Vec::new(),
                Content::Newtype(ty) => vec![ty],
                Content::Tuple(items) => items.iter().collect(),
                Content::Struct(fields) => fields.iter().map(|field| &field.ty).collect(),
            })
            .collect(),
    }
}

fn key_parts(table: &TypeTable) -> Vec<&Type> {
    let mut ty = &table.root;
    for _ in 0..MAX_DEPTH {
        ty = through_newtypes(table, ty);
        let parts: Vec<&Type> = match (ty, fields_of(table, ty)) {
            (Type::Unit, _) => return Vec::new(),
            (Type::Tuple(items), _) => items.iter().collect(),
            (_, Some(fields)) => fields.iter().map(|field| &field.ty).collect(),
            _ => return vec![ty],
        };
        match parts.as_slice() {
            [single] => ty = single,
            _ => return parts,
        }
    }
    vec![ty]
}

struct Writer<'a> {
    table: &'a TypeTable,
}

impl Writer<'_> {
    fn value(&self, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match ty {
            Type::Unit => {}
            Type::Bool => out.push(u8::from(flag(input)?)),
            Type::I64 | Type::Duration => put_i64(out, signed_varint(input, 64)?),
            Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
                let int = Int::of(ty).unwrap_or(Int { signed: false, bits: 64 });
                put_int(out, int, int.take(input)?);
            }
            Type::F32 => out.extend_from_slice(&ordered_f32(float32(input)?).to_be_bytes()),
            Type::F64 => out.extend_from_slice(&ordered_f64(float64(input)?).to_be_bytes()),
            Type::String => put_bytes(out, string(input)?.as_bytes()),
            Type::Bytes => put_bytes(out, blob(input)?),
            Type::Option(_) | Type::List(_) | Type::Tuple(_) | Type::Named(_) | Type::Map(..) => {
                return self.compound(ty, input, out, deeper(depth)?);
            }
        }
        Ok(())
    }

    fn compound(&self, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match ty {
            Type::Option(item) => {
                let present = flag(input)?;
                out.push(u8::from(present));
                if present { self.value(item, input, out, depth) } else { Ok(()) }
            }
            Type::List(item) => {
                for _ in 0..count(input)? {
                    out.push(1);
                    self.value(item, input, out, depth)?;
                }
                out.push(0);
                Ok(())
            }
            Type::Tuple(items) => items.iter().try_for_each(|item| self.value(item, input, out, depth)),
            Type::Named(index) => self.named(shape(self.table, *index)?, input, out, depth),
            _ => Err("a map cannot be part of a key".to_owned()),
        }
    }

    fn named(&self, shape: &Shape, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match shape {
            Shape::Struct(fields) => self.fields(fields, input, out, depth),
            Shape::Newtype(ty) => self.value(ty, input, out, depth),
            Shape::Enum(variants) => {
                let code = varint(input, 32)?;
                let index = u32::try_from(code).unwrap_or(u32::MAX);
                let variant = variants.get(index as usize).ok_or_else(|| no_variant(code, variants.len()))?;
                out.extend_from_slice(&index.to_be_bytes());
                match &variant.content {
                    Content::Unit => Ok(()),
                    Content::Newtype(ty) => self.value(ty, input, out, depth),
                    Content::Tuple(items) => items.iter().try_for_each(|item| self.value(item, input, out, depth)),
                    Content::Struct(fields) => self.fields(fields, input, out, depth),
                }
            }
        }
    }

    fn fields(&self, fields: &[Field], input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        fields.iter().try_for_each(|field| self.value(&field.ty, input, out, depth))
    }
}

#[inline]
#[expect(clippy::cast_sign_loss, reason = "the bits are flipped into an unsigned order")]
fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&((value as u64) ^ (1 << 63)).to_be_bytes());
}

/// Appends the low bytes, big-endian, with the sign bit flipped.
fn put_int(out: &mut Vec<u8>, int: Int, value: i128) {
    let ordered = if int.signed { value ^ (-1 << (int.bits - 1)) } else { value };
    let bytes = ordered.to_be_bytes();
    out.extend_from_slice(bytes.get(bytes.len() - int.bits as usize / 8..).unwrap_or_default());
}

#[cfg(test)]
mod tests;
