//! Decodes protobuf bodies to JSON: the envelope, then the message by the field numbers of the type
//! table.
//!
//! Upstream skips fields with unknown numbers, and so does this decoder. No input makes it panic:
//! it checks every length and the depth of the JSON. Upstream's envelope is
//! `runtime.Unknown` (`apimachinery/pkg/runtime/serializer/protobuf`).

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::unions::{SCHEMA, Union};
use super::{FieldNumber, Struct, Type, typed_form};

/// The first bytes of every protobuf object of Kubernetes.
const MAGIC: &[u8] = b"k8s\0";

/// The most levels of JSON, as in bodies of JSON. Schemas of definitions contain themselves.
const MAX_DEPTH: u32 = 127;

impl Union {
    fn read(self, message: &[u8], name: &str, depth: u32) -> Result<Value, Malformed> {
        let mut allows = false;
        let mut schema = None;
        let mut list = Vec::new();
        each(message, |number, wire| {
            match (self, number) {
                (Self::Bool, 1) => allows = wire.varint(name)? != 0,
                (Self::Bool, 2) | (_, 1) => schema = Some(read_schema(wire, name, depth)?),
                (Self::List, 2) => list.push(read_schema(wire, name, depth + 1)?),
                (Self::Texts, 2) => list.push(Value::from(wire.text(name)?)),
                _ => {}
            }
            Ok(())
        })?;
        if !list.is_empty() {
            return Ok(Value::Array(list));
        }
        Ok(match (schema, self) {
            (Some(schema), _) => schema,
            (None, Self::Bool) => Value::from(allows),
            (None, _) => Value::Null,
        })
    }
}

fn read_schema(wire: Wire<'_>, name: &str, depth: u32) -> Result<Value, Malformed> {
    static SHAPE: LazyLock<&Struct> =
        LazyLock::new(|| super::by_name(SCHEMA).expect("the table has the type of schemas"));
    let mut fields = Map::new();
    read_struct(&SHAPE, 0, wire.bytes(name)?, &mut fields, deeper(depth)?)?;
    Ok(Value::Object(fields))
}

/// The depth of what is below `depth`.
fn deeper(depth: u32) -> Result<u32, Malformed> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(Malformed::Depth)
    }
}

/// The reason why bytes are not the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes do not start with the magic bytes `k8s\0`.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Prefix,
    /// The bytes end within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field has an encoding that does not fit its type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// Name of the field.
        field: String,
        /// The wire type in the bytes.
        wire: u8,
    },
    /// A wire type that Kubernetes does not use, or the field number 0.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// A value that is invalid for its type.
    #[error("proto: field {field}: {why}")]
    Value {
        /// Name of the field.
        field: String,
        /// The reason.
        why: &'static str,
    },
    /// The message has more levels than the server reads.
    #[error("exceeded max depth")]
    Depth,
    /// The envelope's content is encoded, for example compressed.
    #[error("content encoding {0:?} is not supported")]
    Encoding(String),
}

/// The object in `body`, in the form of [`typed_form::normalize`]. `kind` applies if the envelope names
/// no kind.
pub fn object(kind: &str, body: &[u8]) -> Result<Value, Malformed> {
    let message = body.strip_prefix(MAGIC).ok_or(Malformed::Prefix)?;
    let mut api_version = String::new();
    let mut own_kind = String::new();
    let mut raw: &[u8] = &[];
    each(message, |number, wire| match number {
        1 => each(wire.bytes("typeMeta")?, |number, wire| {
            match number {
                1 => api_version = wire.text("apiVersion")?,
                2 => own_kind = wire.text("kind")?,
                _ => {}
            }
            Ok(())
        }),
        2 => wire.bytes("raw").map(|bytes| raw = bytes),
        3 => match wire.text("contentEncoding")? {
            encoding if encoding.is_empty() => Ok(()),
            encoding => Err(Malformed::Encoding(encoding)),
        },
        _ => Ok(()),
    })?;
    let mut fields = Map::new();
    for (name, text) in [("kind", &own_kind), ("apiVersion", &api_version)] {
        if !text.is_empty() {
            fields.insert(name.to_owned(), Value::from(text.as_str()));
        }
    }
    let kind = if own_kind.is_empty() { kind } else { &own_kind };
    let mut object = Value::Object(fields);
    // The caller rejects an unknown kind, so its content does not matter.
    if let Some(shape) = super::of_object(kind, &object)
        && let Some(fields) = object.as_object_mut()
    {
        read_struct(shape, 0, raw, fields, 1)?;
    }
    typed_form::normalize(kind, &mut object);
    Ok(object)
}

