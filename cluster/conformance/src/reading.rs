//! Gets and lists: resource versions, order and pages.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, Outcome, World, at, equal, holds, names, revision, text, version};

promises! { "reading":
    gets_are_not_older_than_requested,
    lists_are_sorted_by_namespace_and_name,
    an_empty_list_has_kind_and_version,
    pages_count_remaining_items,
    pages_have_one_resource_version,
    continue_tokens_contain_version_and_start,
    a_token_without_a_version_continues_at_the_latest,
    version_zero_ignores_the_limit,
    limits_below_one_mean_no_limit,
    lists_are_not_older_than_requested,
    exact_lists_show_an_old_version,
    limited_lists_of_a_version_are_exact,
    compacted_versions_are_expired,
    invalid_tokens_and_versions_are_refused,
    future_versions_time_out,
    contradicting_parameters_are_refused,
}

async fn three_maps(world: &World) -> Result<Value, Broken> {
    let mut last = Value::Null;
    for name in ["c", "a", "b"] {
        last = world
            .map(name, json!({"labels": {"check": "yes"}}), json!({}))
            .await?;
    }
    Ok(last)
}

/// Lists the three ConfigMaps of the check, with these parameters.
async fn list(world: &World, query: &str) -> Result<Answer, Broken> {
    world
        .get(&world.core(&format!("configmaps?labelSelector=check=yes&{query}")))
        .await
}

fn has_names(subject: &str, answer: &Answer, expected: &[&str]) -> Outcome {
    equal(subject, &json!(names(answer.ok()?)), &json!(expected))
}

async fn gets_are_not_older_than_requested(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    for requested in ["0", "", version(&made)] {
        // A cache that does not have the object yet may answer 404 for version 0.
        let code = |answer: &Answer| {
            if requested == "0" && answer.code == 404 {
                404
            } else {
                200
            }
        };
        let answer = world
            .get(&format!("{path}?resourceVersion={requested}"))
            .await?;
        holds(
            &format!("the object exists at version {requested:?}"),
            answer.code == code(&answer),
        )?;
    }
    let future = world
        .get(&format!("{path}?resourceVersion=1000000000000000"))
        .await?;
    future.refuses(
        504,
        "Timeout",
        "Too large resource version: 1000000000000000, current: ",
    )
}

async fn lists_are_sorted_by_namespace_and_name(world: &World) -> Outcome {
    three_maps(world).await?;
    has_names(
        "list of a namespace",
        &list(world, "").await?,
        &["a", "b", "c"],
    )?;
    let all = world.get("/api/v1/configmaps").await?;
    let items = all.ok()?["items"].as_array().cloned().unwrap_or_default();
    let key = |item: &Value| {
        format!(
            "{}/{}",
            text(item, "/metadata/namespace"),
            text(item, "/metadata/name")
        )
    };
    holds(
        "a list of all namespaces is sorted",
        items.len() >= 3 && items.iter().map(key).is_sorted(),
    )
}

async fn an_empty_list_has_kind_and_version(world: &World) -> Outcome {
    let none = world
        .get(&world.core("configmaps?labelSelector=no=such"))
        .await?;
    at(none.ok()?, "/kind", json!("ConfigMapList"))?;
    at(&none.body, "/apiVersion", json!("v1"))?;
    at(&none.body, "/items", json!([]))?;
    holds("the list has a resourceVersion", revision(&none.body) > 0)
}

async fn pages_count_remaining_items(world: &World) -> Outcome {
    three_maps(world).await?;
    // Without a selector, the server counts remaining items. Other ConfigMaps of the namespace sort
    // after these.
    let first = world.get(&world.core("configmaps?limit=2")).await?;
    has_names("first page", &first, &["a", "b"])?;
    first.has("/kind", json!("ConfigMapList"))?;
    first.has("/items/0/kind", json!(null))?;
    holds(
        "remainingItemCount is set",
        first.body["metadata"]["remainingItemCount"].as_i64() >= Some(1),
    )?;
    let token = text(&first.body, "/metadata/continue");
    let second = world
        .get(&world.core(&format!("configmaps?limit=500&continue={token}")))
        .await?;
    equal(
        "second page",
        &json!(names(second.ok()?).first()),
        &json!("c"),
    )?;
    second.has("/metadata/resourceVersion", json!(version(&first.body)))?;
    second.has("/metadata/continue", json!(null))?;
    second.has("/metadata/remainingItemCount", json!(null))?;
    let selected = list(world, "limit=2").await?;
    has_names("first page of a selection", &selected, &["a", "b"])?;
    selected.has("/metadata/remainingItemCount", json!(null))
}

