//! `/healthz`: named checks, run in order on each request.
//!
//! checks -> outcomes -> answer, and the SLI metrics of upstream

use std::sync::{Arc, RwLock};

use prometheus::{GaugeVec, IntCounterVec, Opts, Registry};

/// A check; an error is its reason, which only the log shows.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks of one manager. Cheap to clone.
#[derive(Clone)]
pub struct HealthChecks {
    checks: Arc<RwLock<Vec<(String, Check)>>>,
    state: GaugeVec,
    runs: IntCounterVec,
}

/// An answer of `/healthz`.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether every check that was run passed.
    pub healthy: bool,
    /// The body.
    pub body: String,
}

impl HealthChecks {
    /// No checks yet. The metrics of `/metrics/slis` go to `slis`.
    pub fn new(slis: &Registry) -> Result<Self, prometheus::Error> {
        let state = Opts::new("kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck.");
        let runs = Opts::new("kubernetes_healthchecks_total", "[STABLE] This metric records the results of all healthcheck.");
        let state = GaugeVec::new(state, &["name", "type"])?;
        let runs = IntCounterVec::new(runs, &["name", "status", "type"])?;
        slis.register(Box::new(state.clone()))?;
        slis.register(Box::new(runs.clone()))?;
        Ok(Self { checks: Arc::default(), state, runs })
    }

    /// Adds checks behind those that are there.
    pub fn add(&self, checks: impl IntoIterator<Item = (String, Check)>) {
        self.checks.write().expect("no check panics while the list is locked").extend(checks);
    }

    /// Runs the checks. `query` is what follows the question mark: `verbose`, `exclude=<name>`.
    pub fn report(&self, query: &str) -> Report {
        let pairs: Vec<_> = form_urlencoded(query);
        let verbose = pairs.iter().any(|(key, _)| key == "verbose");
        let excluded: Vec<&str> = pairs.iter().filter(|(key, _)| key == "exclude").map(|(_, value)| value.as_str()).collect();
        let mut checks = self.checks.read().expect("no check panics while the list is locked").clone();
        if checks.is_empty() {
            checks.push(("ping".to_owned(), Arc::new(|| Ok(()))));
        }
        let mut body = String::new();
        let mut healthy = true;
        for (name, check) in &checks {
            if excluded.contains(&name.as_str()) {
                body.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            let outcome = check();
            self.observe(name, outcome.is_ok());
            match outcome {
                Ok(()) => body.push_str(&format!("[+]{name} ok\n")),
                Err(reason) => {
                    healthy = false;
                    body.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    tracing::debug!(check = name, reason, "healthz check failed");
                }
            }
        }
        if healthy && !verbose {
            return Report { healthy, body: "ok".to_owned() };
        }
        let mut unmatched: Vec<_> = excluded.into_iter().filter(|e| !checks.iter().any(|(name, _)| name == e)).collect();
        if !unmatched.is_empty() {
            unmatched.sort_unstable();
            let list = unmatched.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
            body.push_str(&format!("warn: some health checks cannot be excluded: no matches for {list}\n"));
        }
        body.push_str(if healthy { "healthz check passed\n" } else { "healthz check failed\n" });
        Report { healthy, body }
    }

    /// Forgets the metrics of all checks.
    pub(crate) fn reset_metrics(&self) {
        self.state.reset();
        self.runs.reset();
    }

    fn observe(&self, name: &str, ok: bool) {
        self.state.with_label_values(&[name, "healthz"]).set(if ok { 1.0 } else { 0.0 });
        self.runs.with_label_values(&[name, if ok { "success" } else { "error" }, "healthz"]).inc();
    }
}

/// Key and value of each part of a query.
fn form_urlencoded(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
            match (bytes[at], escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
                (b'%', Some(byte)) => {
                    out.push(byte);
                    at += 2;
                }
                (b'+', _) => out.push(b' '),
                (byte, _) => out.push(byte),
            }
            at += 1;
        }
        String::from_utf8_lossy(&out).into_owned()
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, ""))).map(|(key, value)| (decode(key), decode(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type List = &'static [(&'static str, bool)];

    fn checks(list: List) -> HealthChecks {
        let checks = HealthChecks::new(&Registry::new()).unwrap();
        checks.add(list.iter().map(|&(name, ok)| {
            let check: Check = Arc::new(move || if ok { Ok(()) } else { Err("because".to_owned()) });
            (name.to_owned(), check)
        }));
        checks
    }

    #[test]
    fn answers_are_rendered_as_upstream_does() {
        const GOOD: (&str, bool) = ("leaderElection", true);
        const BAD: (&str, bool) = ("deployment-controller", false);
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
            assert_eq!(checks(list).report(query), Report { healthy, body }, "{list:?} ?{query}");
        }
    }

    #[test]
    fn each_run_of_a_check_is_counted_and_an_excluded_one_is_not() {
        let slis = Registry::new();
        let checks = HealthChecks::new(&slis).unwrap();
        checks.add([("a".to_owned(), Arc::new(|| Ok(())) as Check), ("b".to_owned(), Arc::new(|| Err(String::new())))]);
        checks.report("");
        checks.report("exclude=b");
        let count = |name, status| checks.runs.with_label_values(&[name, status, "healthz"]).get();
        assert_eq!((count("a", "success"), count("b", "error"), count("b", "success")), (2, 1, 0));
        assert!(checks.state.with_label_values(&["b", "healthz"]).get() < 0.5);
    }
}
