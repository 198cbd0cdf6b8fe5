//! Authentication: finds the user for the credentials of a request.
//!
//! A client certificate comes before a bearer token; a request without either is anonymous.
//! Upstream: `k8s.io/apiserver/pkg/authentication/request/union`.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::{Peer, User};
use crate::Server;
use crate::status::Status;

/// The error for a token that no authenticator knows.
pub(super) const INVALID_TOKEN: &str = "invalid bearer token";

/// The audience of the API server itself.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// A valid token: its user and audiences.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) user: Arc<User>,
    /// The requested audiences for which the token is valid.
    pub(crate) audiences: Vec<String>,
}

impl Server {
    /// The user of a request. The certificate of the connection's `peer` counts first, then the
    /// bearer token; otherwise the user is anonymous. An invalid token is refused with 401.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Arc<User>, Status> {
        if let Some(user) = peer.and_then(|peer| peer.user(headers)) {
            return Ok(user);
        }
        match bearer_token(headers) {
            Some(token) => match self.user_of_token(token, &[AUDIENCE]) {
                Ok(known) => Ok(known.user),
                Err(_) => Err(Status::unauthorized()),
            },
            None => Ok(Arc::new(User::anonymous())),
        }
    }

    /// The user of a token for one of `audiences`. The error is the reason that reviews show.
    pub(crate) fn user_of_token(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<KnownToken, String> {
        match self.users.of_token(token) {
            // Static tokens are valid for every audience.
            Some(user) => Ok(KnownToken {
                user,
                audiences: audiences
                    .iter()
                    .map(|audience| (*audience).to_owned())
                    .collect(),
            }),
            None => self.account_of_token(token, audiences),
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
