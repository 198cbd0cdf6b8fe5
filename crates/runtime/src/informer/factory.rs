//! The informers of a process, one per type.
//!
//! All controllers share one watch and one store per type. An informer is requested while a
//! controller is built, and starts with [`InformerFactory::start`].
//!
//! Upstream: `SharedInformerFactory` of client-go; [`InformerFactory::metadata`] serves the garbage
//! collector like `metadatainformer`.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::info;

use steersman_client::ApiClient;
use steersman_objects::Object;
use steersman_options::features::{FeatureGates, WATCH_LIST_CLIENT};
use steersman_values::resource::ResourceType;
use steersman_values::sync::{Mutex, MutexGuard};

use super::contact::Contact;
use super::metadata::{Followed, MetadataInformer, Own};
use super::metrics::InformerMetrics;
use super::shared::SharedInformer;
use super::source::{Collection, Form, ListWatch};
use crate::metrics::Registry;
use crate::tasks::{CancellationToken, Tasks};

/// Makes the informers, one per type, and runs them. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct InformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    /// Makes the source of lists and watches of a resource.
    source: Box<Source>,
    /// Zero disables it. Upstream's flag is `--min-resync-period`.
    resync: Duration,
    metrics: InformerMetrics,
    /// Typed informers, in the order of the first request. They are few, so a search is quick.
    informers: Mutex<Vec<Informer>>,
    /// Informers over metadata, by resource. They are never removed: a resource that discovery
    /// shows again continues with its former store.
    metadata: Mutex<HashMap<ResourceType, Arc<Own>>>,
}

