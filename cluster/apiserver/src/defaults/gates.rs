//! Fields of feature gates that are off by default. The server drops them from requests.
//!
//! Upstream drops them unless the old object has them, which is impossible here. Upstream: the
//! `dropDisabled` functions in `pkg/api` and `pkg/registry`.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::schema::{self, Struct, Type};

/// Type, field, and feature gate.
const DISABLED: [(&str, &str, &str); 11] = [
    (
        "apps.RollingUpdateStatefulSetStrategy",
        "maxUnavailable",
        "MaxUnavailableStatefulSet",
    ),
    // This gate is gone, and its fields are kept for old objects.
    ("core.NodeSpec", "configSource", "DynamicKubeletConfig"),
    ("core.NodeStatus", "config", "DynamicKubeletConfig"),
    ("core.Lifecycle", "stopSignal", "ContainerStopSignals"),
    ("core.PodSpec", "schedulingGroup", "GenericWorkload"),
    (
        "core.VolumeProjection",
        "clusterTrustBundle",
        "ClusterTrustBundleProjection",
    ),
    (
        "core.VolumeProjection",
        "podCertificate",
        "PodCertificateRequest",
    ),
    ("resource.DeviceAttribute", "bools", "DRAListTypeAttributes"),
    ("resource.DeviceAttribute", "ints", "DRAListTypeAttributes"),
    (
        "resource.DeviceAttribute",
        "strings",
        "DRAListTypeAttributes",
    ),
    (
        "resource.DeviceAttribute",
        "versions",
        "DRAListTypeAttributes",
    ),
];

/// For each type of the schema, by its position: whether it has a disabled field, at any depth.
static CONCERNED: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let mut concerned: HashSet<_> = DISABLED.iter().map(|(ty, ..)| *ty).collect();
    loop {
        let holds_one = |ty: &Type| {
            let inner = ty.innermost_struct();
            inner.is_some_and(|inner| concerned.contains(inner.name()))
        };
        let more: Vec<_> = schema::all()
            .filter(|shape| !concerned.contains(shape.name()))
            .filter(|shape| shape.fields().iter().any(|field| holds_one(&field.ty)))
            .map(Struct::name)
            .collect();
        if more.is_empty() {
            return schema::all()
                .map(|shape| concerned.contains(shape.name()))
                .collect();
        }
        concerned.extend(more);
    }
});

/// Drops the disabled fields of an object of built-in kind `kind`.
pub(super) fn drop_disabled(kind: &str, object: &mut Value) {
    if let Some(shape) = schema::of_object(kind, object) {
        in_struct(shape, object);
    }
}

fn in_struct(shape: &Struct, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if !CONCERNED[shape.row()] {
        return;
    }
    for (ty, name, _) in DISABLED {
        if ty == shape.name() {
            fields.shift_remove(name);
        }
    }
    let mut next = 0;
    for (name, value) in fields {
        if let Some(at) = shape.position(name, next) {
            in_value(&shape.fields()[at].ty, value);
            next = at + 1;
        }
    }
}

fn in_value(ty: &Type, value: &mut Value) {
    let Some(shape) = ty.innermost_struct() else {
        return;
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| in_struct(shape, item)),
        Value::Object(entries) if matches!(ty, Type::Map(_)) => {
            entries
                .values_mut()
                .for_each(|value| in_struct(shape, value));
        }
        value => in_struct(shape, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_disabled_gates_exist() {
        for (ty, name, _) in DISABLED {
            let shape = schema::by_name(ty).unwrap();
            assert!(shape.field(name).is_some(), "{ty} has {name}");
        }
    }

    #[test]
    fn fields_of_disabled_gates_are_dropped() {
        let mut set = json!({"spec": {
            "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": 2}},
            "template": {"spec": {"containers": [
                {"lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}},
            ]}},
        }});
        drop_disabled("StatefulSet", &mut set);
        assert_eq!(
            set,
            json!({"spec": {
                "updateStrategy": {"rollingUpdate": {"partition": 1}},
                "template": {"spec": {"containers": [
                    {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
                ]}},
            }})
        );
        let mut slice =
            json!({"spec": {"devices": [{"attributes": {"a": {"ints": [1], "int": 1}}}]}});
        drop_disabled("ResourceSlice", &mut slice);
        assert_eq!(
            slice,
            json!({"spec": {"devices": [{"attributes": {"a": {"int": 1}}}]}})
        );
    }
}