/// Reads a message of `shape`, or of the message embedded at `embedded_in`, into `fields`.
fn read_struct(
    shape: &Struct,
    embedded_in: u32,
    message: &[u8],
    fields: &mut Map<String, Value>,
    depth: u32,
) -> Result<(), Malformed> {
    each(message, |number, wire| {
        let known = shape
            .fields()
            .iter()
            .find(|field| field.number.embedded_in == embedded_in && field.number.own == number);
        if let Some(field) = known {
            let slot = fields.entry(field.name).or_insert(Value::Null);
            let union = Union::of(shape, field);
            return read_into(&field.ty, union, wire, field.name, slot, depth);
        }
        let way = embedded_in
            .saturating_mul(FieldNumber::BASE)
            .saturating_add(number);
        if shape
            .fields()
            .iter()
            .any(|field| field.number.is_within(way))
        {
            return read_struct(shape, way, wire.bytes("embedded message")?, fields, depth);
        }
        Ok(())
    })
}

/// Reads one occurrence of a field. Lists and maps grow by it, messages merge, scalars are
/// replaced.
fn read_into(
    ty: &Type,
    union: Option<Union>,
    wire: Wire<'_>,
    name: &str,
    slot: &mut Value,
    depth: u32,
) -> Result<(), Malformed> {
    match ty {
        Type::Struct(_) => {
            let message = wire.bytes(name)?;
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Some(shape) = ty.as_struct()
                && let Value::Object(fields) = slot
            {
                read_struct(shape, 0, message, fields, deeper(depth)?)?;
            }
        }
        Type::List(item) => {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            if let Value::Array(items) = slot {
                read_item(item, wire, name, items, deeper(depth)?)?;
            }
        }
        Type::Map(item) => {
            let (key, value) = read_entry(item, union, wire.bytes(name)?, name, deeper(depth)?)?;
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(entries) = slot {
                entries.insert(key, value);
            }
        }
        scalar => {
            *slot = match union {
                Some(union) => union.read(wire.bytes(name)?, name, depth)?,
                None => read_scalar(scalar, wire, name)?,
            }
        }
    }
    Ok(())
}

/// Reads one element of a list, or packed numbers.
fn read_item(
    item: &Type,
    wire: Wire<'_>,
    name: &str,
    items: &mut Vec<Value>,
    depth: u32,
) -> Result<(), Malformed> {
    match (item, wire) {
        (Type::Int32 | Type::Int64 | Type::Bool, Wire::Bytes(mut packed)) => {
            while !packed.is_empty() {
                let number = varint(&mut packed)?;
                items.push(read_scalar(item, Wire::Varint(number), name)?);
            }
        }
        _ => {
            let mut value = item.zero();
            read_into(item, None, wire, name, &mut value, depth)?;
            items.push(value);
        }
    }
    Ok(())
}

