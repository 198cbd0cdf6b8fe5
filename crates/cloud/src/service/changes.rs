//! Decides which Services have a load balancer, and which changes of a Service matter for it.
//!
//! Upstream: `wantsLoadBalancer`, `needsCleanup` and `needsUpdate`.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

/// The finalizer of Services with a load balancer.
pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Whether the Service has type `LoadBalancer` and no class. A class names another implementation.
pub(super) fn wants(service: &Service) -> bool {
    spec(service).is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none()
    })
}

/// Whether the Service has the finalizer, and is being deleted or has another type.
pub(super) fn needs_cleanup(service: &Service) -> bool {
    let has_type = spec(service).and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
    has_finalizer(service) && (service.metadata.deletion_timestamp.is_some() || !has_type)
}

pub(super) fn has_finalizer(service: &Service) -> bool {
    let mut finalizers = service.metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == FINALIZER)
}

/// Whether an update matters for the load balancer.
pub(super) fn changed(old: &Service, new: &Service) -> bool {
    match (wants(old), wants(new)) {
        (false, false) => return false,
        (true, true) => {}
        _ => return true,
    }
    let empty = ServiceSpec::default();
    let also_empty = ServiceSpec::default();
    let a = spec(old).unwrap_or(&empty);
    let b = spec(new).unwrap_or(&also_empty);
    a.load_balancer_source_ranges != b.load_balancer_source_ranges
        || listed(&a.ports) != listed(&b.ports)
        || a.session_affinity != b.session_affinity
        || a.session_affinity_config != b.session_affinity_config
        || a.load_balancer_ip != b.load_balancer_ip
        || listed(&a.external_ips) != listed(&b.external_ips)
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.uid != new.metadata.uid
        || a.external_traffic_policy != b.external_traffic_policy
        || a.health_check_node_port != b.health_check_node_port
        // The families themselves are fixed; one can only be added or removed.
        || listed(&a.ip_families).len() != listed(&b.ip_families).len()
}

fn spec(service: &Service) -> Option<&ServiceSpec> {
    service.spec.as_ref()
}

