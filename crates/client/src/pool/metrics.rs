//! The metrics of connections, and of waits for their streams.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntGauge, IntGaugeVec, Opts, Registry,
    exponential_buckets,
};

/// The families of all pools of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct PoolMetrics {
    connections: IntGaugeVec,
    waits: HistogramVec,
}

impl PoolMetrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let connections = Opts::new(
            "steersman_client_connections",
            "[ALPHA] Open connections to API servers, by what they carry: requests or watches.",
        );
        let waits = HistogramOpts::new(
            "steersman_client_stream_wait_seconds",
            "[ALPHA] Time that requests waited for a connection with a free stream; those that found one at once are not counted.",
        );
        // 1 ms to 65 s.
        let waits = waits.buckets(exponential_buckets(0.001, 4.0, 9)?);
        Ok(Self {
            connections: IntGaugeVec::new(connections, &["lane"])?,
            waits: HistogramVec::new(waits, &["lane"])?,
        })
    }

    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.connections.clone()))?;
        registry.register(Box::new(self.waits.clone()))
    }

    pub(super) fn of(&self, lane: &str) -> LaneMetrics {
        LaneMetrics {
            connections: self.connections.with_label_values(&[lane]),
            waits: self.waits.with_label_values(&[lane]),
        }
    }
}

/// The series of one lane.
pub(super) struct LaneMetrics {
    connections: IntGauge,
    waits: Histogram,
}

impl LaneMetrics {
    /// Counts an open connection until the returned guard is dropped.
    pub(super) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    pub(super) fn waited(&self, time: Duration) {
        self.waits.observe(time.as_secs_f64());
    }
}

pub(super) struct Connected(IntGauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}
