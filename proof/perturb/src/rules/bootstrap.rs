//! Rules of bootstrap tokens, and of the ConfigMap that they sign.

use serde_json::Value;
use steersman_objects::{BootstrapToken, Object, TokenLife};
use steersman_pki::jws::detached_signature;

use crate::history::{Change, State};
use crate::scenario::Rule;

/// The signature of a token that exists is that of its secret and of the kubeconfig beside it.
pub const SIGNED: Rule = Rule {
    name: "each new signature fits its token and the kubeconfig",
    check: signed,
};
/// A token is deleted after its expiration.
pub const NOT_BEFORE_EXPIRATION: Rule = Rule {
    name: "no bootstrap token is deleted before its expiration",
    check: not_before_expiration,
};

fn token(secret: &Value) -> Result<BootstrapToken, String> {
    BootstrapToken::decode(secret.to_string().as_bytes()).map_err(|error| error.to_string())
}

fn signed(state: &State, change: &Change) -> Result<(), String> {
    if &*change.key != "kube-public/cluster-info" || !change.is_by("bootstrap-signer") {
        return Ok(());
    }
    let data = &change.object["data"];
    let kubeconfig = data["kubeconfig"].as_str().unwrap_or_default();
    for (key, signature) in data.as_object().into_iter().flatten() {
        let Some(id) = key.strip_prefix("jws-kubeconfig-") else {
            continue;
        };
        let is_old = change
            .before
            .as_deref()
            .is_some_and(|before| before["data"][key] == *signature);
        let secret = state.get("secrets", &format!("kube-system/bootstrap-token-{id}"));
        let Some(secret) = secret.filter(|_| !is_old) else {
            continue;
        };
        let expected = detached_signature(kubeconfig.as_bytes(), id, &token(secret)?.data.secret);
        if *signature != *expected {
            return Err(format!("{key} is {signature} and not {expected}"));
        }
    }
    Ok(())
}

fn not_before_expiration(_state: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "secrets" && change.begins_deletion();
    let Some(secret) = change
        .before
        .as_deref()
        .filter(|_| is_deletion && change.is_by("token-cleaner"))
    else {
        return Ok(());
    };
    match token(secret)?.life(change.at) {
        TokenLife::Expired => Ok(()),
        life => Err(format!("{}: {life:?}", change.key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{put, put_at};
    use super::*;
    use crate::history::ChangeKind::{Created, Deleted, Updated};

    /// A token with the id `abcdef` and the secret `s`. It expires at the second 100.
    fn secret() -> Value {
        json!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system", "uid": "u"},
            "data": {
                "token-id": "YWJjZGVm", "token-secret": "cw==",
                "expiration": "MTk3MC0wMS0wMVQwMDowMTo0MFo=",
            },
        })
    }

    #[test]
    fn a_signature_fits_its_token() {
        let right = detached_signature(b"k", "abcdef", b"s");
        // (why, id, signature, client, whether it breaks the rule)
        let cases = [
            ("right", "abcdef", &*right, "bootstrap-signer", false),
            ("wrong", "abcdef", "x", "bootstrap-signer", true),
            (
                "the token is gone",
                "ghijkl",
                "x",
                "bootstrap-signer",
                false,
            ),
            (
                "it was there before",
                "abcdef",
                "old",
                "bootstrap-signer",
                false,
            ),
            ("by a user", "abcdef", "x", "kubectl", false),
        ];
        for (why, id, signature, by, breaks) in cases {
            let mut state = State::default();
            let info = |signature: &str| {
                json!({
                    "metadata": {"name": "cluster-info", "namespace": "kube-public", "uid": "i"},
                    "data": {"kubeconfig": "k", format!("jws-kubeconfig-{id}"): signature},
                })
            };
            put(&mut state, "secrets", Created, secret(), "");
            put(&mut state, "configmaps", Created, info("old"), "");
            let change = put(&mut state, "configmaps", Updated, info(signature), by);
            assert_eq!((SIGNED.check)(&state, &change).is_err(), breaks, "{why}");
        }
    }

    #[test]
    fn tokens_live_until_their_expiration() {
        // (why, second of the deletion, client, whether it breaks the rule)
        let cases = [
            ("expired", 100, "token-cleaner", false),
            ("early", 99, "token-cleaner", true),
            ("by a user", 99, "kubectl", false),
        ];
        for (why, second, by, breaks) in cases {
            let mut state = State::default();
            put(&mut state, "secrets", Created, secret(), "");
            let change = put_at(second, &mut state, "secrets", Deleted, secret(), by);
            let found = (NOT_BEFORE_EXPIRATION.check)(&state, &change);
            assert_eq!(found.is_err(), breaks, "{why}");
        }
    }
}
