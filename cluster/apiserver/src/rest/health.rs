//! `/healthz`, `/livez` and `/readyz`, with the checks of a kube-apiserver.
//!
//! Every check passes: the server answers only after its start, and its store cannot fail.
//! Upstream is `apiserver/pkg/server/healthz`; the checks and their order are those of 1.36.2 with
//! default flags.

use std::collections::BTreeSet;

use http::Response;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::query::Query;
use super::{Body, text};

/// The checks of all three probes, between those at the start and at the end of each.
const COMMON: [&str; 32] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "ping",
];

/// The probes, and the parts of the API server that serve each.
pub(super) const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];

/// The names of the checks of a probe, in the order of its verbose answer.
pub(super) fn checks(probe: &str) -> Vec<&'static str> {
    let (hooks, ping) = COMMON.split_at(COMMON.len() - 1);
    let (first, last): (&[&str], &[&str]) = if probe == "readyz" {
        (&["log", "informer-sync"], &["shutdown"])
    } else {
        (&["log", "loopback-serving-certificate", "etcd"], &[])
    };
    [ping, first, hooks, last].concat()
}

/// The answer of a probe, or of one of its checks; `None` if the check is unknown.
pub(super) fn answer(probe: &str, check: Option<&str>, query: &Query) -> Option<Response<Body>> {
    let checks = checks(probe);
    if let Some(check) = check {
        return checks.contains(&check).then(|| text(200, "ok"));
    }
    let mut response = if query.flag("verbose").is_some() {
        text(200, verbose(probe, &checks, query))
    } else {
        text(200, "ok")
    };
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Some(response)
}

fn verbose(probe: &str, checks: &[&str], query: &Query) -> String {
    let excluded: BTreeSet<&str> = query.all("exclude").collect();
    let mut lines: Vec<String> = checks
        .iter()
        .map(|check| {
            let how = if excluded.contains(check) {
                "excluded: "
            } else {
                ""
            };
            format!("[+]{check} {how}ok\n")
        })
        .collect();
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        lines.push(format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(",")
        ));
    }
    lines.push(format!("{probe} check passed\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(probe: &str, query: &str) -> Vec<String> {
        let text = verbose(probe, &checks(probe), &Query::parse(Some(query)));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn verbose_answers_list_the_checks_of_the_probe() {
        let ready = lines("readyz", "verbose");
        assert_eq!(
            ready[..3],
            ["[+]ping ok", "[+]log ok", "[+]informer-sync ok"]
        );
        assert_eq!(
            ready[ready.len() - 2..],
            ["[+]shutdown ok", "readyz check passed"]
        );
        let live = lines("livez", "verbose");
        assert_eq!(live[3], "[+]etcd ok");
        assert_eq!(live.last().unwrap(), "livez check passed");
        assert_eq!((ready.len(), live.len()), (36, 36));
    }

    #[test]
    fn excluded_checks_are_marked_and_unknown_ones_are_named() {
        let found = lines("readyz", "verbose&exclude=zz&exclude=ping&exclude=etcd");
        assert_eq!(found[0], "[+]ping excluded: ok");
        assert_eq!(
            found[found.len() - 2],
            "warn: some health checks cannot be excluded: no matches for \"etcd\",\"zz\""
        );
    }
}
