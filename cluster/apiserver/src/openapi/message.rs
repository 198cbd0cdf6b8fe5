//! The version 2 document as the protobuf message `openapi.v2.Document`. client-go requests this
//! form only.
//!
//! The messages are tables of fields, each with its JSON name, number and type, because few of
//! gnostic's messages are needed. The definition is `openapiv2/OpenAPIv2.proto` of
//! `github.com/google/gnostic-models`.

use serde_json::Value;

/// A type of message.
struct Message {
    fields: &'static [(&'static str, u32, Holds)],
    /// Number of the field of `x-` extensions; 0 for messages without extensions.
    extensions: u32,
}

/// The type of a field.
enum Holds {
    Text,
    Texts,
    Flag,
    Count,
    Number,
    /// Any value, as YAML text. JSON is valid YAML.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A map: a message with one entry per name, in the field of this number.
    Named(u32, &'static Message),
    /// A message inside a message, in the field of this number.
    Wrapped(u32, &'static Message),
    /// Texts inside a message, in the field of this number.
    WrappedText(u32),
    /// The field of the value's place (`in`); a reference has none.
    ByPlace(&'static [(&'static str, u32, Holds)]),
}

use Holds::{
    Any, Anys, ByPlace, Count, Flag, Many, Named, Number, One, Text, Texts, Wrapped, WrappedText,
};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("paths", 8, Named(2, &PATH)),
        ("definitions", 9, Named(1, &SCHEMA)),
        ("parameters", 10, Named(1, &PLACED)),
    ],
    extensions: 16,
};

static INFO: Message = Message {
    fields: &[("title", 1, Text), ("version", 2, Text)],
    extensions: 7,
};

static PATH: Message = Message {
    fields: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Many(&PARAMETER)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Many(&PARAMETER)),
        ("responses", 9, Named(1, &ANSWER)),
        ("schemes", 10, Texts),
    ],
    extensions: 13,
};

/// `ParametersItem`: a `Parameter`, or a reference to one.
static PARAMETER: Message = Message {
    fields: &[(
        "",
        0,
        ByPlace(&[
            ("body", 1, One(&PLACED)),
            ("query", 1, One(&PLACED)),
            ("path", 1, One(&PLACED)),
            ("", 2, One(&REFERENCE)),
        ]),
    )],
    extensions: 0,
};

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text)],
    extensions: 0,
};

/// `Parameter`: a body, or a `NonBodyParameter` of the query or of the path.
static PLACED: Message = Message {
    fields: &[(
        "",
        0,
        ByPlace(&[
            ("body", 1, One(&BODY)),
            ("query", 2, Wrapped(3, &QUERY)),
            ("path", 2, Wrapped(4, &VARIABLE)),
        ]),
    )],
    extensions: 0,
};

static BODY: Message = Message {
    fields: &[
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
};

static VARIABLE: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: 22,
};

static QUERY: Message = Message {
    fields: &[
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: 23,
};

static ANSWER: Message = Message {
    fields: &[("", 1, One(&RESPONSE))],
    extensions: 0,
};

static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Wrapped(1, &SCHEMA))],
    extensions: 5,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Count),
        ("minLength", 12, Count),
        ("pattern", 13, Text),
        ("maxItems", 14, Count),
        ("minItems", 15, Count),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Count),
        ("minProperties", 18, Count),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Wrapped(1, &SCHEMA)),
        ("type", 22, WrappedText(1)),
        ("items", 23, Wrapped(1, &SCHEMA)),
        ("properties", 25, Named(1, &SCHEMA)),
        ("example", 30, Any),
    ],
    extensions: 31,
};

/// The protobuf message of a version 2 document.
pub(crate) fn document(document: &Value) -> Vec<u8> {
    DOCUMENT.encoded(document)
}

