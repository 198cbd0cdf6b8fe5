//! Names of custom kinds: decides which names a definition gets, and its conditions NamesAccepted,
//! Established and KubernetesAPIApprovalPolicyConformant.
//!
//! Upstream: `pkg/controller/status/naming_controller.go`, `.../establish` and `.../apiapproval` of
//! apiextensions-apiserver.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The annotation that names the API review of a kind in a protected group.
pub(super) const APPROVAL: &str = "api-approved.kubernetes.io";

/// Whether a group is under `k8s.io` or `kubernetes.io`.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group == *domain
            || group
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// The `status.acceptedNames` of a definition, and its conditions. `group` has all definitions
/// of the API group, including this one. A name belongs to the first definition that got it.
pub(crate) fn decide(definition: &Value, group: &[&Value]) -> (Value, Vec<Value>) {
    let (accepted, conditions) = decide_names(definition, group);
    let approval = approval(definition);
    (accepted, approval.into_iter().chain(conditions).collect())
}

/// The condition of a definition whose group needs an approval. Creation has refused a missing or malformed
/// one.
fn approval(definition: &Value) -> Option<Value> {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    if !is_protected(definition["spec"]["group"].as_str().unwrap_or_default()) {
        return None;
    }
    let approval = definition["metadata"]["annotations"][APPROVAL].as_str()?;
    Some(if approval.starts_with("unapproved") {
        let message = format!("not approved: {approval:?}");
        new_condition(KIND, false, "UnapprovedAnnotation", &message)
    } else {
        let message = format!("approved in {approval}");
        new_condition(KIND, true, "ApprovedAnnotation", &message)
    })
}

/// Whether the bundle of the conversion webhook has no certificate at all. Without a bundle, those of the machine
/// count.
pub(super) fn has_invalid_bundle(definition: &Value) -> bool {
    let bundle = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"];
    let Some(bundle) = bundle.as_str().filter(|bundle| !bundle.is_empty()) else {
        return false;
    };
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    let mut certificates = CertificateDer::pem_slice_iter(&pem).flatten();
    !certificates.any(|certificate| X509Certificate::from_der(&certificate).is_ok())
}

fn decide_names(definition: &Value, group: &[&Value]) -> (Value, [Value; 2]) {
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
                let (reason, message) = if has_invalid_bundle(definition) {
                    (
                        "InvalidCABundle",
                        "The conversion webhook CABundle is invalid",
                    )
                } else {
                    (
                        "InitialNamesAccepted",
                        "the initial names have been accepted",
                    )
                };
                let is_established = reason == "InitialNamesAccepted";
                new_condition("Established", is_established, reason, message)
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
        let statuses: Vec<&Value> = conditions.iter().map(|one| &one["status"]).collect();
        assert_eq!(statuses, ["True", "True"]);
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
            let (_, [names, established]) = decide_names(&definition, &[&first]);
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

    /// The conditions are those of kube-apiserver 1.36.2.
    #[test]
    fn protected_groups_and_bundles_have_conditions() {
        let reasons = |definition: &Value| -> Vec<String> {
            let (_, conditions) = decide(definition, &[]);
            let texts = conditions.iter().map(|one| {
                let [status, reason, message] =
                    ["status", "reason", "message"].map(|field| one[field].as_str().unwrap());
                format!("{status} {reason} {message}")
            });
            texts.collect()
        };
        let names = "True NoConflicts no conflicts found";
        let established = "True InitialNamesAccepted the initial names have been accepted";
        let mut protected = definition("widgets", "Widget", "w");
        protected["spec"]["group"] = json!("example.k8s.io");
        for (approval, expected) in [
            (
                "https://x/1",
                "True ApprovedAnnotation approved in https://x/1",
            ),
            (
                "unapproved, test",
                "False UnapprovedAnnotation not approved: \"unapproved, test\"",
            ),
        ] {
            protected["metadata"]["annotations"] = json!({APPROVAL: approval});
            assert_eq!(reasons(&protected), [expected, names, established]);
        }
        let mut converted = definition("widgets", "Widget", "w");
        let invalid = "False InvalidCABundle The conversion webhook CABundle is invalid";
        for (bundle, expected) in [("Cg==", invalid), ("", established)] {
            let client = json!({"caBundle": bundle});
            converted["spec"]["conversion"] = json!({"webhook": {"clientConfig": client}});
            assert_eq!(reasons(&converted), [names, expected]);
        }
    }
}
