//! The histograms of the manager.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use prometheus::HistogramOpts;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily};

use crate::NativeBuckets;

/// Whether new histograms keep native buckets.
static NATIVE: AtomicBool = AtomicBool::new(false);

/// Sets whether histograms keep native buckets, for the histograms that are made afterwards.
/// Upstream: `ApplyFeatureGates` of `component-base/metrics/features`.
pub fn keep_native_buckets(keep: bool) {
    NATIVE.store(keep, Ordering::Relaxed);
}

/// The native buckets of one series.
type Native = Arc<Mutex<NativeBuckets>>;

/// One series of observations. Clones share it.
#[derive(Debug, Clone)]
pub struct Histogram {
    classic: prometheus::Histogram,
    native: Option<Native>,
}

impl Histogram {
    /// A histogram without variable labels.
    ///
    /// # Errors
    /// The name or the bounds of the buckets are not valid.
    pub fn with_opts(opts: HistogramOpts) -> prometheus::Result<Self> {
        let native = NATIVE.load(Ordering::Relaxed);
        Ok(Self {
            native: native.then(Native::default),
            ..Self::classic(opts)?
        })
    }

    /// The same without native buckets, also if the gate is on.
    ///
    /// # Errors
    /// As [`Self::with_opts`].
    pub fn classic(opts: HistogramOpts) -> prometheus::Result<Self> {
        Ok(Self {
            classic: prometheus::Histogram::with_opts(opts)?,
            native: None,
        })
    }

    /// Counts one value.
    pub fn observe(&self, value: f64) {
        // The lock lasts until both have the value, so that a scrape sees it in both or in none.
        let mut native = self.native.as_ref().map(|native| native.lock());
        if let Some(native) = &mut native {
            native.observe(value);
        }
        self.classic.observe(value);
    }

    /// Number of observations.
    pub fn get_sample_count(&self) -> u64 {
        self.classic.get_sample_count()
    }

    /// Sum of all observations.
    pub fn get_sample_sum(&self) -> f64 {
        self.classic.get_sample_sum()
    }
}

impl Collector for Histogram {
    fn desc(&self) -> Vec<&Desc> {
        self.classic.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let native = self.native.as_ref().map(|native| native.lock());
        let mut families = self.classic.collect();
        if let Some(native) = native {
            for metric in families.iter_mut().flat_map(MetricFamily::mut_metric) {
                native.attach(metric);
            }
        }
        families
    }
}

/// The native buckets of a family by label values, in the order of its labels.
type SeriesByValues = HashMap<Vec<String>, Native>;

/// A family of histograms with the same labels.
#[derive(Debug, Clone)]
pub struct HistogramVec {
    classic: prometheus::HistogramVec,
    labels: Arc<[String]>,
    native: Option<Arc<Mutex<SeriesByValues>>>,
}

impl HistogramVec {
    /// A family without series.
    ///
    /// # Errors
    /// The name, a label or the bounds of the buckets are not valid.
    pub fn new(opts: HistogramOpts, labels: &[&str]) -> prometheus::Result<Self> {
        let native = NATIVE.load(Ordering::Relaxed);
        Ok(Self {
            classic: prometheus::HistogramVec::new(opts, labels)?,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            native: native.then(Arc::default),
        })
    }

    /// The series with these label values, which is made if it does not exist.
    ///
    /// # Panics
    /// The number of values differs from that of the labels.
    pub fn with_label_values<V>(&self, values: &[V]) -> Histogram
    where
        V: AsRef<str> + std::fmt::Debug,
    {
        let native = self.native.as_ref().map(|series| {
            let values = values.iter().map(|value| value.as_ref().to_owned());
            series.lock().entry(values.collect()).or_default().clone()
        });
        Histogram {
            classic: self.classic.with_label_values(values),
            native,
        }
    }

    /// The label values of `metric`, in the order of `labels`.
    fn values_of(&self, metric: &Metric) -> Vec<String> {
        let value_of = |label: &String| {
            let mut pairs = metric.get_label().iter();
            let pair = pairs.find(|pair| pair.name() == label);
            pair.map_or_else(String::new, |pair| pair.value().to_owned())
        };
        self.labels.iter().map(value_of).collect()
    }
}

impl Collector for HistogramVec {
    fn desc(&self) -> Vec<&Desc> {
        self.classic.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.classic.collect();
        if let Some(native) = &self.native {
            let native = native.lock();
            for metric in families.iter_mut().flat_map(MetricFamily::mut_metric) {
                if let Some(buckets) = native.get(&self.values_of(metric)) {
                    buckets.lock().attach(metric);
                }
            }
        }
        families
    }
}
