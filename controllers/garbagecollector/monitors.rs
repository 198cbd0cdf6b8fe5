//! Monitors: one metadata informer for each deletable type that discovery reports.
//!
//! discovery (every 30 s) -> types to watch -> informers started or stopped -> graph
//!
//! Types of an API group with failed discovery keep their informers, so an unavailable aggregated
//! API server does not empty the graph. Upstream: `Sync` and `GetDeletableResources` in
//! `garbagecollector.go`, and `syncMonitors` in `graph_builder.go`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::MutexGuard;
use prometheus::IntCounter;
use steersman_client::discovery::{Discovery, GroupVersion, discover};
use steersman_client::{ApiClient, Category};
use steersman_runtime::informer::{InformerFactory, MetadataInformer};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::resource::ResourceType;
use tokio::time::Instant;

use super::handlers;
use super::sync::Collector;

/// Time between the end of one discovery and the start of the next. Upstream's `Sync` has the same
/// period.
const PERIOD: Duration = Duration::from_secs(30);

/// Time for new monitors to sync. A longer time is logged and counted as an error. The workers do
/// not wait for it, except at the start.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Group and plural of ignored types, as in upstream's `DefaultIgnoredResources`. A cluster has
/// many Events, and they own no objects.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The informers that feed the graph.
pub(super) struct Monitors {
    /// Creates the metadata informers; other controllers share them.
    pub(super) informers: InformerFactory,
    /// Client for discovery, with its own rate limit.
    pub(super) discovery: ApiClient,
    /// Owns the graph that the handlers change.
    pub(super) collector: Arc<Collector>,
    /// Counter of failed syncs.
    pub(super) errors: IntCounter,
    /// Types with a registered handler. A stopped informer keeps its handler for the next start.
    with_handlers: HashSet<ResourceType>,
    tasks: Tasks,
}

