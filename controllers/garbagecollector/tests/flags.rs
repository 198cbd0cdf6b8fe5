//! The flags of the garbage collector.

use steersman_devcluster::faults::Matcher;

use super::*;

async fn started(flag: &str, value: &str) -> World {
    let mut world = World::bare().await;
    world
        .restart_with(&[DESCRIPTOR], |context| context.with_flag(flag, value))
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_disabled_collector_sends_no_requests_and_deletions_wait_for_it() {
    let mut world = started("enable-garbage-collector", "false").await;
    for (name, policy) in [("a", "Background"), ("b", "Foreground"), ("c", "Orphan")] {
        let owner = world.config_map(name, &[]).await;
        world
            .config_map(&format!("of-{name}"), &[(&owner, true)])
            .await;
        world.delete_with(name, policy).await;
    }
    tokio::time::sleep(A_WHILE).await;
    world
        .until_config_maps(&["b", "c", "of-a", "of-b", "of-c"])
        .await;
    assert_eq!(
        world
            .cluster
            .request_counts("kube-controller-manager")
            .values()
            .sum::<u64>(),
        0
    );

    // After it is enabled, the collector completes these deletions.
    world.restart(&[DESCRIPTOR]).await;
    world.until_config_maps(&["of-c"]).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_gc_syncs_limits_the_number_of_parallel_requests() {
    let long = Duration::from_secs(20);
    for (workers, at_once) in [(1, 1), (3, 3), (20, 8), (0, 0), (-1, 0)] {
        for (policy, verb) in [("Background", "delete"), ("Orphan", "patch")] {
            let world = started("concurrent-gc-syncs", &workers.to_string()).await;
            for number in 0..8 {
                let owner = world.config_map(&format!("a{number}"), &[]).await;
                world
                    .config_map(&format!("b{number}"), &[(&owner, true)])
                    .await;
            }
            tokio::time::sleep(A_WHILE).await;
            let ours = Matcher::new(verb, "configmaps").client("kube-controller-manager");
            let slow = world.cluster.faults().delay(ours, long, None);
            for number in 0..8 {
                world.delete_with(&format!("a{number}"), policy).await;
            }
            tokio::time::sleep(long / 2).await;
            assert_eq!(
                world.cluster.faults().hits(slow),
                at_once,
                "{workers} workers, {policy}"
            );
        }
    }
}
