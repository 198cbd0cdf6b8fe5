//! MutatingAdmissionPolicies. All messages are those of kube-apiserver 1.36.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::hook::Hook;
use crate::support::{Answer, ask, clock, send};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A mutation with an ApplyConfiguration.
fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

/// A mutation with a JSON patch.
fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A policy for ConfigMaps and Deployments, with other fields of its `spec`.
fn policy(name: &str, mutations: Value, rest: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["", "apps"], "apiVersions": ["v1"],
                "resources": ["configmaps", "deployments"], "operations": ["CREATE", "UPDATE"],
            }]},
            "reinvocationPolicy": "Never",
            "mutations": mutations,
        },
    });
    let spec = policy["spec"].as_object_mut().unwrap();
    spec.extend(rest.as_object().unwrap().clone());
    policy
}

fn binding(policy: &str, rest: Value) -> Value {
    let mut binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": format!("{policy}-b")},
        "spec": {"policyName": policy},
    });
    let spec = binding["spec"].as_object_mut().unwrap();
    spec.extend(rest.as_object().unwrap().clone());
    binding
}

/// A cluster with these policies, each with a binding.
async fn with(policies: impl IntoIterator<Item = Value>) -> DevCluster {
    let cluster = DevCluster::new(clock());
    for policy in policies {
        let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.create(policy).await.unwrap();
        cluster.create(binding(&name, json!({}))).await.unwrap();
    }
    cluster
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}})
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "x", "value": "1"}]}]},
            },
        },
    })
}

/// The answer to the creation of a ConfigMap under policies with these mutations.
async fn created(policies: impl IntoIterator<Item = Value>) -> Answer {
    send(&with(policies).await, "POST", CONFIG_MAPS, &config_map()).await
}

/// The code and message of the same answer.
async fn created_message(policies: impl IntoIterator<Item = Value>) -> (u16, String) {
    let answer = created(policies).await;
    let message = answer.body["message"].as_str().unwrap_or_default();
    (answer.code, message.to_owned())
}

/// The labels and the data of a ConfigMap that this mutation changed.
async fn mutated(mutation: Value) -> (Value, Value) {
    let answer = created([policy("p", json!([mutation]), json!({}))]).await;
    assert_eq!(answer.code, 201, "{mutation}: {}", answer.body);
    let labels = answer.body["metadata"]["labels"].clone();
    (labels, answer.body["data"].clone())
}

