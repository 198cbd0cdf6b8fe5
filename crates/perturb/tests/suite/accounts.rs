//! Scenarios of ServiceAccounts: default accounts, token Secrets, and the clean-up of old ones.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{legacytokencleaner, serviceaccount, serviceaccounttoken};
use steersman_perturb::rules::{INVALID_FIRST, LIVING_ACCOUNT, ONE_TOKEN};
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

const CLEANER: Scenario = Scenario {
    controller: "legacy-serviceaccount-token-cleaner",
    controllers: &[legacytokencleaner::DESCRIPTOR],
    configure: with_period,
    rules: &[INVALID_FIRST],
    ..BLANK
};

/// A key and an authority that every process of a run has.
fn with_key(mut context: ControllerContext) -> ControllerContext {
    context.credentials.account_key = Some(include_str!("account_key.pem").into());
    context.credentials.root_ca = (*b"authority").into();
    context
}

/// The clean-up period of the scenarios.
fn with_period(context: ControllerContext) -> ControllerContext {
    context.with_flag("legacy-service-account-token-clean-up-period", "48h")
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
        Scenario {
            name: "invalidated",
            steps: invalidated,
            ..CLEANER
        },
        Scenario {
            name: "removed",
            steps: removed,
            ..CLEANER
        },
        Scenario {
            name: "in-use",
            steps: in_use,
            ..CLEANER
        },
        Scenario {
            name: "mounted",
            steps: mounted,
            ..CLEANER
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
        Step::Create(account("other", &[])),
        delete("serviceaccounts", "other", json!({})),
        until_caches_are_current(),
    ]
}

fn account(name: &str, secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "default"}, "secrets": secrets,
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
        let (Some(secret), Some(account)) = (secret, account) else {
            return false;
        };
        let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
        secret["data"]["token"].is_string() && uid == &account["metadata"]["uid"]
    })
}

fn filled() -> Vec<Step> {
    vec![
        Step::Create(account("bot", &[])),
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
        Step::Create(account("bot", &[])),
        Step::Create(account("other", &[])),
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
        Step::Create(account("bot", &[])),
        secret("one", "bot"),
        has_token("one", "bot"),
    ]
}

/// The Secret of the new account survives the deletion of the old one.
fn recreated() -> Vec<Step> {
    vec![
        Step::Create(account("bot", &[])),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
        delete("serviceaccounts", "bot", json!({})),
        Step::Create(account("bot", &[])),
        secret("two", "bot"),
        is_gone("secrets", "default/one"),
        has_token("two", "bot"),
        until_caches_are_current(),
    ]
}

fn reference() -> Vec<Step> {
    let lists = |name: &'static str| {
        move |state: &State| {
            let account = state.get("serviceaccounts", "default/bot");
            let listed = account.and_then(|account| account["secrets"].as_array());
            listed.is_some_and(|listed| listed.iter().any(|secret| secret["name"] == name))
        }
    };
    let lists_one = lists("one");
    vec![
        Step::Create(account("bot", &["x", "one", "y"])),
        secret("one", "bot"),
        has_token("one", "bot"),
        until_caches_are_current(),
        delete("secrets", "one", json!({})),
        Step::until("no reference", move |state| !lists_one(state)),
    ]
}

/// An automatic token Secret, which was last used on this day.
fn automatic(name: &str, last_used: &str) -> Step {
    Step::Load(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "labels": {"kubernetes.io/legacy-token-last-used": last_used},
            "annotations": {"kubernetes.io/service-account.name": "bot"},
        },
        "data": {"token": "QQ=="},
    }))
}

/// The objects of an old cluster. The first sweep comes before them, and the next one a day later.
fn old_cluster(secrets: &[(&str, &str)]) -> Vec<Step> {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": "2020-01-01"},
    });
    let names: Vec<&str> = secrets.iter().map(|(name, _)| *name).collect();
    let mut steps = vec![Step::Load(tracking), Step::Create(account("bot", &names))];
    steps.extend(secrets.iter().map(|(name, used)| automatic(name, used)));
    steps.push(days(2));
    steps
}

fn days(number: u64) -> Step {
    Step::Sleep(Duration::from_secs(number * 24 * 60 * 60))
}

fn is_invalid(name: &'static str) -> Step {
    Step::until("invalid", move |state: &State| {
        let secret = state.get("secrets", &format!("default/{name}"));
        secret.is_some_and(|secret| {
            secret["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"].is_string()
        })
    })
}

fn invalidated() -> Vec<Step> {
    let mut steps = old_cluster(&[("one", "2021-01-01"), ("two", "2099-01-01")]);
    steps.push(is_invalid("one"));
    steps
}

fn removed() -> Vec<Step> {
    let mut steps = old_cluster(&[("one", "2021-01-01"), ("two", "2099-01-01")]);
    steps.extend([days(6), is_gone("secrets", "default/one")]);
    steps
}

/// A token that is valid and used again stays.
fn in_use() -> Vec<Step> {
    let mut steps = old_cluster(&[("one", "2021-01-01")]);
    let labels = json!({
        "kubernetes.io/legacy-token-invalid-since": null,
        "kubernetes.io/legacy-token-last-used": "2099-01-01",
    });
    steps.extend([
        is_invalid("one"),
        patch("secrets", "one", json!({"metadata": {"labels": labels}})),
        days(6),
    ]);
    steps
}

/// A token that a pod names stays valid until the pod is gone.
fn mounted() -> Vec<Step> {
    let volume = json!({"name": "token", "secret": {"secretName": "one"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "volumes": [volume]},
    });
    let mut steps = vec![Step::Create(pod)];
    steps.extend(old_cluster(&[("one", "2021-01-01")]));
    steps.extend([
        days(3),
        delete("pods", "web", json!({"gracePeriodSeconds": 0})),
        is_gone("pods", "default/web"),
        days(2),
        is_invalid("one"),
    ]);
    steps
}
