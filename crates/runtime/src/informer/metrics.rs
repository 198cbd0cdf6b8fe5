//! The metrics of informers: upstream's `informer_*` families, and `steersman_informer_*`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use steersman_values::resource::ResourceType;
use steersman_values::sync::Mutex;

use super::contact::Contact;

/// Upstream's value of the label `name`.
const NAME: &str = "kube-controller-manager";

/// Upstream's buckets, in seconds (`component-base/metrics/prometheus/clientgo/fifo`).
const LATENCY_BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The metric families of all informers.
pub(super) struct InformerMetrics {
    /// Upstream: `informer_queued_items`.
    queued: IntGaugeVec,
    /// Upstream: `informer_processing_latency_seconds`.
    latency: HistogramVec,
    /// The families from here on are Steersman's own.
    objects: IntGaugeVec,
    /// A high rate shows an API server that ends watches early.
    relists: IntCounterVec,
    events: IntCounterVec,
    /// Each is a bug in a handler or a callback.
    panics: IntCounterVec,
    caches: Caches,
}

/// The metric handles of one resource.
pub(super) struct ResourceMetrics {
    /// `None` for metadata informers, which upstream does not report. Seconds per change, handlers
    /// included.
    latency: Option<Histogram>,
    objects: IntGauge,
    relists: IntCounter,
    events: IntCounter,
    panics: IntCounter,
    /// The label of Steersman's families.
    resource: String,
    /// For the registration of the cache of the informer.
    caches: Caches,
}

impl InformerMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let upstream = &["name", "group", "version", "resource"];
        let ours = &["resource"];
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), ours);
        let latency = HistogramOpts::new(
            "informer_processing_latency_seconds",
            "[ALPHA] Time taken to process events after popping from the queue.",
        );
        let objects = IntGaugeVec::new(
            Opts::new(
                "steersman_informer_objects",
                "[ALPHA] Objects in the cache.",
            ),
            ours,
        )?;
        let relists = counter(
            "steersman_informer_relists_total",
            "[ALPHA] Complete states received from the API server, the first included.",
        )?;
        let events = counter(
            "steersman_informer_watch_events_total",
            "[ALPHA] Watch events received, bookmarks included.",
        )?;
        let panics = counter(
            "steersman_informer_handler_panics_total",
            "[ALPHA] Panics caught in handlers of changes.",
        )?;
        let counters = [&relists, &events, &panics].map(Clone::clone);
        let metrics = Self {
            queued: IntGaugeVec::new(
                Opts::new(
                    "informer_queued_items",
                    "[ALPHA] Number of items currently queued in the FIFO.",
                ),
                upstream,
            )?,
            latency: HistogramVec::new(latency.buckets(LATENCY_BUCKETS.to_vec()), upstream)?,
            caches: Caches::new(ours, objects.clone(), counters)?,
            objects,
            relists,
            events,
            panics,
        };
        registry.register(Box::new(metrics.queued.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.objects.clone()))?;
        registry.register(Box::new(metrics.caches.clone()))?;
        for family in [&metrics.relists, &metrics.events, &metrics.panics] {
            registry.register(Box::new(family.clone()))?;
        }
        Ok(metrics)
    }

    /// The handles of an informer of `resource` with the field selector `fields`. A selector is part
    /// of our label, because other informers may have the rest of the resource.
    pub(super) fn of(&self, resource: &ResourceType, fields: &str) -> ResourceMetrics {
        // Upstream derives the label from the kind, even if the real plural differs.
        let derived = format!("{}s", resource.kind.to_lowercase());
        let upstream = [NAME, &resource.group, &resource.version, &derived];
        // The reflector applies each change when it arrives, so this queue is always empty.
        self.queued.with_label_values(&upstream).set(0);
        let mut label = resource.to_string();
        if !fields.is_empty() {
            label = format!("{label}[{fields}]");
        }
        self.with_latency(label, Some(self.latency.with_label_values(&upstream)))
    }

    /// The handles of a metadata informer, which upstream does not report.
    pub(super) fn of_metadata(&self, resource: &ResourceType) -> ResourceMetrics {
        self.with_latency(resource.to_string(), None)
    }

    fn with_latency(&self, resource: String, latency: Option<Histogram>) -> ResourceMetrics {
        let ours = [resource.as_str()];
        ResourceMetrics {
            latency,
            objects: self.objects.with_label_values(&ours),
            relists: self.relists.with_label_values(&ours),
            events: self.events.with_label_values(&ours),
            panics: self.panics.with_label_values(&ours),
            caches: self.caches.clone(),
            resource,
        }
    }
}

impl ResourceMetrics {
    /// Registers `cache`, so that each scrape reads its age and size.
    pub(super) fn watch(&self, cache: Weak<dyn Cache>) {
        self.caches
            .watched
            .lock()
            .push((self.resource.clone(), cache));
    }

    pub(super) fn event(&self) {
        self.events.inc();
    }

    pub(super) fn relist(&self) {
        self.relists.inc();
    }

    pub(super) fn panic(&self) {
        self.panics.inc();
    }

    /// `objects` is the size of the store after the change.
    pub(super) fn processed(&self, took: Duration, objects: usize) {
        if let Some(latency) = &self.latency {
            latency.observe(took.as_secs_f64());
        }
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }
}

