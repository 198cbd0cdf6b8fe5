//! Bootstrap tokens, with which new nodes ask for their first certificate.
//!
//! A token is `<id>.<secret>`; its Secret is `kube-system/bootstrap-token-<id>`. Upstream:
//! `plugin/pkg/auth/authenticator/token/bootstrap`.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::User;
use crate::Server;

/// The type of the Secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all users of such tokens.
const GROUP: &str = "system:bootstrappers";
/// Longest name of a further group, without the prefix and the last character.
const MAX_GROUP: usize = 255;

impl Server {
    /// The user of a bootstrap token. `None` if the text is no such token, or if the token is not
    /// valid now.
    pub(super) fn user_of_bootstrap_token(&self, token: &str) -> Option<User> {
        let (id, secret) = parts(token)?;
        let stored = self.find_object("secrets", &format!("kube-system/bootstrap-token-{id}"))?;
        if stored.deleting {
            return None;
        }
        user(&stored.to_value(), id, secret, self.clock.now())
    }
}

/// Id and secret of a text of the form `[a-z0-9]{6}.[a-z0-9]{16}`.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_valid = |text: &str, length: usize| {
        let mut bytes = text.bytes();
        text.len() == length && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_valid(id, 6) && is_valid(secret, 16)).then_some((id, secret))
}

/// The user of a token with this Secret.
fn user(stored: &Value, id: &str, secret: &str, now: Timestamp) -> Option<User> {
    let data = |key: &str| {
        let bytes = STANDARD.decode(stored["data"][key].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    let is_valid = stored["type"] == TYPE
        && data("token-secret")? == secret
        && data("token-id")? == id
        && !data("expiration").is_some_and(|time| is_past(&time, now))
        && data("usage-bootstrap-authentication")? == "true";
    let groups = groups(&data("auth-extra-groups").unwrap_or_default())?;
    is_valid.then(|| User::new(format!("system:bootstrap:{id}"), groups))
}

/// Whether a token has expired. An empty time never comes; a malformed one counts as past.
fn is_past(expiration: &str, now: Timestamp) -> bool {
    let is_rfc3339 = expiration.as_bytes().get(10) == Some(&b'T');
    let time = expiration.parse::<Timestamp>().ok().filter(|_| is_rfc3339);
    !expiration.is_empty() && time.is_none_or(|time| time <= now)
}

/// The groups of a user, sorted. `None` if a further group has a malformed name.
fn groups(extra: &str) -> Option<BTreeSet<String>> {
    let extra = extra.split(',').filter(|_| !extra.is_empty());
    let is_valid = |group: &&str| {
        let name = group.strip_prefix("system:bootstrappers:");
        name.is_some_and(|name| {
            let mut bytes = name.bytes();
            let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            bytes.next_back().is_some_and(is_allowed)
                && bytes.len() <= MAX_GROUP
                && bytes.all(|byte| is_allowed(byte) || matches!(byte, b':' | b'-'))
        })
    };
    let groups: BTreeSet<String> = extra
        .clone()
        .filter(is_valid)
        .chain([GROUP])
        .map(str::to_owned)
        .collect();
    extra
        .clone()
        .all(|group| is_valid(&group))
        .then_some(groups)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_have_one_form() {
        let secret = "0123456789abcdef";
        assert_eq!(parts("abcdef.0123456789abcdef"), Some(("abcdef", secret)));
        for text in [
            "",
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef0",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcde\n",
            "abcdef.01234567.9abcdef",
            "äbcde.0123456789abcdef",
        ] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }

    #[test]
    fn secrets_decide_about_tokens() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let good = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
        });
        let secret = |key: &str, value: Option<&str>| {
            let mut data = good.clone();
            let fields = data.as_object_mut().unwrap();
            match value {
                Some(value) => drop(fields.insert(key.to_owned(), json!(value))),
                None => drop(fields.remove(key)),
            }
            for value in fields.values_mut() {
                *value = json!(STANDARD.encode(value.as_str().unwrap()));
            }
            json!({"type": TYPE, "data": data})
        };
        let groups = |secret: &Value| {
            user(secret, "abcdef", "0123456789abcdef", now).map(|user| user.groups.join(" "))
        };
        let plain = "system:bootstrappers system:authenticated";
        let extra = "system:bootstrappers system:bootstrappers:a system:bootstrappers:b:1 \
                     system:authenticated";
        // (key, value, groups of the user)
        let cases = [
            ("", Some(""), Some(plain)),
            ("expiration", Some(""), Some(plain)),
            ("expiration", Some("2026-01-01T00:00:01Z"), Some(plain)),
            ("expiration", Some("2026-01-01T01:00:00+00:30"), Some(plain)),
            ("expiration", Some("2026-01-01T00:00:00Z"), None),
            ("expiration", Some("2026-01-02 00:00:00Z"), None),
            ("expiration", Some("tomorrow"), None),
            ("token-id", Some("abcdeg"), None),
            ("token-id", None, None),
            ("token-secret", Some("0123456789abcdee"), None),
            ("token-secret", None, None),
            ("usage-bootstrap-authentication", Some("True"), None),
            ("usage-bootstrap-authentication", None, None),
            (
                "auth-extra-groups",
                Some("system:bootstrappers:b:1,system:bootstrappers:a,system:bootstrappers:a"),
                Some(extra),
            ),
            ("auth-extra-groups", Some("system:masters"), None),
            ("auth-extra-groups", Some("system:bootstrappers:"), None),
            ("auth-extra-groups", Some("system:bootstrappers:a-"), None),
            ("auth-extra-groups", Some("system:bootstrappers:a,"), None),
        ];
        for (key, value, expected) in cases {
            let found = groups(&secret(key, value));
            assert_eq!(found.as_deref(), expected, "{key} {value:?}");
        }
        let mut other = secret("", Some(""));
        other["type"] = json!("Opaque");
        assert_eq!(groups(&other), None);
    }
}
