//! ValidatingAdmissionPolicies. All messages are those of kube-apiserver 1.36.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{clock, send};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn policy(validations: Value, rest: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }]},
            "validations": validations,
        },
    });
    let spec = policy["spec"].as_object_mut().unwrap();
    spec.extend(rest.as_object().unwrap().clone());
    policy
}

fn binding(rest: Value) -> Value {
    let mut binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    let spec = binding["spec"].as_object_mut().unwrap();
    spec.extend(rest.as_object().unwrap().clone());
    binding
}

async fn with(policy: Value, binding: Value) -> DevCluster {
    let cluster = DevCluster::new(clock());
    cluster.create(policy).await.unwrap();
    cluster.create(binding).await.unwrap();
    cluster
}

fn config_map(name: &str, labels: Value, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data})
}

/// The code, and the message after the words that all refusals share.
async fn create(cluster: &DevCluster, name: &str, data: Value) -> (u16, String) {
    let answer = send(
        cluster,
        "POST",
        CONFIG_MAPS,
        &config_map(name, json!({}), data),
    )
    .await;
    let message = answer.body["message"].as_str().unwrap_or_default();
    let start = format!(
        "configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
    );
    (
        answer.code,
        message.strip_prefix(&start).unwrap_or(message).to_owned(),
    )
}

fn refusal(code: u16, why: &str) -> (u16, String) {
    (code, why.to_owned())
}

const CREATED: u16 = 201;

#[tokio::test(start_paused = true)]
async fn requests_that_violate_a_policy_are_refused() {
    let validations = json!([
        {"expression": "oldObject != null || object.data.a == 'x'", "message": "a must be x", "reason": "Forbidden"},
        {"expression": "object == null || object.metadata.name != 'b'", "messageExpression": "'name is ' + object.metadata.name"},
    ]);
    let cluster = with(policy(validations, json!({})), binding(json!({}))).await;
    assert_eq!(
        create(&cluster, "a", json!({"a": "y"})).await,
        refusal(403, "a must be x")
    );
    assert_eq!(
        create(&cluster, "b", json!({"a": "x"})).await,
        refusal(422, "name is b")
    );
    let why =
        "expression 'oldObject != null || object.data.a == 'x'' resulted in error: no such key: a";
    assert_eq!(
        create(&cluster, "c", json!({"b": "x"})).await,
        refusal(422, why)
    );
    assert_eq!(create(&cluster, "d", json!({"a": "x"})).await.0, CREATED);

    let answer = send(
        &cluster,
        "POST",
        CONFIG_MAPS,
        &config_map("a", json!({}), json!({"a": "y"})),
    )
    .await;
    let message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a must be x";
    assert_eq!(
        (
            answer.body["reason"].as_str(),
            &answer.body["details"]["causes"]
        ),
        (Some("Forbidden"), &json!([{"message": message}]))
    );
}

