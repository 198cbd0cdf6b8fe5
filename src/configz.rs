//! `/configz`: the effective configuration as upstream's `KubeControllerManagerConfiguration`.
//!
//! Fields have upstream's names and order, including those of controllers that Steersman does not
//! have, because tools read them. Upstream: `pkg/controller/apis/config`.

use serde_json::Value as Json;
use steersman_releases::Release;

use crate::command_line::{Options, Value};

/// The source of a field's value.
enum Source {
    /// The flag of this name.
    Flag(&'static str),
    /// The list `--controllers`, with canonical names.
    Controllers,
    /// The element of `--service-cluster-ip-range` at this index.
    ServiceCidr(usize),
    /// A constant, as JSON text; no flag sets this field.
    Fixed(&'static str),
}

use Source::{Controllers, Fixed, Flag, ServiceCidr};

/// Renders the document of `release` as a single line of JSON, without a line break at the end.
pub(crate) fn render(options: &Options, controllers: &[String], release: Release) -> String {
    let mut out = r#"{"kubecontrollermanager.config.k8s.io":{"#.to_owned();
    let mut open: Vec<String> = Vec::new();
    let mut first = true;
    for (path, source) in FIELDS {
        let Some(mut groups) = names(path, release) else {
            continue;
        };
        let field = groups.pop().unwrap_or_default();
        let shared = open.iter().zip(&groups).take_while(|(a, b)| a == b).count();
        if open.len() > shared {
            out.push_str(&"}".repeat(open.len() - shared));
            first = false;
        }
        for group in &groups[shared..] {
            out.push_str(&format!(
                "{}{}:{{",
                if first { "" } else { "," },
                Json::from(&**group)
            ));
            first = true;
        }
        let value = json(source, options, controllers);
        out.push_str(&format!(
            "{}{}:{value}",
            if first { "" } else { "," },
            Json::from(field)
        ));
        first = false;
        open = groups;
    }
    out.push_str(&"}".repeat(open.len() + 2));
    out
}

/// The value of a field as JSON text. Numbers and bools are printed as such, all other values as
/// strings.
fn json(source: &Source, options: &Options, controllers: &[String]) -> String {
    match source {
        Flag(name) => match options.value(name) {
            number @ (Value::Int(_) | Value::Bool(_) | Value::Float32(_) | Value::Float(_)) => {
                number.to_string()
            }
            text => Json::from(text.to_string()).to_string(),
        },
        Controllers => Json::from(controllers).to_string(),
        ServiceCidr(at) => {
            let range = options.text("service-cluster-ip-range");
            Json::from(range.split(',').nth(*at).unwrap_or_default()).to_string()
        }
        Fixed(text) => (*text).to_owned(),
    }
}

/// The names in the path of a field in the document of `release`; `None` if the release lacks the field.
fn names(path: &str, release: Release) -> Option<Vec<String>> {
    let names = path.split('.').map(|name| release.configz_name(name));
    release.has_configz_field(path).then(|| names.collect())
}

/// All fields, by path and in output order.
// One line per field keeps this readable as a table.
#[rustfmt::skip]
const FIELDS: &[(&str, Source)] = &[
    ("kind", Fixed(r#""KubeControllerManagerConfiguration""#)),
    ("apiVersion", Fixed(r#""kubecontrollermanager.config.k8s.io/v1alpha1""#)),
    ("Generic.Port", Fixed("0")),
    ("Generic.Address", Fixed(r#""0.0.0.0""#)),
    ("Generic.MinResyncPeriod", Flag("min-resync-period")),
    ("Generic.ClientConnection.kubeconfig", Flag("kubeconfig")),
    ("Generic.ClientConnection.acceptContentTypes", Fixed(r#""""#)),
    ("Generic.ClientConnection.contentType", Flag("kube-api-content-type")),
    ("Generic.ClientConnection.qps", Flag("kube-api-qps")),
    ("Generic.ClientConnection.burst", Flag("kube-api-burst")),
    ("Generic.ControllerStartInterval", Flag("controller-start-interval")),
    ("Generic.LeaderElection.leaderElect", Flag("leader-elect")),
    ("Generic.LeaderElection.leaseDuration", Flag("leader-elect-lease-duration")),
    ("Generic.LeaderElection.renewDeadline", Flag("leader-elect-renew-deadline")),
    ("Generic.LeaderElection.retryPeriod", Flag("leader-elect-retry-period")),
    ("Generic.LeaderElection.resourceLock", Flag("leader-elect-resource-lock")),
    ("Generic.LeaderElection.resourceName", Flag("leader-elect-resource-name")),
    ("Generic.LeaderElection.resourceNamespace", Flag("leader-elect-resource-namespace")),
    ("Generic.Controllers", Controllers),
    ("Generic.Debugging.enableProfiling", Flag("profiling")),
    ("Generic.Debugging.enableContentionProfiling", Flag("contention-profiling")),
    ("Generic.LeaderMigrationEnabled", Flag("enable-leader-migration")),
    ("Generic.LeaderMigration.leaderName", Fixed(r#""""#)),
    ("Generic.LeaderMigration.resourceLock", Fixed(r#""""#)),
    ("Generic.LeaderMigration.controllerLeaders", Fixed("null")),
    ("KubeCloudShared.CloudProvider.Name", Flag("cloud-provider")),
    ("KubeCloudShared.CloudProvider.CloudConfigFile", Flag("cloud-config")),
    ("KubeCloudShared.ExternalCloudVolumePlugin", Flag("external-cloud-volume-plugin")),
    ("KubeCloudShared.UseServiceAccountCredentials", Flag("use-service-account-credentials")),
    ("KubeCloudShared.AllowUntaggedCloud", Flag("allow-untagged-cloud")),
    ("KubeCloudShared.RouteReconciliationPeriod", Flag("route-reconciliation-period")),
    ("KubeCloudShared.NodeMonitorPeriod", Flag("node-monitor-period")),
    ("KubeCloudShared.ClusterName", Flag("cluster-name")),
    ("KubeCloudShared.ClusterCIDR", Flag("cluster-cidr")),
    ("KubeCloudShared.AllocateNodeCIDRs", Flag("allocate-node-cidrs")),
    ("KubeCloudShared.CIDRAllocatorType", Flag("cidr-allocator-type")),
    ("KubeCloudShared.ConfigureCloudRoutes", Flag("configure-cloud-routes")),
    ("KubeCloudShared.NodeSyncPeriod", Flag("node-sync-period")),
    ("AttachDetachController.DisableAttachDetachReconcilerSync", Flag("disable-attach-detach-reconcile-sync")),
    ("AttachDetachController.ReconcilerSyncLoopPeriod", Flag("attach-detach-reconcile-sync-period")),
    ("AttachDetachController.disableForceDetachOnTimeout", Flag("disable-force-detach-on-timeout")),
    ("CSRSigningController.ClusterSigningCertFile", Flag("cluster-signing-cert-file")),
    ("CSRSigningController.ClusterSigningKeyFile", Flag("cluster-signing-key-file")),
    ("CSRSigningController.KubeletServingSignerConfiguration.CertFile", Flag("cluster-signing-kubelet-serving-cert-file")),
    ("CSRSigningController.KubeletServingSignerConfiguration.KeyFile", Flag("cluster-signing-kubelet-serving-key-file")),
    ("CSRSigningController.KubeletClientSignerConfiguration.CertFile", Flag("cluster-signing-kubelet-client-cert-file")),
    ("CSRSigningController.KubeletClientSignerConfiguration.KeyFile", Flag("cluster-signing-kubelet-client-key-file")),
    ("CSRSigningController.KubeAPIServerClientSignerConfiguration.CertFile", Flag("cluster-signing-kube-apiserver-client-cert-file")),
    ("CSRSigningController.KubeAPIServerClientSignerConfiguration.KeyFile", Flag("cluster-signing-kube-apiserver-client-key-file")),
    ("CSRSigningController.LegacyUnknownSignerConfiguration.CertFile", Flag("cluster-signing-legacy-unknown-cert-file")),
    ("CSRSigningController.LegacyUnknownSignerConfiguration.KeyFile", Flag("cluster-signing-legacy-unknown-key-file")),
    ("CSRSigningController.ClusterSigningDuration", Flag("cluster-signing-duration")),
    ("DaemonSetController.ConcurrentDaemonSetSyncs", Flag("concurrent-daemonset-syncs")),
    ("DeploymentController.ConcurrentDeploymentSyncs", Flag("concurrent-deployment-syncs")),
    ("DisruptionController.ConcurrentDisruptionSyncs", Flag("concurrent-disruption-syncs")),
    ("StatefulSetController.ConcurrentStatefulSetSyncs", Flag("concurrent-statefulset-syncs")),
    ("DeprecatedController", Fixed("{}")),
    ("EndpointController.ConcurrentEndpointSyncs", Flag("concurrent-endpoint-syncs")),
    ("EndpointController.EndpointUpdatesBatchPeriod", Flag("endpoint-updates-batch-period")),
    ("EndpointSliceController.ConcurrentServiceEndpointSyncs", Flag("concurrent-service-endpoint-syncs")),
    ("EndpointSliceController.MaxEndpointsPerSlice", Flag("max-endpoints-per-slice")),
    ("EndpointSliceController.EndpointUpdatesBatchPeriod", Flag("endpointslice-updates-batch-period")),
    ("EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs", Flag("mirroring-concurrent-service-endpoint-syncs")),
    ("EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset", Flag("mirroring-max-endpoints-per-subset")),
    ("EndpointSliceMirroringController.MirroringEndpointUpdatesBatchPeriod", Flag("mirroring-endpointslice-updates-batch-period")),
    ("EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs", Flag("concurrent-ephemeralvolume-syncs")),
    ("GarbageCollectorController.EnableGarbageCollector", Flag("enable-garbage-collector")),
    ("GarbageCollectorController.ConcurrentGCSyncs", Flag("concurrent-gc-syncs")),
    ("GarbageCollectorController.GCIgnoredResources", Fixed(r#"[{"Group":"events.k8s.io","Resource":"events"},{"Group":"","Resource":"events"}]"#)),
    ("HPAController.ConcurrentHorizontalPodAutoscalerSyncs", Flag("concurrent-horizontal-pod-autoscaler-syncs")),
    ("HPAController.HorizontalPodAutoscalerSyncPeriod", Flag("horizontal-pod-autoscaler-sync-period")),
    ("HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow", Flag("horizontal-pod-autoscaler-downscale-stabilization")),
    ("HPAController.HorizontalPodAutoscalerTolerance", Flag("horizontal-pod-autoscaler-tolerance")),
    ("HPAController.HorizontalPodAutoscalerCPUInitializationPeriod", Flag("horizontal-pod-autoscaler-cpu-initialization-period")),
    ("HPAController.HorizontalPodAutoscalerInitialReadinessDelay", Flag("horizontal-pod-autoscaler-initial-readiness-delay")),
    ("JobController.ConcurrentJobSyncs", Flag("concurrent-job-syncs")),
    ("CronJobController.ConcurrentCronJobSyncs", Flag("concurrent-cron-job-syncs")),
    ("LegacySATokenCleaner.CleanUpPeriod", Flag("legacy-service-account-token-clean-up-period")),
    ("NamespaceController.NamespaceSyncPeriod", Flag("namespace-sync-period")),
    ("NamespaceController.ConcurrentNamespaceSyncs", Flag("concurrent-namespace-syncs")),
    ("NodeIPAMController.ServiceCIDR", ServiceCidr(0)),
    ("NodeIPAMController.SecondaryServiceCIDR", ServiceCidr(1)),
    ("NodeIPAMController.NodeCIDRMaskSize", Flag("node-cidr-mask-size")),
    ("NodeIPAMController.NodeCIDRMaskSizeIPv4", Flag("node-cidr-mask-size-ipv4")),
    ("NodeIPAMController.NodeCIDRMaskSizeIPv6", Flag("node-cidr-mask-size-ipv6")),
    ("NodeLifecycleController.NodeEvictionRate", Flag("node-eviction-rate")),
    ("NodeLifecycleController.SecondaryNodeEvictionRate", Flag("secondary-node-eviction-rate")),
    ("NodeLifecycleController.NodeStartupGracePeriod", Flag("node-startup-grace-period")),
    ("NodeLifecycleController.NodeMonitorGracePeriod", Flag("node-monitor-grace-period")),
    ("NodeLifecycleController.PodEvictionTimeout", Fixed(r#""0s""#)),
    ("NodeLifecycleController.LargeClusterSizeThreshold", Flag("large-cluster-size-threshold")),
    ("NodeLifecycleController.UnhealthyZoneThreshold", Flag("unhealthy-zone-threshold")),
    ("NodeLifecycleController.NodeMonitorPeriod", Flag("node-monitor-period")),
    ("PersistentVolumeBinderController.PVClaimBinderSyncPeriod", Flag("pvclaimbinder-sync-period")),
    ("PersistentVolumeBinderController.VolumeConfiguration.EnableHostPathProvisioning", Flag("enable-hostpath-provisioner")),
    ("PersistentVolumeBinderController.VolumeConfiguration.EnableDynamicProvisioning", Flag("enable-dynamic-provisioning")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MaximumRetry", Fixed("3")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutNFS", Flag("pv-recycler-minimum-timeout-nfs")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS", Flag("pv-recycler-pod-template-filepath-nfs")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutNFS", Flag("pv-recycler-increment-timeout-nfs")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath", Flag("pv-recycler-pod-template-filepath-hostpath")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutHostPath", Flag("pv-recycler-minimum-timeout-hostpath")),
    ("PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutHostPath", Flag("pv-recycler-timeout-increment-hostpath")),
    ("PersistentVolumeBinderController.VolumeConfiguration.FlexVolumePluginDir", Flag("flex-volume-plugin-dir")),
    ("PodGCController.TerminatedPodGCThreshold", Flag("terminated-pod-gc-threshold")),
    ("ReplicaSetController.ConcurrentRSSyncs", Flag("concurrent-replicaset-syncs")),
    ("ReplicationController.ConcurrentRCSyncs", Flag("concurrent-rc-syncs")),
    ("ResourceQuotaController.ResourceQuotaSyncPeriod", Flag("resource-quota-sync-period")),
    ("ResourceQuotaController.ConcurrentResourceQuotaSyncs", Flag("concurrent-resource-quota-syncs")),
    ("SAController.ServiceAccountKeyFile", Flag("service-account-private-key-file")),
    ("SAController.ConcurrentSATokenSyncs", Flag("concurrent-serviceaccount-token-syncs")),
    ("SAController.RootCAFile", Flag("root-ca-file")),
    ("ServiceController.ConcurrentServiceSyncs", Flag("concurrent-service-syncs")),
    ("TTLAfterFinishedController.ConcurrentTTLSyncs", Flag("concurrent-ttl-after-finished-syncs")),
    ("ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs", Flag("concurrent-validating-admission-policy-status-syncs")),
    ("DeviceTaintEvictionController.ConcurrentSyncs", Flag("concurrent-device-taint-eviction-syncs")),
    ("ResourceClaimController.ConcurrentSyncs", Flag("concurrent-resourceclaim-syncs")),
];

#[cfg(test)]
mod tests {
    use steersman_releases::CONFIGZ;

    use super::*;

    /// The answer of kube-controller-manager 1.36.2 without flags.
    const DEFAULTS: &str = include_str!("configz_defaults.json");

    #[test]
    fn without_flags_the_document_equals_upstreams() {
        let document = render(&Options::default(), &["*".to_owned()], Release::DEFAULT);
        assert_eq!(document, DEFAULTS.trim_end());
    }

    /// As seen on 1.34.8, 1.35.5 and 1.36.2.
    #[test]
    fn names_are_those_of_the_release() {
        // (field, absent before the minor release, path in 1.34 or the first release with it)
        let cases = [
            ("kind", 36, "kind"),
            (
                "Generic.ClientConnection.qps",
                34,
                "Generic.ClientConnection.QPS",
            ),
            (
                "Generic.Debugging.enableProfiling",
                34,
                "Generic.Debugging.EnableProfiling",
            ),
            (
                "Generic.ControllerStartInterval",
                34,
                "Generic.ControllerStartInterval",
            ),
            (
                "DeviceTaintEvictionController.ConcurrentSyncs",
                35,
                "DeviceTaintEvictionController.ConcurrentSyncs",
            ),
            (
                "DisruptionController.ConcurrentDisruptionSyncs",
                37,
                "DisruptionController.ConcurrentDisruptionSyncs",
            ),
            (
                "NodeLifecycleController.NodeMonitorPeriod",
                37,
                "NodeLifecycleController.NodeMonitorPeriod",
            ),
        ];
        for (field, since, expected) in cases {
            let path = |minor| Some(names(field, Release::of_minor(minor))?.join("."));
            assert!(FIELDS.iter().any(|(path, _)| *path == field), "{field}");
            assert_eq!(path(since).as_deref(), Some(expected));
            assert_eq!(path(36).is_some_and(|path| path == field), since <= 36);
            if since > 34 {
                assert_eq!(path(since - 1), None, "{field}");
            }
        }
        let absent = CONFIGZ
            .iter()
            .find(|(of, ..)| !FIELDS.iter().any(|(path, _)| path == of));
        assert_eq!(absent, None);
        let old = render(&Options::default(), &[], Release::of_minor(34));
        assert!(serde_json::from_str::<Json>(&old).is_ok(), "{old}");
    }

    #[test]
    fn flag_values_appear_in_the_document() {
        let mut options = Options::default();
        for (flag, value) in [
            ("kube-api-qps", "0.5"),
            ("min-resync-period", "90m"),
            ("leader-elect", "false"),
            ("service-cluster-ip-range", "10.0.0.0/16,fd00::/108"),
            ("kubeconfig", "/etc/\"odd\"/name"),
            ("pv-recycler-timeout-increment-hostpath", "31"),
        ] {
            options.set(flag, value).unwrap();
        }
        let document: Json = serde_json::from_str(&render(
            &options,
            &["deployment-controller".to_owned()],
            Release::DEFAULT,
        ))
        .unwrap();
        let at = |path: &str| {
            document
                .pointer(&format!("/kubecontrollermanager.config.k8s.io/{path}"))
                .cloned()
                .unwrap()
        };
        assert_eq!(at("Generic/ClientConnection/qps"), 0.5);
        assert_eq!(
            at("Generic/ClientConnection/kubeconfig"),
            "/etc/\"odd\"/name"
        );
        assert_eq!(at("Generic/MinResyncPeriod"), "1h30m0s");
        assert_eq!(at("Generic/LeaderElection/leaderElect"), false);
        assert_eq!(at("Generic/Controllers/0"), "deployment-controller");
        assert_eq!(at("NodeIPAMController/ServiceCIDR"), "10.0.0.0/16");
        assert_eq!(at("NodeIPAMController/SecondaryServiceCIDR"), "fd00::/108");
        let recycler = "PersistentVolumeBinderController/VolumeConfiguration/PersistentVolumeRecyclerConfiguration";
        assert_eq!(at(&format!("{recycler}/IncrementTimeoutHostPath")), 31);
    }
}
