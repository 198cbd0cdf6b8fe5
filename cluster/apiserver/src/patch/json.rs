//! JSON patch (RFC 6902) with the deviations of `evanphx/json-patch`, the library of upstream.

use serde_json::Value;

use super::PatchError;
use crate::depth::{self, MAX_LEVELS};
use crate::schema::decode::json_type;

/// Most operations of one patch; upstream's limit.
pub const MAX_OPERATIONS: usize = 10_000;

/// Most bytes of JSON that the copies of one patch add; upstream's limit.
const MAX_COPIED: usize = 3 << 20;

/// Levels that a document may have between two operations. All code that walks a value fits into the stack
/// with twice as many.
const DEEP: usize = 500;

/// Letters that Go's encoder writes as escapes, safe inside of HTML.
const HTML: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

/// Applies all operations, or none. Failing and unknown operations give the client the same
/// message, as upstream's do.
pub fn json(object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    check(patch, true)
        .map_err(|why| PatchError::Malformed(format!("error decoding patch: {why}")))?;
    json_as_sent(object, patch, "")
}

/// The same for a patch after its [`check`], with the text `sent`. A `test` compares texts as they are written in JSON, so
/// it fails for letters like `<` that the client did not escape.
pub(crate) fn json_as_sent(
    object: &mut Value,
    patch: &Value,
    sent: &str,
) -> Result<(), PatchError> {
    let operations = patch.as_array().map_or(&[][..], Vec::as_slice);
    if operations.len() > MAX_OPERATIONS {
        let given = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {given}"
        )));
    }
    let same = Sameness {
        without_html: sent.contains(HTML),
    };
    let mut result = object.clone();
    let mut limits = Limits::of(&result);
    for operation in operations {
        let applied = limits.run(&mut result, operation, same);
        applied.map_err(|stop| match stop {
            Stop::TooDeep => PatchError::Malformed(depth::EXCEEDED.to_owned()),
            Stop::Fails | Stop::Copied(_) => PatchError::Failed(
                "the server rejected our request due to an error in our request".to_owned(),
            ),
        })?;
    }
    *object = result;
    Ok(())
}

/// Why a run of operations stops.
enum Stop {
    Fails,
    /// All copies together have more bytes than [`MAX_COPIED`].
    Copied(usize),
    TooDeep,
}

/// The use of its limits by the operations of one patch so far. A copy into itself doubles a value, so
/// some thirty operations would fill the memory.
struct Limits {
    copied: usize,
    /// The document has at most these levels.
    levels: usize,
}

impl Limits {
    fn of(document: &Value) -> Self {
        Self {
            copied: 0,
            levels: depth::levels(document),
        }
    }

    /// Applies one operation within the limits.
    fn run(&mut self, document: &mut Value, operation: &Value, same: Sameness) -> Result<(), Stop> {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let from = text("from");
        let kind = text("op");
        if kind == "copy"
            && let Some(source) = get(document, from)
        {
            self.copied += written_size(source);
            if self.copied > MAX_COPIED {
                return Err(Stop::Copied(self.copied));
            }
        }
        apply(document, operation, same).ok_or(Stop::Fails)?;
        let added = match kind {
            "add" | "replace" => depth::levels(&operation["value"]),
            "copy" | "move" => self.levels.saturating_sub(steps(from)),
            _ => return Ok(()),
        };
        self.levels = self.levels.max(steps(text("path")) + added);
        if self.levels > DEEP {
            self.levels = depth::levels(document);
            if self.levels > MAX_LEVELS {
                return Err(Stop::TooDeep);
            }
        }
        Ok(())
    }
}

/// The levels above the value at a path.
fn steps(path: &str) -> usize {
    path.matches('/').count()
}

/// The size of a value in JSON as Go writes it for a copy, safe inside of HTML. A null that is the
/// whole value costs nothing.
fn written_size(value: &Value) -> usize {
    if value.is_null() {
        return 0;
    }
    let text = value.to_string();
    let escaped = |letter: char| "\\u0000".len() - letter.len_utf8();
    text.len()
        + text
            .chars()
            .filter(|letter| HTML.contains(letter))
            .map(escaped)
            .sum::<usize>()
}

