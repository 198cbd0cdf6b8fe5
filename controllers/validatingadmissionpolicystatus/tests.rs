//! Whole syncs against the in-memory API server, under paused time.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_devcluster::status::Status;
use steersman_releases::Release;

use super::DESCRIPTOR;
use crate::testing::world::World;

const POLICIES: &str = "validatingadmissionpolicies";

/// A policy about the resources of one group.
fn policy(group: &str, resources: &[&str], expressions: &[&str]) -> Value {
    let validations: Vec<Value> = expressions
        .iter()
        .map(|expression| json!({"expression": expression}))
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"],
                "resources": resources,
            }]},
            "validations": validations,
        },
    })
}

impl World {
    async fn checked() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    fn policy_path(&self) -> String {
        self.cluster.path(POLICIES, "", "p")
    }

    /// The status of the policy after all retries.
    async fn policy_status(&self) -> Value {
        self.a_minute().await;
        let policy = self.cluster.get(&self.policy_path()).await.unwrap();
        policy["status"].clone()
    }

    /// Paths and texts of the warnings of a new policy.
    async fn warnings_of(&self, policy: Value) -> Vec<(String, String)> {
        self.create(policy).await;
        let status = self.policy_status().await;
        assert_eq!(status["observedGeneration"], 1);
        let warnings = status["typeChecking"]["expressionWarnings"].as_array();
        let text = |warning: &Value, field: &str| warning[field].as_str().unwrap().to_owned();
        warnings
            .into_iter()
            .flatten()
            .map(|warning| (text(warning, "fieldRef"), text(warning, "warning")))
            .collect()
    }
}

/// Upstream: `TestTypeChecking`.
#[tokio::test(start_paused = true)]
async fn type_checking() {
    let overload = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";
    let both = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1' && object.spec.nonExisting == 1\n | .....................^\nERROR: <input>:1:42: undefined field 'nonExisting'\n | object.spec.replicas > '1' && object.spec.nonExisting == 1\n | .........................................^\n";
    let field = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'nonExistingFirst'\n | object.spec.nonExistingFirst > 1\n | ...........^\n";
    // (case, expressions, warnings)
    #[allow(clippy::type_complexity, reason = "a table of cases")]
    let cases: [(&str, &[&str], &[(usize, &str)]); 4] = [
        (
            "deployment with correct expression",
            &["object.spec.replicas > 1"],
            &[],
        ),
        (
            "deployment with type confusion",
            &["object.spec.replicas < 100", "object.spec.replicas > '1'"],
            &[(1, overload)],
        ),
        (
            "two expressions different type checking errors",
            &[
                "object.spec.nonExistingFirst > 1",
                "object.spec.replicas > '1'",
            ],
            &[(0, field), (1, overload)],
        ),
        (
            "one expression, two warnings",
            &[
                "object.spec.replicas < 100",
                "object.spec.replicas > '1' && object.spec.nonExisting == 1",
            ],
            &[(1, both)],
        ),
    ];
    for (case, expressions, expected) in cases {
        let world = World::checked().await;
        let policy = policy("apps", &["deployments"], expressions);
        let found = world.warnings_of(policy).await;
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(index, warning)| {
                (
                    format!("spec.validations[{index}].expression"),
                    (*warning).to_owned(),
                )
            })
            .collect();
        assert_eq!(found, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_checked_once_per_generation() {
    let world = World::checked().await;
    let found = world
        .warnings_of(policy("apps", &["deployments"], &["object.spec.no == 1"]))
        .await;
    assert_eq!(found.len(), 1);
    let path = world.policy_path();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.cluster.patch(&path, label).await.unwrap();
    assert_eq!(world.policy_status().await["observedGeneration"], 1);
    let fixed = json!({"spec": {"validations": [{"expression": "object.spec.replicas == 1"}]}});
    world.cluster.patch(&path, fixed).await.unwrap();
    let status = world.policy_status().await;
    assert_eq!(status["observedGeneration"], 2);
    assert!(status["typeChecking"]["expressionWarnings"].is_null());
    let requests = world.requests_of(DESCRIPTOR.identity);
    let of = |part: &str| requests.iter().filter(|line| line.contains(part)).count();
    assert_eq!(of("patch"), 2, "{requests:#?}");
    assert_eq!(
        of("/openapi/v3/"),
        1,
        "the schema is read once: {requests:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn policies_without_known_kinds_have_no_warnings() {
    for (group, resources) in [
        ("*", &["deployments"][..]),
        ("apps", &["*", "deployments/scale"]),
        ("shop.io", &["carts"]),
    ] {
        let world = World::checked().await;
        let found = world
            .warnings_of(policy(group, resources, &["object.spec.no == 1"]))
            .await;
        assert!(found.is_empty(), "{group}: {found:?}");
        let requests = world.requests_of(DESCRIPTOR.identity);
        assert!(
            !requests.iter().any(|line| line.contains("/openapi")),
            "{requests:#?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_and_custom_kinds_have_types() {
    let world = World::checked().await;
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"size": {"type": "integer"}},
    }}});
    world
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "carts.shop.io"},
            "spec": {
                "group": "shop.io", "scope": "Namespaced",
                "names": {"kind": "Cart", "plural": "carts", "singular": "cart", "listKind": "CartList"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        }))
        .await;
    let expressions = [
        "object.spec.size == 1 && object.metadata.namespace == 'a'",
        "object.spec.size == params.data['size']",
        "object.spec.colour == params.binaryData['colour']",
    ];
    let mut policy = policy("shop.io", &["carts"], &expressions);
    policy["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let found = world.warnings_of(policy).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].1.contains("applied to '(int, string)'"),
        "{}",
        found[0].1
    );
    assert!(found[1].1.contains("undefined field 'colour'"));
    assert!(found[1].1.starts_with("shop.io/v1, Kind=Cart: "));
}

