//! Cells of kinds that show mostly single fields, as a table.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{NONE, age_cell, human_age, list, name, or, text};

const UNSET: &str = "<unset>";

/// A cell, by pointers into the object.
enum Cell {
    /// A text or number at a pointer, and its replacement if missing.
    Field(&'static str, &'static str),
    /// A boolean at a pointer, and its default.
    Flag(&'static str, bool),
    /// Length of the list at a pointer.
    Count(&'static str),
    /// The texts of a list, joined with commas, and their replacement if empty.
    Joined(&'static str, &'static str),
    /// A computed text.
    Of(fn(&Value) -> String),
    Age,
}

use Cell::{Age, Count, Field, Flag, Joined, Of};

/// The cells after the name.
fn cells_of(kind: &str) -> Option<&'static [Cell]> {
    Some(match kind {
        "APIService" => &[Of(api_service), Of(available), Age],
        "CertificateSigningRequest" => &[
            Age,
            Field("/spec/signerName", NONE),
            Field("/spec/username", ""),
            Of(duration),
            Of(request_state),
        ],
        "ComponentStatus" => &[
            Of(health),
            Field("/conditions/0/message", ""),
            Field("/conditions/0/error", ""),
        ],
        "CSIDriver" => &[
            Flag("/spec/attachRequired", true),
            Flag("/spec/podInfoOnMount", false),
            Flag("/spec/storageCapacity", false),
            Of(audiences),
            Flag("/spec/requiresRepublish", false),
            Joined("/spec/volumeLifecycleModes", NONE),
            Age,
        ],
        "CSINode" => &[Count("/spec/drivers"), Age],
        "CSIStorageCapacity" => &[Field("/storageClassName", ""), Field("/capacity", UNSET)],
        "FlowSchema" => &[
            Field("/spec/priorityLevelConfiguration/name", ""),
            Field("/spec/matchingPrecedence", "0"),
            Field("/spec/distinguisherMethod/type", NONE),
            Age,
            Of(dangling),
        ],
        "IPAddress" => &[Of(parent)],
        "MutatingAdmissionPolicy" => &[Count("/spec/mutations"), Of(parameter_kind), Age],
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            &[Field("/spec/policyName", ""), Of(parameter), Age]
        }
        "PriorityLevelConfiguration" => &[
            Field("/spec/type", ""),
            Field("/spec/limited/nominalConcurrencyShares", NONE),
            Field("/spec/limited/limitResponse/queuing/queues", NONE),
            Field("/spec/limited/limitResponse/queuing/handSize", NONE),
            Field("/spec/limited/limitResponse/queuing/queueLengthLimit", NONE),
            Age,
        ],
        "ResourceClaim" => &[Of(claim_state), Age],
        "ResourceSlice" => &[
            Field("/spec/nodeName", ""),
            Field("/spec/driver", ""),
            Field("/spec/pool/name", ""),
            Age,
        ],
        "ServiceCIDR" => &[Joined("/spec/cidrs", ""), Age],
        "StorageVersionMigration" => &[Of(migrated), Of(migration_state)],
        "ValidatingAdmissionPolicy" => &[Count("/spec/validations"), Of(parameter_kind), Age],
        "VolumeAttachment" => &[
            Field("/spec/attacher", ""),
            Field("/spec/source/persistentVolumeName", ""),
            Field("/spec/nodeName", ""),
            Flag("/status/attached", false),
            Age,
        ],
        "VolumeAttributesClass" => &[Field("/driverName", ""), Age],
        _ => return None,
    })
}

/// The cells of a kind in this table; `None` for other kinds.
pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let cell = |cell: &Cell| match cell {
        Field(pointer, none) => match object.pointer(pointer) {
            None | Some(Value::Null) => json!(none),
            Some(value) => value.clone(),
        },
        Flag(pointer, default) => json!(
            object
                .pointer(pointer)
                .and_then(Value::as_bool)
                .unwrap_or(*default)
        ),
        Count(pointer) => json!(list(object, pointer).len()),
        Joined(pointer, none) => {
            let texts: Vec<&str> = list(object, pointer)
                .iter()
                .filter_map(Value::as_str)
                .collect();
            json!(or(&texts.join(","), none))
        }
        Of(look) => json!(look(object)),
        Age => age_cell(object, now),
    };
    let cells = cells_of(kind)?.iter().map(cell);
    Some(std::iter::once(name(object)).chain(cells).collect())
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn duration(object: &Value) -> String {
    object
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .map_or_else(
            || NONE.to_owned(),
            |seconds| human_age(SignedDuration::from_secs(seconds)),
        )
}

/// Decision on a CertificateSigningRequest, followed by `Failed` and `Issued`.
fn request_state(object: &Value) -> String {
    let decision = ["Denied", "Approved"]
        .into_iter()
        .find(|kind| condition(object, kind).is_some());
    let more = [
        (condition(object, "Failed").is_some(), ",Failed"),
        (!text(object, "/status/certificate").is_empty(), ",Issued"),
    ];
    let more: String = more
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    format!("{}{more}", decision.unwrap_or("Pending"))
}

fn health(object: &Value) -> String {
    match text(object, "/conditions/0/status") {
        "" => "Unknown",
        "True" => "Healthy",
        _ => "Unhealthy",
    }
    .to_owned()
}

fn api_service(object: &Value) -> String {
    match object
        .pointer("/spec/service")
        .filter(|service| service.is_object())
    {
        None => "Local".to_owned(),
        Some(service) => format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
    }
}

