//! The canonical text of a pod template: templates are equal if their canonical texts are equal.
//!
//! The text is the served JSON with sorted keys and two omissions: the label `pod-template-hash`,
//! and members that Go cannot distinguish from unset ones. Quantities and times appear by value,
//! so `1` equals `1000m`. Fields that the table of types lacks appear as served. A difference in
//! them therefore makes templates different.
//!
//! Upstream: `EqualIgnoreHash`, which calls `apiequality.Semantic.DeepEqual`.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::types::{Field, Kind, TYPES, TypeId, Types};

/// The label that only the templates of ReplicaSets have. It does not count for equality.
const HASH_LABEL: &str = "pod-template-hash";

/// Position of the writer in the template. Only labels of the template itself can be
/// [`HASH_LABEL`]; templates of volume claims may have a label of the same name.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Template,
    Metadata,
    Labels,
    Elsewhere,
}

impl Position {
    /// The position of the member `key`.
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::Template, "metadata") => Self::Metadata,
            (Self::Metadata, "labels") => Self::Labels,
            _ => Self::Elsewhere,
        }
    }
}

/// The canonical text of `template`.
pub(super) fn canonical(template: &Value) -> String {
    let mut writer = Writer {
        types: &TYPES,
        out: String::with_capacity(1024),
    };
    writer.value(Types::ROOT, template, Position::Template);
    writer.out
}

struct Writer<'a> {
    types: &'a Types,
    out: String,
}

impl Writer<'_> {
    /// Writes a value of the type `kind`. False if Go treats the value as unset, so that the caller
    /// omits the member.
    fn value(&mut self, kind: TypeId, value: &Value, position: Position) -> bool {
        match (&self.types.get(kind).kind, value) {
            (Kind::Pointer(_), Value::Null) => {
                self.out.push_str("null");
                false
            }
            (Kind::Pointer(target), _) => {
                self.value(*target, value, position);
                true
            }
            (Kind::Struct(fields), Value::Object(object)) => self.fields(fields, object, position),
            (Kind::Struct(_), Value::Null) => {
                self.out.push_str("{}");
                false
            }
            (Kind::Map(element), Value::Object(map)) => self.map(*element, map, position),
            (Kind::List(element), Value::Array(list)) => {
                for (n, item) in list.iter().enumerate() {
                    self.out.push(if n == 0 { '[' } else { ',' });
                    self.value(*element, item, Position::Elsewhere);
                }
                self.out.push_str(if list.is_empty() { "[]" } else { "]" });
                !list.is_empty()
            }
            (Kind::Quantity, Value::String(text)) => self.quantity(text, value),
            (Kind::Quantity, Value::Number(number)) => self.quantity(&number.to_string(), value),
            (Kind::Time, Value::String(text)) => {
                match text.parse::<Timestamp>() {
                    Ok(time) => write!(self.out, "{}", time.as_nanosecond())
                        .expect("writing to a String does not fail"),
                    Err(_) => self.verbatim(value),
                }
                true
            }
            (Kind::Text, Value::Null) => self.zero("\"\""),
            (Kind::Bool, Value::Null) => self.zero("false"),
            (Kind::Int | Kind::IntOrString | Kind::Quantity, Value::Null) => self.zero("0"),
            (kind, _) => {
                self.verbatim(value);
                !is_zero(kind, value)
            }
        }
    }

    /// Writes the zero value of a scalar type.
    fn zero(&mut self, text: &str) -> bool {
        self.out.push_str(text);
        false
    }

    fn quantity(&mut self, text: &str, value: &Value) -> bool {
        match Quantity::parse(text) {
            Some(quantity) => {
                quantity.write_value(&mut self.out);
                !quantity.is_zero()
            }
            None => {
                self.verbatim(value);
                true
            }
        }
    }

    fn fields(
        &mut self,
        fields: &[Field],
        object: &Map<String, Value>,
        position: Position,
    ) -> bool {
        self.object(object, position, |writer, key, value| {
            match writer.types.field(fields, key) {
                Some(kind) => writer.value(kind, value, position.below(key)),
                None => {
                    writer.verbatim(value);
                    true
                }
            }
        })
    }

    fn map(&mut self, element: TypeId, map: &Map<String, Value>, position: Position) -> bool {
        self.object(map, position, |writer, _, value| {
            writer.value(element, value, Position::Elsewhere);
            // A map with an empty value differs from a map without the key.
            true
        })
    }

    /// Writes an object. `member` writes the value of one member and returns whether to keep the
    /// member. False if the written object is empty.
    fn object(
        &mut self,
        object: &Map<String, Value>,
        position: Position,
        mut member: impl FnMut(&mut Self, &str, &Value) -> bool,
    ) -> bool {
        let mut members: Vec<_> = object.iter().collect();
        members.sort_unstable_by_key(|(key, _)| *key);
        self.out.push('{');
        let start = self.out.len();
        for (key, value) in members {
            if position == Position::Labels && key == HASH_LABEL {
                continue;
            }
            let before = self.out.len();
            if before > start {
                self.out.push(',');
            }
            self.text(key);
            self.out.push(':');
            if !member(self, key, value) {
                self.out.truncate(before);
            }
        }
        let any = self.out.len() > start;
        self.out.push('}');
        any
    }

    /// Writes JSON with sorted keys.
    fn verbatim(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                self.object(object, Position::Elsewhere, |writer, _, value| {
                    writer.verbatim(value);
                    true
                });
            }
            Value::Array(list) => {
                self.out.push('[');
                for (n, item) in list.iter().enumerate() {
                    if n > 0 {
                        self.out.push(',');
                    }
                    self.verbatim(item);
                }
                self.out.push(']');
            }
            Value::String(text) => self.text(text),
            scalar => write!(self.out, "{scalar}").expect("writing to a String does not fail"),
        }
    }

    /// Writes a string with quotation marks and backslashes escaped, so that its end is clear.
    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.out.push('\\');
            }
            self.out.push(character);
        }
        self.out.push('"');
    }
}

/// Whether `value` is the zero value of its Go type, which Go cannot distinguish from unset.
fn is_zero(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Kind::Text, Value::String(text)) => text.is_empty(),
        (Kind::Int | Kind::IntOrString, Value::Number(number)) => number.as_i64() == Some(0),
        (Kind::Bool, Value::Bool(set)) => !set,
        _ => false,
    }
}
