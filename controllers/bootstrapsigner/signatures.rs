//! The signatures that cluster-info should have.
//!
//! Upstream: `signConfigMap` in `bootstrapsigner.go`, and `validateSecretForSigning` in `util.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{BootstrapToken, TokenLife};
use steersman_pki::jws::detached_signature;

/// The key of the signed kubeconfig.
const KUBECONFIG: &str = "kubeconfig";

/// The prefix of the keys of signatures; the id of the token follows.
const SIGNATURE: &str = "jws-kubeconfig-";

/// The prefix of the names of token Secrets; the id of the token follows.
const TOKEN: &str = "bootstrap-token-";

/// `data` of cluster-info with exactly the signatures of the tokens that are valid at `now`. `None` if
/// `data` has these already, or has no kubeconfig.
pub(super) fn signed(
    data: &BTreeMap<String, String>,
    tokens: &[Arc<BootstrapToken>],
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let Some(kubeconfig) = data.get(KUBECONFIG) else {
        tracing::debug!(key = KUBECONFIG, "No key in ConfigMap");
        return None;
    };
    let other = data.iter().filter(|(key, _)| !key.starts_with(SIGNATURE));
    let mut signed: BTreeMap<String, String> = other
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for token in tokens {
        if let Some((id, secret)) = signing_token(token, now) {
            let signature = detached_signature(kubeconfig.as_bytes(), id, secret);
            signed.insert(format!("{SIGNATURE}{id}"), signature);
        }
    }
    (signed != *data).then_some(signed)
}

/// Id and secret of a token that signs cluster-info at `now`.
fn signing_token(token: &BootstrapToken, now: Timestamp) -> Option<(&str, &[u8])> {
    let name = &*token.meta.name;
    let data = &token.data;
    let invalid = |why: &str| {
        tracing::debug!(secret = name, "{why}");
        None
    };
    let Some(id) = name.strip_prefix(TOKEN).filter(|id| is_id(id)) else {
        return invalid("Invalid secret name, must be of the form bootstrap-token-<secret-id>");
    };
    if data.id.is_empty() {
        return invalid("No key token-id in Secret");
    }
    if *data.id != *id.as_bytes() {
        return invalid("Token ID doesn't match secret name");
    }
    if data.secret.is_empty() {
        return invalid("No key token-secret in Secret");
    }
    let is_valid = token.life(now) != TokenLife::Expired && *data.usage_signing == *b"true";
    is_valid.then_some((id, &data.secret))
}

