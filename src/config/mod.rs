//! The configuration of a manager: complete, checked, and immutable.
//!
//! `Options` (flags as typed) -> checks -> [`Config`]
//!
//! All checks run before anything starts. Errors of feature gates come alone, then those of logs; all others are
//! reported at once, as upstream's `Validate` functions do. Upstream: `cmd/kube-controller-manager/app/options`.

mod logging;
mod metrics;
mod serving;

use std::path::PathBuf;
use std::time::Duration;

use crate::command_line::Options;
use crate::configz;
pub use crate::features::{FeatureError, Features, Release, Releases};
use crate::registry::{ControllerRegistry, Selection, UnknownController};
use crate::spans;
pub use metrics::{AllowedValues, MetricsSettings};
pub use serving::{
    Access, AuthenticationSettings, AuthorizationSettings, Certificate, Delegation, NamedPair,
    Pair, ProxyHeaders, Serving, Tls,
};

/// The settings of a manager.
#[derive(Debug, Clone)]
pub struct Config {
    /// File with address and credentials of the API server; `None` means the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server; it takes precedence over the kubeconfig's.
    pub master: Option<String>,
    /// Requests per second of each client; zero or less means unlimited.
    pub qps: f32,
    /// Requests that each client may send in a burst.
    pub burst: u32,
    /// Whether each controller uses the credentials of its own service account.
    pub service_account_credentials: bool,
    /// Leader election; `None` starts the controllers without it.
    pub election: Option<ElectionSettings>,
    /// The controllers to run.
    pub controllers: Selection,
    /// Delay before each controller starts; the actual delay is one to two times this.
    pub start_interval: Duration,
    /// Time limit for controllers to stop; `None` means unlimited.
    pub shutdown_timeout: Option<Duration>,
    /// Resync period of informers; the actual period is one to two times this.
    pub min_resync: Duration,
    /// Time without progress after which a health check reports a stall. After twice this time, a
    /// leader gives up the Lease. `None` disables both.
    pub stall_timeout: Option<Duration>,
    /// Whether a standby fills its caches.
    pub standby_informers: bool,
    /// Whether the HTTPS port serves the page `/ui/`.
    pub ui: bool,
    /// Whether degraded health checks fail their probe.
    pub strict_health_checks: bool,
    /// The HTTPS server; `None` disables it.
    pub serving: Option<Serving>,
    /// The content of `/metrics`.
    pub metrics: MetricsSettings,
    /// The state of every feature gate.
    pub features: Features,
    /// Flags and feature gates that were set and have no effect yet.
    pub without_effect: Vec<String>,
    /// Controllers that run without workers: their flag and its value, zero or negative.
    pub without_workers: Vec<(&'static str, i64)>,
    options: Options,
    /// The controllers of all releases.
    registry: ControllerRegistry,
}

/// The Lease, and the durations of leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Time after the last observed renewal before a standby may take the Lease.
    pub lease_duration: Duration,
    /// Time for which the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
    /// Whether the API server chooses the leader: the feature gate `CoordinatedLeaderElection`.
    pub coordinated: bool,
}

/// The address in the advice to users of a built-in cloud provider.
const SAMPLE_PROVIDER: &str =
    "https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/cloud-provider/sample";

