//! Metrics of the controller, under upstream's names (`metrics` in its package).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::known::Caches;
use super::plugins::name_of_source;
use crate::storage_metrics::BUCKETS;

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct BinderMetrics {
    /// Failures of provisioning, binding and deletion, by the plugin that has to do it: under the name up to 1.35, and
    /// under that of later releases.
    errors: [IntCounterVec; 2],
    /// In seconds, from the first try to the effect in the cluster, over all repetitions.
    durations: HistogramVec,
    /// Tries, with or without success.
    classified: IntCounter,
    classify_errors: IntCounter,
    /// The registry has a clone, which shares the caches.
    counts: Counts,
}

impl BinderMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let labels = ["plugin_name", "operation_name"];
        let durations = HistogramOpts::new(
            "volume_operation_total_seconds",
            "[BETA] Storage operation end to end duration in seconds",
        );
        let errors = |name: &str| {
            let opts = Opts::new(name, "[ALPHA] Total volume operation errors");
            IntCounterVec::new(opts, &labels)
        };
        let metrics = Self {
            errors: [
                errors("volume_operation_total_errors")?,
                errors("volume_operation_errors_total")?,
            ],
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &labels)?,
            classified: IntCounter::new(
                "retroactive_storageclass_total",
                "[ALPHA] Total number of retroactive StorageClass assignments to persistent volume claim",
            )?,
            classify_errors: IntCounter::new(
                "retroactive_storageclass_errors_total",
                "[ALPHA] Total number of failed retroactive StorageClass assignments to persistent volume claim",
            )?,
            counts: Counts::new()?,
        };
        for errors in &metrics.errors {
            registry.register(Box::new(errors.clone()))?;
        }
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.classified.clone()))?;
        registry.register(Box::new(metrics.classify_errors.clone()))?;
        registry.register(Box::new(metrics.counts.clone()))?;
        Ok(metrics)
    }

    /// Counts the objects of `caches` at each scrape from now on.
    ///
    /// The controller calls it at its start, where upstream registers its collector.
    pub(super) fn count(&self, caches: Arc<Caches>) {
        *self.counts.caches() = Some(caches);
    }

    /// Counts a try to give a claim the default class.
    ///
    /// Upstream: `RecordRetroactiveStorageClassMetric`. A failure counts in both families.
    pub(super) fn classified(&self, succeeded: bool) {
        self.classified.inc();
        if !succeeded {
            self.classify_errors.inc();
        }
    }
}

/// The operations that are timed from their first start to their end in the cluster.
///
/// Upstream: `OperationStartTimeCache` and `RecordMetric`. A provisioning starts with its first try,
/// and ends with the binding. A deletion ends when the volume is gone.
#[derive(Debug)]
pub(super) struct Timers {
    metrics: BinderMetrics,
    /// By key of the claim, or name of the volume. Both cannot meet: only the former has a slash.
    started: Mutex<HashMap<String, Started>>,
}

/// The labels belong to the start, since the class may be gone at the end.
#[derive(Debug)]
struct Started {
    plugin: Sym,
    operation: &'static str,
    at: Instant,
}

impl Timers {
    pub(super) fn new(metrics: BinderMetrics) -> Self {
        Self {
            metrics,
            started: Mutex::default(),
        }
    }

    /// Starts the time of `operation` on the object `key`, unless it runs.
    ///
    /// Upstream: `AddIfNotExist`. The plugin is looked up only if it is needed.
    pub(super) fn start(&self, key: &str, plugin: impl FnOnce() -> Sym, operation: &'static str) {
        let mut started = self.started();
        if !started.contains_key(key) {
            let plugin = plugin();
            let at = Instant::now();
            let entry = Started {
                plugin,
                operation,
                at,
            };
            started.insert(key.to_owned(), entry);
        }
    }

    /// Counts a failure of the operation on the object `key`, if it is timed.
    ///
    /// The time goes on: a later try may succeed.
    pub(super) fn failed(&self, key: &str) {
        if let Some(Started {
            plugin, operation, ..
        }) = self.started().get(key)
        {
            let labels = [plugin.as_str(), operation];
            for errors in &self.metrics.errors {
                errors.with_label_values(&labels).inc();
            }
        }
    }