/// Whether `text` is the id of a token: six lower-case letters and digits.
fn is_id(text: &str) -> bool {
    let is_id = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() == 6 && text.as_bytes().iter().all(is_id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steersman_objects::Object;

    use super::*;
    use crate::testing::tokens::bootstrap_token;

    const NOW: i64 = 1_700_000_000;
    const VALID: [(&str, &str); 3] = [
        ("token-id", "abc123"),
        ("token-secret", "tokenSecret"),
        ("usage-bootstrap-signing", "true"),
    ];

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    /// The token Secret `name` with the values `VALID`, except those that `changes` sets.
    fn token(name: &str, changes: &[(&str, &str)]) -> Arc<BootstrapToken> {
        let mut data = BTreeMap::from(VALID);
        data.extend(changes.iter().copied());
        let served = bootstrap_token(name, &Vec::from_iter(data));
        Arc::new(BootstrapToken::decode(served.to_string().as_bytes()).unwrap())
    }

    /// Upstream: `TestValidateSecret`, `TestValidateSecretForSigning`, `TestBadSecretName` and
    /// `TestMismatchSecretName`.
    #[test]
    fn a_token_must_be_valid_to_sign() {
        const NAME: &str = "bootstrap-token-abc123";
        let past = "2023-11-14T21:13:20Z";
        let future = "2023-11-14T23:13:20Z";
        // (case, name, changes, valid)
        let cases: [(&str, &str, &[(&str, &str)], bool); 21] = [
            ("valid", NAME, &[], true),
            ("Signing token with no exp", NAME, &[], true),
            (
                "Signing token with valid exp",
                NAME,
                &[("expiration", future)],
                true,
            ),
            (
                "Expired signing token",
                NAME,
                &[("expiration", past)],
                false,
            ),
            (
                "Signing token with bad exp",
                NAME,
                &[("expiration", "garbage")],
                false,
            ),
            (
                "Signing token without signing bit",
                NAME,
                &[("usage-bootstrap-signing", ""), ("expiration", "garbage")],
                false,
            ),
            (
                "Signing token with bad signing bit",
                NAME,
                &[("usage-bootstrap-signing", "")],
                false,
            ),
            ("Signing token with no ID", NAME, &[("token-id", "")], false),
            (
                "Signing token with no secret",
                NAME,
                &[("token-secret", "")],
                false,
            ),
            (
                "no signing",
                NAME,
                &[("usage-bootstrap-signing", "false")],
                false,
            ),
            (
                "signing in capitals",
                NAME,
                &[("usage-bootstrap-signing", "True")],
                false,
            ),
            (
                "the expiration of this moment",
                NAME,
                &[("expiration", "2023-11-14T22:13:20Z")],
                false,
            ),
            (
                "bad name",
                "bootstrap-token-abc1234",
                &[("token-id", "abc1234")],
                false,
            ),
            (
                "short name",
                "bootstrap-token-abc12",
                &[("token-id", "abc12")],
                false,
            ),
            ("other prefix", "bad:abc123", &[], false),
            (
                "prefix twice",
                "bootstrap-token-bootstrap-token-abc123",
                &[],
                false,
            ),
            (
                "dots in the name",
                "bootstrap-token-abc.23",
                &[("token-id", "abc.23")],
                false,
            ),
            (
                "name of another token",
                "bootstrap-token-not1id",
                &[],
                false,
            ),
            ("id with a suffix", NAME, &[("token-id", "abc123\n")], false),
            (
                "a description does not matter",
                NAME,
                &[("description", "x")],
                true,
            ),
            (
                "the form of the secret does not matter",
                NAME,
                &[("token-secret", "S")],
                true,
            ),
        ];
        for (case, name, changes, valid) in cases {
            let token = token(name, changes);
            assert_eq!(signing_token(&token, now()).is_some(), valid, "{case}");
        }
    }

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(pair).collect()
    }

    /// The signature of `payload` in upstream's tests.
    const SIGNATURE: &str =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958";

    /// Upstream: `TestSimpleSign`, `TestNoSignNeeded`, `TestUpdateSignature` and
    /// `TestRemoveSignature`.
    #[test]
    fn signatures_follow_the_tokens() {
        let payload = ("kubeconfig", "payload");
        let valid = [token("bootstrap-token-abc123", &[])];
        let ours = ("jws-kubeconfig-abc123", SIGNATURE);
        let old = ("jws-kubeconfig-abc123", "old signature");
        // (case, data, tokens, new data)
        let cases: [(
            &str,
            &[(&str, &str)],
            &[Arc<BootstrapToken>],
            Option<&[(&str, &str)]>,
        ); 9] = [
            ("simple sign", &[payload], &valid, Some(&[payload, ours])),
            ("no sign needed", &[payload, ours], &valid, None),
            (
                "update signature",
                &[payload, old],
                &valid,
                Some(&[payload, ours]),
            ),
            ("remove signature", &[payload, old], &[], Some(&[payload])),
            ("no tokens and no signatures", &[payload], &[], None),
            ("no kubeconfig: old signatures stay", &[old], &valid, None),
            (
                "another token's signature goes",
                &[payload, ours, ("jws-kubeconfig-zzzzzz", "x")],
                &valid,
                Some(&[payload, ours]),
            ),
            (
                "a signature without an id goes",
                &[payload, ("jws-kubeconfig-", "x")],
                &[],
                Some(&[payload]),
            ),
            (
                "other keys stay",
                &[payload, ("jws-kubeconfi", "a"), ("KUBECONFIG", "b")],
                &valid,
                Some(&[payload, ("jws-kubeconfi", "a"), ("KUBECONFIG", "b"), ours]),
            ),
        ];
        for (case, before, tokens, after) in cases {
            assert_eq!(
                signed(&data(before), tokens, now()),
                after.map(data),
                "{case}"
            );
        }
        let empty = signed(&data(&[("kubeconfig", "")]), &valid, now()).unwrap();
        assert!(
            empty["jws-kubeconfig-abc123"].starts_with("eyJhbGci"),
            "empty is signed too"
        );
    }

    #[test]
    fn the_kubeconfig_is_signed_as_it_is() {
        let valid = [token("bootstrap-token-abc123", &[])];
        let mut seen = BTreeSet::new();
        for kubeconfig in [
            "a",
            "a\n",
            " a",
            "\u{feff}a",
            "{{",
            "apiVersion: v1\r\n",
            "<&>\0",
        ] {
            let before = data(&[("kubeconfig", kubeconfig)]);
            let after = signed(&before, &valid, now()).unwrap();
            assert_eq!(after["kubeconfig"], kubeconfig);
            let is_new = seen.insert(after["jws-kubeconfig-abc123"].clone());
            assert!(is_new, "{kubeconfig:?} has the signature of another text");
        }
    }
}
