//! The labels of slices: those of the Service, and three reserved ones.
//!
//! A difference in reserved labels alone leads to no write, and the next write of the slice sets
//! them. Upstream: `setEndpointSliceLabels` of `k8s.io/endpointslice`.

use std::collections::BTreeMap;

use steersman_helpers::endpointslice::{HEADLESS, MANAGED_BY, SERVICE_NAME};
use steersman_objects::Service;
use steersman_values::labels::Labels;

use super::MANAGER;

/// Labels that only the controller sets. A Service with one of them does not pass it on. Upstream:
/// `isReservedLabelKey`.
const RESERVED: [&str; 3] = [SERVICE_NAME, MANAGED_BY, HEADLESS];

/// The labels of the slices of `service`. By the headless label, kube-proxy leaves out slices
/// without a virtual IP.
pub(super) fn computed(service: &Service) -> BTreeMap<&str, &str> {
    let mut labels: BTreeMap<&str, &str> = free(&service.meta.labels).collect();
    labels.insert(SERVICE_NAME, &service.meta.name);
    labels.insert(MANAGED_BY, MANAGER);
    if service.is_headless() {
        labels.insert(HEADLESS, "");
    }
    labels
}

/// Whether the labels of a slice and of `service` differ in more than reserved labels. A label that
/// a user adds to a slice is a difference too, so the sync removes it.
pub(super) fn differ(slice: &Labels, service: &Service) -> bool {
    !free(slice).eq(free(&service.meta.labels))
}

/// The labels without the reserved ones, sorted by key.
fn free(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    let pairs = labels.iter().map(|(key, value)| (&**key, &**value));
    pairs.filter(|(key, _)| !RESERVED.contains(key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    /// Upstream: `TestSetEndpointSliceLabels`.
    #[test]
    fn slices_have_the_labels_of_their_service_and_reserved_ones() {
        let reserved = |mut labels: Value| {
            labels[SERVICE_NAME] = json!("foo");
            labels[MANAGED_BY] = json!(MANAGER);
            labels
        };
        let headless = |mut labels: Value| {
            labels[HEADLESS] = json!("");
            reserved(labels)
        };
        // (upstream's case, cluster IP, labels of slice and Service, differ, computed)
        let cases = [
            (
                "Service without labels and empty endpoint slice",
                "1.1.1.1",
                json!({}),
                json!({}),
                false,
                reserved(json!({})),
            ),
            (
                "Headless service with labels and empty endpoint slice",
                "None",
                json!({}),
                json!({"foo": "bar"}),
                true,
                headless(json!({"foo": "bar"})),
            ),
            (
                "Headless service without labels and endpoint slice with same labels",
                "None",
                json!({HEADLESS: ""}),
                json!({}),
                false,
                headless(json!({})),
            ),
            (
                "Non Headless service with Headless label and empty endpoint slice",
                "1.1.1.1",
                json!({}),
                json!({HEADLESS: ""}),
                false,
                reserved(json!({})),
            ),
            (
                "Headless Service with Headless label",
                "None",
                json!({}),
                json!({HEADLESS: "invalid"}),
                false,
                headless(json!({})),
            ),
            (
                "Service with labels",
                "1.1.1.1",
                json!({}),
                json!({"foo": "bar"}),
                true,
                reserved(json!({"foo": "bar"})),
            ),
            (
                "Slice with labels",
                "1.1.1.1",
                json!({"foo": "bar"}),
                json!({}),
                true,
                reserved(json!({})),
            ),
            (
                "Slice with labels and Service with labels",
                "1.1.1.1",
                json!({"foo": "bar"}),
                json!({"foo": "bar", "foo2": "bar2"}),
                true,
                reserved(json!({"foo": "bar", "foo2": "bar2"})),
            ),
            (
                "Slice with labels and Service with changed labels",
                "1.1.1.1",
                json!({"foo": "bar"}),
                json!({"foo": "baz"}),
                true,
                reserved(json!({"foo": "baz"})),
            ),
            (
                "Slice with labels and Service labels equal",
                "1.1.1.1",
                json!({"foo": "bar"}),
                json!({"foo": "bar"}),
                false,
                reserved(json!({"foo": "bar"})),
            ),
            (
                "Slice with reserved labels and Service without labels",
                "1.1.1.1",
                reserved(json!({})),
                json!({}),
                false,
                reserved(json!({})),
            ),
            (
                "Service with reserved labels",
                "1.1.1.1",
                reserved(json!({})),
                json!({SERVICE_NAME: "bad", MANAGED_BY: "bad"}),
                false,
                reserved(json!({})),
            ),
            (
                "Service with reserved and other labels",
                "1.1.1.1",
                reserved(json!({})),
                json!({SERVICE_NAME: "bad", "foo": "bar"}),
                true,
                reserved(json!({"foo": "bar"})),
            ),
        ];
        for (case, cluster_ip, slice, labels, changed, expected) in cases {
            let json = json!({"metadata": {"name": "foo", "labels": labels}, "spec": {"clusterIP": cluster_ip}});
            let service = Service::decode(json.to_string().as_bytes()).unwrap();
            let slice: Labels = serde_json::from_value(slice).unwrap();
            assert_eq!(differ(&slice, &service), changed, "{case}");
            assert_eq!(json!(computed(&service)), expected, "{case}");
        }
    }
}
