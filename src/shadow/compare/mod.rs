//! Whether an object looks as if a held-back write had been made.
//!
//! (write, live object) -> [`Outcome`]: made, stale, or the fields that differ
//!
//! Two times are equal, because two managers never write at the same instant. A field that is absent
//! equals its zero value, as in Go.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::write::{Verb, Write};

/// The state of the written object, or of its collection, at the API server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Live {
    /// There is no such object.
    Absent,
    /// The object.
    Object(Value),
    /// The objects of the collection.
    List(Vec<Value>),
}

/// One field that the write would change.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(super) struct Field {
    /// The value of the object; null if it has none.
    pub(super) live: Value,
    /// The value that the write would set; null removes the field.
    pub(super) wanted: Value,
}

/// The fields that differ, by path.
pub(super) type Fields = BTreeMap<String, Field>;

/// The comparison of a write with the live object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The write would change nothing, or nothing is left to write to.
    Made,
    /// The object changed since the decision, so the API server would refuse the write.
    Stale,
    /// These fields differ.
    Differs(Fields),
}

/// Compares `write` with `live`.
pub(super) fn compare(write: &Write, live: &Live) -> Outcome {
    match (write.verb, live) {
        (Verb::Create, Live::Absent) => differs_in("", Value::Null, json!("an object")),
        (Verb::Create, _) => Outcome::Made,
        (Verb::Generate, Live::List(items)) => {
            let children = items.iter().filter(|item| is_child(write, item));
            let mut names: Vec<&Value> = children.map(|item| &item["metadata"]["name"]).collect();
            names.sort_unstable_by_key(|name| name.as_str());
            differs_in("", json!(names), json!("one more object"))
        }
        (Verb::DeleteCollection, Live::List(items)) => {
            let stays = |item: &&Value| item["metadata"]["deletionTimestamp"].is_null();
            match items.iter().filter(stays).count() {
                0 => Outcome::Made,
                count => differs_in("", json!(format!("{count} objects")), Value::Null),
            }
        }
        (_, Live::Absent | Live::List(_)) => Outcome::Made,
        (Verb::Delete, Live::Object(live)) => deletion(&write.body, live),
        (Verb::Update, Live::Object(live)) => update(write, live),
        (Verb::Merge | Verb::Strategic, Live::Object(live)) => patch(write, live),
        (Verb::JsonPatch, Live::Object(live)) => operations(&write.body, live),
        (Verb::Generate | Verb::DeleteCollection, Live::Object(_)) => Outcome::Stale,
    }
}

fn differs_in(path: &str, live: Value, wanted: Value) -> Outcome {
    Outcome::Differs([(path.to_owned(), Field { live, wanted })].into())
}

fn outcome(fields: Fields) -> Outcome {
    if fields.is_empty() {
        Outcome::Made
    } else {
        Outcome::Differs(fields)
    }
}

