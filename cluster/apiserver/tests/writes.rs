//! Sequences of writes to one object, with parts of the last answer. The answers are those of
//! kube-apiserver 1.36.2; `proof/differential` found the sequences.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{ask, clock};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const PUT: &str = "application/json";

/// A write: its kind, its query, and its body. A PUT merges its body into the last answer.
type Write = (&'static str, &'static str, Value);

/// The values of the last answer at JSON pointers.
type Expected = Vec<(&'static str, Value)>;

/// Writes one after the other to the object `a` below `path`, and returns the last answer.
async fn last_answer(client: &kube::Client, path: &str, writes: Vec<Write>) -> Value {
    let mut last = Value::Null;
    for (content_type, query, body) in writes {
        let (method, body) = match content_type {
            PUT => ("PUT", merged(last, &body)),
            _ => ("PATCH", body),
        };
        let (part, query) = query.split_once('?').unwrap_or(("", query));
        let target = format!("{path}/a{part}?{query}");
        let body = body.to_string();
        last = ask(client, method, &target, content_type, body.as_bytes())
            .await
            .body;
    }
    last
}

fn merged(mut value: Value, patch: &Value) -> Value {
    match (value.as_object_mut(), patch) {
        (Some(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                let before = fields.remove(key).unwrap_or_default();
                fields.insert(key.clone(), merged(before, change));
            }
            value
        }
        _ => patch.clone(),
    }
}

async fn check(client: &kube::Client, path: &str, writes: Vec<Write>, expected: Expected) {
    let shown = format!("{writes:?}");
    let answer = last_answer(client, path, writes).await;
    for (pointer, expected) in expected {
        let found = answer.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(
            found, expected,
            "{pointer} of {path} after {shown}: {answer}"
        );
    }
}

/// Each case has a cluster of its own.
async fn client() -> (DevCluster, kube::Client) {
    let cluster = DevCluster::with_managed_fields(clock());
    let client = cluster.client();
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_differs_from_a_missing_one_until_it_is_stored() {
    let role = |more: Value| {
        merged(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a", "labels": {"l": "1"}}}),
            &more,
        )
    };
    let policy = |more: Value| {
        merged(
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}}),
            &more,
        )
    };
    let scaler = |more: Value| {
        merged(
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
            &more,
        )
    };
    let set = |more: Value| {
        merged(
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}}),
            &more,
        )
    };
    let ingress = |more: Value| {
        merged(
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"tls": [{"secretName": "s"}], "defaultBackend": {"service": {"name": "t", "port": {"number": 81}}}}}),
            &more,
        )
    };
    let default_metric = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    const SCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let cases: Vec<(&str, Vec<Write>, Expected)> = vec![
        (
            ROLES,
            vec![
                (APPLY, "fieldManager=x", role(json!({}))),
                (MERGE, "fieldManager=y", json!({"rules": []})),
            ],
            vec![
                ("/rules", Value::Null),
                ("/metadata/managedFields/1/manager", json!("y")),
                ("/metadata/managedFields/1/fieldsV1", json!({"f:rules": {}})),
            ],
        ),
        (
            POLICIES,
            vec![
                (APPLY, "fieldManager=x", policy(json!({}))),
                (MERGE, "fieldManager=y", json!({"spec": {"egress": []}})),
            ],
            vec![
                ("/metadata/generation", json!(2)),
                ("/spec/egress", Value::Null),
            ],
        ),
        (
            SCALERS,
            vec![
                (APPLY, "fieldManager=x", scaler(json!({}))),
                (MERGE, "fieldManager=y", json!({"spec": {"metrics": []}})),
            ],
            vec![("/spec/metrics", default_metric)],
        ),
        (
            SETS,
            vec![(
                APPLY,
                "fieldManager=x",
                set(json!({"spec": {"selector": {"matchLabels": {}}}})),
            )],
            vec![(
                "/details/causes/0/message",
                json!("Invalid value: {}: empty selector is invalid for statefulset"),
            )],
        ),
        (
            INGRESSES,
            vec![
                (APPLY, "fieldManager=x", ingress(json!({}))),
                (
                    MERGE,
                    "fieldManager=y",
                    json!({"spec": {"tls": [{"hosts": [], "secretName": "s"}]}}),
                ),
            ],
            vec![(
                "/metadata/managedFields/1/fieldsV1",
                json!({"f:spec": {"f:tls": {}}}),
            )],
        ),
    ];
    for (path, writes, expected) in cases {
        let (_cluster, client) = client().await;
        check(&client, path, writes, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_in_two_versions_see_each_other_through_the_conversion() {
    const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = |version: &str, more: Value| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let spec = json!({"maxReplicas": 5, "scaleTargetRef": target});
        let base = json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec});
        merged(base, &more)
    };
    let (_cluster, admin) = client().await;
    let first = vec![(
        APPLY,
        "fieldManager=x",
        scaler("autoscaling/v2", json!({"spec": {"behavior": {}}})),
    )];
    let is_filled = last_answer(&admin, V2, first).await;
    assert_eq!(
        is_filled["spec"]["behavior"]["scaleUp"]["selectPolicy"],
        "Max"
    );
    let second = vec![(APPLY, "fieldManager=x", scaler("autoscaling/v1", json!({})))];
    check(
        &admin,
        V1,
        second,
        vec![("/metadata/annotations", Value::Null)],
    )
    .await;
    let third = vec![(
        APPLY,
        "fieldManager=x",
        scaler("autoscaling/v2", json!({"spec": {"behavior": {}}})),
    )];
    check(&admin, V2, third, vec![("/spec/behavior", Value::Null)]).await;
    let other = vec![(PUT, "fieldManager=y", scaler("autoscaling/v2", json!({})))];
    let why = "the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)";
    check(&admin, V1, other, vec![("/message", json!(why))]).await;
}

