//! The quotas that are counted before all others: those whose usage is missing.
//!
//! The API server refuses objects while the usage of their resource is unknown. Upstream: `addQuota`.

use steersman_objects::ResourceQuota;

use super::status::has_same_limits;
use super::types::Types;

/// Whether the status of `quota` lacks a limit, or usage that can be counted.
pub(super) fn is_missing_usage(quota: &ResourceQuota, types: &Types) -> bool {
    let is_used = |name: &str| {
        let used = quota.status.used.as_ref();
        used.is_some_and(|used| used.contains_key(name))
    };
    let mut limited = quota.status.hard.iter().flat_map(|hard| hard.keys());
    !has_same_limits(quota) || limited.any(|name| !is_used(name) && types.handle(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;
    use crate::resourcequota::types::Devices;

    /// Upstream: `TestAddQuota`.
    #[test]
    fn quotas_without_usage_are_counted_first() {
        let hard = |list: Value| json!({"spec": {"hard": list}, "status": {"hard": list}});
        let used = |mut quota: Value, list: Value| {
            quota["status"]["used"] = list;
            quota
        };
        let cpu = json!({"cpu": "4"});
        let two = json!({"cpu": "4", "foobars.example.com/x": "4"});
        // (case, quota, first)
        let cases = [
            ("no status", json!({"spec": {"hard": cpu}}), true),
            ("status, no usage", hard(cpu.clone()), true),
            (
                "status, no usage(to validate it works for extended resources)",
                hard(json!({"requests.example/foobars.example.com": "4"})),
                true,
            ),
            (
                "status, mismatch",
                used(
                    json!({"spec": {"hard": cpu}, "status": {"hard": {"cpu": "6"}}}),
                    json!({"cpu": "0"}),
                ),
                true,
            ),
            (
                "status, missing usage, but don't care (no informer)",
                hard(json!({"foobars.example.com": "4"})),
                false,
            ),
            ("ready", used(hard(cpu.clone()), json!({"cpu": "0"})), false),
            (
                "usage of the resource that can be counted",
                used(hard(two), json!({"cpu": "0"})),
                false,
            ),
        ];
        for (case, mut quota, first) in cases {
            quota["metadata"] = json!({"name": "q"});
            let quota = ResourceQuota::decode(quota.to_string().as_bytes()).unwrap();
            assert_eq!(
                is_missing_usage(&quota, &Types::new(Devices::Classes)),
                first,
                "{case}"
            );
        }
    }
}
