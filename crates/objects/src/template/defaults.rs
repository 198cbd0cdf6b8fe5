//! Defaults of the types in a pod template, as data where possible.
//!
//! [`fill`] sets the constants of a type ([`POD_TEMPLATE`]), and then the fields that follow from other
//! ones ([`rule`]). The in-memory API server fills whole objects with both, and adds the defaults of
//! all other types. Revisions are compared after [`fill`] (see [`defaulted`](super::defaulted)).
//!
//! Upstream: `defaults.go` in `pkg/apis/core/v1`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Constant defaults of the types in a pod template.
pub static POD_TEMPLATE: LazyLock<Defaults> =
    LazyLock::new(|| Defaults::parse(include_str!("defaults.txt")));

/// Constant defaults by type name, such as `core.Container`.
pub struct Defaults(HashMap<&'static str, Vec<Constant>>);

/// One constant default of a field.
pub struct Constant {
    field: &'static str,
    value: Value,
    /// The constant applies only if this other field has this text.
    condition: Option<(&'static str, &'static str)>,
}

impl Defaults {
    /// Parses a table in the format of `defaults.txt`. A malformed table is a defect of the
    /// program, so it panics.
    pub fn parse(text: &'static str) -> Self {
        let mut constants: HashMap<&'static str, Vec<Constant>> = HashMap::new();
        let mut current = "";
        for line in text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
        {
            let Some(entry) = line.strip_prefix(' ') else {
                current = line;
                continue;
            };
            let (entry, condition) = match entry.split_once(" if ") {
                Some((entry, condition)) => (entry, condition.split_once('=')),
                None => (entry, None),
            };
            let (field, value) = entry.split_once(' ').expect("a field and its value");
            let value = serde_json::from_str(value).expect("values are JSON");
            constants.entry(current).or_default().push(Constant {
                field,
                value,
                condition,
            });
        }
        Self(constants)
    }

    /// The constants of the type `type_name`.
    pub fn of(&self, type_name: &str) -> &[Constant] {
        self.0.get(type_name).map_or(&[], Vec::as_slice)
    }

    /// Each type name with each field that has a default.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let entries = self.0.iter();
        entries.flat_map(|(name, constants)| constants.iter().map(|c| (*name, c.field)))
    }
}

impl Constant {
    /// Sets the field if it is unset, and the condition holds.
    pub fn fill(&self, fields: &mut Map<String, Value>) {
        let applies = self
            .condition
            .is_none_or(|(other, text)| fields.get(other).and_then(Value::as_str) == Some(text));
        // Go's defaults of lists replace empty lists, too.
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        if applies && (is_unset(fields, self.field) || fields.get(self.field).is_some_and(is_empty))
        {
            fields.insert(self.field.to_owned(), self.value.clone());
        }
    }
}

/// Sets the fields of an object that follow from other ones.
pub type Rule = fn(&mut Map<String, Value>);

/// The rule of the type `type_name`, such as `core.Container`, if it has one.
pub fn rule(type_name: &str) -> Option<Rule> {
    match type_name {
        "core.Container" | "core.EphemeralContainer" => Some(image_pull_policy),
        "core.PodSpec" => Some(service_account_alias),
        "core.Volume" => Some(empty_volume),
        _ => None,
    }
}

/// Sets the defaults of an object of the type `type_name`, such as `core.Container`. Objects below
/// it stay unchanged, and so do objects of types outside pod templates.
pub fn fill(type_name: &str, fields: &mut Map<String, Value>) {
    let constants = POD_TEMPLATE.of(type_name);
    constants.iter().for_each(|constant| constant.fill(fields));
    if let Some(rule) = rule(type_name) {
        rule(fields);
    }
}

/// Whether a field is absent, or has the empty value that the server writes for it.
pub fn is_unset(fields: &Map<String, Value>, name: &str) -> bool {
    fields
        .get(name)
        .is_none_or(|value| value.is_null() || value == "")
}

/// `Always` for the tag `latest`, which is also the tag of an image without one.
fn image_pull_policy(fields: &mut Map<String, Value>) {
    if !is_unset(fields, "imagePullPolicy") {
        return;
    }
    let image = fields.get("image").and_then(Value::as_str).unwrap_or("");
    let policy = if super::image::is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    fields.insert("imagePullPolicy".to_owned(), json!(policy));
}

/// The deprecated field and the new one always have the same value.
fn service_account_alias(fields: &mut Map<String, Value>) {
    for (from, to) in [
        ("serviceAccountName", "serviceAccount"),
        ("serviceAccount", "serviceAccountName"),
    ] {
        if let Some(name) = fields.get(from).cloned() {
            fields.insert(to.to_owned(), name);
        }
    }
}

/// A volume without a source is an emptyDir.
fn empty_volume(fields: &mut Map<String, Value>) {
    if fields.keys().all(|name| name == "name") {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
}