fn available(object: &Value) -> String {
    match condition(object, "Available") {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => format!(
            "{} ({})",
            text(condition, "/status"),
            text(condition, "/reason")
        ),
    }
}

fn audiences(object: &Value) -> String {
    let requests = object
        .pointer("/spec/tokenRequests")
        .and_then(Value::as_array);
    requests.map_or_else(
        || UNSET.to_owned(),
        |requests| {
            requests
                .iter()
                .map(|request| text(request, "/audience"))
                .collect::<Vec<_>>()
                .join(",")
        },
    )
}

fn dangling(object: &Value) -> String {
    condition(object, "Dangling")
        .map_or("?", |condition| text(condition, "/status"))
        .to_owned()
}

fn parent(object: &Value) -> String {
    let Some(parent) = object
        .pointer("/spec/parentRef")
        .filter(|parent| parent.is_object())
    else {
        return NONE.to_owned();
    };
    let part = |field: &str, before: &str| match text(parent, field) {
        "" => String::new(),
        text => format!("{before}{text}"),
    };
    let resource = format!("{}{}", text(parent, "/resource"), part("/group", ".")).to_lowercase();
    format!(
        "{resource}{}/{}",
        part("/namespace", "/"),
        text(parent, "/name")
    )
}

fn parameter_kind(object: &Value) -> String {
    match object
        .pointer("/spec/paramKind")
        .filter(|kind| kind.is_object())
    {
        None => UNSET.to_owned(),
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
    }
}

/// Parameter of a policy binding: `namespace/name`, or its selector.
fn parameter(object: &Value) -> String {
    match (
        text(object, "/spec/paramRef/namespace"),
        text(object, "/spec/paramRef/name"),
    ) {
        (_, "") => object
            .pointer("/spec/paramRef/selector")
            .map_or_else(|| UNSET.to_owned(), ToString::to_string),
        (namespace, name) => format!("{}/{name}", or(namespace, "*")),
    }
}

/// States of a ResourceClaim, joined with commas.
fn claim_state(object: &Value) -> String {
    let is_deleted = object["metadata"].get("deletionTimestamp").is_some();
    let is_allocated = object
        .pointer("/status/allocation")
        .is_some_and(Value::is_object);
    let is_reserved = is_allocated && !list(object, "/status/reservedFor").is_empty();
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    states
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, state)| *state)
        .collect::<Vec<_>>()
        .join(",")
}

/// The resource of a migration, as Go prints a GroupResource.
fn migrated(object: &Value) -> String {
    let resource = text(object, "/spec/resource/resource");
    match text(object, "/spec/resource/group") {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

/// The last known condition of a migration that is true.
fn migration_state(object: &Value) -> String {
    let known = ["Running", "Failed", "Succeeded"];
    let conditions = list(object, "/status/conditions").iter();
    let met = conditions.filter(|condition| condition["status"] == "True");
    let mut kinds = met.filter_map(|condition| condition["type"].as_str());
    let last = kinds.rfind(|kind| known.contains(kind));
    last.unwrap_or("Unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_fields_or_their_replacement() {
        let reserved = json!({"status": {"allocation": {}, "reservedFor": [{}]}});
        let parent = json!({"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "web"}}});
        let down = json!({"spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}});
        let request = json!({"spec": {"signerName": "a.b/c", "username": "ann", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}});
        let bound = json!({"spec": {"policyName": "p", "paramRef": {"name": "x"}}});
        // (kind, object, cells between name and age)
        let cases = [
            ("ResourceClaim", reserved, vec![json!("allocated,reserved")]),
            ("ResourceClaim", json!({}), vec![json!("pending")]),
            ("IPAddress", parent, vec![json!("services/default/web")]),
            (
                "APIService",
                json!({}),
                vec![json!("Local"), json!("Unknown")],
            ),
            (
                "APIService",
                down,
                vec![json!("n/s"), json!("False (MissingEndpoints)")],
            ),
            (
                "ValidatingAdmissionPolicyBinding",
                bound,
                vec![json!("p"), json!("*/x")],
            ),
            (
                "ComponentStatus",
                json!({"conditions": [{"status": "True", "message": "ok"}]}),
                vec![json!("Healthy"), json!("ok")],
            ),
            (
                "CertificateSigningRequest",
                json!({}),
                ["<unknown>", "<none>", "", "<none>", "Pending"]
                    .map(Value::from)
                    .to_vec(),
            ),
            (
                "CertificateSigningRequest",
                request,
                ["<unknown>", "a.b/c", "ann", "60m", "Approved,Issued"]
                    .map(Value::from)
                    .to_vec(),
            ),
            (
                "CSINode",
                json!({"spec": {"drivers": [{}, {}]}}),
                vec![json!(2)],
            ),
            (
                "StorageVersionMigration",
                json!({"spec": {"resource": {"group": "apps", "resource": "deployments"}}}),
                vec![json!("deployments.apps"), json!("Unknown")],
            ),
            (
                "StorageVersionMigration",
                json!({
                    "spec": {"resource": {"resource": "pods"}},
                    "status": {"conditions": [{"type": "Succeeded", "status": "True"}, {"type": "Other", "status": "True"}]},
                }),
                vec![json!("pods"), json!("Succeeded")],
            ),
            (
                "ServiceCIDR",
                json!({"spec": {"cidrs": ["10.0.0.0/8", "fd00::/64"]}}),
                vec![json!("10.0.0.0/8,fd00::/64")],
            ),
        ];
        for (kind, object, expected) in cases {
            let cells = cells(kind, &object, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(cells[1..=expected.len()], expected, "{kind}");
        }
    }
}