#[tokio::test(start_paused = true)]
async fn updates_and_deletions_match_by_operation() {
    let validations =
        json!([{"expression": "request.operation != 'DELETE' && object.data.a != 'z'"}]);
    let cluster = with(policy(validations, json!({})), binding(json!({}))).await;
    assert_eq!(create(&cluster, "a", json!({"a": "x"})).await.0, CREATED);
    let one = format!("{CONFIG_MAPS}/a");
    let changed = send(
        &cluster,
        "PUT",
        &one,
        &config_map("a", json!({}), json!({"a": "z"})),
    )
    .await;
    assert_eq!(changed.code, 422);
    let deleted = send(&cluster, "DELETE", &one, &json!({})).await;
    assert_eq!(deleted.code, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/b");
    assert_eq!(send(&cluster, "DELETE", &path, &json!({})).await.code, 200);
    assert_eq!(send(&cluster, "DELETE", &one, &json!({})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_binding_can_warn_in_place_of_a_refusal() {
    let validations = json!([{"expression": "object.data.a == 'x'", "message": "a must be x"}]);
    let actions = json!({"validationActions": ["Warn", "Audit"]});
    let cluster = with(policy(validations, json!({})), binding(actions)).await;
    let answer = send(
        &cluster,
        "POST",
        CONFIG_MAPS,
        &config_map("a", json!({}), json!({"a": "y"})),
    )
    .await;
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': a must be x";
    assert_eq!(
        (answer.code, answer.warnings),
        (CREATED, vec![warning.to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn failures_of_expressions_follow_the_failure_policy() {
    let validations = json!([{"expression": "object.data.zzz == 'x'"}]);
    let ignoring = policy(validations, json!({"failurePolicy": "Ignore"}));
    let cluster = with(ignoring, binding(json!({}))).await;
    assert_eq!(create(&cluster, "a", json!({"a": "y"})).await.0, CREATED);

    let conditions = json!({"matchConditions": [{"name": "c", "expression": "object.zz == 1"}]});
    let failing = policy(json!([{"expression": "true"}]), conditions);
    let cluster = with(failing, binding(json!({}))).await;
    let why = "expression 'object.zz == 1' resulted in error: no such key: zz";
    assert_eq!(
        create(&cluster, "a", json!({"a": "y"})).await,
        refusal(422, why)
    );
}

#[tokio::test(start_paused = true)]
async fn variables_and_match_conditions_are_evaluated_on_demand() {
    let rest = json!({
        "variables": [{"name": "a", "expression": "object.data.a"}, {"name": "b", "expression": "variables.a.startsWith('x')"}],
        "matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE' && request.name != 'skip' && request.userInfo.username != 'x'"}],
    });
    let validations = json!([{"expression": "variables.a.size() > 3 && variables.b", "messageExpression": "variables.a + '!'"}]);
    let cluster = with(policy(validations, rest), binding(json!({}))).await;
    assert_eq!(
        create(&cluster, "a", json!({"a": "y"})).await,
        refusal(422, "y!")
    );
    assert_eq!(create(&cluster, "skip", json!({})).await.0, CREATED);
    assert_eq!(
        create(&cluster, "ok", json!({"a": "xyzz"})).await.0,
        CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_of_the_binding_limit_the_requests() {
    let validations = json!([{"expression": "namespaceObject.metadata.name == 'x' || request.dryRun", "message": "ns"}]);
    let resources = json!({"matchResources": {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "objectSelector": {"matchLabels": {"check": "yes"}},
    }});
    let cluster = with(policy(validations, json!({})), binding(resources)).await;
    assert_eq!(create(&cluster, "a", json!({})).await.0, CREATED);
    let labelled = config_map("b", json!({"check": "yes"}), json!({}));
    assert_eq!(
        send(&cluster, "POST", CONFIG_MAPS, &labelled).await.code,
        422
    );
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(send(&cluster, "POST", &dry, &labelled).await.code, CREATED);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(
        send(&cluster, "POST", elsewhere, &labelled).await.code,
        CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn parameters_come_from_the_object_that_the_binding_names() {
    let validations = json!([{"expression": "object.metadata.name == 'limits' || object.data.a == params.data.want", "messageExpression": "'want ' + params.data.want"}]);
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let reference = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let cluster = DevCluster::new(clock());
    cluster.create(policy(validations, kind)).await.unwrap();
    let mut limits = config_map("limits", json!({}), json!({"want": "z"}));
    limits["metadata"]["namespace"] = json!("default");
    let limited = cluster.create(limits).await;
    assert!(limited.is_ok());
    cluster.create(binding(reference)).await.unwrap();
    assert_eq!(
        create(&cluster, "a", json!({"a": "y"})).await,
        refusal(422, "want z")
    );
    assert_eq!(create(&cluster, "b", json!({"a": "z"})).await.0, CREATED);

    let path = format!("{GROUP}/validatingadmissionpolicybindings/b");
    assert_eq!(send(&cluster, "DELETE", &path, &json!({})).await.code, 200);
    let missing = json!({"paramRef": {"name": "other", "parameterNotFoundAction": "Deny"}});
    cluster.create(binding(missing)).await.unwrap();
    let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(
        create(&cluster, "c", json!({"a": "z"})).await,
        refusal(422, why)
    );
}

#[tokio::test(start_paused = true)]
async fn expressions_can_review_access() {
    let validations = json!([
        {"expression": "authorizer.requestResource.check('create').allowed()"},
        {"expression": "!authorizer.serviceAccount('default', 'x').group('').resource('secrets').namespace('default').check('get').allowed()"},
    ]);
    let cluster = with(policy(validations, json!({})), binding(json!({}))).await;
    assert_eq!(create(&cluster, "a", json!({})).await.0, CREATED);

    let thrice = "authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed() && authorizer.path('/c').check('get').allowed()";
    let cluster = with(
        policy(json!([{"expression": thrice}]), json!({})),
        binding(json!({})),
    )
    .await;
    let why = format!(
        "expression '{thrice}' resulted in error: operation cancelled: actual cost limit exceeded"
    );
    assert_eq!(create(&cluster, "a", json!({})).await, refusal(422, &why));
}

#[tokio::test(start_paused = true)]
async fn wrong_policies_and_bindings_are_refused() {
    let one = |expression: &str| json!([{"expression": expression}]);
    let policies = [
        (
            policy(one("'a'"), json!({})),
            "spec.validations[0].expression: Invalid value: \"'a'\": must evaluate to bool but got string",
        ),
        (
            policy(one("params.x == 1"), json!({})),
            "spec.validations[0].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
        ),
        (
            policy(
                json!([{"expression": "true", "messageExpression": "1"}]),
                json!({}),
            ),
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
        ),
        (
            policy(json!([{"expression": "true", "reason": "X"}]), json!({})),
            "spec.validations[0].reason: Unsupported value: \"X\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ),
        (
            policy(
                one("variables.b"),
                json!({"variables": [{"name": "a", "expression": "1"}]}),
            ),
            "spec.validations[0].expression: Invalid value: \"variables.b\": compilation failed: ERROR: <input>:1:10: undefined field 'b'\n | variables.b\n | .........^",
        ),
        (
            policy(one("request.foo == 1"), json!({})),
            "spec.validations[0].expression: Invalid value: \"request.foo == 1\": compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == 1\n | .......^",
        ),
        (
            policy(
                one("true"),
                json!({"variables": [{"name": "a-b", "expression": "1"}]}),
            ),
            "spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier",
        ),
        (
            policy(
                one("true"),
                json!({"matchConditions": [{"name": "x", "expression": "1"}]}),
            ),
            "spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            policy(one("true"), json!({"matchConstraints": {}})),
            "spec.matchConstraints.resourceRules: Required value",
        ),
        (
            policy(
                json!([]),
                json!({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}),
            ),
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
        ),
        (
            policy(one(""), json!({})),
            "spec.validations[0].expression: Required value: expression is not specified",
        ),
        (
            policy(one("true"), json!({"failurePolicy": "X"})),
            "spec.failurePolicy: Unsupported value: \"X\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            policy(json!([]), json!({})),
            "[spec.validations: Required value: validations or auditAnnotations must contain at least one item, spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item]",
        ),
        (
            policy(
                one("true"),
                json!({"matchConstraints": {"resourceRules": [{"operations": ["FOO"], "apiGroups": ["*", "a"], "apiVersions": [], "resources": ["*", "a"]}]}}),
            ),
            "[spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: \"FOO\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\", spec.matchConstraints.resourceRules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API groups, spec.matchConstraints.resourceRules[0].apiVersions: Required value, spec.matchConstraints.resourceRules[0].resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other resources without subresources]",
        ),
    ];
    let bindings = [
        (
            binding(json!({"validationActions": ["Deny", "Warn"]})),
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ),
        (
            binding(json!({"policyName": "", "validationActions": []})),
            "[spec.policyName: Required value, spec.validationActions: Required value: at least one validation action is required]",
        ),
        (
            binding(json!({"validationActions": ["X"], "paramRef": {"name": "x"}})),
            "[spec.paramRef.parameterNotFoundAction: Required value, spec.validationActions[0]: Unsupported value: \"X\": supported values: \"Audit\", \"Deny\", \"Warn\"]",
        ),
        (
            binding(json!({"paramRef": {"parameterNotFoundAction": "Deny"}})),
            "spec.paramRef: Required value: one of name or selector must be specified",
        ),
    ];
    let cluster = DevCluster::new(clock());
    for (object, problem) in policies.into_iter().chain(bindings) {
        let refused = cluster.create(object).await.unwrap_err();
        let (_, shown) = refused.message.split_once(" is invalid: ").unwrap();
        assert_eq!(shown, problem);
    }
}
