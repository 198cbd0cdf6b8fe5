//! What the probes of whole managers say while their world changes.

use std::time::Duration;

use steersman::health::{HealthChecks, Probe};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use crate::election::{cluster, start};
use crate::support::LIMIT;
use crate::support::cluster::{held, wait_for_lease};

/// Waits until the body of `probe` has `part`.
async fn wait_for(health: &HealthChecks, probe: Probe, part: &str) -> String {
    let body = || health.report(probe, "verbose").body;
    let waited = tokio::time::timeout(LIMIT * 10, async {
        while !body().contains(part) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("no {part:?} in:\n{}", body()));
    body()
}

#[tokio::test(start_paused = true)]
async fn a_leader_at_work_and_a_warm_standby_are_ready_and_nobody_else_is() {
    let cluster = cluster();
    let slow = cluster.faults().delay(Matcher::new("watch", "pods"), Duration::from_secs(20), None);
    let leader = start(&cluster, &[]);
    wait_for_lease(&cluster, held).await;
    let body = wait_for(&leader.health, Probe::Readyz, "readyz check failed").await;
    assert!(body.contains("[-]informer-sync failed") && body.contains("[-]startup failed"), "{body}");
    assert!(leader.health.report(Probe::Livez, "").healthy, "it is alive all the same");
    let body = wait_for(&leader.health, Probe::Readyz, "readyz check passed").await;
    for name in ["leaderElection", "startup", "shutdown", "informer-sync", "deployment-controller"] {
        assert!(body.contains(&format!("[+]{name} ok\n")), "{name} in\n{body}");
    }

    let warm = start(&cluster, &[]);
    let cold = start(&cluster, &[("standby-informers", "false")]);
    wait_for(&cold.health, Probe::Readyz, "readyz check passed").await;
    assert!(!warm.health.report(Probe::Readyz, "").healthy, "its caches are empty");
    wait_for(&warm.health, Probe::Readyz, "readyz check passed").await;
    cluster.faults().remove(slow);

    let health = leader.health.clone();
    leader.stop().await.unwrap();
    assert!(health.report(Probe::Readyz, "").body.contains("[-]shutdown failed: reason withheld\n"));
    for standby in [warm, cold] {
        standby.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_down_is_reported_and_fails_readiness_only_where_that_is_wanted() {
    for (strict, found) in [("false", "[+]informer-sync ok, but degraded"), ("true", "[-]informer-sync failed")] {
        let cluster = cluster();
        let manager = start(&cluster, &[("strict-health-checks", strict)]);
        wait_for(&manager.health, Probe::Readyz, "readyz check passed").await;
        for verb in ["watch", "list"] {
            cluster.faults().reject(Matcher::new(verb, "pods"), Status::internal("no pods today"), None);
        }
        cluster.faults().break_watches("pods");
        wait_for(&manager.health, Probe::Readyz, found).await;
        assert!(manager.health.report(Probe::Livez, "").healthy, "a restart would not help");
        manager.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_its_own_flag_switches_off_is_no_part_of_the_checks() {
    for (enabled, listed) in [("true", true), ("false", false)] {
        let cluster = cluster();
        let manager = start(&cluster, &[("enable-garbage-collector", enabled)]);
        let body = wait_for(&manager.health, Probe::Readyz, "[+]namespace-controller ok").await;
        assert_eq!(body.contains("[+]garbage-collector-controller ok\n"), listed, "{body}");
        manager.stop().await.unwrap();
    }
}
