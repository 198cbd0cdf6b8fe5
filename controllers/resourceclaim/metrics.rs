//! The metrics of claims, under upstream's names (`resourceclaim/metrics`).

use std::collections::HashMap;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use steersman_objects::ResourceClaim;
use steersman_releases::Release;
use steersman_runtime::informer::Store;
use steersman_values::resource::ResourceType;

/// The counter of created claims. The registry counts the existing ones at each scrape.
#[derive(Clone)]
pub(super) struct ClaimMetrics {
    /// Upstream: `ResourceClaimCreate`.
    creations: IntCounterVec,
    /// The number of labels.
    labels: usize,
}

/// The labels of created claims. Up to 1.36, there are only the first two.
const OF_CREATIONS: [&str; 4] = [
    "status",
    "admin_access",
    "owner_api_group",
    "owner_api_kind",
];

impl ClaimMetrics {
    /// Registers both families with the names and labels of `release`. The second one counts the claims in `claims`.
    ///
    /// Releases differ in both; see `claim_metrics`, `claim_labels` and `counts_created_claims_by_owner` of `Release`.
    pub(super) fn register(
        registry: &Registry,
        claims: Store<ResourceClaim>,
        release: Release,
    ) -> Result<Self, prometheus::Error> {
        let [created, existing] = release.claim_metrics();
        let creations = Opts::new(
            created,
            "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status and admin access",
        );
        let has_owner = release.counts_created_claims_by_owner();
        let labels = if has_owner { OF_CREATIONS.len() } else { 2 };
        let creations = IntCounterVec::new(creations, &OF_CREATIONS[..labels])?;
        registry.register(Box::new(creations.clone()))?;
        let existing = ExistingClaims::over(claims, existing, release.claim_labels())?;
        registry.register(Box::new(existing))?;
        Ok(Self { creations, labels })
    }

    /// Counts one POST of a claim for an object of the type `owner`.
    pub(super) fn created(&self, success: bool, admin_access: bool, owner: &ResourceType) {
        let status = if success { "success" } else { "failure" };
        let values = [status, text(admin_access), &*owner.group, &*owner.kind];
        self.creations
            .with_label_values(&values[..self.labels])
            .inc();
    }
}

/// Counts the cached claims at each scrape.
///
/// Upstream: `customCollector`. A count at each event would go wrong with the first lost one.
struct ExistingClaims {
    claims: Store<ResourceClaim>,
    gauge: IntGaugeVec,
    /// The number of labels.
    labels: usize,
}

impl ExistingClaims {
    /// `names` are the first names of [`labels`].
    fn over(
        claims: Store<ResourceClaim>,
        name: &str,
        names: &'static [&'static str],
    ) -> Result<Self, prometheus::Error> {
        let help = if names.contains(&"source") {
            "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. \
             Source can be 'resource_claim_template' (created from a template), \
             'extended_resource' (extended resources), or empty (manually created by a user)."
        } else {
            "[ALPHA] Number of ResourceClaims, categorized by allocation status and admin access"
        };
        let gauge = IntGaugeVec::new(Opts::new(name, help), names)?;
        Ok(Self {
            claims,
            gauge,
            labels: names.len(),
        })
    }
}

impl Collector for ExistingClaims {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counts: HashMap<[&str; 3], i64> = HashMap::new();
        for claim in self.claims.list() {
            let mut labels = labels(&claim);
            // Claims that differ only in labels of later releases are one series.
            labels[self.labels..].fill("");
            *counts.entry(labels).or_default() += 1;
        }
        // A combination without claims has no series, as upstream.
        self.gauge.reset();
        for (labels, count) in counts {
            let labels = &labels[..self.labels];
            self.gauge.with_label_values(labels).set(count);
        }
        self.gauge.collect()
    }
}

/// `allocated`, `admin_access` and `source` of a claim.
///
/// The annotation of extended resources decides before that of pod claims. Upstream:
/// `CollectWithStability`.
fn labels(claim: &ResourceClaim) -> [&'static str; 3] {
    let annotations = &claim.annotations;
    let is_extended = annotations.extended_resource_claim.as_deref() == Some("true");
    let pod_claim = annotations.pod_claim_name.as_deref().unwrap_or_default();
    let source = match (is_extended, pod_claim) {
        (true, _) => "extended_resource",
        (false, "") => "",
        (false, _) => "resource_claim_template",
    };
    let is_allocated = claim.status.allocation.is_some();
    [
        text(is_allocated),
        text(claim.spec.wants_admin_access()),
        source,
    ]
}

fn text(truth: bool) -> &'static str {
    if truth { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    /// Upstream: `TestGetAdminAccessMetricLabel`. A missing claim has no counterpart.
    #[test]
    fn admin_access_of_any_request_counts() {
        let exactly = |access: Value| json!({"name": "r", "exactly": {"adminAccess": access}});
        // (case, requests, label)
        let cases = [
            ("no requests", json!(null), "false"),
            (
                "admin access false",
                json!([exactly(json!(false))]),
                "false",
            ),
            ("admin access true", json!([exactly(json!(true))]), "true"),
            (
                "prioritized list",
                json!([{"firstAvailable": [{}]}]),
                "false",
            ),
            (
                "multiple requests, one with admin access true",
                json!([exactly(json!(false)), exactly(json!(true))]),
                "true",
            ),
            (
                "multiple requests, all admin access false or nil",
                json!([exactly(json!(null)), exactly(json!(false))]),
                "false",
            ),
        ];
        for (case, requests, expected) in cases {
            let claim =
                json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}});
            let claim = ResourceClaim::decode(claim.to_string().as_bytes()).unwrap();
            assert_eq!(labels(&claim), ["false", expected, ""], "{case}");
        }
    }
}
