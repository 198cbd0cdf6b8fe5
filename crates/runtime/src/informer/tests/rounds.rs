//! How an informer follows the server: what it asks for, when, and what it makes of the answers.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_streamed_list_goes_on_as_the_watch() {
    let events = [
        event("ADDED", &node("c", 11)),
        event("MODIFIED", &node("a", 12)),
        event("DELETED", &node("b", 13)),
        bookmark(20),
    ];
    let story = Story::new([streamed(&[node("a", 3), node("b", 4)], 10, &events, CLOSE)]);
    assert!(!story.informer.is_synced());
    story.start();
    let mut heard = story.hears(5).await;
    heard[..2].sort();
    assert_eq!(
        heard,
        [
            "initial a@3",
            "initial b@4",
            "added c@11",
            "updated a@3 -> a@12",
            "deleted b@13"
        ]
    );
    story.asked(2).await;
    assert!(story.informer.is_synced());
    assert_eq!(story.names(), ["a@12", "c@11"]);
    assert_eq!(story.informer.store().resource_version(), 20);
    assert_eq!(
        story.server.asked(),
        ["watch initial", "watch resourceVersion=20"]
    );
    assert_eq!(
        story.server.pauses(),
        [Duration::from_secs(200)],
        "a watch that timed out is opened again at once"
    );
    assert_eq!(story.metric("steersman_informer_objects"), 2.0);
    assert_eq!(story.metric("steersman_informer_relists_total"), 1.0);
    assert_eq!(story.metric("steersman_informer_watch_events_total"), 7.0);
}