/// The part of an informer that a scrape reads.
pub(super) trait Cache: Send + Sync {
    /// The state of the connection to the API server. It may belong to a stopped informer, and then
    /// has no age.
    fn contact(&self) -> &Contact;

    /// Estimated bytes of the objects in the store. It walks over all objects, so scrapes alone
    /// call it.
    fn bytes(&self) -> usize;
}

/// A resource and its informer, which may be dropped already.
type Watched = (String, Weak<dyn Cache>);

/// The silence of each watch and the size of each store, computed at each scrape. A stopped
/// informer has no silence.
#[derive(Clone)]
struct Caches {
    ages: GaugeVec,
    bytes: IntGaugeVec,
    /// Families that [`ResourceMetrics`] sets. This collector removes the series of dropped
    /// informers from them.
    objects: IntGaugeVec,
    counters: [IntCounterVec; 3],
    /// Several informers can have one label, such as two views of one resource.
    watched: Arc<Mutex<Vec<Watched>>>,
}

impl Caches {
    fn new(
        labels: &[&str],
        objects: IntGaugeVec,
        counters: [IntCounterVec; 3],
    ) -> Result<Self, prometheus::Error> {
        let ages = Opts::new(
            "steersman_informer_watch_age_seconds",
            "[ALPHA] Seconds since anything was last received for this resource, bookmarks included.",
        );
        let bytes = Opts::new(
            "steersman_informer_bytes",
            "[ALPHA] Estimated memory of the objects in the cache, without what they share.",
        );
        let ages = GaugeVec::new(ages, labels)?;
        let bytes = IntGaugeVec::new(bytes, labels)?;
        Ok(Self {
            ages,
            bytes,
            objects,
            counters,
            watched: Arc::default(),
        })
    }

    /// Removes dropped informers, and the series of resources without an informer. Otherwise the
    /// series of deleted CustomResourceDefinitions would stay.
    fn prune(&self, watched: &mut Vec<Watched>) {
        let (alive, gone) = std::mem::take(watched)
            .into_iter()
            .partition(|(_, cache)| cache.strong_count() > 0);
        *watched = alive;
        let gone: Vec<Watched> = gone;
        for (resource, _) in gone
            .iter()
            .filter(|(resource, _)| !watched.iter().any(|(alive, _)| alive == resource))
        {
            // An error means that the series does not exist, which is fine.
            let _ = self.ages.remove_label_values(&[resource]);
            let _ = self.bytes.remove_label_values(&[resource]);
            let _ = self.objects.remove_label_values(&[resource]);
            for counter in &self.counters {
                let _ = counter.remove_label_values(&[resource]);
            }
        }
    }
}

impl Collector for Caches {
    fn desc(&self) -> Vec<&Desc> {
        [self.ages.desc(), self.bytes.desc()].concat()
    }

    // Families of other fields are registered by themselves, so only these two are returned here.
    fn collect(&self) -> Vec<MetricFamily> {
        let mut watched = self.watched.lock();
        self.prune(&mut watched);
        // A series lasts from scrape to scrape: its strings are small allocations, and new ones would
        // lie among the objects of a burst and keep their pages.
        let mut ages: BTreeMap<&str, Option<Duration>> = BTreeMap::new();
        for (resource, cache) in watched
            .iter()
            .filter_map(|(resource, cache)| Some((resource, cache.upgrade()?)))
        {
            let age = ages.entry(resource).or_default();
            *age = cache.contact().age().or(*age);
            self.bytes
                .with_label_values(&[resource])
                .set(i64::try_from(cache.bytes()).unwrap_or(i64::MAX));
        }
        for (resource, age) in ages {
            match age {
                Some(age) => {
                    let series = self.ages.with_label_values(&[resource]);
                    series.set(age.as_secs_f64());
                }
                // An error means that the series does not exist, which is fine.
                None => drop(self.ages.remove_label_values(&[resource])),
            }
        }
        [self.ages.collect(), self.bytes.collect()].concat()
    }
}

#[cfg(test)]
mod tests {
    use steersman_values::resource::PODS;

    use super::*;

    #[derive(Default)]
    struct Empty(Contact);

    impl Cache for Empty {
        fn contact(&self) -> &Contact {
            &self.0
        }

        fn bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn series_of_a_resource_without_informers_are_removed() {
        let registry = Registry::new();
        let metrics = InformerMetrics::register(&registry).unwrap();
        let [first, second] = [(); 2].map(|()| {
            let cache = Arc::new(Empty::default());
            let of_pods = metrics.of_metadata(&PODS);
            of_pods.event();
            let watched: Weak<Empty> = Arc::downgrade(&cache);
            of_pods.watch(watched);
            cache
        });
        let families = || {
            // Within one gathering, a family may be read before its series are removed. So this
            // gathers twice.
            registry.gather();
            let ours = |family: &MetricFamily| {
                family.name().starts_with("steersman_") && !family.get_metric().is_empty()
            };
            registry
                .gather()
                .iter()
                .filter(|family| ours(family))
                .count()
        };
        assert_eq!(
            families(),
            5,
            "all except the age of a watch: no watch runs"
        );
        drop(first);
        assert_eq!(families(), 5);
        drop(second);
        assert_eq!(families(), 0);
        assert!(metrics.caches.watched.lock().is_empty());
    }
}
