//! Cells of RBAC bindings and webhook configurations.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age_cell, list, name, text};

pub(super) fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str, shown: &dyn Fn(&Value) -> String| {
        let subjects = list(object, "/subjects")
            .iter()
            .filter(|subject| subject["kind"] == kind);
        json!(subjects.map(shown).collect::<Vec<_>>().join(", "))
    };
    let plain = |subject: &Value| text(subject, "/name").to_owned();
    let account =
        |subject: &Value| format!("{}/{}", text(subject, "/namespace"), text(subject, "/name"));
    vec![
        name(object),
        json!(format!(
            "{}/{}",
            text(object, "/roleRef/kind"),
            text(object, "/roleRef/name")
        )),
        age_cell(object, now),
        subjects("User", &plain),
        subjects("Group", &plain),
        subjects("ServiceAccount", &account),
    ]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(list(object, "/webhooks").len()),
        age_cell(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_show_role_and_subjects() {
        let object = json!({
            "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}, {"kind": "User", "name": "ben"}],
        });
        assert_eq!(
            binding(&object, Timestamp::UNIX_EPOCH),
            ["b", "Role/r", "<unknown>", "ann, ben", "", "n/s"].map(Value::from)
        );
    }
}
