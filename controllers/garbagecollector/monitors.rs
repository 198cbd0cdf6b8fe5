//! Which types are watched: all that can be deleted, as discovery shows them coming and going.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use prometheus::IntCounter;
use steersman_runtime::client::ApiClient;
use steersman_runtime::discovery::{Discovery, GroupVersion, discover};
use steersman_runtime::informer::{InformerFactory, MetadataInformer};
use steersman_runtime::resource::ResourceType;
use steersman_runtime::tasks::{CancellationToken, Tasks};

use super::handlers;
use super::sync::Collector;

/// Between the end of one look at discovery and the next.
const PERIOD: Duration = Duration::from_secs(30);

/// How long new monitors may take before that is an error worth telling.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Group and plural of types that own nothing and are owned in great numbers.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The informers that feed the graph.
pub(super) struct Monitors {
    pub(super) informers: InformerFactory,
    pub(super) discovery: ApiClient,
    pub(super) collector: Arc<Collector>,
    pub(super) errors: IntCounter,
    watched: HashMap<ResourceType, MetadataInformer>,
    /// Those whose handler is in place, now or from before they were dropped.
    heard: HashSet<ResourceType>,
    tasks: Tasks,
}

impl Monitors {
    pub(super) fn new(informers: InformerFactory, discovery: ApiClient, collector: Arc<Collector>, errors: IntCounter) -> Self {
        let (watched, heard, tasks) = (HashMap::new(), HashSet::new(), Tasks::default());
        Self { informers, discovery, collector, errors, watched, heard, tasks }
    }

    /// Follows discovery every 30 seconds until `stop`.
    pub(super) async fn follow(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            self.sync(&stop).await;
        }
    }

    /// Starts and stops monitors as discovery has it, and waits for new ones for a while.
    pub(super) async fn sync(&mut self, stop: &CancellationToken) {
        let discovery = match discover(&self.discovery).await {
            Ok(discovery) => discovery,
            Err(error) => {
                tracing::warn!(%error, "failed to discover resources");
                Discovery::default()
            }
        };
        let mut wanted = deletable(&discovery);
        if wanted.is_empty() {
            tracing::info!("no resources reported by discovery, skipping garbage collector sync");
            return self.errors.inc();
        }
        if !discovery.failures.is_empty() {
            let groups = discovery.failure().unwrap_or_default();
            tracing::info!(groups, "failed to discover some groups");
            wanted.extend(self.kept_despite(&discovery));
        }
        self.collector.kinds.update(&discovery);
        let added: Vec<ResourceType> = wanted.iter().filter(|r| !self.watched.contains_key(*r)).cloned().collect();
        let removed: Vec<ResourceType> = self.watched.keys().filter(|r| !wanted.contains(*r)).cloned().collect();
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let shown = |resources: &[ResourceType]| resources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        tracing::info!(added = shown(&added), removed = shown(&removed), "syncing garbage collector with updated resources");
        removed.iter().for_each(|resource| self.stop_one(resource));
        added.into_iter().for_each(|resource| self.start_one(resource, stop));
        self.wait(stop).await;
    }

    /// Types of groups that could not be listed and were watched well before.
    fn kept_despite(&self, discovery: &Discovery) -> Vec<ResourceType> {
        let failed = |resource: &ResourceType| {
            let of = GroupVersion { group: resource.group.to_string(), version: resource.version.to_string() };
            discovery.failures.contains_key(&of)
        };
        let kept = self.watched.iter().filter(|(resource, informer)| failed(resource) && informer.is_synced());
        kept.map(|(resource, _)| resource.clone()).collect()
    }

    fn start_one(&mut self, resource: ResourceType, stop: &CancellationToken) {
        let informer = self.informers.metadata(&resource);
        if self.heard.insert(resource.clone()) {
            informer.add_handler(handlers::handler(Arc::clone(&self.collector), &resource));
        }
        informer.start(&self.tasks, stop);
        self.watched.insert(resource, informer);
    }

    /// What the graph knows of the type stays, as nobody has said that the objects are gone.
    fn stop_one(&mut self, resource: &ResourceType) {
        if let Some(informer) = self.watched.remove(resource) {
            informer.stop();
        }
    }

    async fn wait(&self, stop: &CancellationToken) {
        let all = join_all(self.watched.values().map(MetadataInformer::synced));
        tokio::select! {
            () = stop.cancelled() => {}
            waited = tokio::time::timeout(SYNC_LIMIT, all) => {
                if waited.is_ok() {
                    return tracing::info!("synced garbage collector");
                }
                let late: Vec<String> =
                    self.watched.iter().filter(|(_, informer)| !informer.is_synced()).map(|(r, _)| r.to_string()).collect();
                tracing::error!(resources = late.join(", "), "timed out waiting for dependency graph builder sync during GC sync");
                self.errors.inc();
            }
        }
    }
}

/// The types whose objects can be followed and deleted, in the version each group prefers.
fn deletable(discovery: &Discovery) -> HashSet<ResourceType> {
    let is_ignored = |r: &ResourceType| IGNORED.iter().any(|(group, plural)| r.group == *group && r.plural == *plural);
    let can_be = |verbs: &[&str], served: &steersman_runtime::discovery::ServedResource| verbs.iter().all(|v| served.allows(v));
    let preferred = discovery.preferred().into_iter().filter(|served| can_be(&["delete", "list", "watch"], served));
    preferred.map(|served| served.resource.clone()).filter(|resource| !is_ignored(resource)).collect()
}
