//! The informers of a process, one per type.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::info;

use super::contact::Contact;
use super::metadata::{Followed, MetadataInformer, Own};
use super::metrics::InformerMetrics;
use super::shared::SharedInformer;
use super::source::{Collection, Form, ListWatch};
use crate::client::ApiClient;
use crate::metrics::Registry;
use crate::object::Object;
use crate::resource::ResourceType;
use crate::sync::{Mutex, MutexGuard};
use crate::tasks::{CancellationToken, Tasks};

/// Makes the informers, one per type, and runs them. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct InformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<Source>,
    resync: Duration,
    metrics: InformerMetrics,
    informers: Mutex<Vec<Informer>>,
    /// Informers over metadata, by resource. None is ever removed: a type that comes back starts
    /// from what was known of it.
    metadata: Mutex<HashMap<ResourceType, Arc<Own>>>,
}

type Source = dyn Fn(Cow<'static, ResourceType>, Form) -> Arc<dyn ListWatch> + Send + Sync;

type Start = Box<dyn FnOnce(&Tasks, CancellationToken) + Send>;

/// An informer whose type is known to whoever looks for it.
struct Informer {
    id: TypeId,
    resource: &'static ResourceType,
    shared: Box<dyn Any + Send>,
    followed: Arc<dyn Followed>,
    synced: watch::Receiver<bool>,
    contact: Arc<Contact>,
    /// Taken when it is started.
    start: Option<Start>,
}

impl InformerFactory {
    /// Informers over `client` (upstream's `shared-informers`). `resync` is the period after which
    /// every object is reported to handlers once more as an update to itself; zero is never.
    pub fn new(
        client: ApiClient,
        resync: Duration,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let source = move |resource, form| -> Arc<dyn ListWatch> {
            Arc::new(Collection::new(client.clone(), resource, form))
        };
        Self::over(source, resync, registry)
    }

    pub(super) fn over(
        source: impl Fn(Cow<'static, ResourceType>, Form) -> Arc<dyn ListWatch> + Send + Sync + 'static,
        resync: Duration,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let metrics = InformerMetrics::register(registry)?;
        let (informers, metadata) = (Mutex::default(), Mutex::default());
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
        self.inner
            .informers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The informer of `T`, the same for every caller. Not started yet when new.
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
        let shared = SharedInformer::<T>::new(self.inner.metrics.of(T::RESOURCE));
        let (running, source, resync) = (
            shared.clone(),
            self.source(Cow::Borrowed(T::RESOURCE), Form::Whole),
            self.inner.resync,
        );
        informers.push(Informer {
            id: TypeId::of::<T>(),
            resource: T::RESOURCE,
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

    /// The metadata of all objects of `resource`, which need not be known before run time. Where
    /// [`InformerFactory::shared`] was asked for the type in that version before, its watch is
    /// shared; otherwise it is an informer over metadata only, the same for every caller, which
    /// follows the server between [`MetadataInformer::start`] and [`MetadataInformer::stop`].
    pub fn metadata(&self, resource: &ResourceType) -> MetadataInformer {
        let same = |found: &ResourceType| {
            (&found.group, &found.version, &found.plural)
                == (&resource.group, &resource.version, &resource.plural)
        };
        if let Some(informer) = self
            .informers()
            .iter()
            .find(|informer| same(informer.resource))
        {
            return MetadataInformer::over(Arc::clone(&informer.followed));
        }
        let mut metadata = self
            .inner
            .metadata
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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

    /// Starts every informer that was asked for and does not run yet, as tasks of `tasks`, until
    /// `stop`. May be called again at any time. An informer never starts twice, not even after
    /// `stop`.
    pub fn start(&self, tasks: &Tasks, stop: &CancellationToken) {
        for start in self
            .informers()
            .iter_mut()
            .filter_map(|informer| informer.start.take())
        {
            start(tasks, stop.clone());
        }
    }

    /// Waits until all started informers have synced. False when `stop` came first.
    pub async fn wait_synced(&self, stop: &CancellationToken) -> bool {
        let started: Vec<_> = self
            .informers()
            .iter()
            .filter(|informer| informer.start.is_none())
            .map(|i| i.synced.clone())
            .collect();
        let (informers, began) = (started.len(), Instant::now());
        let all = async {
            for mut synced in started {
                if synced.wait_for(|synced| *synced).await.is_err() {
                    // The sender lives as long as the factory.
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

    /// The resources whose started informers have not synced yet.
    pub fn not_synced(&self) -> Vec<String> {
        let waiting = |informer: &&Informer| informer.start.is_none() && !*informer.synced.borrow();
        self.informers()
            .iter()
            .filter(waiting)
            .map(|informer| informer.resource.to_string())
            .collect()
    }

    /// What is wrong with the watches of synced informers, one sentence each: those that cannot be
    /// opened, or have been silent for longer than a living server is. What they hold may be out of
    /// date.
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