fn listed<T>(list: &Option<Vec<T>>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(metadata: Value, spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    /// Upstream: `TestNeedsCleanup`.
    #[test]
    fn a_service_with_the_finalizer_is_cleaned_up_when_it_ends_or_changes_its_type() {
        let time = "2026-01-01T00:00:00Z";
        // (finalizers, deletion, type, cleanup)
        let cases = [
            (json!([]), None, "ClusterIP", false),
            (json!([]), Some(time), "LoadBalancer", false),
            (json!(["other"]), Some(time), "NodePort", false),
            (
                json!([FINALIZER, "other"]),
                Some(time),
                "LoadBalancer",
                true,
            ),
            (json!([FINALIZER]), None, "NodePort", true),
            (json!([FINALIZER]), None, "LoadBalancer", false),
        ];
        for (finalizers, deleted, kind, expected) in cases {
            let service = service(
                json!({"finalizers": finalizers, "deletionTimestamp": deleted}),
                json!({"type": kind}),
            );
            assert_eq!(needs_cleanup(&service), expected, "{service:?}");
        }
    }

    /// Upstream: `TestNeedsUpdate`, and the fields that it lacks.
    #[test]
    fn only_fields_that_a_load_balancer_depends_on_count() {
        let lb = |change: Value| {
            let mut spec = json!({
                "type": "LoadBalancer", "ports": [{"name": "a", "port": 80, "targetPort": 20}],
                "sessionAffinity": "None", "externalIPs": ["1.1.1.1", "2.2.2.2"],
                "ipFamilies": ["IPv4"],
            });
            spec.as_object_mut()
                .unwrap()
                .extend(change.as_object().cloned().unwrap());
            spec
        };
        let other_kind = json!({"type": "ClusterIP"});
        // (why, old, new, changed)
        let cases = [
            ("equal", lb(json!({})), lb(json!({})), false),
            (
                "neither wants",
                other_kind.clone(),
                json!({"type": "NodePort"}),
                false,
            ),
            ("type to", other_kind.clone(), lb(json!({})), true),
            ("type from", lb(json!({})), other_kind.clone(), true),
            (
                "class set",
                lb(json!({})),
                lb(json!({"loadBalancerClass": "x"})),
                true,
            ),
            (
                "both with a class",
                lb(json!({"loadBalancerClass": "x"})),
                lb(json!({"loadBalancerClass": "x", "sessionAffinity": "ClientIP"})),
                false,
            ),
            (
                "source ranges",
                lb(json!({})),
                lb(json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})),
                true,
            ),
            (
                "number of ports",
                lb(json!({})),
                lb(json!({"ports": []})),
                true,
            ),
            (
                "name of a port",
                lb(json!({})),
                lb(json!({"ports": [{"name": "b", "port": 80, "targetPort": 20}]})),
                true,
            ),
            (
                "target port",
                lb(json!({})),
                lb(json!({"ports": [{"name": "a", "port": 80, "targetPort": 21}]})),
                true,
            ),
            (
                "node port",
                lb(json!({})),
                lb(
                    json!({"ports": [{"name": "a", "port": 80, "targetPort": 20, "nodePort": 30000}]}),
                ),
                true,
            ),
            (
                "application protocol",
                lb(json!({})),
                lb(
                    json!({"ports": [{"name": "a", "port": 80, "targetPort": 20, "appProtocol": "http"}]}),
                ),
                true,
            ),
            (
                "affinity",
                lb(json!({})),
                lb(json!({"sessionAffinity": "ClientIP"})),
                true,
            ),
            (
                "affinity time",
                lb(json!({})),
                lb(json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}})),
                true,
            ),
            (
                "wanted address",
                lb(json!({})),
                lb(json!({"loadBalancerIP": "3.3.3.3"})),
                true,
            ),
            (
                "number of external addresses",
                lb(json!({})),
                lb(json!({"externalIPs": ["1.1.1.1"]})),
                true,
            ),
            (
                "an external address",
                lb(json!({})),
                lb(json!({"externalIPs": ["1.1.1.1", "3.3.3.3"]})),
                true,
            ),
            (
                "traffic policy",
                lb(json!({})),
                lb(json!({"externalTrafficPolicy": "Local"})),
                true,
            ),
            (
                "health check port",
                lb(json!({})),
                lb(json!({"healthCheckNodePort": 30123})),
                true,
            ),
            (
                "second family",
                lb(json!({})),
                lb(json!({"ipFamilies": ["IPv4", "IPv6"]})),
                true,
            ),
            (
                "another family",
                lb(json!({})),
                lb(json!({"ipFamilies": ["IPv6"]})),
                false,
            ),
            (
                "selector",
                lb(json!({})),
                lb(json!({"selector": {"app": "x"}})),
                false,
            ),
            (
                "node ports at all",
                lb(json!({})),
                lb(json!({"allocateLoadBalancerNodePorts": false})),
                false,
            ),
        ];
        for (why, old, new, expected) in cases {
            let metadata = || json!({"uid": "u"});
            let old = service(metadata(), old);
            let new = service(metadata(), new);
            assert_eq!(changed(&old, &new), expected, "{why}");
        }
        // (why, old metadata, new metadata, changed)
        let cases = [
            ("UID", json!({"uid": "a"}), json!({"uid": "b"}), true),
            (
                "annotations",
                json!({}),
                json!({"annotations": {"a": "b"}}),
                true,
            ),
            (
                "empty annotations",
                json!({}),
                json!({"annotations": {}}),
                true,
            ),
            ("labels", json!({}), json!({"labels": {"a": "b"}}), false),
            (
                "finalizers",
                json!({}),
                json!({"finalizers": [FINALIZER]}),
                false,
            ),
        ];
        for (why, old, new, expected) in cases {
            let old = service(old, lb(json!({})));
            let new = service(new, lb(json!({})));
            assert_eq!(changed(&old, &new), expected, "{why}");
        }
    }
}
