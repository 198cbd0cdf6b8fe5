//! Monitors: the number of objects of each countable type that discovery reports.
//!
//! discovery (every 30 s) -> types to count -> metadata informers -> numbers
//!
//! Types of an API group with failed discovery stay. Upstream: `Sync` in
//! `resource_quota_controller.go`, and `resource_quota_monitor.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use steersman_client::discovery::{Discovery, GroupVersion, discover};
use steersman_client::{ApiClient, Category};
use steersman_helpers::quota::Counted;
use steersman_runtime::informer::{InformerFactory, MetadataChange};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::resource::ResourceType;

use super::handlers::{Effect, Replenisher};
use super::types::{Monitor, Source, Types};

/// Time between the end of one discovery and the start of the next, and limit of the wait for new
/// monitors. Upstream: the period of `Sync`.
const PERIOD: Duration = Duration::from_secs(30);

/// Group and plural of types that quotas never count. Upstream: `DefaultIgnoredResources`. Most are
/// virtual: the API server does not store them. Events were never limited.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// The informers of all countable types.
pub(super) struct Monitors {
    informers: InformerFactory,
    discovery: ApiClient,
    types: Arc<Types>,
    replenisher: Arc<Replenisher>,
    /// Countable types of the last discovery. A type has one version here, the preferred one of its
    /// group. Another one replaces its monitor.
    current: BTreeMap<Counted, ResourceType>,
    /// All monitors so far. The handler of an informer stays, so its monitor does too.
    monitors: HashMap<ResourceType, Arc<Monitor>>,
    /// Types whose objects were not known yet when discovery reported them.
    unsynced: Vec<(Counted, Arc<Monitor>)>,
    tasks: Tasks,
}

impl Monitors {
    /// Monitors that watch no type yet.
    pub(super) fn new(
        informers: InformerFactory,
        discovery: ApiClient,
        types: Arc<Types>,
        replenisher: Arc<Replenisher>,
    ) -> Self {
        Self {
            informers,
            discovery,
            types,
            replenisher,
            current: BTreeMap::new(),
            monitors: HashMap::new(),
            unsynced: Vec::new(),
            tasks: Tasks::default(),
        }
    }

