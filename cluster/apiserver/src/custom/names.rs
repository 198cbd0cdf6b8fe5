//! Names of custom kinds: decides which names a definition gets, and its conditions NamesAccepted
//! and Established.
//!
//! Upstream: `pkg/controller/status/naming_controller.go` and `.../establish` of
//! apiextensions-apiserver.

use serde_json::{Value, json};

/// The `status.acceptedNames` of a definition, and its two conditions. `group` has all definitions
/// of the API group, including this one. A name belongs to the first definition that got it.
pub(crate) fn decide(definition: &Value, group: &[&Value]) -> (Value, [Value; 2]) {
    let taken = |fields: &[&str], name: &str| {
        let is_other =
            |other: &&&Value| other["metadata"]["name"] != definition["metadata"]["name"];
        group.iter().filter(is_other).any(|other| {
            let accepted = &other["status"]["acceptedNames"];
            fields.iter().any(|field| match &accepted[*field] {
                Value::String(text) => text == name,
                Value::Array(list) => list.iter().any(|text| text == name),
                _ => false,
            })
        })
    };
    const RESOURCES: &[&str] = &["plural", "singular", "shortNames"];
    const KINDS: &[&str] = &["kind", "listKind"];
    let wanted = &definition["spec"]["names"];
    let mut accepted = definition["status"]["acceptedNames"].clone();
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    for (field, reason, space) in [
        ("plural", "PluralConflict", RESOURCES),
        ("singular", "SingularConflict", RESOURCES),
        ("shortNames", "ShortNamesConflict", RESOURCES),
        ("kind", "KindConflict", KINDS),
        ("listKind", "ListKindConflict", KINDS),
    ] {
        let names: Vec<&str> = match &wanted[field] {
            Value::String(text) => vec![text],
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let is_accepted = |name: &str| match &accepted[field] {
            Value::String(text) => text == name,
            Value::Array(list) => list.iter().any(|text| text == name),
            _ => false,
        };
        let refused: Vec<String> = names
            .iter()
            .filter(|name| !is_accepted(name) && taken(space, name))
            .map(|name| in_use(name))
            .collect();
        match refused.as_slice() {
            [] => set(&mut accepted, field, &wanted[field]),
            [one] => conflict = Some((reason, one.clone())),
            several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    set(&mut accepted, "categories", &wanted["categories"]);
    let established = condition(definition, "Established")
        .filter(|condition| condition["status"] == "True")
        .cloned();
    let conditions = match conflict {
        Some((reason, message)) => [
            new_condition("NamesAccepted", false, reason, &message),
            established.unwrap_or_else(|| {
                new_condition(
                    "Established",
                    false,
                    "NotAccepted",
                    "not all names are accepted",
                )
            }),
        ],
        None => [
            new_condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            established.unwrap_or_else(|| {
                new_condition(
                    "Established",
                    true,
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                )
            }),
        ],
    };
    (accepted, conditions)
}

fn set(names: &mut Value, field: &str, value: &Value) {
    if value.is_null() {
        if let Some(names) = names.as_object_mut() {
            names.remove(field);
        }
    } else {
        names[field] = value.clone();
    }
}

fn new_condition(kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "message": message})
}

/// The condition of type `kind`.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    definition["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether the API server serves the resources of a definition.
pub(crate) fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, short: &str) -> Value {
        json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"names": {
            "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": [short],
        }}, "status": {"acceptedNames": {"plural": "", "kind": ""}}})
    }

    #[test]
    fn names_belong_to_the_first_definition() {
        let mut first = definition("widgets", "Widget", "w");
        let (accepted, conditions) = decide(&first, &[]);
        assert_eq!(accepted, first["spec"]["names"]);
        assert_eq!(
            conditions.map(|condition| condition["status"].clone()),
            [json!("True"), json!("True")]
        );
        first["status"]["acceptedNames"] = accepted;

        // (case, definition, reason, message)
        let cases = [
            (
                "another kind",
                definition("gadgets", "Widget", "g"),
                "ListKindConflict",
                "\"WidgetList\" is already in use",
            ),
            (
                "a short name",
                definition("gadgets", "Gadget", "w"),
                "ShortNamesConflict",
                "\"w\" is already in use",
            ),
            (
                "a plural as short name",
                definition("gadgets", "Gadget", "widgets"),
                "ShortNamesConflict",
                "\"widgets\" is already in use",
            ),
        ];
        for (why, definition, reason, message) in cases {
            let (_, [names, established]) = decide(&definition, &[&first]);
            assert_eq!(
                (&names["reason"], &names["message"]),
                (&json!(reason), &json!(message)),
                "{why}"
            );
            assert_eq!(
                (&names["status"], &established["reason"]),
                (&json!("False"), &json!("NotAccepted")),
                "{why}"
            );
        }
    }
}
