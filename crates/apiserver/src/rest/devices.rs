//! Devices of drivers: the times of their taints.

use serde_json::Value;

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
