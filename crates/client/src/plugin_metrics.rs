//! Upstream's metrics of credential plugins (`rest_client_exec_plugin_*`).

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};

/// Upstream's buckets for the age of replaced certificates, in seconds: ten minutes to four years.
const AGES: &[f64] = &[
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// The metric handles of credential plugins.
#[derive(Debug, Clone)]
pub(super) struct PluginMetrics {
    calls: IntCounterVec,
    ages: Histogram,
}

impl PluginMetrics {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
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
        Ok(Self {
            calls: IntCounterVec::new(calls, &["call_status", "code"])?,
            ages,
        })
    }

    /// Registers the metrics.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.calls.clone()))?;
        registry.register(Box::new(self.ages.clone()))
    }

    /// Counts a program that ended with `status`.
    pub(super) fn ended(&self, status: ExitStatus) {
        // -1 is Go's exit code of a process that a signal ended.
        let code = status
            .code()
            .or_else(|| status.signal().map(|_| -1))
            .unwrap_or(1);
        let call_status = if status.success() {
            "no_error"
        } else {
            "plugin_execution_error"
        };
        self.calls
            .with_label_values(&[call_status, &code.to_string()])
            .inc();
    }

    /// Counts a program that could not be started.
    pub(super) fn not_started(&self, error: &std::io::Error) {
        let is_missing = matches!(
            error.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
        );
        let call_status = if is_missing {
            "plugin_not_found_error"
        } else {
            "client_internal_error"
        };
        self.calls.with_label_values(&[call_status, "1"]).inc();
    }

    /// Records the age of a replaced certificate.
    pub(super) fn rotated(&self, seconds: f64) {
        self.ages.observe(seconds);
    }
}
