//! Hands each controller the flags that are its own.

use steersman_controllers::deployment::DeploymentConfig;
use steersman_controllers::garbagecollector::GarbageCollectorConfig;
use steersman_controllers::namespace::NamespaceConfig;
use steersman_controllers::podgc::PodGcConfig;
use steersman_controllers::replicaset::ReplicaSetConfig;
use steersman_controllers::replicationcontroller::ReplicationControllerConfig;
use steersman_runtime::controller::ControllerContext;

use crate::options::Options;

/// Adds the configuration of every controller we ship.
pub(crate) fn configure(context: ControllerContext, options: &Options) -> ControllerContext {
    context
        .with_config(options.controller_config::<DeploymentConfig>())
        .with_config(options.controller_config::<GarbageCollectorConfig>())
        .with_config(options.controller_config::<NamespaceConfig>())
        .with_config(options.controller_config::<PodGcConfig>())
        .with_config(options.controller_config::<ReplicaSetConfig>())
        .with_config(options.controller_config::<ReplicationControllerConfig>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_of_the_controllers_agree_with_the_table() {
        let mut options = Options::default();
        assert_eq!(options.controller_config::<DeploymentConfig>(), DeploymentConfig::default());
        assert_eq!(options.controller_config::<GarbageCollectorConfig>(), GarbageCollectorConfig::default());
        assert_eq!(options.controller_config::<NamespaceConfig>(), NamespaceConfig::default());
        assert_eq!(options.controller_config::<PodGcConfig>(), PodGcConfig::default());
        assert_eq!(options.controller_config::<ReplicaSetConfig>(), ReplicaSetConfig::default());
        let replication = ReplicationControllerConfig::default();
        assert_eq!(options.controller_config::<ReplicationControllerConfig>(), replication);
        for flag in [
            "concurrent-deployment-syncs",
            "concurrent-namespace-syncs",
            "terminated-pod-gc-threshold",
            "concurrent-replicaset-syncs",
            "concurrent-rc-syncs",
        ] {
            options.set(flag, "-7").unwrap();
        }
        options.set("namespace-sync-period", "1m30s").unwrap();
        assert_eq!(options.controller_config::<DeploymentConfig>().concurrent_syncs, -7);
        let namespace = options.controller_config::<NamespaceConfig>();
        assert_eq!((namespace.concurrent_syncs, namespace.sync_period.as_secs()), (-7, 90));
        assert_eq!(options.controller_config::<PodGcConfig>().terminated_pod_gc_threshold, -7);
        assert_eq!(options.controller_config::<ReplicaSetConfig>().concurrent_syncs, -7);
        assert_eq!(options.controller_config::<ReplicationControllerConfig>().concurrent_syncs, -7);
    }
}
