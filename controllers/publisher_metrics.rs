//! Metrics of the controllers that publish certificates of the API server, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

/// Names and help texts of the families of one publisher.
pub(crate) struct Families {
    /// The counter of syncs.
    pub(crate) syncs: (&'static str, &'static str),
    /// The histogram of their durations, in seconds.
    pub(crate) durations: (&'static str, &'static str),
}

/// The metric families; the label `code` is the HTTP status of the sync.
#[derive(Debug, Clone)]
pub(crate) struct PublisherMetrics {
    syncs: IntCounterVec,
    durations: HistogramVec,
}

impl PublisherMetrics {
    /// Registers both families.
    ///
    /// # Errors
    /// If the registry has a family of the same name.
    pub(crate) fn register(
        registry: &Registry,
        families: &Families,
    ) -> Result<Self, prometheus::Error> {
        let (name, help) = families.durations;
        let durations = HistogramOpts::new(name, help);
        let (name, help) = families.syncs;
        let metrics = Self {
            syncs: IntCounterVec::new(Opts::new(name, help), &["code"])?,
            durations: HistogramVec::new(
                durations.buckets(exponential_buckets(0.001, 2.0, 15)?),
                &["code"],
            )?,
        };
        registry.register(Box::new(metrics.syncs.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        Ok(metrics)
    }

    /// Counts a sync with the HTTP status `code`, which took `took`.
    pub(crate) fn synced(&self, code: u16, took: Duration) {
        let code = &[code.to_string()];
        self.syncs.with_label_values(code).inc();
        self.durations
            .with_label_values(code)
            .observe(took.as_secs_f64());
    }
}
