//! Publishes the certificates of the API server's authority as a ClusterTrustBundle of the signer
//! `kubernetes.io/kube-apiserver-serving`, and removes all others of this signer.
//!
//! discovery of the version -> own informer of the signer's bundles -> queue with one key -> sync ->
//! POST or PUT, DELETEs of others
//!
//! The name of the bundle has a hash of the certificates. After a change of the authority, a new
//! bundle is created before the old one is removed.
//!
//! Upstream: `pkg/controller/certificates/clustertrustbundlepublisher`. Differences:
//!
//! - A sync waits until the cache shows its last write.
//! - Deletions carry the UID of the bundle.
//! - Without the API, the controller runs and does nothing; upstream drops it and its health check.
//! - Failed discovery is repeated; upstream ends the manager.

mod sync;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use steersman_client::{ApiClient, ApiError, ApiPath, Category};
use steersman_helpers::root_ca;
use steersman_objects::{AlphaClusterTrustBundle, ClusterTrustBundle, ObjectKey};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, InitError, switched_off,
};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::{CancellationToken, Tasks};

use self::sync::{Publisher, TrustBundle};
use crate::publisher_metrics::{Families, PublisherMetrics};

/// The publisher of the API server's trust bundle.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Publishes the CA certificates of the API server as a ClusterTrustBundle",
    identity: "kube-apiserver-serving-clustertrustbundle-publisher",
    reads: &[],
    rules: &[
        Rule::new(
            &[GROUP],
            &["clustertrustbundles"],
            &["create", "delete", "list", "update", "watch"],
        ),
        Rule::new(&[GROUP], &["signers"], &["attest"]).named(&[SIGNER]),
    ],
    init,
};

const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";

/// API group of the bundles.
const GROUP: &str = "certificates.k8s.io";

/// The signer of the serving certificates of API servers.
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// Pause after failed discovery.
const RETRY: Duration = Duration::from_secs(5);

/// Number of workers. There is one key.
const WORKERS: usize = 1;

/// Time limit for the informer to stop.
const SHUTDOWN: Duration = Duration::from_secs(5);

const FAMILIES: Families = Families {
    syncs: (
        "clustertrustbundle_publisher_sync_total",
        "[ALPHA] Number of syncs that occurred in cluster trust bundle publisher.",
    ),
    durations: (
        "clustertrustbundle_publisher_sync_duration_seconds",
        "[ALPHA] The time it took to sync a cluster trust bundle.",
    ),
};

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let failed = |source| InitError {
        controller: NAME,
        source,
    };
    let bundle = root_ca::bundle(ctx).map_err(|error| failed(error.into()))?;
    if bundle.is_empty() {
        return Ok(switched_off());
    }
    let metrics = PublisherMetrics::register(&ctx.registry, &FAMILIES);
    Ok(Box::new(ServingTrustBundle {
        client: ctx.client(DESCRIPTOR.identity),
        ctx: ctx.clone(),
        name: bundle_name(&bundle),
        bundle: String::from_utf8_lossy(&bundle).into(),
        metrics: metrics.map_err(|error| failed(error.into()))?,
    }))
}

/// The name of the bundle with these certificates. Upstream: `constructBundleName`.
fn bundle_name(bundle: &[u8]) -> String {
    let hash = digest(&SHA256, bundle);
    let hex: String = hash.as_ref()[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}:{hex}", SIGNER.replace('/', ":"))
}

/// The controller before it knows the served version.
struct ServingTrustBundle {
    ctx: ControllerContext,
    client: ApiClient,
    name: String,
    /// The certificates, in PEM.
    bundle: Arc<str>,
    metrics: PublisherMetrics,
}

impl Controller for ServingTrustBundle {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let served = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                served = answered_version(&self.client) => served,
            };
            match served {
                Some(Version::Beta) => self.publish::<ClusterTrustBundle>(stop).await,
                Some(Version::Alpha) => self.publish::<AlphaClusterTrustBundle>(stop).await,
                None => {
                    tracing::info!(
                        "no known scheme version was found for clustertrustbundles, cannot start {NAME}"
                    );
                    stop.cancelled().await;
                }
            }
        })
    }
}

impl ServingTrustBundle {
    /// Publishes bundles in the version of `T` until `stop`.
    async fn publish<T: TrustBundle>(self, stop: CancellationToken) {
        let mut ctx = self.ctx;
        let informers = InformerFactory::with_features(
            self.client.clone(),
            Duration::ZERO,
            &Registry::new(),
            &ctx.features,
        );
        ctx.informers = informers.expect("the registry is new");
        let mut keyed = Keyed::<T>::new(&ctx, NAME, "ca_cert_publisher_cluster_trust_bundles");
        let bundles = keyed.objects().clone();
        let key = ObjectKey::new("", &self.name);
        let queue = keyed.queue();
        let again = key.clone();
        bundles.add_handler(move |_| queue.add(again.clone()));
        let publisher = Publisher {
            client: self.client,
            bundles: bundles.store(),
            cache: keyed.tracked(&bundles),
            bundle: self.bundle,
            metrics: self.metrics,
        };
        let tasks = Tasks::default();
        ctx.informers.start(&tasks, &stop);
        // The factory does not wait for a type that API servers may lack. This one has it.
        tokio::select! {
            () = stop.cancelled() => {}
            () = bundles.wait_synced() => {
                keyed.queue().add(key);
                keyed.boxed(WORKERS, publisher).run(stop).await;
            }
        }
        tasks.join(SHUTDOWN).await;
    }
}

/// A version of the bundles, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Beta,
    Alpha,
}

/// As [`served_version`], which is repeated until the API server answers.
async fn answered_version(client: &ApiClient) -> Option<Version> {
    loop {
        match served_version(client).await {
            Ok(served) => return served,
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, "discovery failed for ClusterTrustBundle: {error}");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// The best version in which the API server has ClusterTrustBundles.
async fn served_version(client: &ApiClient) -> Result<Option<Version>, ApiError> {
    for (version, name) in [(Version::Beta, "v1beta1"), (Version::Alpha, "v1alpha1")] {
        match client.get_path(ApiPath::of_version(GROUP, name)?).await {
            Ok(answer) if has_bundles(&answer) => return Ok(Some(version)),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether the APIResourceList `answer` lists ClusterTrustBundles.
fn has_bundles(answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Resources {
        resources: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let list: Result<Resources, _> = serde_json::from_slice(answer);
    list.is_ok_and(|list| {
        list.resources
            .iter()
            .any(|one| one.name == "clustertrustbundles")
    })
}