/// Applies one operation; `None` if it fails. A missing value is null.
fn apply(document: &mut Value, operation: &Value, same: Sameness) -> Option<()> {
    let path = operation.get("path")?.as_str()?;
    let value = operation.get("value").unwrap_or(&Value::Null);
    match operation.get("op")?.as_str()? {
        "add" => add(document, path, value.clone()),
        "remove" => remove(document, path).map(drop),
        "replace" if path.is_empty() => {
            let is_container = value.is_object() || value.is_array();
            is_container.then(|| *document = value.clone())
        }
        "replace" => {
            let (holder, key) = holder(document, path)?;
            match holder {
                // Unlike the RFC, a missing member is added.
                Value::Object(fields) => drop(fields.insert(key, value.clone())),
                Value::Array(items) => {
                    let at = place(&key, items.len())?;
                    items[at] = value.clone();
                }
                _ => return None,
            }
            Some(())
        }
        "move" => {
            let from = operation.get("from")?.as_str()?;
            let moved = remove(document, from)?;
            add(document, path, moved)
        }
        "copy" => {
            let from = operation.get("from")?.as_str()?;
            let copied = get(document, from)?.clone();
            add(document, path, copied)
        }
        "test" if path.is_empty() => same.holds(document, value).then_some(()),
        "test" => same.holds(get(document, path)?, value).then_some(()),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(fields) => drop(fields.insert(key, value)),
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = place(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(fields) => fields.remove(&key),
        Value::Array(items) => {
            let at = place(&key, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

/// The value at a path. A missing member is null, and a missing element fails.
fn get<'a>(document: &'a mut Value, path: &str) -> Option<&'a Value> {
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(fields) => Some(fields.get(&key).unwrap_or(&Value::Null)),
        Value::Array(items) => {
            let at = place(&key, items.len())?;
            Some(&items[at])
        }
        _ => None,
    }
}

/// The object or list that holds the value at a path, and the last step of the path.
fn holder<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut steps: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
    let key = steps.pop()?;
    let mut holder = document;
    for step in steps {
        holder = match holder {
            Value::Object(fields) => fields.get_mut(&step)?,
            Value::Array(items) => {
                let at = place(&step, items.len())?;
                &mut items[at]
            }
            _ => return None,
        };
    }
    (holder.is_object() || holder.is_array()).then_some((holder, key))
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The position for an index below `count`. Negative ones count from the end.
fn place(index: &str, count: usize) -> Option<usize> {
    let index: i64 = index.parse().ok()?;
    let at = match index {
        0.. => usize::try_from(index).ok()?,
        _ => count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (at < count).then_some(at)
}

/// The comparison of a `test`.
#[derive(Clone, Copy)]
struct Sameness {
    /// Texts with letters of [`HTML`] differ from those of the server, which escapes them.
    without_html: bool,
}

impl Sameness {
    fn holds(self, found: &Value, wanted: &Value) -> bool {
        match (found, wanted) {
            (Value::Object(found), Value::Object(wanted)) => {
                found.len() == wanted.len()
                    && found.iter().all(|(key, found)| {
                        wanted
                            .get(key)
                            .is_some_and(|wanted| self.holds(found, wanted))
                    })
            }
            (Value::Array(found), Value::Array(wanted)) => {
                found.len() == wanted.len()
                    && found
                        .iter()
                        .zip(wanted)
                        .all(|(found, wanted)| self.holds(found, wanted))
            }
            (Value::String(text), Value::String(wanted)) => {
                text == wanted && !(self.without_html && text.contains(HTML))
            }
            _ => found == wanted,
        }
    }
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
    let same = Sameness {
        without_html: false,
    };
    let mut result = object.clone();
    let mut limits = Limits::of(&result);
    for operation in operations {
        let before = result.clone();
        let applied = limits.run(&mut result, operation, same);
        applied.map_err(|stop| match stop {
            Stop::Fails => reason(&before, operation),
            Stop::Copied(size) => Unapplied::Other(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {MAX_COPIED}"
            )),
            Stop::TooDeep => Unapplied::Other(depth::EXCEEDED.to_owned()),
        })?;
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
    let mut object = object.clone();
    let Some((holder, key)) = holder(&mut object, source) else {
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

/// The value under a key. The error is about an index that a list does not have.
fn found<'a>(holder: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    let Value::Array(items) = holder else {
        return Ok(holder.get(key));
    };
    let index: i64 = key
        .parse()
        .map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    match place(key, items.len()) {
        Some(at) => Ok(Some(&items[at])),
        None => Err(format!(
            "Unable to access invalid index: {index}: invalid index referenced"
        )),
    }
}

/// Checks that a patch is a list of operations. Only a strict decoder knows the types of their members. Null is an empty
/// list.
pub(crate) fn check(patch: &Value, is_strict: bool) -> Result<(), String> {
    let [list, item] = if is_strict {
        ["[]handlers.jsonPatchOp", "handlers.jsonPatchOp"]
    } else {
        ["jsonpatch.Patch", "jsonpatch.Operation"]
    };
    let malformed = |found: &Value, target: &str| {
        let found = json_type(found);
        Err(format!("json: cannot unmarshal {found} into Go {target}"))
    };
    let operations = match patch {
        Value::Null => return Ok(()),
        Value::Array(operations) => operations,
        other => return malformed(other, &format!("value of type {list}")),
    };
    for operation in operations.iter().filter(|operation| !operation.is_null()) {
        let Value::Object(members) = operation else {
            return malformed(operation, &format!("value of type {item}"));
        };
        let wrong = members.iter().find(|(name, value)| {
            TEXTS.contains(&name.as_str()) && !value.is_string() && !value.is_null()
        });
        if let Some((name, value)) = wrong.filter(|_| is_strict) {
            return malformed(
                value,
                &format!("struct field jsonPatchOp.{name} of type string"),
            );
        }
    }
    Ok(())
}

/// The members of operations that are texts.
const TEXTS: [&str; 3] = ["op", "path", "from"];

/// The paths of members that no operation has, such as `[0].x`.
pub(crate) fn unknown_members(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let unknown = |(at, operation): (usize, &Value)| {
        let members = operation.as_object().into_iter().flatten();
        let names = members.map(|(name, _)| name.as_str());
        let unknown = names.filter(|name| *name != "value" && !TEXTS.contains(name));
        unknown
            .map(|name| format!("[{at}].{name}"))
            .collect::<Vec<_>>()
    };
    operations.flat_map(unknown).collect()
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
    fn a_missing_value_is_null() {
        let cases = [
            (
                json!([{"op": "add", "path": "/b"}]),
                json!({"a": 1, "l": [1, 2], "b": null}),
            ),
            (
                json!([{"op": "replace", "path": "/a"}]),
                json!({"a": null, "l": [1, 2]}),
            ),
            (
                json!([{"op": "test", "path": "/b"}]),
                json!({"a": 1, "l": [1, 2]}),
            ),
            (
                json!([{"op": "copy", "from": "/x", "path": "/b"}]),
                json!({"a": 1, "l": [1, 2], "b": null}),
            ),
            (
                json!([{"op": "remove", "path": "/l/-1"}]),
                json!({"a": 1, "l": [1]}),
            ),
            (
                json!([{"op": "add", "path": "/l/-1", "value": 3}]),
                json!({"a": 1, "l": [1, 2, 3]}),
            ),
        ];
        for (patch, expected) in cases {
            let mut object = json!({"a": 1, "l": [1, 2]});
            super::json(&mut object, &patch).unwrap();
            assert_eq!(object, expected, "{patch}");
        }
        let test = json!([{"op": "test", "path": "/a"}]);
        assert!(super::json(&mut json!({"a": 1}), &test).is_err());
    }

    #[test]
    fn a_test_compares_texts_as_they_are_written() {
        let test = json!([{"op": "test", "path": "/a", "value": {"t": "<x>"}}]);
        let apply = |sent| json_as_sent(&mut json!({"a": {"t": "<x>"}}), &test, sent);
        assert!(apply(r#"[{"value":{"t":"\u003cx\u003e"}}]"#).is_ok());
        assert!(apply(r#"[{"value":{"t":"<x>"}}]"#).is_err());
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

    #[test]
    fn copies_of_a_patch_add_at_most_three_mebibytes() {
        // 256 KiB with its quotes and the escaped letter.
        let text = format!("<{}", "x".repeat((256 << 10) - "''\\u003c".len()));
        let object = json!({"a": text, "b": null});
        let copies = |n: usize| {
            let mut operations = vec![json!({"op": "copy", "from": "/b", "path": "/c"})];
            operations.resize(n + 1, json!({"op": "copy", "from": "/a", "path": "/c"}));
            operations
        };
        assert_eq!(super::json(&mut object.clone(), &copies(12).into()), Ok(()));
        assert!(matches!(
            super::json(&mut object.clone(), &copies(13).into()),
            Err(PatchError::Failed(_))
        ));
        let why = "Unable to complete the copy, the accumulated size increase of copy is 3407872, exceeding the limit 3145728";
        assert_eq!(
            super::explained(&mut object.clone(), &copies(13)),
            Err(Unapplied::Other(why.to_owned()))
        );
    }

    #[test]
    fn a_patch_cannot_pile_up_levels() {
        let doubling = |times: usize| {
            let deepest = |n: usize| "/a".repeat(1 << n);
            let copy = |n| json!({"op": "copy", "from": "/a", "path": deepest(n) + "/a"});
            Value::from((0..times).map(copy).collect::<Vec<_>>())
        };
        let mut object = json!({"a": {}});
        super::json(&mut object.clone(), &doubling(6)).unwrap();
        assert_eq!(
            super::json(&mut object, &doubling(19)),
            Err(PatchError::Malformed("exceeded max depth".to_owned()))
        );

        let mut object = json!({"a": "v", "b": {"b": {"b": {}}}});
        let many = Value::from(vec![
            json!({"op": "copy", "from": "/a", "path": "/b/b/b/a"});
            1000
        ]);
        super::json(&mut object, &many).unwrap();
        assert_eq!(object["b"]["b"]["b"], json!({"a": "v"}));
    }
}
