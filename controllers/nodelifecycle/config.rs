//! The flags of the node lifecycle controller. Upstream validates none of them.

use std::time::Duration;

use steersman_options::Options;

/// The flags, as typed values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    /// Pause between two passes of the health monitor. 5 s by default. It bounds how late a silent
    /// node is found.
    pub(super) monitor_period: Duration,
    /// Silence after which a node is unhealthy. 50 s by default, several times the interval at
    /// which kubelets renew their Leases.
    pub(super) monitor_grace: Duration,
    /// The same for a node without a `Ready` condition. A minute by default, since the kubelet of a
    /// new node needs time.
    pub(super) startup_grace: Duration,
    /// Nodes per second that a zone may taint for eviction. 0.1 by default: one node in ten
    /// seconds.
    pub(super) eviction_rate: f32,
    /// The same in a large zone in partial disruption.
    pub(super) secondary_eviction_rate: f32,
    /// The number of nodes up to which a zone in partial disruption taints no node.
    pub(super) large_zone: i64,
    /// The share of nodes that are not ready from which a zone is in partial disruption. Three such
    /// nodes are the least, also with a higher share.
    pub(super) unhealthy_threshold: f32,
}

impl Config {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            monitor_period: options.time("node-monitor-period"),
            monitor_grace: options.time("node-monitor-grace-period"),
            startup_grace: options.time("node-startup-grace-period"),
            eviction_rate: options.float32("node-eviction-rate"),
            secondary_eviction_rate: options.float32("secondary-node-eviction-rate"),
            large_zone: options.int("large-cluster-size-threshold"),
            unhealthy_threshold: options.float32("unhealthy-zone-threshold"),
        }
    }
}
