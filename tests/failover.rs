//! One manager takes over from another that is at work.

use std::net::SocketAddr;
use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_runtime::clock::Clock;

use crate::election::{cluster, start};
use crate::program::start_at;
use crate::support::LIMIT;
use crate::support::cluster::{
    UNHURRIED, created_through, deployment, done, held, wait_for_count, wait_for_lease,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_stop_hands_over_at_once_and_says_so() {
    const PODS: usize = 200;
    let cluster = DevCluster::new(Clock::system());
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let door = cluster.serve_https(anywhere).await.unwrap();
    let other = cluster.serve_https(anywhere).await.unwrap();
    let mut leader = start_at(&door, &UNHURRIED);
    let first = wait_for_lease(&cluster, held).await["holderIdentity"].clone();
    let mut standby = start_at(&other, &UNHURRIED);
    cluster
        .create(deployment("web", PODS as u32))
        .await
        .unwrap();
    // More than the burst of its throttle: from now on the leader creates some twenty a second,
    // with a hundred waiting for theirs.
    let at_work = cluster
        .wait_for("pods", LIMIT, |pods| pods.len() >= 40)
        .await;
    assert!(
        at_work.unwrap().len() < PODS / 2,
        "nothing left to hand over"
    );

    leader.signal("TERM");
    // By its watch: with these durations it does not look again of itself.
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
    let (of_leader, of_standby) = (
        created_through(&cluster, &door),
        created_through(&cluster, &other),
    );
    assert!(
        of_standby > 0,
        "the leader did all of its work before it gave the Lease up"
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
        (done(&cluster, "create"), done(&cluster, "delete")),
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
        "Events of the end are sent, too: {events:#?}"
    );
    assert!(
        !said("not sent"),
        "a write that a stop held back is no failure: {events:#?}"
    );
    door.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_whose_cache_lags_repeats_nothing_of_what_the_leader_did() {
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
        done(&cluster, "create"),
        5,
        "the standby created pods that were there"
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
    assert_eq!((done(&cluster, "create"), done(&cluster, "delete")), (6, 0));
    standby.stop().await.unwrap();
}
