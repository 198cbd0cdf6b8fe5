//! One text per class of pod templates that upstream's `EqualIgnoreHash` holds equal.
//!
//! It is the served JSON with sorted keys, without the label `pod-template-hash` and without what
//! Go could not tell from unset; quantities and times stand by their value. Fields unknown to us
//! stay as they are and so take part.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::types::{Field, Kind, TYPES, TypeId, Types};

/// The label that templates of one Deployment differ in.
const HASH_LABEL: &str = "pod-template-hash";

/// Where in the template the writer stands, as far as it matters for [`HASH_LABEL`].
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Template,
    Metadata,
    Labels,
    Elsewhere,
}

impl Place {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::Template, "metadata") => Self::Metadata,
            (Self::Metadata, "labels") => Self::Labels,
            _ => Self::Elsewhere,
        }
    }
}

/// The text of `template`.
pub(super) fn canonical(template: &Value) -> String {
    let mut writer = Writer {
        types: &TYPES,
        out: String::with_capacity(1024),
    };
    writer.value(Types::ROOT, template, Place::Template);
    writer.out
}

struct Writer<'a> {
    types: &'a Types,
    out: String,
}

impl Writer<'_> {
    /// Writes a value; false if it is what Go has where nothing was set.
    fn value(&mut self, kind: TypeId, value: &Value, place: Place) -> bool {
        match (&self.types.get(kind).kind, value) {
            (Kind::Pointer(_), Value::Null) => {
                self.out.push_str("null");
                false
            }
            (Kind::Pointer(target), _) => {
                self.value(*target, value, place);
                true
            }
            (Kind::Struct(fields), Value::Object(object)) => self.fields(fields, object, place),
            (Kind::Struct(_), Value::Null) => {
                self.out.push_str("{}");
                false
            }
            (Kind::Map(element), Value::Object(map)) => self.map(*element, map, place),
            (Kind::List(element), Value::Array(list)) => {
                for (n, item) in list.iter().enumerate() {
                    self.out.push(if n == 0 { '[' } else { ',' });
                    self.value(*element, item, Place::Elsewhere);
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

    fn fields(&mut self, fields: &[Field], object: &Map<String, Value>, place: Place) -> bool {
        self.object(object, place, |writer, key, value| {
            match writer.types.field(fields, key) {
                Some(kind) => writer.value(kind, value, place.below(key)),
                None => {
                    writer.verbatim(value);
                    true
                }
            }
        })
    }

    fn map(&mut self, element: TypeId, map: &Map<String, Value>, place: Place) -> bool {
        self.object(map, place, |writer, _, value| {
            writer.value(element, value, Place::Elsewhere);
            // A key in a map is there whatever its value.
            true
        })
    }

    /// Writes an object without the members for which `member` says false; false if none is left.
    fn object(
        &mut self,
        object: &Map<String, Value>,
        place: Place,
        mut member: impl FnMut(&mut Self, &str, &Value) -> bool,
    ) -> bool {
        let mut members: Vec<_> = object.iter().collect();
        members.sort_unstable_by_key(|(key, _)| *key);
        self.out.push('{');
        let start = self.out.len();
        for (key, value) in members {
            if place == Place::Labels && key == HASH_LABEL {
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

    /// JSON with sorted keys.
    fn verbatim(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                self.object(object, Place::Elsewhere, |writer, _, value| {
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

    /// A JSON string.
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

/// Whether Go cannot tell a scalar from an unset one.
fn is_zero(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Kind::Text, Value::String(text)) => text.is_empty(),
        (Kind::Int | Kind::IntOrString, Value::Number(number)) => number.as_i64() == Some(0),
        (Kind::Bool, Value::Bool(set)) => !set,
        _ => false,
    }
}