    /// Ends the time of the operation on the object `key`.
    ///
    /// A claim that took an existing volume has no start, so it is left out.
    pub(super) fn finished(&self, key: &str) {
        if let Some(Started {
            plugin,
            operation,
            at,
        }) = self.started().remove(key)
        {
            let labels = [plugin.as_str(), operation];
            let took = at.elapsed().as_secs_f64();
            self.metrics
                .durations
                .with_label_values(&labels)
                .observe(took);
        }
    }

    /// Drops the time of the operation on the object `key`, which is gone.
    pub(super) fn dropped(&self, key: &str) {
        self.started().remove(key);
    }

    fn started(&self) -> MutexGuard<'_, HashMap<String, Started>> {
        self.started.lock()
    }
}

/// Numbers of claims and volumes, computed at each scrape.
#[derive(Debug, Clone)]
struct Counts {
    /// Empty until the controller runs.
    caches: Arc<Mutex<Option<Arc<Caches>>>>,
    volumes: IntGaugeVec,
    bound_volumes: IntGaugeVec,
    unbound_volumes: IntGaugeVec,
    bound_claims: IntGaugeVec,
    unbound_claims: IntGaugeVec,
}

impl Counts {
    fn new() -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, of: &str, labels: &[&str]| {
            let name = format!("pv_collector_{name}_count");
            IntGaugeVec::new(
                Opts::new(name, format!("[ALPHA] Gauge measuring {of}")),
                labels,
            )
        };
        let class = ["storage_class"];
        let of_claim = ["namespace", "storage_class", "volume_attributes_class"];
        Ok(Self {
            caches: Arc::default(),
            volumes: gauge(
                "total_pv",
                "total number of persistent volumes",
                &["plugin_name", "volume_mode"],
            )?,
            bound_volumes: gauge(
                "bound_pv",
                "number of persistent volume currently bound",
                &class,
            )?,
            unbound_volumes: gauge(
                "unbound_pv",
                "number of persistent volume currently unbound",
                &class,
            )?,
            bound_claims: gauge(
                "bound_pvc",
                "number of persistent volume claim currently bound",
                &of_claim,
            )?,
            unbound_claims: gauge(
                "unbound_pvc",
                "number of persistent volume claim currently unbound",
                &of_claim,
            )?,
        })
    }

    fn caches(&self) -> MutexGuard<'_, Option<Arc<Caches>>> {
        self.caches.lock()
    }

    fn families(&self) -> [&IntGaugeVec; 5] {
        [
            &self.volumes,
            &self.bound_volumes,
            &self.unbound_volumes,
            &self.bound_claims,
            &self.unbound_claims,
        ]
    }

    /// Upstream: `pvCollect` and `pvcCollect`. All phases but `Bound` count as unbound. The class of a
    /// volume is only that of its field, and that of a claim also that of the older annotation, as
    /// upstream.
    fn compute(&self, caches: &Caches) {
        for volume in caches.volumes().all() {
            let mode = volume.spec.volume_mode.as_deref().unwrap_or("Filesystem");
            let plugin = name_of_source(volume);
            self.volumes.with_label_values(&[plugin, mode]).inc();
            let by_class = match volume.status.phase.as_str() {
                "Bound" => &self.bound_volumes,
                _ => &self.unbound_volumes,
            };
            let class = volume.spec.storage_class_name.as_str();
            by_class.with_label_values(&[class]).inc();
        }
        for claim in caches.claims().all() {
            let by_class = match claim.status.phase.as_str() {
                "Bound" => &self.bound_claims,
                _ => &self.unbound_claims,
            };
            let attributes = claim.spec.volume_attributes_class_name.as_deref();
            let labels = [
                claim.meta.namespace.as_str(),
                claim.class(),
                attributes.unwrap_or_default(),
            ];
            by_class.with_label_values(&labels).inc();
        }
    }
}

impl Collector for Counts {
    fn desc(&self) -> Vec<&Desc> {
        self.families()
            .into_iter()
            .flat_map(Collector::desc)
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The lock also keeps two scrapes apart.
        let caches = self.caches();
        let families = self.families();
        families.into_iter().for_each(IntGaugeVec::reset);
        if let Some(caches) = &*caches {
            self.compute(caches);
        }
        families.into_iter().flat_map(Collector::collect).collect()
    }
}
