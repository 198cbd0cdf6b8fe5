//! Scenarios of the cleaner of old tokens. It works once a day, so its Secrets exist before the
//! first manager starts.

use serde_json::{Value, json};
use steersman_controllers::legacytokencleaner;
use steersman_perturb::rules::INVALID_FIRST;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, is_gone, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "legacy-service-account-token-cleaner",
    controllers: &[legacytokencleaner::DESCRIPTOR],
    rules: &[INVALID_FIRST],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "invalidated",
            before: || old_cluster(&[UNUSED, USED]),
            steps: || vec![is_invalid("unused")],
            ..BASE
        },
        Scenario {
            name: "removed",
            before: || old_cluster(&[USED, INVALID, UNUSED]),
            steps: || vec![is_gone("secrets", "default/invalid"), is_invalid("unused")],
            ..BASE
        },
        Scenario {
            name: "mounted",
            before: || {
                let mut objects = old_cluster(&[UNUSED, INVALID]);
                objects.push(pod("invalid"));
                objects
            },
            steps: || vec![is_invalid("unused"), until_caches_are_current()],
            ..BASE
        },
        Scenario {
            name: "several",
            before: || {
                let of = |name| Token { name, ..UNUSED };
                old_cluster(&["a", "b", "c", "d"].map(of))
            },
            steps: || ["a", "b", "c", "d"].map(is_invalid).into(),
            ..BASE
        },
    ]
}

/// An automatic token Secret.
#[derive(Clone, Copy)]
struct Token {
    name: &'static str,
    last_used: &'static str,
    invalid_since: Option<&'static str>,
}

const UNUSED: Token = Token {
    name: "unused",
    last_used: "2021-01-01",
    invalid_since: None,
};

const USED: Token = Token {
    name: "used",
    last_used: "2023-11-01",
    ..UNUSED
};

const INVALID: Token = Token {
    name: "invalid",
    invalid_since: Some("2022-01-01"),
    ..UNUSED
};

impl Token {
    fn secret(self) -> Value {
        let mut labels = json!({"kubernetes.io/legacy-token-last-used": self.last_used});
        if let Some(day) = self.invalid_since {
            labels["kubernetes.io/legacy-token-invalid-since"] = json!(day);
        }
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": self.name, "namespace": "default", "uid": format!("uid-of-{}", self.name),
                "creationTimestamp": "2020-01-01T00:00:00Z",
                "labels": labels,
                "annotations": {"kubernetes.io/service-account.name": "bot"},
            },
            "data": {"token": "QQ=="},
        })
    }
}

/// The account `bot` with its tokens, whose use is tracked for years.
fn old_cluster(tokens: &[Token]) -> Vec<Value> {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"}, "data": {"since": "2020-01-01"},
    });
    let listed: Vec<Value> = tokens
        .iter()
        .map(|token| json!({"name": token.name}))
        .collect();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "bot", "namespace": "default", "uid": "uid-of-bot"},
        "secrets": listed,
    });
    let secrets = tokens.iter().map(|token| token.secret());
    [tracking, account].into_iter().chain(secrets).collect()
}

/// A pod that mounts the Secret.
fn pod(secret: &str) -> Value {
    let volume = json!({"name": "token", "secret": {"secretName": secret}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web"},
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "volumes": [volume]},
    })
}

fn is_invalid(name: &'static str) -> Step {
    Step::until("invalid", move |state: &State| {
        let secret = state.get("secrets", &format!("default/{name}"));
        secret.is_some_and(|secret| {
            secret["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"].is_string()
        })
    })
}
