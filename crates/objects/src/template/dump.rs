//! The text that the template hash is computed from: Go's dump of a pod template.
//!
//! The dump has type names and all fields in declaration order, also unset fields. The hash
//! depends on every byte, so this module writes the text exactly as Go does. `types.txt` has the
//! names and the order.
//!
//! Upstream: `dump.ForHash` of `k8s.io/apimachinery/pkg/util/dump`, which calls `go-spew`.

use std::fmt::{self, Write};

use jiff::Timestamp;
use serde_json::Value;

use super::quantity::{self, Quantity};
use super::types::{Field, Kind, TYPES, TypeId, Types};

/// Seconds from the year 1 to 1970. Go's `time.Time` counts from the year 1.
const YEAR_ONE: i64 = 62_135_596_800;

/// Writes the dump of `template` to `out`.
pub(super) fn dump(template: &Value, out: &mut impl Write) -> fmt::Result {
    Dump { types: &TYPES, out }.typed(Types::ROOT, Some(template))
}

struct Dump<'a, W> {
    types: &'a Types,
    out: &'a mut W,
}

impl<W: Write> Dump<'_, W> {
    /// Writes `(<type>)` and the value.
    fn typed(&mut self, kind: TypeId, value: Option<&Value>) -> fmt::Result {
        self.out.write_str("(")?;
        self.out.write_str(self.types.get(kind).name)?;
        self.out.write_str(")")?;
        self.bare(kind, value)
    }

    /// Writes the value without its type. Elements of lists and maps have no type name.
    fn bare(&mut self, kind: TypeId, value: Option<&Value>) -> fmt::Result {
        let value = value.filter(|value| !value.is_null());
        match &self.types.get(kind).kind {
            Kind::Text => self
                .out
                .write_str(value.and_then(Value::as_str).unwrap_or("")),
            Kind::Int => match value {
                Some(number) => write!(self.out, "{number}"),
                None => self.out.write_str("0"),
            },
            Kind::Bool => write!(
                self.out,
                "{}",
                value.and_then(Value::as_bool).unwrap_or(false)
            ),
            Kind::Quantity => self.quantity(value),
            Kind::IntOrString => self.int_or_string(value),
            Kind::Time => self.time(value),
            Kind::Raw => self.raw(value),
            Kind::Pointer(target) if value.is_some() => self.bare(*target, value),
            Kind::List(element) => match value
                .and_then(Value::as_array)
                .filter(|list| !list.is_empty())
            {
                Some(list) => self.list(*element, list),
                None => self.out.write_str("<nil>"),
            },
            Kind::Map(element) => match value
                .and_then(Value::as_object)
                .filter(|map| !map.is_empty())
            {
                Some(map) => self.map(*element, map),
                None => self.out.write_str("<nil>"),
            },
            Kind::Pointer(_) => self.out.write_str("<nil>"),
            Kind::Struct(fields) => self.fields(fields, value),
        }
    }

    fn fields(&mut self, fields: &[Field], value: Option<&Value>) -> fmt::Result {
        for (n, field) in fields.iter().enumerate() {
            self.out.write_str(if n == 0 { "{" } else { " " })?;
            self.out.write_str(field.name)?;
            self.out.write_str(":")?;
            let value = match field.key {
                Some(key) => value.and_then(|object| object.get(key)),
                None => value,
            };
            self.typed(field.kind, value)?;
        }
        self.out.write_str("}")
    }

    fn list(&mut self, element: TypeId, list: &[Value]) -> fmt::Result {
        for (n, value) in list.iter().enumerate() {
            self.out.write_str(if n == 0 { "[" } else { " " })?;
            self.bare(element, Some(value))?;
        }
        self.out.write_str("]")
    }

    fn map(&mut self, element: TypeId, map: &serde_json::Map<String, Value>) -> fmt::Result {
        // Go dumps maps sorted by key. The order of serde_json's map depends on the feature
        // `preserve_order`, which any dependency can enable.
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (n, (key, value)) in entries.into_iter().enumerate() {
            self.out.write_str(if n == 0 { "map[" } else { " " })?;
            self.out.write_str(key)?;
            self.out.write_str(":")?;
            self.bare(element, Some(value))?;
        }
        self.out.write_str("]")
    }

    fn quantity(&mut self, value: Option<&Value>) -> fmt::Result {
        let Some(value) = value else {
            return quantity::dump_unset(self.out);
        };
        let number;
        let text = match value {
            Value::String(text) => text,
            other => {
                number = other.to_string();
                &number
            }
        };
        match Quantity::parse(text) {
            Some(quantity) => quantity.dump(self.out),
            None => self.out.write_str(text),
        }
    }

    fn int_or_string(&mut self, value: Option<&Value>) -> fmt::Result {
        match value {
            Some(Value::String(text)) => write!(
                self.out,
                "{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){text}}}"
            ),
            Some(number) => write!(
                self.out,
                "{{Type:(intstr.Type)0 IntVal:(int32){number} StrVal:(string)}}"
            ),
            None => self
                .out
                .write_str("{Type:(intstr.Type)0 IntVal:(int32)0 StrVal:(string)}"),
        }
    }

    /// Writes the JSON as a list of bytes.
    fn raw(&mut self, value: Option<&Value>) -> fmt::Result {
        self.out.write_str("{Raw:([]uint8)")?;
        for (n, byte) in value
            .unwrap_or(&Value::Null)
            .to_string()
            .bytes()
            .enumerate()
        {
            write!(self.out, "{}{byte}", if n == 0 { "[" } else { " " })?;
        }
        self.out.write_str("]}")
    }

    /// Writes a time. For a set time, upstream's dump contains the time zone tables of its host, so
    /// its hash differs between hosts. The text here is the same on every host.
    fn time(&mut self, value: Option<&Value>) -> fmt::Result {
        let time = value
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok());
        let ext = time.map_or(0, |time| time.as_second() + YEAR_ONE);
        write!(
            self.out,
            "{{Time:(time.Time){{wall:(uint64)0 ext:(int64){ext} loc:(*time.Location)<nil>}}}}"
        )
    }
}
