//! One manager takes over from another in the middle of its work.

use std::net::SocketAddr;
use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_values::clock::Clock;

use crate::election::{cluster, start};
use crate::program::start_at;
use crate::support::LIMIT;
use crate::support::cluster::{
    NO_EXPIRY, created_through, deployment, held, pod_writes, wait_for_count, wait_for_lease,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_leader_hands_over_at_once_and_reports_it() {
    const PODS: usize = 200;
    let cluster = DevCluster::new(Clock::system());
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let door = cluster.serve_https(anywhere).await.unwrap();
    let other = cluster.serve_https(anywhere).await.unwrap();
    let mut leader = start_at(&door, &NO_EXPIRY);
    let first = wait_for_lease(&cluster, held).await["holderIdentity"].clone();
    let mut standby = start_at(&other, &NO_EXPIRY);
    cluster
        .create(deployment("web", PODS as u32))
        .await
        .unwrap();
    // That is more than the burst of the throttle. The leader now creates about twenty pods per
    // second, while about a hundred requests wait.
    let at_work = cluster
        .wait_for("pods", LIMIT, |pods| pods.len() >= 40)
        .await;
    assert!(
        at_work.unwrap().len() < PODS / 2,
        "the leader has too few pods left to hand over"
    );

    leader.signal("TERM");
    // The standby learns of the release by its watch: these durations leave no other way in time.
    wait_for_lease(&cluster, |spec| {
        held(spec) && spec["holderIdentity"] != first
    })
    .await;
    assert_eq!(
        tokio::task::spawn_blocking(move || leader.end())
            .await
            .unwrap(),
        Some(0)
    );

    wait_for_count(&cluster, "pods", PODS).await;
    let of_leader = created_through(&cluster, &door);
    let of_standby = created_through(&cluster, &other);
    assert!(
        of_standby > 0,
        "the leader completed all work before it released the Lease"
    );
    assert_eq!(of_leader + of_standby, PODS);
    standby.signal("TERM");
    assert_eq!(
        tokio::task::spawn_blocking(move || standby.end())
            .await
            .unwrap(),
        Some(0)
    );
    assert_eq!(
        (
            pod_writes(&cluster, "create"),
            pod_writes(&cluster, "delete")
        ),
        (PODS, 0),
        "pods created and deleted"
    );
    let events = cluster.objects("events");
    let said = |text: &str| {
        events.iter().any(|event| {
            event["message"]
                .as_str()
                .is_some_and(|message| message.contains(text))
        })
    };
    assert!(
        said("stopped leading"),
        "Events about the end of leadership are sent: {events:#?}"
    );
    assert!(
        !said("not sent"),
        "a write that the stop prevented is not reported as a failure: {events:#?}"
    );
    door.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_does_not_repeat_writes() {
    let cluster = cluster();
    let leader = start(&cluster, &[]);
    let first = wait_for_lease(&cluster, held).await["holderIdentity"].clone();
    let standby = start(&cluster, &[]);
    cluster.create(deployment("web", 3)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    cluster.faults().stall_watches("pods");
    cluster
        .patch(
            &cluster.path("deployments", "default", "web"),
            serde_json::json!({"spec": {"replicas": 5}}),
        )
        .await
        .unwrap();
    wait_for_count(&cluster, "pods", 5).await;
    leader.stop().await.unwrap();
    wait_for_lease(&cluster, |spec| {
        held(spec) && spec["holderIdentity"] != first
    })
    .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        pod_writes(&cluster, "create"),
        5,
        "the new leader created pods that existed already"
    );

    cluster.faults().resume_watches("pods");
    cluster
        .patch(
            &cluster.path("deployments", "default", "web"),
            serde_json::json!({"spec": {"replicas": 6}}),
        )
        .await
        .unwrap();
    wait_for_count(&cluster, "pods", 6).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        (
            pod_writes(&cluster, "create"),
            pod_writes(&cluster, "delete")
        ),
        (6, 0)
    );
    standby.stop().await.unwrap();
}