fn read_entry(
    item: &Type,
    union: Option<Union>,
    entry: &[u8],
    name: &str,
    depth: u32,
) -> Result<(String, Value), Malformed> {
    let mut key = String::new();
    let mut value = item.zero();
    each(entry, |number, wire| {
        match (number, item) {
            (1, _) => key = wire.text(name)?,
            // Protobuf has no maps of lists, so a message wraps each list.
            (2, Type::List(_)) => each(wire.bytes(name)?, |number, wire| match number {
                1 => read_into(item, union, wire, name, &mut value, depth),
                _ => Ok(()),
            })?,
            (2, _) => read_into(item, union, wire, name, &mut value, depth)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn read_scalar(ty: &Type, wire: Wire<'_>, name: &str) -> Result<Value, Malformed> {
    let invalid = |why| Malformed::Value {
        field: name.to_owned(),
        why,
    };
    Ok(match ty {
        Type::Text => Value::from(wire.text(name)?),
        Type::Int32 => Value::from(truncated(wire.varint(name)?)),
        Type::Int64 => Value::from(wire.varint(name)?.cast_signed()),
        Type::Bool => Value::from(wire.varint(name)? != 0),
        Type::Float => match wire {
            Wire::Fixed64(bits) => Number::from_f64(f64::from_bits(bits))
                .map(Value::Number)
                .ok_or_else(|| invalid("not a number"))?,
            _ => return Err(wire.wrong_wire_type(name)),
        },
        Type::Bytes => Value::from(STANDARD.encode(wire.bytes(name)?)),
        Type::Time | Type::MicroTime => {
            let message = wire.bytes(name)?;
            if message.is_empty() {
                return Ok(Value::Null);
            }
            let seconds = number_in(message, 1, name)?.cast_signed();
            let nanos = if *ty == Type::MicroTime {
                truncated(number_in(message, 2, name)?)
            } else {
                0
            };
            let time = Timestamp::new(seconds, nanos).map_err(|_| invalid("time out of range"))?;
            Value::from(time.to_string())
        }
        // The JSON decoder accepts this form, too.
        Type::Duration => Value::from(format!(
            "{}ns",
            number_in(wire.bytes(name)?, 1, name)?.cast_signed()
        )),
        Type::Quantity => Value::from(text_in(wire.bytes(name)?, 1, name)?),
        Type::IntOrString => {
            let message = wire.bytes(name)?;
            match number_in(message, 1, name)? {
                0 => json!(truncated(number_in(message, 2, name)?)),
                _ => Value::from(text_in(message, 3, name)?),
            }
        }
        Type::Any => {
            let mut raw: &[u8] = &[];
            each(wire.bytes(name)?, |number, wire| match number {
                1 => wire.bytes(name).map(|bytes| raw = bytes),
                _ => Ok(()),
            })?;
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(raw).map_err(|_| invalid("no JSON"))?
        }
        Type::Struct(_) | Type::List(_) | Type::Map(_) => return Err(wire.wrong_wire_type(name)),
    })
}

/// The low half of a varint, which holds an int32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half of an encoded int32 repeats its sign"
)]
fn truncated(number: u64) -> i32 {
    number as i32
}

/// The number in field `wanted` of a small message: the last occurrence, or zero.
fn number_in(message: &[u8], wanted: u32, name: &str) -> Result<u64, Malformed> {
    let mut found = 0;
    each(message, |number, wire| {
        if number == wanted {
            found = wire.varint(name)?;
        }
        Ok(())
    })?;
    Ok(found)
}

fn text_in(message: &[u8], wanted: u32, name: &str) -> Result<String, Malformed> {
    let mut found = String::new();
    each(message, |number, wire| {
        if number == wanted {
            found = wire.text(name)?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// The value of a field in the encoding of the bytes.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Wire<'a> {
    fn bytes(self, field: &str) -> Result<&'a [u8], Malformed> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    fn text(self, field: &str) -> Result<String, Malformed> {
        let text = std::str::from_utf8(self.bytes(field)?);
        text.map(str::to_owned).map_err(|_| Malformed::Value {
            field: field.to_owned(),
            why: "invalid UTF-8",
        })
    }

    fn varint(self, field: &str) -> Result<u64, Malformed> {
        match self {
            Wire::Varint(number) => Ok(number),
            _ => Err(self.wrong_wire_type(field)),
        }
    }

    fn wrong_wire_type(self, field: &str) -> Malformed {
        let wire = match self {
            Wire::Varint(_) => 0,
            Wire::Fixed64(_) => 1,
            Wire::Bytes(_) => 2,
            Wire::Fixed32 => 5,
        };
        Malformed::WireType {
            field: field.to_owned(),
            wire,
        }
    }
}

/// Calls `read` with the number and value of each field of `message`.
fn each<'a>(
    mut message: &'a [u8],
    mut read: impl FnMut(u32, Wire<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| *number > 0)
            .ok_or(Malformed::Tag(tag))?;
        let wire = match tag & 7 {
            0 => Wire::Varint(varint(&mut message)?),
            1 => {
                let (bits, rest) = message.split_first_chunk().ok_or(Malformed::Truncated)?;
                message = rest;
                Wire::Fixed64(u64::from_le_bytes(*bits))
            }
            2 => {
                let length =
                    usize::try_from(varint(&mut message)?).map_err(|_| Malformed::Overflow)?;
                let (bytes, rest) = message
                    .split_at_checked(length)
                    .ok_or(Malformed::Truncated)?;
                message = rest;
                Wire::Bytes(bytes)
            }
            5 => {
                let (_, rest) = message
                    .split_first_chunk::<4>()
                    .ok_or(Malformed::Truncated)?;
                message = rest;
                Wire::Fixed32
            }
            _ => return Err(Malformed::Tag(tag)),
        };
        read(number, wire)?;
    }
    Ok(())
}

fn varint(message: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0_u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = message.split_first().ok_or(Malformed::Truncated)?;
        *message = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed::Overflow)
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