type Source = dyn Fn(Cow<'static, ResourceType>, Form) -> Arc<dyn ListWatch> + Send + Sync;

type Start = Box<dyn FnOnce(&Tasks, CancellationToken) + Send>;

/// A typed informer of this process, with its type erased. `id` finds it for a type `T`.
struct Informer {
    id: TypeId,
    resource: &'static ResourceType,
    /// Whether the cache has all objects of the resource. Only then can a metadata informer share
    /// its watch.
    is_whole: bool,
    shared: Box<dyn Any + Send>,
    followed: Arc<dyn Followed>,
    synced: watch::Receiver<bool>,
    contact: Arc<Contact>,
    /// Spawns the informer's task. `None` once it was started.
    start: Option<Start>,
}

impl Informer {
    /// Whether the informer has started, and every API server serves its type. A type that old API
    /// servers lack would block the start of all controllers for ever.
    fn is_awaited(&self) -> bool {
        self.start.is_none() && !self.resource.is_optional()
    }
}

impl InformerFactory {
    /// Informers over `client` (upstream's `shared-informers`). Every `resync`, handlers are called
    /// once more for each object, as an update to itself; zero disables it.
    pub fn new(
        client: ApiClient,
        resync: Duration,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        Self::with_features(client, resync, registry, &FeatureGates::default())
    }

    /// The same with these feature gates: without `WatchListClient`, a watch follows a list.
    pub fn with_features(
        client: ApiClient,
        resync: Duration,
        registry: &Registry,
        features: &FeatureGates,
    ) -> Result<Self, prometheus::Error> {
        let streams = features.is_on(WATCH_LIST_CLIENT);
        let source = move |resource, form| -> Arc<dyn ListWatch> {
            Arc::new(Collection::new(client.clone(), resource, form, streams))
        };
        Self::over(source, resync, registry)
    }

    /// The same over any source of lists and watches, for tests.
    pub(super) fn over(
        source: impl Fn(Cow<'static, ResourceType>, Form) -> Arc<dyn ListWatch> + Send + Sync + 'static,
        resync: Duration,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let metrics = InformerMetrics::register(registry)?;
        let informers = Mutex::default();
        let metadata = Mutex::default();
        Ok(Self {
            inner: Arc::new(Inner {
                source: Box::new(source),
                resync,
                metrics,
                informers,
                metadata,
            }),
        })
    }

    fn informers(&self) -> MutexGuard<'_, Vec<Informer>> {
        self.inner.informers.lock()
    }

    /// The informer of `T`, the same for every caller. A new one waits for
    /// [`InformerFactory::start`]. The type `T` identifies it, so two views of one resource have
    /// two watches.
    pub fn shared<T: Object>(&self) -> SharedInformer<T> {
        let mut informers = self.informers();
        let found = informers
            .iter()
            .find(|informer| informer.id == TypeId::of::<T>());
        if let Some(shared) =
            found.and_then(|informer| informer.shared.downcast_ref::<SharedInformer<T>>())
        {
            return shared.clone();
        }
        let is_whole = T::FIELDS.is_empty();
        let form = if is_whole {
            Form::Whole
        } else {
            Form::Selected(T::FIELDS, T::NAMESPACE)
        };
        let metrics = self.inner.metrics.of(T::RESOURCE, T::FIELDS);
        let shared = SharedInformer::<T>::new(metrics);
        let running = shared.clone();
        let source = self.source(Cow::Borrowed(T::RESOURCE), form);
        let resync = self.inner.resync;
        informers.push(Informer {
            id: TypeId::of::<T>(),
            resource: T::RESOURCE,
            is_whole,
            followed: Arc::new(shared.clone()),
            shared: Box::new(shared.clone()),
            synced: shared.shared.synced(),
            contact: Arc::clone(&shared.shared.contact),
            start: Some(Box::new(move |tasks, stop| {
                tasks.spawn(
                    format!("informer {}", T::RESOURCE),
                    running.run(source, resync, stop),
                );
            })),
        });
        shared
    }

    fn source(&self, resource: Cow<'static, ResourceType>, form: Form) -> Arc<dyn ListWatch> {
        (self.inner.source)(resource, form)
    }

    /// The metadata of all objects of `resource`, for resources that only discovery knows.
    ///
    /// If [`InformerFactory::shared`] made an informer of all objects of the type in that version
    /// before, both share its watch. Otherwise this is an informer over metadata only, the same for every
    /// caller. It runs between [`MetadataInformer::start`] and [`MetadataInformer::stop`].
    pub fn metadata(&self, resource: &ResourceType) -> MetadataInformer {
        let same = |found: &ResourceType| {
            (&found.group, &found.version, &found.plural)
                == (&resource.group, &resource.version, &resource.plural)
        };
        // One watch less, and the same objects in both places. The garbage collector follows every
        // type.
        if let Some(informer) = self
            .informers()
            .iter()
            .find(|informer| informer.is_whole && same(informer.resource))
        {
            return MetadataInformer::over(Arc::clone(&informer.followed));
        }
        let mut metadata = self.inner.metadata.lock();
        let own = metadata.entry(resource.clone()).or_insert_with(|| {
            let metrics = self.inner.metrics.of_metadata(resource);
            let source = self.source(Cow::Owned(resource.clone()), Form::Metadata);
            Arc::new(Own::new(
                SharedInformer::of(Cow::Owned(resource.clone()), metrics),
                source,
            ))
        });
        MetadataInformer::own(own)
    }

    /// Starts every requested informer that was not started before, as tasks of `tasks`, until
    /// `stop`. Callers may call it again after they requested more informers. An informer starts
    /// only once, even if `stop` ended it.
    pub fn start(&self, tasks: &Tasks, stop: &CancellationToken) {
        for start in self
            .informers()
            .iter_mut()
            .filter_map(|informer| informer.start.take())
        {
            start(tasks, stop.clone());
        }
    }

    /// Waits until all started informers have synced, except those of types that API servers may
    /// lack. False if `stop` came first.
    pub async fn wait_synced(&self, stop: &CancellationToken) -> bool {
        let started: Vec<_> = self
            .informers()
            .iter()
            .filter(|informer| informer.is_awaited())
            .map(|i| i.synced.clone())
            .collect();
        let informers = started.len();
        let began = Instant::now();
        let all = async {
            for mut synced in started {
                if synced.wait_for(|synced| *synced).await.is_err() {
                    // Cannot happen: the factory holds the sender.
                    return false;
                }
            }
            true
        };
        tokio::select! {
            () = stop.cancelled() => false,
            synced = all => {
                info!(informers, duration = ?began.elapsed(), "Caches are filled");
                synced
            }
        }
    }

    /// The resources of started informers that have not synced yet, without types that API servers
    /// may lack.
    pub fn not_synced(&self) -> Vec<String> {
        let waiting = |informer: &&Informer| informer.is_awaited() && !*informer.synced.borrow();
        self.informers()
            .iter()
            .filter(waiting)
            .map(|informer| informer.resource.to_string())
            .collect()
    }

    /// The problems of the watches of synced informers, one sentence each. A watch has a problem if
    /// it cannot be opened, or if it was silent for longer than a healthy server is. Such a cache
    /// may be out of date.
    pub fn findings(&self) -> Vec<String> {
        let synced = |informer: &&Informer| informer.start.is_none() && *informer.synced.borrow();
        let finding = |informer: &Informer| {
            Some(format!(
                "the watch of {} {}",
                informer.resource,
                informer.contact.finding()?
            ))
        };
        self.informers()
            .iter()
            .filter(synced)
            .filter_map(finding)
            .collect()
    }
}
