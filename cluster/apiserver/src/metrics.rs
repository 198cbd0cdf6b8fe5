//! `/metrics`: the families of kube-apiserver that dashboards and tests of clients read most.
//!
//! request -> [`Measured`], which counts when it is dropped -> text of a scrape
//!
//! A request costs two look-ups of labels and no lock of its own. Upstream:
//! `apiserver/pkg/endpoints/metrics` and `apiserver/pkg/storage/etcd3/metrics`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use http::Method;
use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use steersman_runtime::process::Process;

use crate::kinds::Resource;
use crate::route::{Route, Target, Verb};

/// Media type of the text format, as upstream's.
pub(crate) const MEDIA_TYPE: &str =
    "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Limits of the buckets of latencies in seconds.
const LATENCIES: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Clients whose requests have a label of their own.
const SYSTEM_CLIENTS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "cluster-policy-controller",
];

const VALID: &str = "the names of metrics and labels are valid and distinct";

/// The metrics of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    long_running: IntGaugeVec,
    watch_events: IntCounterVec,
    in_flight: IntGaugeVec,
    resource_objects: IntGaugeVec,
    storage_objects: IntGaugeVec,
    read_only: Concurrency,
    mutating: Concurrency,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let counter = |name, help, labels: &[&str]| {
            register(
                &registry,
                IntCounterVec::new(Opts::new(name, help), labels).expect(VALID),
            )
        };
        let gauge = |name, help, labels: &[&str]| {
            register(
                &registry,
                IntGaugeVec::new(Opts::new(name, help), labels).expect(VALID),
            )
        };
        let durations = HistogramOpts::new(
            "apiserver_request_duration_seconds",
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, \
             scope and component.",
        )
        .buckets(LATENCIES.to_vec());
        Self {
            requests: counter(
                "apiserver_request_total",
                "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, \
                 component, and HTTP response code.",
                &[
                    "verb",
                    "dry_run",
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "scope",
                    "component",
                    "code",
                    "system_client",
                ],
            ),
            durations: register(
                &registry,
                HistogramVec::new(
                    durations,
                    &[
                        "verb",
                        "dry_run",
                        "group",
                        "version",
                        "resource",
                        "subresource",
                        "scope",
                        "component",
                    ],
                )
                .expect(VALID),
            ),
            long_running: gauge(
                "apiserver_longrunning_requests",
                "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and \
                 component. Not all requests are tracked this way.",
                &[
                    "verb",
                    "group",
                    "version",
                    "resource",
                    "subresource",
                    "scope",
                    "component",
                ],
            ),
            watch_events: counter(
                "apiserver_watch_events_total",
                "[ALPHA] Number of events sent in watch clients",
                &["group", "version", "resource"],
            ),
            in_flight: gauge(
                "apiserver_current_inflight_requests",
                "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
                &["request_kind"],
            ),
            resource_objects: gauge(
                "apiserver_resource_objects",
                "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will \
                 be -1.",
                &["group", "resource"],
            ),
            storage_objects: gauge(
                "apiserver_storage_objects",
                "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored \
                 objects at the time of last check split by kind. In case of a fetching error, the value will be -1.",
                &["resource"],
            ),
            registry,
            read_only: Concurrency::default(),
            mutating: Concurrency::default(),
        }
    }
}

fn register<T: Collector + Clone + 'static>(registry: &Registry, metric: T) -> T {
    registry.register(Box::new(metric.clone())).expect(VALID);
    metric
}

impl Metrics {
    /// The text of a scrape. `stored` has the number of objects of each stored resource.
    pub(crate) fn text<'a>(
        &self,
        stored: impl Iterator<Item = (&'a Resource, usize)>,
    ) -> Result<String, prometheus::Error> {
        self.resource_objects.reset();
        self.storage_objects.reset();
        for (resource, count) in stored {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let group = &*resource.group;
            let plural = &*resource.plural;
            self.resource_objects
                .with_label_values(&[group, plural])
                .set(count);
            let full = if group.is_empty() {
                Cow::Borrowed(plural)
            } else {
                Cow::Owned(format!("{plural}.{group}"))
            };
            self.storage_objects.with_label_values(&[&full]).set(count);
        }
        for (kind, requests) in [("mutating", &self.mutating), ("readOnly", &self.read_only)] {
            self.in_flight
                .with_label_values(&[kind])
                .set(requests.take_peak());
        }
        let mut families = self.registry.gather();
        families.extend(Process::new()?.collect());
        TextEncoder::new().encode_to_string(&families)
    }