#[tokio::test(start_paused = true)]
async fn changes_within_the_initial_state_are_part_of_it() {
    let frames = vec![
        event("ADDED", &node("a", 3)),
        event("ADDED", &node("b", 4)),
        event("MODIFIED", &node("a", 5)),
        event("DELETED", &node("b", 6)),
        bookmark(7),
        synced(9),
    ];
    let story = Story::new([Reply::Watch(frames, After::Hang)]);
    story.start();
    assert_eq!(story.hears(1).await, ["initial a@5"]);
    assert_eq!(story.informer.store().resource_version(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_empty_type_syncs() {
    let story = Story::new([streamed(&[], 5, &[], After::Hang)]);
    story.start();
    until(|| story.informer.is_synced(), String::new).await;
    assert!(story.informer.store().is_empty() && story.heard().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_listed_in_the_same_round() {
    for code in [(422, "Invalid"), (404, "NotFound"), (500, "InternalError")] {
        let script = [
            refuse(code.0, code.1),
            page(10, "", &[node("a", 3)]),
            Reply::Watch(vec![event("ADDED", &node("b", 11))], CLOSE),
        ];
        let story = Story::after(script, 4).await;
        assert_eq!(story.heard(), ["initial a@3", "added b@11"], "{code:?}");
        assert_eq!(
            story.server.asked(),
            [
                "watch initial",
                "list limit=500&resourceVersion=0",
                "watch resourceVersion=10",
                "watch resourceVersion=11"
            ]
        );
        assert_eq!(story.server.pauses()[..2], [Duration::ZERO; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_stream_is_asked_for_again_after_a_pause() {
    let story = Story::after(
        [
            refuse(429, "TooManyRequests"),
            streamed(&[node("a", 3)], 10, &[], After::Hang),
        ],
        2,
    )
    .await;
    assert_eq!(story.hears(1).await, ["initial a@3"]);
    assert_eq!(story.server.asked(), ["watch initial", "watch initial"]);
    let pause = story.server.pauses()[0];
    assert!(
        (Duration::from_millis(800)..Duration::from_millis(1700)).contains(&pause),
        "{pause:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_that_breaks_off_leaves_nothing_behind() {
    let partial = Reply::Watch(
        vec![event("ADDED", &node("ghost", 3))],
        After::Break(Duration::from_secs(2)),
    );
    let story = Story::after(
        [partial, streamed(&[node("a", 4)], 10, &[], After::Hang)],
        2,
    )
    .await;
    assert_eq!(story.hears(1).await, ["initial a@4"]);
    assert_eq!(story.names(), ["a@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages() {
    let script = [
        refuse(422, "Invalid"),
        page(10, "to/b", &[node("a", 3)]),
        page(10, "", &[node("b", 4)]),
        Reply::Watch(vec![], After::Close(Duration::ZERO)),
        refuse(422, "Invalid"),
        page(12, "", &[node("b", 4)]),
    ];
    let story = Story::after(script, 7).await;
    let asked = story.server.asked();
    assert_eq!(
        asked[1..3],
        [
            "list limit=500&resourceVersion=0",
            "list continue=to%2Fb&limit=500"
        ]
    );
    assert_eq!(
        asked[5], "list limit=500&resourceVersion=10",
        "a server that pages its cache is asked for pages again"
    );
    let mut heard = story.heard();
    heard[..2].sort();
    assert_eq!(
        heard,
        ["initial a@3", "initial b@4", "missed deletion of a@3"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_makes_it_a_list_in_one_piece() {
    let script = [
        refuse(422, "Invalid"),
        page(10, "b", &[node("a", 3)]),
        refuse(410, "Expired"),
        page(12, "", &[node("b", 4)]),
    ];
    let story = Story::after(script, 5).await;
    assert_eq!(
        story.server.asked()[2..4],
        ["list continue=b&limit=500", "list resourceVersion=0"]
    );
    assert_eq!(story.heard(), ["initial b@4"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_asks_for_at_least_what_it_had_and_a_too_large_version_for_the_latest() {
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
    let story = Story::after(script, 3).await;
    assert_eq!(
        story.server.asked(),
        [
            "watch initial",
            "watch resourceVersion=11&initial",
            "watch initial"
        ]
    );
    assert_eq!(story.server.pauses()[1], Duration::ZERO);
    let heard = story.hears(3).await;
    assert_eq!(
        heard[2], "updated a@11 -> a@5",
        "a server restored from a backup is followed"
    );
    assert_eq!(story.informer.store().resource_version(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_goes_back_is_given_up_for_a_new_state() {
    for frame in [
        bookmark(6),
        event("MODIFIED", &node("a", 6)),
        event("DELETED", &node("a", 6)),
    ] {
        let script = [
            streamed(&[node("a", 3)], 10, &[frame], After::Hang),
            streamed(&[node("b", 5)], 6, &[], After::Hang),
        ];
        let story = Story::after(script, 2).await;
        assert_eq!(story.server.asked(), ["watch initial", "watch initial"]);
        assert_eq!(
            story.hears(3).await,
            ["initial a@3", "missed deletion of a@3", "added b@5"]
        );
        assert_eq!(story.informer.store().resource_version(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke() {
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
    let story = Story::after(script, 4).await;
    let asked = story.server.asked();
    assert_eq!(
        asked,
        [
            "watch initial",
            "watch resourceVersion=11",
            "watch resourceVersion=11",
            "watch resourceVersion=11"
        ]
    );
    assert_eq!(
        story.hears(3).await,
        ["initial a@3", "added b@11", "deleted a@12"]
    );
    let pauses = story.server.pauses();
    assert_eq!(pauses[0], Duration::from_secs(9));
    assert!(
        pauses[1] >= Duration::from_millis(800) && pauses[2] >= Duration::from_millis(1600),
        "{pauses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_not_asked_for_without_pause() {
    let at_once = || Reply::Watch(vec![bookmark(11)], After::Close(Duration::ZERO));
    let script = [
        streamed(&[], 10, &[], After::Close(Duration::ZERO)),
        at_once(),
        at_once(),
        at_once(),
    ];
    let story = Story::after(script, 5).await;
    assert!(
        story
            .server
            .pauses()
            .iter()
            .all(|pause| *pause >= Duration::from_millis(800)),
        "{:?}",
        story.server.pauses()
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_not_lost() {
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
    let story = Story::after(script, 2).await;
    assert_eq!(
        story.server.asked()[1],
        "watch resourceVersion=11&initial",
        "from before the event"
    );
    let mut heard = story.hears(4).await;
    heard[2..].sort();
    assert_eq!(
        heard,
        [
            "initial a@3",
            "updated a@3 -> a@11",
            "added b@12",
            "added c@13"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_does_not_replace_the_one_there_is() {
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
    let story = Story::new(script);
    story.start();
    story.asked(3).await;
    assert_eq!(story.names(), ["a@3"]);
    story.asked(4).await;
    assert_eq!(
        story.hears(3).await,
        ["initial a@3", "missed deletion of a@3", "added b@4"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up() {
    let script = [
        streamed(&[node("a", 3)], 10, &[], After::Hang),
        streamed(&[node("a", 3)], 11, &[], After::Hang),
    ];
    let story = Story::after(script, 2).await;
    let pause = story.server.pauses()[0];
    assert!(
        (Duration::from_secs(330)..Duration::from_secs(640)).contains(&pause),
        "{pause:?}"
    );
    assert_eq!(story.server.asked()[1], "watch resourceVersion=10&initial");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_asked_again() {
    let story = Story::new([]);
    story.start();
    story.asked(2).await;
    assert!(!story.informer.is_synced());
}
