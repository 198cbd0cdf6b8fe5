//! Parts of a configuration that have one manager as a whole.
//!
//! Upstream: `findAtomics` in `pkg/admission/plugin/policy/mutating/patch` of `k8s.io/apiserver`.

use serde_json::Value;

use super::shape::{Elements, Form, Shape};

/// The paths of the lists, maps and structs in `config`, a whole object of this shape, that cannot
/// be merged.
pub(crate) fn atomics(shape: Shape<'_>, config: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(shape, config, "", &mut found);
    found
}

fn collect(shape: Shape<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape.form_of(value), value) {
        (Form::Map(map), Value::Object(_)) if map.is_atomic => found.push(path.to_owned()),
        (Form::Map(map), Value::Object(fields)) => {
            for (key, value) in fields {
                if let Some(field) = map.field(key) {
                    collect(field, value, &format!("{path}.{key}"), found);
                }
            }
        }
        (Form::List(list), Value::Array(_)) if matches!(list.elements, Elements::Atomic) => {
            found.push(path.to_owned());
        }
        (Form::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                collect(list.item, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_structs_that_cannot_be_merged_are_found() {
        let config = json!({
            "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": [{"name": "a", "args": ["x"], "env": [{"name": "e"}]}]}},
            },
        });
        let found = atomics(Shape::of_object("Deployment", &config), &config);
        let expected = [
            ".metadata.ownerReferences[0]",
            ".spec.selector",
            ".spec.template.spec.containers[0].args",
        ];
        assert_eq!(found, expected);
    }
}