async fn pages_have_one_resource_version(world: &World) -> Outcome {
    three_maps(world).await?;
    let first = list(world, "limit=1").await?;
    let token = text(first.ok()?, "/metadata/continue").to_owned();
    world
        .map("aa", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    world.delete(&world.core("configmaps/b")).await?.ok()?;
    let second = list(world, &format!("limit=9&continue={token}")).await?;
    has_names("second page", &second, &["b", "c"])?;
    second.has("/metadata/resourceVersion", json!(version(&first.body)))?;
    has_names(
        "second page with version 0",
        &list(world, &format!("resourceVersion=0&continue={token}")).await?,
        &["b", "c"],
    )
}

fn token_of(content: &Value) -> String {
    URL_SAFE_NO_PAD.encode(content.to_string())
}

async fn continue_tokens_contain_version_and_start(world: &World) -> Outcome {
    three_maps(world).await?;
    let first = list(world, "limit=2").await?;
    let bytes = URL_SAFE_NO_PAD
        .decode(text(first.ok()?, "/metadata/continue"))
        .map_err(|error| Broken(error.to_string()))?;
    let content: Value =
        serde_json::from_slice(&bytes).map_err(|error| Broken(error.to_string()))?;
    let expected = json!({"v": "meta.k8s.io/v1", "rv": revision(&first.body), "start": "/b\0"});
    equal("content of the token", &content, &expected)?;
    let other = json!({"v": "meta.k8s.io/v1", "rv": revision(&first.body), "start": "/a\0"});
    has_names(
        "page of another token",
        &list(world, &format!("continue={}", token_of(&other))).await?,
        &["b", "c"],
    )
}

async fn a_token_without_a_version_continues_at_the_latest(world: &World) -> Outcome {
    let before = three_maps(world).await?;
    let token = token_of(&json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "/a\0"}));
    world
        .map("aa", json!({"labels": {"check": "yes"}}), json!({}))
        .await?;
    world.delete(&world.core("configmaps/b")).await?.ok()?;
    let rest = list(world, &format!("limit=1&continue={token}")).await?;
    has_names("first page", &rest, &["aa"])?;
    holds(
        "the page has the latest version",
        revision(&rest.body) > revision(&before),
    )?;
    let next = text(&rest.body, "/metadata/continue").to_owned();
    has_names(
        "next page",
        &list(world, &format!("continue={next}")).await?,
        &["c"],
    )
}

async fn version_zero_ignores_the_limit(world: &World) -> Outcome {
    let last = three_maps(world).await?;
    // The watch cache of a real server may not have the objects yet.
    list(world, &format!("resourceVersion={}", version(&last)))
        .await?
        .ok()?;
    let whole = list(world, "resourceVersion=0&limit=1").await?;
    has_names("all", &whole, &["a", "b", "c"])?;
    whole.has("/metadata/continue", json!(null))
}

async fn limits_below_one_mean_no_limit(world: &World) -> Outcome {
    three_maps(world).await?;
    for limit in ["0", "-1"] {
        has_names(
            limit,
            &list(world, &format!("limit={limit}")).await?,
            &["a", "b", "c"],
        )?;
    }
    Ok(())
}

async fn lists_are_not_older_than_requested(world: &World) -> Outcome {
    let last = three_maps(world).await?;
    for query in [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=NotOlderThan&limit=9",
    ] {
        let found = list(world, &format!("resourceVersion={}{query}", version(&last))).await?;
        has_names(query, &found, &["a", "b", "c"])?;
        holds(
            "the resourceVersion is not older than requested",
            revision(&found.body) >= revision(&last),
        )?;
    }
    has_names(
        "list at version 0",
        &list(world, "resourceVersion=0&resourceVersionMatch=NotOlderThan").await?,
        &["a", "b", "c"],
    )
}