/// Whether `item` is a child as `write` would create it: of the same owner, or with the same prefix.
fn is_child(write: &Write, item: &Value) -> bool {
    let Some(owner) = write.owner_uid() else {
        return item["metadata"]["generateName"].as_str() == write.prefix();
    };
    let owners = item["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|one| one["uid"] == owner))
}

fn deletion(options: &Value, live: &Value) -> Outcome {
    // An eviction has the options of the deletion inside.
    let options = options.get("deleteOptions").unwrap_or(options);
    let condition = |name: &str| options["preconditions"][name].as_str();
    let meta = &live["metadata"];
    if condition("uid").is_some_and(|uid| meta["uid"] != uid) {
        return Outcome::Made;
    }
    if condition("resourceVersion").is_some_and(|version| meta["resourceVersion"] != version) {
        return Outcome::Stale;
    }
    let is_immediate = options["gracePeriodSeconds"] == 0;
    if !meta["deletionTimestamp"].is_null() && !is_immediate {
        return Outcome::Made;
    }
    differs_in("", json!("an object"), Value::Null)
}

/// The differences of a PUT. They are those of the decision only while the object is unchanged.
fn update(write: &Write, live: &Value) -> Outcome {
    let body = &write.body;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    if !uid(body).is_null() && uid(body) != uid(live) {
        return Outcome::Made;
    }
    let is_stale = !version(body).is_null() && version(body) != version(live);
    let mut fields = Fields::new();
    match write.subresource.as_deref() {
        Some("status" | "approval") => {
            diff(&live["status"], &body["status"], "status", &mut fields);
        }
        Some("scale") => {
            let replicas = |object: &Value| object["spec"]["replicas"].clone();
            diff(
                &replicas(live),
                &replicas(body),
                "spec.replicas",
                &mut fields,
            );
            return outcome(fields);
        }
        Some("finalize") => diff(&live["spec"], &body["spec"], "spec", &mut fields),
        _ => diff(
            &without_served(live),
            &without_served(body),
            "",
            &mut fields,
        ),
    }
    if is_stale && !fields.is_empty() {
        return Outcome::Stale;
    }
    outcome(fields)
}

/// The object without the fields that the API server sets.
fn without_served(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        for name in ["status", "kind", "apiVersion"] {
            members.remove(name);
        }
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "resourceVersion", "generation", "uid"] {
            meta.remove(name);
        }
        for name in [
            "creationTimestamp",
            "deletionTimestamp",
            "selfLink",
            "deletionGracePeriodSeconds",
        ] {
            meta.remove(name);
        }
    }
    object
}

fn patch(write: &Write, live: &Value) -> Outcome {
    let mut body = write.body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    if let Some(meta) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        let served = &live["metadata"];
        // Both are conditions of the patch.
        if meta.remove("uid").is_some_and(|uid| uid != served["uid"]) {
            return Outcome::Made;
        }
        let version = meta.remove("resourceVersion");
        if version.is_some_and(|version| version != served["resourceVersion"]) {
            return Outcome::Stale;
        }
    }
    let mut fields = Fields::new();
    subset(live, &body, "", write.verb == Verb::Strategic, &mut fields);
    outcome(fields)
}

/// Collects the fields of `patch` that `live` lacks.
fn subset(live: &Value, patch: &Value, path: &str, merges_lists: bool, fields: &mut Fields) {
    match patch {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
                    let items = value.as_array().into_iter().flatten();
                    let kept = |item: &&Value| contains(&live[list], item);
                    for item in items.filter(kept) {
                        add(
                            fields,
                            &format!("{}[{}]", join(path, list), plain(item)),
                            item,
                            &Value::Null,
                        );
                    }
                } else if !name.starts_with('$') {
                    let member = live.get(name).unwrap_or(&Value::Null);
                    subset(member, value, &join(path, name), merges_lists, fields);
                }
            }
        }
        Value::Array(items) if merges_lists && merge_key(path).is_some() => {
            let key = merge_key(path).unwrap_or_default();
            for item in items {
                element(live, item, key, path, fields);
            }
        }
        _ => diff(live, patch, path, fields),
    }
}

/// Compares one element of a list that merges by `key`; an empty key is a list of plain values.
fn element(live: &Value, item: &Value, key: &str, path: &str, fields: &mut Fields) {
    if key.is_empty() {
        if !contains(live, item) {
            add(
                fields,
                &format!("{path}[{}]", plain(item)),
                &Value::Null,
                item,
            );
        }
        return;
    }
    let path = format!("{path}[{}]", plain(&item[key]));
    let served = live.as_array().into_iter().flatten();
    let served = served.into_iter().find(|served| served[key] == item[key]);
    match (served, item["$patch"] == "delete") {
        (Some(served), true) => add(fields, &path, served, &Value::Null),
        (None, true) => {}
        (served, false) => subset(served.unwrap_or(&Value::Null), item, &path, true, fields),
    }
}

