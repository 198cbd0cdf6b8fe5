//! RBAC rules that a controller needs at the API server.
//!
//! Each descriptor lists its rules; the chart's roles are generated from them. Upstream keeps its
//! rules in `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go`.

use steersman_options::features::{FeatureGates, Gate};

/// One rule of a role: it allows all `verbs` on all `resources` of all `groups`. Its JSON is that of
/// upstream's `PolicyRule`, so it lacks the namespace and the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Rule {
    /// API groups. The core group is the empty string; `*` means all groups.
    #[serde(rename = "apiGroups")]
    pub groups: &'static [&'static str],
    /// Plural resource names such as `deployments`, or subresources such as `deployments/status`;
    /// `*` means all.
    pub resources: &'static [&'static str],
    /// Names of the objects; empty for all objects.
    #[serde(rename = "resourceNames", skip_serializing_if = "<[_]>::is_empty")]
    pub names: &'static [&'static str],
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, and verbs
    /// that are no requests, such as `escalate`.
    pub verbs: &'static [&'static str],
    /// The namespace of the Role; `None` for a ClusterRole.
    #[serde(skip)]
    pub namespace: Option<&'static str>,
    /// The feature gate without which no request needs the rule; `None` if requests always do.
    #[serde(skip)]
    pub gate: Option<Gate>,
}

impl Rule {
    /// Verbs of a shared informer. A list or a watch with initial events fills the cache, and the
    /// watch follows.
    pub(crate) const INFORM: &'static [&'static str] = &["list", "watch"];

    /// The rule that [`crate::events::EventRecorder`] needs to write Events.
    pub const EVENTS: Self = Self::new(&[""], &["events"], &["create", "patch"]);

    /// Creates a rule.
    pub const fn new(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            groups,
            resources,
            names: &[],
            verbs,
            namespace: None,
            gate: None,
        }
    }

    /// The same for the objects with these names.
    #[must_use]
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    /// The same within `namespace`; `None` for the whole cluster.
    #[must_use]
    pub const fn within(self, namespace: Option<&'static str>) -> Self {
        Self { namespace, ..self }
    }

    /// The same, needed only while `gate` is on. API servers then have it in the role of the
    /// controller only with the gate, too.
    #[must_use]
    pub const fn with_gate(self, gate: Gate) -> Self {
        Self {
            gate: Some(gate),
            ..self
        }
    }

    /// Whether a request needs the rule in this state of the feature gates.
    pub fn is_needed(&self, features: &FeatureGates) -> bool {
        self.gate.is_none_or(|gate| features.is_on(gate))
    }

    /// The part of this rule that the shared informers need: `list` and `watch`.
    ///
    /// With `--use-service-account-credentials` each controller has its own identity, and informers
    /// use the identity of the process. The role of that identity needs only this part. `None` if
    /// the rule lacks one of the verbs: then no informer watches its resources.
    pub fn of_informers(&self) -> Option<Self> {
        let is_watched = Self::INFORM.iter().all(|verb| self.verbs.contains(verb));
        is_watched.then_some(Self {
            verbs: Self::INFORM,
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use steersman_options::features;

    use super::*;

    #[test]
    fn a_rule_may_depend_on_a_feature_gate() {
        let rule = Rule::new(&["apps"], &["deployments"], &["update"]);
        let gated = rule.with_gate(features::HPA_SCALE_TO_ZERO);
        for is_on in [true, false] {
            let features = FeatureGates::new(|_| is_on);
            assert!(rule.is_needed(&features));
            assert_eq!(gated.is_needed(&features), is_on);
        }
        let json = |rule: &Rule| serde_json::to_string(rule).unwrap();
        assert_eq!(json(&rule), json(&gated), "upstream's rules have no gates");
    }

    #[test]
    fn informers_need_only_list_and_watch_of_watched_resources() {
        let rule = |verbs| Rule::new(&["apps"], &["deployments"], verbs);
        assert_eq!(
            rule(&["get", "list", "update", "watch"]).of_informers(),
            Some(rule(&["list", "watch"]))
        );
        assert_eq!(
            rule(&["list", "deletecollection"]).of_informers(),
            None,
            "the controller lists by itself, without an informer"
        );
        assert_eq!(Rule::EVENTS.of_informers(), None);
    }
}
