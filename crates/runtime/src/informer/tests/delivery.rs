//! Tests of the changes that handlers receive, of waiters for a version, and of the factory.

use std::borrow::Cow;

use super::*;
use crate::informer::MetadataInformer;

#[tokio::test(start_paused = true)]
async fn handlers_receive_the_difference_after_a_gap() {
    let before = [
        node("kept", 1),
        node("changed", 2),
        node("gone", 3),
        node_with_uid("recreated", 4, "first"),
    ];
    let after = [
        node("kept", 1),
        node("changed", 12),
        node_with_uid("recreated", 14, "second"),
        node("new", 15),
    ];
    let expired = event("ERROR", &status(410, "Expired"));
    let test = TestInformer::new([
        streamed(
            &before,
            10,
            &[event("MODIFIED", &node("gone", 11)), expired],
            After::Hang,
        ),
        streamed(&after, 20, &[], After::Hang),
    ]);
    let uids = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&uids);
    test.informer.add_handler(move |change| {
        if let Change::Updated { old, new } = change
            && old.meta.uid != new.meta.uid
        {
            writer
                .lock()
                .push(format!("{:?} -> {:?}", old.meta.uid, new.meta.uid));
        }
    });
    test.start();
    until(|| test.informer.is_synced(), String::new).await;
    let kept = ObjectKey::new("", "kept");
    let held = test.informer.store().get(&kept).unwrap();
    let changes = test.wait_for_changes(9).await;
    assert_eq!(
        changes[5], "missed deletion of gone@11",
        "deletions come first, with the last known state"
    );
    let mut rest = changes[6..].to_vec();
    rest.sort();
    assert_eq!(
        rest,
        [
            "added new@15",
            "updated changed@2 -> changed@12",
            "updated recreated@4 -> recreated@14"
        ]
    );
    assert_eq!(*uids.lock(), ["first -> second"]);
    assert!(
        Arc::ptr_eq(&held, &test.informer.store().get(&kept).unwrap()),
        "the store keeps unchanged objects"
    );
}