#[tokio::test(start_paused = true)]
async fn fields_of_services_follow_their_addresses() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
    let headless = service(json!({"clusterIP": "None", "externalIPs": ["192.0.2.1"]}));
    let cases: Vec<(Vec<Write>, Expected)> = vec![
        (
            vec![
                (APPLY, "fieldManager=x", headless.clone()),
                (
                    MERGE,
                    "fieldManager=y",
                    json!({"spec": {"externalIPs": []}}),
                ),
            ],
            vec![
                ("/spec/externalTrafficPolicy", Value::Null),
                ("/spec/clusterIP", json!("None")),
            ],
        ),
        (
            vec![
                (APPLY, "fieldManager=x", headless),
                (
                    MERGE,
                    "fieldManager=y",
                    json!({"spec": {"selector": {"a": "b"}}}),
                ),
            ],
            vec![
                (
                    "/details/causes/0/message",
                    json!(
                        "Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
                    ),
                ),
                ("/details/causes/1/field", json!("spec.ipFamilies[1]")),
            ],
        ),
    ];
    for (writes, expected) in cases {
        let (_cluster, client) = client().await;
        check(&client, SERVICES, writes, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn owners_are_compared_before_duplicates_go() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": [owner]}});
    let (_cluster, client) = client().await;
    let writes = vec![
        (APPLY, "fieldManager=x", map),
        (
            JSON_PATCH,
            "fieldManager=y",
            json!([{"op": "add", "path": "/metadata/ownerReferences/1", "value": owner}]),
        ),
    ];
    let expected = vec![
        ("/metadata/ownerReferences", json!([owner])),
        ("/metadata/managedFields/0/manager", json!("y")),
    ];
    check(&client, MAPS, writes, expected).await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_to_the_status_counts_as_a_change_of_what_it_cannot_change() {
    const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend =
        |name: &str| json!({"defaultBackend": {"service": {"name": name, "port": {"number": 80}}}});
    let ingress = |more: Value| {
        merged(
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"}}),
            &more,
        )
    };
    let (_cluster, client) = client().await;
    let writes = vec![
        (
            APPLY,
            "fieldManager=x",
            ingress(json!({"spec": backend("s")})),
        ),
        (
            APPLY,
            "/status?fieldManager=y",
            ingress(json!({"spec": backend("t"), "status": {}})),
        ),
    ];
    let expected = vec![
        ("/spec/defaultBackend/service/name", json!("s")),
        (
            "/metadata/managedFields/1/time",
            json!("2026-01-01T00:00:00Z"),
        ),
    ];
    check(&client, INGRESSES, writes, expected).await;
}

/// A custom kind with a status, an embedded object, and fields without a type.
async fn define(client: &kube::Client) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "spec": {"type": "object", "properties": {"known": {"type": "string"}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "held": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "looses.x.example"},
        "spec": {"group": "x.example", "scope": "Namespaced", "names": {"plural": "looses", "kind": "Loose"}, "versions": [version]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = ask(client, "POST", path, PUT, definition.to_string().as_bytes()).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

#[tokio::test(start_paused = true)]
async fn storage_reads_custom_objects_by_their_schema() {
    const LOOSES: &str = "/apis/x.example/v1/namespaces/default/looses";
    let loose = |more: Value| {
        merged(
            json!({"apiVersion": "x.example/v1", "kind": "Loose", "metadata": {"name": "a"}}),
            &more,
        )
    };
    let apply = |body: Value| (APPLY, "fieldManager=x", loose(body));
    let kind_is_missing =
        "Loose in version \"v1\" cannot be handled as a Loose: Object 'Kind' is missing in '{}'";
    let cases: Vec<(Vec<Write>, Expected)> = vec![
        (
            vec![apply(json!({"spec": {}})), apply(json!({"spec": {"x": 1}}))],
            vec![("/metadata/generation", json!(2)), ("/spec", json!({}))],
        ),
        (
            vec![apply(
                json!({"any": null, "held": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": null}}),
            )],
            vec![
                ("/any", Value::Null),
                ("/held/metadata", json!({})),
                ("/metadata/generation", json!(1)),
            ],
        ),
        (
            vec![
                apply(json!({})),
                (
                    APPLY,
                    "/status?fieldManager=y",
                    json!({"apiVersion": "x.example/v1", "kind": "Loose", "status": null}),
                ),
            ],
            vec![
                (
                    "/metadata/managedFields/0/fieldsV1",
                    json!({"f:status": {}}),
                ),
                ("/status", Value::Null),
            ],
        ),
        (
            vec![
                apply(json!({"top": 1})),
                (
                    PUT,
                    "fieldManager=y",
                    json!({"metadata": {"managedFields": []}}),
                ),
            ],
            vec![("/metadata/managedFields/0/manager", json!("x"))],
        ),
        (
            vec![
                apply(json!({})),
                (
                    JSON_PATCH,
                    "fieldManager=y",
                    json!([{"op": "remove", "path": "/metadata"}]),
                ),
            ],
            vec![(
                "/message",
                json!(
                    "the name of the object (a based on URL) was undeterminable: name must be provided"
                ),
            )],
        ),
        (
            vec![(PUT, "fieldManager=y&fieldValidation=Ignore", json!({}))],
            vec![("/message", json!(kind_is_missing))],
        ),
    ];
    for (writes, expected) in cases {
        let (_cluster, client) = client().await;
        define(&client).await;
        check(&client, LOOSES, writes, expected).await;
    }
}

/// Go reads custom objects as maps, and writes their keys in order.
#[tokio::test(start_paused = true)]
async fn a_refused_patch_shows_the_fields_of_custom_objects_in_order() {
    const LOOSES: &str = "/apis/x.example/v1/namespaces/default/looses";
    let (_cluster, client) = client().await;
    define(&client).await;
    let loose = json!({"kind": "Loose", "apiVersion": "x.example/v1", "metadata": {"name": "a"}});
    let writes = vec![
        (APPLY, "fieldManager=x", loose),
        (
            MERGE,
            "fieldManager=y&fieldValidation=Strict",
            json!({"spec": {"x": 1}}),
        ),
    ];
    let answer = last_answer(&client, LOOSES, writes).await;
    let message = answer["message"].as_str().unwrap();
    let place = |field: &str| {
        message
            .find(field)
            .unwrap_or_else(|| panic!("{field}: {message}"))
    };
    assert!(
        place("creationTimestamp") < place("generation"),
        "{message}"
    );
    assert!(place("generation") < place("uid"), "{message}");
}

/// Strategic merge patches of lists inside of atomic lists change them, too.
#[tokio::test(start_paused = true)]
async fn a_list_inside_of_an_atomic_list_becomes_empty() {
    const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a", "labels": {"l": "1"}}});
    let (_cluster, client) = client().await;
    let writes = vec![
        (APPLY, "fieldManager=x", policy),
        (
            STRATEGIC,
            "fieldManager=y",
            json!({"spec": {"ingress": [{}]}}),
        ),
        (
            STRATEGIC,
            "fieldManager=z",
            json!({"spec": {"ingress": [{"ports": []}]}}),
        ),
    ];
    let expected = vec![
        ("/spec/ingress", json!([{}])),
        ("/metadata/managedFields/1/manager", json!("z")),
    ];
    check(&client, POLICIES, writes, expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_keeps_kind_and_version() {
    let cluster = DevCluster::new(clock());
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}});
    cluster.create(map).await.unwrap();
    let client = cluster.client();
    let nameless =
        "the name of the object (a based on URL) was undeterminable: name must be provided";
    let other = "the name of the object (b) does not match the name on the URL (a)";
    // (patch, values of the answer)
    let cases = [
        (
            json!({"kind": "Pod", "apiVersion": "v2"}),
            vec![("/kind", json!("ConfigMap")), ("/apiVersion", json!("v1"))],
        ),
        (json!({"kind": null}), vec![("/kind", json!("ConfigMap"))]),
        (
            json!({"$patch": "replace", "data": {}}),
            vec![("/message", json!(nameless))],
        ),
        (
            json!({"$patch": "delete"}),
            vec![("/message", json!(nameless))],
        ),
        (
            json!({"$patch": "replace", "metadata": {"name": "b"}}),
            vec![("/message", json!(other))],
        ),
        (
            json!({"$retainKeys": ["metadata", "data"], "data": {"b": "2"}}),
            vec![("/data", json!({"a": "1", "b": "2"}))],
        ),
        (
            json!({"$patch": "replace", "metadata": {"name": "a"}, "data": {"c": "3"}}),
            vec![("/data", json!({"c": "3"}))],
        ),
    ];
    for (patch, expected) in cases {
        check(&client, path, vec![(STRATEGIC, "", patch)], expected).await;
    }
}
