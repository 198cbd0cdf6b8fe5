//! Rules of the controllers of ServiceAccounts and their token Secrets.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// A Secret has one token for its whole life, so no account has two valid tokens by one reference.
pub const ONE_TOKEN: Rule = Rule {
    name: "a token is never replaced",
    check: one_token,
};
/// The token controller deletes no Secret of an account that exists.
pub const LIVING_ACCOUNT: Rule = Rule {
    name: "no Secret of a living account is removed",
    check: living_account,
};
/// The cleaner deletes only Secrets whose token was refused before.
pub const INVALID_FIRST: Rule = Rule {
    name: "a token is invalid before its Secret is removed",
    check: invalid_first,
};

/// The cleaner's label with the date since which the API server refuses a token.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

fn token(secret: &Value) -> Option<&str> {
    secret["data"]["token"]
        .as_str()
        .filter(|token| !token.is_empty())
}

fn annotation<'a>(secret: &'a Value, name: &str) -> &'a str {
    let annotations = &secret["metadata"]["annotations"];
    let value = &annotations[format!("kubernetes.io/service-account.{name}")];
    value.as_str().unwrap_or_default()
}

fn one_token(_: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "secrets" || !change.is_by("tokens-controller") {
        return Ok(());
    }
    let before = change.before.as_deref().and_then(token);
    match (before, token(&change.object)) {
        (Some(before), after) if after != Some(before) => {
            Err(format!("{} has another token", change.key))
        }
        _ => Ok(()),
    }
}

fn living_account(state: &State, change: &Change) -> Result<(), String> {
    let is_removal = &*change.plural == "secrets" && change.kind == ChangeKind::Deleted;
    if !is_removal || !change.is_by("tokens-controller") {
        return Ok(());
    }
    let name = annotation(&change.object, "name");
    let uid = annotation(&change.object, "uid");
    let namespace = change.object["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let account = state.get("serviceaccounts", &format!("{namespace}/{name}"));
    match account {
        Some(account) if uid.is_empty() || account["metadata"]["uid"] == uid => {
            Err(format!("{} is a Secret of {name}", change.key))
        }
        _ => Ok(()),
    }
}

fn invalid_first(_: &State, change: &Change) -> Result<(), String> {
    let is_removal = &*change.plural == "secrets" && change.kind == ChangeKind::Deleted;
    if !is_removal || !change.is_by("legacy-service-account-token-cleaner") {
        return Ok(());
    }
    if change.object["metadata"]["labels"][INVALID_SINCE].is_string() {
        Ok(())
    } else {
        Err(format!("the token of {} was valid", change.key))
    }
}