#[tokio::test(start_paused = true)]
async fn configurations_and_patches_change_new_objects() {
    let labels = json!({"a": "b"});
    let same = json!({"x": "1"});
    let cases = [
        (
            apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
            labels.clone(),
            same.clone(),
        ),
        (
            apply("Object{data: {'n': string(object.data.size())}}"),
            Value::Null,
            json!({"x": "1", "n": "1"}),
        ),
        (
            apply(
                "Object{?data: optional.none(), metadata: Object.metadata{?labels: optional.of({'a': 'b'})}}",
            ),
            labels.clone(),
            same.clone(),
        ),
        (
            patch("[JSONPatch{op: 'add', path: '/data/k', value: 'v'}]"),
            Value::Null,
            json!({"x": "1", "k": "v"}),
        ),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'v'}]",
            ),
            json!({"a.b/c": "v"}),
            same.clone(),
        ),
        (
            patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{a: 'b'}}]",
            ),
            labels.clone(),
            same.clone(),
        ),
        // A failed test leaves the object unchanged.
        (
            patch(
                "[JSONPatch{op: 'test', path: '/data/x', value: '2'}, JSONPatch{op: 'add', path: '/data/k', value: 'v'}]",
            ),
            Value::Null,
            same.clone(),
        ),
        // Constructed objects have fields.
        (
            patch(
                "[JSONPatch{op: 'add', path: '/data', value: {'a': JSONPatch{op: 'x'}.op, 'b': string(has(JSONPatch{}.op)), 'c': JSONPatch{}.path, 'd': string(Object{a: 'y'}.a), 'e': string(Object{a: 1} == Object{a: 1})}}]",
            ),
            Value::Null,
            json!({"a": "x", "b": "false", "c": "", "d": "y", "e": "true"}),
        ),
    ];
    for (mutation, labels, data) in cases {
        assert_eq!(
            mutated(mutation.clone()).await,
            (labels, data),
            "{mutation}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failed_mutations_refuse_the_request() {
    let labels = "Object{metadata: Object.meta{labels: {'a': 'b'}}}";
    let failing = "Object{data: {'k': object.data.zzz}}";
    let cases = [
        (
            apply(failing),
            format!("expression '{failing}' resulted in error: no such key: zzz"),
        ),
        (
            apply("Object{foo: 1}"),
            "error applying patch: failed to convert patch object to typed object: .foo: field not declared in schema".to_owned(),
        ),
        (
            apply(labels),
            "type mismatch: unexpected type name \"Object.meta\", expected \"Object.metadata\", which matches field name path from root Object type".to_owned(),
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/nope'}]"),
            "JSON Patch: error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value".to_owned(),
        ),
        (
            patch("[JSONPatch{op: 'foo', path: '/data', value: 5}]"),
            "JSON Patch: Unexpected kind: foo".to_owned(),
        ),
    ];
    for (mutation, why) in cases {
        let refused = created([policy("p", json!([mutation]), json!({}))]).await;
        let message = format!("policy 'p' with binding 'p-b' denied request: {why}");
        let status = &refused.body;
        assert_eq!(
            (refused.code, &status["reason"], &status["message"]),
            (403, &json!("Invalid"), &json!(message))
        );
        assert_eq!(status["details"]["causes"], json!([{"message": message}]));

        let ignoring = json!({"failurePolicy": "Ignore"});
        let ignored = created([policy("p", json!([mutation]), ignoring)]).await;
        assert_eq!(
            (ignored.code, &ignored.body["data"]),
            (201, &json!({"x": "1"}))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_with_unknown_fields_is_an_internal_error() {
    let mutation = patch("[JSONPatch{op: 'add', path: '/foo', value: 'v'}]");
    let ignoring = json!({"failurePolicy": "Ignore"});
    let refused = created([policy("p", json!([mutation]), ignoring)]).await;
    let message = "Internal error occurred: strict decoding error: unknown field \"foo\"";
    assert_eq!(
        (refused.code, &refused.body["message"]),
        (500, &json!(message))
    );
}

#[tokio::test(start_paused = true)]
async fn configurations_merge_by_keys_and_cannot_replace_atomic_parts() {
    let container = |fields: &str| {
        format!(
            "Object{{spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [Object.spec.template.spec.containers{{name: 'c', {fields}}}]}}}}}}}}"
        )
    };
    let env = container("env: [Object.spec.template.spec.containers.env{name: 'e', value: 'v'}]");
    let cluster = with([policy("p", json!([apply(&env)]), json!({}))]).await;
    let created = send(&cluster, "POST", DEPLOYMENTS, &deployment()).await;
    let containers = &created.body["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (&containers[0]["image"], &containers[0]["env"]),
        (
            &json!("i"),
            &json!([{"name": "x", "value": "1"}, {"name": "e", "value": "v"}])
        )
    );

    let atomics = [
        (
            "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'l': 'v'}}}}"
                .to_owned(),
            ".spec.selector",
        ),
        (
            container("args: ['x']"),
            ".spec.template.spec.containers[0].args",
        ),
    ];
    for (expression, path) in atomics {
        let cluster = with([policy("p", json!([apply(&expression)]), json!({}))]).await;
        let refused = send(&cluster, "POST", DEPLOYMENTS, &deployment()).await;
        let message = format!(
            "policy 'p' with binding 'p-b' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {path}"
        );
        assert_eq!(refused.body["message"], json!(message));
    }
}

#[tokio::test(start_paused = true)]
async fn mutations_see_earlier_ones_and_selectors_do_not() {
    let label = policy(
        "p1",
        json!([apply(
            "Object{metadata: Object.metadata{labels: {'env': 'prod'}}}"
        )]),
        json!({}),
    );
    let conditions = json!({"matchConditions": [
        {"name": "c", "expression": "object.?metadata.labels['env'].orValue('') == 'prod'"},
    ]});
    let on_label = |rest| policy("p2", json!([apply("Object{data: {'prod': 'yes'}}")]), rest);
    let answer = created([label.clone(), on_label(conditions)]).await;
    assert_eq!(answer.body["data"], json!({"x": "1", "prod": "yes"}));

    let cluster = with([label]).await;
    cluster.create(on_label(json!({}))).await.unwrap();
    let resources = json!({"matchResources": {"objectSelector": {"matchLabels": {"env": "prod"}}}});
    cluster.create(binding("p2", resources)).await.unwrap();
    let answer = send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
    assert_eq!(answer.body["data"], json!({"x": "1"}));

    let variables =
        json!({"variables": [{"name": "n", "expression": "string(object.data.size())"}]});
    let twice = json!([
        apply("Object{data: {'k': variables.n}}"),
        patch("[JSONPatch{op: 'add', path: '/data/l', value: variables.n}]"),
    ]);
    let answer = created([policy("p", twice, variables)]).await;
    assert_eq!(answer.body["data"], json!({"x": "1", "k": "1", "l": "2"}));
}

/// Counts its own calls in `data.n`.
const COUNT: &str =
    "[JSONPatch{op: 'add', path: '/data/n', value: string(int(object.?data.?n.orValue('0')) + 1)}]";

#[tokio::test(start_paused = true)]
async fn policies_are_invoked_again_after_changes_if_they_ask_for_it() {
    let count = |reinvocation: &str| {
        policy(
            "p1",
            json!([patch(COUNT)]),
            json!({"reinvocationPolicy": reinvocation}),
        )
    };
    let later = || policy("p2", json!([apply("Object{data: {'z': '1'}}")]), json!({}));
    for (policies, calls) in [
        (vec![count("Never"), later()], "1"),
        (vec![count("IfNeeded"), later()], "2"),
        (vec![count("IfNeeded")], "2"),
    ] {
        assert_eq!(created(policies).await.body["data"]["n"], calls);
    }
}

#[tokio::test]
async fn a_webhook_sees_the_changes_of_policies_and_causes_another_round() {
    let hook = Hook::start(|review| {
        let operations = json!([{"op": "add", "path": "/data/hook", "value": "1"}]);
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
            "patch": STANDARD.encode(operations.to_string()),
        }})
    })
    .await;
    let cluster = with([policy(
        "p",
        json!([patch(COUNT)]),
        json!({"reinvocationPolicy": "IfNeeded"}),
    )])
    .await;
    cluster
        .create(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "c"},
            "webhooks": [{
                "name": "h.ex.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": hook.client(),
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            }],
        }))
        .await
        .unwrap();
    let created = send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
    assert_eq!(
        created.body["data"],
        json!({"x": "1", "n": "2", "hook": "1"})
    );
    let seen = hook.requests();
    assert_eq!(
        seen.iter()
            .map(|request| &request["object"]["data"])
            .collect::<Vec<_>>(),
        [&json!({"x": "1", "n": "1"})]
    );
}

