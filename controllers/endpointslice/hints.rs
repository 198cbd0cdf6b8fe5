//! Hints by traffic distribution, and the removal of hints.
//!
//! Upstream: `k8s.io/endpointslice/trafficdist`, `hintsEnabled`, and `RemoveHintsFromSlices` of
//! `k8s.io/endpointslice/topologycache`.
//!
//! Hints are part of an endpoint, but not of its identity. A changed hint rewrites the slice, and the
//! endpoint stays in it.

use steersman_objects::{Endpoint, EndpointHints, Service};

use super::plan::Plan;

/// `spec.trafficDistribution` with a known value. Unknown values mean no preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    /// `PreferClose`, the former name of the next one.
    Close,
    /// `PreferSameZone`.
    SameZone,
    /// `PreferSameNode`.
    SameNode,
}

impl Distribution {
    /// The distribution in effect for `service`. The annotation for topology hints takes
    /// precedence over the field. Without `has_newer_names`, only `PreferClose` is known. Upstream:
    /// `validTrafficDistribution`.
    pub(super) fn of(service: &Service, has_newer_names: bool) -> Option<Self> {
        // The two kinds of hints would overwrite each other in each sync.
        if topology_enabled(service) {
            return None;
        }
        match service.spec.traffic_distribution.as_deref()? {
            "PreferClose" => Some(Self::Close),
            "PreferSameZone" if has_newer_names => Some(Self::SameZone),
            "PreferSameNode" if has_newer_names => Some(Self::SameNode),
            _ => None,
        }
    }

    /// The value of the field.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Close => "PreferClose",
            Self::SameZone => "PreferSameZone",
            Self::SameNode => "PreferSameNode",
        }
    }

    /// The hints of a ready endpoint. Hints for zones need a zone of the endpoint. Upstream:
    /// `update` of `preferCloseHeuristic`.
    fn hints(self, endpoint: &Endpoint) -> EndpointHints {
        let node = endpoint
            .node_name
            .clone()
            .filter(|_| self == Self::SameNode);
        EndpointHints {
            for_zones: endpoint.zone.iter().cloned().collect(),
            for_nodes: node.into_iter().collect(),
        }
    }
}

/// Whether the annotations of `service` ask for topology hints. The deprecated key takes
/// precedence. Any other value of the deprecated key turns hints off, even if the newer key has
/// `Auto`. Upstream: `hintsEnabled`.
pub(super) fn topology_enabled(service: &Service) -> bool {
    let annotations = &service.annotations;
    let deprecated = annotations.topology_aware_hints.as_deref();
    matches!(
        deprecated.or(annotations.topology_mode.as_deref()),
        Some("Auto" | "auto")
    )
}

/// Whether the endpoint is ready. Other endpoints get no hints. A missing condition counts as not
/// ready here, although consumers take it as ready. This controller always sets it. Upstream:
/// `EndpointReady`.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

/// Removes all hints. Unchanged slices without hints stay unwritten. Upstream:
/// `RemoveHintsFromSlices`.
pub(super) fn remove(plan: &mut Plan) {
    plan.update_unchanged(|slice| {
        slice
            .endpoints
            .iter()
            .any(|endpoint| endpoint.hints.is_some())
    });
    plan.written()
        .flatten()
        .for_each(|endpoint| endpoint.hints = None);
}

/// Sets the hints of all ready endpoints. The hints of other endpoints stay as they are. An
/// endpoint that turns ready gets its hints with that change. Upstream: `ReconcileHints`.
pub(super) fn distribute(plan: &mut Plan, distribution: Distribution) {
    // Upstream compares the lists of hints, so no hints and an empty set of hints are equal.
    let is_outdated = |endpoint: &Endpoint| {
        let wanted = distribution.hints(endpoint);
        is_ready(endpoint)
            && endpoint
                .hints
                .as_deref()
                .unwrap_or(&EndpointHints::default())
                != &wanted
    };
    plan.update_unchanged(|slice| slice.endpoints.iter().any(is_outdated));
    for endpoint in plan
        .written()
        .flatten()
        .filter(|endpoint| is_ready(endpoint))
    {
        let hints = distribution.hints(endpoint);
        let is_empty = hints == EndpointHints::default();
        endpoint.hints = (!is_empty).then(|| Box::new(hints));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    /// Upstream: `Test_hintsEnabled`.
    #[test]
    fn the_deprecated_annotation_takes_precedence() {
        let deprecated = "service.kubernetes.io/topology-aware-hints";
        let mode = "service.kubernetes.io/topology-mode";
        // (annotations, enabled)
        let cases = [
            (json!(null), false),
            (json!({}), false),
            (json!({deprecated: ""}), false),
            (json!({deprecated: "disabled"}), false),
            (json!({deprecated: "Disabled"}), false),
            (json!({deprecated: "auto"}), true),
            (json!({deprecated: "Auto"}), true),
            (json!({deprecated: "AUTO"}), false),
            (json!({deprecated: "enabled"}), false),
            (json!({mode: ""}), false),
            (json!({mode: "disabled"}), false),
            (json!({mode: "Disabled"}), false),
            (json!({mode: "auto"}), true),
            (json!({mode: "Auto"}), true),
            (json!({mode: "AUTO"}), false),
            (json!({mode: "enabled"}), false),
            (json!({mode: "Auto", deprecated: "disabled"}), false),
            (json!({mode: "disabled", deprecated: "auto"}), true),
            (json!({mode: "Auto", deprecated: ""}), false),
        ];
        for (annotations, expected) in cases {
            let json = json!({"metadata": {"name": "web", "annotations": annotations}});
            let service = Service::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(topology_enabled(&service), expected, "{json}");
        }
    }
}
