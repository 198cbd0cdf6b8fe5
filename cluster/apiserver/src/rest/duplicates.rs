//! Parses JSON that may contain duplicate keys. The last value counts, and the duplicates are
//! reported.
//!
//! `serde_json` drops duplicates silently, but `fieldValidation` needs them.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The value, and the paths of duplicate keys (`data.a`, `spec.ports[1].name`).
pub(super) fn parse(json: &str) -> Result<(Value, Vec<String>), serde_json::Error> {
    let duplicates = RefCell::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = Place {
        parent: None,
        step: Step::Top,
        duplicates: &duplicates,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates.into_inner()))
}

/// Position in the document. Only duplicate keys need the text of their path.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Top,
    Key(&'a str),
    Index(usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        let parent = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Top => parent,
            Step::Key(key) if parent.is_empty() => key.to_owned(),
            Step::Key(key) => format!("{parent}.{key}"),
            Step::Index(index) => format!("{parent}[{index}]"),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Place {
            parent: Some(&self),
            step: Step::Index(list.len()),
            ..self
        })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let place = Place {
                parent: Some(&self),
                step: Step::Key(&key),
                ..self
            };
            let value = fields.next_value_seed(place)?;
            if map.contains_key(&key) {
                self.duplicates.borrow_mut().push(place.path());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_keys_are_reported_with_their_paths() {
        let text = r#"{"a": {"b": 1, "b": 2}, "l": [{"x": null}, {"x": 1.5, "x": -3}], "a2": 1}"#;
        let (value, duplicates) = parse(text).unwrap();
        assert_eq!(
            value,
            json!({"a": {"b": 2}, "l": [{"x": null}, {"x": -3}], "a2": 1})
        );
        assert_eq!(duplicates, ["a.b", "l[1].x"]);
        assert!(parse("{} x").is_err());
    }
}