    /// Follows discovery every 30 seconds until `stop`.
    pub(super) async fn follow(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            self.sync(stop).await;
        }
    }

    /// Counts the types of a new discovery. Waits up to [`PERIOD`] for their objects, and then
    /// enqueues the quotas that name them. Late types stay in `unsynced`, and the next call waits
    /// for them again.
    pub(super) async fn sync(&mut self, stop: &CancellationToken) {
        if let Some(wanted) = self.discover().await {
            self.replace(wanted, stop);
        }
        if self.unsynced.is_empty() {
            return;
        }
        let all = join_all(
            self.unsynced
                .iter()
                .map(|(_, monitor)| monitor.informer().synced()),
        );
        tokio::select! {
            () = stop.cancelled() => return,
            waited = tokio::time::timeout(PERIOD, all) => match waited {
                Ok(_) => tracing::debug!("synced quota controller"),
                Err(_) => {
                    let late = self.unsynced.iter().filter(|(_, one)| !one.informer().is_synced());
                    let resources: Vec<_> = late.map(|(of, _)| of.to_string()).collect();
                    tracing::error!(
                        resources = resources.join(", "),
                        "Timed out waiting for quota monitor sync"
                    );
                }
            }
        }
        let (synced, late): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(|(_, monitor)| monitor.informer().is_synced());
        self.unsynced = late;
        let synced: Vec<_> = synced.into_iter().map(|(of, _)| of).collect();
        self.replenisher.count_first(&synced);
    }

    /// The countable types that are served, and those of groups with failed discovery. `None` if
    /// discovery failed as a whole. An empty answer with failures counts as a whole failure: it
    /// would remove every monitor.
    async fn discover(&self) -> Option<BTreeMap<Counted, ResourceType>> {
        let discovery = match discover(&self.discovery).await {
            Ok(discovery) => discovery,
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "Error during resource discovery");
                return None;
            }
        };
        let mut wanted = countable(&discovery);
        if let Some(error) = discovery.failure() {
            let category = Category::of(&error).as_str();
            tracing::error!(category, %error, "Error during resource discovery");
            if wanted.is_empty() {
                return None;
            }
            let failed = |resource: &ResourceType| {
                let of = GroupVersion {
                    group: resource.group.to_string(),
                    version: resource.version.to_string(),
                };
                discovery.failures.contains_key(&of)
            };
            for (of, resource) in self.current.iter().filter(|(_, resource)| failed(resource)) {
                wanted.entry(of.clone()).or_insert_with(|| resource.clone());
            }
        }
        Some(wanted)
    }

    /// Replaces the counted types by `wanted`.
    ///
    /// Informers of other types are left as they are: the garbage collector shares and stops them.
    fn replace(&mut self, wanted: BTreeMap<Counted, ResourceType>, stop: &CancellationToken) {
        let removed: Vec<_> = self
            .current
            .keys()
            .filter(|of| !wanted.contains_key(of))
            .collect();
        let added = wanted
            .iter()
            .filter(|(of, resource)| self.current.get(of) != Some(resource));
        let added: Vec<_> = added.map(|(of, _)| of).collect();
        if !added.is_empty() || !removed.is_empty() {
            let shown = |types: &[&Counted]| {
                let names: Vec<_> = types.iter().map(ToString::to_string).collect();
                names.join(", ")
            };
            tracing::debug!(
                added = shown(&added),
                removed = shown(&removed),
                "syncing resource quota controller with updated resources from discovery"
            );
        }
        for of in &removed {
            // A resource of a removed type keeps its last usage in the status.
            self.types.remove(of);
            self.unsynced.retain(|(late, _)| late != *of);
        }
        for (of, resource) in &wanted {
            let is_new = self.current.get(of) != Some(resource);
            if self.types.has_rules(of) {
                self.types.insert(of.clone(), Source::Views);
                continue;
            }
            let monitor = self.monitor(of, resource);
            // The garbage collector may have stopped it while discovery lacked the type.
            monitor.informer().start(&self.tasks, stop);
            if is_new {
                self.types
                    .insert(of.clone(), Source::Number(Arc::clone(&monitor)));
                self.unsynced.push((of.clone(), monitor));
            }
        }
        self.current = wanted;
    }

    /// The monitor of a type in one version.
    fn monitor(&mut self, of: &Counted, resource: &ResourceType) -> Arc<Monitor> {
        if let Some(monitor) = self.monitors.get(resource) {
            return Arc::clone(monitor);
        }
        let monitor = Arc::new(Monitor::new(self.informers.metadata(resource)));
        // The informers outlive the controller and must not keep it alive.
        let counts: Weak<Monitor> = Arc::downgrade(&monitor);
        let replenisher = Arc::downgrade(&self.replenisher);
        let of = of.clone();
        monitor.informer().add_handler(move |change| {
            let Some(counts) = counts.upgrade() else {
                return;
            };
            let Some(replenisher) = replenisher.upgrade() else {
                return;
            };
            // The number comes first, so that a sync at once sees it.
            counts.observe(&change);
            match change {
                MetadataChange::Added(meta) if counts.informer().is_synced() => {
                    replenisher.replenish(&of, &meta.namespace, Effect::Charged);
                }
                MetadataChange::Deleted(meta) => {
                    replenisher.replenish(&of, &meta.namespace, Effect::Released);
                }
                MetadataChange::Added(_) | MetadataChange::Updated { .. } => {}
            }
        });
        self.monitors.insert(resource.clone(), Arc::clone(&monitor));
        monitor
    }
}

/// The types that quotas can count: namespaced, with four verbs, in the preferred version of each
/// group. Upstream: `GetQuotableResources`. Each verb is needed: limits need "create" and "delete",
/// and the others make the watch.
fn countable(discovery: &Discovery) -> BTreeMap<Counted, ResourceType> {
    const VERBS: [&str; 4] = ["create", "delete", "list", "watch"];
    let preferred = discovery.preferred().into_iter();
    let countable = preferred.filter(|served| {
        let resource = &served.resource;
        let is_ignored = IGNORED.contains(&(&*resource.group, &*resource.plural));
        resource.namespaced && !is_ignored && VERBS.iter().all(|verb| served.allows(verb))
    });
    let countable = countable.map(|served| {
        let resource = &served.resource;
        let of = Counted::new(&resource.group, &resource.plural);
        (of, resource.clone())
    });
    countable.collect()
}