    fn concurrency(&self, is_mutating: bool) -> &Concurrency {
        if is_mutating {
            &self.mutating
        } else {
            &self.read_only
        }
    }
}

/// Requests of one kind at the same time. The peak is that since the last scrape; upstream keeps
/// that of the last second.
#[derive(Debug, Default)]
struct Concurrency {
    now: AtomicI64,
    peak: AtomicI64,
}

impl Concurrency {
    fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_peak(&self) -> i64 {
        self.peak
            .swap(self.now.load(Ordering::Relaxed), Ordering::Relaxed)
    }
}

/// The labels of a request.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    verb: &'static str,
    dry_run: &'static str,
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    resource: Cow<'static, str>,
    subresource: Cow<'static, str>,
    scope: &'static str,
    component: &'static str,
    system_client: &'static str,
    is_watch: bool,
    is_mutating: bool,
}

impl Labels {
    /// The labels of a request for objects.
    pub(crate) fn of_objects(
        target: &Target,
        verb: Verb,
        is_apply: bool,
        is_dry_run: bool,
        user_agent: &str,
    ) -> Self {
        let resource = target.resource();
        Self {
            verb: match verb {
                Verb::Get => "GET",
                Verb::List => "LIST",
                Verb::Watch => "WATCH",
                Verb::Create => "POST",
                Verb::Update => "PUT",
                Verb::Patch if is_apply => "APPLY",
                Verb::Patch => "PATCH",
                Verb::Delete | Verb::DeleteCollection => "DELETE",
            },
            dry_run: if is_dry_run { "All" } else { "" },
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            subresource: target
                .subresource
                .map_or_else(Cow::default, |part| part.name.into()),
            scope: if !target.name.is_empty() || verb == Verb::Create {
                "resource"
            } else if !target.namespace.is_empty() {
                "namespace"
            } else {
                "cluster"
            },
            component: "apiserver",
            system_client: system_client(user_agent),
            is_watch: verb == Verb::Watch,
            is_mutating: !matches!(verb, Verb::Get | Verb::List | Verb::Watch),
        }
    }

    /// The labels of a request for a document of the server; `None` for documents that upstream
    /// does not count.
    pub(crate) fn of_document(route: &Route, method: &Method, user_agent: &str) -> Option<Self> {
        let (component, subresource) = match route {
            Route::CoreVersions => ("apiserver", "api".into()),
            Route::Groups => ("apiserver", "apis".into()),
            Route::Health { probe, check: None } => ("", format!("/{probe}").into()),
            Route::OpenApiV2 => ("", "openapi/v2".into()),
            Route::OpenApi(path) if path.is_empty() => ("", "openapi/v3".into()),
            Route::OpenApi(_) => ("", "openapi/v3/".into()),
            _ => return None,
        };
        Some(Self {
            verb: if method == Method::HEAD {
                "HEAD"
            } else {
                "GET"
            },
            subresource,
            component,
            system_client: system_client(user_agent),
            ..Self::default()
        })
    }
}

/// The product of a user agent, if it is one of the control plane.
fn system_client(user_agent: &str) -> &'static str {
    let product = user_agent.split_once('/').map(|(product, _)| product);
    let known = SYSTEM_CLIENTS.iter().find(|known| product == Some(**known));
    known.copied().unwrap_or_default()
}

/// A request from its start to the end of its answer.
#[derive(Debug)]
pub(crate) struct Measured {
    metrics: Arc<Metrics>,
    labels: Labels,
    started: Instant,
    /// The gauge and the counter of events of a watch.
    watch: Option<(IntGauge, IntCounter)>,
    /// HTTP status of the answer; 0 until there is one.
    pub(crate) code: u16,
}