async fn exact_lists_show_an_old_version(world: &World) -> Outcome {
    three_maps(world).await?;
    let then = list(world, "").await?;
    world.delete(&world.core("configmaps/a")).await?.ok()?;
    let exactly = format!(
        "resourceVersionMatch=Exact&resourceVersion={}",
        version(then.ok()?)
    );
    let past = list(world, &exactly).await?;
    has_names("then", &past, &["a", "b", "c"])?;
    past.has("/metadata/resourceVersion", json!(version(&then.body)))?;
    let page = list(world, &format!("{exactly}&limit=2")).await?;
    has_names("a page of the old version", &page, &["a", "b"])?;
    let token = text(&page.body, "/metadata/continue").to_owned();
    has_names(
        "the next page of the old version",
        &list(world, &format!("continue={token}")).await?,
        &["c"],
    )
}

async fn limited_lists_of_a_version_are_exact(world: &World) -> Outcome {
    three_maps(world).await?;
    let then = list(world, "").await?;
    world.delete(&world.core("configmaps/a")).await?.ok()?;
    let past = list(
        world,
        &format!("limit=2&resourceVersion={}", version(then.ok()?)),
    )
    .await?;
    has_names("then", &past, &["a", "b"])?;
    past.has("/metadata/resourceVersion", json!(version(&then.body)))
}

/// Each server decides how much history it keeps. An answer with the old state is therefore
/// accepted.
async fn compacted_versions_are_expired(world: &World) -> Outcome {
    three_maps(world).await?;
    let exact = list(world, "resourceVersion=1&resourceVersionMatch=Exact").await?;
    if exact.code != 200 {
        exact.refuses(
            410,
            "Expired",
            "The resourceVersion for the provided list is too old.",
        )?;
    }
    let token = token_of(&json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "/a\0"}));
    let expired = list(world, &format!("limit=2&continue={token}")).await?;
    if expired.code == 200 {
        return Ok(());
    }
    expired.refuses(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result.",
    )?;
    let next = text(&expired.body, "/metadata/continue").to_owned();
    has_names(
        "the page of a token without a version",
        &list(world, &format!("continue={next}")).await?,
        &["b", "c"],
    )
}

async fn invalid_tokens_and_versions_are_refused(world: &World) -> Outcome {
    three_maps(world).await?;
    for token in ["e30", "!!!", "abc"] {
        list(world, &format!("continue={token}")).await?.refuses(
            400,
            "BadRequest",
            "invalid continue token",
        )?;
    }
    for version in ["x", "-1"] {
        list(world, &format!("resourceVersion={version}"))
            .await?
            .refuses(400, "BadRequest", "invalid resource version")?;
    }
    let first = list(world, "limit=1").await?;
    let token = text(first.ok()?, "/metadata/continue");
    let both = list(world, &format!("resourceVersion=1&continue={token}")).await?;
    both.refuses(
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    )
}

async fn future_versions_time_out(world: &World) -> Outcome {
    for query in [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=Exact",
        "&limit=1",
    ] {
        let answer = list(world, &format!("resourceVersion=1000000000000000{query}")).await?;
        answer.refuses(
            504,
            "Timeout",
            "Too large resource version: 1000000000000000, current: ",
        )?;
        answer.has("/details/causes/0/reason", json!("ResourceVersionTooLarge"))?;
        answer.has("/details/retryAfterSeconds", json!(1))?;
        equal(
            "retry-after",
            &json!(answer.header("retry-after")),
            &json!("1"),
        )?;
    }
    Ok(())
}

async fn contradicting_parameters_are_refused(world: &World) -> Outcome {
    let cases = [
        (
            "resourceVersionMatch=Exact",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Roughly",
            "supported values: \"Exact\", \"NotOlderThan\", \"\"",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=e30",
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            "resourceVersion=1&resourceVersionMatch=NotOlderThan&continue=e30",
            "forbidden when continue is provided",
        ),
        (
            "sendInitialEvents=true",
            "sendInitialEvents is forbidden for list",
        ),
        (
            "watch=1&sendInitialEvents=true",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            "resourceVersionMatch",
        ),
        (
            "watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan",
            "forbidden for watch unless sendInitialEvents is provided",
        ),
    ];
    for (query, why) in cases {
        let refused = world
            .get(&world.core(&format!("configmaps?{query}")))
            .await?;
        refused.invalid(why)?;
        refused.has("/details/kind", json!("ListOptions"))?;
        refused.has("/details/group", json!("meta.k8s.io"))?;
    }
    Ok(())
}
