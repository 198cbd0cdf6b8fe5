//! Delegated authentication and authorization of requests to the HTTPS port.
//!
//! request -> request headers of a proxy | client certificate | bearer token | anonymous -> user
//!
//! user, verb, path -> `system:masters` | always-allowed paths | SubjectAccessReview -> decision
//!
//! The first valid credential determines the user. A request with invalid credentials only is
//! answered with 401. A request without credentials belongs to `system:anonymous`. Upstream:
//! `k8s.io/apiserver/pkg/server/options` (`authentication.go`, `authorization.go`) and the union
//! authenticator.

mod answers;
mod cache;
mod certificates;
mod chain;
mod front_proxy;
mod handshake;
mod metrics;
mod permissions;
mod review;
#[cfg(test)]
mod tests;
mod tokens;
mod trust;
mod user;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::response::Response;
use http::Version;
use http::request::Parts;
use rustls::pki_types::CertificateDer;
use steersman_client::{ApiClient, ApiError};
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use steersman_values::resource::ResourceType;
use tokio::time::Instant;

pub(crate) use answers::{NOSNIFF, not_acceptable, request_target, text};
pub(crate) use chain::Chain;
pub(crate) use handshake::AnyClient;
pub(crate) use metrics::AccessMetrics;

use crate::config::Delegation;
use crate::logs::REFUSALS;
use certificates::Authorities;
use chain::{Verified, Verifier};
use permissions::{Decision, Permissions};
use tokens::{Tokens, token_of};
use trust::{Queues, TrustSource};
use user::User;

/// Members of this group are allowed everything, without a review.
const MASTERS: &str = "system:masters";

/// Access control cannot be set up as the flags ask. Texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A bundle of certificate authorities cannot be used.
    #[error("{0}: {1}")]
    Authorities(&'static str, String),
    /// The API server refuses to return the ConfigMap `extension-apiserver-authentication`.
    #[error(
        "unable to load configmap based request-header-client-ca-file: {0}; bind the role extension-apiserver-authentication-reader \
         in kube-system to the user of --authentication-kubeconfig, or set --authentication-tolerate-lookup-failure"
    )]
    Lookup(#[source] ApiError),
    /// The operating system provides no random bytes.
    #[error("cannot make a secret for the cache of tokens")]
    Randomness,
}

/// The sender of a request: its address and its client certificates.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) certificates: Option<Arc<Chain>>,
}

/// The user of an allowed request, for decisions about single objects.
#[derive(Clone)]
pub(crate) struct Caller {
    access: Arc<Access>,
    /// `None` without access control.
    user: Option<User>,
}

/// Marks the answer to a request of the anonymous user over HTTP/2. Such a client gets no further request through the
/// connection, which would be too cheap for it: CVE-2023-44487.
///
/// Upstream sets the header `Connection: close`, which Go's server takes as the same mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfAnonymous;

impl Caller {
    /// Marks the answer to an allowed request.
    pub(crate) fn mark(&self, version: Version, answer: &mut Response) {
        if let Access::Delegated(delegated) = &*self.access
            && let Some(user) = &self.user
        {
            delegated.mark(user, version, answer);
        }
    }

    /// Whether the user may get the object, or all objects of the namespace if `name` is empty. A
    /// failed review is a refusal.
    pub(crate) async fn may_get(&self, of: &ResourceType, namespace: &str, name: &str) -> bool {
        let Access::Delegated(delegated) = &*self.access else {
            return true;
        };
        let Some(user) = &self.user else {
            return true;
        };
        if user.is_in(MASTERS) {
            return true;
        }
        let Some(permissions) = &delegated.permissions else {
            return false;
        };
        let decided = permissions
            .decide_on(user, "get", of, namespace, name)
            .await;
        matches!(decided, Ok(Decision::Allow))
    }
}

/// [`crate::fuzzing::client_chain`].
pub(crate) fn examine(
    chain: &[Vec<u8>],
    authorities: &[u8],
    now: i64,
) -> Result<Option<bool>, String> {
    let authorities = Authorities::parse(authorities)?;
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| der.as_slice().into()).collect();
    Ok(match Chain::read(&chain) {
        Ok(Some(_)) => Some(authorities.verify(&chain, now).is_ok()),
        Ok(None) | Err(_) => None,
    })
}

/// The access control of the HTTPS port.
pub(crate) enum Access {
    /// Every request is allowed.
    Open,
    /// The API server authenticates tokens and authorizes requests.
    Delegated(Box<Delegated>),
}