impl Measured {
    /// Starts to measure a request.
    pub(crate) fn start(metrics: &Arc<Metrics>, labels: Labels) -> Self {
        let watch = labels.is_watch.then(|| {
            let Labels {
                group,
                version,
                resource,
                subresource,
                ..
            } = &labels;
            let open = metrics.long_running.with_label_values(&[
                labels.verb,
                &**group,
                &**version,
                &**resource,
                &**subresource,
                labels.scope,
                labels.component,
            ]);
            open.inc();
            let events =
                metrics
                    .watch_events
                    .with_label_values(&[&**group, &**version, &**resource]);
            (open, events)
        });
        if watch.is_none() {
            metrics.concurrency(labels.is_mutating).enter();
        }
        Self {
            metrics: Arc::clone(metrics),
            labels,
            started: Instant::now(),
            watch,
            code: 0,
        }
    }

    /// Counts a piece of a streamed answer, which is an event if the request is a watch.
    pub(crate) fn sent_piece(&self) {
        if let Some((_, events)) = &self.watch {
            events.inc();
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        match &self.watch {
            Some((open, _)) => open.dec(),
            None => self.metrics.concurrency(self.labels.is_mutating).leave(),
        }
        // A fault can end a request without an answer.
        if self.code == 0 {
            return;
        }
        let Labels {
            verb,
            dry_run,
            group,
            version,
            resource,
            subresource,
            scope,
            component,
            system_client,
            ..
        } = &self.labels;
        let common = [
            verb,
            dry_run,
            &**group,
            &**version,
            &**resource,
            &**subresource,
            scope,
            component,
        ];
        let code = self.code.to_string();
        let mut counted = [""; 10];
        counted[..8].copy_from_slice(&common);
        counted[8..].copy_from_slice(&[&code, system_client]);
        self.metrics.requests.with_label_values(&counted).inc();
        self.metrics
            .durations
            .with_label_values(&common)
            .observe(self.started.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry as Kinds;

    #[test]
    fn requests_and_watches_are_counted_with_upstreams_labels() {
        let metrics = Arc::new(Metrics::default());
        let kinds = Kinds::built_in();
        let labels = |path: &str, verb, user_agent| match Route::parse(&kinds, path) {
            Route::Objects(target) => Labels::of_objects(&target, verb, true, false, user_agent),
            route => Labels::of_document(&route, &Method::GET, user_agent).unwrap(),
        };
        // (path, verb, user agent, status)
        for (path, verb, user_agent, code) in [
            (
                "/api/v1/namespaces/n/pods/p/status",
                Verb::Patch,
                "kubectl/v1",
                200,
            ),
            (
                "/apis/apps/v1/namespaces/n/deployments",
                Verb::List,
                "kube-scheduler/v1",
                200,
            ),
            ("/readyz", Verb::Get, "", 200),
        ] {
            Measured::start(&metrics, labels(path, verb, user_agent)).code = code;
        }
        let watch = Measured::start(&metrics, labels("/api/v1/nodes", Verb::Watch, ""));
        watch.sent_piece();
        let text = metrics.text(std::iter::empty()).unwrap();
        for line in [
            "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"status\",system_client=\"\",verb=\"APPLY\",version=\"v1\"} 1",
            "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"apps\",resource=\"deployments\",scope=\"namespace\",subresource=\"\",system_client=\"kube-scheduler\",verb=\"LIST\",version=\"v1\"} 1",
            "apiserver_request_total{code=\"200\",component=\"\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"/readyz\",system_client=\"\",verb=\"GET\",version=\"\"} 1",
            "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"nodes\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1",
            "apiserver_watch_events_total{group=\"\",resource=\"nodes\",version=\"v1\"} 1",
            "apiserver_current_inflight_requests{request_kind=\"mutating\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        drop(watch);
        assert_eq!(
            metrics
                .long_running
                .with_label_values(&["WATCH", "", "v1", "nodes", "", "cluster", "apiserver"])
                .get(),
            0
        );
    }
}
