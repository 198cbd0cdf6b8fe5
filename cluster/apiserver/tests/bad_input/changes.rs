//! Patches that do not apply, and forbidden changes.

use serde_json::{Value, json};

use super::cases::{
    APPLY, DEPLOYMENT, JSON, JSON_PATCH, MAP, MERGE, POD, PODS, STRATEGIC, WIDGETS, case, cluster,
    refused,
};

#[tokio::test]
async fn patches_that_do_not_apply() {
    let cluster = cluster().await;
    let failed = "the server rejected our request due to an error in our request";
    let cases = [
        case("a failing test", ("PATCH", POD), JSON_PATCH, r#"[{"op":"test","path":"/spec/nodeName","value":"n"}]"#)
            .is(422, "Invalid", failed),
        case(
            "only the first operation works",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"remove","path":"/nope"}]"#,
        )
        .is(422, "Invalid", failed),
        case("an unknown operation", ("PATCH", POD), JSON_PATCH, r#"[{"op":"frob","path":"/spec"}]"#).is(422, "Invalid", failed),
        case("an invalid path", ("PATCH", POD), JSON_PATCH, r#"[{"op":"add","path":"spec","value":1}]"#)
            .is(422, "Invalid", failed),
        case("an index past the end", ("PATCH", POD), JSON_PATCH, r#"[{"op":"add","path":"/spec/containers/9","value":{}}]"#)
            .is(422, "Invalid", failed),
        case(
            "an index past all numbers",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"add","path":"/spec/containers/99999999999999999999","value":{}}]"#,
        )
        .is(422, "Invalid", failed),
        case("the whole object replaced by null", ("PATCH", POD), JSON_PATCH, r#"[{"op":"replace","path":"","value":null}]"#)
            .is(422, "Invalid", ""),
        case("not a list", ("PATCH", POD), JSON_PATCH, r#"{"op":"add"}"#).is(400, "BadRequest", "cannot unmarshal object"),
        case(
            "too many",
            ("PATCH", POD),
            JSON_PATCH,
            format!("[{}]", vec![r#"{"op":"test","path":"/kind","value":"Pod"}"#; 10_001].join(",")),
        )
        .is(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        case("a member of another type", ("PATCH", POD), JSON_PATCH, r#"[{"op":1}]"#).is(
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        case(
            "not a list, without validation",
            ("PATCH", &format!("{POD}?fieldValidation=Ignore")),
            JSON_PATCH,
            "{}",
        )
        .is(400, "BadRequest", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        case(
            "a strict patch with an unknown member",
            ("PATCH", &format!("{POD}?fieldValidation=Strict")),
            JSON_PATCH,
            r#"[{"op":"test","path":"/kind","value":"Pod","value":"Pod","x":1}]"#,
        )
        .is(
            422,
            "Invalid",
            "strict decoding error: json patch duplicate field \"[0].value\", json patch unknown field \"[0].x\"",
        ),
        case("a merge patch that is null", ("PATCH", POD), MERGE, "null").is(400, "BadRequest", "Invalid JSON Patch"),
        case("a strategic patch cut off", ("PATCH", DEPLOYMENT), STRATEGIC, "{").is(
            400,
            "BadRequest",
            "unexpected end of JSON input",
        ),
        case("a merge patch that is a list", ("PATCH", POD), MERGE, "[]").is(400, "BadRequest", ""),
        case("a merge patch cut off", ("PATCH", POD), MERGE, "{\"spec\":").is(400, "BadRequest", ""),
        case("a result of another type", ("PATCH", POD), MERGE, r#"{"spec":{"containers":"x"}}"#).is(422, "Invalid", "patch"),
        case("metadata removed", ("PATCH", POD), MERGE, r#"{"metadata":null}"#).is(400, "BadRequest", "name must be provided"),
        case("another kind", ("PATCH", POD), MERGE, r#"{"kind":"Secret"}"#).is(422, "Invalid", ""),
        case("another name", ("PATCH", POD), MERGE, r#"{"metadata":{"name":"b"}}"#).is(
            400,
            "BadRequest",
            "does not match the name on the URL",
        ),
        case("another namespace", ("PATCH", POD), MERGE, r#"{"metadata":{"namespace":"b"}}"#).is(
            400,
            "BadRequest",
            "does not match the namespace",
        ),
        case("another uid", ("PATCH", POD), MERGE, r#"{"metadata":{"uid":"1"}}"#).is(422, "Invalid", "field is immutable"),
        case("an old version", ("PATCH", POD), MERGE, r#"{"metadata":{"resourceVersion":"1"}}"#).is(
            409,
            "Conflict",
            "the object has been modified",
        ),
        case("an invalid version", ("PATCH", POD), MERGE, r#"{"metadata":{"resourceVersion":"x"}}"#).is(500, "", ""),
        case("an element without its key", ("PATCH", POD), STRATEGIC, r#"{"spec":{"containers":[{"image":"x"}]}}"#).is(
            500,
            "",
            "does not contain declared merge key: name",
        ),
        case("an unknown directive", ("PATCH", POD), STRATEGIC, r#"{"spec":{"$patch":"frobnicate"}}"#).is(500, "", ""),
        case(
            "an order that is not a list",
            ("PATCH", POD),
            STRATEGIC,
            r#"{"spec":{"$setElementOrder/containers":7,"containers":[{"name":"c"}]}}"#,
        )
        .is(500, "", "expected a []interface {}, but received a int64"),
        case("a patch of a missing object", ("PATCH", &format!("{PODS}/nobody")), MERGE, "{}").is(
            404,
            "NotFound",
            "pods \"nobody\" not found",
        ),
        case("a malformed patch of a missing object", ("PATCH", &format!("{PODS}/nobody")), JSON_PATCH, "{").is(
            404,
            "NotFound",
            "pods \"nobody\" not found",
        ),
        case(
            "applied managed fields",
            ("PATCH", &format!("{MAP}?fieldManager=m")),
            APPLY,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{}]}}"#,
        )
        .is(400, "BadRequest", "metadata.managedFields must be nil"),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn forbidden_changes() {
    let cluster = cluster().await;
    let at = |plural: &str| cluster.path(plural, "default", "a");
    let widget = format!("{WIDGETS}/a");
    cluster
        .patch(&widget, json!({"metadata": {"finalizers": ["a.dev/keep"]}}))
        .await
        .unwrap();
    cluster.delete(&widget).await.unwrap();
    let bind = |node: &str| {
        json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}}).to_string()
    };
    cluster
        .call(
            http::Method::POST,
            &format!("{POD}/binding"),
            JSON,
            bind("n"),
        )
        .await
        .unwrap();
    let scale = json!({"metadata": {"name": "a"}, "spec": {"replicas": -1}}).to_string();
    let cases = [
        case(
            "a selector",
            ("PATCH", DEPLOYMENT),
            MERGE,
            r#"{"spec":{"selector":{"matchLabels":{"x":"y"}},"template":{"metadata":{"labels":{"x":"y"}}}}}"#,
        )
        .is(422, "Invalid", "field is immutable"),
        case("a Job's template", ("PATCH", &at("jobs")), MERGE, r#"{"spec":{"template":{"spec":{"hostNetwork":true}}}}"#).is(
            422,
            "Invalid",
            "field is immutable",
        ),
        case(
            "a container's name",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"replace","path":"/spec/containers/0/name","value":"d"}]"#,
        )
        .is(422, "Invalid", "pod updates may not change fields other than"),
        case("a Service's address", ("PATCH", &at("services")), MERGE, r#"{"spec":{"clusterIP":"10.96.7.7"}}"#).is(
            422,
            "Invalid",
            "may not change once set",
        ),
        case("a Secret's type", ("PATCH", &at("secrets")), MERGE, r#"{"type":"x"}"#).is(422, "Invalid", "field is immutable"),
        case("immutable data", ("PATCH", MAP), MERGE, r#"{"data":{"k":"w"}}"#).is(
            422,
            "Invalid",
            "field is immutable when `immutable` is set",
        ),
        case("immutability itself", ("PATCH", MAP), MERGE, r#"{"immutable":false}"#).is(
            422,
            "Invalid",
            "field is immutable when `immutable` is set",
        ),
        case(
            "a new finalizer of a terminating object",
            ("PATCH", &widget),
            MERGE,
            r#"{"metadata":{"finalizers":["a.dev/keep","b.dev/more"]}}"#,
        )
        .is(422, "Invalid", "no new finalizers can be added if the object is being deleted"),
        case("a second node", ("POST", &format!("{POD}/binding")), JSON, bind("m")).is(
            409,
            "Conflict",
            "is already assigned to node \"n\"",
        ),
        case("negative replicas", ("PUT", &format!("{DEPLOYMENT}/scale")), JSON, scale).is(
            422,
            "Invalid",
            "must be greater than or equal to 0",
        ),
        case("a system namespace", ("DELETE", "/api/v1/namespaces/kube-system"), "", "").is(
            403,
            "Forbidden",
            "this namespace may not be deleted",
        ),
        case(
            "a namespace that is not terminating",
            ("PATCH", "/api/v1/namespaces/default/status"),
            MERGE,
            r#"{"status":{"phase":"Terminating"}}"#,
        )
        .is(422, "Invalid", "may only be 'Active' if `deletionTimestamp` is empty"),
        case("the deletion time of a terminating object", ("PATCH", &widget), MERGE, r#"{"metadata":{"deletionTimestamp":null}}"#).is(200, "", ""),
        case("completions of a Job", ("PATCH", &at("jobs")), MERGE, r#"{"spec":{"completions":7}}"#).is(
            422,
            "Invalid",
            "field is immutable",
        ),
        case(
            "a container of a pod",
            ("PATCH", POD),
            JSON_PATCH,
            r#"[{"op":"add","path":"/spec/containers/-","value":{"name":"d","image":"i"}}]"#,
        )
        .is(422, "Invalid", "pod updates may not add or remove containers"),
        case("an unknown policy", ("DELETE", MAP), JSON, r#"{"propagationPolicy":"Foo"}"#).is(
            422,
            "Invalid",
            "Unsupported value: \"Foo\"",
        ),
        case("two policies", ("DELETE", MAP), JSON, r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#).is(
            422,
            "Invalid",
            "cannot be both set",
        ),
        case("another object's uid", ("DELETE", MAP), JSON, r#"{"preconditions":{"uid":"x"}}"#).is(
            409,
            "Conflict",
            "the UID in the precondition",
        ),
        case("options of another type", ("DELETE", MAP), JSON, r#"{"gracePeriodSeconds":"x"}"#).is(400, "BadRequest", ""),
        case("an eviction of another pod", ("POST", &format!("{POD}/eviction")), JSON, r#"{"metadata":{"name":"b"}}"#).is(
            400,
            "BadRequest",
            "name in URL does not match",
        ),
        case(
            "a pod as eviction",
            ("POST", &format!("{POD}/eviction")),
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
        )
        .is(400, "BadRequest", "unknown conversion"),
        case(
            "an eviction of a former pod",
            ("POST", &format!("{POD}/eviction")),
            JSON,
            r#"{"metadata":{"name":"a"},"deleteOptions":{"preconditions":{"uid":"u"}}}"#,
        )
        .is(409, "Conflict", "the UID in the precondition"),
        case("a token of a missing account", ("POST", "/api/v1/namespaces/default/serviceaccounts/none/token"), JSON, "{}")
            .is(404, "NotFound", ""),
    ];
    refused(&cluster, &cases).await;
}

#[tokio::test]
async fn addresses_of_services_are_unique() {
    let cluster = cluster().await;
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let ports = json!([{"port": 80, "nodePort": 30_001}]);
    let asked = json!({"type": "NodePort", "clusterIP": "10.96.0.4", "ports": ports});
    cluster.create(service("b", asked.clone())).await.unwrap();
    // (spec, error)
    let refusals = [
        (
            asked,
            "spec.clusterIPs: Invalid value: [\"10.96.0.4\"]: failed to allocate IP 10.96.0.4: provided IP is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": ports}),
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            json!({"clusterIP": "10.0.0.4", "ports": [{"port": 80}]}),
            "failed to allocate IP 10.0.0.4: the provided network does not match the current range",
        ),
        (
            json!({"clusterIP": "10.96.0.0", "ports": [{"port": 80}]}),
            "the provided IP (10.96.0.0) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
        (
            json!({"clusterIP": "ten", "ports": [{"port": 80}]}),
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
    ];
    for (spec, why) in refusals {
        let refused = cluster.create(service("c", spec)).await.unwrap_err();
        assert_eq!(refused.code, 422, "{why}");
        assert!(refused.message.contains(why), "{}", refused.message);
    }
    let mut given = std::collections::BTreeSet::new();
    for name in ["d", "e", "f"] {
        let made = cluster
            .create(service(
                name,
                json!({"type": "NodePort", "ports": [{"port": 80}]}),
            ))
            .await
            .unwrap();
        given.insert((
            made["spec"]["clusterIP"].to_string(),
            made["spec"]["ports"][0]["nodePort"].as_u64(),
        ));
        assert!(
            made["spec"]["clusterIP"] != "10.96.0.4"
                && made["spec"]["ports"][0]["nodePort"] != 30_001,
            "{made}"
        );
    }
    assert_eq!(given.len(), 3);
}
