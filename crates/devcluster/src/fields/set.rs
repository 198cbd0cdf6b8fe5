//! Sets of fields, in the tree form of `FieldsV1`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value};

/// A set of paths, as a tree. Its elements are the steps of paths in the words of `FieldsV1`:
/// `f:name`, `k:{"name":"c"}`, `v:"a"`.
///
/// No child is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FieldSet {
    /// Whether the path that leads here is in the set.
    member: bool,
    children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// The path that leads here, and nothing below it.
    pub(super) fn here() -> Self {
        Self {
            member: true,
            children: BTreeMap::new(),
        }
    }

    /// The path of fields with these names.
    pub(crate) fn path<'a>(names: impl DoubleEndedIterator<Item = &'a str>) -> Self {
        names.rev().fold(Self::here(), |below, name| {
            let mut holder = Self::default();
            holder.put(|| format!("f:{name}"), below);
            holder
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

    /// Puts `child` below `element`; an empty one leaves nothing there.
    pub(super) fn put(&mut self, element: impl FnOnce() -> String, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element(), child);
        }
    }

    /// Without the top fields that do not pass.
    pub(crate) fn limited(mut self, passes: impl Fn(&str) -> bool) -> Self {
        self.children
            .retain(|element, _| element.strip_prefix("f:").is_none_or(&passes));
        self
    }

    /// Takes out the path of fields with these names, and all that is below it.
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

    pub(crate) fn union(&mut self, other: &FieldSet) {
        self.member |= other.member;
        for (element, child) in &other.children {
            match self.children.get_mut(element) {
                Some(known) => known.union(child),
                None => drop(self.children.insert(element.clone(), child.clone())),
            }
        }
    }

    /// Takes out the paths of `other`; what is below them stays.
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

    /// The paths as messages show them: `.spec.containers[name="c"].image`.
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

    /// Reads `FieldsV1`; `None` when it is something else.
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

    pub(crate) fn to_value(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.children.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        fields.extend(
            self.children
                .iter()
                .map(|(element, child)| (element.clone(), child.to_value())),
        );
        Value::Object(fields)
    }
}

/// One step of a path as messages show it.
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
