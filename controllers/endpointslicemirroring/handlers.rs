//! The Endpoints that a change enqueues. Endpoints, Service and slices share one name.
//!
//! Upstream: the handlers of `pkg/controller/endpointslicemirroring`.
//!
//! Of a Service, only the presence of a selector matters here.

use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::endpointslice::{SliceChanges, WrittenSlices};
use steersman_objects::{EndpointSlice, Endpoints, Object, ObjectKey, Service};
use steersman_runtime::informer::{Change, InformerFactory};
use steersman_runtime::workqueue::WorkQueue;

use super::MANAGER;

/// Label of Endpoints that are not mirrored, with the value `true`. API servers set it on the
/// Endpoints of `default/kubernetes`, whose slices they write themselves.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Annotation of Endpoints that old clients use for leader election. Such Endpoints change with
/// each renewal, every few seconds. Upstream: `hasLeaderElection`.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// Registers the handlers. `period` is the delay after changes of slices.
pub(super) fn register(
    informers: &InformerFactory,
    queue: &WorkQueue<ObjectKey>,
    period: Duration,
    written: Arc<WrittenSlices>,
) {
    let of_endpoints = queue.clone();
    informers.shared::<Endpoints>().add_handler(move |change| {
        // Endpoints that are no longer mirrored need one more sync, which deletes their slices.
        let was_mirrored = match change {
            Change::Updated { old, .. } => is_mirrored(old),
            _ => false,
        };
        if was_mirrored || is_mirrored(change.object()) {
            of_endpoints.add(change.object().key());
        }
    });
    let of_services = queue.clone();
    informers.shared::<Service>().add_handler(move |change| {
        let has_selector = |service: &Service| !service.spec.selector.is_empty();
        // A new Service makes its older Endpoints eligible, and a deleted one ends their mirroring.
        let enqueues = match change {
            Change::Updated { old, new } => has_selector(old) != has_selector(new),
            _ => !has_selector(change.object()),
        };
        if enqueues {
            of_services.add(change.object().key());
        }
    });
    let changes = SliceChanges::new(MANAGER, written);
    let queue = queue.clone();
    informers
        .shared::<EndpointSlice>()
        .add_handler(move |change| {
            for key in changes.affected(&change) {
                // Upstream has no minimum here, unlike the EndpointSlice controller.
                queue.add_after(key, period);
            }
        });
}

/// Whether `endpoints` themselves allow mirroring. Upstream: `shouldMirror`. The Service must agree
/// as well; the sync checks that. Other values of the label count as unset.
pub(super) fn is_mirrored(endpoints: &Endpoints) -> bool {
    let is_skipped = endpoints
        .meta
        .labels
        .get(SKIP_MIRROR)
        .is_some_and(|value| *value == *"true");
    !is_skipped && endpoints.annotations.get(LEADER).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Upstream: `TestShouldMirror`.
    #[test]
    fn labels_and_annotations_exclude_endpoints() {
        // (upstream's case, labels, annotations, mirrored)
        let cases = [
            ("Normal Endpoints", json!({}), json!({}), true),
            (
                "Endpoints with skip-mirror label=true",
                json!({SKIP_MIRROR: "true"}),
                json!({}),
                false,
            ),
            (
                "Endpoints with skip-mirror label=invalid",
                json!({SKIP_MIRROR: "invalid"}),
                json!({}),
                true,
            ),
            (
                "Endpoints with leader election annotation",
                json!({}),
                json!({LEADER: ""}),
                false,
            ),
        ];
        for (case, labels, annotations, expected) in cases {
            let json =
                json!({"metadata": {"name": "db", "labels": labels, "annotations": annotations}});
            let endpoints = Endpoints::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(is_mirrored(&endpoints), expected, "{case}");
        }
    }
}
