//! What handlers, waiters and the factory's users get to see.

use std::borrow::Cow;

use super::*;
use crate::informer::MetadataInformer;

#[tokio::test(start_paused = true)]
async fn what_happened_during_a_gap_is_told_as_a_difference() {
    let before = [
        node("kept", 1),
        node("changed", 2),
        node("gone", 3),
        node_with_uid("reborn", 4, "first"),
    ];
    let after = [
        node("kept", 1),
        node("changed", 12),
        node_with_uid("reborn", 14, "second"),
        node("new", 15),
    ];
    let expired = event("ERROR", &status(410, "Expired"));
    let story = Story::new([
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
    story.informer.add_handler(move |change| {
        if let Change::Updated { old, new } = change
            && old.meta.uid != new.meta.uid
        {
            writer
                .lock()
                .unwrap()
                .push(format!("{:?} -> {:?}", old.meta.uid, new.meta.uid));
        }
    });
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    let kept = ObjectKey::new("", "kept");
    let held = story.informer.store().get(&kept).unwrap();
    let heard = story.hears(9).await;
    assert_eq!(
        heard[5], "missed deletion of gone@11",
        "deletions come first, with the last known state"
    );
    let mut rest = heard[6..].to_vec();
    rest.sort();
    assert_eq!(
        rest,
        [
            "added new@15",
            "updated changed@2 -> changed@12",
            "updated reborn@4 -> reborn@14"
        ]
    );
    assert_eq!(*uids.lock().unwrap(), ["first -> second"]);
    assert!(
        Arc::ptr_eq(&held, &story.informer.store().get(&kept).unwrap()),
        "what did not change is kept once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_without_changes_is_silent() {
    let nodes = [node("a", 3), node("b", 4)];
    let expired = event("ERROR", &status(410, "Expired"));
    let script = [
        streamed(&nodes, 10, &[expired], After::Hang),
        streamed(&nodes, 20, &[], After::Hang),
    ];
    let story = Story::after(script, 2).await;
    until(
        || story.informer.store().resource_version() == 20,
        String::new,
    )
    .await;
    assert_eq!(story.heard().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_hears_of_every_object_exactly_once() {
    let (send, lines) = mpsc::unbounded_channel();
    let story = Story::new([Reply::Live(lines)]);
    story.start();
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
        story.hears(i * 80).await;
        late.push(listen(&story.informer));
    }
    story.hears(500).await;
    let _open = feeder.await.unwrap();
    for heard in late {
        let heard = heard.lock().unwrap();
        let mut names: Vec<&str> = heard
            .iter()
            .map(|line| line.split(' ').next_back().unwrap())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((heard.len(), names.len()), (500, 500));
        assert!(
            heard
                .iter()
                .is_sorted_by_key(|line| line.starts_with("added")),
            "what was there comes before what came"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_handler_hears_everything_in_order() {
    const EVENTS: u64 = 100_000;
    let events: Vec<String> = (0..EVENTS)
        .map(|i| event("MODIFIED", &node(&format!("n{}", i % 10), 11 + i)))
        .collect();
    let story = Story::new([streamed(&[], 10, &events, After::Hang)]);
    let versions = [
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    ];
    for versions in &versions {
        let (versions, store) = (Arc::clone(versions), story.informer.store());
        story.informer.add_handler(move |change| {
            let (Change::Added { object, .. } | Change::Updated { new: object, .. }) = change
            else {
                return;
            };
            assert!(
                Arc::ptr_eq(&store.get(&object.key()).unwrap(), object),
                "the store shows what is told"
            );
            versions.lock().unwrap().push(object.meta.resource_version);
        });
    }
    story.start();
    story.hears(EVENTS as usize).await;
    let expected: Vec<u64> = (11..11 + EVENTS).collect();
    for versions in versions {
        assert_eq!(*versions.lock().unwrap(), expected);
    }
    assert_eq!(story.metric("steersman_informer_handler_panics_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_harms_nobody_else() {
    let story = Story::new([streamed(
        &[node("a", 3)],
        10,
        &[event("ADDED", &node("b", 11))],
        After::Hang,
    )]);
    story.informer.add_handler(|_| panic!("on purpose"));
    let after = listen(&story.informer);
    story.start();
    assert_eq!(story.hears(2).await, ["initial a@3", "added b@11"]);
    assert_eq!(*after.lock().unwrap(), story.heard());
    assert_eq!(story.metric("steersman_informer_handler_panics_total"), 2.0);
    assert_eq!(story.informer.store().resource_version(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_resync_tells_every_object_again() {
    let story = Story::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    let started = Instant::now();
    story.start_with_resync(Duration::from_secs(60));
    assert_eq!(
        story.hears(3).await,
        ["initial a@3", "updated a@3 -> a@3", "updated a@3 -> a@3"]
    );
    assert!(started.elapsed() >= Duration::from_secs(120));
    assert_eq!(story.server.asked().len(), 1, "without a request");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_seen_once_the_handlers_have_heard_of_it() {
    let (send, lines) = mpsc::unbounded_channel();
    let story = Story::new([Reply::Live(lines)]);
    story.start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let expect = |version| {
        let (seen, heard) = (Arc::clone(&seen), Arc::clone(&story.heard));
        story.informer.when_seen(version, move || {
            seen.lock()
                .unwrap()
                .push((version, heard.lock().unwrap().len()))
        });
    };
    for version in [12, 10, 12, 15, 30] {
        expect(version);
    }
    story.informer.when_seen(11, || panic!("on purpose"));
    let at = |count: usize| {
        let seen = Arc::clone(&seen);
        async move { until(|| seen.lock().unwrap().len() >= count, String::new).await }
    };
    for line in [event("ADDED", &node("a", 3)), synced(10)] {
        send.send(line).unwrap();
    }
    at(1).await;
    send.send(event("DELETED", &node("a", 12))).unwrap();
    at(3).await;
    send.send(bookmark(20)).unwrap();
    at(4).await;
    assert_eq!(*seen.lock().unwrap(), [(10, 1), (12, 2), (12, 2), (15, 2)]);
    expect(20);
    assert_eq!(
        seen.lock().unwrap().last(),
        Some(&(20, 2)),
        "at once when it was reached before"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_ends_when_history_goes_back() {
    let expired = event("ERROR", &status(410, "Expired"));
    let story = Story::new([
        streamed(&[], 100, &[expired], After::Hang),
        streamed(&[], 7, &[], After::Hang),
    ]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    let (forgotten, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    MetadataInformer::over(Arc::new(story.informer.clone())).on_rewind({
        let forgotten = Arc::clone(&forgotten);
        move || {
            forgotten.fetch_add(1, Ordering::Relaxed);
        }
    });
    story.informer.when_seen(150, {
        let (forgotten, seen) = (Arc::clone(&forgotten), Arc::clone(&seen));
        move || {
            counter.fetch_add(1, Ordering::Relaxed);
            seen.store(forgotten.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
    until(
        || story.informer.store().resource_version() == 7,
        String::new,
    )
    .await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(
        forgotten.load(Ordering::Relaxed),
        1,
        "not with the first list"
    );
    assert_eq!(
        seen.load(Ordering::Relaxed),
        1,
        "who waited finds the versions forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_stops_when_told() {
    let story = Story::new([]);
    let server: Arc<dyn ListWatch> = Arc::<Server>::clone(&story.server);
    let task = tokio::spawn(
        story
            .informer
            .clone()
            .run(server, Duration::ZERO, story.stop.clone()),
    );
    story.asked(1).await;
    story.stop.cancel();
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
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    assert!(factory.wait_synced(&stop).await, "nothing was started");

    let heard = listen(&factory.shared::<Node>());
    factory.start(&tasks, &stop);
    assert!(!factory.shared::<Node>().is_synced());
    assert!(factory.wait_synced(&stop).await);
    assert_eq!(*heard.lock().unwrap(), ["initial a@3"]);
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
    assert_eq!((nodes.asked().len(), pods.asked().len()), (1, 1));
    assert_eq!(tasks.running(), ["informer nodes", "informer pods"]);

    stop.cancel();
    time::timeout(Duration::from_secs(1), tasks.join(Duration::from_secs(5)))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_caches_ends_when_the_process_stops() {
    let factory =
        InformerFactory::over(|_, _| Server::new([]), Duration::ZERO, &Registry::new()).unwrap();
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    factory.shared::<Node>();
    factory.start(&tasks, &stop);
    let (synced, ()) = tokio::join!(factory.wait_synced(&stop), async {
        time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
    });
    assert!(!synced);
}

#[tokio::test(start_paused = true)]
async fn the_metrics_carry_upstreams_names_and_labels() {
    let story = Story::new([streamed(&[node("a", 3)], 10, &[], After::Hang)]);
    story.start();
    story.hears(1).await;
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&story.registry.gather())
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
async fn an_informer_that_panicked_starts_over() {
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
    let story = Story::new(script);
    let broken = story.informer.store().add_index("broken", |node| {
        if &*node.meta.name == "b" && PANICKED.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("on purpose");
        }
        vec![node.meta.name.as_ref().into()]
    });
    story.start();
    let mut heard = story.hears(4).await;
    heard[2..].sort();
    assert_eq!(
        heard,
        [
            "initial a@3",
            "missed deletion of a@3",
            "added b@11",
            "added c@12"
        ]
    );
    assert_eq!(story.names(), ["b@11", "c@12"]);
    assert_eq!((broken.get("a").len(), broken.get("b").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn metadata_comes_from_a_shared_watch_where_there_is_one_and_from_its_own_otherwise() {
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
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    factory.shared::<Node>();
    factory.start(&tasks, &stop);
    let thing = ResourceType {
        plural: "things".into(),
        kind: "Thing".into(),
        ..Node::RESOURCE.clone()
    };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (nodes, things) = (factory.metadata(Node::RESOURCE), factory.metadata(&thing));
    for (name, informer) in [("node", &nodes), ("thing", &things)] {
        let heard = Arc::clone(&heard);
        informer.add_handler(move |change| {
            heard.lock().unwrap().push(match change {
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
    let mut first = std::mem::take(&mut *heard.lock().unwrap());
    first.sort();
    assert_eq!(
        first,
        ["node a added", "thing gone added", "thing kept added"]
    );
    assert_eq!(
        tasks.running(),
        ["informer nodes", "metadata informer things"]
    );

    // Stopped: nothing is forgotten, so that what is gone when it starts again can be told.
    nodes.stop();
    things.stop();
    until(|| !things.is_synced(), String::new).await;
    assert!(nodes.is_synced(), "others need that watch");
    let again = factory.metadata(&thing);
    again.start(&tasks, &stop);
    again.synced().await;
    assert_eq!(
        *heard.lock().unwrap(),
        ["thing gone deleted", "thing new added"]
    );
    assert_eq!(
        (whole.asked().len(), partial.asked().len()),
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
        "upstream does not report informers over metadata"
    );
    stop.cancel();
}
