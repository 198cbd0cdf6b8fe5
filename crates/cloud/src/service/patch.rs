//! Bodies of the patches of Services.
//!
//! They are upstream's, with two differences that no user sees. Each names the UID and, where it is
//! sent, the version, so that neither a new Service of the same name nor an unseen change is
//! overwritten. The removal of the finalizer names that finalizer, so that others survive that the
//! cache lacks.

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use serde_json::{Map, Value, json};

use super::changes::FINALIZER;

/// Adds the finalizer.
pub(super) fn add_finalizer(service: &Service) -> Value {
    let known: Vec<&str> = finalizers(service).collect();
    let mut metadata = Map::new();
    if !known.is_empty() {
        let order: Vec<&str> = known.into_iter().chain([FINALIZER]).collect();
        metadata.insert("$setElementOrder/finalizers".to_owned(), json!(order));
    }
    metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
    with_uid(service, metadata)
}

/// Removes the finalizer.
pub(super) fn remove_finalizer(service: &Service) -> Value {
    let left: Vec<&str> = finalizers(service).filter(|f| *f != FINALIZER).collect();
    let mut metadata = Map::new();
    metadata.insert(
        "$deleteFromPrimitiveList/finalizers".to_owned(),
        json!([FINALIZER]),
    );
    if !left.is_empty() {
        metadata.insert("$setElementOrder/finalizers".to_owned(), json!(left));
    }
    with_uid(service, metadata)
}

/// Sets the addresses of the load balancer; `None` if the Service has them already.
pub(super) fn status(service: &Service, new: &LoadBalancerStatus) -> Option<Value> {
    let old = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let old = old
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default();
    let new = new.ingress.as_deref().unwrap_or_default();
    if old == new {
        return None;
    }
    let ingress = (!new.is_empty()).then_some(new);
    let mut body = with_uid(service, Map::new());
    body["status"] = json!({"loadBalancer": {"ingress": ingress}});
    Some(body)
}

fn finalizers(service: &Service) -> impl Iterator<Item = &str> {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .map(|finalizer| &**finalizer)
}

fn with_uid(service: &Service, mut metadata: Map<String, Value>) -> Value {
    metadata.insert("uid".to_owned(), json!(service.metadata.uid));
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(finalizers: Value, ingress: Value) -> Service {
        let json = json!({
            "metadata": {"uid": "u", "finalizers": finalizers},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        serde_json::from_value(json).unwrap()
    }

    /// Upstream: `TestAddFinalizer`, `TestRemoveFinalizer`.
    #[test]
    fn patches_of_finalizers_touch_only_one() {
        // (finalizers, addition)
        let additions = [
            (json!(null), json!({"uid": "u", "finalizers": [FINALIZER]})),
            (
                json!(["a"]),
                json!({"uid": "u", "finalizers": [FINALIZER], "$setElementOrder/finalizers": ["a", FINALIZER]}),
            ),
        ];
        for (finalizers, expected) in additions {
            let service = service(finalizers, json!(null));
            assert_eq!(add_finalizer(&service), json!({"metadata": expected}));
        }
        // (finalizers, removal)
        let delete = "$deleteFromPrimitiveList/finalizers";
        let removals = [
            (json!([FINALIZER]), json!({"uid": "u", delete: [FINALIZER]})),
            (
                json!(["a", FINALIZER]),
                json!({"uid": "u", delete: [FINALIZER], "$setElementOrder/finalizers": ["a"]}),
            ),
        ];
        for (finalizers, expected) in removals {
            let service = service(finalizers, json!(null));
            assert_eq!(remove_finalizer(&service), json!({"metadata": expected}));
        }
    }

    /// Upstream: `TestPatchStatus`.
    #[test]
    fn the_status_is_patched_when_addresses_differ() {
        let one = json!([{"ip": "10.0.0.1"}]);
        let other = json!([{"ip": "10.0.0.2"}]);
        // (served, new, ingress in the patch)
        let cases = [
            (json!(null), json!([]), None),
            (json!(null), one.clone(), Some(one.clone())),
            (one.clone(), one.clone(), None),
            (one.clone(), other.clone(), Some(other)),
            (one, json!([]), Some(json!(null))),
        ];
        for (served, new, expected) in cases {
            let new = serde_json::from_value(json!({"ingress": new})).unwrap();
            let expected = expected.map(|ingress| {
                json!({"metadata": {"uid": "u"}, "status": {"loadBalancer": {"ingress": ingress}}})
            });
            assert_eq!(status(&service(json!(null), served), &new), expected);
        }
    }
}
