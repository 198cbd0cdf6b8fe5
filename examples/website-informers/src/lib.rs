//! The operator of `examples/website` on Steersman's informers and queue.
//!
//! It is a controller that a manager of Steersman runs: flags, election, metrics and health checks come
//! with it. docs/adding-a-controller.md compares both forms.

use std::sync::Arc;

use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Deployment, Object, ObjectKey, view};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::owner::{ControllerReference, owner_of};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;
use steersman_values::resource::{CONFIG_MAPS, ResourceType};
use website_operator::manifests::{self, FIELD_MANAGER, Page};

/// `websites.example.dev`.
pub static WEBSITES: ResourceType =
    ResourceType::new("example.dev", "v1", "Website", "websites", true);

view! {
    /// A web page that a number of servers serve.
    pub struct Website: WEBSITES {
        /// `spec`.
        pub spec: WebsiteSpec,
    }

    /// `spec` of a Website.
    pub struct WebsiteSpec {
        /// The content of the page.
        pub page: String,
        /// The number of servers.
        pub replicas: i32,
    }
}

/// The operator.
pub const CONTROLLER: Descriptor = Descriptor {
    name: "website-controller",
    aliases: &["website"],
    enabled_by_default: true,
    summary: "Serves the page of each Website",
    identity: "website-controller",
    reads: &[Read::of::<Website>(), Read::of::<Deployment>()],
    rules: &[
        Rule::new(&[""], &["configmaps"], &["create", "patch"]),
        Rule::new(&["apps"], &["deployments"], &["create", "patch"]),
        Rule::new(&["example.dev"], &["websites/status"], &["patch"]),
    ],
    init,
};

fn init(context: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<Website>::new(context, CONTROLLER.name, "website");
    let queue = keyed.queue();
    keyed
        .objects()
        .add_handler(move |change| queue.add(change.object().key()));
    let queue = keyed.queue();
    let websites = keyed.objects().store();
    context
        .informers
        .shared::<Deployment>()
        .add_handler(move |change| {
            if let Some(website) = owner_of(&websites, change.object().meta()) {
                queue.add(website.key());
            }
        });
    let client = context.client(CONTROLLER.identity);
    Ok(keyed.boxed(4, WebsiteController { client }))
}

struct WebsiteController {
    client: ApiClient,
}

/// A sync failed.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    Request(#[from] ApiError),
    #[error(transparent)]
    Answer(#[from] DecodeError),
}

impl ObjectSyncer for WebsiteController {
    type Object = Website;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, website: Arc<Website>) -> Result<Requeue, SyncError> {
        let page = Page {
            name: &key.name,
            content: &website.spec.page,
            servers: website.spec.replicas,
            owner: ControllerReference::to::<Website>(&website.meta),
        };
        let apply =
            async |target, manifest| self.client.apply(target, FIELD_MANAGER, &manifest).await;
        let deployment = Target::named::<Deployment>(&key.namespace, &key.name);
        let config_map = Target {
            resource: &CONFIG_MAPS,
            ..deployment
        };
        apply(config_map, page.config_map()).await?;
        let deployment = Deployment::decode(&apply(deployment, page.deployment()).await?)?;
        let status = &deployment.status;
        let is_current = status.observed_generation == deployment.meta.generation;
        let ready = status.updated_replicas.min(status.ready_replicas);
        let status = manifests::status(if is_current { ready } else { 0 });
        apply(Target::of::<Website>(&website.meta).status(), status).await?;
        Ok(Requeue::Never)
    }
}