impl Monitors {
    /// Monitors that watch no type yet.
    pub(super) fn new(
        informers: InformerFactory,
        discovery: ApiClient,
        collector: Arc<Collector>,
        errors: IntCounter,
    ) -> Self {
        let with_handlers = HashSet::new();
        let tasks = Tasks::default();
        Self {
            informers,
            discovery,
            collector,
            errors,
            with_handlers,
            tasks,
        }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<ResourceType, MetadataInformer>> {
        self.collector.watched.informers()
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

    /// Starts and stops monitors according to discovery. Waits up to [`SYNC_LIMIT`] until all are
    /// synced.
    ///
    /// A type that discovery no longer reports is stopped, except in groups that failed. Otherwise
    /// a broken aggregated API would be listed anew after each failure. Upstream: one round of
    /// `Sync`.
    pub(super) async fn sync(&mut self, stop: &CancellationToken) {
        let discovery = match discover(&self.discovery).await {
            Ok(discovery) => discovery,
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::warn!(category, %error, "failed to discover resources");
                Discovery::default()
            }
        };
        let mut wanted = deletable(&discovery);
        // An empty result comes from a failed discovery. All monitors must stay then.
        if wanted.is_empty() {
            tracing::warn!("no resources reported by discovery, skipping garbage collector sync");
            return self.errors.inc();
        }
        if let Some(groups) = discovery.failure() {
            tracing::info!(%groups, "failed to discover some groups");
            wanted.extend(self.synced_despite_failure(&discovery));
        }
        // Before new monitors start: their objects may have owners of new kinds.
        self.collector.kinds.update(&discovery);
        let watched: HashSet<ResourceType> = self.watched().keys().cloned().collect();
        let [added, removed]: [Vec<ResourceType>; 2] = [(&wanted, &watched), (&watched, &wanted)]
            .map(|(these, those)| these.difference(those).cloned().collect());
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let shown = |resources: &[ResourceType]| {
            resources
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        tracing::debug!(
            added = shown(&added),
            removed = shown(&removed),
            "syncing garbage collector with updated resources"
        );
        removed.iter().for_each(|resource| self.stop_one(resource));
        added
            .into_iter()
            .for_each(|resource| self.start_one(resource, stop));
        self.wait(stop).await;
    }

    /// The synced types of group versions that failed in discovery. Upstream's `Sync` keeps the
    /// same ones.
    fn synced_despite_failure(&self, discovery: &Discovery) -> Vec<ResourceType> {
        let failed = |resource: &ResourceType| {
            let of = GroupVersion {
                group: resource.group.to_string(),
                version: resource.version.to_string(),
            };
            discovery.failures.contains_key(&of)
        };
        let watched = self.watched();
        let kept = watched
            .iter()
            .filter(|(resource, informer)| failed(resource) && informer.is_synced());
        kept.map(|(resource, _)| resource.clone()).collect()
    }

    /// Starts one monitor. Handlers stay for good, so they are added once per type.
    fn start_one(&mut self, resource: ResourceType, stop: &CancellationToken) {
        let informer = self.informers.metadata(&resource);
        if self.with_handlers.insert(resource.clone()) {
            // The collector owns the informers, so a strong reference would be a cycle.
            let collector = Arc::downgrade(&self.collector);
            informer.add_handler(handlers::handler(collector.clone(), &resource));
            informer.on_rewind(move || {
                if let Some(collector) = collector.upgrade() {
                    collector.graph().absent.clear();
                    collector.watched.rewound();
                }
            });
        }
        informer.start(&self.tasks, stop);
        self.watched().insert(resource, informer);
    }

    /// Stops one monitor. The graph keeps the objects of the type, because their deletion is not
    /// proven.
    fn stop_one(&mut self, resource: &ResourceType) {
        let informer = self.watched().remove(resource);
        if let Some(informer) = informer {
            informer.stop();
        }
    }

    /// Waits for all monitors. A late one keeps trying, and only the error is counted here.
    async fn wait(&self, stop: &CancellationToken) {
        let watched = self.watched().clone();
        let began = Instant::now();
        let all = join_all(watched.values().map(MetadataInformer::synced));
        tokio::select! {
            () = stop.cancelled() => {}
            waited = tokio::time::timeout(SYNC_LIMIT, all) => {
                if waited.is_ok() {
                    let monitors = watched.len();
                    let duration = began.elapsed();
                    return tracing::info!(monitors, ?duration, "Garbage collector: all resource monitors have synced");
                }
                let late: Vec<String> =
                    watched.iter().filter(|(_, informer)| !informer.is_synced()).map(|(r, _)| r.to_string()).collect();
                tracing::error!(resources = late.join(", "), "timed out waiting for dependency graph builder sync during GC sync");
                self.errors.inc();
            }
        }
    }
}

/// The types with the verbs `delete`, `list` and `watch`, in the preferred version of each group.
/// Each object has one node, so one version of its type is watched. Upstream:
/// `GetDeletableResources`.
fn deletable(discovery: &Discovery) -> HashSet<ResourceType> {
    let is_ignored = |r: &ResourceType| {
        IGNORED
            .iter()
            .any(|(group, plural)| r.group == *group && r.plural == *plural)
    };
    let can_be = |verbs: &[&str], served: &steersman_client::discovery::ServedResource| {
        verbs.iter().all(|v| served.allows(v))
    };
    let preferred = discovery
        .preferred()
        .into_iter()
        .filter(|served| can_be(&["delete", "list", "watch"], served));
    preferred
        .map(|served| served.resource.clone())
        .filter(|resource| !is_ignored(resource))
        .collect()
}

#[cfg(test)]
mod tests {
    use steersman_client::discovery::{ServedGroup, ServedResource};
    use steersman_devcluster::faults::{EVERY_GROUP, Matcher};
    use steersman_devcluster::status::Status;

    use super::*;
    use crate::testing::world::World;

    fn served(group: &str, plural: &str, verbs: &[&str]) -> ServedResource {
        let group = group.to_owned().into();
        let plural = plural.to_owned();
        let kind = plural.clone().into();
        let plural = plural.into();
        let resource = ResourceType {
            group,
            version: "v1".into(),
            kind,
            plural,
            namespaced: true,
        };
        ServedResource {
            resource,
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        }
    }

    fn group(name: &str, resources: Vec<ServedResource>) -> ServedGroup {
        ServedGroup {
            name: name.to_owned(),
            preferred: "v1".to_owned(),
            versions: vec![("v1".to_owned(), resources)],
        }
    }

    /// Upstream: `TestGetDeletableResources`.
    #[test]
    fn get_deletable_resources() {
        const VERBS: &[&str] = &["delete", "list", "watch"];
        let apps = || {
            group(
                "apps",
                vec![
                    served("apps", "pods", VERBS),
                    served("apps", "services", &[]),
                ],
            )
        };
        let acme = || group("acme", vec![served("acme", "widgets", &["delete"])]);
        let events = || {
            group(
                "",
                vec![served("", "events", VERBS), served("", "nodes", VERBS)],
            )
        };
        let foo = GroupVersion {
            group: "foo".to_owned(),
            version: "v1".to_owned(),
        };
        // (name, groups, unparsable group versions, failed group version, expected)
        let cases: [(
            &str,
            Vec<ServedGroup>,
            &[&str],
            Option<GroupVersion>,
            &[&str],
        ); 4] = [
            (
                "no error",
                vec![apps(), acme()],
                &["foo//whatever"],
                None,
                &["pods.apps"],
            ),
            (
                "partial discovery failure, includes usable results",
                vec![apps()],
                &[],
                Some(foo),
                &["pods.apps"],
            ),
            ("discovery failure, no results", vec![], &[], None, &[]),
            ("ignored types", vec![events()], &[], None, &["nodes"]),
        ];
        for (name, groups, unparsable, failed, expected) in cases {
            let failures = failed
                .map(|version| (version, "discovery failure".to_owned()))
                .into_iter()
                .collect();
            let unparsable = unparsable.iter().map(|&text| text.to_owned()).collect();
            let found = deletable(&Discovery {
                groups,
                failures,
                unparsable,
            });
            assert_eq!(
                found.iter().map(ToString::to_string).collect::<Vec<_>>(),
                expected,
                "{name}"
            );
        }
    }

    struct Stage {
        world: World,
        monitors: Monitors,
        stop: CancellationToken,
    }

    impl Stage {
        async fn new() -> Self {
            let world = World::bare().await;
            let context = world.context();
            let collector = Arc::new(crate::garbagecollector::collector(&context));
            let errors = IntCounter::new("errors", "errors").unwrap();
            let monitors = Monitors::new(
                context.informers.clone(),
                context.client("discovery"),
                collector,
                errors,
            );
            Self {
                world,
                monitors,
                stop: CancellationToken::new(),
            }
        }

        fn is_watched(&self, plural: &str) -> bool {
            self.monitors
                .watched()
                .keys()
                .any(|resource| resource.to_string() == plural)
        }

        fn is_synced(&self, plural: &str) -> bool {
            self.monitors
                .watched()
                .iter()
                .any(|(resource, informer)| resource.to_string() == plural && informer.is_synced())
        }

        /// Syncs the monitors and returns the number of counted errors.
        async fn sync(&mut self) -> u64 {
            let before = self.monitors.errors.get();
            self.monitors.sync(&self.stop).await;
            self.monitors.errors.get() - before
        }
    }

    const GROUPS: [&str; 4] = ["apps", "batch", "policy", ""];

    /// Upstream: `TestGarbageCollectorConstruction`, `TestGarbageCollectorSync`. Upstream changes
    /// the served types; this test makes discovery and watches of fixed types fail instead.
    #[tokio::test(start_paused = true)]
    async fn garbage_collector_sync() {
        let mut stage = Stage::new().await;
        assert!(!stage.is_watched("pods"), "before the first sync");
        let cluster = stage.world.cluster.clone();
        let faults = cluster.faults();
        let broken = Status::new(500, "InternalError", "no conversion");
        let rules = ["list", "watch"]
            .map(|verb| faults.reject(Matcher::new(verb, "secrets"), broken.clone(), None));
        faults.hide_from_discovery("apps");
        assert_eq!(
            stage.sync().await,
            1,
            "a type that does not sync counts as an error"
        );
        assert!(
            stage.is_synced("pods") && stage.is_watched("secrets") && !stage.is_synced("secrets")
        );
        assert!(!stage.is_watched("deployments.apps"));
        assert_eq!(stage.sync().await, 0, "no change, no error");

        faults.show_in_discovery("apps");
        assert_eq!(stage.sync().await, 1, "the broken type times out again");
        assert!(stage.is_synced("deployments.apps"));

        // Types with failed discovery stay watched if they were synced.
        GROUPS
            .iter()
            .for_each(|group| faults.hide_from_discovery(group));
        stage.sync().await;
        assert!(
            stage.is_synced("deployments.apps")
                && stage.is_synced("pods")
                && stage.is_synced("jobs.batch")
        );
        assert!(!stage.is_watched("secrets"));

        GROUPS
            .iter()
            .for_each(|group| faults.show_in_discovery(group));
        rules.iter().for_each(|rule| faults.remove(*rule));
        assert_eq!(stage.sync().await, 0);
        assert!(stage.is_synced("secrets") && stage.is_synced("deployments.apps"));
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_do_not_keep_an_ended_collector_alive() {
        let mut stage = Stage::new().await;
        stage.sync().await;
        assert!(stage.is_synced("pods"));
        let collector = Arc::downgrade(&stage.monitors.collector);
        drop(stage.monitors);
        assert!(
            collector.upgrade().is_none(),
            "the informers hold the collector"
        );
    }

    /// Upstream: `TestGarbageCollectorSync`, the part where discovery returns only an error.
    #[tokio::test(start_paused = true)]
    async fn a_failed_discovery_keeps_all_monitors() {
        let mut stage = Stage::new().await;
        stage.sync().await;
        let before = stage.monitors.watched().len();
        assert!(before > 10 && stage.is_synced("pods"));
        stage
            .world
            .cluster
            .faults()
            .hide_from_discovery(EVERY_GROUP);
        assert_eq!(stage.sync().await, 1);
        assert_eq!(stage.monitors.watched().len(), before);
        assert!(
            stage
                .monitors
                .collector
                .kinds
                .resource("v1", "Pod")
                .is_some()
        );
        stage.world.cluster.faults().show_in_discovery(EVERY_GROUP);
        assert_eq!(stage.sync().await, 0);
    }
}
