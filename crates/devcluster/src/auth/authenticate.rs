//! From credentials to a user.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::{Peer, User};
use crate::rest::Server;
use crate::status::Status;

/// What is wrong with a token that nobody knows.
pub(super) const INVALID_TOKEN: &str = "invalid bearer token";

/// The audience of the API server itself.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// A token that is valid.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(crate) user: Arc<User>,
    /// Those it was asked for and is for.
    pub(crate) audiences: Vec<String>,
}

impl Server {
    /// The user of a request: the one that the certificate of its `peer` tells, else the one its
    /// token is of, else anonymous. A token that is not valid is refused with 401.
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

    /// The user that a token for one of `audiences` is of, or what is wrong with it.
    pub(crate) fn user_of_token(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<KnownToken, String> {
        match self.users.of_token(token) {
            // Tokens that are known by heart are for every audience.
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

/// The token of `Authorization: Bearer <token>`.
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
