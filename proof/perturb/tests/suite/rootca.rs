//! Scenarios of the root CA certificate publisher.

use serde_json::{Value, json};
use steersman_controllers::rootcacertpublisher;
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, patch, path_in, until_caches_are_current};

const NAME: &str = "kube-root-ca.crt";

const BASE: Scenario = Scenario {
    controller: "root-ca-cert-publisher",
    controllers: &[rootcacertpublisher::DESCRIPTOR],
    configure: |mut context| {
        context.credentials.root_ca = (*b"authority").into();
        context
    },
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "namespaces",
            steps: namespaces,
            ..BASE
        },
        Scenario {
            name: "deleted",
            steps: deleted,
            ..BASE
        },
        Scenario {
            name: "changed",
            steps: changed,
            ..BASE
        },
        Scenario {
            name: "new",
            steps: new,
            ..BASE
        },
        Scenario {
            name: "foreign",
            steps: foreign,
            ..BASE
        },
        Scenario {
            name: "other",
            steps: other,
            ..BASE
        },
    ]
}

/// Waits until these namespaces have their ConfigMap.
fn published(namespaces: &'static [&'static str]) -> Step {
    let is_published = |map: &Value| {
        let description = &map["metadata"]["annotations"]["kubernetes.io/description"];
        map["data"] == json!({"ca.crt": "authority"}) && description.is_string()
    };
    Step::until("published", move |state: &State| {
        let mut keys = namespaces.iter().map(|name| format!("{name}/{NAME}"));
        keys.all(|key| state.get("configmaps", &key).is_some_and(is_published))
    })
}

fn namespace(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

fn config_map(name: &str) -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"},
    }))
}

fn namespaces() -> Vec<Step> {
    vec![
        namespace("a"),
        namespace("b"),
        published(&["default", "kube-system", "a", "b"]),
        namespace("c"),
        published(&["c"]),
    ]
}

fn deleted() -> Vec<Step> {
    vec![
        published(&["default", "kube-public"]),
        until_caches_are_current(),
        delete("configmaps", NAME, json!({})),
        published(&["default"]),
    ]
}

fn changed() -> Vec<Step> {
    vec![
        published(&["default"]),
        patch(
            "configmaps",
            NAME,
            json!({"data": {"ca.crt": "another", "more": "x"}}),
        ),
        published(&["default"]),
        until_caches_are_current(),
        patch(
            "configmaps",
            NAME,
            json!({"metadata": {"annotations": null, "labels": {"a": "b"}}}),
        ),
        published(&["default"]),
    ]
}

/// A client changes the ConfigMap of a new namespace as soon as it exists, so the first state may
/// reach no cache.
fn new() -> Vec<Step> {
    vec![
        published(&["default"]),
        namespace("fresh"),
        Step::until("created", |state: &State| {
            state.get("configmaps", "fresh/kube-root-ca.crt").is_some()
        }),
        Step::Patch(
            path_in("fresh", "configmaps", NAME),
            json!({"data": {"ca.crt": "another"}}),
        ),
        published(&["fresh"]),
    ]
}

/// A ConfigMap of that name is there before the publisher.
fn foreign() -> Vec<Step> {
    vec![
        config_map(NAME),
        published(&["default"]),
        until_caches_are_current(),
    ]
}

/// Other ConfigMaps stay as they are.
fn other() -> Vec<Step> {
    vec![
        published(&["default"]),
        config_map("other"),
        patch("configmaps", "other", json!({"data": {"ca.crt": "x"}})),
        delete("configmaps", "other", json!({})),
        config_map("another"),
        until_caches_are_current(),
    ]
}
