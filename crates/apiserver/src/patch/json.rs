//! JSON patch (RFC 6902) with the deviations of `evanphx/json-patch`, the library of upstream.

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::Value;

use super::PatchError;
use crate::schema::decode::json_type;

/// Most operations of one patch; upstream's limit.
pub const MAX_OPERATIONS: usize = 10_000;

/// Applies all operations, or none. Failing and unknown operations give the client the same
/// message, as upstream's do.
pub fn json(object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = operations(patch)?;
    let rejected = || {
        PatchError::Failed(
            "the server rejected our request due to an error in our request".to_owned(),
        )
    };
    if operations.len() > MAX_OPERATIONS {
        let given = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {given}"
        )));
    }
    let Patch(operations) = serde_json::from_value(patch.clone()).map_err(|_| rejected())?;
    let mut result = object.clone();
    for operation in operations {
        let operation = replace_or_add(&result, operation);
        json_patch::patch(&mut result, std::slice::from_ref(&operation)).map_err(|_| rejected())?;
    }
    *object = result;
    Ok(())
}

/// `replace` of a missing member becomes `add`, if the parent object exists. Upstream's library
/// accepts such a `replace`, although the RFC forbids it.
fn replace_or_add(object: &Value, operation: PatchOperation) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else {
        return operation;
    };
    let path = replace.path.as_str();
    let holder = path
        .rsplit_once('/')
        .and_then(|(holder, _)| object.pointer(holder));
    if holder.is_some_and(Value::is_object) && object.pointer(path).is_none() {
        return PatchOperation::Add(AddOperation {
            path: replace.path,
            value: replace.value,
        });
    }
    PatchOperation::Replace(replace)
}

/// The list of operations, after a check that each one is an object.
fn operations(patch: &Value) -> Result<&Vec<Value>, PatchError> {
    let malformed = |what: &str, target: &str| {
        Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type {target}"
        )))
    };
    let Value::Array(operations) = patch else {
        return malformed(json_type(patch), "[]handlers.jsonPatchOp");
    };
    match operations.iter().find(|operation| !operation.is_object()) {
        Some(odd) => malformed(json_type(odd), "handlers.jsonPatchOp"),
        None => Ok(operations),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let mut object = json!({"a": {"x": 1}, "list": [1, 2]});
        let patch = json!([
            {"op": "test", "path": "/a/x", "value": 1},
            {"op": "replace", "path": "/a/x", "value": 2},
            {"op": "add", "path": "/a/y~1z", "value": "q"},
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "copy", "from": "/a/x", "path": "/b"},
            {"op": "move", "from": "/a/x", "path": "/c"},
            {"op": "remove", "path": "/list/0"},
            {"op": "replace", "path": "/a/new", "value": 1},
        ]);
        super::json(&mut object, &patch).unwrap();
        assert_eq!(
            object,
            json!({"a": {"y/z": "q", "new": 1}, "list": [2, 3], "b": 2, "c": 2})
        );
    }

    #[test]
    fn a_failing_operation_leaves_the_object_unchanged() {
        let original = json!({"a": 1, "l": [1]});
        let cases = [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "replace", "path": "/nope/x", "value": 1}]),
            json!([{"op": "replace", "path": "/l/9", "value": 1}]),
            json!([{"op": "remove", "path": "/nope"}]),
            json!([{"op": "remove", "path": "/l/9"}]),
            json!([{"op": "add", "path": "/nope/b", "value": 1}]),
            json!([{"op": "foo", "path": "/a"}]),
            json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/l/0", "value": 2}]),
        ];
        for patch in cases {
            let mut object = original.clone();
            assert!(
                matches!(super::json(&mut object, &patch), Err(PatchError::Failed(_))),
                "{patch}"
            );
            assert_eq!(object, original, "{patch}");
        }
    }

    #[test]
    fn only_a_list_of_objects_is_a_json_patch() {
        let message = |patch| match super::json(&mut json!({}), &patch) {
            Err(PatchError::Malformed(message)) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            message(json!({"op": "add"})),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            message(json!([1])),
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"
        );
    }

    #[test]
    fn a_patch_has_at_most_ten_thousand_operations() {
        let many = |n| Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); n]);
        assert_eq!(
            super::json(&mut json!({"a": 1}), &many(MAX_OPERATIONS)),
            Ok(())
        );
        assert!(matches!(
            super::json(&mut json!({"a": 1}), &many(MAX_OPERATIONS + 1)),
            Err(PatchError::TooLarge(_))
        ));
    }
}
