//! `/healthz`, `/livez` and `/readyz`: named checks that run in order on each request.
//!
//! checks -> findings -> response, and upstream's SLI metrics
//!
//! `/healthz` has upstream's checks under upstream's names. Upstream's checks of controllers always
//! pass. Ours examine queues and caches; a finding is *reported* as degraded, and fails a probe
//! only with `--strict-health-checks`. Otherwise a kubelet would restart the manager for problems
//! that a restart cannot solve.
//!
//! `/livez` and `/readyz` are additions of Steersman. `/livez` equals `/healthz`. `/readyz` tells
//! whether this process is a leader with filled caches, or a standby that can take over.
//!
//! Upstream: `k8s.io/apiserver/pkg/server/healthz`, and
//! `k8s.io/component-base/metrics/prometheus/slis`.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use prometheus::{GaugeVec, IntCounterVec, Opts, Registry};

/// A problem that a check found. The reason goes to the log only, because probes are readable
/// without authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The probe fails.
    Failed(String),
    /// A problem that a restart may not solve. It is reported, and fails the probe only with
    /// `--strict-health-checks`.
    Degraded(String),
    /// This process cannot do its part. It fails `/readyz`; other probes treat it as
    /// [`Finding::Degraded`].
    Unready(String),
}

/// A health check; it must return quickly, because probes wait for it.
pub type Check = Arc<dyn Fn() -> Result<(), Finding> + Send + Sync>;

/// An endpoint that runs health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `/healthz`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

impl Probe {
    /// The name in the path, in the response and in metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The probes that run a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    All,
    /// `/readyz` alone.
    Ready,
}

/// A check with its name and scope.
#[derive(Clone)]
struct Named {
    name: String,
    scope: Scope,
    check: Check,
}

/// The health checks of one manager. Cloning is cheap; clones share the checks.
#[derive(Clone)]
pub struct HealthChecks {
    checks: Arc<RwLock<Vec<Named>>>,
    /// `--strict-health-checks`: whether degraded checks fail the probe.
    strict: bool,
    /// Names of checks with a finding in their last run. A finding is logged once, not at every
    /// probe.
    with_findings: Arc<Mutex<BTreeSet<String>>>,
    start: GaugeVec,
    state: GaugeVec,
    runs: IntCounterVec,
    degraded: GaugeVec,
}

/// The response of a probe.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether all checks passed.
    pub healthy: bool,
    /// The response body.
    pub body: String,
}

impl HealthChecks {
    /// Starts without checks. `slis` receives the metrics of `/metrics/slis`, `metrics` those of
    /// Steersman. `started` is the start of the process in Unix seconds.
    pub fn new(
        slis: &Registry,
        metrics: &Registry,
        started: i64,
        strict: bool,
    ) -> Result<Self, prometheus::Error> {
        let start = Opts::new(
            "process_start_time_seconds",
            "[ALPHA] Start time of the process since unix epoch in seconds.",
        );
        let state = Opts::new(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
        );
        let runs = Opts::new(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
        );
        let degraded = Opts::new(
            "steersman_health_check_degraded",
            "[ALPHA] Whether a health check found something wrong when it last ran, also where that fails no probe.",
        );
        let start = GaugeVec::new(start, &[])?;
        start.with_label_values::<&str>(&[]).set(started as f64);
        let state = GaugeVec::new(state, &["name", "type"])?;
        let runs = IntCounterVec::new(runs, &["name", "status", "type"])?;
        let degraded = GaugeVec::new(degraded, &["name"])?;
        slis.register(Box::new(start.clone()))?;
        slis.register(Box::new(state.clone()))?;
        slis.register(Box::new(runs.clone()))?;
        metrics.register(Box::new(degraded.clone()))?;
        Ok(Self {
            checks: Arc::default(),
            strict,
            with_findings: Arc::default(),
            start,
            state,
            runs,
            degraded,
        })
    }

    /// Appends a check.
    pub fn add(&self, name: impl Into<String>, scope: Scope, check: Check) {
        let named = Named {
            name: name.into(),
            scope,
            check,
        };
        self.checks.write().push(named);
    }

