//! The rules of ServiceAccounts.

use super::*;
use crate::rules::{INVALID_FIRST, LIVING_ACCOUNT, ONE_TOKEN};

const TOKENS: &str = "tokens-controller";
const CLEANER: &str = "legacy-service-account-token-cleaner";

fn secret(account_uid: &str, token: &str) -> Value {
    let mut annotations = json!({"kubernetes.io/service-account.name": "bot"});
    if !account_uid.is_empty() {
        annotations["kubernetes.io/service-account.uid"] = json!(account_uid);
    }
    json!({
        "metadata": {"name": "s", "namespace": "default", "uid": "s", "annotations": annotations},
        "data": {"token": token},
    })
}

fn marked() -> Value {
    let mut secret = secret("u", "a");
    secret["metadata"]["labels"] =
        json!({"kubernetes.io/legacy-token-invalid-since": "2025-01-01"});
    secret
}

fn bot(uid: &str) -> (&'static str, Value) {
    let metadata = json!({"name": "bot", "namespace": "default", "uid": uid});
    ("serviceaccounts", json!({ "metadata": metadata }))
}

#[test]
fn secrets_keep_their_token_and_live_with_their_account() {
    use ChangeKind::{Deleted, Updated};
    let old = |secret: Value| ("secrets", secret);
    let token: Vec<Case> = vec![
        (
            "a first token",
            vec![old(secret("u", ""))],
            TOKENS,
            "secrets",
            Updated,
            secret("u", "a"),
            false,
        ),
        (
            "the same token",
            vec![old(secret("u", "a"))],
            TOKENS,
            "secrets",
            Updated,
            secret("u", "a"),
            false,
        ),
        (
            "another token",
            vec![old(secret("u", "a"))],
            TOKENS,
            "secrets",
            Updated,
            secret("u", "b"),
            true,
        ),
        (
            "no token any more",
            vec![old(secret("u", "a"))],
            TOKENS,
            "secrets",
            Updated,
            secret("u", ""),
            true,
        ),
        (
            "a user's change",
            vec![old(secret("u", "a"))],
            "kubectl",
            "secrets",
            Updated,
            secret("u", "b"),
            false,
        ),
    ];
    check(ONE_TOKEN, token);
    let living: Vec<Case> = vec![
        (
            "no account",
            vec![],
            TOKENS,
            "secrets",
            Deleted,
            secret("u", "a"),
            false,
        ),
        (
            "its account",
            vec![bot("u")],
            TOKENS,
            "secrets",
            Deleted,
            secret("u", "a"),
            true,
        ),
        (
            "another account",
            vec![bot("v")],
            TOKENS,
            "secrets",
            Deleted,
            secret("u", "a"),
            false,
        ),
        (
            "any account of that name",
            vec![bot("v")],
            TOKENS,
            "secrets",
            Deleted,
            secret("", ""),
            true,
        ),
        (
            "a user's deletion",
            vec![bot("u")],
            "kubectl",
            "secrets",
            Deleted,
            secret("u", "a"),
            false,
        ),
    ];
    check(LIVING_ACCOUNT, living);
    let cleaned: Vec<Case> = vec![
        (
            "an invalid token",
            vec![],
            CLEANER,
            "secrets",
            Deleted,
            marked(),
            false,
        ),
        (
            "a valid token",
            vec![],
            CLEANER,
            "secrets",
            Deleted,
            secret("u", "a"),
            true,
        ),
        (
            "a user's deletion",
            vec![],
            "kubectl",
            "secrets",
            Deleted,
            secret("u", "a"),
            false,
        ),
    ];
    check(INVALID_FIRST, cleaned);
}
