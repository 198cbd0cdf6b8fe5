//! The connections of one process, and what is counted of how they come to be: upstream's families of transports and credential plugins.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use kube::config::ExecConfig;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry};

use super::connect::{ConnectError, PINGS, connect_with};
use super::plugin::Plugin;
#[cfg(test)]
use super::pool::Pings;
use super::pool::PoolMetrics;
use super::service::HttpService;

/// Bounds of the ages at which certificates are replaced: minutes to years.
const AGES: &[f64] =
    &[600.0, 1800.0, 3600.0, 14400.0, 86400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 15_552_000.0, 31_104_000.0, 124_416_000.0];

type Plugins = Arc<RwLock<Vec<Arc<Plugin>>>>;

/// Opens connections. Those with the same credential plugin share it, so that it runs once. Cheap to clone; clones are one.
#[derive(Debug, Clone)]
pub struct Transports {
    plugins: Plugins,
    plugin_metrics: PluginMetrics,
    authority_reloads: IntCounterVec,
    certificate_collections: IntCounter,
    pool_metrics: PoolMetrics,
}

impl Transports {
    /// None yet.
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
            // Connections are there for as long as the process is; nothing collects them.
            certificate_collections: IntCounter::new(
                "rest_client_transport_cert_rotation_gc_calls_total",
                "[ALPHA] Number of times a watch on certificates ended together with its transport; transports never end here.",
            )?,
        })
    }

    /// Shows what is counted.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        self.pool_metrics.register(registry)?;
        registry.register(Box::new(self.authority_reloads.clone()))?;
        registry.register(Box::new(self.certificate_collections.clone()))?;
        registry.register(Box::new(self.plugin_metrics.calls.clone()))?;
        registry.register(Box::new(self.plugin_metrics.ages.clone()))?;
        registry.register(Box::new(Remaining::new(Arc::clone(&self.plugins))?))
    }

    /// A client of the API server of `config`, with connections of its own. No request is made yet; must be called inside a runtime.
    /// Where the server speaks HTTP/2, requests share a connection up to the server's limit of streams, and so do watches; further
    /// connections are opened as that limit demands.
    ///
    /// Connections go through `config.proxy_url`, else through the proxy of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    pub fn connect(&self, config: &kube::Config) -> Result<HttpService, ConnectError> {
        connect_with(config, PINGS, self)
    }

    #[cfg(test)]
    pub(super) fn connect_with(&self, config: &kube::Config, pings: Pings) -> Result<HttpService, ConnectError> {
        connect_with(config, pings, self)
    }

    /// The plugin of these settings.
    pub(super) fn plugin(&self, exec: &ExecConfig) -> Arc<Plugin> {
        let mut plugins = self.plugins.write().unwrap_or_else(PoisonError::into_inner);
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

/// What is counted of credential plugins.
#[derive(Debug, Clone)]
pub(super) struct PluginMetrics {
    calls: IntCounterVec,
    ages: Histogram,
}

impl PluginMetrics {
    fn new() -> Result<Self, prometheus::Error> {
        let calls = Opts::new(
            "rest_client_exec_plugin_call_total",
            "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, \
             plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code will be \
             set to 0 if and only if the plugin call was successful.",
        );
        let ages = HistogramOpts::new(
            "rest_client_exec_plugin_certificate_rotation_age",
            "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If \
             auth exec plugin client certificates are unused, histogram will contain no data.",
        );
        let ages = Histogram::with_opts(ages.buckets(AGES.to_vec()))?;
        Ok(Self { calls: IntCounterVec::new(calls, &["call_status", "code"])?, ages })
    }

    /// A program ended so.
    pub(super) fn ended(&self, status: ExitStatus) {
        // Go's code of a process that a signal ended.
        let code = status.code().or_else(|| status.signal().map(|_| -1)).unwrap_or(1);
        let call_status = if status.success() { "no_error" } else { "plugin_execution_error" };
        self.calls.with_label_values(&[call_status, &code.to_string()]).inc();
    }

    /// A program could not be started.
    pub(super) fn not_started(&self, error: &std::io::Error) {
        let is_missing = matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied);
        let call_status = if is_missing { "plugin_not_found_error" } else { "client_internal_error" };
        self.calls.with_label_values(&[call_status, "1"]).inc();
    }

    /// A certificate was replaced that was this many seconds old.
    pub(super) fn rotated(&self, seconds: f64) {
        self.ages.observe(seconds);
    }
}

/// How long the certificates of plugins are still good; looked at on each scrape.
struct Remaining {
    plugins: Plugins,
    // Set and read under one lock, so that two scrapes do not mix.
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
        let description = gauge.desc().into_iter().next().expect("a gauge has a description").clone();
        Ok(Self { plugins, gauge: Mutex::new(gauge), description })
    }
}

impl Collector for Remaining {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let plugins = self.plugins.read().unwrap_or_else(PoisonError::into_inner);
        let first = plugins.iter().filter_map(|plugin| plugin.certificate_ends()).min();
        let now = Timestamp::now().as_duration().as_secs_f64();
        let seconds = first.map_or(f64::INFINITY, |end| end as f64 - now);
        let gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        gauge.set(seconds);
        gauge.collect()
    }
}
