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

/// Why an operation does not apply, in the words of upstream's library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unapplied {
    /// A `test` found another value.
    Test(String),
    Other(String),
}

impl Unapplied {
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Test(why) | Self::Other(why) => why,
        }
    }
}

/// Applies the operations that admission makes. Unlike [`json`], an error tells the reason.
pub(crate) fn explained(object: &mut Value, operations: &[Value]) -> Result<(), Unapplied> {
    let mut result = object.clone();
    for operation in operations {
        let before = result.clone();
        json(&mut result, &Value::from(vec![operation.clone()]))
            .map_err(|_| reason(&before, operation))?;
    }
    *object = result;
    Ok(())
}

/// Upstream: `add`, `remove`, `replace`, `move`, `test` and `copy` of `json-patch.v4/patch.go`.
fn reason(object: &Value, operation: &Value) -> Unapplied {
    let member = |name: &str| operation[name].as_str().unwrap_or_default();
    let kind = member("op");
    let path = member("path");
    let from = member("from");
    let missing = |place: String| {
        Unapplied::Other(format!(
            "{kind} operation does not apply: {place}: missing value"
        ))
    };
    let of = |subject: &str, path: &str, why: String| {
        Unapplied::Other(format!("error in {kind} for {subject}: '{path}': {why}"))
    };
    let source = match kind {
        "move" | "copy" => from,
        _ => path,
    };
    let Some((holder, key)) = holder(object, source) else {
        return missing(match kind {
            "add" | "remove" => format!("doc is missing path: \"{path}\""),
            "test" => format!("is missing path: {path}"),
            "move" | "copy" => format!("doc is missing from path: {from}"),
            _ => format!("doc is missing path: {path}"),
        });
    };
    let found = found(holder, &key);
    match (kind, found) {
        ("add", Err(why)) => of("path", path, why),
        ("remove", Err(why)) => of("path", path, why),
        ("remove", Ok(None)) => {
            let why = format!("Unable to remove nonexistent key: {key}: missing value");
            of("path", path, why)
        }
        ("replace", Err(_)) => missing(format!("doc is missing key: {path}")),
        ("test", Err(why)) => of("path", path, why),
        ("test", Ok(_)) => Unapplied::Test(format!("testing value {path} failed: test failed")),
        ("move", Err(why)) => of("path", &key, why),
        ("copy", Err(why)) => of("from", from, why),
        ("move" | "copy", Ok(_)) => missing(format!("doc is missing destination path: {path}")),
        _ => Unapplied::Other(format!("Unexpected kind: {kind}")),
    }
}

/// The object or list that holds the value at a path, and the last step of the path.
fn holder<'a>(object: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let (parent, key) = path.rsplit_once('/')?;
    let holder = object.pointer(parent)?;
    let key = key.replace("~1", "/").replace("~0", "~");
    (holder.is_object() || holder.is_array()).then_some((holder, key))
}

/// The value under a key. The error is about an index that a list does not have.
fn found<'a>(holder: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    let Value::Array(items) = holder else {
        return Ok(holder.get(key));
    };
    let index: i64 = key
        .parse()
        .map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    let place = usize::try_from(index).ok();
    match place.and_then(|place| items.get(place)) {
        Some(item) => Ok(Some(item)),
        None => Err(format!(
            "Unable to access invalid index: {index}: invalid index referenced"
        )),
    }
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
    fn reasons_of_failures_are_those_of_upstream() {
        let object = json!({"a": 1, "l": [1]});
        let cases = [
            (
                json!({"op": "add", "path": "/nope/b", "value": 1}),
                "add operation does not apply: doc is missing path: \"/nope/b\": missing value",
            ),
            (
                json!({"op": "remove", "path": "/nope"}),
                "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            ),
            (
                json!({"op": "remove", "path": "/l/9"}),
                "error in remove for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
            ),
            (
                json!({"op": "replace", "path": "/l/-", "value": 1}),
                "replace operation does not apply: doc is missing key: /l/-: missing value",
            ),
            (
                json!({"op": "copy", "from": "/x/y", "path": "/b"}),
                "copy operation does not apply: doc is missing from path: /x/y: missing value",
            ),
            (
                json!({"op": "move", "from": "/a", "path": "/x/y"}),
                "move operation does not apply: doc is missing destination path: /x/y: missing value",
            ),
            (json!({"op": "foo", "path": "/a"}), "Unexpected kind: foo"),
        ];
        for (operation, reason) in cases {
            let explained = super::explained(&mut object.clone(), &[operation]);
            assert_eq!(explained, Err(Unapplied::Other(reason.to_owned())));
        }
        let test = json!({"op": "test", "path": "/a", "value": 2});
        let reason = "testing value /a failed: test failed".to_owned();
        assert_eq!(
            super::explained(&mut object.clone(), &[test]),
            Err(Unapplied::Test(reason))
        );
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
