//! Which types are watched: all that can be deleted, as discovery shows them coming and going.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::future::join_all;
use prometheus::IntCounter;
use steersman_runtime::client::ApiClient;
use steersman_runtime::discovery::{Discovery, GroupVersion, discover};
use steersman_runtime::informer::{InformerFactory, MetadataInformer};
use steersman_runtime::resource::ResourceType;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use tokio::time::Instant;

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
    /// Those whose handler is in place, now or from before they were dropped.
    heard: HashSet<ResourceType>,
    tasks: Tasks,
}

impl Monitors {
    pub(super) fn new(
        informers: InformerFactory,
        discovery: ApiClient,
        collector: Arc<Collector>,
        errors: IntCounter,
    ) -> Self {
        let (heard, tasks) = (HashSet::new(), Tasks::default());
        Self {
            informers,
            discovery,
            collector,
            errors,
            heard,
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
            tracing::warn!("no resources reported by discovery, skipping garbage collector sync");
            return self.errors.inc();
        }
        if !discovery.failures.is_empty() {
            let groups = discovery.failure().unwrap_or_default();
            tracing::info!(groups, "failed to discover some groups");
            wanted.extend(self.kept_despite(&discovery));
        }
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

    /// Types of groups that could not be listed and were watched well before.
    fn kept_despite(&self, discovery: &Discovery) -> Vec<ResourceType> {
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

    fn start_one(&mut self, resource: ResourceType, stop: &CancellationToken) {
        let informer = self.informers.metadata(&resource);
        if self.heard.insert(resource.clone()) {
            // The collector holds the informers.
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

    /// What the graph knows of the type stays, as nobody has said that the objects are gone.
    fn stop_one(&mut self, resource: &ResourceType) {
        let informer = self.watched().remove(resource);
        if let Some(informer) = informer {
            informer.stop();
        }
    }

    async fn wait(&self, stop: &CancellationToken) {
        let (watched, began) = (self.watched().clone(), Instant::now());
        let all = join_all(watched.values().map(MetadataInformer::synced));
        tokio::select! {
            () = stop.cancelled() => {}
            waited = tokio::time::timeout(SYNC_LIMIT, all) => {
                if waited.is_ok() {
                    let (monitors, duration) = (watched.len(), began.elapsed());
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

/// The types whose objects can be followed and deleted, in the version each group prefers.
fn deletable(discovery: &Discovery) -> HashSet<ResourceType> {
    let is_ignored = |r: &ResourceType| {
        IGNORED
            .iter()
            .any(|(group, plural)| r.group == *group && r.plural == *plural)
    };
    let can_be = |verbs: &[&str], served: &steersman_runtime::discovery::ServedResource| {
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
    use steersman_devcluster::faults::{EVERY_GROUP, Matcher};
    use steersman_devcluster::status::Status;
    use steersman_runtime::discovery::{ServedGroup, ServedResource};

    use super::*;
    use crate::testing::world::World;

    fn served(group: &str, plural: &str, verbs: &[&str]) -> ServedResource {
        let (group, plural) = (group.to_owned().into(), plural.to_owned());
        let (kind, plural) = (plural.clone().into(), plural.into());
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
        // (name, groups, group versions that are none, failed ones, expected)
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

        /// Syncs, and says how many errors that counted.
        async fn sync(&mut self) -> u64 {
            let before = self.monitors.errors.get();
            self.monitors.sync(&self.stop).await;
            self.monitors.errors.get() - before
        }
    }

    const GROUPS: [&str; 4] = ["apps", "batch", "policy", ""];

    /// Upstream: `TestGarbageCollectorConstruction`, `TestGarbageCollectorSync`. What comes and
    /// goes there are types; here it is what can be discovered and watched of them.
    #[tokio::test(start_paused = true)]
    async fn garbage_collector_sync() {
        let mut stage = Stage::new().await;
        assert!(!stage.is_watched("pods"), "nothing before the first sync");
        let cluster = stage.world.cluster.clone();
        let faults = cluster.faults();
        let broken = Status::new(500, "InternalError", "no conversion");
        let rules = ["list", "watch"]
            .map(|verb| faults.reject(Matcher::new(verb, "secrets"), broken.clone(), None));
        faults.hide_from_discovery("apps");
        assert_eq!(
            stage.sync().await,
            1,
            "a type that does not sync is an error"
        );
        assert!(
            stage.is_synced("pods") && stage.is_watched("secrets") && !stage.is_synced("secrets")
        );
        assert!(!stage.is_watched("deployments.apps"));
        assert_eq!(stage.sync().await, 0, "no change, no error");

        faults.show_in_discovery("apps");
        assert_eq!(stage.sync().await, 1, "the broken type is waited for again");
        assert!(stage.is_synced("deployments.apps"));

        // What fails to be discovered is kept, but for what never synced.
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
    async fn a_collector_that_ended_is_gone() {
        let mut stage = Stage::new().await;
        stage.sync().await;
        assert!(stage.is_synced("pods"));
        let collector = Arc::downgrade(&stage.monitors.collector);
        drop(stage.monitors);
        assert!(collector.upgrade().is_none(), "its informers hold it");
    }

    /// Upstream: `TestGarbageCollectorSync`, where discovery returns nothing but an error.
    #[tokio::test(start_paused = true)]
    async fn without_any_discovery_everything_stays_as_it_is() {
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
