use serde_json::json;

use super::*;

fn patched(kind: &str, mut object: Value, patch: Value) -> Value {
    strategic(kind, &mut object, &patch).unwrap();
    object
}

fn refused(kind: &str, object: Value, patch: Value) -> PatchError {
    let mut target = object.clone();
    let error = strategic(kind, &mut target, &patch).unwrap_err();
    assert_eq!(target, object, "a refused patch changes nothing");
    error
}

/// Names of the containers of a pod with `containers` after `patch`.
fn containers(containers: Value, patch: Value) -> Vec<String> {
    let pod = patched(
        "Pod",
        json!({"spec": {"containers": containers}}),
        json!({"spec": patch}),
    );
    let list = pod["spec"]["containers"].as_array().unwrap();
    list.iter()
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn elements_merge_by_key_and_new_ones_go_first() {
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}});
    let patch = json!({"spec": {"containers": [{"name": "n", "image": "b"},
        {"name": "c", "env": [{"name": "C", "value": "3"}, {"$patch": "delete", "name": "A"}]}]}});
    assert_eq!(
        patched("Pod", pod, patch),
        json!({"spec": {"containers": [{"name": "n", "image": "b"},
        {"name": "c", "image": "a", "env": [{"name": "C", "value": "3"}, {"name": "B", "value": "2"}]}]}})
    );
}

#[test]
fn set_element_order_orders_the_listed_elements() {
    let server = json!([{"name": "a"}, {"name": "b"}, {"name": "s"}]);
    let order = json!([{"name": "b"}, {"name": "a"}]);
    assert_eq!(
        containers(
            server.clone(),
            json!({"$setElementOrder/containers": order})
        ),
        ["b", "a", "s"]
    );
    let patch = json!({"$setElementOrder/containers": [{"name": "n"}, {"name": "b"}, {"name": "a"}], "containers": [{"name": "n"}]});
    assert_eq!(containers(server.clone(), patch), ["n", "b", "a", "s"]);
    let patch = json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"$patch": "delete", "name": "a"}]});
    assert_eq!(containers(server, patch), ["b", "s"]);
}

#[test]
fn an_element_outside_the_given_order_is_refused() {
    let error = refused(
        "Pod",
        json!({"spec": {"containers": [{"name": "n"}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "n"}], "containers": [{"name": "m", "image": "app:v3"}]}}),
    );
    let text = "The order in patch list:\n[map[image:app:v3 name:m]]\n doesn't match $setElementOrder list:\n[map[name:n]]\n";
    assert_eq!(error, PatchError::Internal(text.to_owned()));
}

#[test]
fn a_replace_element_replaces_the_whole_list() {
    assert_eq!(
        containers(
            json!([{"name": "a"}]),
            json!({"containers": [{"name": "z"}, {"$patch": "replace"}]})
        ),
        ["z"]
    );
}

#[test]
fn maps_are_replaced_and_emptied_by_directive() {
    let object = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}});
    let with = |patch: Value| {
        patched(
            "Pod",
            object.clone(),
            json!({"metadata": {"annotations": patch}}),
        )["metadata"]["annotations"]
            .clone()
    };
    assert_eq!(
        with(json!({"$patch": "replace", "c": "3"})),
        json!({"c": "3"})
    );
    assert_eq!(with(json!({"$patch": "delete"})), json!({}));
    assert_eq!(
        with(json!({"a": null, "none": null, "c": "3"})),
        json!({"b": "2", "c": "3"})
    );
    let unknown = refused(
        "Pod",
        object,
        json!({"metadata": {"annotations": {"$patch": "foo"}}}),
    );
    assert_eq!(
        unknown,
        PatchError::Internal("unknown patch type: foo in map: map[$patch:foo]".to_owned())
    );
}

