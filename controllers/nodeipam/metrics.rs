//! Metrics of the node IPAM controller, under upstream's names.

use prometheus::{Counter, CounterVec, Gauge, GaugeVec, HistogramOpts, Opts, Registry};
use steersman_metrics::{Histogram, HistogramVec};

use super::cidr_set::CidrSet;

/// The metric families. The label `clusterCIDR` is a range of `--cluster-cidr`.
#[derive(Debug, Clone)]
pub(super) struct IpamMetrics {
    allocations: CounterVec,
    releases: CounterVec,
    max: GaugeVec,
    /// A share from 0 to 1, although its help calls it a percentage.
    usage: GaugeVec,
    /// Used blocks that one search skipped.
    tries: HistogramVec,
    /// Upstream's family of all controllers with `RunWithMetrics`, of which this is the only one
    /// here.
    running: GaugeVec,
}

/// The series of one cluster CIDR.
#[derive(Debug)]
pub(super) struct SetMetrics {
    allocations: Counter,
    releases: Counter,
    usage: Gauge,
    tries: Histogram,
}

impl IpamMetrics {
    /// Registers the families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const LABELS: &[&str] = &["clusterCIDR"];
        let opts = |name: &str, help: &str| {
            Opts::new(
                format!("node_ipam_controller_{name}"),
                format!("[ALPHA] {help}"),
            )
        };
        let counter = |name, help| {
            let counter = CounterVec::new(opts(name, help), LABELS)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |opts: Opts, labels: &[&str]| {
            let gauge = GaugeVec::new(opts, labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let tries = opts(
            "cidrset_allocation_tries_per_request",
            // As upstream: the text of another metric.
            "Number of endpoints added on each Service sync",
        );
        let tries = HistogramVec::new(
            HistogramOpts::from(tries).buckets(vec![1.0, 5.0, 25.0, 125.0, 625.0]),
            LABELS,
        )?;
        registry.register(Box::new(tries.clone()))?;
        Ok(Self {
            allocations: counter(
                "cidrset_cidrs_allocations_total",
                "Counter measuring total number of CIDR allocations.",
            )?,
            releases: counter(
                "cidrset_cidrs_releases_total",
                "Counter measuring total number of CIDR releases.",
            )?,
            max: gauge(
                opts(
                    // The name has upstream's spelling.
                    "cirdset_max_cidrs",
                    "Maximum number of CIDRs that can be allocated.",
                ),
                LABELS,
            )?,
            usage: gauge(
                opts(
                    "cidrset_usage_cidrs",
                    "Gauge measuring percentage of allocated CIDRs.",
                ),
                LABELS,
            )?,
            tries,
            running: gauge(
                Opts::new(
                    "running_managed_controllers",
                    "[BETA] Indicates where instances of a controller are currently running",
                ),
                &["name", "manager"],
            )?,
        })
    }

    /// The series of a cluster CIDR.
    pub(super) fn of(&self, set: &CidrSet) -> SetMetrics {
        let cluster = set.cluster().to_string();
        let label = &[&*cluster];
        self.max.with_label_values(label).set(set.size() as f64);
        SetMetrics {
            allocations: self.allocations.with_label_values(label),
            releases: self.releases.with_label_values(label),
            usage: self.usage.with_label_values(label),
            tries: self.tries.with_label_values(label),
        }
    }

    /// The controller runs, or has stopped.
    pub(super) fn running(&self, is_running: bool) {
        self.running
            .with_label_values(&["nodeipam", "kube-controller-manager"])
            .set(f64::from(u8::from(is_running)));
    }
}

impl SetMetrics {
    /// A block was allocated, after the search skipped `tries` used ones.
    pub(super) fn allocated(&self, tries: u64) {
        self.allocations.inc();
        self.tries.observe(tries as f64);
    }

    /// A block is in use.
    pub(super) fn occupied(&self) {
        self.allocations.inc();
    }

    /// A block is free.
    pub(super) fn released(&self) {
        self.releases.inc();
    }

    /// The number of used blocks may have changed.
    pub(super) fn usage(&self, set: &CidrSet) {
        self.usage.set(set.count() as f64 / set.size() as f64);
    }
}
