//! Strategic merge patches: directives, and the merge keys of lists.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, JSON_PATCH, Outcome, STRATEGIC, World, at, equal, includes, text};

promises! { "strategic":
    maps_merge_and_support_directives,
    lists_merge_by_key_with_new_elements_first,
    lists_support_directives,
    set_element_order_sorts_lists,
    lists_of_strings_form_a_union,
    retain_keys_removes_other_fields,
    elements_without_merge_key_are_refused,
    lists_of_pods_merge_by_their_keys,
    lists_of_containers_merge_by_their_keys,
    lists_of_other_kinds_merge_by_their_keys,
    conditions_merge_by_type,
}

/// Patches the pod template of Deployment `a`.
async fn of_template(world: &World, spec: Value) -> Result<Answer, Broken> {
    world
        .patch(
            &world.apps("deployments/a"),
            STRATEGIC,
            &json!({"spec": {"template": {"spec": spec}}}),
        )
        .await
}

fn template(answer: &Answer) -> Result<&Value, Broken> {
    Ok(&answer.ok()?["spec"]["template"]["spec"])
}

/// One field of each element.
fn each<'a>(list: &'a Value, field: &str) -> Vec<&'a Value> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|element| &element[field])
        .collect()
}

fn containers(answer: &Answer, expected: Value) -> Outcome {
    equal(
        "containers",
        &json!(each(&template(answer)?["containers"], "name")),
        &expected,
    )
}

async fn maps_merge_and_support_directives(world: &World) -> Outcome {
    world
        .map(
            "a",
            json!({"labels": {"x": "1", "y": "2"}}),
            json!({"k": "1", "l": "2"}),
        )
        .await?;
    let path = world.core("configmaps/a");
    let patch = json!({"metadata": {"labels": {"x": null, "z": "3"}}, "data": {"$patch": "replace", "m": "3"}});
    let patched = world.patch(&path, STRATEGIC, &patch).await?;
    at(
        patched.ok()?,
        "/metadata/labels",
        json!({"y": "2", "z": "3"}),
    )?;
    at(&patched.body, "/data", json!({"m": "3"}))?;
    let emptied = world
        .patch(&path, STRATEGIC, &json!({"data": {"$patch": "delete"}}))
        .await?;
    at(emptied.ok()?, "/data", Value::Null)
}

async fn lists_merge_by_key_with_new_elements_first(world: &World) -> Outcome {
    world.deployment("a").await?;
    let added = of_template(
        world,
        json!({"containers": [{"name": "new", "image": "i:1"}]}),
    )
    .await?;
    containers(&added, json!(["new", "c"]))?;
    let changed = of_template(
        world,
        json!({"containers": [{"name": "c", "image": "i:2"}]}),
    )
    .await?;
    containers(&changed, json!(["new", "c"]))?;
    at(template(&changed)?, "/containers/1/image", json!("i:2"))
}

async fn lists_support_directives(world: &World) -> Outcome {
    world.deployment("a").await?;
    of_template(world, json!({"containers": [{"name": "d", "image": "i"}]}))
        .await?
        .ok()?;
    let gone = of_template(
        world,
        json!({"containers": [{"name": "d", "$patch": "delete"}]}),
    )
    .await?;
    containers(&gone, json!(["c"]))?;
    let replaced = of_template(
        world,
        json!({"containers": [{"name": "e", "image": "i"}, {"$patch": "replace"}]}),
    )
    .await?;
    containers(&replaced, json!(["e"]))
}

async fn set_element_order_sorts_lists(world: &World) -> Outcome {
    world.deployment("a").await?;
    let order = json!({
        "$setElementOrder/containers": [{"name": "c"}, {"name": "d"}],
        "containers": [{"name": "d", "image": "i"}],
    });
    containers(&of_template(world, order).await?, json!(["c", "d"]))?;
    let order = json!({"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]});
    containers(&of_template(world, order).await?, json!(["d", "c"]))
}

async fn lists_of_strings_form_a_union(world: &World) -> Outcome {
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("conformance.example.com/{name}"));
    world
        .map("a", json!({"finalizers": [a, b]}), json!({}))
        .await?;
    let path = world.core("configmaps/a");
    let more = world
        .patch(&path, STRATEGIC, &json!({"metadata": {"finalizers": [c]}}))
        .await?;
    at(more.ok()?, "/metadata/finalizers", json!([c, a, b]))?;
    let less = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [a]}});
    at(
        world.patch(&path, STRATEGIC, &less).await?.ok()?,
        "/metadata/finalizers",
        json!([c, b]),
    )
}

