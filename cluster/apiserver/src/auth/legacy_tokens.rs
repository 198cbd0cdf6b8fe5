//! Tokens in Secrets of type `kubernetes.io/service-account-token`, which the token controller
//! signs. They do not expire.
//!
//! The label `kubernetes.io/legacy-token-last-used` has the date of the last use. Upstream:
//! `pkg/serviceaccount/legacy.go`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::User;
use super::authenticate::Warning;
use super::user::split_service_account;
use crate::Server;
use crate::store::{Change, Object, Raced};

/// The issuer of such tokens.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The warning about Secrets that a ServiceAccount lists, which old releases generated.
const GENERATED: Warning = Warning(
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated \
     secret-based tokens.",
);

/// The objects that a token names.
struct Names<'a> {
    namespace: &'a str,
    secret: &'a str,
    account: &'a str,
    uid: &'a str,
}

impl<'a> Names<'a> {
    /// Reads the claims. The error names the first one that is missing.
    fn read(claims: &'a Value) -> Result<Self, String> {
        let text = |claim: &str, name: &str| match claims[claim].as_str() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("{name} claim is missing")),
        };
        let own = |claim: &str, name: &str| {
            let claim = format!("kubernetes.io/serviceaccount/{claim}");
            text(&claim, name)
        };
        let subject = text("sub", "sub")?;
        let names = Self {
            namespace: own("namespace", "namespace")?,
            secret: own("secret.name", "secretName")?,
            account: own("service-account.name", "serviceAccountName")?,
            uid: own("service-account.uid", "serviceAccountUID")?,
        };
        if split_service_account(subject) == Some((names.namespace, names.account)) {
            Ok(names)
        } else {
            Err("sub claim is invalid".to_owned())
        }
    }
}

impl Server {
    /// The user of a token with these verified claims, and a warning about the token. The error is
    /// the reason that reviews show.
    pub(super) fn user_of_legacy_token(
        &self,
        token: &str,
        claims: &Value,
    ) -> Result<(User, Option<Warning>), String> {
        let names = Names::read(claims)?;
        let namespace = names.namespace;
        let name = names.account;
        let secret = self.find_object("secrets", &format!("{namespace}/{}", names.secret));
        let secret = secret
            .filter(|secret| !secret.deleting)
            .ok_or("Token has been invalidated")?;
        let content = secret.to_value();
        let stored = content["data"]["token"].as_str().unwrap_or_default();
        if STANDARD.decode(stored).ok().as_deref() != Some(token.as_bytes()) {
            return Err("Token does not match server's copy".to_owned());
        }
        let account = self.find_object("serviceaccounts", &format!("{namespace}/{name}"));
        let account = account.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if account.deleting {
            return Err(format!(
                "ServiceAccount {namespace}/{name} has been deleted"
            ));
        }
        if *account.uid() != *names.uid {
            let found = account.uid();
            let uid = names.uid;
            return Err(format!(
                "ServiceAccount UID ({found}) does not match claim ({uid})"
            ));
        }
        self.note_use(secret, self.clock.now());
        let label = content["metadata"]["labels"][INVALID_SINCE].as_str();
        if label.is_some_and(|since| !since.is_empty()) {
            let secret = names.secret;
            return Err(format!(
                "the token in secret {namespace}/{secret} for service account {namespace}/{name} has been \
                 marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, \
                 or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        let account = account.to_value();
        let mut listed = account["secrets"].as_array().into_iter().flatten();
        let is_listed = listed.any(|reference| reference["name"] == names.secret);
        let user = User::service_account(namespace, name).with_uid(names.uid);
        Ok((user, is_listed.then_some(GENERATED)))
    }

    /// Writes the date of a use into the Secret, at most once a day. A date of tomorrow stays,
    /// because clocks of API servers differ.
    fn note_use(&self, mut secret: Arc<Object>, now: Timestamp) {
        let date = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
        let today = date(now);
        let tomorrow = date(now + SignedDuration::from_hours(24));
        let secrets = self.registry.find("", "v1", "secrets");
        let secrets = secrets.expect("Secrets are built in");
        loop {
            let mut content = secret.to_value();
            let last = content["metadata"]["labels"][LAST_USED].as_str();
            if last.is_some_and(|last| last == today || last == tomorrow) {
                return;
            }
            content["metadata"]["labels"][LAST_USED] = json!(today);
            let change = Change::Put(content);
            let resource = &secrets.resource;
            let key = &secret.key;
            let committed =
                secrets
                    .store
                    .commit(resource, &self.revisions, key, Some(&secret), change);
            match (committed, secrets.store.get(key)) {
                (Err(Raced), Some(newer)) if newer.uid() == secret.uid() => secret = newer,
                _ => return,
            }
        }
    }
}
