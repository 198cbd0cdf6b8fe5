//! Metrics of authentication and authorization, under upstream's names.
//!
//! As upstream's, a family appears in `/metrics` after its first observation. Upstream:
//! `k8s.io/apiserver/pkg/endpoints/filters/metrics.go`, `pkg/authentication/token/cache/stats.go`
//! and the `metrics.go` of the delegated authenticator and authorizer.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
    exponential_buckets,
};

/// Buckets of remaining certificate lifetimes, in seconds.
const EXPIRATION: &[f64] = &[
    0.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];
/// Buckets of review durations, in seconds.
const REVIEW: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
/// Buckets of token cache look-ups, in seconds.
const CACHE: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Handles of the metrics. Cloning them is cheap.
#[derive(Clone)]
pub(crate) struct AccessMetrics {
    authentications: Timed,
    users: IntCounterVec,
    authorizations: Timed,
    pub(super) expiration: Histogram,
    pub(super) cache: Timed,
    pub(super) fetches: IntCounterVec,
    pub(super) active: IntGaugeVec,
    pub(super) token_reviews: Timed,
    pub(super) access_reviews: Timed,
}

/// A counter and a histogram of durations with the same single label.
#[derive(Clone)]
pub(super) struct Timed {
    count: IntCounterVec,
    seconds: HistogramVec,
}

impl Timed {
    /// Counts one event with this label and its duration.
    pub(super) fn observe(&self, label: &str, took: Duration) {
        self.count.with_label_values(&[label]).inc();
        self.seconds
            .with_label_values(&[label])
            .observe(took.as_secs_f64());
    }
}

impl AccessMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, label: &str| {
            let family = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(family.clone()))?;
            Ok::<_, prometheus::Error>(family)
        };
        let histogram = |name: &str, help: &str, label: &str, buckets: &[f64]| {
            let family = HistogramVec::new(
                HistogramOpts::new(name, help).buckets(buckets.to_vec()),
                &[label],
            )?;
            registry.register(Box::new(family.clone()))?;
            Ok::<_, prometheus::Error>(family)
        };
        let durations = exponential_buckets(0.001, 2.0, 15)?;
        let expiration = HistogramOpts::new(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        );
        let expiration = Histogram::with_opts(expiration.buckets(EXPIRATION.to_vec()))?;
        registry.register(Box::new(expiration.clone()))?;
        let active = Opts::new(
            "authentication_token_cache_active_fetch_count",
            "[ALPHA] Reviews of tokens under way, and requests that wait for one.",
        );
        let active = IntGaugeVec::new(active, &["status"])?;
        registry.register(Box::new(active.clone()))?;
        Ok(Self {
            authentications: Timed {
                count: counter(
                    "authentication_attempts",
                    "[ALPHA] Counter of authenticated attempts.",
                    "result",
                )?,
                seconds: histogram(
                    "authentication_duration_seconds",
                    "[ALPHA] Authentication duration in seconds broken out by result.",
                    "result",
                    &durations,
                )?,
            },
            users: counter(
                "authenticated_user_requests",
                "[ALPHA] Counter of authenticated requests broken out by username.",
                "username",
            )?,
            authorizations: Timed {
                count: counter(
                    "authorization_attempts_total",
                    "[ALPHA] Counter of authorization attempts broken down by result: 'allowed', 'denied', 'no-opinion' or 'error'.",
                    "result",
                )?,
                seconds: histogram(
                    "authorization_duration_seconds",
                    "[ALPHA] Authorization duration in seconds broken out by result.",
                    "result",
                    &durations,
                )?,
            },
            expiration,
            cache: Timed {
                count: counter(
                    "authentication_token_cache_request_total",
                    "[ALPHA] Look-ups of bearer tokens in the cache, by whether they were there.",
                    "status",
                )?,
                seconds: histogram(
                    "authentication_token_cache_request_duration_seconds",
                    "[ALPHA] Time of look-ups of bearer tokens, reviews included.",
                    "status",
                    CACHE,
                )?,
            },
            fetches: counter(
                "authentication_token_cache_fetch_total",
                "[ALPHA] Reviews of tokens that were not in the cache.",
                "status",
            )?,
            active,
            token_reviews: Timed {
                count: counter(
                    "apiserver_delegated_authn_request_total",
                    "[ALPHA] Number of HTTP requests partitioned by status code.",
                    "code",
                )?,
                seconds: histogram(
                    "apiserver_delegated_authn_request_duration_seconds",
                    "[ALPHA] Request latency in seconds. Broken down by status code.",
                    "code",
                    REVIEW,
                )?,
            },
            access_reviews: Timed {
                count: counter(
                    "apiserver_delegated_authz_request_total",
                    "[ALPHA] Number of HTTP requests partitioned by status code.",
                    "code",
                )?,
                seconds: histogram(
                    "apiserver_delegated_authz_request_duration_seconds",
                    "[ALPHA] Request latency in seconds. Broken down by status code.",
                    "code",
                    REVIEW,
                )?,
            },
        })
    }

    /// Counts an authentication: `user` is the user name, or `None` if all credentials were
    /// rejected.
    pub(super) fn authenticated(&self, user: Option<&str>, took: Duration) {
        self.authentications
            .observe(if user.is_some() { "success" } else { "error" }, took);
        if let Some(name) = user {
            self.users.with_label_values(&[class_of(name)]).inc();
        }
    }

    /// Counts an authorization with `result` as its label.
    pub(super) fn authorized(&self, result: &str, took: Duration) {
        self.authorizations.observe(result, took);
    }
}

/// The label value of a user name. Only well-known names are shown: others would create a series
/// per user and reveal personal names.
fn class_of(name: &str) -> &str {
    match name {
        "admin"
        | "client"
        | "kube_proxy"
        | "kubelet"
        | "system:serviceaccount:kube-system:default" => name,
        other if other.contains('@') => "email_id",
        _ => "other",
    }
}
