//! Sets of fields, as trees in the format of `FieldsV1`.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/fieldpath`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

/// Metadata fields without managers.
const IDENTITY: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// A set of paths, as a tree. The steps of paths are written as in `FieldsV1`: `f:name`,
/// `k:{"name":"c"}`, `v:"a"`. The JSON in them is safe inside of HTML.
///
/// Invariant: no child is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FieldSet {
    /// Whether the path to this node is in the set.
    member: bool,
    children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// Only the path to this node.
    pub(super) fn here() -> Self {
        Self {
            member: true,
            children: BTreeMap::new(),
        }
    }

    /// The path of nested fields with these names.
    pub(crate) fn path<'a>(names: impl DoubleEndedIterator<Item = &'a str>) -> Self {
        names.rev().fold(Self::here(), |below, name| {
            let mut parent = Self::default();
            parent.put(|| format!("f:{name}"), below);
            parent
        })
    }

    pub(super) fn include_here(&mut self) {
        self.member = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(super) fn is_member(&self) -> bool {
        self.member
    }

    pub(super) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    pub(super) fn child(&self, element: &str) -> Option<&FieldSet> {
        self.children.get(element)
    }

    /// Sets the child of `element`. An empty child is not stored.
    pub(super) fn put(&mut self, element: impl FnOnce() -> String, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element(), child);
        }
    }

    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = (&str, &mut FieldSet)> {
        self.children
            .iter_mut()
            .map(|(element, child)| (element.as_str(), child))
    }

    pub(crate) fn union(&mut self, other: FieldSet) {
        self.member |= other.member;
        for (element, child) in other.children {
            match self.children.get_mut(&element) {
                Some(known) => known.union(child),
                None => drop(self.children.insert(element, child)),
            }
        }
    }

    /// Removes the paths of `other`, but keeps paths below them.
    pub(crate) fn subtract(&mut self, other: &FieldSet) {
        self.member &= !other.member;
        if other.children.is_empty() {
            return;
        }
        self.children.retain(|element, child| {
            if let Some(other) = other.children.get(element) {
                child.subtract(other);
            }
            !child.is_empty()
        });
    }

    /// Removes the paths of `other`, and paths below them.
    pub(crate) fn subtract_whole(&mut self, other: &FieldSet) {
        self.member &= !other.member;
        self.children.retain(|element, child| {
            if let Some(other) = other.children.get(element) {
                if other.member {
                    return false;
                }
                child.subtract_whole(other);
            }
            !child.is_empty()
        });
    }

    /// Removes the fields of an object that have no managers, because the server sets them or they
    /// identify the object.
    pub(super) fn strip_identity(&mut self) {
        self.member = false;
        self.children
            .retain(|element, _| !matches!(element.as_str(), "f:apiVersion" | "f:kind"));
        let Some(metadata) = self.children.get_mut("f:metadata") else {
            return;
        };
        metadata.member = false;
        metadata.children.retain(|element, child| {
            let is_identity = element
                .strip_prefix("f:")
                .is_some_and(|f| IDENTITY.contains(&f));
            child.member &= !is_identity;
            !child.is_empty()
        });
        if metadata.is_empty() {
            self.children.remove("f:metadata");
        }
    }

    pub(crate) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut common = FieldSet {
            member: self.member && other.member,
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            if let Some(other) = other.children.get(element) {
                common.put(|| element.clone(), child.intersection(other));
            }
        }
        common
    }

    /// The paths in the form of messages: `.spec.containers[name="c"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// The members at one level come before the paths below it.
    fn collect_paths(&self, here: &str, paths: &mut Vec<String>) {
        let mut children: Vec<_> = self.children.iter().collect();
        children.sort_by(|(a, _), (b, _)| compare_elements(a, b));
        for (element, _) in children.iter().filter(|(_, child)| child.member) {
            paths.push(format!("{here}{}", shown(element)));
        }
        for (element, child) in children {
            child.collect_paths(&format!("{here}{}", shown(element)), paths);
        }
    }

    /// Parses `FieldsV1`; `None` if the value is invalid.
    pub(crate) fn parse(value: &Value) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        for (element, below) in value.as_object()? {
            if element == "." {
                set.member = true;
                continue;
            }
            if !["f:", "k:", "v:", "i:"]
                .iter()
                .any(|start| element.starts_with(start))
            {
                return None;
            }
            let mut child = FieldSet::parse(below)?;
            child.member |= child.children.is_empty();
            let element = match element.strip_prefix("f:") {
                Some(_) => element.clone(),
                None => html_safe(element.clone()),
            };
            set.children.insert(element, child);
        }
        Some(set)
    }

    pub(crate) fn into_value(self) -> Value {
        // Most sets are leaves. An empty map without capacity needs no allocation.
        let has_dot = self.member && !self.children.is_empty();
        let mut fields = Map::with_capacity(self.children.len() + usize::from(has_dot));
        if has_dot {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        let children = self.children.into_iter();
        fields.extend(children.map(|(element, child)| (element, child.into_value())));
        Value::Object(fields)
    }
}

/// JSON as Go's encoders write it, safe inside of HTML.
pub(super) fn html_safe(json: String) -> String {
    const UNSAFE: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    if !json.contains(UNSAFE) {
        return json;
    }
    // These letters are parts of texts only, and a text can have every letter in this form.
    let mut safe = String::with_capacity(json.len() + 5);
    for letter in json.chars() {
        if UNSAFE.contains(&letter) {
            write!(safe, "\\u{:04x}", u32::from(letter)).expect("writing to a string cannot fail");
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// One step of a path in the form of messages.
pub(super) fn shown(element: &str) -> String {
    let (kind, rest) = element.split_at(2);
    match kind {
        "f:" => format!(".{rest}"),
        "v:" => {
            let value: Value = serde_json::from_str(rest).unwrap_or_default();
            format!("[={value}]")
        }
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let mut text = String::from("[");
            for (at, (key, value)) in keys.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(text, "{comma}{key}={value}").expect("writing to a string cannot fail");
            }
            text.push(']');
            text
        }
        _ => format!("[{rest}]"),
    }
}

/// The order of the steps of paths: fields, elements by key, values.
fn compare_elements(a: &str, b: &str) -> Ordering {
    let rank = |element: &str| {
        ["f:", "k:", "v:"]
            .iter()
            .position(|kind| element.starts_with(kind))
    };
    let content = |element: &str| -> Value {
        serde_json::from_str(element.get(2..).unwrap_or_default()).unwrap_or_default()
    };
    match (rank(a), rank(b)) {
        (Some(0), Some(0)) => a.cmp(b),
        (a_rank, b_rank) if a_rank != b_rank => a_rank.cmp(&b_rank),
        (Some(1), _) => {
            let a = content(a);
            let b = content(b);
            let keys = |value: &Value| -> Vec<(String, Value)> {
                let mut keys: Vec<_> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                keys.sort_by(|(a, _), (b, _)| a.cmp(b));
                keys
            };
            let a = keys(&a);
            let b = keys(&b);
            let pairs = a.iter().zip(&b);
            let different = pairs
                .map(|((a_key, a), (b_key, b))| a_key.cmp(b_key).then_with(|| compare_values(a, b)))
                .find(|order| order.is_ne());
            different.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => compare_values(&content(a), &content(b)),
    }
}

/// The order of scalars: numbers, texts, booleans.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        _ => 3,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a
            .as_f64()
            .partial_cmp(&b.as_f64())
            .unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}
