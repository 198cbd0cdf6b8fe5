//! Merges the version 2 document of another program into that of the server.
//!
//! paths of its group version -> the definitions that they use -> other names for conflicts -> copy
//!
//! Upstream: `MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters` of
//! `kube-openapi/pkg/aggregator`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Document, fingerprint};

const KINDS: &str = "x-kubernetes-group-version-kind";
/// The parts of a document that have names and references.
const NAMED: [&str; 2] = ["definitions", "parameters"];

impl Document {
    /// The document of another program; `None` without paths, and for texts that are no document.
    pub(crate) fn of_program(text: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(text).ok()?;
        json["paths"].as_object()?;
        let hash = fingerprint(std::iter::once(text));
        Some(Self {
            hash: format!("{hash:016X}"),
            json,
        })
    }

    /// Adds the paths of `other` below `prefix` that this document lacks, with their types.
    pub(crate) fn merge(&mut self, other: &Self, prefix: &str) {
        let known = &self.json["paths"];
        let is_new = |path: &str| path.starts_with(prefix) && known.get(path).is_none();
        let Some(mut added) = filtered(&other.json, is_new) else {
            return;
        };
        for place in NAMED {
            let renames = renames(&self.json[place], &added[place]);
            rename(&mut added, place, &renames);
        }
        for place in NAMED.into_iter().chain(["paths"]) {
            if added[place].is_object() {
                copy(&mut self.json[place], added[place].take());
            }
        }
        let hashes = [&self.hash, &other.hash, prefix].map(str::as_bytes);
        self.hash = format!("{:016X}", fingerprint(hashes.into_iter()));
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The document with these paths only, without the definitions that only other paths use. `None` if no
/// path is left. Upstream: `FilterSpecByPathsWithoutSideEffects`.
fn filtered(document: &Value, keeps: impl Fn(&str) -> bool) -> Option<Value> {
    let paths = fields(&document["paths"]).filter(|(path, _)| keeps(path));
    let paths: Map<String, Value> = paths
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect();
    if paths.is_empty() {
        return None;
    }
    let paths = Value::from(paths);
    let used_before = used(document, &document["paths"]);
    let used_now = used(document, &paths);
    let definitions = fields(&document["definitions"]).filter(|(name, _)| {
        used_now.contains(name.as_str()) || !used_before.contains(name.as_str())
    });
    let definitions: Map<String, Value> = definitions
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let mut left = Map::new();
    left.insert("paths".to_owned(), paths);
    left.insert("definitions".to_owned(), Value::from(definitions));
    left.insert("parameters".to_owned(), document["parameters"].clone());
    Some(Value::from(left))
}

/// The definitions that `paths` use, also by other definitions and by parameters.
fn used<'a>(document: &'a Value, paths: &'a Value) -> BTreeSet<&'a str> {
    let mut definitions = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![paths];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => pending.extend(fields.values()),
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
        let reference = value.get("$ref").and_then(Value::as_str);
        let named = reference.and_then(|reference| reference.strip_prefix("#/")?.split_once('/'));
        if let Some((place, name)) = named
            && seen.insert((place, name))
        {
            pending.extend(document[place].get(name));
            if place == "definitions" {
                definitions.insert(name);
            }
        }
    }
    definitions
}

/// New names for those of `added` that have another meaning in `known`. An equal one that was renamed
/// before keeps its new name.
fn renames(known: &Value, added: &Value) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (name, value) in fields(added) {
        let is_same = |known: &Value| is_equal(known, value);
        if known.get(name).is_none_or(is_same) {
            continue;
        }
        let candidates = (2_u32..).map(|number| format!("{name}_v{number}"));
        let mut fitting = candidates.filter(|candidate| match known.get(candidate) {
            Some(known) => is_same(known),
            None => added.get(candidate).is_none() && !taken.contains(candidate),
        });
        let new = fitting.next().expect("the numbers do not end");
        taken.insert(new.clone());
        renames.insert(name.clone(), new);
    }
    renames
}

/// Whether two types are equal, apart from the kinds that have them.
fn is_equal(one: &Value, other: &Value) -> bool {
    let without_kinds = |value: &Value| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove(KINDS);
        }
        value
    };
    one == other || without_kinds(one) == without_kinds(other)
}

