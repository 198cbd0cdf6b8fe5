//! Sets of fields, as trees in the format of `FieldsV1`.
//!
//! Upstream: `sigs.k8s.io/structured-merge-diff/v6/fieldpath`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

/// A set of paths, as a tree. The steps of paths are written as in `FieldsV1`: `f:name`,
/// `k:{"name":"c"}`, `v:"a"`.
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

    pub(super) fn child(&self, element: &str) -> Option<&FieldSet> {
        self.children.get(element)
    }

    /// Sets the child of `element`. An empty child is not stored.
    pub(super) fn put(&mut self, element: impl FnOnce() -> String, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element(), child);
        }
    }

    /// The set reduced to top-level fields for which `passes` is true.
    pub(crate) fn limited(mut self, passes: impl Fn(&str) -> bool) -> Self {
        self.children
            .retain(|element, _| element.strip_prefix("f:").is_none_or(&passes));
        self
    }

    /// Removes the path of nested fields with these names, and everything below it.
    pub(crate) fn forget(&mut self, names: &[&str]) {
        let Some((name, rest)) = names.split_first() else {
            return;
        };
        let element = format!("f:{name}");
        let is_left = self.children.get_mut(&element).is_some_and(|child| {
            child.forget(rest);
            !rest.is_empty() && !child.is_empty()
        });
        if !is_left {
            self.children.remove(&element);
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

    fn collect_paths(&self, here: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(here.to_owned());
        }
        for (element, child) in &self.children {
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
            set.children.insert(element.clone(), child);
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

/// One step of a path in the form of messages.
pub(super) fn shown(element: &str) -> String {
    let (kind, rest) = element.split_at(2);
    match kind {
        "f:" => format!(".{rest}"),
        "v:" => format!("[={rest}]"),
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
