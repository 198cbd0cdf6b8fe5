//! The metrics of requests: upstream's `rest_client_*` families.
//!
//! Upstream: `component-base/metrics/prometheus/restclient`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::activity::{Activity, UnderWay};
use super::throttled::{Throttled, Waiting};
use super::versions::Versions;
use super::witness::Witness;
use prometheus::{
    CounterVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry,
};

/// Upstream's buckets of durations.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// Upstream's buckets of sizes in bytes.
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The methods and status codes of most requests. Others look up their child each time.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const CODES: [u16; 2] = [200, 201];

/// The children of the families for one host and method. A child exists from its first use on, and
/// is looked up only then: each look-up costs a hash and locks.
#[derive(Debug, Default)]
struct OfMethod {
    requests: [OnceLock<IntCounter>; CODES.len()],
    duration: OnceLock<Histogram>,
    throttled: OnceLock<Histogram>,
    sent: OnceLock<Histogram>,
    received: OnceLock<Histogram>,
}

/// The metric handles of all clients, and what they know of their API server. Cheap to clone; clones
/// share both.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    host: String,
    of_methods: Arc<[OfMethod; METHODS.len()]>,
    requests: IntCounterVec,
    duration: HistogramVec,
    throttled: HistogramVec,
    sent: HistogramVec,
    received: HistogramVec,
    retries: IntCounterVec,
    transports: IntGauge,
    transport_calls: IntCounterVec,
    waits: CounterVec,
    violations: IntCounterVec,
    throttled_now: Throttled,
    activity: Option<Activity>,
    witness: Option<Witness>,
    versions: Versions,
}

