//! Removes the fields that a type does not have.

use serde_json::{Map, Value};
use steersman_releases::Release;

use super::unions::schemas_in;
use super::{Struct, Type};

/// Drops the fields of `object` that built-in kind `kind` does not have in `release`, and returns their
/// paths (`spec.containers[0].imagee`). Kinds without a type stay unchanged.
pub fn prune_unknown(release: Release, kind: &str, object: &mut Value) -> Vec<String> {
    let mut pruning = Pruning::of(release, "");
    if let Some(shape) = super::of_object(kind, object)
        && let Some(fields) = object.as_object_mut()
    {
        pruning.fields(shape, fields);
    }
    pruning.unknown
}

/// Drops the fields of `metadata` that no object has, and returns their paths below `path`.
pub(crate) fn prune_metadata(metadata: &mut Value, path: &str) -> Vec<String> {
    let mut pruning = Pruning::of(Release::DEFAULT, path);
    if let Some(fields) = metadata.as_object_mut() {
        pruning.fields(super::metadata(), fields);
    }
    pruning.unknown
}

/// A walk over an object that drops unknown fields.
struct Pruning {
    release: Release,
    /// The path of the value at hand.
    path: String,
    /// Paths of the dropped fields.
    unknown: Vec<String>,
}

impl Pruning {
    fn of(release: Release, path: &str) -> Self {
        Self {
            release,
            path: path.to_owned(),
            unknown: Vec::new(),
        }
    }

    fn fields(&mut self, shape: &Struct, fields: &mut Map<String, Value>) {
        let outer = self.path.len();
        let mut next = 0;
        fields.retain(|name, value| {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
            let position = shape.position(name, next);
            let position = position.filter(|at| shape.fields()[*at].since <= self.release);
            match position {
                None => self.unknown.push(self.path.clone()),
                Some(at) => {
                    next = at + 1;
                    let field = &shape.fields()[at];
                    self.value(&field.ty, value);
                    // Go's decoders of unions drop unknown fields without a report.
                    for fields in schemas_in(shape, field, value) {
                        Self::of(self.release, "").fields(shape, fields);
                    }
                }
            }
            self.path.truncate(outer);
            position.is_some()
        });
    }

    fn value(&mut self, ty: &Type, value: &mut Value) {
        let outer = self.path.len();
        match (ty, value) {
            (Type::Struct(_), Value::Object(fields)) => {
                if let Some(shape) = ty.as_struct() {
                    self.fields(shape, fields);
                }
            }
            (Type::List(item), Value::Array(items)) if item.holds_structs() => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.value(item, value);
                    self.path.truncate(outer);
                }
            }
            (Type::Map(item), Value::Object(entries)) if item.holds_structs() => {
                for (key, value) in entries {
                    self.path.push('.');
                    self.path.push_str(key);
                    self.value(item, value);
                    self.path.truncate(outer);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut object = json!({"dat": {}, "metadata": {"bogus": 1, "labels": {"any": "x"}},
            "spec": {"template": {"spec": {"containers": [{"imagee": "x"}]}}}});
        assert_eq!(
            prune_unknown(Release::DEFAULT, "Deployment", &mut object),
            [
                "dat",
                "metadata.bogus",
                "spec.template.spec.containers[0].imagee"
            ]
        );
        assert_eq!(
            object,
            json!({"metadata": {"labels": {"any": "x"}},
            "spec": {"template": {"spec": {"containers": [{}]}}}})
        );
        let mut custom = json!({"spec": {"free": 1}});
        assert!(prune_unknown(Release::DEFAULT, "Widget", &mut custom).is_empty());
        assert_eq!(custom, json!({"spec": {"free": 1}}));
    }

    #[test]
    fn fields_of_later_releases_are_unknown() {
        let object = json!({"spec": {"hostnameOverride": "h", "schedulingGroup": {}}});
        let cases = [
            (33, vec!["spec.hostnameOverride", "spec.schedulingGroup"]),
            (34, vec!["spec.schedulingGroup"]),
            (36, vec![]),
        ];
        for (minor, expected) in cases {
            let release = Release::of_minor(minor);
            let found = prune_unknown(release, "Pod", &mut object.clone());
            assert_eq!(found, expected, "1.{minor}");
        }
    }
}