async fn retain_keys_removes_other_fields(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.apps("deployments/a");
    let refused = world
        .patch(
            &path,
            STRATEGIC,
            &json!({"spec": {"strategy": {"type": "Recreate"}}}),
        )
        .await?;
    refused.invalid("spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'")?;
    let strategy = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    at(
        world.patch(&path, STRATEGIC, &strategy).await?.ok()?,
        "/spec/strategy",
        json!({"type": "Recreate"}),
    )?;
    of_template(world, json!({"volumes": [{"name": "v", "emptyDir": {}}]}))
        .await?
        .ok()?;
    let other = json!({"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "m"}}]});
    let volume = of_template(world, other).await?;
    let expected = json!([{"name": "v", "configMap": {"name": "m", "defaultMode": 420}}]);
    at(template(&volume)?, "/volumes", expected)
}

async fn elements_without_merge_key_are_refused(world: &World) -> Outcome {
    world.deployment("a").await?;
    let keyless = of_template(world, json!({"containers": [{"image": "i:3"}]})).await?;
    keyless.refuses(500, "", "does not contain declared merge key: name")
}

/// Patches a list of the template with `first`, then with `second`. The result must have the
/// elements of both at the indexes `expected`.
async fn merged(
    world: &World,
    pointer: &str,
    first: Value,
    second: Value,
    expected: &[usize],
) -> Outcome {
    let of = |element: &Value| {
        let whole = |field: Value| {
            pointer.rsplit('/').fold(field, |inner, key| {
                if key.is_empty() {
                    inner
                } else {
                    json!({key: inner})
                }
            })
        };
        match pointer.strip_prefix("/containers/0/") {
            Some(field) => json!({"containers": [{"name": "c", field: [element]}]}),
            None => whole(json!([element])),
        }
    };
    of_template(world, of(&first)).await?.ok()?;
    let patched = of_template(world, of(&second)).await?;
    let list = template(&patched)?
        .pointer(pointer)
        .cloned()
        .unwrap_or_default();
    let both = [first, second];
    let expected: Vec<&Value> = expected.iter().map(|&index| &both[index]).collect();
    includes(pointer, &list, &json!(expected))
}

/// A merged list has both elements, the new one first. A replaced list has only the second.
const BOTH: &[usize] = &[1, 0];
const SECOND: &[usize] = &[1];

async fn lists_of_pods_merge_by_their_keys(world: &World) -> Outcome {
    world.deployment("a").await?;
    let spread =
        |key: &str| json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists"});
    let cases = [
        (
            "/initContainers",
            json!({"name": "x", "image": "i"}),
            json!({"name": "y", "image": "i"}),
            BOTH,
        ),
        (
            "/volumes",
            json!({"name": "x", "emptyDir": {}}),
            json!({"name": "y", "emptyDir": {}}),
            BOTH,
        ),
        (
            "/imagePullSecrets",
            json!({"name": "x"}),
            json!({"name": "y"}),
            BOTH,
        ),
        (
            "/hostAliases",
            json!({"ip": "10.0.0.1", "hostnames": ["x"]}),
            json!({"ip": "10.0.0.2", "hostnames": ["y"]}),
            BOTH,
        ),
        ("/topologySpreadConstraints", spread("x"), spread("y"), BOTH),
        (
            "/schedulingGates",
            json!({"name": "a.b/x"}),
            json!({"name": "a.b/y"}),
            BOTH,
        ),
        ("/tolerations", tolerated("x"), tolerated("y"), SECOND),
        (
            "/readinessGates",
            json!({"conditionType": "x"}),
            json!({"conditionType": "y"}),
            SECOND,
        ),
    ];
    for (pointer, first, second, expected) in cases {
        merged(world, pointer, first, second, expected).await?;
    }
    Ok(())
}

async fn lists_of_containers_merge_by_their_keys(world: &World) -> Outcome {
    world.deployment("a").await?;
    let volumes = ["x", "y"].map(|name| json!({"name": name, "emptyDir": {}}));
    of_template(world, json!({"volumes": volumes}))
        .await?
        .ok()?;
    let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
    let from = |name: &str| json!({"configMapRef": {"name": name}});
    let cases = [
        (
            "/containers/0/ports",
            json!({"containerPort": 1}),
            json!({"containerPort": 2}),
            BOTH,
        ),
        (
            "/containers/0/env",
            json!({"name": "x", "value": "1"}),
            json!({"name": "y", "value": "2"}),
            BOTH,
        ),
        ("/containers/0/volumeMounts", mount("x"), mount("y"), BOTH),
        ("/containers/0/command", json!("x"), json!("y"), SECOND),
        ("/containers/0/args", json!("x"), json!("y"), SECOND),
        ("/containers/0/envFrom", from("x"), from("y"), SECOND),
    ];
    for (pointer, first, second, expected) in cases {
        merged(world, pointer, first, second, expected).await?;
    }
    Ok(())
}

async fn lists_of_other_kinds_merge_by_their_keys(world: &World) -> Outcome {
    let ports = json!([{"name": "x", "port": 80}]);
    world
        .post(
            &world.core("services"),
            &json!({"metadata": {"name": "a"}, "spec": {"ports": ports}}),
        )
        .await?
        .created()?;
    let more = json!({"spec": {"ports": [{"name": "y", "port": 81}]}});
    let service = world
        .patch(&world.core("services/a"), STRATEGIC, &more)
        .await?;
    equal(
        "ports",
        &json!(each(&service.ok()?["spec"]["ports"], "port")),
        &json!([81, 80]),
    )?;
    let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "x"}], "imagePullSecrets": [{"name": "x"}]});
    world
        .post(&world.core("serviceaccounts"), &account)
        .await?
        .created()?;
    let more = json!({"secrets": [{"name": "y"}], "imagePullSecrets": [{"name": "y"}]});
    let account = world
        .patch(&world.core("serviceaccounts/a"), STRATEGIC, &more)
        .await?;
    at(
        account.ok()?,
        "/secrets",
        json!([{"name": "y"}, {"name": "x"}]),
    )?;
    at(&account.body, "/imagePullSecrets", json!([{"name": "y"}]))?;
    // The owner exists, so that the garbage collector keeps the dependent.
    let owner = world.map("owner", json!({}), json!({})).await?;
    let by = |owner: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": text(owner, "/metadata/name"), "uid": owner["metadata"]["uid"]});
    world
        .map("a", json!({"ownerReferences": [by(&owner)]}), json!({}))
        .await?;
    let other = world.map("other", json!({}), json!({})).await?;
    let more = json!({"metadata": {"ownerReferences": [by(&other)]}});
    let owned = world
        .patch(&world.core("configmaps/a"), STRATEGIC, &more)
        .await?;
    equal(
        "owners",
        &json!(each(&owned.ok()?["metadata"]["ownerReferences"], "name")),
        &json!(["other", "owner"]),
    )?;
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"x": "1"}}});
    let budgets = world.group("policy/v1", "poddisruptionbudgets");
    world
        .post(
            &budgets,
            &json!({"metadata": {"name": "a"}, "spec": budget}),
        )
        .await?
        .created()?;
    let other = json!({"spec": {"selector": {"matchLabels": {"y": "2"}}}});
    let budget = world
        .patch(&format!("{budgets}/a"), STRATEGIC, &other)
        .await?;
    at(
        budget.ok()?,
        "/spec/selector",
        json!({"matchLabels": {"y": "2"}}),
    )
}

