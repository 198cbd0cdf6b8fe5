//! One sync of one request: check it by the rules of its signer, sign it, or mark it as failed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{CertificateSigningRequest, DecodeError, ObjectKey, SigningRequest};
use steersman_pki::keys::{SigningError, VerifyError};
use steersman_pki::x509::{self, CertificateRequest, RequestError, Template};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_values::clock::Clock;

use super::authority::{Authority, Current};
use super::signer::Signer;
use super::usages::{self, Unrecognized};
use super::validity::{self, Expired};

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The text is no request for a certificate.
    #[error("unable to parse csr {0:?}: {1}")]
    Parse(String, #[source] RequestError),
    /// No certificate could be made.
    #[error("error auto signing csr: {0}")]
    Sign(#[from] SignError),
    /// The condition `Failed` could not be written.
    #[error("error adding failure condition for csr: {0}")]
    Fail(#[source] ApiError),
    /// The certificate could not be written.
    #[error("error updating signature for csr: {0}")]
    Update(#[source] ApiError),
    /// The answer to the write is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The reason for which no certificate was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The files of the authority cannot be used now. It comes again until the files are mended,
    /// with the back-off of the queue.
    #[error("{0}")]
    Authority(String),
    /// The requester does not have the private key.
    #[error("unable to verify certificate request signature: {0}")]
    Signature(#[from] VerifyError),
    /// The API does not have a usage of the request.
    #[error(transparent)]
    Usages(#[from] Unrecognized),
    /// The certificate of the authority has ended. The request stays approved, so a new authority
    /// signs it.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// The key of the authority cannot sign.
    #[error("failed to sign certificate: {0}")]
    Key(#[from] SigningError),
}

/// Signs requests.
pub(super) struct Signing {
    pub(super) authorities: Vec<(Signer, Current)>,
    /// The longest lifetime of a certificate. Flag `--cluster-signing-duration`. Requests may ask
    /// for less.
    pub(super) longest: Duration,
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) cache: TrackedCache,
}

impl ObjectSyncer for Signing {
    type Object = CertificateSigningRequest;
    type Error = SyncError;

    /// Upstream: `handle` in `signer.go`.
    async fn sync(
        &self,
        key: &ObjectKey,
        csr: Arc<CertificateSigningRequest>,
    ) -> Result<Requeue, SyncError> {
        // An empty status counts as true, as in upstream's `HasTrueCondition`: old clients left it
        // out.
        let has_failed = csr.status.conditions.iter().any(|condition| {
            condition.kind == *"Failed" && matches!(&*condition.status, "True" | "")
        });
        let named = |signer: Signer| csr.spec.signer_name == *signer.name();
        let signer = self.authorities.iter().find(|(signer, _)| named(*signer));
        let Some((signer, authority)) = signer else {
            return Ok(Requeue::Never);
        };
        // A denial beats an approval.
        if csr.status.certificate.0 || !csr.is_approved() || has_failed {
            return Ok(Requeue::Never);
        }
        let content = csr.content();
        let request = CertificateRequest::from_pem(&content.request)
            .map_err(|error| SyncError::Parse(csr.meta.name.to_string(), error))?;
        // The rules come before the signature. A broken rule is final: the condition ends all
        // further tries.
        if let Err(broken) = signer.check(&request, &content.usages) {
            let failed = csr.with_condition(json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                "message": broken, "lastUpdateTime": self.clock.now_seconds().to_string(),
            }));
            self.write(key, &csr, &failed, SyncError::Fail).await?;
            return Ok(Requeue::Never);
        }
        let authority = authority.current().await;
        let authority = (*authority)
            .as_ref()
            .map_err(|reason| SignError::Authority(reason.clone()))?;
        let certificate = self.sign(&request, &content, authority)?;
        let signed = csr.with_certificate(&certificate);
        self.write(key, &csr, &signed, SyncError::Update).await?;
        Ok(Requeue::Never)
    }
}

impl Signing {
    /// A certificate in PEM. Upstream: `sign` in `signer.go`, and `CertificateAuthority.Sign`.
    fn sign(
        &self,
        request: &CertificateRequest,
        content: &SigningRequest,
        authority: &Authority,
    ) -> Result<String, SignError> {
        // A requester has to own the private key, or it could get a certificate for the key of
        // another.
        request.check_signature()?;
        let lifetime = validity::lifetime(content.expiration_seconds, self.longest);
        let ends = authority.certificate.not_after;
        let usages = usages::key_usages(&content.usages)?;
        let (not_before, not_after) = validity::period(self.clock.now(), lifetime, ends)?;
        let template = Template {
            request,
            serial: x509::serial_number()?,
            not_before,
            not_after,
            usages,
        };
        let der = x509::issue(&template, &authority.certificate, &authority.key)?;
        Ok(x509::certificate_to_pem(&der))
    }

    /// The PUT of the status has the resource version of the request, so a concurrent denial is a
    /// conflict.
    async fn write(
        &self,
        key: &ObjectKey,
        csr: &CertificateSigningRequest,
        object: &Value,
        failed: fn(ApiError) -> SyncError,
    ) -> Result<(), SyncError> {
        let target = Target::of::<CertificateSigningRequest>(&csr.meta).status();
        let answer = self.client.replace(target, object).await;
        let answer = answer.map_err(failed)?;
        let recorded = self.cache.wrote_answer(key, &answer);
        recorded.map_err(SyncError::Answer)
    }
}