    /// Runs the checks of `probe`. `query` is the query string of the request: `verbose`,
    /// `exclude=<name>`.
    pub fn report(&self, probe: Probe, query: &str) -> Report {
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let verbose = pairs.iter().any(|(key, _)| key == "verbose");
        let excluded: Vec<&str> = pairs
            .iter()
            .filter(|(key, _)| key == "exclude")
            .map(|(_, value)| value.as_ref())
            .collect();
        let checks = self.checks_of(probe);
        let mut body = String::new();
        let mut healthy = true;
        for Named { name, check, .. } in &checks {
            if excluded.contains(&name.as_str()) {
                body.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            let found = check().err();
            let failed = self.record(probe, name, found.as_ref());
            healthy &= !failed;
            body.push_str(&match (failed, found) {
                (true, _) => format!("[-]{name} failed: reason withheld\n"),
                (false, Some(_)) => format!("[+]{name} ok, but degraded: reason withheld\n"),
                (false, None) => format!("[+]{name} ok\n"),
            });
        }
        if healthy && !verbose {
            return Report {
                healthy,
                body: "ok".to_owned(),
            };
        }
        let mut unmatched: Vec<_> = excluded
            .into_iter()
            .filter(|e| !checks.iter().any(|named| named.name == *e))
            .collect();
        if !unmatched.is_empty() {
            unmatched.sort_unstable();
            let list = unmatched
                .iter()
                .map(|name| format!("{name:?}"))
                .collect::<Vec<_>>()
                .join(",");
            body.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {list}\n"
            ));
        }
        body.push_str(&format!(
            "{} check {}\n",
            probe.name(),
            if healthy { "passed" } else { "failed" }
        ));
        Report { healthy, body }
    }

    /// The checks that `probe` runs; as upstream, `ping` if there is none.
    fn checks_of(&self, probe: Probe) -> Vec<Named> {
        let checks = self.checks.read();
        let mut checks: Vec<_> = checks
            .iter()
            .filter(|named| named.scope == Scope::All || probe == Probe::Readyz)
            .cloned()
            .collect();
        if checks.is_empty() {
            checks.push(Named {
                name: "ping".to_owned(),
                scope: Scope::All,
                check: Arc::new(|| Ok(())),
            });
        }
        checks
    }

    /// Counts and logs the result of a check. Returns whether it fails the probe.
    fn record(&self, probe: Probe, name: &str, found: Option<&Finding>) -> bool {
        let failed = match found {
            Some(Finding::Failed(_)) => true,
            Some(Finding::Degraded(_)) => self.strict,
            Some(Finding::Unready(_)) => self.strict || probe == Probe::Readyz,
            None => false,
        };
        self.state
            .with_label_values(&[name, probe.name()])
            .set(if failed { 0.0 } else { 1.0 });
        self.runs
            .with_label_values(&[name, if failed { "error" } else { "success" }, probe.name()])
            .inc();
        self.degraded
            .with_label_values(&[name])
            .set(if found.is_some() { 1.0 } else { 0.0 });
        let mut with_findings = self.with_findings.lock();
        match found {
            Some(
                Finding::Failed(reason) | Finding::Degraded(reason) | Finding::Unready(reason),
            ) => {
                if with_findings.insert(name.to_owned()) {
                    tracing::warn!(check = name, reason, "health check found something wrong");
                } else {
                    tracing::debug!(
                        check = name,
                        reason,
                        "health check still finds something wrong"
                    );
                }
            }
            None => {
                if with_findings.remove(name) {
                    tracing::info!(check = name, "health check passes again");
                }
            }
        }
        failed
    }

    /// Resets the metrics of all checks. As in upstream, this includes the start time of the
    /// process.
    pub(crate) fn reset_metrics(&self) {
        self.start.reset();
        self.state.reset();
        self.runs.reset();
    }
}

/// The state of a manager, as far as readiness depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The API server has not been healthy yet.
    Connecting,
    /// Waiting for the Lease.
    Standby,
    /// Leading; controllers are being initialised and caches filled.
    Starting,
    /// Leading, with running controllers.
    Working,
}

/// The current phase. Cloning is cheap; clones share the phase.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<Phase>>);

impl Progress {
    /// Starts with [`Phase::Connecting`], and adds the check `startup` to `/readyz`.
    pub(crate) fn checked_by(health: &HealthChecks) -> Self {
        let progress = Self(Arc::new(Mutex::new(Phase::Connecting)));
        let checked = progress.clone();
        let check = move || match checked.get() {
            Phase::Connecting => Err(Finding::Failed(
                "the API server has not been healthy yet".to_owned(),
            )),
            Phase::Starting => Err(Finding::Failed(
                "controllers have not started yet".to_owned(),
            )),
            Phase::Standby | Phase::Working => Ok(()),
        };
        health.add("startup", Scope::Ready, Arc::new(check));
        progress
    }

    /// Sets the phase.
    pub(crate) fn set(&self, phase: Phase) {
        *self.0.lock() = phase;
    }

    /// Whether the controllers run.
    pub(crate) fn is_working(&self) -> bool {
        matches!(self.get(), Phase::Working)
    }

