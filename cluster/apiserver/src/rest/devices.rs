//! Devices of drivers: the times of their taints, and administrative access to them.

use serde_json::Value;

use super::Server;
use crate::fielderror::{FieldError, Problem};
use crate::route::Target;

impl Server {
    /// The error of a new claim for administrative access to devices, which a label of the
    /// namespace has to allow. Upstream: AuthorizedForAdmin in `pkg/registry/resource/utils.go`.
    pub(super) fn admin_access(&self, target: &Target, object: &Value) -> Vec<FieldError> {
        const LABEL: &str = "resource.kubernetes.io/admin-access";
        let resource = target.resource();
        let path = if resource.is("ResourceClaim") {
            "/spec/devices/requests"
        } else if resource.is("ResourceClaimTemplate") {
            "/spec/spec/devices/requests"
        } else {
            return Vec::new();
        };
        let wants_access = |request: &Value| request["exactly"]["adminAccess"] == true;
        let requests = object.pointer(path).and_then(Value::as_array);
        let Some(index) = requests.and_then(|requests| requests.iter().position(wants_access))
        else {
            return Vec::new();
        };
        let namespace = self.find_object("namespaces", &target.namespace);
        if namespace.is_some_and(|namespace| namespace.label(LABEL) == Some("true")) {
            return Vec::new();
        }
        let why = format!(
            "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        );
        vec![FieldError {
            field: format!("spec.devices.requests[{index}].adminAccess"),
            problem: Problem::Forbidden(why),
        }]
    }
}

/// Sets the time of taints without one. Upstream: `SetDefaults_DeviceTaint`.
pub(super) fn date_taints(slice: &mut Value, now: &Value) {
    let devices = slice.pointer_mut("/spec/devices");
    let devices = devices.and_then(Value::as_array_mut).into_iter().flatten();
    for device in devices {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            if taint.get("timeAdded").is_none_or(Value::is_null) {
                taint.insert("timeAdded".to_owned(), now.clone());
            }
        }
    }
}