/// The state of [`Access::Delegated`].
pub(crate) struct Delegated {
    trust: TrustSource,
    verifier: Verifier,
    tolerate_lookup_failure: bool,
    ignores_uid_of_certificates: bool,
    keeps_anonymous: bool,
    queues: Queues,
    tokens: Option<Tokens>,
    always_allow: Vec<String>,
    permissions: Option<Permissions>,
    metrics: AccessMetrics,
    clock: Clock,
}

impl Access {
    /// Reads the files that `settings` names. `authentication` is the client for TokenReviews and
    /// for the ConfigMap, `authorization` the one for SubjectAccessReviews. Without a client,
    /// bearer tokens are ignored, or every request needs another permission.
    pub(crate) fn delegated(
        settings: &Delegation,
        authentication: Option<ApiClient>,
        authorization: Option<ApiClient>,
        queues: &QueueMetrics,
        metrics: AccessMetrics,
        clock: Clock,
    ) -> Result<Self, AccessError> {
        let authn = &settings.authentication;
        let authz = &settings.authorization;
        let looks_up = authentication.is_some() && !authn.skip_lookup;
        let trust = TrustSource::new(authn, authentication.clone())?;
        let tokens = authentication
            .map(|client| Tokens::new(client, authn.token_ttl, metrics.clone()))
            .transpose();
        if authorization.is_none() {
            tracing::warn!(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work."
            );
        }
        let permissions = authorization.map(|client| {
            Permissions::new(client, authz.allowed_ttl, authz.other_ttl, metrics.clone())
        });
        Ok(Self::Delegated(Box::new(Delegated {
            trust,
            verifier: Verifier::default(),
            tolerate_lookup_failure: authn.tolerate_lookup_failure,
            ignores_uid_of_certificates: authn.ignores_uid_of_certificates,
            keeps_anonymous: authn.keeps_anonymous,
            queues: Queues::new(authn, looks_up, queues),
            tokens: tokens.map_err(|_| AccessError::Randomness)?,
            always_allow: authz.always_allow.clone(),
            permissions,
            metrics,
            clock,
        })))
    }

    /// Whether the TLS server requests client certificates.
    pub(crate) fn wants_certificates(&self) -> bool {
        matches!(self, Self::Delegated(delegated) if delegated.trust.has_source())
    }

    /// Reads the trusted authorities from the ConfigMap, before the first request. Only a refusal
    /// (401 or 403) is an error. If the API server is unavailable, [`Access::follow`] tries again
    /// later.
    pub(crate) async fn look_up(&self) -> Result<(), AccessError> {
        let Self::Delegated(delegated) = self else {
            return Ok(());
        };
        match delegated.trust.look_up(&delegated.queues).await {
            Err(error) if delegated.tolerate_lookup_failure => {
                tracing::warn!(%error, "Error looking up in-cluster authentication configuration");
                tracing::warn!(
                    "Continuing without authentication configuration. This may treat all requests as anonymous."
                );
                Ok(())
            }
            Err(error) if !matches!(error.code(), Some(401 | 403)) => {
                tracing::warn!(%error, "cannot read the trusted authorities from the API server yet");
                Ok(())
            }
            looked_up => looked_up.map_err(AccessError::Lookup),
        }
    }

    /// Updates the trusted authorities from the ConfigMap until `stop`.
    pub(crate) async fn follow(&self, stop: CancellationToken) {
        if let Self::Delegated(delegated) = self {
            delegated.trust.follow(&delegated.queues, &stop).await;
        }
    }

    /// Returns the caller if the request is allowed, else the response that refuses it.
    pub(crate) async fn check(
        self: &Arc<Self>,
        request: &Parts,
        peer: &Peer,
    ) -> Result<Caller, Response> {
        let user = match &**self {
            Self::Open => None,
            Self::Delegated(delegated) => Some(delegated.check(request, peer).await?),
        };
        Ok(Caller {
            access: Arc::clone(self),
            user,
        })
    }
}