/// A value that has the right type but is not allowed. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `--controllers` names an unknown controller.
    #[error(transparent)]
    UnknownController(#[from] UnknownController),
    /// A resource lock other than `leases`.
    #[error("resourceLock value must be \"leases\"")]
    ResourceLock,
    /// A cloud provider other than `external`.
    #[error(
        "cloud provider {0:?} was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and \
         migrate to an external cloud provider"
    )]
    CloudProvider(String),
    /// A CIDR allocator other than `RangeAllocator`.
    #[error("built-in cloud providers are disabled. The ipam {0} is not available")]
    CidrAllocator(String),
    /// A port above 65535.
    #[error(
        "--secure-port {0} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    )]
    PortTooHigh(i64),
    /// A port below 0.
    #[error(
        "--secure-port {0} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    )]
    PortTooLow(i64),
    /// A number out of bounds: flag, rule, value.
    #[error("{0} must {1}, but got {2}")]
    Bound(&'static str, &'static str, i64),
    /// As `Bound`, in the wording of two newer upstream flags.
    #[error("{0} must be {1}, got {2}")]
    NewerBound(&'static str, &'static str, i64),
    /// A period below one second.
    #[error(
        "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"
    )]
    AttachDetachPeriod,
    /// Only one of the two files of a signer is set: upstream's name of the signer, and the rule.
    #[error("{0:?}: {1}")]
    SigningPair(&'static str, &'static str),
    /// Common files and files of single signers are set.
    #[error(
        "cannot specify --cluster-signing-{{cert,key}}-file and other --cluster-signing-*-file flags at the same time"
    )]
    SigningFiles,
    /// More than two service CIDRs.
    #[error("--service-cluster-ip-range can not contain more than two entries")]
    ServiceCidrs,
    /// A flag about metrics.
    #[error("{0}")]
    Metrics(String),
    /// An invalid address of the trace collector.
    #[error(
        "--tracing-endpoint {0:?} must be host:port, or a URL that begins with http:// and has a port"
    )]
    TracingEndpoint(String),
    /// A period between flushes of the log that is not positive.
    #[error("flushFrequency: Invalid value: {0:?}: Must be greater than zero")]
    FlushFrequency(String),
    /// An unknown log format.
    #[error("format: Invalid value: {0:?}: Unsupported log format")]
    LogFormat(String),
    /// A log format behind a feature gate that is off.
    #[error("format: Forbidden: Log format {0} is disabled, see LoggingBetaOptions feature")]
    LogFormatOff(String),
    /// Verbosities of files, with another log format than text.
    #[error("vmodule: Forbidden: Only supported for text log format")]
    Vmodule,
    /// An option of logs behind a feature gate that is off.
    #[error("options.{0}: Forbidden: Feature LoggingAlphaOptions is disabled")]
    LogOption(&'static str),
    /// An invalid feature gate or emulated version.
    #[error(transparent)]
    Feature(#[from] FeatureError),
    /// Only one of certificate and key is set.
    #[error("need to specify both --tls-cert-file and --tls-private-key-file, or neither")]
    HalfAPair,
    /// An empty header name.
    #[error("empty value in {0:?}")]
    EmptyHeader(&'static str),
    /// UID headers without the standard one.
    #[error(
        "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work"
    )]
    UidHeaders,
    /// UID headers without their feature gate.
    #[error(
        "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled"
    )]
    UidHeadersOff,
    /// A `*` that is not the last character.
    #[error("only trailing * allowed in {0:?}")]
    Star(String),
    /// An unknown TLS version.
    #[error("unknown tls version {0:?}")]
    TlsVersion(String),
    /// A key exchange group outside the 16-bit range.
    #[error("curve preference {0} is out of range (must be 1-65535)")]
    CurveRange(i64),
    /// A key exchange group that is listed twice.
    #[error("duplicate curve preference {0}")]
    CurveTwice(u16),
    /// A key exchange group that Go does not know.
    #[error("curve preference {0} is not supported by the current Go version")]
    Curve(u16),
}

impl ConfigError {
    /// Whether upstream finds this error before it selects the format of its log. The error is then logged as text.
    pub(crate) fn precedes_logs(&self) -> bool {
        matches!(
            self,
            Self::Feature(_)
                | Self::FlushFrequency(_)
                | Self::LogFormat(_)
                | Self::LogFormatOff(_)
                | Self::Vmodule
                | Self::LogOption(_)
        )
    }

