//! Watches.

use serde_json::{Value, json};

use super::{MERGE, Outcome, World, at, equal, holds, promises, text, version};

promises! { "watching":
    watches_tell_every_change_in_order,
    watches_begin_with_what_there_is,
    what_a_selector_no_longer_selects_is_told_as_deleted,
    a_streamed_list_has_an_end,
    a_watch_of_one_object_is_a_watch_by_name,
}

/// Type and name of each frame.
fn told(frames: &[Value]) -> Value {
    frames.iter().map(|frame| json!([frame["type"], frame["object"]["metadata"]["name"]])).collect()
}

async fn watches_tell_every_change_in_order(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let begin = world.map("begin", json!({}), json!({})).await?;
    world.map("a", json!({"labels": {"check": "yes"}}), json!({})).await?;
    world.patch(&format!("{maps}/a"), MERGE, &json!({"data": {"k": "1"}})).await?.ok()?;
    world.patch(&format!("{maps}/a"), MERGE, &json!({"data": {"k": "1"}})).await?.ok()?;
    world.delete(&format!("{maps}/a")).await?.ok()?;
    let frames = world.frames(&maps, &format!("labelSelector=check=yes&resourceVersion={}", version(&begin))).await?;
    equal("frames", &told(&frames), &json!([["ADDED", "a"], ["MODIFIED", "a"], ["DELETED", "a"]]))?;
    at(&frames[0], "/object/kind", json!("ConfigMap"))?;
    let versions: Vec<u64> = frames.iter().map(|frame| version(&frame["object"]).parse().unwrap_or_default()).collect();
    holds("versions grow, and the last is the deletion's", versions.is_sorted_by(|one, next| one < next))
}

async fn watches_begin_with_what_there_is(world: &World) -> Outcome {
    world.map("a", json!({"labels": {"check": "yes"}}), json!({})).await?;
    for query in ["labelSelector=check=yes", "labelSelector=check=yes&resourceVersion=0"] {
        equal(query, &told(&world.frames(&world.core("configmaps"), query).await?), &json!([["ADDED", "a"]]))?;
    }
    Ok(())
}

async fn what_a_selector_no_longer_selects_is_told_as_deleted(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let made = world.map("a", json!({"labels": {"check": "yes"}}), json!({})).await?;
    for value in ["no", "yes"] {
        world.patch(&format!("{maps}/a"), MERGE, &json!({"metadata": {"labels": {"check": value}}})).await?.ok()?;
    }
    let frames = world.frames(&maps, &format!("labelSelector=check=yes&resourceVersion={}", version(&made))).await?;
    equal("frames", &told(&frames), &json!([["DELETED", "a"], ["ADDED", "a"]]))?;
    at(&frames[0], "/object/metadata/labels/check", json!("yes"))?;
    holds("with the version of the change", version(&frames[0]["object"]) != version(&made))
}

async fn a_streamed_list_has_an_end(world: &World) -> Outcome {
    world.map("a", json!({"labels": {"check": "yes"}}), json!({})).await?;
    let query = "labelSelector=check=yes&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let frames = world.frames(&world.core("configmaps"), query).await?;
    let kinds: Vec<&str> = frames.iter().take(2).map(|frame| text(frame, "/type")).collect();
    equal("frames", &json!(kinds), &json!(["ADDED", "BOOKMARK"]))?;
    at(&frames[1], "/object/metadata/annotations", json!({"k8s.io/initial-events-end": "true"}))?;
    holds("the end has a version", !version(&frames[1]["object"]).is_empty())
}

async fn a_watch_of_one_object_is_a_watch_by_name(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    world.map("b", json!({}), json!({})).await?;
    let frames = world.frames(&world.core("configmaps"), "fieldSelector=metadata.name=b").await?;
    equal("frames", &told(&frames), &json!([["ADDED", "b"]]))
}
