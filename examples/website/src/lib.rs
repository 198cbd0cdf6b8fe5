//! An operator: it creates a ConfigMap with the page, and a Deployment that serves it, for each
//! Website.
//!
//! It uses `kube` only. Its tests run it on Steersman's development cluster.

pub mod manifests;

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

use self::manifests::{FIELD_MANAGER, Page};

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
    let name = website.name_any();
    let namespace = website.namespace().unwrap_or_default();
    let page = Page {
        name: &name,
        content: &website.spec.page,
        servers: website.spec.replicas,
        owner: website.controller_owner_ref(&()),
    };
    let ours = PatchParams::apply(FIELD_MANAGER).force();
    let client = Client::clone(&client);
    Api::<ConfigMap>::namespaced(client.clone(), &namespace)
        .patch(&name, &ours, &Patch::Apply(page.config_map()))
        .await?;
    let deployment = Api::<Deployment>::namespaced(client.clone(), &namespace)
        .patch(&name, &ours, &Patch::Apply(page.deployment()))
        .await?;

    let status = deployment.status.unwrap_or_default();
    let ready = if status.observed_generation == deployment.metadata.generation {
        status.updated_replicas.min(status.ready_replicas)
    } else {
        None
    };
    let status = manifests::status(ready.unwrap_or(0));
    Api::<Website>::namespaced(client, &namespace)
        .patch_status(&name, &ours, &Patch::Apply(status))
        .await?;
    Ok(Action::await_change())
}
