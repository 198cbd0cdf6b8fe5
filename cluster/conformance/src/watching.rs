//! Watches: their start, their events and their end.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{
    JSON, KEEP, Outcome, TABLE, World, at, equal, holds, revision, text, types_and_names, version,
};

promises! { "watching":
    watches_send_every_change_in_order,
    concurrent_changes_are_sent_once,
    watches_without_a_version_start_with_existing_objects,
    watches_start_after_the_requested_version,
    watches_wait_for_future_versions,
    watches_with_invalid_versions_are_refused,
    watches_of_compacted_versions_expire,
    objects_that_leave_the_selector_are_sent_as_deleted,
    removal_of_the_last_finalizer_is_sent_as_deleted,
    forced_pod_deletion_shows_a_zero_grace_period,
    bookmarks_carry_the_current_version,
    a_streamed_list_ends_with_a_bookmark,
    a_streamed_list_without_bookmarks_has_no_end_mark,
    initial_events_can_be_disabled,
    a_streamed_list_of_a_future_version_times_out,
    one_object_is_watched_by_name,
    deprecated_watch_paths_are_served,
    watches_end_after_their_timeout,
    watched_tables_send_columns_once,
}

async fn watches_send_every_change_in_order(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let begin = world.map("begin", json!({}), json!({})).await?;
    world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    let change = json!({"data": {"k": "1"}});
    let changed = world
        .merge(&format!("{maps}/a"), &change)
        .await?
        .ok()?
        .clone();
    world.merge(&format!("{maps}/a"), &change).await?.ok()?;
    world.delete(&format!("{maps}/a")).await?.ok()?;
    let query = format!(
        "watch=1&timeoutSeconds=1&labelSelector=check=yes&resourceVersion={}",
        version(&begin)
    );
    let answer = world.get(&format!("{maps}?{query}")).await?;
    equal(
        "content-type",
        &json!(answer.header("content-type")),
        &json!(JSON),
    )?;
    let frames = answer.frames()?;
    equal(
        "frames",
        &types_and_names(&frames),
        &json!([["ADDED", "a"], ["MODIFIED", "a"], ["DELETED", "a"]]),
    )?;
    for frame in &frames {
        at(frame, "/object/kind", json!("ConfigMap"))?;
        at(frame, "/object/apiVersion", json!("v1"))?;
    }
    at(&frames[2], "/object/data", json!({"k": "1"}))?;
    let versions: Vec<u64> = frames
        .iter()
        .map(|frame| revision(&frame["object"]))
        .collect();
    holds(
        "versions grow, and the deletion has its own version",
        versions.is_sorted_by(|one, next| one < next),
    )?;
    equal(
        "version of the MODIFIED event",
        &json!(versions[1]),
        &json!(revision(&changed)),
    )
}

async fn concurrent_changes_are_sent_once(world: &World) -> Outcome {
    const WRITERS: usize = 20;
    let begin = world.map("begin", json!({}), json!({})).await?;
    let writes = (0..WRITERS).map(|index| async move {
        let name = format!("m{index}");
        world
            .map(&name, json!({"labels": {"check": "yes"}}), json!({}))
            .await?;
        world
            .merge(
                &world.core(&format!("configmaps/{name}")),
                &json!({"data": {"k": "1"}}),
            )
            .await?
            .ok()
            .cloned()
    });
    let written: Result<Vec<Value>, Broken> = futures::future::join_all(writes)
        .await
        .into_iter()
        .collect();
    written?;
    let query = format!(
        "labelSelector=check=yes&resourceVersion={}",
        version(&begin)
    );
    let frames = world.frames(&world.core("configmaps"), &query).await?;
    let versions: Vec<u64> = frames
        .iter()
        .map(|frame| revision(&frame["object"]))
        .collect();
    holds(
        "every change is sent once, in order",
        frames.len() == 2 * WRITERS && versions.is_sorted_by(|one, next| one < next),
    )
}

async fn watches_without_a_version_start_with_existing_objects(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    // Waits until the watch cache has the object.
    world
        .get(&world.core(&format!("configmaps?resourceVersion={}", version(&made))))
        .await?
        .ok()?;
    for query in [
        "labelSelector=check=yes",
        "labelSelector=check=yes&resourceVersion=0",
    ] {
        equal(
            query,
            &types_and_names(&world.frames(&world.core("configmaps"), query).await?),
            &json!([["ADDED", "a"]]),
        )?;
    }
    Ok(())
}

async fn watches_start_after_the_requested_version(world: &World) -> Outcome {
    let labels = json!({"labels": {"check": "yes"}});
    let first = world.map("a", labels.clone(), json!({})).await?;
    let second = world.map("b", labels.clone(), json!({})).await?;
    let maps = world.core("configmaps");
    for (after, expected) in [(&first, json!([["ADDED", "b"]])), (&second, json!([]))] {
        let frames = world
            .frames(
                &maps,
                &format!("labelSelector=check=yes&resourceVersion={}", version(after)),
            )
            .await?;
        equal("frames", &types_and_names(&frames), &expected)?;
    }
    Ok(())
}

