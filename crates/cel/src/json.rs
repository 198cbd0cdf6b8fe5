//! Values as JSON, for the patches that mutations make.
//!
//! Upstream: `ConvertToNative` of `common/types` of cel-go, `pkg/cel/mutation/dynamic` of
//! `k8s.io/apiserver`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::time;
use super::value::{Constructed, Key, Val};

/// The largest whole number that a double has exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Val {
    /// The value as JSON. The error names a type that has no form in JSON.
    pub fn to_json(&self) -> Result<Value, String> {
        Ok(match self {
            Val::Null => Value::Null,
            Val::Bool(value) => Value::from(*value),
            Val::Int(number) => Value::from(*number),
            Val::Uint(number) => Value::from(*number),
            Val::Double(number) if number.fract() == 0.0 && number.abs() <= MAX_EXACT => {
                Value::from(*number as i64)
            }
            Val::Double(number) => Number::from_f64(*number)
                .map(Value::Number)
                .ok_or_else(|| format!("{number} is no number in JSON"))?,
            Val::Text(text) => Value::from(&**text),
            Val::Bytes(bytes) => Value::from(STANDARD.encode(bytes)),
            Val::Timestamp(time) => Value::from(time.to_string()),
            Val::Duration(nanos) => Value::from(time::show_duration(*nanos)),
            Val::List(list) => {
                let items = list.items.iter().map(Self::to_json);
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Val::Map(map) => object(map.iter())?,
            Val::Constructed(constructed) => constructed.to_json()?,
            Val::Optional(Some(value)) => value.to_json()?,
            other => return Err(format!("type conversion error from '{}'", other.kind())),
        })
    }
}

impl Constructed {
    pub fn to_json(&self) -> Result<Value, String> {
        object(self.fields.iter())
    }

    /// Checks that the types of inner objects have the names of the fields that hold them, such as
    /// `Object.spec` in the field `spec` of `Object`. The error has a line per mismatch.
    pub fn check_names(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        self.collect_mismatches(&self.name, &mut problems);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!("type mismatch: {}", problems.join("\n")))
        }
    }

    fn collect_mismatches(&self, expected: &str, problems: &mut Vec<String>) {
        let found = &self.name;
        if found != expected {
            problems.push(format!(
                "unexpected type name {found:?}, expected {expected:?}, which matches field name path from root Object type"
            ));
        }
        for (name, value) in &self.fields {
            collect_mismatches(value, &format!("{expected}.{name}"), problems);
        }
    }
}

/// Lists and maps have no names of their own.
fn collect_mismatches(value: &Val, expected: &str, problems: &mut Vec<String>) {
    match value {
        Val::Constructed(object) => object.collect_mismatches(expected, problems),
        Val::List(list) => list
            .items
            .iter()
            .for_each(|item| collect_mismatches(item, expected, problems)),
        Val::Map(map) => map
            .values()
            .for_each(|value| collect_mismatches(value, expected, problems)),
        _ => {}
    }
}

fn object<'a>(entries: impl Iterator<Item = (&'a Key, &'a Val)>) -> Result<Value, String> {
    let mut fields = Map::new();
    for (key, value) in entries {
        let Key::Text(name) = key else {
            return Err(format!("map key \"{key}\" is not a string"));
        };
        fields.insert(name.to_string(), value.to_json()?);
    }
    Ok(Value::Object(fields))
}