    /// The information and the warning that upstream logs before this error, if there are any. The
    /// missing blank is upstream's.
    pub fn advice(&self) -> Option<(String, String)> {
        let Self::CloudProvider(name) = self else {
            return None;
        };
        let information = format!(
            "INFO: Please make sure you are running an external cloud controller manager binary for provider {name:?}.\
             In-tree cloud providers are disabled. Refer to {SAMPLE_PROVIDER} for an example implementation."
        );
        let warning = format!(
            "WARNING: built-in cloud providers are disabled. Please set \"--cloud-provider=external\" and migrate to an \
             external cloud controller manager for provider {name:?}"
        );
        Some((information, warning))
    }
}

/// Joins errors as upstream prints them: a single one as it is, several in brackets.
pub fn join_errors(errors: &[ConfigError]) -> String {
    match errors {
        [one] => one.to_string(),
        several => format!(
            "[{}]",
            several
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// Flags with values that must be greater than zero.
const POSITIVE: &[&str] = &[
    "concurrent-cron-job-syncs",
    "concurrent-daemonset-syncs",
    "concurrent-disruption-syncs",
    "concurrent-ephemeralvolume-syncs",
    "concurrent-horizontal-pod-autoscaler-syncs",
    "concurrent-job-syncs",
    "concurrent-statefulset-syncs",
];

/// Flags with a minimum of 1 and this maximum: flag, maximum, rule in the message.
const BOUNDED: &[(&str, i64, &str)] = &[
    (
        "concurrent-service-endpoint-syncs",
        50,
        "not be more than 50",
    ),
    (
        "mirroring-concurrent-service-endpoint-syncs",
        50,
        "not be more than 50",
    ),
    ("max-endpoints-per-slice", 1000, "not be more than 1000"),
    (
        "mirroring-max-endpoints-per-subset",
        1000,
        "not be more than 1000",
    ),
];

impl Config {
    /// Checks `options` against `registry`. Reports all errors at once.
    ///
    /// Without `--emulated-version`, the release is [`Release::DEFAULT`], else the newest one that accepts the
    /// feature gates and `--show-hidden-metrics-for-version`. The manager changes it to that of the API server.
    pub fn new(options: Options, registry: &ControllerRegistry) -> Result<Self, Vec<ConfigError>> {
        let has_gates = |release: &Release| Features::new(&options, *release).is_ok();
        let accepts =
            |release: &Release| has_gates(release) && metrics::accepts(&options, *release);
        let release = Release::preferred()
            .find(accepts)
            .or_else(|| Release::preferred().find(has_gates))
            .unwrap_or(Release::DEFAULT);
        Self::at(release, options, registry)
    }

    /// The same settings for a manager that equals `release`.
    pub(crate) fn following(&self, release: Release) -> Result<Self, Vec<ConfigError>> {
        Self::at(release, self.options.clone(), &self.registry)
    }

    /// Whether the manager equals the release of its API server, because `--emulated-version` is not
    /// set.
    pub(crate) fn follows_server(&self) -> bool {
        self.options.list("emulated-version").is_empty()
    }

    /// The same settings for a manager whose API server has this release. `steersman dev` knows it before the start.
    #[cfg(feature = "dev")]
    pub(crate) fn beside(self, server: Release) -> Result<Self, Vec<ConfigError>> {
        if self.follows_server() {
            self.following(server)
        } else {
            Ok(self)
        }
    }

    fn at(
        release: Release,
        options: Options,
        registry: &ControllerRegistry,
    ) -> Result<Self, Vec<ConfigError>> {
        // As in upstream, an invalid feature gate hides all other errors.
        let features = Features::new(&options, release).map_err(|errors| {
            errors
                .into_iter()
                .map(ConfigError::from)
                .collect::<Vec<_>>()
        })?;
        let of_logs = logging::check(&options, &features);
        if !of_logs.is_empty() {
            return Err(of_logs);
        }
        let mut errors = check(&options);
        let controllers = registry
            .at(features.releases.emulated)
            .select(&options.list("controllers"), |gate| features.is_on(gate))
            .unwrap_or_else(|unknown| {
                errors.extend(unknown.into_iter().map(ConfigError::from));
                Selection::default()
            });
        let serving = serving::read(&options, &features).unwrap_or_else(|found| {
            errors.extend(found);
            None
        });
        let metrics = metrics::read(&options, features.releases.emulated).unwrap_or_else(|found| {
            errors.extend(found);
            MetricsSettings::default()
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        let flags = options.without_effect(|name| registry.has(name));
        let mut without_effect: Vec<String> =
            flags.iter().map(|name| format!("--{name}")).collect();
        without_effect.extend(
            features
                .without_effect()
                .map(|gate| format!("--feature-gates={gate}")),
        );
        let is_enabled = |name: &str| {
            let mut all = controllers.tokens.iter().chain(&controllers.enabled);
            all.any(|descriptor| descriptor.name == name)
        };
        let without_workers = options.without_workers(is_enabled);
        let timeout = options.duration("controller-shutdown-timeout").to_std();
        Ok(Self {
            kubeconfig: Some(options.text("kubeconfig"))
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            master: Some(options.text("master")).filter(|url| !url.is_empty()),
            qps: options.float32("kube-api-qps"),
            burst: u32::try_from(options.int("kube-api-burst")).unwrap_or(0),
            service_account_credentials: options.bool("use-service-account-credentials"),
            election: options
                .bool("leader-elect")
                .then(|| election(&options, &features)),
            controllers,
            start_interval: options.duration("controller-start-interval").to_std(),
            shutdown_timeout: Some(timeout).filter(|timeout| !timeout.is_zero()),
            min_resync: options.duration("min-resync-period").to_std(),
            stall_timeout: Some(options.duration("stall-timeout").to_std())
                .filter(|timeout| !timeout.is_zero()),
            standby_informers: options.bool("standby-informers"),
            ui: options.bool("ui"),
            strict_health_checks: options.bool("strict-health-checks"),
            serving,
            metrics,
            features,
            without_effect,
            without_workers,
            options,
            registry: registry.clone(),
        })
    }

    /// The flags as typed, with defaults for the others.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The JSON document of `/configz`.
    pub fn configz(&self) -> String {
        let release = self.features.releases.emulated;
        configz::render(&self.options, &self.controllers.canonical, release)
    }
}

fn election(options: &Options, features: &Features) -> ElectionSettings {
    ElectionSettings {
        namespace: options.text("leader-elect-resource-namespace"),
        name: options.text("leader-elect-resource-name"),
        lease_duration: options.duration("leader-elect-lease-duration").to_std(),
        renew_deadline: options.duration("leader-elect-renew-deadline").to_std(),
        retry_period: options.duration("leader-elect-retry-period").to_std(),
        coordinated: features.is_on("CoordinatedLeaderElection"),
    }
}

/// Upstream's checks that concern a single flag.
fn check(options: &Options) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if options.bool("leader-elect") && options.text("leader-elect-resource-lock") != "leases" {
        errors.push(ConfigError::ResourceLock);
    }
    let provider = options.text("cloud-provider");
    if !provider.is_empty() && provider != "external" {
        errors.push(ConfigError::CloudProvider(provider));
    }
    let allocator = options.text("cidr-allocator-type");
    // The node IPAM controller rejects an empty type, if it is built.
    if !matches!(&*allocator, "RangeAllocator" | "") {
        errors.push(ConfigError::CidrAllocator(allocator));
    }
    for flag in POSITIVE {
        let value = options.int(flag);
        if value <= 0 {
            errors.push(ConfigError::Bound(flag, "be greater than 0", value));
        }
    }
    for (flag, words) in [
        (
            "concurrent-device-taint-eviction-syncs",
            "greater than zero",
        ),
        ("concurrent-resourceclaim-syncs", "larger than 0"),
    ] {
        let value = options.int(flag);
        if value <= 0 {
            errors.push(ConfigError::NewerBound(flag, words, value));
        }
    }
    for (flag, highest, words) in BOUNDED {
        let value = options.int(flag);
        if value < 1 {
            errors.push(ConfigError::Bound(flag, "not be less than 1", value));
        } else if value > *highest {
            errors.push(ConfigError::Bound(flag, words, value));
        }
    }
    if options
        .duration("attach-detach-reconcile-sync-period")
        .to_std()
        < Duration::from_secs(1)
    {
        errors.push(ConfigError::AttachDetachPeriod);
    }
    errors.extend(check_signing_files(options));
    if options.text("service-cluster-ip-range").split(',').count() > 2 {
        errors.push(ConfigError::ServiceCidrs);
    }
    let collector = options.text("tracing-endpoint");
    if spans::endpoint(&collector).is_err() {
        errors.push(ConfigError::TracingEndpoint(collector));
    }
    let rate = options.int("tracing-sampling-rate-per-million");
    if !(0..=spans::ALL).contains(&rate) {
        errors.push(ConfigError::Bound(
            "tracing-sampling-rate-per-million",
            "be between 0 and 1000000",
            rate,
        ));
    }
    errors
}

/// Upstream: `CSRSigningControllerOptions.Validate`. Two names in the messages are not those of the
/// flags.
fn check_signing_files(options: &Options) -> Vec<ConfigError> {
    let pair = |prefix: &str| {
        ["cert", "key"].map(|part| !options.text(&format!("{prefix}-{part}-file")).is_empty())
    };
    let own = [
        (
            "cluster-signing-kubelet-serving",
            "cluster-signing-kubelet-serving",
        ),
        (
            "cluster-signing-kubelet-client",
            "cluster-signing-kube-apiserver-client",
        ),
        (
            "cluster-signing-kube-apiserver-client",
            "cluster-signing-kube-apiserver",
        ),
        (
            "cluster-signing-legacy-unknown",
            "cluster-signing-legacy-unknown",
        ),
    ];
    let half = own.iter().filter_map(|(prefix, name)| match pair(prefix) {
        [false, true] => Some(ConfigError::SigningPair(
            name,
            "cannot specify key without cert",
        )),
        [true, false] => Some(ConfigError::SigningPair(
            name,
            "cannot specify cert without key",
        )),
        _ => None,
    });
    let mut errors: Vec<ConfigError> = half.collect();
    let is_set = |prefix: &str| pair(prefix).contains(&true);
    if is_set("cluster-signing") && own.iter().any(|(prefix, _)| is_set(prefix)) {
        errors.push(ConfigError::SigningFiles);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: &[(&str, &str)]) -> Result<Config, String> {
        let mut options = Options::default();
        for (flag, value) in flags {
            options.set(flag, value).unwrap();
        }
        Config::new(options, &ControllerRegistry::empty()).map_err(|errors| join_errors(&errors))
    }

    #[test]
    fn signing_files_come_in_pairs_and_not_in_two_ways() {
        let pair =
            |name: &str, rule: &str| format!("\"cluster-signing-{name}\": cannot specify {rule}");
        let cert = "cert without key";
        let key = "key without cert";
        let both = "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time";
        let cases = [
            (vec!["kubelet-serving-cert"], pair("kubelet-serving", cert)),
            (
                vec!["kubelet-client-key"],
                pair("kube-apiserver-client", key),
            ),
            (
                vec!["kube-apiserver-client-key"],
                pair("kube-apiserver", key),
            ),
            (vec!["legacy-unknown-cert"], pair("legacy-unknown", cert)),
            (
                vec!["cert", "kubelet-client-cert", "kubelet-client-key"],
                both.to_owned(),
            ),
            (
                vec!["key", "kubelet-client-cert"],
                format!("[{}, {both}]", pair("kube-apiserver-client", cert)),
            ),
        ];
        let with = |flags: &[&str]| {
            let flags: Vec<_> = flags
                .iter()
                .map(|flag| format!("cluster-signing-{flag}-file"))
                .collect();
            let flags: Vec<_> = flags.iter().map(|flag| (flag.as_str(), "/f")).collect();
            config(&flags).err()
        };
        for (flags, expected) in cases {
            assert_eq!(with(&flags), Some(expected), "{flags:?}");
        }
        let fine: [&[&str]; 3] = [
            &["cert"],
            &["cert", "key"],
            &["legacy-unknown-cert", "legacy-unknown-key"],
        ];
        for flags in fine {
            assert_eq!(with(flags), None, "{flags:?}");
        }
    }

    #[test]
    fn the_release_before_the_first_answer_accepts_the_flags() {
        let hidden = "show-hidden-metrics-for-version";
        let gates = "feature-gates";
        // 1.35 and later lock this gate.
        let old = (gates, "JobManagedBy=false");
        // (flags, assumed release or the beginning of the error)
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[], "1.36"),
            (&[(hidden, "1.36")], "1.37"),
            (&[(hidden, "1.33"), old], "1.34"),
            (&[(hidden, "1.32"), old], "1.33"),
            (
                &[(hidden, "1.20")],
                "metrics.showHiddenMetricsForVersion: Invalid value: \"1.20\": must be omitted or have the value '1.35'",
            ),
            (&[(hidden, "1.35"), old], "1.34"),
        ];
        for (flags, expected) in cases {
            let found = match config(flags) {
                Ok(config) => config.features.releases.emulated.to_string(),
                Err(error) => error,
            };
            assert!(found.starts_with(expected), "{flags:?}: {found}");
        }
    }

    #[test]
    fn the_help_names_the_releases_to_emulate() {
        let flag = steersman_options::find("emulated-version").unwrap();
        let range = format!("kube {}..{};", Release::OLDEST, Release::NEWEST);
        assert!(flag.help.contains(&range), "{}", flag.help);
    }

    #[test]
    fn the_defaults_are_upstreams() {
        let config = config(&[]).unwrap();
        assert_eq!((config.qps, config.burst), (20.0, 30));
        assert_eq!(config.shutdown_timeout, Some(Duration::from_secs(10)));
        assert_eq!(config.min_resync, Duration::from_secs(12 * 3600));
        let election = config.election.unwrap();
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str()),
            ("kube-system", "kube-controller-manager")
        );
        let seconds = [
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
        ]
        .map(|d| d.as_secs());
        assert_eq!(seconds, [15, 10, 2]);
        let serving = config.serving.unwrap();
        assert_eq!(serving.address.to_string(), "0.0.0.0:10257");
        assert_eq!(serving.tls.unwrap().max_streams, 100);
        let Access::Delegated(delegation) = serving.access else {
            panic!("open to everybody")
        };
        let Delegation {
            authentication,
            authorization,
        } = *delegation;
        let ttls = [
            authentication.token_ttl,
            authorization.allowed_ttl,
            authorization.other_ttl,
        ]
        .map(|ttl| ttl.as_secs());
        assert_eq!(
            (ttls, authorization.always_allow),
            (
                [10; 3],
                ["/healthz", "/readyz", "/livez"]
                    .map(str::to_owned)
                    .to_vec()
            )
        );
        assert_eq!(authentication.proxy_headers.username, ["x-remote-user"]);
    }

    #[test]
    fn invalid_values_are_refused_with_upstreams_messages() {
        let cases: [(&[(&str, &str)], &str); 31] = [
            (
                &[("controllers", "nope")],
                r#""nope" is not in the list of known controllers"#,
            ),
            (
                &[("leader-elect-resource-lock", "endpoints")],
                r#"resourceLock value must be "leases""#,
            ),
            (
                &[("secure-port", "70000")],
                "--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
            ),
            (
                &[("secure-port", "-1")],
                "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
            ),
            (
                &[("concurrent-job-syncs", "0")],
                "concurrent-job-syncs must be greater than 0, but got 0",
            ),
            (
                &[("concurrent-device-taint-eviction-syncs", "0")],
                "concurrent-device-taint-eviction-syncs must be greater than zero, got 0",
            ),
            (
                &[("concurrent-resourceclaim-syncs", "-1")],
                "concurrent-resourceclaim-syncs must be larger than 0, got -1",
            ),
            (
                &[("max-endpoints-per-slice", "0")],
                "max-endpoints-per-slice must not be less than 1, but got 0",
            ),
            (
                &[("concurrent-service-endpoint-syncs", "51")],
                "concurrent-service-endpoint-syncs must not be more than 50, but got 51",
            ),
            (
                &[("cidr-allocator-type", "Cloud")],
                "built-in cloud providers are disabled. The ipam Cloud is not available",
            ),
            (
                &[("service-cluster-ip-range", "a,b,c")],
                "--service-cluster-ip-range can not contain more than two entries",
            ),
            (
                &[("logging-format", "xml")],
                r#"format: Invalid value: "xml": Unsupported log format"#,
            ),
            (
                &[("logging-format", "xml"), ("log-flush-frequency", "0s")],
                r#"[flushFrequency: Invalid value: "0s": Must be greater than zero, format: Invalid value: "xml": Unsupported log format]"#,
            ),
            (
                &[("logging-format", "json"), ("vmodule", "a=1")],
                "vmodule: Forbidden: Only supported for text log format",
            ),
            (
                &[
                    ("logging-format", "json"),
                    ("feature-gates", "LoggingBetaOptions=false"),
                    ("concurrent-job-syncs", "0"),
                ],
                "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature",
            ),
            (
                &[
                    ("log-text-split-stream", "true"),
                    ("log-json-info-buffer-size", "1Ki"),
                    ("log-text-info-buffer-size", "0Ki"),
                ],
                "[options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled, options.json.infoBufferSize: \
                 Forbidden: Feature LoggingAlphaOptions is disabled]",
            ),
            (
                &[
                    ("log-text-split-stream", "true"),
                    ("feature-gates", "LoggingAlphaOptions=true"),
                    ("concurrent-job-syncs", "0"),
                ],
                "concurrent-job-syncs must be greater than 0, but got 0",
            ),
            (
                &[
                    ("requestheader-uid-headers", "X-Remote-Uid"),
                    ("feature-gates", "RemoteRequestHeaderUID=false"),
                ],
                r#"--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled"#,
            ),
            (
                &[
                    ("requestheader-uid-headers", "x"),
                    ("feature-gates", "RemoteRequestHeaderUID=false"),
                    ("concurrent-job-syncs", "0"),
                ],
                "[concurrent-job-syncs must be greater than 0, but got 0, --requestheader-uid-headers requires the \
                 \"RemoteRequestHeaderUID\" feature to be enabled]",
            ),
            (
                &[("feature-gates", "LogarithmicScaleDown=false")],
                "cannot set feature gate LogarithmicScaleDown to false, feature is locked to true",
            ),
            (
                &[("tls-curve-preferences", "29,65536")],
                "curve preference 65536 is out of range (must be 1-65535)",
            ),
            (
                &[("tls-curve-preferences", "0")],
                "curve preference 0 is out of range (must be 1-65535)",
            ),
            (
                &[("tls-curve-preferences", "23,29,23")],
                "duplicate curve preference 23",
            ),
            (
                &[("tls-curve-preferences", "29,1")],
                "curve preference 1 is not supported by the current Go version",
            ),
            (
                &[("tls-min-version", "TLS13")],
                r#"unknown tls version "TLS13""#,
            ),
            (
                &[("disabled-metrics", "a-b"), ("tls-cert-file", "a")],
                "[need to specify both --tls-cert-file and --tls-private-key-file, or neither, metrics.disabledMetrics: Invalid value: [\"a-b\"]: must be fully qualified metric names matching \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\", got \"a-b\"]",
            ),
            (
                &[("tls-cert-file", "a")],
                "need to specify both --tls-cert-file and --tls-private-key-file, or neither",
            ),
            (
                &[("requestheader-group-headers", "a, ")],
                r#"empty value in "requestheader-group-headers""#,
            ),
            (
                &[("requestheader-uid-headers", "x-uid")],
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not \
                 work",
            ),
            (
                &[("authorization-always-allow-paths", "/a*/b")],
                r#"only trailing * allowed in "/a*/b""#,
            ),
            (
                &[("controllers", "a,-b")],
                r#"["a" is not in the list of known controllers, "b" is not in the list of known controllers]"#,
            ),
        ];
        for (flags, text) in cases {
            assert_eq!(config(flags).err().as_deref(), Some(text), "{flags:?}");
        }
    }

    #[test]
    fn a_built_in_cloud_provider_leads_to_advice_and_an_error() {
        for name in ["", "external"] {
            assert!(config(&[("cloud-provider", name)]).is_ok(), "{name:?}");
        }
        assert!(config(&[("cloud-provider", "External")]).is_err());
        assert_eq!(
            config(&[("cloud-provider", "aws")]).err().unwrap(),
            r#"cloud provider "aws" was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider"#
        );
        let advice = ConfigError::CloudProvider("aws".to_owned()).advice();
        let information = r#"INFO: Please make sure you are running an external cloud controller manager binary for provider "aws".In-tree cloud providers are disabled. Refer to https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/cloud-provider/sample for an example implementation."#;
        let warning = r#"WARNING: built-in cloud providers are disabled. Please set "--cloud-provider=external" and migrate to an external cloud controller manager for provider "aws""#;
        assert_eq!(advice, Some((information.to_owned(), warning.to_owned())));
        assert_eq!(ConfigError::ResourceLock.advice(), None);
    }

    #[test]
    fn values_that_upstream_does_not_check_are_accepted() {
        let cases: [&[(&str, &str)]; 5] = [
            &[("concurrent-deployment-syncs", "-4")],
            &[("kube-api-qps", "-1"), ("kube-api-burst", "-1")],
            &[
                ("leader-elect", "false"),
                ("leader-elect-resource-lock", "endpoints"),
            ],
            &[("secure-port", "0"), ("tls-cert-file", "a")],
            &[("leader-elect-lease-duration", "0")],
        ];
        for flags in cases {
            assert_eq!(config(flags).err(), None, "{flags:?}");
        }
    }

    #[test]
    fn flags_and_gates_without_effect_are_collected() {
        let flags = [
            ("cluster-name", "x"),
            ("concurrent-job-syncs", "3"),
            ("v", "2"),
            ("vmodule", "a=1"),
            (
                "feature-gates",
                "ClientsPreferCBOR=true,ComponentFlagz=false",
            ),
        ];
        let named = [
            "--concurrent-job-syncs",
            "--vmodule",
            "--feature-gates=ClientsPreferCBOR",
        ];
        assert_eq!(config(&flags).unwrap().without_effect, named);
    }

    #[test]
    fn controllers_without_workers_are_collected() {
        let collected = |flags: &[(&str, &str)]| {
            let mut options = Options::default();
            flags
                .iter()
                .for_each(|(flag, value)| options.set(flag, value).unwrap());
            Config::new(options, &ControllerRegistry::builtin())
                .unwrap()
                .without_workers
        };
        let flags = [
            ("concurrent-deployment-syncs", "0"),
            ("concurrent-rc-syncs", "-3"),
            ("concurrent-gc-syncs", "1"),
        ];
        assert_eq!(
            collected(&flags),
            [
                ("concurrent-deployment-syncs", 0),
                ("concurrent-rc-syncs", -3)
            ]
        );
        let disabled = ("controllers", "*,-replicationcontroller");
        assert_eq!(collected(&[disabled, flags[1]]), []);
    }
}
