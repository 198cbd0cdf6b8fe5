//! Upstream's tests of the deletion of namespaced content, with their values.
//!
//! `docs/parity.md` lists all of them.

use steersman_devcluster::faults::EVERY_GROUP;
use steersman_devcluster::status::Qualified;

use super::*;

/// A terminating namespace, as stored by an API server.
fn stored(phase: &str, finalizers: &[&str], uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "uid": uid, "deletionTimestamp": "2023-11-14T22:13:20Z", "finalizers": ["meta.io/f"]},
        "spec": {"finalizers": finalizers}, "status": {"phase": phase},
    })
}

fn conflict() -> Status {
    Status::modified(
        Qualified {
            name: "namespaces",
            group: "",
        },
        "shop",
    )
}

/// Upstream: `TestSyncNamespaceThatIsTerminating{NonExperimental,V1}`.
#[tokio::test(start_paused = true)]
async fn sync_namespace_that_is_terminating() {
    // (name, finalizers, discovery works, last requests of the controller, condition with `True`)
    let status = format!("update {SHOP}/status 200");
    let finalize = format!("update {SHOP}/finalize 200");
    let cases: [(&str, &[&str], bool, &[&str], Option<&str>); 4] = [
        (
            "pending-finalize",
            &["kubernetes"],
            true,
            &[&status, &finalize],
            None,
        ),
        (
            "complete-finalize",
            &[],
            true,
            &["get /api/v1/namespaces/shop 200"],
            None,
        ),
        (
            "groupVersionResourceErr",
            &[],
            false,
            &["get /api/v1/namespaces/shop 200"],
            None,
        ),
        (
            "groupVersionResourceErr-finalize",
            &["kubernetes"],
            false,
            &[&status],
            Some("NamespaceDeletionDiscoveryFailure"),
        ),
    ];
    for (name, finalizers, discovers, last, expected) in cases {
        let world = world().await;
        if !discovers {
            world.cluster.faults().hide_from_discovery("apps");
        }
        world.clear_requests();
        world
            .cluster
            .load(stored("Terminating", finalizers, "1"))
            .unwrap();
        // The first pass runs after 5 s. The next follows its status update and runs after 10 s.
        tokio::time::sleep(Duration::from_millis(5050)).await;
        let requests: Vec<String> = world
            .controller_requests()
            .into_iter()
            .filter(|line| line.contains("namespaces/shop"))
            .collect();
        let writes: Vec<&String> = requests
            .iter()
            .filter(|line| line.starts_with("update"))
            .collect();
        match last {
            [only] if only.starts_with("get") => assert_eq!(requests, [*only], "{name}"),
            _ => assert_eq!(writes, last, "{name}"),
        }
        assert_eq!(
            requests.iter().any(|line| line.starts_with("list")),
            !finalizers.is_empty(),
            "{name}"
        );
        let shop = world.shop().unwrap();
        assert_eq!(shop["status"]["phase"], "Terminating", "{name}");
        assert_eq!(
            shop["spec"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty),
            discovers || finalizers.is_empty(),
            "{name}"
        );
        assert!(
            expected.is_none_or(|kind| world.failure_message(kind).is_some()),
            "{name}"
        );
    }
}

