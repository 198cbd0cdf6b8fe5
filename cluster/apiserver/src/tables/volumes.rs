//! Cells of volumes, claims and storage classes.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age_cell, list, name, name_of_class, or, text};

/// Text of an optional field without a value.
const UNSET: &str = "<unset>";

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match object
        .pointer("/spec/claimRef")
        .filter(|claim| claim.is_object())
    {
        None => String::new(),
        Some(claim) => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")),
    };
    vec![
        name(object),
        json!(or(text(object, "/spec/capacity/storage"), "0")),
        json!(access_modes(object, "/spec/accessModes")),
        json!(text(object, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(object)),
        json!(claim),
        json!(class_name(object)),
        json!(or(text(object, "/spec/volumeAttributesClassName"), UNSET)),
        json!(text(object, "/status/reason")),
        age_cell(object, now),
        json!(or(text(object, "/spec/volumeMode"), UNSET)),
    ]
}

/// Capacity and access modes are empty until the claim is bound.
pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (
            or(text(object, "/status/capacity/storage"), "0"),
            access_modes(object, "/status/accessModes"),
        )
    };
    vec![
        name(object),
        json!(phase(object)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(class_name(object)),
        json!(or(text(object, "/spec/volumeAttributesClassName"), UNSET)),
        age_cell(object, now),
        json!(or(text(object, "/spec/volumeMode"), UNSET)),
    ]
}

pub(super) fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_of_class(object, DEFAULT_CLASS),
        json!(text(object, "/provisioner")),
        json!(or(text(object, "/reclaimPolicy"), "Delete")),
        json!(or(text(object, "/volumeBindingMode"), "Immediate")),
        json!(object["allowVolumeExpansion"] == true),
        age_cell(object, now),
    ]
}

fn phase(object: &Value) -> &str {
    let is_deleted = object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    if is_deleted {
        "Terminating"
    } else {
        text(object, "/status/phase")
    }
}

/// The storage class. The deprecated annotation has priority over the field.
fn class_name(object: &Value) -> &str {
    let annotation =
        object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

/// Access modes as abbreviations, in a fixed order.
fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(object, pointer);
    let short: Vec<&str> = SHORT
        .iter()
        .filter(|(mode, _)| modes.iter().any(|known| known == mode))
        .map(|(_, short)| *short)
        .collect();
    short.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_shows_its_volume() {
        let pending = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "fast", "volumeMode": "Block"}, "status": {"phase": "Pending"}});
        let cells = claim(&pending, Timestamp::UNIX_EPOCH);
        assert_eq!(
            cells,
            [
                "c",
                "Pending",
                "",
                "",
                "",
                "fast",
                "<unset>",
                "<unknown>",
                "Block"
            ]
            .map(Value::from)
        );
        let bound = json!({"spec": {"volumeName": "v"}, "status": {
            "phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}});
        assert_eq!(
            claim(&bound, Timestamp::UNIX_EPOCH)[1..5],
            ["Bound", "v", "1Gi", "RWO,RWX"].map(Value::from)
        );
        let going = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"claimRef": {"namespace": "n", "name": "c"}}});
        assert_eq!(
            volume(&going, Timestamp::UNIX_EPOCH)[4..6],
            ["Terminating", "n/c"].map(Value::from)
        );
    }
}
