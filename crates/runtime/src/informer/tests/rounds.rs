//! Tests of the requests of an informer: their order, their pauses, and the handling of answers.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_a_watch() {
    let events = [
        event("ADDED", &node("c", 11)),
        event("MODIFIED", &node("a", 12)),
        event("DELETED", &node("b", 13)),
        bookmark(20),
    ];
    let test = TestInformer::new([streamed(&[node("a", 3), node("b", 4)], 10, &events, CLOSE)]);
    assert!(!test.informer.is_synced());
    test.start();
    let mut changes = test.wait_for_changes(5).await;
    changes[..2].sort();
    assert_eq!(
        changes,
        [
            "initial a@3",
            "initial b@4",
            "added c@11",
            "updated a@3 -> a@12",
            "deleted b@13"
        ]
    );
    test.wait_for_requests(2).await;
    assert!(test.informer.is_synced());
    assert_eq!(test.names(), ["a@12", "c@11"]);
    assert_eq!(test.informer.store().resource_version(), 20);
    assert_eq!(
        test.server.requests(),
        ["watch initial", "watch resourceVersion=20"]
    );
    assert_eq!(
        test.server.pauses(),
        [Duration::from_secs(200)],
        "after its timeout a watch is opened again at once"
    );
    assert_eq!(test.metric("steersman_informer_objects"), 2.0);
    assert_eq!(test.metric("steersman_informer_relists_total"), 1.0);
    assert_eq!(test.metric("steersman_informer_watch_events_total"), 7.0);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_streaming_list_are_part_of_the_initial_state() {
    let frames = vec![
        event("ADDED", &node("a", 3)),
        event("ADDED", &node("b", 4)),
        event("MODIFIED", &node("a", 5)),
        event("DELETED", &node("b", 6)),
        bookmark(7),
        synced(9),
    ];
    let test = TestInformer::new([Reply::Watch(frames, After::Hang)]);
    test.start();
    assert_eq!(test.wait_for_changes(1).await, ["initial a@5"]);
    assert_eq!(test.informer.store().resource_version(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_objects_syncs() {
    let test = TestInformer::new([streamed(&[], 5, &[], After::Hang)]);
    test.start();
    until(|| test.informer.is_synced(), String::new).await;
    assert!(test.informer.store().is_empty() && test.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_gets_a_list_at_once() {
    for code in [(422, "Invalid"), (404, "NotFound"), (500, "InternalError")] {
        let script = [
            refuse(code.0, code.1),
            page(10, "", &[node("a", 3)]),
            Reply::Watch(vec![event("ADDED", &node("b", 11))], CLOSE),
        ];
        let test = TestInformer::after(script, 4).await;
        assert_eq!(test.changes(), ["initial a@3", "added b@11"], "{code:?}");
        assert_eq!(
            test.server.requests(),
            [
                "watch initial",
                "list limit=500&resourceVersion=0",
                "watch resourceVersion=10",
                "watch resourceVersion=11"
            ]
        );
        assert_eq!(test.server.pauses()[..2], [Duration::ZERO; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_streaming_list_is_retried_after_a_pause() {
    let test = TestInformer::after(
        [
            refuse(429, "TooManyRequests"),
            streamed(&[node("a", 3)], 10, &[], After::Hang),
        ],
        2,
    )
    .await;
    assert_eq!(test.wait_for_changes(1).await, ["initial a@3"]);
    assert_eq!(test.server.requests(), ["watch initial", "watch initial"]);
    let pause = test.server.pauses()[0];
    assert!(
        (Duration::from_millis(800)..Duration::from_millis(1700)).contains(&pause),
        "{pause:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_initial_state_is_discarded() {
    let partial = Reply::Watch(
        vec![event("ADDED", &node("ghost", 3))],
        After::Break(Duration::from_secs(2)),
    );
    let test = TestInformer::after(
        [partial, streamed(&[node("a", 4)], 10, &[], After::Hang)],
        2,
    )
    .await;
    assert_eq!(test.wait_for_changes(1).await, ["initial a@4"]);
    assert_eq!(test.names(), ["a@4"]);
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_are_read() {
    let script = [
        refuse(422, "Invalid"),
        page(10, "to/b", &[node("a", 3)]),
        page(10, "", &[node("b", 4)]),
        Reply::Watch(vec![], After::Close(Duration::ZERO)),
        refuse(422, "Invalid"),
        page(12, "", &[node("b", 4)]),
    ];
    let test = TestInformer::after(script, 7).await;
    let requests = test.server.requests();
    assert_eq!(
        requests[1..3],
        [
            "list limit=500&resourceVersion=0",
            "list continue=to%2Fb&limit=500"
        ]
    );
    assert_eq!(
        requests[5], "list limit=500&resourceVersion=10",
        "lists stay paged if the server pages its cache"
    );
    let mut changes = test.changes();
    changes[..2].sort();
    assert_eq!(
        changes,
        ["initial a@3", "initial b@4", "missed deletion of a@3"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_without_pages_follows_an_expired_page() {
    let script = [
        refuse(422, "Invalid"),
        page(10, "b", &[node("a", 3)]),
        refuse(410, "Expired"),
        page(12, "", &[node("b", 4)]),
    ];
    let test = TestInformer::after(script, 5).await;
    assert_eq!(
        test.server.requests()[2..4],
        ["list continue=b&limit=500", "list resourceVersion=0"]
    );
    assert_eq!(test.changes(), ["initial b@4"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_kept_as_minimum_and_a_too_large_one_is_dropped() {
    let expired = event("ERROR", &status(410, "Expired"));
    let mut too_large = status(504, "Timeout");
    too_large["details"] = json!({"causes": [{"reason": "ResourceVersionTooLarge"}]});
    let script = [
        streamed(
            &[node("a", 3)],
            10,
            &[event("MODIFIED", &node("a", 11)), expired],
            After::Hang,
        ),
        Reply::Watch(vec![event("ERROR", &too_large)], After::Hang),
        streamed(&[node("a", 5)], 7, &[], After::Hang),
    ];
    let test = TestInformer::after(script, 3).await;
    assert_eq!(
        test.server.requests(),
        [
            "watch initial",
            "watch resourceVersion=11&initial",
            "watch initial"
        ]
    );
    assert_eq!(test.server.pauses()[1], Duration::ZERO);
    let changes = test.wait_for_changes(3).await;
    assert_eq!(
        changes[2], "updated a@11 -> a@5",
        "the informer accepts the older state of a restored server"
    );
    assert_eq!(test.informer.store().resource_version(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_watch_event_with_a_lower_version_causes_a_new_list() {
    for frame in [
        bookmark(6),
        event("MODIFIED", &node("a", 6)),
        event("DELETED", &node("a", 6)),
    ] {
        let script = [
            streamed(&[node("a", 3)], 10, &[frame], After::Hang),
            streamed(&[node("b", 5)], 6, &[], After::Hang),
        ];
        let test = TestInformer::after(script, 2).await;
        assert_eq!(test.server.requests(), ["watch initial", "watch initial"]);
        assert_eq!(
            test.wait_for_changes(3).await,
            ["initial a@3", "missed deletion of a@3", "added b@5"]
        );
        assert_eq!(test.informer.store().resource_version(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_resumes_at_its_last_version() {
    let script = [
        streamed(
            &[node("a", 3)],
            10,
            &[event("ADDED", &node("b", 11))],
            After::Break(Duration::from_secs(9)),
        ),
        Reply::Refuse(transport(std::io::ErrorKind::ConnectionRefused)),
        Reply::Refuse(transport(std::io::ErrorKind::ConnectionRefused)),
        Reply::Watch(vec![event("DELETED", &node("a", 12))], After::Hang),
    ];
    let test = TestInformer::after(script, 4).await;
    let requests = test.server.requests();
    assert_eq!(
        requests,
        [
            "watch initial",
            "watch resourceVersion=11",
            "watch resourceVersion=11",
            "watch resourceVersion=11"
        ]
    );
    assert_eq!(
        test.wait_for_changes(3).await,
        ["initial a@3", "added b@11", "deleted a@12"]
    );
    let pauses = test.server.pauses();
    assert_eq!(pauses[0], Duration::from_secs(9));
    assert!(
        pauses[1] >= Duration::from_millis(800) && pauses[2] >= Duration::from_millis(1600),
        "{pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_after_each_change_follows_ten_changes_a_second() {
    let changed = |version| {
        let change = event("MODIFIED", &node("a", version));
        Reply::Watch(vec![change], After::Close(Duration::ZERO))
    };
    let initial = streamed(&[node("a", 3)], 10, &[], After::Close(Duration::ZERO));
    let test = TestInformer::after(std::iter::once(initial).chain((11..41).map(changed)), 32).await;
    let pauses = test.server.pauses();
    let expected = Duration::from_millis(100)..Duration::from_millis(110);
    assert!(
        pauses.iter().all(|pause| expected.contains(pause)),
        "{pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_without_a_change_backs_off() {
    let long = After::Close(Duration::from_secs(2));
    let initial = || streamed(&[node("a", 3)], 10, &[], long);
    let empty = || Reply::Watch(vec![], After::Close(Duration::ZERO));
    let test = TestInformer::after([initial(), empty(), initial(), empty()], 5).await;
    let pauses = test.server.pauses();
    assert!(pauses[1] >= Duration::from_millis(800), "{pauses:?}");
    assert!(pauses[3] >= Duration::from_millis(1600), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_event_is_recovered_by_a_new_list() {
    let events = [
        event("MODIFIED", &node("a", 11)),
        event("ADDED", &json!({"metadata": {"name": 5}})),
        event("ADDED", &node("c", 13)),
    ];
    let script = [
        streamed(&[node("a", 3)], 10, &events, After::Hang),
        streamed(
            &[node("a", 11), node("b", 12), node("c", 13)],
            14,
            &[],
            After::Hang,
        ),
    ];
    let test = TestInformer::after(script, 2).await;
    assert_eq!(
        test.server.requests()[1],
        "watch resourceVersion=11&initial",
        "the version before the event"
    );
    let mut changes = test.wait_for_changes(4).await;
    changes[2..].sort();
    assert_eq!(
        changes,
        [
            "initial a@3",
            "updated a@3 -> a@11",
            "added b@12",
            "added c@13"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_list_does_not_replace_the_store() {
    let script = [
        streamed(
            &[node("a", 3)],
            10,
            &[event("ERROR", &status(410, "Expired"))],
            After::Hang,
        ),
        refuse(500, "InternalError"),
        page(12, "", &[node("b", 4), json!({"metadata": {}})]),
        streamed(&[node("b", 4)], 13, &[], After::Hang),
    ];
    let test = TestInformer::new(script);
    test.start();
    test.wait_for_requests(3).await;
    assert_eq!(test.names(), ["a@3"]);
    test.wait_for_requests(4).await;
    assert_eq!(
        test.wait_for_changes(3).await,
        ["initial a@3", "missed deletion of a@3", "added b@4"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_closed_after_its_timeout() {
    let script = [
        streamed(&[node("a", 3)], 10, &[], After::Hang),
        streamed(&[node("a", 3)], 11, &[], After::Hang),
    ];
    let test = TestInformer::after(script, 2).await;
    let pause = test.server.pauses()[0];
    assert!(
        (Duration::from_secs(330)..Duration::from_secs(640)).contains(&pause),
        "{pause:?}"
    );
    assert_eq!(
        test.server.requests()[1],
        "watch resourceVersion=10&initial"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_retried() {
    let test = TestInformer::new([]);
    test.start();
    test.wait_for_requests(2).await;
    assert!(!test.informer.is_synced());
}
