//! Scenarios of namespaces that are deleted with all their content.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::{deployment, garbagecollector, namespace, replicaset};
use steersman_perturb::rules;
use steersman_perturb::{AllowedError, EVENT_SENDER, Scenario, Step};

use crate::objects::{
    BLANK, config_map, count, has_condition, is_gone, path_in, template, until_caches_are_current,
};

/// Upstream also logs this error while a namespace still has content. A process retries a namespace
/// after 5 ms, 10 ms and so on, 14 times in 40 s, and a plan starts at most three processes.
const REMAINS: AllowedError = AllowedError::of(Category::Named(namespace::CONTENT_REMAINS), 48)
    .from(namespace::DESCRIPTOR.name);
const BASE: Scenario = Scenario {
    controller: "namespace",
    controllers: &[namespace::DESCRIPTOR],
    errors: &[REMAINS],
    rules: &[rules::EMPTY_NAMESPACE],
    ..BLANK
};

/// An Event may arrive after its namespace is gone. Upstream's `recordEvent` logs that as an error,
/// and ignores only a namespace that is still terminating. The scenario has a few Events about
/// refused creations.
const LATE_EVENT: AllowedError = AllowedError::of(Category::NotFound, 8).from(EVENT_SENDER);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "empty",
            steps: || {
                vec![
                    shop("shop"),
                    delete_namespace("shop"),
                    is_gone("namespaces", "shop"),
                ]
            },
            ..BASE
        },
        Scenario {
            name: "content",
            steps: content,
            ..BASE
        },
        Scenario {
            name: "finalizers",
            steps: finalizers,
            ..BASE
        },
        Scenario {
            name: "held",
            steps: held,
            ..BASE
        },
        Scenario {
            name: "pods",
            nodes: 1,
            steps: pods,
            ..BASE
        },
        Scenario {
            name: "two",
            steps: two,
            ..BASE
        },
        Scenario {
            name: "again",
            steps: again,
            ..BASE
        },
        Scenario {
            name: "workload",
            controllers: &[
                namespace::DESCRIPTOR,
                deployment::DESCRIPTOR,
                replicaset::DESCRIPTOR,
                garbagecollector::DESCRIPTOR,
            ],
            nodes: 1,
            errors: &[REMAINS, LATE_EVENT],
            steps: workload,
            ..BASE
        },
    ]
}

fn shop(name: &str) -> Step {
    Step::Create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

fn delete_namespace(name: &str) -> Step {
    Step::Delete(format!("/api/v1/namespaces/{name}"), json!({}))
}

fn inside(namespace: &str, mut object: Value) -> Step {
    object["metadata"]["namespace"] = json!(namespace);
    Step::Create(object)
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

/// The content of the namespace is deleted; an object of another namespace stays.
fn content() -> Vec<Step> {
    let mut steps = vec![shop("shop")];
    steps.extend(["a", "b", "c"].map(|name| inside("shop", config_map(name))));
    steps.extend(["a", "b"].map(|name| inside("shop", secret(name))));
    steps.extend([
        inside("default", config_map("kept")),
        delete_namespace("shop"),
        is_gone("namespaces", "shop"),
    ]);
    steps
}

/// A finalizer of an object blocks the namespace, and the status reports it.
fn finalizers() -> Vec<Step> {
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let blocked = Step::until("finalizers reported", |state| {
        let shop = state.get("namespaces", "shop");
        shop.is_some_and(|shop| has_condition(shop, "NamespaceFinalizersRemaining", "True", ""))
    });
    let release = Step::Patch(
        path_in("shop", "configmaps", "held"),
        json!({"metadata": {"finalizers": null}}),
    );
    let begin = vec![
        shop("shop"),
        inside("shop", held),
        inside("shop", secret("a")),
        delete_namespace("shop"),
        blocked,
    ];
    begin
        .into_iter()
        .chain([release, is_gone("namespaces", "shop")])
        .collect()
}

/// The namespace has a finalizer of another controller. Its content is deleted, and the namespace
/// stays until that finalizer is removed.
fn held() -> Vec<Step> {
    let finalizers =
        |names: &[&str]| json!({"metadata": {"name": "shop"}, "spec": {"finalizers": names}});
    let hold = "example.com/hold";
    let mut shop = finalizers(&["kubernetes", hold]);
    shop["apiVersion"] = json!("v1");
    shop["kind"] = json!("Namespace");
    let emptied = Step::until("emptied", move |state| {
        let shop = state.get("namespaces", "shop");
        shop.is_some_and(|shop| shop["spec"]["finalizers"] == json!([hold]))
            && state.get("configmaps", "shop/a").is_none()
    });
    let release = Step::Replace(
        "/api/v1/namespaces/shop/finalize".to_owned(),
        finalizers(&[]),
    );
    let begin = vec![
        Step::Create(shop),
        inside("shop", config_map("a")),
        inside("shop", secret("b")),
        delete_namespace("shop"),
        emptied,
    ];
    begin
        .into_iter()
        .chain([
            until_caches_are_current(),
            release,
            is_gone("namespaces", "shop"),
        ])
        .collect()
}

/// Running pods end with their grace period before the namespace is removed.
fn pods() -> Vec<Step> {
    let pod = |name: &str| {
        let mut pod = template("web", "web:1");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        inside("shop", pod)
    };
    let running = Step::until("running", |state| {
        state.all("pods").filter(|pod| rules::is_ready(pod)).count() == 2
    });
    vec![
        shop("shop"),
        pod("a"),
        pod("b"),
        running,
        delete_namespace("shop"),
        is_gone("namespaces", "shop"),
    ]
}

/// Two namespaces are deleted at the same time.
fn two() -> Vec<Step> {
    let mut steps = vec![shop("one"), shop("two")];
    steps.extend(["one", "two"].map(|name| inside(name, config_map("a"))));
    steps.extend([
        delete_namespace("one"),
        delete_namespace("two"),
        is_gone("namespaces", "one"),
        is_gone("namespaces", "two"),
    ]);
    steps
}

/// A second namespace gets the name of a deleted one, and its content stays.
fn again() -> Vec<Step> {
    let round = || {
        vec![
            shop("shop"),
            inside("shop", config_map("a")),
            inside("shop", secret("b")),
        ]
    };
    let mut steps = round();
    steps.extend([delete_namespace("shop"), is_gone("namespaces", "shop")]);
    steps.extend(round());
    steps.push(Step::Sleep(Duration::from_secs(30)));
    steps
}

/// The namespace of a Deployment is deleted while controllers still try to replace its pods.
fn workload() -> Vec<Step> {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    });
    let ready = Step::until("two pods ready", |state| {
        state.all("pods").filter(|pod| rules::is_ready(pod)).count() == 2
    });
    let empty = Step::until("empty", |state| {
        count(state, "pods") + count(state, "replicasets") == 0
    });
    vec![
        shop("shop"),
        inside("shop", web),
        ready,
        delete_namespace("shop"),
        is_gone("namespaces", "shop"),
        empty,
    ]
}
