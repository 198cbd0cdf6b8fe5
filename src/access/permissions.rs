//! Authorization by the API server: one SubjectAccessReview per user, verb and path.
//!
//! Decisions are cached, so that a scraper does not cause a review per scrape. Upstream:
//! `k8s.io/apiserver/plugin/pkg/authorizer/webhook`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::ApiClient;
use steersman_values::resource::{ResourceType, SUBJECT_ACCESS_REVIEWS};
use tokio::sync::Semaphore;

use super::cache::Expiring;
use super::metrics::AccessMetrics;
use super::review::review;
use super::user::User;

/// Maximum length of a cached request, in bytes; longer ones are reviewed every time. A client
/// controls this length through the path. Upstream uses the same limit.
const LONGEST: usize = 10_000;

/// Maximum number of concurrent reviews. A stranger can cause any number of them, and each holds its
/// request in memory for as long as the API server takes.
const CONCURRENT: usize = 256;

/// The result of a SubjectAccessReview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Allow,
    /// Denied explicitly, with the authorizer's reason.
    Deny(String),
    /// No rule allows the request.
    NoOpinion(String),
}

/// The part of a SubjectAccessReview that decisions depend on.
#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
    denied: bool,
    reason: String,
}

/// Sends SubjectAccessReviews and caches the decisions.
pub(super) struct Permissions {
    client: ApiClient,
    allowed_ttl: Duration,
    other_ttl: Duration,
    known: Expiring<String, Decision>,
    reviews: Semaphore,
    metrics: AccessMetrics,
}

impl Permissions {
    pub(super) fn new(
        client: ApiClient,
        allowed_ttl: Duration,
        other_ttl: Duration,
        metrics: AccessMetrics,
    ) -> Self {
        Self {
            client,
            allowed_ttl,
            other_ttl,
            known: Expiring::default(),
            reviews: Semaphore::new(CONCURRENT),
            metrics,
        }
    }

    /// Decides whether `user` may `verb` the path. Fails if the review fails or contradicts itself.
    pub(super) async fn decide(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Decision, String> {
        self.review(spec(
            user,
            "nonResourceAttributes",
            json!({"path": path, "verb": verb}),
        ))
        .await
    }

    /// Decides whether `user` may `verb` an object, or all objects of `namespace` if `name` is empty.
    pub(super) async fn decide_on(
        &self,
        user: &User,
        verb: &str,
        of: &ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Decision, String> {
        let mut attributes =
            json!({"verb": verb, "group": of.group, "version": of.version, "resource": of.plural});
        for (field, value) in [("namespace", namespace), ("name", name)] {
            if !value.is_empty() {
                attributes[field] = json!(value);
            }
        }
        self.review(spec(user, "resourceAttributes", attributes))
            .await
    }

    async fn review(&self, spec: Value) -> Result<Decision, String> {
        let key = spec.to_string();
        if let Some(decision) = self.known.get(&key) {
            return Ok(decision);
        }
        let Ok(_review) = self.reviews.try_acquire() else {
            return Err(format!("{CONCURRENT} other requests wait for their review"));
        };
        let document = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let asked = review::<Review>(
            &self.client,
            &SUBJECT_ACCESS_REVIEWS,
            &document,
            &self.metrics.access_reviews,
        );
        let status = asked
            .await
            .inspect_err(|error| {
                tracing::error!(error, "Failed to make webhook authorizer request")
            })?
            .status;
        if status.allowed && status.denied {
            return Err(
                "webhook subject access review returned both allow and deny response".to_owned(),
            );
        }
        let (decision, ttl) = match status {
            ReviewStatus { allowed: true, .. } => (Decision::Allow, self.allowed_ttl),
            ReviewStatus {
                denied: true,
                reason,
                ..
            } => (Decision::Deny(reason), self.other_ttl),
            ReviewStatus { reason, .. } => (Decision::NoOpinion(reason), self.other_ttl),
        };
        if key.len() <= LONGEST {
            self.known.put(key, decision.clone(), ttl);
        }
        Ok(decision)
    }
}

/// The `spec` of the review. As upstream, it omits empty fields. Its text is also the cache key.
fn spec(user: &User, kind: &str, attributes: Value) -> Value {
    let mut spec = json!({kind: attributes, "user": user.name});
    if !user.groups.is_empty() {
        spec["groups"] = json!(user.groups);
    }
    if !user.uid.is_empty() {
        spec["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    spec
}
