//! Random values from templates.
//!
//! A template is JSON. Fields are optional, unless their names end with `!` (mandatory in a new
//! object) or `!!` (always present); `?` marks a rare field. `["$any", ...]` is one of the values,
//! `["$some", ...]` a part of the list, `["$some1", ...]` the same with at least one, `["$all", ...]`
//! the list. A text that names a shared template stands for it.

use std::sync::LazyLock;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use serde_json::{Map, Value};

static SHARED: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("shared.json")).expect("shared templates are JSON")
});

/// How much of a template a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// With the fields that a new object needs.
    New,
    /// Any fields.
    Part,
}

/// A random value of the template.
pub(crate) fn sample(template: &Value, extent: Extent, random: &mut StdRng) -> Value {
    match template {
        Value::String(name) if SHARED.get(name).is_some() => sample(&SHARED[name], extent, random),
        Value::Object(fields) => sample_fields(fields, extent, random),
        Value::Array(items) => match items.split_first() {
            Some((Value::String(mode), rest)) if mode == "$any" => {
                let chosen = rest.choose(random).unwrap_or(&Value::Null);
                sample(chosen, extent, random)
            }
            Some((Value::String(mode), rest)) if mode.starts_with('$') => {
                let is_in = |random: &mut StdRng| mode == "$all" || random.random_bool(0.55);
                let mut chosen: Vec<&Value> = rest.iter().filter(|_| is_in(random)).collect();
                if mode == "$some1" && chosen.is_empty() {
                    chosen.extend(rest.first());
                }
                if random.random_bool(0.15) {
                    chosen.shuffle(random);
                }
                if random.random_bool(0.02) && !chosen.is_empty() {
                    chosen.push(chosen[0]);
                }
                chosen
                    .into_iter()
                    .map(|item| sample(item, extent, random))
                    .collect()
            }
            _ => template.clone(),
        },
        scalar => scalar.clone(),
    }
}

fn sample_fields(fields: &Map<String, Value>, extent: Extent, random: &mut StdRng) -> Value {
    let mut sampled = Map::new();
    for (key, template) in fields {
        let name = key.trim_end_matches(['!', '?']);
        let chance = match (key, extent) {
            (key, _) if key.ends_with("!!") => 1.0,
            (key, Extent::New) if key.ends_with('!') => 1.0,
            (key, Extent::Part) if key.ends_with('!') => 0.7,
            (key, _) if key.ends_with('?') => 0.04,
            _ => 0.4,
        };
        if !random.random_bool(chance) {
            continue;
        }
        let mut value = sample(template, extent, random);
        if !key.ends_with('!') || extent == Extent::Part && !key.ends_with("!!") {
            if random.random_bool(0.02) {
                value = Value::Null;
            } else if random.random_bool(0.04) {
                match &mut value {
                    Value::Object(fields) => fields.clear(),
                    Value::Array(items) => items.clear(),
                    _ => {}
                }
            }
        }
        sampled.insert(name.to_owned(), value);
    }
    Value::Object(sampled)
}

/// The JSON pointers of all values inside of `value`.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect(value: &Value, here: String, found: &mut Vec<String>) {
    if !here.is_empty() {
        found.push(here.clone());
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{here}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{here}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_object_has_its_mandatory_fields() {
        let template = json!({"a!": ["$any", 1], "b!!": {"c!!": ["$all", 1, 2]}, "d": 1});
        for seed in 0..50 {
            let mut random = StdRng::seed_from_u64(seed);
            let value = sample(&template, Extent::New, &mut random);
            assert_eq!(value["a"], 1);
            assert_eq!(
                value["b"]["c"].as_array().map_or(0, Vec::len).max(2),
                value["b"]["c"].as_array().map_or(0, Vec::len)
            );
        }
    }

    #[test]
    fn pointers_name_all_inner_values() {
        let found = pointers(&json!({"a/b": [{"c": 1}]}));
        assert_eq!(found, ["/a~1b", "/a~1b/0", "/a~1b/0/c"]);
    }
}
