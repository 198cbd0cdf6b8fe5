//! An operator: each Website becomes a ConfigMap with its page and a Deployment that serves it. It
//! knows nothing of Steersman; its tests do.

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

/// A page on some servers.
#[derive(Debug, Clone, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.dev",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
pub struct WebsiteSpec {
    /// What visitors read.
    pub page: String,
    /// How many servers there are.
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// What has become of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// Servers that serve the current page.
    pub ready_replicas: i32,
}

/// Works for all Websites, for ever.
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

fn page(website: &Website) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(website),
        "data": {"index.html": website.spec.page},
    })
}

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
                // Another page is another template, which replaces the servers.
                "metadata": {"labels": labels, "annotations": {"example.dev/page": format!("{:x}", hasher.finish())}},
                "spec": {
                    "containers": [{"name": "server", "image": "nginx", "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}]}],
                    "volumes": [{"name": "page", "configMap": {"name": website.name_any()}}],
                },
            },
        },
    })
}

/// Objects of a Website have its name, and end with it.
fn metadata(website: &Website) -> Value {
    json!({"name": website.name_any(), "ownerReferences": [website.controller_owner_ref(&())]})
}