impl Delegated {
    async fn check(&self, request: &Parts, peer: &Peer) -> Result<User, Response> {
        let began = Instant::now();
        let authenticated = self.authenticate(request, peer).await;
        self.metrics.authenticated(
            authenticated.as_ref().ok().map(|user| user.name.as_str()),
            began.elapsed(),
        );
        let user = authenticated.map_err(|reasons| {
            tracing::error!(
                err = reasons.join(", "),
                "Unable to authenticate the request"
            );
            let mut answer = answers::unauthorized(request);
            self.mark(&User::anonymous(), request.version, &mut answer);
            answer
        })?;

        let verb = request.method.as_str().to_lowercase();
        let path = request.uri.path();
        let began = Instant::now();
        let decided = self.authorize(&user, &verb, path).await;
        let result = match &decided {
            Ok(Decision::Allow) => "allowed",
            Ok(Decision::Deny(_)) => "denied",
            Ok(Decision::NoOpinion(_)) => "no-opinion",
            Err(_) => "error",
        };
        self.metrics.authorized(result, began.elapsed());
        let mut refusal = match decided {
            Ok(Decision::Allow) => return Ok(user),
            Ok(Decision::Deny(reason) | Decision::NoOpinion(reason)) => {
                tracing::debug!(target: REFUSALS, URI = request_target(&request.uri), user = user.name, reason, "Forbidden");
                answers::forbidden(request, &user.name, &verb, &reason)
            }
            Err(error) => answers::internal_error(&request.uri, &error),
        };
        self.mark(&user, request.version, &mut refusal);
        Err(refusal)
    }

    /// Marks the answer with [`OfAnonymous`] if the anonymous user asked over HTTP/2 and the feature gate
    /// `UnauthenticatedHTTP2DOSMitigation` is on.
    fn mark(&self, user: &User, version: Version, answer: &mut Response) {
        if version == Version::HTTP_2 && user.is_anonymous() && !self.keeps_anonymous {
            answer.extensions_mut().insert(OfAnonymous);
        }
    }

    /// The user of a request, or the reasons why each credential is invalid.
    async fn authenticate(&self, request: &Parts, peer: &Peer) -> Result<User, Vec<String>> {
        let mut reasons = Vec::new();
        if let Some(chain) = &peer.certificates {
            match self.by_certificate(request, chain).await {
                Ok(user) => return Ok(user.authenticated()),
                Err(found) => reasons = found,
            }
        }
        if let Some(tokens) = &self.tokens
            && let Some(token) = token_of(&request.headers)
        {
            match tokens.user(&token).await {
                Ok(user) => return Ok(user.authenticated()),
                Err(reason) if reason.is_empty() => reasons.push("invalid bearer token".to_owned()),
                Err(reason) => reasons.push(reason.to_string()),
            }
        }
        if reasons.is_empty() {
            Ok(User::anonymous())
        } else {
            Err(reasons)
        }
    }

    /// The user in the headers of a trusted proxy, else the user of the certificate.
    async fn by_certificate(
        &self,
        request: &Parts,
        chain: &Arc<Chain>,
    ) -> Result<User, Vec<String>> {
        let trust = self.trust.current().await;
        let now = self.clock.now().as_second();
        let verified = chain.verified(&trust, now, &self.verifier).await;
        let verified = verified.map_err(|reason| vec![reason])?;
        let Verified { proxy, client, .. } = &*verified;
        let holder = chain.holder();
        let mut reasons = Vec::new();
        if let Some(proxies) = &trust.proxies
            && let Some(outcome) = proxy
        {
            let admitted = outcome.clone();
            match admitted.and_then(|()| proxies.headers.admit(&holder.common_name)) {
                Ok(()) => {
                    if let Some(user) = proxies.headers.user(&request.headers) {
                        return Ok(user);
                    }
                }
                Err(reason) => reasons.push(reason),
            }
        }
        if let Some(outcome) = client {
            // Upstream also observes certificates that fail the verification.
            let remaining = (holder.not_after - now) as f64;
            self.metrics.expiration.observe(remaining);
            let outcome = outcome.clone();
            let outcome = outcome.map_err(|error| format!("verifying certificate failed: {error}"));
            let has_uid = !self.ignores_uid_of_certificates;
            match outcome.and_then(|()| holder.clone().user(has_uid)) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons)
    }

    /// Decides without a review for `system:masters` and for always-allowed paths.
    async fn authorize(&self, user: &User, verb: &str, path: &str) -> Result<Decision, String> {
        if user.is_in(MASTERS) || self.is_always_allowed(path) {
            return Ok(Decision::Allow);
        }
        match &self.permissions {
            Some(permissions) => permissions.decide(user, verb, path).await,
            None => Ok(Decision::NoOpinion(String::new())),
        }
    }

    /// Whether `--authorization-always-allow-paths` contains the path; `*` at the end matches any
    /// suffix.
    fn is_always_allowed(&self, path: &str) -> bool {
        let path = without_leading_slash(path);
        self.always_allow
            .iter()
            .map(|allowed| without_leading_slash(allowed))
            .any(|allowed| match allowed.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == allowed,
            })
    }
}

/// The path without its leading slash, which is optional in upstream's flag.
fn without_leading_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}
