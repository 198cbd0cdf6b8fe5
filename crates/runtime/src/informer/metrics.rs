//! Metric handles of the informers.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::resource::ResourceType;

/// Upstream's value of the label `name`.
const NAME: &str = "kube-controller-manager";

const LATENCY_BUCKETS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The families; see metrics.md section 5 for upstream's.
pub(super) struct InformerMetrics {
    queued: IntGaugeVec,
    latency: HistogramVec,
    objects: IntGaugeVec,
    relists: IntCounterVec,
    events: IntCounterVec,
    panics: IntCounterVec,
}

/// The same for one resource.
pub(super) struct ResourceMetrics {
    /// Only of informers that upstream reports.
    latency: Option<Histogram>,
    objects: IntGauge,
    relists: IntCounter,
    events: IntCounter,
    panics: IntCounter,
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
        let metrics = Self {
            queued: IntGaugeVec::new(
                Opts::new("informer_queued_items", "[ALPHA] Number of items currently queued in the FIFO."),
                upstream,
            )?,
            latency: HistogramVec::new(latency.buckets(LATENCY_BUCKETS.to_vec()), upstream)?,
            objects: IntGaugeVec::new(Opts::new("steersman_informer_objects", "Objects in the cache."), ours)?,
            relists: counter(
                "steersman_informer_relists_total",
                "Complete states received from the API server, the first included.",
            )?,
            events: counter("steersman_informer_watch_events_total", "Watch events received, bookmarks included.")?,
            panics: counter("steersman_informer_handler_panics_total", "Panics caught in handlers of changes.")?,
        };
        registry.register(Box::new(metrics.queued.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.objects.clone()))?;
        for family in [&metrics.relists, &metrics.events, &metrics.panics] {
            registry.register(Box::new(family.clone()))?;
        }
        Ok(metrics)
    }

    pub(super) fn of(&self, resource: &ResourceType) -> ResourceMetrics {
        // Upstream makes the label from the kind, plural or not.
        let derived = format!("{}s", resource.kind.to_lowercase());
        let upstream = [NAME, &resource.group, &resource.version, &derived];
        // Changes are handed on as they arrive, so nothing ever waits.
        self.queued.with_label_values(&upstream).set(0);
        self.with_latency(resource, Some(self.latency.with_label_values(&upstream)))
    }

    /// The same for an informer that sees only metadata, which upstream does not report.
    pub(super) fn of_metadata(&self, resource: &ResourceType) -> ResourceMetrics {
        self.with_latency(resource, None)
    }

    fn with_latency(&self, resource: &ResourceType, latency: Option<Histogram>) -> ResourceMetrics {
        let ours = resource.to_string();
        let ours = [ours.as_str()];
        ResourceMetrics {
            latency,
            objects: self.objects.with_label_values(&ours),
            relists: self.relists.with_label_values(&ours),
            events: self.events.with_label_values(&ours),
            panics: self.panics.with_label_values(&ours),
        }
    }
}

impl ResourceMetrics {
    pub(super) fn event(&self) {
        self.events.inc();
    }

    pub(super) fn relist(&self) {
        self.relists.inc();
    }

    pub(super) fn panic(&self) {
        self.panics.inc();
    }

    pub(super) fn processed(&self, took: Duration, objects: usize) {
        if let Some(latency) = &self.latency {
            latency.observe(took.as_secs_f64());
        }
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }
}
