//! Opens the connections of one process, and registers upstream's metrics of transports and
//! credential plugins.
//!
//! Upstream: `client-go/transport` and `client-go/plugin/pkg/client/auth/exec`.

use std::sync::Arc;

use jiff::Timestamp;
use kube::config::ExecConfig;
use parking_lot::{Mutex, RwLock};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntCounter, IntCounterVec, Opts, Registry};

use super::plugin::Plugin;
use super::plugin_metrics::PluginMetrics;
use super::pool::PoolMetrics;

type Plugins = Arc<RwLock<Vec<Arc<Plugin>>>>;

/// Opens connections. Connections with the same credential plugin share it, so that it runs once.
/// Cheap to clone; clones share one state.
#[derive(Debug, Clone)]
pub struct Transports {
    plugins: Plugins,
    plugin_metrics: PluginMetrics,
    authority_reloads: IntCounterVec,
    certificate_collections: IntCounter,
    pool_metrics: PoolMetrics,
}

impl Transports {
    /// Creates the metrics. There are no connections yet.
    pub fn new() -> Result<Self, prometheus::Error> {
        let reloads = Opts::new(
            "rest_client_transport_ca_reload_total",
            "[ALPHA] Number of times a CA reload is attempted, partitioned by the result and reason for the reload attempt",
        );
        Ok(Self {
            plugins: Plugins::default(),
            plugin_metrics: PluginMetrics::new()?,
            pool_metrics: PoolMetrics::new()?,
            authority_reloads: IntCounterVec::new(reloads, &["reason", "result"])?,
            // Always zero: transports exist until the end of the process.
            certificate_collections: IntCounter::new(
                "rest_client_transport_cert_rotation_gc_calls_total",
                "[ALPHA] Number of times a watch on certificates ended together with its transport; transports never end here.",
            )?,
        })
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        self.pool_metrics.register(registry)?;
        registry.register(Box::new(self.authority_reloads.clone()))?;
        registry.register(Box::new(self.certificate_collections.clone()))?;
        self.plugin_metrics.register(registry)?;
        registry.register(Box::new(Remaining::new(Arc::clone(&self.plugins))?))
    }

    /// The plugin with these settings. A new one is created if there is none.
    pub(super) fn plugin(&self, exec: &ExecConfig) -> Arc<Plugin> {
        let mut plugins = self.plugins.write();
        if let Some(known) = plugins.iter().find(|plugin| plugin.is_of(exec)) {
            return Arc::clone(known);
        }
        let plugin = Arc::new(Plugin::new(exec.clone(), self.plugin_metrics.clone()));
        plugins.push(Arc::clone(&plugin));
        plugin
    }

    pub(super) fn pool_metrics(&self) -> PoolMetrics {
        self.pool_metrics.clone()
    }

    pub(super) fn authority_reloads(&self) -> IntCounterVec {
        self.authority_reloads.clone()
    }
}

/// The remaining validity of the plugins' certificates, computed at each scrape.
struct Remaining {
    plugins: Plugins,
    /// Locked while it is set and read, so that concurrent scrapes do not mix.
    gauge: Mutex<Gauge>,
    description: Desc,
}

impl Remaining {
    fn new(plugins: Plugins) -> Result<Self, prometheus::Error> {
        let gauge = Gauge::new(
            "rest_client_exec_plugin_ttl_seconds",
            "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value \
             is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS \
             certificates, the value will be +INF.",
        )?;
        let description = gauge
            .desc()
            .into_iter()
            .next()
            .expect("a gauge has a description")
            .clone();
        Ok(Self {
            plugins,
            gauge: Mutex::new(gauge),
            description,
        })
    }
}

impl Collector for Remaining {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let plugins = self.plugins.read();
        let first = plugins
            .iter()
            .filter_map(|plugin| plugin.certificate_ends())
            .min();
        let now = Timestamp::now().as_duration().as_secs_f64();
        let seconds = first.map_or(f64::INFINITY, |end| end as f64 - now);
        let gauge = self.gauge.lock();
        gauge.set(seconds);
        gauge.collect()
    }
}