/// Renames the entries of `place` in `document`, and all references to them.
fn rename(document: &mut Value, place: &str, renames: &BTreeMap<String, String>) {
    if renames.is_empty() {
        return;
    }
    if let Some(fields) = document[place].as_object_mut() {
        let renamed = |name: String| renames.get(&name).cloned().unwrap_or(name);
        let all = std::mem::take(fields).into_iter();
        *fields = all.map(|(name, value)| (renamed(name), value)).collect();
    }
    let mut pending = vec![document];
    while let Some(value) = pending.pop() {
        if let Some(Value::String(reference)) = value.get_mut("$ref") {
            let named = reference
                .strip_prefix("#/")
                .and_then(|at| at.split_once('/'));
            let new = named.and_then(|(at, name)| renames.get(name).filter(|_| at == place));
            if let Some(new) = new {
                *reference = format!("#/{place}/{new}");
            }
        }
        match value {
            Value::Object(fields) => pending.extend(fields.values_mut()),
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
}

/// Adds new entries, and the kinds of types that are equal.
fn copy(known: &mut Value, added: Value) {
    let Value::Object(added) = added else {
        return;
    };
    let known = match known {
        Value::Object(known) => known,
        other => {
            *other = Value::from(Map::new());
            other.as_object_mut().expect("it is a map now")
        }
    };
    for (name, value) in added {
        match known.get_mut(&name) {
            Some(known) => add_kinds(known, &value[KINDS]),
            None => drop(known.insert(name, value)),
        }
    }
    known.sort_keys();
}

/// Upstream: `mergedGVKs`.
fn add_kinds(known: &mut Value, added: &Value) {
    let Some(added) = added.as_array() else {
        return;
    };
    if known[KINDS].is_null() {
        known[KINDS] = Value::from(added.clone());
        return;
    }
    let Some(kinds) = known[KINDS].as_array_mut() else {
        return;
    };
    let before = kinds.len();
    for kind in added {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
    if kinds.len() > before {
        let text = |kind: &Value, field: &str| kind[field].as_str().unwrap_or_default().to_owned();
        kinds.sort_by_key(|kind| {
            format!(
                "{}/{}.{}",
                text(kind, "group"),
                text(kind, "version"),
                text(kind, "kind")
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PREFIX: &str = "/apis/g/v1/";

    fn refer(name: &str) -> Value {
        json!({"$ref": format!("#/definitions/{name}")})
    }

    fn path(name: &str) -> Value {
        json!({"get": {"responses": {"200": {"schema": refer(name)}}}})
    }

    fn merged(document: Value, other: &Value) -> Value {
        let mut document = Document {
            hash: String::new(),
            json: document,
        };
        let other = Document::of_program(other.to_string().as_bytes()).unwrap();
        document.merge(&other, PREFIX);
        document.json
    }

    #[test]
    fn paths_come_with_the_definitions_that_they_use() {
        let known = json!({"paths": {"/api": path("A")}, "definitions": {"A": {"type": "object"}}});
        let other = json!({
            "paths": {"/apis/g/v1/bs": path("B"), "/apis/g/v2/ds": path("D"), "/version": path("E")},
            "definitions": {
                "B": {"properties": {"c": refer("C")}}, "C": {"type": "string"}, "D": {"properties": {"e": refer("E")}},
                "E": {"type": "integer"}, "Unused": {"type": "boolean"},
            },
        });
        let expected = json!({
            "paths": {"/api": path("A"), "/apis/g/v1/bs": path("B")},
            "definitions": {
                "A": {"type": "object"}, "B": {"properties": {"c": refer("C")}}, "C": {"type": "string"},
                "Unused": {"type": "boolean"},
            },
        });
        assert_eq!(merged(known.clone(), &other), expected);
        let elsewhere = json!({"paths": {"/version": path("E")}, "definitions": {"E": {}}});
        assert_eq!(merged(known.clone(), &elsewhere), known);
    }

    #[test]
    fn the_hash_tells_the_prefix_of_the_paths() {
        let text = json!({"paths": {"/apis/g/v1/as": {}, "/apis/g/v2/as": {}}}).to_string();
        let other = Document::of_program(text.as_bytes()).unwrap();
        let [one, two] = [PREFIX, "/apis/g/v2/"].map(|prefix| {
            let mut document = Document {
                hash: String::new(),
                json: json!({"paths": {}}),
            };
            document.merge(&other, prefix);
            document.hash
        });
        assert_ne!(one, two);
    }

    #[test]
    fn definitions_in_conflict_get_other_names() {
        let known = json!({
            "paths": {"/apis/g/v1/as": path("A")},
            "definitions": {"A": {"type": "object"}, "B": {"type": "string"}, "B_v2": {"type": "integer"}},
        });
        let other = json!({
            "paths": {"/apis/g/v1/as": path("A"), "/apis/g/v1/bs": path("B")},
            "definitions": {
                "A": {"type": "array", "items": refer("B")}, "B": {"type": "boolean", "not": refer("C")},
                "B_v3": {"type": "null"}, "C": {"type": "string"},
            },
        });
        let once = merged(known.clone(), &other);
        // The server keeps its path, so the program's `A` has no use.
        assert_eq!(once["definitions"]["A"], json!({"type": "object"}));
        assert_eq!(once["paths"]["/apis/g/v1/bs"], path("B_v4"));
        let renamed = json!({"type": "boolean", "not": refer("C")});
        assert_eq!(once["definitions"]["B_v4"], renamed);
        assert_eq!(once["definitions"]["B"], known["definitions"]["B"]);

        let again = json!({
            "paths": {"/apis/g/v1/cs": path("B")},
            "definitions": {"B": renamed, "C": {"type": "string"}},
        });
        let twice = merged(once, &again);
        assert_eq!(twice["paths"]["/apis/g/v1/cs"], path("B_v4"));
    }

    #[test]
    fn equal_definitions_have_the_kinds_of_both() {
        let kind = |group: &str| json!({"group": group, "version": "v1", "kind": "DeleteOptions"});
        let known = json!({"paths": {}, "definitions": {"A": {"type": "object", KINDS: [kind("a"), kind("z")]}}});
        let other = json!({
            "paths": {"/apis/g/v1/as": path("A")},
            "definitions": {"A": {"type": "object", KINDS: [kind("z"), kind("g")]}},
        });
        let kinds = merged(known, &other)["definitions"]["A"][KINDS].take();
        assert_eq!(kinds, json!([kind("a"), kind("g"), kind("z")]));
    }
}