async fn watches_wait_for_future_versions(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let frames = world
        .frames(
            &world.core("configmaps"),
            "resourceVersion=1000000000000000",
        )
        .await?;
    equal("frames", &types_and_names(&frames), &json!([]))
}

async fn watches_with_invalid_versions_are_refused(world: &World) -> Outcome {
    let refused = world
        .get(&world.core("configmaps?watch=1&resourceVersion=x"))
        .await?;
    refused.refuses(500, "", "invalid syntax")
}

/// Each server decides how much history it keeps. A watch without an error is therefore accepted.
async fn watches_of_compacted_versions_expire(world: &World) -> Outcome {
    let frames = world
        .frames(&world.core("configmaps"), "resourceVersion=1")
        .await?;
    if frames.first().is_none_or(|frame| frame["type"] != "ERROR") {
        return Ok(());
    }
    at(&frames[0], "/object/kind", json!("Status"))?;
    at(&frames[0], "/object/code", json!(410))?;
    at(&frames[0], "/object/reason", json!("Expired"))?;
    holds(
        "the message names the version",
        text(&frames[0], "/object/message").starts_with("too old resource version: 1 ("),
    )?;
    holds("the error is the only event", frames.len() == 1)
}

async fn objects_that_leave_the_selector_are_sent_as_deleted(world: &World) -> Outcome {
    let map = world.core("configmaps/a");
    let made = world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    let mut changes = Vec::new();
    for value in ["no", "still-no", "yes"] {
        changes.push(
            world
                .merge(&map, &json!({"metadata": {"labels": {"check": value}}}))
                .await?
                .ok()?
                .clone(),
        );
    }
    let query = format!("labelSelector=check=yes&resourceVersion={}", version(&made));
    let frames = world.frames(&world.core("configmaps"), &query).await?;
    equal(
        "frames",
        &types_and_names(&frames),
        &json!([["DELETED", "a"], ["ADDED", "a"]]),
    )?;
    at(&frames[0], "/object/metadata/labels/check", json!("yes"))?;
    at(
        &frames[0],
        "/object/metadata/resourceVersion",
        json!(version(&changes[0])),
    )?;
    at(
        &frames[1],
        "/object/metadata/resourceVersion",
        json!(version(&changes[2])),
    )
}

async fn removal_of_the_last_finalizer_is_sent_as_deleted(world: &World) -> Outcome {
    let made = world
        .map(
            "a",
            json!({"labels": {"check": "yes"}, "finalizers": [KEEP]}),
            json!({}),
        )
        .await?;
    let map = world.core("configmaps/a");
    let going = world.delete(&map).await?.ok()?.clone();
    world
        .merge(&map, &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok()?;
    let query = format!("labelSelector=check=yes&resourceVersion={}", version(&made));
    let frames = world.frames(&world.core("configmaps"), &query).await?;
    equal(
        "frames",
        &types_and_names(&frames),
        &json!([["MODIFIED", "a"], ["DELETED", "a"]]),
    )?;
    at(
        &frames[1],
        "/object/metadata/deletionTimestamp",
        going["metadata"]["deletionTimestamp"].clone(),
    )?;
    holds(
        "the removal has its own version",
        revision(&frames[1]["object"]) > revision(&going),
    )
}

async fn forced_pod_deletion_shows_a_zero_grace_period(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    world.bind("a").await?;
    let bound = world.get(&world.core("pods/a")).await?.ok()?.clone();
    world
        .delete_with(&world.core("pods/a"), &json!({"gracePeriodSeconds": 0}))
        .await?
        .ok()?;
    let query = format!(
        "fieldSelector=metadata.name=a&resourceVersion={}",
        version(&bound)
    );
    let frames = world.frames(&world.core("pods"), &query).await?;
    let last = frames.len().saturating_sub(2);
    equal(
        "frames",
        &types_and_names(&frames[last..]),
        &json!([["MODIFIED", "a"], ["DELETED", "a"]]),
    )?;
    at(
        &frames[last],
        "/object/metadata/deletionGracePeriodSeconds",
        json!(0),
    )
}

async fn bookmarks_carry_the_current_version(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let query = format!(
        "watch=1&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion={}",
        version(&made)
    );
    let frames = world
        .get(&world.core(&format!("configmaps?labelSelector=no=such&{query}")))
        .await?
        .frames()?;
    let marks: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["type"] == "BOOKMARK")
        .collect();
    holds(
        "a bookmark is sent before the end",
        !marks.is_empty() && marks.len() == frames.len(),
    )?;
    let object = &marks[0]["object"];
    let metadata = json!({"resourceVersion": version(object)});
    let mut shown = object.clone();
    // Servers with typed lists write a null creationTimestamp.
    if let Some(fields) = shown["metadata"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    equal(
        "content of the bookmark",
        &shown,
        &json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}),
    )?;
    holds(
        "the bookmark is not older than the start",
        revision(object) >= revision(&made),
    )
}