#[tokio::test(start_paused = true)]
async fn a_relist_without_changes_calls_no_handler() {
    let nodes = [node("a", 3), node("b", 4)];
    let expired = event("ERROR", &status(410, "Expired"));
    let script = [
        streamed(&nodes, 10, &[expired], After::Hang),
        streamed(&nodes, 20, &[], After::Hang),
    ];
    let test = TestInformer::after(script, 2).await;
    until(
        || test.informer.store().resource_version() == 20,
        String::new,
    )
    .await;
    assert_eq!(test.changes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_each_object_exactly_once() {
    let (send, lines) = mpsc::unbounded_channel();
    let test = TestInformer::new([Reply::Live(lines)]);
    test.start();
    send.send(synced(1)).unwrap();
    let feeder = tokio::spawn(async move {
        for i in 0..500 {
            send.send(event("ADDED", &node(&format!("n{i}"), 10 + i)))
                .unwrap();
            tokio::task::yield_now().await;
        }
        send
    });
    let mut late = Vec::new();
    for i in 1..=5 {
        test.wait_for_changes(i * 80).await;
        late.push(record_changes(&test.informer));
    }
    test.wait_for_changes(500).await;
    let _open = feeder.await.unwrap();
    for changes in late {
        let changes = changes.lock();
        let mut names: Vec<&str> = changes
            .iter()
            .map(|line| line.split(' ').next_back().unwrap())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((changes.len(), names.len()), (500, 500));
        assert!(
            changes
                .iter()
                .is_sorted_by_key(|line| line.starts_with("added")),
            "initial objects come before later additions"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_handler_receives_all_changes_in_order() {
    const EVENTS: u64 = 100_000;
    let events: Vec<String> = (0..EVENTS)
        .map(|i| event("MODIFIED", &node(&format!("n{}", i % 10), 11 + i)))
        .collect();
    let test = TestInformer::new([streamed(&[], 10, &events, After::Hang)]);
    let versions = [
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    ];
    for versions in &versions {
        let versions = Arc::clone(versions);
        let store = test.informer.store();
        test.informer.add_handler(move |change| {
            let (Change::Added { object, .. } | Change::Updated { new: object, .. }) = change
            else {
                return;
            };
            assert!(
                Arc::ptr_eq(&store.get(&object.key()).unwrap(), object),
                "the store shows the change before the handler's call"
            );
            versions.lock().push(object.meta.resource_version);
        });
    }
    test.start();
    test.wait_for_changes(EVENTS as usize).await;
    let expected: Vec<u64> = (11..11 + EVENTS).collect();
    for versions in versions {
        assert_eq!(*versions.lock(), expected);
    }
    assert_eq!(test.metric("steersman_informer_handler_panics_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_does_not_affect_other_handlers() {
    let test = TestInformer::new([streamed(
        &[node("a", 3)],
        10,
        &[event("ADDED", &node("b", 11))],
        After::Hang,
    )]);
    test.informer.add_handler(|_| panic!("on purpose"));
    let after = record_changes(&test.informer);
    test.start();
    assert_eq!(
        test.wait_for_changes(2).await,
        ["initial a@3", "added b@11"]
    );
    assert_eq!(*after.lock(), test.changes());
    assert_eq!(test.metric("steersman_informer_handler_panics_total"), 2.0);
    assert_eq!(test.informer.store().resource_version(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_resync_sends_an_update_for_each_object() {
    let test = TestInformer::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    let started = Instant::now();
    test.start_with_resync(Duration::from_secs(60));
    assert_eq!(
        test.wait_for_changes(3).await,
        ["initial a@3", "updated a@3 -> a@3", "updated a@3 -> a@3"]
    );
    assert!(started.elapsed() >= Duration::from_secs(120));
    assert_eq!(test.server.requests().len(), 1, "a resync sends no request");
}

#[tokio::test(start_paused = true)]
async fn waiters_for_a_version_are_called_after_the_handlers() {
    let (send, lines) = mpsc::unbounded_channel();
    let test = TestInformer::new([Reply::Live(lines)]);
    test.start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let expect = |version| {
        let seen = Arc::clone(&seen);
        let changes = Arc::clone(&test.changes);
        test.informer.when_seen(version, move || {
            seen.lock().push((version, changes.lock().len()))
        });
    };
    for version in [12, 10, 12, 15, 30] {
        expect(version);
    }
    test.informer.when_seen(11, || panic!("on purpose"));
    let at = |count: usize| {
        let seen = Arc::clone(&seen);
        async move { until(|| seen.lock().len() >= count, String::new).await }
    };
    for line in [event("ADDED", &node("a", 3)), synced(10)] {
        send.send(line).unwrap();
    }
    at(1).await;
    send.send(event("DELETED", &node("a", 12))).unwrap();
    at(3).await;
    send.send(bookmark(20)).unwrap();
    at(4).await;
    assert_eq!(*seen.lock(), [(10, 1), (12, 2), (12, 2), (15, 2)]);
    expect(20);
    assert_eq!(
        seen.lock().last(),
        Some(&(20, 2)),
        "called at once for a version in the past"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_ends_at_a_rewind() {
    let expired = event("ERROR", &status(410, "Expired"));
    let test = TestInformer::new([
        streamed(&[], 100, &[expired], After::Hang),
        streamed(&[], 7, &[], After::Hang),
    ]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    test.start();
    until(|| test.informer.is_synced(), String::new).await;
    let forgotten = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(AtomicUsize::new(0));
    MetadataInformer::over(Arc::new(test.informer.clone())).on_rewind({
        let forgotten = Arc::clone(&forgotten);
        move || {
            forgotten.fetch_add(1, Ordering::Relaxed);
        }
    });
    test.informer.when_seen(150, {
        let forgotten = Arc::clone(&forgotten);
        let seen = Arc::clone(&seen);
        move || {
            counter.fetch_add(1, Ordering::Relaxed);
            seen.store(forgotten.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
    until(
        || test.informer.store().resource_version() == 7,
        String::new,
    )
    .await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(
        forgotten.load(Ordering::Relaxed),
        1,
        "once, and not for the first list"
    );
    assert_eq!(
        seen.load(Ordering::Relaxed),
        1,
        "waiters are called after on_rewind"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_after_cancellation() {
    let test = TestInformer::new([]);
    let server: Arc<dyn ListWatch> = Arc::<Server>::clone(&test.server);
    let task = tokio::spawn(
        test.informer
            .clone()
            .run(server, Duration::ZERO, test.stop.clone()),
    );
    test.wait_for_requests(1).await;
    test.stop.cancel();
    time::timeout(Duration::from_secs(1), task)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_factory_runs_one_informer_per_type_and_starts_each_once() {
    let nodes = Server::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    let pods = Server::new([streamed(&[], 5, &[], After::Hang)]);
    let sources = [Arc::clone(&nodes), Arc::clone(&pods)];
    let source = move |resource: Cow<'static, ResourceType>, _| -> Arc<dyn ListWatch> {
        let [nodes, pods] = sources.clone();
        if resource.plural == "nodes" {
            nodes
        } else {
            pods
        }
    };
    let factory = InformerFactory::over(source, Duration::ZERO, &Registry::new()).unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    assert!(factory.wait_synced(&stop).await, "no informer was started");

    let changes = record_changes(&factory.shared::<Node>());
    factory.start(&tasks, &stop);
    assert!(!factory.shared::<Node>().is_synced());
    assert!(factory.wait_synced(&stop).await);
    assert_eq!(*changes.lock(), ["initial a@3"]);
    assert_eq!(
        factory.shared::<Node>().store().len(),
        1,
        "every caller gets the same informer"
    );

    assert!(!factory.shared::<Pod>().is_synced());
    assert!(
        factory.wait_synced(&stop).await,
        "an informer that was not started is not waited for"
    );
    factory.start(&tasks, &stop);
    factory.start(&tasks, &stop);
    assert!(factory.wait_synced(&stop).await);
    assert!(factory.shared::<Pod>().is_synced());
    assert_eq!((nodes.requests().len(), pods.requests().len()), (1, 1));
    assert_eq!(tasks.running(), ["informer nodes", "informer pods"]);

    stop.cancel();
    time::timeout(Duration::from_secs(1), tasks.join(Duration::from_secs(5)))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_caches_ends_at_shutdown() {
    let factory =
        InformerFactory::over(|_, _| Server::new([]), Duration::ZERO, &Registry::new()).unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    factory.shared::<Node>();
    factory.start(&tasks, &stop);
    let (synced, ()) = tokio::join!(factory.wait_synced(&stop), async {
        time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
    });
    assert!(!synced);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_servers_may_lack_is_waited_for_by_its_readers_alone() {
    let factory =
        InformerFactory::over(|_, _| Server::new([]), Duration::ZERO, &Registry::new()).unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let claims = factory.shared::<steersman_objects::ResourceClaim>();
    factory.start(&tasks, &stop);
    assert!(factory.wait_synced(&stop).await && factory.not_synced().is_empty());
    let waited = time::timeout(Duration::from_secs(60), claims.wait_synced()).await;
    assert!(waited.is_err() && !claims.is_synced());
}

#[tokio::test(start_paused = true)]
async fn metrics_have_upstreams_names_and_labels() {
    let test = TestInformer::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    test.start();
    test.wait_for_changes(1).await;
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&test.registry.gather())
        .unwrap();
    for line in [
        r#"informer_queued_items{group="",name="kube-controller-manager",resource="nodes",version="v1"} 0"#,
        r#"informer_processing_latency_seconds_count{group="",name="kube-controller-manager",resource="nodes",version="v1"} 1"#,
        r#"informer_processing_latency_seconds_bucket{group="",name="kube-controller-manager",resource="nodes",version="v1",le="0.001"} 1"#,
        r#"steersman_informer_objects{resource="nodes"} 1"#,
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in\n{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_restarts_after_a_panic() {
    static PANICKED: AtomicUsize = AtomicUsize::new(0);
    let script = [
        streamed(
            &[node("a", 3)],
            10,
            &[event("ADDED", &node("b", 11))],
            After::Hang,
        ),
        streamed(&[node("b", 11), node("c", 12)], 12, &[], After::Hang),
    ];
    let test = TestInformer::new(script);
    let broken = test.informer.store().add_index("broken", |node| {
        if &*node.meta.name == "b" && PANICKED.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("on purpose");
        }
        vec![node.meta.name.as_ref().into()]
    });
    test.start();
    let mut changes = test.wait_for_changes(4).await;
    changes[2..].sort();
    assert_eq!(
        changes,
        [
            "initial a@3",
            "missed deletion of a@3",
            "added b@11",
            "added c@12"
        ]
    );
    assert_eq!(test.names(), ["b@11", "c@12"]);
    assert_eq!((broken.get("a").len(), broken.get("b").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_metadata_informer_uses_a_shared_watch_or_else_its_own() {
    let whole = Server::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    let partial = Server::new([
        streamed(&[node("kept", 1), node("gone", 2)], 10, &[], After::Hang),
        streamed(&[node("kept", 1), node("new", 12)], 20, &[], After::Hang),
    ]);
    let sources = [Arc::clone(&whole), Arc::clone(&partial)];
    let source = move |_: Cow<'static, ResourceType>, form: Form| -> Arc<dyn ListWatch> {
        let [whole, partial] = sources.clone();
        if form == Form::Whole { whole } else { partial }
    };
    let registry = Registry::new();
    let factory = InformerFactory::over(source, Duration::ZERO, &registry).unwrap();
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    factory.shared::<Node>();
    factory.start(&tasks, &stop);
    let thing = ResourceType {
        plural: "things".into(),
        kind: "Thing".into(),
        ..Node::RESOURCE.clone()
    };
    let changes = Arc::new(Mutex::new(Vec::new()));
    let nodes = factory.metadata(Node::RESOURCE);
    let things = factory.metadata(&thing);
    for (name, informer) in [("node", &nodes), ("thing", &things)] {
        let changes = Arc::clone(&changes);
        informer.add_handler(move |change| {
            changes.lock().push(match change {
                MetadataChange::Added(meta) => format!("{name} {} added", meta.name),
                MetadataChange::Updated { old, new } => {
                    format!("{name} {} updated from {}", new.name, old.resource_version)
                }
                MetadataChange::Deleted(meta) => format!("{name} {} deleted", meta.name),
            });
        });
        informer.start(&tasks, &stop);
        informer.start(&tasks, &stop);
        informer.synced().await;
    }
    let mut first = std::mem::take(&mut *changes.lock());
    first.sort();
    assert_eq!(
        first,
        ["node a added", "thing gone added", "thing kept added"]
    );
    assert_eq!(
        tasks.running(),
        ["informer nodes", "metadata informer things"]
    );

    // A stopped informer keeps its state, so that deletions are noticed after a restart.
    nodes.stop();
    things.stop();
    until(|| !things.is_synced(), String::new).await;
    assert!(nodes.is_synced(), "a shared watch does not stop");
    let again = factory.metadata(&thing);
    again.start(&tasks, &stop);
    again.synced().await;
    assert_eq!(*changes.lock(), ["thing gone deleted", "thing new added"]);
    assert_eq!(
        (whole.requests().len(), partial.requests().len()),
        (1, 2),
        "one watch per type"
    );

    let latencies = registry
        .gather()
        .into_iter()
        .find(|family| family.name() == "informer_processing_latency_seconds");
    assert_eq!(
        latencies.unwrap().get_metric().len(),
        1,
        "upstream does not report metadata informers"
    );
    stop.cancel();
}