async fn conditions_merge_by_type(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/status");
    let condition = |name: &str, status: &str| json!({"status": {"conditions": [{"type": name, "status": status}]}});
    for (name, status) in [
        ("example.com/x", "True"),
        ("example.com/y", "True"),
        ("example.com/x", "False"),
    ] {
        world
            .patch(&path, STRATEGIC, &condition(name, status))
            .await?
            .ok()?;
    }
    let pod = world.get(&path).await?;
    let conditions = pod.ok()?["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let status = |name: &str| {
        conditions
            .iter()
            .find(|one| one["type"] == name)
            .map_or(Value::Null, |one| one["status"].clone())
    };
    equal(
        "status of the changed condition",
        &status("example.com/x"),
        &json!("False"),
    )?;
    equal(
        "status of the other condition",
        &status("example.com/y"),
        &json!("True"),
    )?;
    // A list without a merge key is replaced.
    let statuses = |name: &str| {
        let of =
            json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0});
        json!([{"op": "add", "path": "/status/containerStatuses", "value": [of]}])
    };
    world.patch(&path, JSON_PATCH, &statuses("x")).await?.ok()?;
    let other = json!({"status": {"containerStatuses": statuses("y")[0]["value"]}});
    let replaced = world.patch(&path, STRATEGIC, &other).await?;
    equal(
        "containerStatuses",
        &json!(each(&replaced.ok()?["status"]["containerStatuses"], "name")),
        &json!(["y"]),
    )
}