const STREAMED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

async fn a_streamed_list_ends_with_a_bookmark(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    for version in [
        "",
        "&resourceVersion=0",
        &format!("&resourceVersion={}", version(&made)),
    ] {
        let query = format!("labelSelector=check=yes&{STREAMED}&allowWatchBookmarks=true{version}");
        let frames = world.frames(&world.core("configmaps"), &query).await?;
        let kinds: Vec<&str> = frames
            .iter()
            .take(2)
            .map(|frame| text(frame, "/type"))
            .collect();
        equal("frames", &json!(kinds), &json!(["ADDED", "BOOKMARK"]))?;
        at(
            &frames[1],
            "/object/metadata/annotations",
            json!({"k8s.io/initial-events-end": "true"}),
        )?;
        holds(
            "the end bookmark is not older than the list",
            revision(&frames[1]["object"]) >= revision(&made),
        )?;
    }
    Ok(())
}

async fn a_streamed_list_without_bookmarks_has_no_end_mark(world: &World) -> Outcome {
    world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    let frames = world
        .frames(
            &world.core("configmaps"),
            &format!("labelSelector=check=yes&{STREAMED}"),
        )
        .await?;
    equal(
        "frames",
        &types_and_names(&frames),
        &json!([["ADDED", "a"]]),
    )
}

async fn initial_events_can_be_disabled(world: &World) -> Outcome {
    world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    let query = "labelSelector=check=yes&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    equal(
        "frames",
        &types_and_names(&world.frames(&world.core("configmaps"), query).await?),
        &json!([]),
    )
}

async fn a_streamed_list_of_a_future_version_times_out(world: &World) -> Outcome {
    let query = format!("watch=1&timeoutSeconds=10&{STREAMED}&resourceVersion=1000000000000000");
    let frames = world
        .get(&world.core(&format!("configmaps?{query}")))
        .await?
        .frames()?;
    equal("number of frames", &json!(frames.len()), &json!(1))?;
    at(&frames[0], "/type", json!("ERROR"))?;
    at(&frames[0], "/object/code", json!(504))?;
    at(&frames[0], "/object/reason", json!("Timeout"))?;
    at(
        &frames[0],
        "/object/details/causes/0/reason",
        json!("ResourceVersionTooLarge"),
    )
}

async fn one_object_is_watched_by_name(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    world.map("b", json!({}), json!({})).await?;
    let frames = world
        .frames(&world.core("configmaps"), "fieldSelector=metadata.name=b")
        .await?;
    equal(
        "frames",
        &types_and_names(&frames),
        &json!([["ADDED", "b"]]),
    )
}

async fn deprecated_watch_paths_are_served(world: &World) -> Outcome {
    world
        .map("a", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    let path = |rest: &str| {
        format!(
            "/api/v1/watch/namespaces/{}/configmaps{rest}timeoutSeconds=1&timeout=1ms",
            world.namespace
        )
    };
    for rest in ["?labelSelector=check=yes&", "/a?"] {
        let frames = world.get(&path(rest)).await?.frames()?;
        equal(rest, &types_and_names(&frames), &json!([["ADDED", "a"]]))?;
    }
    Ok(())
}

/// The body ends without an error. An error would prevent the answer.
async fn watches_end_after_their_timeout(world: &World) -> Outcome {
    for query in ["watch=1", "watch=true", "watch=1&allowWatchBookmarks=true"] {
        let answer = world
            .get(&world.core(&format!(
                "configmaps?labelSelector=no=such&timeoutSeconds=1&{query}"
            )))
            .await?;
        let frames = answer.frames()?;
        holds(
            "only bookmarks are sent",
            frames.iter().all(|frame| frame["type"] == "BOOKMARK"),
        )?;
    }
    Ok(())
}

async fn watched_tables_send_columns_once(world: &World) -> Outcome {
    for name in ["a", "b"] {
        world
            .map(name, json!({"labels": {"check": "yes"}}), json!({}))
            .await?;
    }
    let path = world.core("configmaps?watch=1&timeoutSeconds=1&labelSelector=check=yes");
    let frames = world.get_as(&path, TABLE).await?.frames()?;
    equal("number of frames", &json!(frames.len()), &json!(2))?;
    at(&frames[0], "/object/kind", json!("Table"))?;
    at(
        &frames[0],
        "/object/columnDefinitions/0/name",
        json!("Name"),
    )?;
    at(&frames[1], "/object/columnDefinitions", Value::Null)?;
    let names: Vec<&Value> = frames
        .iter()
        .map(|frame| &frame["object"]["rows"][0]["cells"][0])
        .collect();
    equal("rows", &json!(names), &json!(["a", "b"]))
}
