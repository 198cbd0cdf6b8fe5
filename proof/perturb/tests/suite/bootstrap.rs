//! Scenarios of the bootstrap signer and of the token cleaner. Runs begin at 22:13:20.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{bootstrapsigner, tokencleaner};
use steersman_perturb::rules::{NOT_BEFORE_EXPIRATION, SIGNED};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, is_gone, path_in, until_caches_are_current};

const SIGNER: Scenario = Scenario {
    controller: "bootstrapsigner",
    controllers: &[bootstrapsigner::DESCRIPTOR],
    rules: &[SIGNED],
    ..BLANK
};

const CLEANER: Scenario = Scenario {
    controller: "tokencleaner",
    controllers: &[tokencleaner::DESCRIPTOR],
    rules: &[NOT_BEFORE_EXPIRATION],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "signed",
            steps: signed,
            ..SIGNER
        },
        Scenario {
            name: "removed",
            steps: removed,
            ..SIGNER
        },
        Scenario {
            name: "moved",
            steps: moved,
            ..SIGNER
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..SIGNER
        },
        Scenario {
            name: "expired",
            controllers: &[bootstrapsigner::DESCRIPTOR, tokencleaner::DESCRIPTOR],
            rules: &[SIGNED, NOT_BEFORE_EXPIRATION],
            steps: signature_expires,
            ..SIGNER
        },
        Scenario {
            name: "expired",
            steps: expired,
            ..CLEANER
        },
        Scenario {
            name: "extended",
            steps: extended,
            ..CLEANER
        },
        Scenario {
            name: "shortened",
            steps: shortened,
            ..CLEANER
        },
        Scenario {
            name: "recreated",
            steps: token_recreated,
            ..CLEANER
        },
    ]
}

/// A token that signs; without an expiration, it is valid for ever.
fn token(id: &str, expiration: Option<&str>) -> Step {
    let mut data = json!({
        "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
    });
    if let Some(expiration) = expiration {
        data["expiration"] = json!(expiration);
    }
    let metadata = json!({"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"});
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": metadata, "stringData": data,
    }))
}

fn token_path(id: &str) -> String {
    path_in("kube-system", "secrets", &format!("bootstrap-token-{id}"))
}

fn delete_token(id: &str) -> Step {
    Step::Delete(token_path(id), json!({}))
}

fn expires(id: &str, expiration: &str) -> Step {
    Step::Patch(
        token_path(id),
        json!({"stringData": {"expiration": expiration}}),
    )
}

fn info(kubeconfig: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"kubeconfig": kubeconfig},
        "metadata": {"name": "cluster-info", "namespace": "kube-public"},
    }))
}

fn info_path() -> String {
    path_in("kube-public", "configmaps", "cluster-info")
}

fn signed_by(ids: &'static [&'static str]) -> Step {
    Step::until("signed", move |state: &State| {
        let info = state.get("configmaps", "kube-public/cluster-info");
        let data = info.and_then(|info| info["data"].as_object());
        let keys = data.into_iter().flat_map(|data| data.keys());
        keys.filter_map(|key| key.strip_prefix("jws-kubeconfig-"))
            .eq(ids.iter().copied())
    })
}

fn signed() -> Vec<Step> {
    vec![
        token("abcdef", None),
        info("payload"),
        signed_by(&["abcdef"]),
        token("ghijkl", None),
        token("mnopqr", None),
        signed_by(&["abcdef", "ghijkl", "mnopqr"]),
    ]
}

fn removed() -> Vec<Step> {
    let mut steps = signed();
    steps.extend([
        delete_token("ghijkl"),
        signed_by(&["abcdef", "mnopqr"]),
        delete_token("abcdef"),
        delete_token("mnopqr"),
        signed_by(&[]),
    ]);
    steps
}

/// A user changes the kubeconfig, and adds and overwrites signatures.
fn moved() -> Vec<Step> {
    let data = |data: Value| Step::Patch(info_path(), json!({ "data": data }));
    let mut steps = signed();
    steps.extend([
        data(json!({"kubeconfig": "moved"})),
        data(json!({"jws-kubeconfig-abcdef": "x", "jws-kubeconfig-zzzzzz": "y"})),
        until_caches_are_current(),
        signed_by(&["abcdef", "ghijkl", "mnopqr"]),
    ]);
    steps
}

fn recreated() -> Vec<Step> {
    let mut steps = signed();
    steps.extend([
        Step::Delete(info_path(), json!({})),
        delete_token("ghijkl"),
        info("again"),
        signed_by(&["abcdef", "mnopqr"]),
    ]);
    steps
}

fn signature_expires() -> Vec<Step> {
    vec![
        token("abcdef", Some("2023-11-14T22:20:00Z")),
        token("ghijkl", None),
        info("payload"),
        signed_by(&["abcdef", "ghijkl"]),
        Step::Sleep(Duration::from_secs(400)),
        signed_by(&["ghijkl"]),
    ]
}

fn expired() -> Vec<Step> {
    vec![
        token("abcdef", Some("2023-11-14T22:13:19Z")),
        token("ghijkl", Some("2023-11-14T22:15:00Z")),
        token("mnopqr", None),
        is_gone("secrets", "kube-system/bootstrap-token-abcdef"),
        is_gone("secrets", "kube-system/bootstrap-token-ghijkl"),
    ]
}

fn extended() -> Vec<Step> {
    vec![
        token("abcdef", Some("2023-11-14T22:15:00Z")),
        until_caches_are_current(),
        expires("abcdef", "2023-11-14T23:13:20Z"),
        Step::Sleep(Duration::from_secs(600)),
    ]
}

fn shortened() -> Vec<Step> {
    vec![
        token("abcdef", Some("2023-11-14T23:13:20Z")),
        until_caches_are_current(),
        expires("abcdef", "2023-11-14T22:15:00Z"),
        is_gone("secrets", "kube-system/bootstrap-token-abcdef"),
    ]
}

/// A new token of the same name lives longer.
fn token_recreated() -> Vec<Step> {
    vec![
        token("abcdef", Some("2023-11-14T22:15:00Z")),
        until_caches_are_current(),
        delete_token("abcdef"),
        token("abcdef", Some("2023-11-14T23:13:20Z")),
        Step::Sleep(Duration::from_secs(600)),
    ]
}
