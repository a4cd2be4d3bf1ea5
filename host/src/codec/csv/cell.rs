//! One field of a record as the text of a CSV field. Text is bare: strings, bytes in base64, durations with their unit, the names of enum
//! variants, floats that JSON does not have. Everything else is JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidemill_core::schema::describe::describe_type;
use tidemill_core::schema::json::{encode_json, special_float};
use tidemill_core::schema::scalar::{blob, flag, float32, float64, put_blob, put_signed_varint, signed_varint, string, varint};
use tidemill_core::schema::walk::through_newtypes;
use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use super::rows::{Cell, put_cell};
use crate::codec::json::{Scratch, Written, decode_text, missing};
use crate::codec::parse_signed_duration;

/// Buffers that are used again for each row.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    scratch: Scratch,
    text: Vec<u8>,
}

/// Appends the value of a field; `cell` is nothing if the file has no such column.
pub(super) fn decode(
    table: &TypeTable,
    field: &Field,
    cell: Option<Cell<'_>>,
    with: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let Some(cell) = cell else { return missing::<serde_json::Error>(field, out).map_err(|error| error.to_string()) };
    match through_newtypes(table, &field.ty) {
        Type::Option(inner) => {
            let ty = through_newtypes(table, inner);
            let is_some = !cell.text.is_empty() || cell.quoted && may_be_empty(table, ty);
            out.push(u8::from(is_some));
            if is_some { value(table, ty, cell.text, with, out) } else { Ok(()) }
        }
        Type::String => value(table, &Type::String, cell.text, with, out),
        Type::Unit if cell.text.is_empty() => Ok(()),
        ty if !cell.text.is_empty() || cell.quoted && may_be_empty(table, ty) => value(table, ty, cell.text, with, out),
        _ => missing::<serde_json::Error>(field, out).map_err(|_| "the cell is empty".to_owned()),
    }
}

/// Whether a value of the type can be an empty text.
fn may_be_empty(table: &TypeTable, ty: &Type) -> bool {
    match ty {
        Type::String | Type::Bytes => true,
        _ => variants(table, ty).is_some_and(|variants| variants.iter().any(|variant| variant.name.is_empty())),
    }
}

fn variants<'a>(table: &'a TypeTable, ty: &Type) -> Option<&'a [Variant]> {
    let Type::Named(index) = ty else { return None };
    match &table.named(*index)?.shape {
        Shape::Enum(variants) => Some(variants),
        Shape::Struct(_) | Shape::Newtype(_) => None,
    }
}

fn value(table: &TypeTable, ty: &Type, cell: &[u8], with: &mut Buffers, out: &mut Vec<u8>) -> Result<(), String> {
    match ty {
        Type::String => put_blob(out, text(cell)?.as_bytes()),
        Type::Bytes => {
            with.text.clear();
            STANDARD.decode_vec(cell, &mut with.text).map_err(|error| format!("the text is not base64 ({error})"))?;
            put_blob(out, &with.text);
        }
        // CSV does not tell numbers from text, and a bare 60 may have been meant as seconds.
        Type::Duration => put_signed_varint(out, parse_signed_duration(text(cell)?)?),
        ty => {
            let is_name = variants(table, ty).is_some() && !is_json(cell);
            let is_special = matches!(ty, Type::F32 | Type::F64) && matches!(cell, b"NaN" | b"Infinity" | b"+Infinity" | b"-Infinity");
            let json = if is_name || is_special {
                with.text.clear();
                serde_json::to_writer(&mut with.text, text(cell)?).map_err(|error| error.to_string())?;
                &with.text
            } else {
                cell
            };
            let decoded = decode_text((table, ty), json, Written::ByMachine, &mut with.scratch, out);
            return decoded
                .map_err(|reason| if is_name { reason } else { format!("the cell is no {}: {reason}", describe_type(table, ty)) });
        }
    }
    Ok(())
}

/// Whether the cell of an enum is not just a variant's name.
fn is_json(cell: &[u8]) -> bool {
    matches!(cell.first(), Some(b'{' | b'"'))
}

fn text(cell: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(cell).map_err(|error| format!("the text is not UTF-8 (byte {})", error.valid_up_to() + 1))
}

/// Takes the value of a field off the front of `input` and appends it as a field of a row. `alone`: the row has no other.
pub(super) fn encode(
    table: &TypeTable,
    ty: &Type,
    alone: bool,
    input: &mut &[u8],
    json: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let ty = through_newtypes(table, ty);
    let Type::Option(inner) = ty else {
        // A row that is an empty line would not be seen.
        return put(table, ty, *ty != Type::String || alone, input, json, out);
    };
    if flag(input)? { put(table, through_newtypes(table, inner), true, input, json, out) } else { Ok(()) }
}

/// Appends a value; an empty text in quotes if it could be taken for nothing.
fn put(table: &TypeTable, ty: &Type, marked: bool, input: &mut &[u8], json: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), String> {
    json.clear();
    let before = *input;
    let text: &[u8] = match ty {
        Type::String => string(input)?.as_bytes(),
        Type::Bytes => {
            json.extend_from_slice(STANDARD.encode(blob(input)?).as_bytes());
            json
        }
        Type::Duration => {
            json.extend_from_slice(format!("{}ms", signed_varint(input, 64)?).as_bytes());
            json
        }
        Type::F32 | Type::F64 => {
            let value = if *ty == Type::F32 { f64::from(float32(input)?) } else { float64(input)? };
            if value.is_finite() {
                *input = before;
                encode_json(table, ty, input, json)?;
                json
            } else {
                special_float(value).as_bytes()
            }
        }
        _ => match unit_variant(table, ty, input) {
            Some(name) if !is_json(name.as_bytes()) => name.as_bytes(),
            _ => {
                *input = before;
                encode_json(table, ty, input, json)?;
                json
            }
        },
    };
    put_cell(out, text, marked && text.is_empty());
    Ok(())
}

/// The name of an enum's variant, if it holds nothing.
fn unit_variant<'a>(table: &'a TypeTable, ty: &Type, input: &mut &[u8]) -> Option<&'a str> {
    let variants = variants(table, ty)?;
    let index = usize::try_from(varint(input, 32).ok()?).ok()?;
    variants.get(index).filter(|variant| variant.content == Content::Unit).map(|variant| &*variant.name)
}