/// The merge key of the list at `path` in a strategic merge patch; empty for lists of plain values.
/// Other lists are replaced.
fn merge_key(path: &str) -> Option<&'static str> {
    let name = path.rsplit('.').next()?;
    Some(match name {
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "containers" | "initContainers" | "volumes" | "env" | "secrets" | "imagePullSecrets" => {
            "name"
        }
        "podIPs" | "hostIPs" => "ip",
        "finalizers" => "",
        _ => return None,
    })
}

fn contains(list: &Value, item: &Value) -> bool {
    list.as_array().is_some_and(|items| items.contains(item))
}

/// The differences after the operations of a JSON patch. Tests are conditions.
fn operations(patch: &Value, live: &Value) -> Outcome {
    let mut fields = Fields::new();
    for operation in patch.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (list, is_append) = match path.strip_suffix("/-") {
            Some(list) => (list, true),
            None => (path, false),
        };
        let found = live.pointer(list).unwrap_or(&Value::Null);
        let value = &operation["value"];
        match operation["op"].as_str() {
            Some("test") if found != value => return Outcome::Stale,
            Some("add") if is_append && !contains(found, value) => {
                add(&mut fields, path, &Value::Null, value);
            }
            Some("add" | "replace") if !is_append => diff(found, value, path, &mut fields),
            Some("remove") => diff(found, &Value::Null, path, &mut fields),
            _ => {}
        }
    }
    outcome(fields)
}

/// Collects the fields in which two values differ.
fn diff(live: &Value, wanted: &Value, path: &str, fields: &mut Fields) {
    match (live, wanted) {
        (Value::Object(old), Value::Object(new)) => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let of =
                    |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                diff(&of(old), &of(new), &join(path, name), fields);
            }
        }
        (Value::Array(old), Value::Array(new)) => match list_key(path) {
            Some(key) if is_unique(old, key) && is_unique(new, key) => {
                keyed(old, new, key, path, fields);
            }
            _ if old.len() == new.len() => {
                for (at, (old, new)) in old.iter().zip(new).enumerate() {
                    diff(old, new, &format!("{path}[{at}]"), fields);
                }
            }
            _ => add(fields, path, live, wanted),
        },
        _ if is_equal(live, wanted) => {}
        _ => add(fields, path, live, wanted),
    }
}

/// The key of lists whose order has no meaning.
fn list_key(path: &str) -> Option<&'static str> {
    match path.rsplit('.').next()? {
        "conditions" => Some("type"),
        "ownerReferences" => Some("uid"),
        _ => None,
    }
}

fn is_unique(items: &[Value], key: &str) -> bool {
    let mut keys: Vec<&str> = items.iter().filter_map(|item| item[key].as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.len() == items.len()
}

fn keyed(old: &[Value], new: &[Value], key: &str, path: &str, fields: &mut Fields) {
    let empty = Value::Null;
    for item in new {
        let served = old.iter().find(|served| served[key] == item[key]);
        let path = format!("{path}[{}]", plain(&item[key]));
        diff(served.unwrap_or(&empty), item, &path, fields);
    }
    for item in old {
        if !new.iter().any(|other| other[key] == item[key]) {
            add(
                fields,
                &format!("{path}[{}]", plain(&item[key])),
                item,
                &empty,
            );
        }
    }
}

fn is_equal(live: &Value, wanted: &Value) -> bool {
    let is_time = |value: &Value| {
        let text = value.as_str().filter(|text| text.len() >= 20);
        text.is_some_and(|text| text.parse::<Timestamp>().is_ok())
    };
    match (live, wanted) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::String(_), Value::String(_)) => {
            live == wanted || (is_time(live) && is_time(wanted))
        }
        _ => live == wanted || (is_zero(live) && is_zero(wanted)),
    }
}

/// Whether Go omits this value.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_zero),
    }
}

fn add(fields: &mut Fields, path: &str, live: &Value, wanted: &Value) {
    let live = live.clone();
    let wanted = wanted.clone();
    fields.insert(path.to_owned(), Field { live, wanted });
}

fn join(path: &str, name: &str) -> String {
    // A label or an annotation has dots in its name.
    let name = if name.contains('.') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
