//! Scenarios of ServiceAccounts: default accounts and token Secrets.

use serde_json::{Value, json};
use steersman_controllers::{serviceaccount, serviceaccounttoken};
use steersman_perturb::rules::{LIVING_ACCOUNT, ONE_TOKEN};
use steersman_perturb::{Scenario, State, Step};
use steersman_runtime::controller::ControllerContext;

use crate::objects::{BLANK, delete, is_gone, patch, path_in, until_caches_are_current};

const ACCOUNTS: Scenario = Scenario {
    controller: "serviceaccount",
    controllers: &[serviceaccount::DESCRIPTOR],
    ..BLANK
};

const TOKENS: Scenario = Scenario {
    controller: "serviceaccount-token",
    controllers: &[serviceaccounttoken::DESCRIPTOR],
    configure: with_key,
    rules: &[ONE_TOKEN, LIVING_ACCOUNT],
    ..BLANK
};

/// A key and an authority that every process of a run has.
fn with_key(mut context: ControllerContext) -> ControllerContext {
    context.credentials.account_key = Some(include_str!("account_key.pem").into());
    context.credentials.root_ca = (*b"authority").into();
    context
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "namespaces",
            steps: namespaces,
            ..ACCOUNTS
        },
        Scenario {
            name: "deleted",
            steps: deleted,
            ..ACCOUNTS
        },
        Scenario {
            name: "terminating",
            steps: terminating,
            ..ACCOUNTS
        },
        Scenario {
            name: "edited",
            steps: edited,
            ..ACCOUNTS
        },
        Scenario {
            name: "filled",
            steps: filled,
            ..TOKENS
        },
        Scenario {
            name: "account-deleted",
            steps: account_deleted,
            ..TOKENS
        },
        Scenario {
            name: "no-account",
            steps: no_account,
            ..TOKENS
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..TOKENS
        },
        Scenario {
            name: "reference",
            steps: reference,
            ..TOKENS
        },
    ]
}

fn namespace(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// Waits until these namespaces have their account.
fn have_accounts(namespaces: &'static [&'static str]) -> Step {
    Step::until("accounts", move |state: &State| {
        let mut keys = namespaces.iter().map(|name| format!("{name}/default"));
        keys.all(|key| state.get("serviceaccounts", &key).is_some())
    })
}

fn namespaces() -> Vec<Step> {
    vec![
        namespace("a"),
        namespace("b"),
        have_accounts(&["default", "kube-system", "a", "b"]),
        namespace("c"),
        have_accounts(&["c"]),
    ]
}

fn deleted() -> Vec<Step> {
    vec![
        namespace("a"),
        have_accounts(&["a", "default"]),
        until_caches_are_current(),
        Step::Delete(path_in("a", "serviceaccounts", "default"), json!({})),
        have_accounts(&["a"]),
        delete("serviceaccounts", "default", json!({})),
        have_accounts(&["default"]),
    ]
}

/// A terminating namespace loses its account, which is not made again.
fn terminating() -> Vec<Step> {
    let held = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"},
        "spec": {"finalizers": ["example.com/wait"]},
    });
    vec![
        Step::Create(held),
        have_accounts(&["a"]),
        Step::Delete("/api/v1/namespaces/a".to_owned(), json!({})),
        until_caches_are_current(),
        Step::Delete(path_in("a", "serviceaccounts", "default"), json!({})),
        until_caches_are_current(),
    ]
}

fn edited() -> Vec<Step> {
    let edit = json!({"automountServiceAccountToken": false});
    vec![
        have_accounts(&["default"]),
        patch("serviceaccounts", "default", edit),
        Step::Create(account("other")),
        delete("serviceaccounts", "other", json!({})),
        until_caches_are_current(),
    ]
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "default"},
    })
}

fn secret(name: &str, account: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": name, "annotations": {"kubernetes.io/service-account.name": account},
        },
    }))
}

/// Waits until the Secret has a token of the account that exists.
fn has_token(name: &'static str, account: &'static str) -> Step {
    Step::until("token", move |state: &State| {
        let secret = state.get("secrets", &format!("default/{name}"));
        let account = state.get("serviceaccounts", &format!("default/{account}"));
        let Some(secret) = secret else {
            return false;
        };
        let Some(account) = account else {
            return false;
        };
        let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
        secret["data"]["token"].is_string() && uid == &account["metadata"]["uid"]
    })
}

fn filled() -> Vec<Step> {
    vec![
        Step::Create(account("bot")),
        secret("one", "bot"),
        secret("two", "bot"),
        has_token("one", "bot"),
        has_token("two", "bot"),
        patch("secrets", "one", json!({"data": {"token": null}})),
        has_token("one", "bot"),
    ]
}

fn account_deleted() -> Vec<Step> {
    vec![
        Step::Create(account("bot")),
        Step::Create(account("other")),
        secret("one", "bot"),
        secret("two", "other"),
        has_token("one", "bot"),
        has_token("two", "other"),
        delete("serviceaccounts", "bot", json!({})),
        is_gone("secrets", "default/one"),
        until_caches_are_current(),
    ]
}

fn no_account() -> Vec<Step> {
    vec![
        secret("ghost", "missing"),
        is_gone("secrets", "default/ghost"),
        Step::Create(account("bot")),
        secret("one", "bot"),
        has_token("one", "bot"),
    ]
}

/// The Secret of the new account survives the deletion of the old one.
fn recreated() -> Vec<Step> {
    vec![
        Step::Create(account("bot")),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
        delete("serviceaccounts", "bot", json!({})),
        Step::Create(account("bot")),
        secret("two", "bot"),
        is_gone("secrets", "default/one"),
        has_token("two", "bot"),
        until_caches_are_current(),
    ]
}

/// The account that a Secret names goes, and comes back with another UID.
fn reference() -> Vec<Step> {
    let bot = || Step::Create(account("bot"));
    let without_bot = || delete("serviceaccounts", "bot", json!({}));
    vec![
        bot(),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
        without_bot(),
        is_gone("secrets", "default/one"),
        bot(),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
        // The Secret has the UID of the account before.
        without_bot(),
        bot(),
        is_gone("secrets", "default/one"),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
    ]
}