impl ClientMetrics {
    /// The label value `host`: the API server of the client.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Registers the families.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let family = HistogramVec::new(opts, &["host", "verb"])?;
            registry.register(Box::new(family.clone()))?;
            Ok::<_, prometheus::Error>(family)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let family = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(family.clone()))?;
            Ok::<_, prometheus::Error>(family)
        };
        Ok(Self {
            host: String::new(),
            of_methods: Arc::default(),
            requests: counter(
                "rest_client_requests_total",
                "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "host", "method"],
            )?,
            duration: histogram(
                "rest_client_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
                SECONDS,
            )?,
            throttled: histogram(
                "rest_client_rate_limiter_duration_seconds",
                "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
                SECONDS,
            )?,
            sent: histogram(
                "rest_client_request_size_bytes",
                "[ALPHA] Request size in bytes. Broken down by verb and host.",
                SIZES,
            )?,
            received: histogram(
                "rest_client_response_size_bytes",
                "[ALPHA] Response size in bytes. Broken down by verb and host.",
                SIZES,
            )?,
            retries: counter(
                "rest_client_request_retries_total",
                "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
                &["code", "host", "verb"],
            )?,
            transports: {
                let family = IntGauge::new(
                    "rest_client_transport_cache_entries",
                    "[ALPHA] Number of transport entries in the internal cache.",
                )?;
                registry.register(Box::new(family.clone()))?;
                family
            },
            transport_calls: counter(
                "rest_client_transport_create_calls_total",
                "[ALPHA] Number of calls to get a new transport, partitioned by the result of the operation.",
                &["result"],
            )?,
            waits: {
                let opts = Opts::new(
                    "steersman_client_throttle_wait_seconds_total",
                    "[ALPHA] Time that requests of a client waited for its throttle (--kube-api-qps, --kube-api-burst).",
                );
                let family = CounterVec::new(opts, &["client"])?;
                registry.register(Box::new(family.clone()))?;
                family
            },
            violations: counter(
                "steersman_invariant_violations_total",
                "[ALPHA] Writes that were not sent, because the decision of a controller breaks an invariant.",
                &["client", "invariant"],
            )?,
            throttled_now: Throttled::default(),
            activity: None,
            witness: None,
            versions: Versions::default(),
        })
    }

    /// A copy with the same families that also records requests in `activity`.
    #[must_use]
    pub fn observed_by(&self, activity: &Activity) -> Self {
        Self {
            activity: Some(activity.clone()),
            ..self.clone()
        }
    }

    /// A copy with the same families that also shows answered writes to `witness`.
    #[must_use]
    pub fn witnessed_by(&self, witness: &Witness) -> Self {
        Self {
            witness: Some(witness.clone()),
            ..self.clone()
        }
    }

    /// The versions that the API server has.
    pub(super) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The witness of writes.
    pub(super) fn witness(&self) -> Option<&Witness> {
        self.witness.as_ref()
    }

    /// Records the start of a request in the activity. Its answer may take `extra_time` longer than
    /// usual.
    pub(super) fn begin(&self, kind: &'static str, extra_time: Duration) -> Option<UnderWay> {
        self.activity
            .as_ref()
            .map(|activity| activity.begin(kind, extra_time))
    }

    /// A copy with the same families and the label `host`, such as `10.0.0.1:6443`. By default the
    /// label is empty.
    #[must_use]
    pub fn for_host(&self, host: &str) -> Self {
        Self {
            host: host.to_owned(),
            of_methods: Arc::default(),
            versions: Versions::default(),
            ..self.clone()
        }
    }

    /// The children for `method`, if it is a usual one.
    fn of_method(&self, method: &str) -> Option<&OfMethod> {
        let at = METHODS.iter().position(|known| *known == method)?;
        self.of_methods.get(at)
    }

    fn observe(
        &self,
        (family, child): (&HistogramVec, fn(&OfMethod) -> &OnceLock<Histogram>),
        method: &str,
        value: f64,
    ) {
        let look_up = || family.with_label_values(&[&self.host, method]);
        match self.of_method(method).map(child) {
            Some(child) => child.get_or_init(look_up).observe(value),
            None => look_up().observe(value),
        }
    }

    pub(super) fn answered(&self, method: &str, code: Option<u16>) {
        let look_up = || {
            let labels = [&*code_text(code), &self.host, method];
            self.requests.with_label_values(&labels)
        };
        let at = CODES.iter().position(|known| Some(*known) == code);
        match self.of_method(method).zip(at) {
            Some((children, at)) => children.requests[at].get_or_init(look_up).inc(),
            None => look_up().inc(),
        }
    }

    pub(super) fn retried(&self, method: &str, code: Option<u16>) {
        self.retries
            .with_label_values(&[&*code_text(code), &self.host, method])
            .inc();
    }

    pub(super) fn took(&self, method: &str, time: Duration) {
        self.observe(
            (&self.duration, |of| &of.duration),
            method,
            time.as_secs_f64(),
        );
    }

    pub(super) fn throttled(&self, method: &str, time: Duration) {
        self.observe(
            (&self.throttled, |of| &of.throttled),
            method,
            time.as_secs_f64(),
        );
    }

    /// Counts `connections` new connections to API servers: upstream's cache misses.
    pub fn connected(&self, connections: usize) {
        self.transports.add(connections as i64);
        self.transport_calls
            .with_label_values(&["miss"])
            .inc_by(connections as u64);
    }

    /// Counts a client that uses an existing connection: upstream's cache hit.
    pub fn shared_connection(&self) {
        self.transport_calls.with_label_values(&["hit"]).inc();
    }

    /// Counts the time that a request of `client` waited for its throttle.
    pub(super) fn waited(&self, client: &str, time: Duration) {
        self.waits
            .with_label_values(&[client])
            .inc_by(time.as_secs_f64());
    }

    /// The count of writes of `client` that `invariant` refused.
    pub(super) fn violations(&self, client: &str, invariant: &str) -> IntCounter {
        self.violations.with_label_values(&[client, invariant])
    }

    /// Records that a request of `client` waits for its throttle, until the result is dropped.
    pub(super) fn waits_now(&self, client: &str, wait: Duration) -> Waiting {
        self.throttled_now.begin(client, wait)
    }

    /// The number of requests of `client` that wait for its throttle now, and the time until the last
    /// of them is sent.
    pub fn waiting(&self, client: &str) -> Option<(usize, Duration)> {
        self.throttled_now.of(client)
    }

    pub(super) fn sent(&self, method: &str, bytes: usize) {
        self.observe((&self.sent, |of| &of.sent), method, bytes as f64);
    }

    pub(super) fn received(&self, method: &str, bytes: usize) {
        self.observe((&self.received, |of| &of.received), method, bytes as f64);
    }
}

/// The label `code`; upstream's `<error>` for a request without an answer.
fn code_text(code: Option<u16>) -> String {
    code.map_or_else(|| "<error>".to_owned(), |c| c.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_counts_of_its_own() {
        let a = ClientMetrics::register(&Registry::new()).unwrap();
        let a = a.for_host("a");
        let b = a.for_host("b");
        for (metrics, method, code) in [
            (&a, "GET", 200),
            (&b, "GET", 200),
            (&b, "GET", 404),
            (&b, "HEAD", 200),
        ] {
            metrics.answered(method, Some(code));
            metrics.took(method, Duration::ZERO);
        }
        let answers = |labels: [&str; 3]| a.requests.with_label_values(&labels).get();
        assert_eq!(
            [
                answers(["200", "a", "GET"]),
                answers(["200", "b", "GET"]),
                answers(["404", "b", "GET"]),
                answers(["200", "b", "HEAD"]),
            ],
            [1; 4]
        );
        let took = |labels: [&str; 2]| a.duration.with_label_values(&labels).get_sample_count();
        assert_eq!(
            [took(["a", "GET"]), took(["b", "GET"]), took(["b", "HEAD"])],
            [1, 2, 1]
        );
    }
}