/// Upstream: `hasParams` in `typechecking.go`.
#[tokio::test(start_paused = true)]
async fn parameters_without_a_schema_are_undeclared_up_to_1_35() {
    for (minor, warnings) in [(34, 1), (35, 1), (36, 0), (37, 0)] {
        let mut world = World::bare().await;
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.release = Release::of_minor(minor);
                context
            })
            .await;
        let mut policy = policy("apps", &["deployments"], &["params.limit == 1"]);
        policy["spec"]["paramKind"] = json!({"apiVersion": "shop.io/v1", "kind": "Limit"});
        let found = world.warnings_of(policy).await;
        assert_eq!(found.len(), warnings, "1.{minor}: {found:?}");
        for (_, text) in found {
            assert!(text.contains("undeclared reference to 'params'"), "{text}");
        }
    }
}

/// A stale result would hide the warnings of a policy that replaces the checked one.
#[tokio::test(start_paused = true)]
async fn a_recreated_policy_gets_a_result_of_its_own() {
    let world = World::checked().await;
    let status = Matcher {
        subresource: Some("status".to_owned()),
        ..Matcher::new("patch", POLICIES)
    };
    world
        .cluster
        .faults()
        .reject(status, internal_error(), Some(3));
    let wrong = policy("apps", &["deployments"], &["object.spec.no == 1"]);
    world.create(wrong.clone()).await;
    world.cluster.delete(&world.policy_path()).await.unwrap();
    let found = world.warnings_of(wrong).await;
    assert_eq!(found.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_reads_are_repeated_and_refused_ones_are_not() {
    for (failure, warnings) in [
        (internal_error(), 1),
        (Status::new(403, "Forbidden", "no schemas"), 0),
    ] {
        let world = World::checked().await;
        let schemas = Matcher {
            name: Some("/openapi/v3".to_owned()),
            ..Matcher::discovery()
        };
        world
            .cluster
            .faults()
            .reject(schemas, failure.clone(), Some(2));
        let found = world
            .warnings_of(policy("apps", &["deployments"], &["object.spec.no == 1"]))
            .await;
        assert_eq!(found.len(), warnings, "{failure:?}");
    }
}

/// The recorded policies, with their statuses in a cluster of 1.36.2. `testdata/README.md` tells how
/// they were made.
#[tokio::test(start_paused = true)]
async fn warnings_equal_recorded_ones() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/validatingadmissionpolicystatus/testdata/policies.json"
    );
    let recorded: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let world = World::checked().await;
    for case in &recorded {
        world
            .create(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": case["name"]}, "spec": case["spec"],
            }))
            .await;
    }
    world.a_minute().await;
    let mut differences = Vec::new();
    for case in &recorded {
        let name = case["name"].as_str().unwrap();
        let path = world.cluster.path(POLICIES, "", name);
        let status = world.cluster.get(&path).await.unwrap()["status"].clone();
        assert_eq!(status["observedGeneration"], 1, "{name}");
        let warnings = |status: &Value| {
            let list = status["typeChecking"]["expressionWarnings"].as_array();
            list.cloned().unwrap_or_default()
        };
        let found = warnings(&status);
        let expected = warnings(&case["status"]);
        if found != expected {
            differences.push(format!("{name}: {found:#?} instead of {expected:#?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