    fn get(&self) -> Phase {
        *self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Found {
        Good,
        Odd,
        Bad,
    }
    use Found::{Bad, Good, Odd};

    type List = &'static [(&'static str, Found)];

    fn none() -> HealthChecks {
        HealthChecks::new(&Registry::new(), &Registry::new(), 0, false).unwrap()
    }

    fn check(found: Found) -> Check {
        Arc::new(move || match found {
            Good => Ok(()),
            Odd => Err(Finding::Degraded("somehow".to_owned())),
            Bad => Err(Finding::Failed("because".to_owned())),
        })
    }

    fn checks(list: List) -> HealthChecks {
        let checks = none();
        for &(name, found) in list {
            checks.add(name, Scope::All, check(found));
        }
        checks
    }

    #[test]
    fn responses_equal_upstreams() {
        const GOOD: (&str, Found) = ("leaderElection", Good);
        const BAD: (&str, Found) = ("deployment-controller", Bad);
        let pass = "healthz check passed\n";
        // (checks, query, healthy, body)
        let cases: [(List, &str, bool, String); 9] = [
            (&[], "", true, "ok".into()),
            (&[], "verbose", true, format!("[+]ping ok\n{pass}")),
            (&[GOOD], "", true, "ok".into()),
            (&[GOOD], "verbose=false", true, format!("[+]leaderElection ok\n{pass}")),
            (&[GOOD], "verbose&exclude=leaderElection", true, format!("[+]leaderElection excluded: ok\n{pass}")),
            (&[GOOD, BAD], "exclude=deployment%2Dcontroller", true, "ok".into()),
            (
                &[GOOD, BAD],
                "",
                false,
                "[+]leaderElection ok\n[-]deployment-controller failed: reason withheld\nhealthz check failed\n".into(),
            ),
            (&[GOOD], "exclude=x", true, "ok".into()),
            (
                &[GOOD],
                "verbose&exclude=x&exclude=b",
                true,
                format!("[+]leaderElection ok\nwarn: some health checks cannot be excluded: no matches for \"b\",\"x\"\n{pass}"),
            ),
        ];
        for (list, query, healthy, body) in cases {
            assert_eq!(
                checks(list).report(Probe::Healthz, query),
                Report { healthy, body },
                "{list:?} ?{query}"
            );
        }
    }

    #[test]
    fn degraded_checks_fail_the_probe_only_in_strict_mode() {
        for (strict, body) in [
            (
                false,
                "[+]a ok, but degraded: reason withheld\nlivez check passed\n",
            ),
            (true, "[-]a failed: reason withheld\nlivez check failed\n"),
        ] {
            let metrics = Registry::new();
            let checks = HealthChecks::new(&Registry::new(), &metrics, 0, strict).unwrap();
            checks.add("a", Scope::All, check(Odd));
            let report = checks.report(Probe::Livez, "verbose");
            assert_eq!((report.healthy, report.body.as_str()), (!strict, body));
            assert_eq!(checks.report(Probe::Healthz, "").healthy, !strict);
            assert_eq!(checks.degraded.with_label_values(&["a"]).get(), 1.0);
        }
    }

    #[test]
    fn only_readyz_depends_on_the_phase() {
        let checks = none();
        let progress = Progress::checked_by(&checks);
        for (phase, ready) in [
            (Phase::Connecting, false),
            (Phase::Standby, true),
            (Phase::Starting, false),
            (Phase::Working, true),
        ] {
            progress.set(phase);
            assert_eq!(checks.report(Probe::Readyz, "").healthy, ready, "{phase:?}");
            for probe in [Probe::Healthz, Probe::Livez] {
                let expected = format!("[+]ping ok\n{} check passed\n", probe.name());
                assert_eq!(checks.report(probe, "verbose").body, expected, "{phase:?}");
            }
        }
    }

    #[test]
    fn runs_are_counted_but_excluded_checks_are_not() {
        let checks = checks(&[("a", Good), ("b", Bad)]);
        checks.report(Probe::Healthz, "");
        checks.report(Probe::Healthz, "exclude=b");
        checks.report(Probe::Readyz, "");
        let count =
            |name, status, probe| checks.runs.with_label_values(&[name, status, probe]).get();
        let healthz = (
            count("a", "success", "healthz"),
            count("b", "error", "healthz"),
            count("b", "success", "healthz"),
        );
        assert_eq!((healthz, count("a", "success", "readyz")), ((2, 1, 0), 1));
        assert!(checks.state.with_label_values(&["b", "healthz"]).get() < 0.5);
    }
}
