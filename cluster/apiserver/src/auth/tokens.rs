//! ServiceAccount tokens: issues them, and validates tokens of requests.
//!
//! Upstream: `pkg/serviceaccount` (`claims.go`, `jwt.go`).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::User;
use super::authenticate::{INVALID_TOKEN, KnownToken};
use super::jwt::Token;
use super::legacy_tokens;
use super::rules::quoted;
use super::user::CREDENTIAL;
use crate::Server;
use crate::store::Object;

/// Tolerated difference between clocks, the same as upstream's. Issuer and verifier share a clock
/// here.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// The content of a new token.
pub(crate) struct Claims<'a> {
    /// The ServiceAccount; the token contains its name and UID.
    pub(crate) account: &'a Object,
    /// An object that must exist while the token is valid, and its key in the claims (such as
    /// `pod`).
    pub(crate) bound: Option<(&'static str, &'a Object)>,
    /// Name and UID of the node of a bound pod.
    pub(crate) node: Option<(String, String)>,
    pub(crate) audiences: &'a [String],
    pub(crate) lifetime: SignedDuration,
    /// After this time, upstream counts the uses of the token in a metric.
    pub(crate) warn_after: Option<SignedDuration>,
}

impl Server {
    /// Signs a token with `claims` that is valid from `now` on.
    pub(crate) fn issue(
        &self,
        claims: &Claims<'_>,
        now: Timestamp,
    ) -> Result<String, ring::error::Unspecified> {
        let namespace = claims.account.namespace();
        let name = claims.account.name();
        let reference = |object: &Object| json!({"name": object.name(), "uid": object.uid()});
        let mut private =
            json!({"namespace": namespace, "serviceaccount": reference(claims.account)});
        if let Some((key, object)) = claims.bound {
            private[key] = reference(object);
        }
        if let Some((name, uid)) = &claims.node {
            private["node"] = if uid.is_empty() {
                json!({"name": name})
            } else {
                json!({"name": name, "uid": uid})
            };
        }
        if let Some(delay) = claims.warn_after {
            private["warnafter"] = json!((now + delay).as_second());
        }
        let public = json!({
            "aud": claims.audiences,
            "exp": (now + claims.lifetime).as_second(),
            "iat": now.as_second(),
            "iss": self.users.audience(),
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": private,
            "nbf": now.as_second(),
            "sub": super::user::service_account_name(namespace, name),
        });
        self.users.signer().sign(&public)
    }

    /// The ServiceAccount user of a token for one of `audiences`. The error is the reason that
    /// reviews show.
    pub(super) fn account_of_token(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<KnownToken, String> {
        let issuers = [self.users.audience(), legacy_tokens::ISSUER];
        let token = Token::parse(token).filter(|token| issuers.contains(&token.issuer()));
        let token = token.ok_or(INVALID_TOKEN)?;
        let claims = token.verified(&self.users.keys())?;
        let mut own: Vec<String> = texts(&claims["aud"]);
        if own.is_empty() {
            // Tokens without an audience are for the API server.
            own.push(self.users.audience().to_owned());
        }
        let common: Vec<String> = own
            .iter()
            .filter(|audience| audiences.contains(&audience.as_str()))
            .cloned()
            .collect();
        if common.is_empty() {
            let asked: Vec<String> = audiences
                .iter()
                .map(|audience| (*audience).to_owned())
                .collect();
            let own = quoted(&own);
            let asked = quoted(&asked);
            return Err(format!(
                "token audiences {own} is invalid for the target audiences {asked}"
            ));
        }
        let (user, warning) = if token.issuer() == legacy_tokens::ISSUER {
            self.user_of_legacy_token(token.text, claims)?
        } else {
            self.check_times(claims)?;
            (self.user_of_claims(claims)?, None)
        };
        Ok(KnownToken {
            user: Arc::new(user),
            audiences: common,
            warning,
        })
    }

    /// Checks expiry and start of a token, with [`LEEWAY`] for clock differences.
    fn check_times(&self, claims: &Value) -> Result<(), String> {
        let now = self.clock.now();
        let at = |claim: &str| {
            claims[claim]
                .as_i64()
                .and_then(|seconds| Timestamp::from_second(seconds).ok())
        };
        if at("exp").is_none_or(|expiry| now - LEEWAY > expiry) {
            return Err("service account token has expired".to_owned());
        }
        if at("nbf").is_none_or(|start| now + LEEWAY < start) {
            return Err("service account token is not valid yet".to_owned());
        }
        Ok(())
    }

    /// The user of a token. An error if its account or a bound object was deleted, or has been
    /// created again with another UID.
    fn user_of_claims(&self, claims: &Value) -> Result<User, String> {
        let private = &claims["kubernetes.io"];
        let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let namespace = text(private, "namespace");
        let account = &private["serviceaccount"];
        let name = text(account, "name");
        let uid = text(account, "uid");
        let found = self.find_object("serviceaccounts", &format!("{namespace}/{name}"));
        let found = found.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if *found.uid() != *uid {
            return Err(format!(
                "service account UID ({}) does not match claim ({uid})",
                found.uid()
            ));
        }
        if self.was_deleted(&found) {
            return Err(format!(
                "service account {namespace}/{name} has been deleted"
            ));
        }
        let mut user = User::service_account(&namespace, &name).with_uid(uid);
        let mut add_extra =
            |key: &str, value: String| user.extra.insert(key.to_owned(), vec![value]);
        add_extra(CREDENTIAL, format!("JTI={}", text(claims, "jti")));
        for (kind, plural) in [("secret", "secrets"), ("pod", "pods"), ("node", "nodes")] {
            let bound = &private[kind];
            if bound.is_null() {
                continue;
            }
            let name = text(bound, "name");
            let uid = text(bound, "uid");
            // The node of a bound pod only appears in the user's `extra`; its existence is not
            // checked.
            if kind != "node" || private["pod"].is_null() {
                let key = if kind == "node" {
                    name.clone()
                } else {
                    format!("{namespace}/{name}")
                };
                const INVALIDATED: &str = "service account token has been invalidated";
                let found = self.find_object(plural, &key).ok_or(INVALIDATED)?;
                if *found.uid() != *uid {
                    let found = found.uid();
                    return Err(format!(
                        "{kind} UID ({found}) does not match service account {kind} ref claim ({uid})"
                    ));
                }
                if self.was_deleted(&found) {
                    return Err(INVALIDATED.to_owned());
                }
            }
            if kind != "secret" {
                add_extra(&format!("authentication.kubernetes.io/{kind}-name"), name);
                add_extra(&format!("authentication.kubernetes.io/{kind}-uid"), uid);
            }
        }
        Ok(user)
    }

    /// Whether the object has been terminating for longer than [`LEEWAY`]. Until then its tokens
    /// are valid, so that a terminating pod can finish its work.
    fn was_deleted(&self, object: &Object) -> bool {
        let since = || {
            let time = object.to_value()["metadata"]["deletionTimestamp"].take();
            time.as_str()?.parse::<Timestamp>().ok()
        };
        object.deleting && since().is_some_and(|since| since < self.clock.now() - LEEWAY)
    }

    /// A core/v1 object by its key in the store.
    pub(crate) fn find_object(&self, plural: &str, key: &str) -> Option<Arc<Object>> {
        self.registry.find("", "v1", plural)?.store.get(key)
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
