//! One sync of one request: recognize it, ask for the requester's rights, approve it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{CertificateSigningRequest, DecodeError, ObjectKey, SigningRequest};
use steersman_pki::x509::{CertificateRequest, RequestError};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::resource::SUBJECT_ACCESS_REVIEWS;

use super::recognizer::Recognizer;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The text is no request for a certificate. Retries cannot mend it, but upstream retries as
    /// well, with growing delay.
    #[error("unable to parse csr {0:?}: {1}")]
    Parse(String, #[source] RequestError),
    /// The right of the requester could not be reviewed.
    #[error("{0}")]
    Review(#[source] ApiError),
    /// The answer to a review is no review.
    #[error("decode SubjectAccessReview: {0}")]
    Reviewed(#[source] serde_json::Error),
    /// The requester lacks the right. It may come later.
    #[error("recognized csr {0:?} as {1} but subject access review was not approved")]
    NotAllowed(String, String),
    /// The approval could not be written.
    #[error("error updating approval for csr: {0}")]
    Update(#[source] ApiError),
    /// The answer to the write is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Approves requests.
pub(super) struct Approver {
    pub(super) client: ApiClient,
    pub(super) cache: TrackedCache,
}

impl ObjectSyncer for Approver {
    type Object = CertificateSigningRequest;
    type Error = SyncError;

    /// Upstream: `handle` in `sarapprove.go`.
    async fn sync(
        &self,
        key: &ObjectKey,
        csr: Arc<CertificateSigningRequest>,
    ) -> Result<Requeue, SyncError> {
        // The type alone decides, as in upstream's `GetCertApprovalCondition`: a status of `False`
        // counts too.
        let is_decided = ["Approved", "Denied"].map(|kind| csr.condition(kind).is_some());
        if csr.status.certificate.0 || is_decided.contains(&true) {
            return Ok(Requeue::Never);
        }
        let content = csr.content();
        let name = || csr.meta.name.to_string();
        let request = CertificateRequest::from_pem(&content.request)
            .map_err(|error| SyncError::Parse(name(), error))?;
        let recognizers = Recognizer::of(&csr.spec.signer_name, &content, &request);
        // One right is enough. An error of a review ends the sync before the wider right is asked
        // for.
        for recognizer in recognizers {
            if self.is_allowed(*recognizer, &content).await? {
                self.approve(key, &csr, *recognizer).await?;
                return Ok(Requeue::Never);
            }
        }
        if recognizers.is_empty() {
            return Ok(Requeue::Never);
        }
        let tried: Vec<_> = recognizers
            .iter()
            .map(|tried| tried.subresource())
            .collect();
        Err(SyncError::NotAllowed(
            name(),
            format!("[{}]", tried.join(" ")),
        ))
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            // Upstream's `IgnorableError`: mostly a mistake of a user, which would fill the log
            // with each retry.
            SyncError::NotAllowed(..) => Retry::Quietly,
            _ => Retry::after_request(request),
        }
    }
}

impl Approver {
    /// Whether the requester has the right that `recognizer` demands.
    async fn is_allowed(
        &self,
        recognizer: Recognizer,
        content: &SigningRequest,
    ) -> Result<bool, SyncError> {
        #[derive(Deserialize)]
        struct Review {
            status: Status,
        }
        #[derive(Deserialize)]
        struct Status {
            allowed: bool,
        }
        let reviews = Target {
            resource: &SUBJECT_ACCESS_REVIEWS,
            namespace: None,
            name: None,
            subresource: None,
        };
        let review = recognizer.review(content);
        let answer = self.client.create(reviews, &review).await;
        let review: Review = serde_json::from_slice(&answer.map_err(SyncError::Review)?)
            .map_err(SyncError::Reviewed)?;
        Ok(review.status.allowed)
    }

    /// Writes the approval.
    ///
    /// A PUT has the resource version of the reviewed request. If it was denied in the meantime,
    /// the answer is a conflict, and the next sync sees the denial. Upstream:
    /// `appendApprovalCondition`.
    async fn approve(
        &self,
        key: &ObjectKey,
        csr: &CertificateSigningRequest,
        recognizer: Recognizer,
    ) -> Result<(), SyncError> {
        let approval = csr.with_condition(json!({
            "type": "Approved", "status": "True", "reason": "AutoApproved",
            "message": recognizer.message(),
        }));
        let target = Target {
            subresource: Some("approval"),
            ..Target::of::<CertificateSigningRequest>(&csr.meta)
        };
        let answer = self.client.replace(target, &approval).await;
        let answer = answer.map_err(SyncError::Update)?;
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(SyncError::Answer)
    }
}
