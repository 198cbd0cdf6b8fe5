//! Lists and selectors.

use serde_json::json;

use super::{Outcome, World, at, equal, holds, names, promises, text, version};

promises! { "reading":
    lists_are_sorted_and_come_in_pages,
    pages_show_one_state,
    a_list_can_show_the_past,
    broken_tokens_and_versions_are_refused,
    versions_to_come_are_waited_for_in_vain,
    parameters_that_contradict_each_other_are_refused,
    labels_select,
    fields_select,
}

async fn three_maps(world: &World) -> Outcome {
    for (name, tier) in [("c", "back"), ("a", "front"), ("b", "front")] {
        world.map(name, json!({"labels": {"tier": tier, "check": "yes"}}), json!({})).await?;
    }
    Ok(())
}

async fn lists_are_sorted_and_come_in_pages(world: &World) -> Outcome {
    three_maps(world).await?;
    // Without a selector, so that it is told how many are left; what else is in the namespace comes after these.
    let first = world.get(&world.core("configmaps?limit=2")).await?;
    equal("first page", &json!(names(first.ok()?)), &json!(["a", "b"]))?;
    at(&first.body, "/kind", json!("ConfigMapList"))?;
    at(&first.body, "/items/0/kind", json!(null))?;
    holds("it is told how many are left", first.body["metadata"]["remainingItemCount"].as_i64() >= Some(1))?;
    let token = text(&first.body, "/metadata/continue");
    let second = world.get(&world.core(&format!("configmaps?limit=500&continue={token}"))).await?;
    equal("second page", &json!(names(second.ok()?).first()), &json!("c"))?;
    at(&second.body, "/metadata/resourceVersion", json!(version(&first.body)))?;
    at(&second.body, "/metadata/continue", json!(null))
}

async fn pages_show_one_state(world: &World) -> Outcome {
    three_maps(world).await?;
    let selected = "configmaps?limit=1&labelSelector=check=yes";
    let first = world.get(&world.core(selected)).await?;
    let token = text(first.ok()?, "/metadata/continue").to_owned();
    world.map("aa", json!({"labels": {"check": "yes"}}), json!({})).await?;
    world.delete(&world.core("configmaps/b")).await?.ok()?;
    let second = world.get(&world.core(&format!("configmaps?limit=9&labelSelector=check=yes&continue={token}"))).await?;
    equal("second page", &json!(names(second.ok()?)), &json!(["b", "c"]))
}

async fn a_list_can_show_the_past(world: &World) -> Outcome {
    three_maps(world).await?;
    let then = world.get(&world.core("configmaps?labelSelector=check=yes")).await?;
    world.delete(&world.core("configmaps/a")).await?.ok()?;
    let past = format!("configmaps?labelSelector=check=yes&resourceVersionMatch=Exact&resourceVersion={}", version(then.ok()?));
    let past = world.get(&world.core(&past)).await?;
    equal("then", &json!(names(past.ok()?)), &json!(["a", "b", "c"]))?;
    at(&past.body, "/metadata/resourceVersion", json!(version(&then.body)))
}

async fn broken_tokens_and_versions_are_refused(world: &World) -> Outcome {
    let ask = async |query: &str| world.get(&world.core(&format!("configmaps?{query}"))).await;
    ask("continue=e30").await?.refuses(400, "BadRequest", "invalid continue token")?;
    ask("resourceVersion=x").await?.refuses(400, "BadRequest", "invalid resource version")?;
    let first = world.get("/api/v1/namespaces?limit=1").await?;
    let token = text(first.ok()?, "/metadata/continue");
    let both = world.get(&format!("/api/v1/namespaces?resourceVersion=1&continue={token}")).await?;
    both.refuses(400, "BadRequest", "specifying resource version is not allowed when using continue")
}

async fn versions_to_come_are_waited_for_in_vain(world: &World) -> Outcome {
    let answer = world.get(&world.core("configmaps?resourceVersion=1000000000000000")).await?;
    answer.refuses(504, "Timeout", "Timeout: Too large resource version: 1000000000000000, current: ")?;
    answer.has("/details/causes/0/reason", json!("ResourceVersionTooLarge"))?;
    answer.has("/details/retryAfterSeconds", json!(1))?;
    holds("clients are told when to try again", answer.headers.get("retry-after").is_some_and(|seconds| seconds == "1"))
}

async fn parameters_that_contradict_each_other_are_refused(world: &World) -> Outcome {
    let cases = [
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
        ("watch=1&sendInitialEvents=true", "resourceVersionMatch"),
    ];
    for (query, why) in cases {
        let refused = world.get(&world.core(&format!("configmaps?{query}"))).await?;
        refused.refuses(422, "Invalid", why)?;
        refused.has("/details/kind", json!("ListOptions"))?;
    }
    Ok(())
}

async fn labels_select(world: &World) -> Outcome {
    three_maps(world).await?;
    let cases = [
        ("tier=front", vec!["a", "b"]),
        ("tier!=front,check", vec!["c"]),
        ("tier in (back, front)", vec!["a", "b", "c"]),
        ("check,tier notin (front)", vec!["c"]),
        ("check,!tier", vec![]),
    ];
    for (selector, expected) in cases {
        let query: String = http_query(selector);
        let found = world.get(&world.core(&format!("configmaps?labelSelector={query}"))).await?;
        equal(selector, &json!(names(found.ok()?)), &json!(expected))?;
    }
    world.get(&world.core("configmaps?labelSelector=a%20in%20(")).await?.refuses(400, "BadRequest", "unable to parse requirement")
}

fn http_query(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn fields_select(world: &World) -> Outcome {
    three_maps(world).await?;
    let found = world.get(&world.core("configmaps?fieldSelector=metadata.name=b")).await?;
    equal("by name", &json!(names(found.ok()?)), &json!(["b"]))?;
    world.pod("p", json!({})).await?;
    let found = world.get(&world.core("pods?fieldSelector=status.phase=Pending,spec.nodeName=")).await?;
    equal("by phase and node", &json!(names(found.ok()?)), &json!(["p"]))?;
    let why = "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    world.get(&world.core("configmaps?fieldSelector=spec.x=y")).await?.refuses(400, "BadRequest", why)?;
    world.get(&world.core("pods?fieldSelector=spec.x=y")).await?.refuses(400, "BadRequest", "field label not supported: spec.x")
}