#[tokio::test(start_paused = true)]
async fn updates_patches_and_applies_are_mutated_and_deletions_are_not() {
    let cluster = with([policy(
        "p",
        json!([apply("Object{data: {'z': request.operation}}")]),
        json!({}),
    )])
    .await;
    let one = format!("{CONFIG_MAPS}/a");
    send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
    let changed = send(&cluster, "PUT", &one, &config_map()).await;
    assert_eq!(changed.body["data"], json!({"x": "1", "z": "UPDATE"}));
    let requests = [
        (
            "application/merge-patch+json",
            "",
            json!({"data": {"z": "mine"}}),
        ),
        (
            "application/apply-patch+yaml",
            "?fieldManager=f&force=true",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"z": "applied"}}),
        ),
    ];
    for (content_type, query, body) in requests {
        let path = format!("{one}{query}");
        let body = body.to_string();
        let changed = ask(
            &cluster.client(),
            "PATCH",
            &path,
            content_type,
            body.as_bytes(),
        )
        .await;
        assert_eq!(changed.body["data"]["z"], "UPDATE", "{}", changed.body);
    }
    assert_eq!(send(&cluster, "DELETE", &one, &json!({})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn policies_can_rename_new_objects_and_cannot_move_objects() {
    let metadata = |fields: &str| {
        let expression = format!("Object{{metadata: Object.metadata{{{fields}}}}}");
        policy("p", json!([apply(&expression)]), json!({}))
    };
    let cluster = with([metadata("name: 'other'")]).await;
    let created = send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
    assert_eq!(created.body["metadata"]["name"], "other");
    let other = format!("{CONFIG_MAPS}/other");
    assert_eq!(send(&cluster, "GET", &other, &json!({})).await.code, 200);

    let refused = created_message([metadata("namespace: 'other'")]).await;
    let namespace =
        "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(refused, (400, namespace.to_owned()));

    let modified = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    let immutable =
        "ConfigMap \"zz\" is invalid: metadata.name: Invalid value: \"zz\": field is immutable";
    let cases = [
        ("namespace: 'other'", 400, namespace),
        ("resourceVersion: '5'", 409, modified),
        ("name: 'zz'", 422, immutable),
    ];
    for (fields, code, message) in cases {
        let cluster = with([]).await;
        send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
        cluster.create(metadata(fields)).await.unwrap();
        cluster.create(binding("p", json!({}))).await.unwrap();
        let one = format!("{CONFIG_MAPS}/a");
        let refused = send(&cluster, "PUT", &one, &config_map()).await;
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (code, &json!(message))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_come_from_the_object_that_the_binding_names() {
    let cluster = DevCluster::new(clock());
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let mutations = json!([apply("Object{data: {'z': params.data.v}}")]);
    let mut param = config_map();
    param["metadata"] = json!({"name": "param", "namespace": "default"});
    param["data"] = json!({"v": "param"});
    cluster.create(param).await.unwrap();
    cluster.create(policy("p", mutations, kind)).await.unwrap();
    let reference =
        |name: &str| json!({"paramRef": {"name": name, "parameterNotFoundAction": "Deny"}});
    cluster
        .create(binding("p", reference("param")))
        .await
        .unwrap();
    let created = send(&cluster, "POST", CONFIG_MAPS, &config_map()).await;
    assert_eq!(created.body["data"]["z"], "param");

    let path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/p-b";
    send(&cluster, "DELETE", path, &json!({})).await;
    cluster
        .create(binding("p", reference("missing")))
        .await
        .unwrap();
    let one = format!("{CONFIG_MAPS}/a");
    let refused = send(&cluster, "PUT", &one, &config_map()).await;
    let message = "policy 'p' with binding 'p-b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(
        (
            refused.code,
            &refused.body["reason"],
            &refused.body["message"]
        ),
        (403, &json!("Forbidden"), &json!(message))
    );
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_mutated_by_their_schema() {
    let cluster = with([]).await;
    let object = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "kind": {"type": "string", "default": "small"},
        }},
    }});
    cluster
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.ex.com"},
            "spec": {
                "group": "ex.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": object}}],
            },
        }))
        .await
        .unwrap();
    let rules = json!({"matchConstraints": {"resourceRules": [{
        "apiGroups": ["ex.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"],
    }]}});
    let mutations = json!([apply(
        "Object{metadata: Object.metadata{finalizers: ['ex.com/b']}, spec: Object.spec{size: 3}}"
    )]);
    cluster.create(policy("p", mutations, rules)).await.unwrap();
    cluster.create(binding("p", json!({}))).await.unwrap();
    let thing = json!({"apiVersion": "ex.com/v1", "kind": "Thing", "metadata": {"name": "t", "finalizers": ["ex.com/a"]}});
    let path = "/apis/ex.com/v1/namespaces/default/things";
    let created = send(&cluster, "POST", path, &thing).await;
    assert_eq!(created.body["spec"], json!({"size": 3, "kind": "small"}));
    assert_eq!(
        created.body["metadata"]["finalizers"],
        json!(["ex.com/a", "ex.com/b"])
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_mutations_are_refused() {
    let undeclared = |name: &str, column: usize| {
        format!(
            "compilation failed: ERROR: <input>:1:{column}: undeclared reference to '{name}' (in container '')"
        )
    };
    let cases = [
        (apply("'x'"), "must evaluate to Object but got string".to_owned()),
        (
            apply("Object.spec{}"),
            "must evaluate to Object but got Object.spec".to_owned(),
        ),
        (apply("Invalid{}"), undeclared("Invalid", 8)),
        (
            patch("Object{}"),
            "must evaluate to list(JSONPatch) but got Object".to_owned(),
        ),
        (
            patch("[JSONPatch{op: 1}]"),
            "compilation failed: ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'".to_owned(),
        ),
    ];
    let cluster = DevCluster::new(clock());
    for (mutation, why) in cases {
        let refused = cluster
            .create(policy("p", json!([mutation]), json!({})))
            .await
            .unwrap_err();
        assert!(refused.message.contains(&why), "{}", refused.message);
    }
    let variables = json!({"variables": [{"name": "v", "expression": "Object{}"}]});
    let refused = cluster.create(policy("p", json!([apply("Object{}")]), variables));
    let refused = refused.await.unwrap_err();
    assert!(
        refused.message.contains(&undeclared("Object", 7)),
        "{}",
        refused.message
    );
}
