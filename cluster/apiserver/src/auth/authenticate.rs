//! Authentication: finds the user for the credentials of a request.
//!
//! A client certificate comes before a bearer token; a request without either is anonymous. Tokens
//! are static, of ServiceAccounts, or bootstrap tokens.
//! Upstream: `k8s.io/apiserver/pkg/authentication/request/union`.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::{Peer, User};
use crate::Server;
use crate::status::Status;

/// The error for a token that no authenticator knows.
pub(super) const INVALID_TOKEN: &str = "invalid bearer token";

/// The audience of the API server itself, unless it names another issuer.
pub(super) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// A valid token: its user and audiences.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) user: Arc<User>,
    /// The requested audiences for which the token is valid.
    pub(crate) audiences: Vec<String>,
    pub(crate) warning: Option<Warning>,
}

/// A warning about the credentials of a request, which its answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Warning(pub(crate) &'static str);

impl Server {
    /// The user of a request. The certificate of the connection's `peer` counts first, then the
    /// bearer token; otherwise the user is anonymous. An invalid token is refused with 401, and an
    /// anonymous request as well if all users may do everything. A
    /// [`Warning`] about the token becomes an extension of the request.
    pub(crate) fn authenticate(
        &self,
        parts: &mut Parts,
        peer: Option<&Peer>,
    ) -> Result<Arc<User>, Status> {
        if let Some(user) = peer.and_then(|peer| peer.user(&parts.headers)) {
            return Ok(user);
        }
        let Some(token) = bearer_token(&parts.headers) else {
            // Upstream: `BuiltInAuthenticationOptions.ApplyAuthorization`.
            if self.users.always_allows() {
                return Err(Status::unauthorized());
            }
            return Ok(Arc::new(User::anonymous()));
        };
        let known = self
            .user_of_token(token, &[self.users.audience()])
            .map_err(|_| Status::unauthorized())?;
        if let Some(warning) = known.warning {
            parts.extensions.insert(warning);
        }
        Ok(known.user)
    }

    /// The user of a token for one of `audiences`. The error is the reason that reviews show.
    pub(crate) fn user_of_token(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<KnownToken, String> {
        let user = self.users.of_token(token);
        let bootstrap = || self.user_of_bootstrap_token(token).map(Arc::new);
        match user.or_else(bootstrap) {
            // Tokens without an audience of their own are for the API server.
            Some(user) if audiences.contains(&self.users.audience()) => Ok(KnownToken {
                user,
                audiences: vec![self.users.audience().to_owned()],
                warning: None,
            }),
            Some(_) => Err(INVALID_TOKEN.to_owned()),
            None => self.account_of_token(token, audiences).map_err(|why| {
                // Upstream joins the errors of all authenticators.
                match why.as_str() {
                    INVALID_TOKEN => why,
                    why => format!("[{INVALID_TOKEN}, {why}]"),
                }
            }),
        }
    }
}

/// The token from the header `Authorization: Bearer <token>`.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