/// Upstream: `TestDeleteEncounters404` starts with namespaces in the phase `Active`.
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_in_phase_active_becomes_terminating_first() {
    let world = world().await;
    world.clear_requests();
    world.cluster.faults().reject(
        Matcher::new("update", "namespaces").subresource("status"),
        conflict(),
        Some(1),
    );
    world
        .cluster
        .load(stored("Active", &["kubernetes"], "1"))
        .unwrap();
    world
        .until("finalized", |_| {
            world.shop().unwrap()["spec"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        })
        .await;
    let get = format!("get {SHOP} 200");
    let status = |code| format!("update {SHOP}/status {code}");
    assert_eq!(
        world.controller_requests()[..4],
        [get.clone(), status(409), get, status(200)]
    );
    assert_eq!(world.shop().unwrap()["status"]["phase"], "Terminating");
}

/// Upstream: `TestRetryOnConflictError`.
#[tokio::test(start_paused = true)]
async fn retry_on_conflict_error() {
    let world = world().await;
    world.cluster.faults().reject(
        Matcher::new("update", "namespaces").subresource("finalize"),
        conflict(),
        Some(1),
    );
    let begin = world.delete_shop().await;
    let took = world.shop_gone(begin).await;
    assert!(
        took < Duration::from_secs(6),
        "within the same pass: {took:?}"
    );
    let requests = world.controller_requests();
    let finalize = |status| format!("update {SHOP}/finalize {status}");
    assert_eq!(
        requests[requests.len() - 3..],
        [finalize(409), format!("get {SHOP} 200"), finalize(200)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_recreated_between_retries_stays() {
    let world = world().await;
    let finalize = Matcher::new("update", "namespaces").subresource("finalize");
    world
        .cluster
        .faults()
        .delay(finalize, Duration::from_secs(2), Some(1));
    world.delete_shop().await;
    world
        .until("the finalize request is due", |_| {
            world.has_condition("NamespaceContentRemaining")
        })
        .await;
    // Another client finalized the namespace, and a user created it again.
    let mut new = stored("Active", &["kubernetes"], "2");
    new["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    world.cluster.load(new).unwrap();
    world.clear_requests();
    let before = world.shop();
    tokio::time::sleep(A_WHILE).await;
    let get = format!("get {SHOP} 200");
    // The conflict, the read that shows another UID, and the read of the next pass.
    assert_eq!(
        world.controller_requests(),
        [format!("update {SHOP}/finalize 409"), get.clone(), get]
    );
    assert_eq!(world.shop(), before);
}

#[tokio::test(start_paused = true)]
async fn an_object_stored_during_a_pass_is_deleted_and_a_later_one_is_refused() {
    let world = world().await;
    world.cluster.faults().delay(
        Matcher::new("list", "secrets"),
        Duration::from_secs(30),
        Some(1),
    );
    let begin = world.delete_shop().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // Another API server, with an older cache of the namespace, stores an object.
    let mut late = config_map("late", &[]);
    late["metadata"]["uid"] = json!("late");
    world.cluster.load(late).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        world.cluster.count("configmaps"),
        0,
        "the pass has deleted the ConfigMaps with this object"
    );
    assert_eq!(
        world
            .cluster
            .create(config_map("later", &[]))
            .await
            .unwrap_err()
            .code,
        403
    );
    world.shop_gone(begin).await;
    assert_eq!(world.cluster.count("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_discovery_a_namespace_stays_and_a_new_controller_ends() {
    let world = world().await;
    world.cluster.create(config_map("a", &[])).await.unwrap();
    world.cluster.faults().hide_from_discovery(EVERY_GROUP);
    world.delete_shop().await;
    let message = world
        .until_condition_is_true("NamespaceDeletionDiscoveryFailure")
        .await;
    assert!(message.contains("service unavailable"), "{message}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        (
            world.cluster.count("configmaps"),
            world.request_count("finalize")
        ),
        (1, 0)
    );

    // Upstream ends the process if discovery finds no types. Here the end of a controller ends it.
    let controller = (DESCRIPTOR.init)(&world.context()).unwrap();
    let ended = tokio::time::timeout(
        A_WHILE,
        controller.run(steersman_runtime::tasks::CancellationToken::new()),
    )
    .await;
    assert!(ended.is_ok());

    world.cluster.faults().show_in_discovery(EVERY_GROUP);
    let took = world.shop_gone(Instant::now()).await;
    assert!(took <= Duration::from_secs(61), "{took:?}");
    assert_eq!(world.cluster.count("configmaps"), 0);
}
