//! All flags of kube-controller-manager 1.36, and the few of Steersman: names, types, defaults,
//! sections.
//!
//! `--help`, `/flagz`, `/configz` and the parser use this table.

use crate::Effect::{Added, Inert, Live, Moot, Of};
use crate::Kind::{
    Bool, CertKeys, Duration, Float, Float32, Gates, Int, Int32, Int32Slice, Ip, Level, Quantity,
    String, StringMap, Strings, Version, Vmodule,
};
use crate::{Effect, Flag, Kind};

const fn flag(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: Effect,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        effect,
        help,
    }
}

/// Sections in the order of the help output. The section without a title has the hidden flags.
// One line per flag keeps this readable as a table.
#[rustfmt::skip]
pub const SECTIONS: &[(&str, &[Flag])] = &[
    ("Debugging", &[
        flag("contention-profiling", Bool, "false", Moot, "sample blocking and mutex waits; together with --profiling"),
        flag("profiling", Bool, "true", Live, "serve /debug/flags/ (there is nothing at /debug/pprof/ here)"),
    ]),
    ("Leader-migration", &[
        flag("enable-leader-migration", Bool, "false", Inert, "use a second lock for controllers moved between this manager and the cloud manager"),
        flag("leader-migration-config", String, "", Inert, "file with a LeaderMigrationConfiguration; empty = built-in defaults"),
    ]),
    ("Generic", &[
        flag("allocate-node-cidrs", Bool, "false", Of("node-ipam-controller"), "give each Node a pod CIDR (turns node-ipam on); needs --cluster-cidr"),
        flag("cidr-allocator-type", String, "RangeAllocator", Of("node-ipam-controller"), "pod CIDR allocator; any value but RangeAllocator is rejected at start"),
        flag("cloud-config", String, "", Moot, "configuration file of a cloud provider that this program was built with; ignored without one"),
        flag("cloud-provider", String, "", Moot, "cloud provider name; only empty or external pass validation"),
        flag("cluster-cidr", String, "", Of("node-ipam-controller"), "pod CIDR(s) of the cluster, up to one per IP family, comma separated; used with --allocate-node-cidrs"),
        flag("cluster-name", String, "kubernetes", Moot, "prefix of the resources of a cloud provider that this program was built with; ignored without one"),
        flag("configure-cloud-routes", Bool, "true", Added("node-route-controller"), "let the cloud route controller program routes; ignored without a cloud provider"),
        flag("controller-shutdown-timeout", Duration, "10s", Live, "how long to wait for controllers after the stop signal; 0 = no limit"),
        flag("controller-start-interval", Duration, "0s", Live, "jittered start delay of each controller (I..2I); 0 = none"),
        flag("controllers", Strings, "*", Live, "controllers to run: * is all that are on by default, foo turns foo on, -foo turns it off"),
        flag("emulated-version", Strings, "", Live, "component=major.minor to equal; kube 1.33..1.37; empty = the release of the API server"),
        flag("external-cloud-volume-plugin", String, "", Moot, "in-tree volume plugin to keep with --cloud-provider=external; ignored"),
        flag("feature-gates", Gates, "", Live, "repeatable, comma-separated [component:]Gate=<bool>"),
        flag("kube-api-burst", Int32, "30", Live, "client-side rate limiter burst, per client"),
        flag("kube-api-content-type", String, "application/vnd.kubernetes.protobuf", Inert, "media type used for requests to the API server"),
        flag("kube-api-qps", Float32, "20", Live, "client-side rate limiter rate, per client; negative = no limit"),
        flag("leader-elect", Bool, "true", Live, "run leader election before the controllers"),
        flag("leader-elect-lease-duration", Duration, "15s", Live, "time a standby waits after the last seen renewal before taking over"),
        flag("leader-elect-renew-deadline", Duration, "10s", Live, "time the leader keeps trying to renew before it gives up"),
        flag("leader-elect-resource-lock", String, "leases", Live, "lock object kind; only leases passes when election is on"),
        flag("leader-elect-resource-name", String, "kube-controller-manager", Live, "Lease name"),
        flag("leader-elect-resource-namespace", String, "kube-system", Live, "Lease namespace"),
        flag("leader-elect-retry-period", Duration, "2s", Live, "wait between attempts to acquire or renew"),
        flag("min-compatibility-version", Strings, "", Live, "oldest control plane version to stay compatible with; not above the emulated version"),
        flag("min-resync-period", Duration, "12h0m0s", Live, "lower bound of the informer resync period; the real one is drawn from 1x to 2x of this"),
        flag("node-monitor-period", Duration, "5s", Of("node-lifecycle-controller"), "how often node-lifecycle looks at Node health"),
        flag("route-reconciliation-period", Duration, "10s", Added("node-route-controller"), "cloud route sync period; ignored without a cloud provider"),
        flag("use-service-account-credentials", Bool, "false", Live, "give each controller its own service account identity"),
    ]),
    ("Service-lb-controller", &[
        flag("concurrent-service-syncs", Int32, "1", Added("service-lb-controller"), "workers of the cloud load balancer controller; ignored without a cloud provider"),
    ]),
    ("Secure serving", &[
        flag("bind-address", Ip, "0.0.0.0", Live, "listen address of the HTTPS port; unspecified address = all interfaces, both families"),
        flag("cert-dir", String, "", Live, "directory of (generated) serving certificates; empty = generated pair is kept in memory only"),
        flag("disable-http2-serving", Bool, "false", Live, "serve HTTP/1.1 only"),
        flag("http2-max-streams-per-connection", Int, "0", Live, "HTTP/2 max concurrent streams; 0 = 100 in effect"),
        flag("permit-address-sharing", Bool, "false", Moot, "set SO_REUSEADDR on the listener"),
        flag("permit-port-sharing", Bool, "false", Live, "set SO_REUSEPORT on the listener"),
        flag("secure-port", Int, "10257", Live, "HTTPS port, 0..65535; 0 = no server at all"),
        flag("tls-cert-file", String, "", Live, "serving certificate (chain) file, reloaded on change"),
        flag("tls-cipher-suites", Strings, "", Live, "allowed suites (TLS 1.2 and below); empty = runtime default"),
        flag("tls-curve-preferences", Int32Slice, "", Live, "numeric ids of allowed key exchange groups; empty = runtime default"),
        flag("tls-min-version", String, "", Live, "VersionTLS10 / 11 / 12 / 13; empty = TLS 1.2"),
        flag("tls-private-key-file", String, "", Live, "key for --tls-cert-file"),
        flag("tls-sni-cert-key", CertKeys, "", Live, "repeatable cert,key[:domain,...] pair chosen by SNI"),
    ]),
    ("Authentication", &[
        flag("authentication-kubeconfig", String, "", Live, "credentials for TokenReview and for reading the authentication ConfigMap; empty = in-cluster config if any, else bearer tokens are not checked"),
        flag("authentication-skip-lookup", Bool, "false", Live, "do not read missing CA settings from the cluster ConfigMap"),
        flag("authentication-token-webhook-cache-ttl", Duration, "10s", Live, "how long a TokenReview answer is cached"),
        flag("authentication-tolerate-lookup-failure", Bool, "false", Live, "go on when reading the ConfigMap fails (requests may end up anonymous)"),
        flag("client-ca-file", String, "", Live, "CA bundle for client certificates (CN = user, O = groups); empty = from the ConfigMap"),
        flag("requestheader-allowed-names", Strings, "", Live, "client certificate CNs allowed to act as front proxy; empty = any"),
        flag("requestheader-client-ca-file", String, "", Live, "CA bundle that a front proxy certificate must chain to"),
        flag("requestheader-extra-headers-prefix", Strings, "x-remote-extra-", Live, "prefixes of headers carrying extra user info"),
        flag("requestheader-group-headers", Strings, "x-remote-group", Live, "headers carrying groups"),
        flag("requestheader-uid-headers", Strings, "", Live, "headers carrying the UID (gate RemoteRequestHeaderUID)"),
        flag("requestheader-username-headers", Strings, "x-remote-user", Live, "headers carrying the user name"),
    ]),
    ("Authorization", &[
        flag("authorization-always-allow-paths", Strings, "/healthz,/readyz,/livez", Live, "paths served without authorization; a trailing * makes a prefix"),
        flag("authorization-kubeconfig", String, "", Live, "credentials for SubjectAccessReview; empty = in-cluster config if any, else everything not always-allowed is forbidden"),
        flag("authorization-webhook-cache-authorized-ttl", Duration, "10s", Live, "cache time of \"allowed\" answers"),
        flag("authorization-webhook-cache-unauthorized-ttl", Duration, "10s", Live, "cache time of other answers"),
    ]),
    ("Persistentvolume-attach-detach-controller", &[
        flag("attach-detach-reconcile-sync-period", Duration, "1m0s", Of("persistentvolume-attach-detach-controller"), "how often attach/detach state is checked against the volumes; at least 1s"),
        flag("disable-attach-detach-reconcile-sync", Bool, "false", Of("persistentvolume-attach-detach-controller"), "turn that check off"),
        flag("disable-force-detach-on-timeout", Bool, "false", Of("persistentvolume-attach-detach-controller"), "never force a detach after the unmount time-out"),
    ]),
    ("Certificatesigningrequest-signing-controller", &[
        flag("cluster-signing-cert-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA certificate for all signers; excludes the specific pairs"),
        flag("cluster-signing-duration", Duration, "8760h0m0s", Of("certificatesigningrequest-signing-controller"), "upper bound for the life of signed certificates"),
        flag("cluster-signing-key-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA key for all signers"),
        flag("cluster-signing-kube-apiserver-client-cert-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA certificate for signer kubernetes.io/kube-apiserver-client; needs its key flag"),
        flag("cluster-signing-kube-apiserver-client-key-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA key for signer kubernetes.io/kube-apiserver-client; needs its cert flag"),
        flag("cluster-signing-kubelet-client-cert-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA certificate for signer kubernetes.io/kube-apiserver-client-kubelet; needs its key flag"),
        flag("cluster-signing-kubelet-client-key-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA key for signer kubernetes.io/kube-apiserver-client-kubelet; needs its cert flag"),
        flag("cluster-signing-kubelet-serving-cert-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA certificate for signer kubernetes.io/kubelet-serving; needs its key flag"),
        flag("cluster-signing-kubelet-serving-key-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA key for signer kubernetes.io/kubelet-serving; needs its cert flag"),
        flag("cluster-signing-legacy-unknown-cert-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA certificate for signer kubernetes.io/legacy-unknown; needs its key flag"),
        flag("cluster-signing-legacy-unknown-key-file", String, "", Of("certificatesigningrequest-signing-controller"), "CA key for signer kubernetes.io/legacy-unknown; needs its cert flag"),
    ]),
    ("Deployment-controller", &[
        flag("concurrent-deployment-syncs", Int32, "5", Of("deployment-controller"), "deployment workers"),
    ]),
    ("Device-taint-eviction-controller", &[
        flag("concurrent-device-taint-eviction-syncs", Int32, "8", Of("device-taint-eviction-controller"), "device taint eviction workers; >0"),
    ]),
    ("Disruption-controller", &[
        flag("concurrent-disruption-syncs", Int32, "1", Of("disruption-controller"), "workers of disruption budgets; >0. Upstream since 1.37"),
    ]),
    ("Resourceclaim-controller", &[
        flag("concurrent-resourceclaim-syncs", Int32, "50", Of("resourceclaim-controller"), "resource claim workers; >0"),
    ]),
    ("Statefulset-controller", &[
        flag("concurrent-statefulset-syncs", Int32, "5", Of("statefulset-controller"), "stateful set workers; >0"),
    ]),
    ("Daemonset-controller", &[
        flag("concurrent-daemonset-syncs", Int32, "2", Of("daemonset-controller"), "daemon set workers; >0"),
    ]),
    ("Endpoints-controller", &[
        flag("concurrent-endpoint-syncs", Int32, "5", Of("endpoints-controller"), "endpoints workers"),
        flag("endpoint-updates-batch-period", Duration, "0s", Of("endpoints-controller"), "delay that batches pod changes into one endpoints update"),
    ]),
    ("Endpointslice-controller", &[
        flag("concurrent-service-endpoint-syncs", Int32, "5", Of("endpointslice-controller"), "endpoint slice workers; 1..50"),
        flag("endpointslice-updates-batch-period", Duration, "0s", Of("endpointslice-controller"), "delay that batches pod changes into one slice update"),
        flag("max-endpoints-per-slice", Int32, "100", Of("endpointslice-controller"), "endpoints per slice; 1..1000"),
    ]),
    ("Endpointslice-mirroring-controller", &[
        flag("mirroring-concurrent-service-endpoint-syncs", Int32, "5", Of("endpointslice-mirroring-controller"), "slice mirroring workers; 1..50"),
        flag("mirroring-endpointslice-updates-batch-period", Duration, "0s", Of("endpointslice-mirroring-controller"), "batching delay of slice mirroring"),
        flag("mirroring-max-endpoints-per-subset", Int32, "1000", Of("endpointslice-mirroring-controller"), "mirrored endpoints per subset; 1..1000"),
    ]),
    ("Ephemeral-volume-controller", &[
        flag("concurrent-ephemeralvolume-syncs", Int32, "5", Of("ephemeral-volume-controller"), "ephemeral volume workers; >0"),
    ]),
    ("Garbage-collector-controller", &[
        flag("concurrent-gc-syncs", Int32, "20", Of("garbage-collector-controller"), "garbage collector workers (each of the delete and orphan queues)"),
        flag("enable-garbage-collector", Bool, "true", Of("garbage-collector-controller"), "run the garbage collector; must agree with the API server flag of that name"),
    ]),
    ("Horizontal-pod-autoscaler-controller", &[
        flag("concurrent-horizontal-pod-autoscaler-syncs", Int32, "5", Of("horizontal-pod-autoscaler-controller"), "autoscaler workers; >0"),
        flag("horizontal-pod-autoscaler-cpu-initialization-period", Duration, "5m0s", Of("horizontal-pod-autoscaler-controller"), "time after pod start in which CPU samples may be skipped"),
        flag("horizontal-pod-autoscaler-downscale-stabilization", Duration, "5m0s", Of("horizontal-pod-autoscaler-controller"), "look-back window that prevents scaling below a recent recommendation"),
        flag("horizontal-pod-autoscaler-initial-readiness-delay", Duration, "30s", Of("horizontal-pod-autoscaler-controller"), "time after pod start in which readiness changes count as initial"),
        flag("horizontal-pod-autoscaler-sync-period", Duration, "15s", Of("horizontal-pod-autoscaler-controller"), "autoscaler sync period"),
        flag("horizontal-pod-autoscaler-tolerance", Float, "0.1", Of("horizontal-pod-autoscaler-controller"), "smallest deviation of the metric ratio from 1.0 that leads to scaling"),
    ]),
    ("Job-controller", &[
        flag("concurrent-job-syncs", Int32, "5", Of("job-controller"), "job workers; >0"),
    ]),
    ("Cronjob-controller", &[
        flag("concurrent-cron-job-syncs", Int32, "5", Of("cronjob-controller"), "cron job workers; >0"),
    ]),
    ("Legacy-serviceaccount-token-cleaner-controller", &[
        flag("legacy-service-account-token-clean-up-period", Duration, "8760h0m0s", Of("legacy-serviceaccount-token-cleaner-controller"), "idle time after which an auto-made token Secret is cleaned"),
    ]),
    ("Namespace-controller", &[
        flag("concurrent-namespace-syncs", Int32, "10", Of("namespace-controller"), "namespace workers"),
        flag("namespace-sync-period", Duration, "5m0s", Of("namespace-controller"), "resync period of the namespace informer handler"),
    ]),
    ("Node-ipam-controller", &[
        flag("node-cidr-mask-size", Int32, "0", Of("node-ipam-controller"), "mask for node CIDRs, single stack only; 0 = 24 (IPv4) / 64 (IPv6)"),
        flag("node-cidr-mask-size-ipv4", Int32, "0", Of("node-ipam-controller"), "IPv4 node CIDR mask; 0 = 24"),
        flag("node-cidr-mask-size-ipv6", Int32, "0", Of("node-ipam-controller"), "IPv6 node CIDR mask; 0 = 64"),
        flag("service-cluster-ip-range", String, "", Of("node-ipam-controller"), "service CIDR(s), at most two, kept out of node CIDRs; used with --allocate-node-cidrs"),
    ]),
    ("Node-lifecycle-controller", &[
        flag("large-cluster-size-threshold", Int32, "50", Of("node-lifecycle-controller"), "zone size up to which the secondary eviction rate is 0"),
        flag("node-eviction-rate", Float32, "0.1", Of("node-lifecycle-controller"), "nodes per second tainted for eviction in a healthy zone"),
        flag("node-monitor-grace-period", Duration, "50s", Of("node-lifecycle-controller"), "silence after which a Node is unhealthy"),
        flag("node-startup-grace-period", Duration, "1m0s", Of("node-lifecycle-controller"), "the same for a Node that just started"),
        flag("secondary-node-eviction-rate", Float32, "0.01", Of("node-lifecycle-controller"), "nodes per second in an unhealthy zone of more than --large-cluster-size-threshold Nodes"),
        flag("unhealthy-zone-threshold", Float32, "0.55", Of("node-lifecycle-controller"), "share of not-ready Nodes (and at least 3) that makes a zone unhealthy"),
    ]),
    ("Persistentvolume-binder-controller", &[
        flag("enable-dynamic-provisioning", Bool, "true", Of("persistentvolume-binder-controller"), "allow dynamic provisioning"),
        flag("enable-hostpath-provisioner", Bool, "false", Of("persistentvolume-binder-controller"), "allow the HostPath provisioner (tests only)"),
        flag("flex-volume-plugin-dir", String, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", Moot, "FlexVolume plugin directory"),
        flag("pv-recycler-increment-timeout-nfs", Int32, "30", Of("persistentvolume-binder-controller"), "extra seconds per GiB for NFS recycler pods"),
        flag("pv-recycler-minimum-timeout-hostpath", Int32, "60", Of("persistentvolume-binder-controller"), "minimum ActiveDeadlineSeconds of HostPath recycler pods"),
        flag("pv-recycler-minimum-timeout-nfs", Int32, "300", Of("persistentvolume-binder-controller"), "minimum ActiveDeadlineSeconds of NFS recycler pods"),
        flag("pv-recycler-pod-template-filepath-hostpath", String, "", Of("persistentvolume-binder-controller"), "pod template file for HostPath recycling"),
        flag("pv-recycler-pod-template-filepath-nfs", String, "", Of("persistentvolume-binder-controller"), "pod template file for NFS recycling"),
        flag("pv-recycler-timeout-increment-hostpath", Int32, "30", Of("persistentvolume-binder-controller"), "extra seconds per GiB for HostPath recycler pods"),
        flag("pvclaimbinder-sync-period", Duration, "15s", Of("persistentvolume-binder-controller"), "PV/PVC resync period"),
    ]),
    ("Pod-garbage-collector-controller", &[
        flag("terminated-pod-gc-threshold", Int32, "12500", Of("pod-garbage-collector-controller"), "number of terminated pods kept before the oldest are deleted; <=0 = off"),
    ]),
    ("Replicaset-controller", &[
        flag("concurrent-replicaset-syncs", Int32, "5", Of("replicaset-controller"), "replica set workers"),
    ]),
    ("Replicationcontroller-controller", &[
        flag("concurrent-rc-syncs", Int32, "5", Of("replicationcontroller-controller"), "replication controller workers"),
    ]),
    ("Resourcequota-controller", &[
        flag("concurrent-resource-quota-syncs", Int32, "5", Of("resourcequota-controller"), "quota workers (each of two queues)"),
        flag("resource-quota-sync-period", Duration, "5m0s", Of("resourcequota-controller"), "full quota recalculation period"),
    ]),
    ("Serviceaccount-controller", &[
        flag("concurrent-serviceaccount-token-syncs", Int32, "5", Of("serviceaccount-token-controller"), "token controller workers (each of two queues)"),
        flag("root-ca-file", String, "", Of("serviceaccount-token-controller"), "PEM CA bundle put into token Secrets and kube-root-ca.crt"),
        flag("service-account-private-key-file", String, "", Of("serviceaccount-token-controller"), "PEM RSA or ECDSA key; turns the token controller on"),
    ]),
    ("Ttl-after-finished-controller", &[
        flag("concurrent-ttl-after-finished-syncs", Int32, "5", Of("ttl-after-finished-controller"), "TTL-after-finished workers"),
    ]),
    ("Validatingadmissionpolicy-status-controller", &[
        flag("concurrent-validating-admission-policy-status-syncs", Int32, "5", Of("validatingadmissionpolicy-status-controller"), "policy status workers"),
    ]),
    ("Metrics", &[
        flag("allow-metric-labels", StringMap, "", Live, "metric,label='v1,v2' allow-list; other values of that label become unexpected"),
        flag("allow-metric-labels-manifest", String, "", Live, "YAML file with the same mapping, one metric,label: v1,v2 per line; not together with the flag"),
        flag("disabled-metrics", Strings, "", Live, "fully qualified names of metrics to switch off; wins over showing hidden ones"),
        flag("show-hidden-metrics-for-version", String, "", Moot, "show metrics hidden since major.minor; only the release before the followed one is accepted"),
    ]),
    ("Logs", &[
        flag("log-flush-frequency", Duration, "5s", Moot, "most time between log flushes"),
        flag("log-json-info-buffer-size", Quantity, "0", Moot, "info buffer of split JSON output (alpha, gate LoggingAlphaOptions)"),
        flag("log-json-split-stream", Bool, "false", Live, "JSON: errors to stderr, info to stdout (alpha)"),
        flag("log-text-info-buffer-size", Quantity, "0", Moot, "info buffer of split text output (alpha)"),
        flag("log-text-split-stream", Bool, "false", Live, "text: errors to stderr, info to stdout (alpha)"),
        flag("logging-format", String, "text", Live, "text, or json (gate LoggingBetaOptions, on)"),
        flag("v", Level, "0", Live, "log verbosity: 0 failures and leadership, 2 decisions, 4 syncs, 6 requests; short form -v"),
        flag("vmodule", Vmodule, "", Inert, "per-file verbosity, text format only"),
    ]),
    ("Misc", &[
        flag("kubeconfig", String, "", Live, "API server address and credentials; empty (and no --master) = in-cluster config"),
        flag("master", String, "", Live, "API server URL; wins over the kubeconfig"),
    ]),
    ("Steersman", &[
        flag("stall-timeout", Duration, "1m0s", Live, "time without any progress of syncs or requests, although there is work, after which health checks report it; after twice this time a leader gives the Lease up and exits; 0 = no limit"),
        flag("standby-informers", Bool, "true", Live, "keep the caches warm before leading, so that a takeover starts at once"),
        flag("strict-health-checks", Bool, "false", Live, "fail /healthz, /livez and /readyz for what is otherwise only reported: stuck queues, panics, dead watches"),
        flag("tracing-endpoint", String, "", Live, "host:port of an OTLP collector (gRPC, without TLS) that gets a span per sync and per write; empty = none"),
        flag("tracing-sampling-rate-per-million", Int32, "1000000", Live, "how many of a million syncs are traced; together with --tracing-endpoint"),
        flag("ui", Bool, "false", Live, "serve a page about stuck objects, roll-outs, queues and writes at /ui/, with the rights of the caller"),
    ]),
    ("Global", &[
        flag("help", Bool, "false", Live, "print help, exit 0; short form -h"),
        flag("version", Version, "false", Live, "print Kubernetes v<semver> and exit 0; =raw prints the whole version record; =vX.Y.Z... reports another version with the same major.minor.patch"),
    ]),
    ("", &[
        flag("allow-untagged-cloud", Bool, "false", Moot, "this flag is deprecated and has no effect"),
        flag("node-sync-period", Duration, "0s", Moot, "this flag is deprecated and has no effect"),
    ]),
];
