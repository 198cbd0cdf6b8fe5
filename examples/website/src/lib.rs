//! An operator: it creates a ConfigMap with the page, and a Deployment that serves it, for each
//! Website.
//!
//! It uses `kube` only. Its tests run it on Steersman's development cluster.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A web page that a number of servers serve.
#[derive(Debug, Clone, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.dev",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
pub struct WebsiteSpec {
    /// The content of the page.
    pub page: String,
    /// The number of servers.
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// The status of a Website.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// Number of ready servers with the current page.
    pub ready_replicas: i32,
}

/// Reconciles all Websites; never returns.
pub async fn run(client: Client) {
    Controller::new(
        Api::<Website>::all(client.clone()),
        watcher::Config::default(),
    )
    .owns(
        Api::<Deployment>::all(client.clone()),
        watcher::Config::default(),
    )
    .run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(5)),
        Arc::new(client),
    )
    .for_each(async |result| {
        if let Err(error) = result {
            eprintln!("{error}; trying again");
        }
    })
    .await;
}

/// Applies both objects, and copies the Deployment's progress to the status of the Website.
async fn reconcile(website: Arc<Website>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let (name, namespace) = (website.name_any(), website.namespace().unwrap_or_default());
    let client = Client::clone(&client);
    let (maps, deployments): (Api<ConfigMap>, Api<Deployment>) = (
        Api::namespaced(client.clone(), &namespace),
        Api::namespaced(client.clone(), &namespace),
    );
    let ours = PatchParams::apply("website-operator").force();
    maps.patch(&name, &ours, &Patch::Apply(page(&website)))
        .await?;
    let deployment = deployments
        .patch(&name, &ours, &Patch::Apply(servers(&website)))
        .await?;

    let status = deployment.status.unwrap_or_default();
    let current = status.observed_generation == deployment.metadata.generation;
    let ready = if current {
        status
            .updated_replicas
            .min(status.ready_replicas)
            .unwrap_or(0)
    } else {
        0
    };
    let status = json!({"apiVersion": "example.dev/v1", "kind": "Website", "status": WebsiteStatus { ready_replicas: ready }});
    Api::<Website>::namespaced(client, &namespace)
        .patch_status(&name, &ours, &Patch::Apply(status))
        .await?;
    Ok(Action::await_change())
}

/// The ConfigMap with the page.
fn page(website: &Website) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(website),
        "data": {"index.html": website.spec.page},
    })
}

/// The Deployment that serves the page.
fn servers(website: &Website) -> Value {
    let mut hasher = DefaultHasher::new();
    website.spec.page.hash(&mut hasher);
    let labels = json!({"example.dev/website": website.name_any()});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(website),
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                // The hash of the page changes the template, so a new page replaces the servers.
                "metadata": {"labels": labels, "annotations": {"example.dev/page": format!("{:x}", hasher.finish())}},
                "spec": {
                    "containers": [{"name": "server", "image": "nginx", "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}]}],
                    "volumes": [{"name": "page", "configMap": {"name": website.name_any()}}],
                },
            },
        },
    })
}

/// Metadata of a dependent: the Website's name, and a controller reference, so that the garbage
/// collector deletes it.
fn metadata(website: &Website) -> Value {
    json!({"name": website.name_any(), "ownerReferences": [website.controller_owner_ref(&())]})
}
