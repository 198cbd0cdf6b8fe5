//! Values in the form of upstream's internal types, which some errors show.
//!
//! Those types have no JSON names, so Go shows the names of their fields, in their order, and null
//! for unset fields. Upstream: `pkg/apis/core/types.go`.

use serde_json::{Map, Value, json};

/// A field of an internal type: its name in the API, its name in Go, and its value if unset.
pub(in super::super) struct Field(&'static str, &'static str, Unset);

/// The form of a field that is unset, and of its parts.
enum Unset {
    Null,
    Text,
    Number,
    /// A pointer to a type, or a list of it.
    Nested(&'static [Field]),
}

use Unset::{Nested, Null, Number, Text};

pub(super) const CLAIM: &[Field] = &[
    Field("name", "Name", Text),
    Field("resourceClaimName", "ResourceClaimName", Null),
    Field(
        "resourceClaimTemplateName",
        "ResourceClaimTemplateName",
        Null,
    ),
];

pub(super) const PROFILE: &[Field] = &[
    Field("type", "Type", Text),
    Field("localhostProfile", "LocalhostProfile", Null),
];

const CAPABILITIES: &[Field] = &[Field("add", "Add", Null), Field("drop", "Drop", Null)];

const SE_LINUX: &[Field] = &[
    Field("user", "User", Text),
    Field("role", "Role", Text),
    Field("type", "Type", Text),
    Field("level", "Level", Text),
];

const WINDOWS: &[Field] = &[
    Field("gmsaCredentialSpecName", "GMSACredentialSpecName", Null),
    Field("gmsaCredentialSpec", "GMSACredentialSpec", Null),
    Field("runAsUserName", "RunAsUserName", Null),
    Field("hostProcess", "HostProcess", Null),
];

pub(super) const SECURITY_CONTEXT: &[Field] = &[
    Field("capabilities", "Capabilities", Nested(CAPABILITIES)),
    Field("privileged", "Privileged", Null),
    Field("seLinuxOptions", "SELinuxOptions", Nested(SE_LINUX)),
    Field("windowsOptions", "WindowsOptions", Nested(WINDOWS)),
    Field("runAsUser", "RunAsUser", Null),
    Field("runAsGroup", "RunAsGroup", Null),
    Field("runAsNonRoot", "RunAsNonRoot", Null),
    Field("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", Null),
    Field("allowPrivilegeEscalation", "AllowPrivilegeEscalation", Null),
    Field("procMount", "ProcMount", Null),
    Field("seccompProfile", "SeccompProfile", Nested(PROFILE)),
    Field("appArmorProfile", "AppArmorProfile", Nested(PROFILE)),
];

const REQUIREMENT: &[Field] = &[
    Field("key", "Key", Text),
    Field("operator", "Operator", Text),
    Field("values", "Values", Null),
];

pub(super) const SELECTOR_TERM: &[Field] = &[
    Field("matchExpressions", "MatchExpressions", Nested(REQUIREMENT)),
    Field("matchFields", "MatchFields", Nested(REQUIREMENT)),
];

const SELECTOR: &[Field] = &[Field(
    "nodeSelectorTerms",
    "NodeSelectorTerms",
    Nested(SELECTOR_TERM),
)];

const VOLUME_AFFINITY: &[Field] = &[Field("required", "Required", Nested(SELECTOR))];

pub(super) const TAINT: &[Field] = &[
    Field("key", "Key", Text),
    Field("value", "Value", Text),
    Field("effect", "Effect", Text),
    Field("timeAdded", "TimeAdded", Null),
];

pub(super) const IP: &[Field] = &[Field("ip", "IP", Text)];

/// A port of a Service.
pub(in super::super) const SERVICE_PORT: &[Field] = &[
    Field("name", "Name", Text),
    Field("protocol", "Protocol", Text),
    Field("appProtocol", "AppProtocol", Null),
    Field("port", "Port", Number),
    Field("targetPort", "TargetPort", Number),
    Field("nodePort", "NodePort", Number),
];

/// The internal form of an object, or of each object of a list.
pub(in super::super) fn form(fields: &[Field], value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(|each| form(fields, each)).collect(),
        Value::Object(given) => {
            let entries = fields.iter().map(|Field(name, internal, unset)| {
                let value = given.get(*name).unwrap_or(&Value::Null);
                let value = match unset {
                    Nested(fields) => form(fields, value),
                    Text if value.is_null() => json!(""),
                    Number if value.is_null() => json!(0),
                    _ => value.clone(),
                };
                ((*internal).to_owned(), value)
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The internal form of the node affinity of a volume.
pub(in super::super) fn volume_affinity(affinity: &Value) -> Value {
    form(VOLUME_AFFINITY, affinity)
}