impl Message {
    /// Encodes the fields of this message that `value` has, then its `x-` extensions.
    fn encoded(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, number, holds) in self.fields {
            // An empty name marks a message that only wraps another one (`oneof`).
            let value = if name.is_empty() {
                Some(value)
            } else {
                value.get(name)
            };
            if let Some(value) = value {
                holds.write(*number, value, &mut out);
            }
        }
        for (name, value) in value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.starts_with("x-") && self.extensions > 0)
        {
            bytes(self.extensions, &entry(name, &any(value)), &mut out);
        }
        out
    }
}

impl Holds {
    fn write(&self, number: u32, value: &Value, out: &mut Vec<u8>) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Text => bytes(number, text(value).as_bytes(), out),
            Texts => items()
                .iter()
                .for_each(|value| bytes(number, text(value).as_bytes(), out)),
            Flag => integer(number, u64::from(value == &Value::Bool(true)), out),
            Count => integer(number, value.as_u64().unwrap_or_default(), out),
            Number => {
                tag(number, 1, out);
                out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
            }
            Any => bytes(number, &any(value), out),
            Anys => items()
                .iter()
                .for_each(|value| bytes(number, &any(value), out)),
            One(message) => bytes(number, &message.encoded(value), out),
            Many(message) => items()
                .iter()
                .for_each(|value| bytes(number, &message.encoded(value), out)),
            Named(inner, message) => {
                let mut entries = Vec::new();
                for (name, value) in value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| !name.starts_with("x-"))
                {
                    bytes(*inner, &entry(name, &message.encoded(value)), &mut entries);
                }
                bytes(number, &entries, out);
            }
            Wrapped(inner, message) => {
                let mut wrapper = Vec::new();
                match value {
                    // `additionalProperties` may be a boolean.
                    Value::Bool(allowed) => integer(2, u64::from(*allowed), &mut wrapper),
                    value => bytes(*inner, &message.encoded(value), &mut wrapper),
                }
                bytes(number, &wrapper, out);
            }
            ByPlace(places) => {
                let field = places
                    .iter()
                    .find(|(place, ..)| text(&value["in"]) == *place);
                if let Some((_, number, holds)) = field {
                    holds.write(*number, value, out);
                }
            }
            WrappedText(inner) => {
                let mut wrapper = Vec::new();
                bytes(*inner, text(value).as_bytes(), &mut wrapper);
                bytes(number, &wrapper, out);
            }
        }
    }
}

fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(2, value.to_string().as_bytes(), &mut out);
    out
}

/// A map entry: a name and a message.
fn entry(name: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + message.len() + 8);
    bytes(1, name.as_bytes(), &mut out);
    bytes(2, message, &mut out);
    out
}

fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    tag(number, 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn integer(number: u32, value: u64, out: &mut Vec<u8>) {
    tag(number, 0, out);
    varint(value, out);
}

fn tag(number: u32, wire_type: u32, out: &mut Vec<u8>) {
    varint(u64::from(number << 3 | wire_type), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_written_field_by_field() {
        let empty = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": {}, "definitions": {}});
        assert_eq!(
            document(&empty),
            b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.2\x42\x00\x4a\x00"
        );
        let schema = json!({
            "type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/b"}}}, "additionalProperties": false,
            "maximum": 1.5, "minLength": 300, "x-k": ["y"],
        });
        let expected = [
            &b"\x39\0\0\0\0\0\0\xf8\x3f"[..],         // maximum
            b"\x60\xac\x02",                          // minLength
            b"\xaa\x01\x02\x10\0",                    // additionalProperties
            b"\xb2\x01\x08\x0a\x06object",            // type
            b"\xca\x01\x1b\x0a\x19\x0a\x01a\x12\x14", // properties, and of these the only one:
            b"\xb2\x01\x07\x0a\x05array\xba\x01\x07\x0a\x05\x0a\x03#/b", // type and items
            b"\xfa\x01\x0e\x0a\x03x-k\x12\x07\x12\x05[\"y\"]", // x-k
        ];
        assert_eq!(SCHEMA.encoded(&schema), expected.concat());
    }
}