#[test]
fn an_order_needs_a_list_that_the_type_has() {
    let object = json!({"spec": {"hostname": "h", "containers": [{"name": "c"}]}});
    let message = |spec: Value| match refused("Pod", object.clone(), json!({"spec": spec})) {
        PatchError::Internal(message) => message,
        other => panic!("{other:?}"),
    };
    let unknown = |shape: &str, field: &str| {
        format!("unable to find api field in struct {shape} for the json field {field:?}")
    };
    let order = json!({"$setElementOrder/foo": ["a"], "foo": ["a"]});
    assert_eq!(message(order.clone()), unknown("PodSpec", "foo"));
    let mut inner = order;
    inner["name"] = json!("c");
    assert_eq!(
        message(json!({"containers": [inner]})),
        unknown("Container", "foo")
    );
    // (patch of the spec, Go's type)
    let cases = [
        (json!({"$setElementOrder/foo": 7}), "int64"),
        (
            json!({"$setElementOrder/containers": {}}),
            "map[string]interface {}",
        ),
        (json!({"$setElementOrder/hostname": ["a"]}), "string"),
        (
            json!({"$setElementOrder/volumes": [], "volumes": null}),
            "%!s(<nil>)",
        ),
    ];
    for (patch, found) in cases {
        let expected = format!("expected a []interface {{}}, but received a {found}");
        assert_eq!(message(patch), expected);
    }
}

#[test]
fn directives_for_missing_fields_are_dropped() {
    let patch = json!({"metadata": {"annotations": {"$patch": "foo"}, "labels": {"a": null, "b": "1"}},
        "spec": {"$setElementOrder/containers": [{"name": "x"}]}});
    assert_eq!(
        patched("Pod", json!({"metadata": {}}), patch),
        json!({"metadata": {"labels": {"b": "1"}}, "spec": {}})
    );
}

#[test]
fn lists_of_scalars_are_sets() {
    let object = json!({"metadata": {"finalizers": ["a"]}});
    let with = |patch: Value| {
        patched("Pod", object.clone(), json!({"metadata": patch}))["metadata"]["finalizers"].clone()
    };
    assert_eq!(with(json!({"finalizers": ["d"]})), json!(["d", "a"]));
    assert_eq!(with(json!({"finalizers": ["a"]})), json!(["a"]));
    assert_eq!(
        with(json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]})),
        json!([])
    );
    assert_eq!(
        with(json!({"$setElementOrder/finalizers": ["a", "d"], "finalizers": ["d"]})),
        json!(["a", "d"])
    );
    assert_eq!(with(json!({"finalizers": null})), Value::Null);
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let pod = json!({"spec": {"tolerations": [{"key": "a"}]}});
    assert_eq!(
        patched("Pod", pod, json!({"spec": {"tolerations": [{"key": "b"}]}})),
        json!({"spec": {"tolerations": [{"key": "b"}]}})
    );
    let unknown = patched(
        "Widget",
        json!({"l": [{"name": "a"}], "m": {"x": 1}}),
        json!({"l": [{"name": "b"}], "m": {"y": 2}}),
    );
    assert_eq!(
        unknown,
        json!({"l": [{"name": "b"}], "m": {"x": 1, "y": 2}})
    );
}

#[test]
fn the_selector_of_a_budget_is_replaced_as_a_whole() {
    let budget = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
    let got = patched(
        "PodDisruptionBudget",
        budget,
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
    );
    assert_eq!(
        got,
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}})
    );
}

#[test]
fn retain_keys_drops_unlisted_keys() {
    let deployment =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let with = |patch: Value| json!({"spec": {"strategy": patch}});
    let got = patched(
        "Deployment",
        deployment.clone(),
        with(json!({"$retainKeys": ["type"], "type": "Recreate"})),
    );
    assert_eq!(got, json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let error = refused(
        "Deployment",
        deployment,
        with(json!({"$retainKeys": ["rollingUpdate"], "type": "Recreate"})),
    );
    assert_eq!(
        error,
        PatchError::Malformed("invalid patch format of retainKeys".to_owned())
    );
}

#[test]
fn an_element_without_its_key_is_refused() {
    let error = refused(
        "Pod",
        json!({"spec": {"containers": [{"name": "c"}]}}),
        json!({"spec": {"containers": [{"image": "app:v1"}]}}),
    );
    assert_eq!(
        error,
        PatchError::Internal(
            "map: map[image:app:v1] does not contain declared merge key: name".to_owned()
        )
    );
}

#[test]
fn only_an_object_is_a_merge_patch() {
    let error = refused("Pod", json!({}), json!([]));
    let text = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(error, PatchError::Malformed(text.to_owned()));
}
