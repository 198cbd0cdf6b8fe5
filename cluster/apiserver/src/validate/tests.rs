use serde_json::json;

use super::*;
use crate::defaults;

/// Errors of a new object, as texts.
fn created(kind: &str, mut object: Value) -> Vec<String> {
    if object.get("metadata").is_none() {
        object["metadata"] = json!({"name": "x", "namespace": "n"});
    }
    defaults::on_create(Release::DEFAULT, kind, &mut object);
    create(Release::DEFAULT, kind, &object)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Errors of an update of `old` by `change`, as texts.
fn updated(
    kind: &str,
    subresource: Option<&str>,
    mut old: Value,
    change: impl Fn(&mut Value),
) -> Vec<String> {
    old["metadata"]["name"] = json!("x");
    defaults::apply(Release::DEFAULT, kind, &mut old);
    let mut new = old.clone();
    change(&mut new);
    defaults::apply(Release::DEFAULT, kind, &mut new);
    update(Release::DEFAULT, kind, subresource, &new, &old)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn workload(spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}});
    for (name, value) in spec.as_object().unwrap() {
        object["spec"][name] = value.clone();
    }
    object
}

fn pod() -> Value {
    json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "a"}]}})
}

#[test]
fn valid_objects_pass() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
        assert!(created(kind, workload(json!({}))).is_empty(), "{kind}");
        assert!(
            updated(
                kind,
                None,
                workload(json!({})),
                |new| new["metadata"]["labels"] = json!({"a": "b"})
            )
            .is_empty(),
            "{kind}"
        );
    }
    assert!(created("Pod", pod()).is_empty());
    assert!(created("Service", json!({"spec": {"ports": [{"port": 80}]}})).is_empty());
    let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "a"}]}}}});
    assert_eq!(created("Job", job), [""; 0]);
}

#[test]
fn names_follow_the_format_of_their_kind() {
    let error = |kind: &str, name: &str| {
        created(kind, json!({"metadata": {"name": name}}))
            .into_iter()
            .next()
    };
    assert_eq!(error("ConfigMap", "a.b"), None);
    assert_eq!(error("ClusterRole", "system:A"), None);
    let not_canonical =
        "metadata.name: Invalid value: \"fd00:0::7\": must be in canonical form (\"fd00::7\")";
    assert_eq!(
        error("IPAddress", "fd00:0::7").as_deref(),
        Some(not_canonical)
    );
    assert!(
        error("IPAddress", "fd00::x")
            .unwrap()
            .contains("must be a valid IP address")
    );
    let dots = "metadata.name: Invalid value: \"a.b\": must not contain dots";
    assert_eq!(error("Namespace", "a.b").as_deref(), Some(dots));
    let missing = "metadata.name: Required value: name or generateName is required";
    assert_eq!(error("ConfigMap", "").as_deref(), Some(missing));
    assert!(
        error("ConfigMap", "A")
            .unwrap()
            .contains("a lowercase RFC 1123 subdomain must consist of")
    );
}

#[test]
fn deployments_are_checked_in_order() {
    let with = |spec: Value| created("Deployment", workload(spec));
    // (spec, errors)
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"app\":\"d\"}: `selector` does not match template `labels`";
    let unavailable = "spec.strategy.rollingUpdate.maxUnavailable: Invalid value:";
    let cases = [
        (json!({"replicas": -1}), vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0".to_owned()]),
        (json!({"selector": null}), vec!["spec.selector: Required value".to_owned(), mismatch.to_owned()]),
        (json!({"selector": {}}), vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment".to_owned()]),
        (json!({"selector": {"matchLabels": {"x": "y"}}}), vec![mismatch.to_owned()]),
        (json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["d"]}]}}), vec![]),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
            vec![format!("{unavailable} \"0%\": may not be 0 when `maxSurge` is 0")],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}),
            vec![format!("{unavailable} \"101%\": must not be greater than 100%")],
        ),
        (
            json!({"strategy": {"type": "Foo"}}),
            vec![
                "spec.strategy: Unsupported value: {\"Type\":\"Foo\",\"RollingUpdate\":null}: supported values: \"Recreate\", \
                 \"RollingUpdate\""
                    .to_owned(),
            ],
        ),
        (
            json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
            vec!["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds".to_owned()],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(with(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn selectors_of_workloads_do_not_change() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        let errors = updated(kind, None, workload(json!({})), |new| {
            new["spec"]["selector"] = json!({"matchLabels": {"app": "z"}});
            new["spec"]["template"]["metadata"]["labels"] = json!({"app": "z"});
        });
        assert_eq!(
            errors,
            ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"z\"}}: field is immutable"],
            "{kind}"
        );
    }
    let errors = updated("StatefulSet", None, workload(json!({})), |new| {
        new["spec"]["serviceName"] = json!("z")
    });
    assert!(
        errors[0].starts_with(
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'"
        ),
        "{errors:?}"
    );
}

#[test]
fn status_counters_are_consistent() {
    let status = |status: Value| {
        updated("Deployment", Some("status"), workload(json!({})), |new| {
            new["status"] = status.clone()
        })
    };
    assert_eq!(
        status(json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1})),
        [""; 0]
    );
    assert_eq!(
        status(json!({"replicas": 1, "updatedReplicas": 2, "availableReplicas": 1})),
        [
            "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
        ]
    );
    let mut collided = workload(json!({}));
    collided["status"] = json!({"collisionCount": 2});
    let errors = updated("Deployment", Some("status"), collided, |new| {
        new["status"] = json!({"collisionCount": 1})
    });
    assert_eq!(
        errors,
        ["status.collisionCount: Invalid value: 1: cannot be decremented"]
    );
}

#[test]
fn most_of_a_pod_cannot_change() {
    let change = |change: fn(&mut Value)| updated("Pod", None, pod(), change).into_iter().next();
    assert_eq!(
        change(|new| new["spec"]["containers"][0]["image"] = json!("b")),
        None
    );
    assert_eq!(
        change(|new| new["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists"}])),
        None
    );
    assert_eq!(
        change(|new| new["spec"]["activeDeadlineSeconds"] = json!(5)),
        None
    );
    let fixed = change(|new| new["spec"]["restartPolicy"] = json!("Never")).unwrap();
    assert!(
        fixed.starts_with("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"),
        "{fixed}"
    );
    assert!(
        fixed.contains("- \"restartPolicy\": \"Always\"\n+ \"restartPolicy\": \"Never\"\n"),
        "{fixed}"
    );
    let added = change(|new| {
        new["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "d", "image": "a"}))
    });
    assert_eq!(
        added.as_deref(),
        Some("spec.containers: Forbidden: pod updates may not add or remove containers")
    );
}

#[test]
fn identity_in_the_metadata_cannot_change() {
    let errors = updated("Lease", None, json!({"metadata": {"uid": "a"}}), |new| {
        new["metadata"]["uid"] = json!("b")
    });
    assert_eq!(
        errors,
        ["metadata.uid: Invalid value: \"b\": field is immutable"; 2]
    );
    let terminating =
        json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    let errors = updated("ConfigMap", None, terminating, |new| {
        new["metadata"]["finalizers"] = json!(["a/b", "c/d"])
    });
    assert_eq!(
        errors[0],
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{\"c/d\"}"
    );
}

#[test]
fn small_kinds_are_validated() {
    // (kind, object, errors)
    let cases = [
        (
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "Service",
            json!({"spec": {"ports": []}}),
            "spec.ports: Required value",
        ),
        (
            "Service",
            json!({"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2}]}}),
            "spec.ports[1].name: Required value",
        ),
        (
            "Event",
            json!({}),
            "involvedObject.namespace: Invalid value: \"\": does not match event.namespace",
        ),
        (
            "Node",
            json!({"spec": {"taints": [{"key": "k", "effect": "Foo"}]}}),
            "metadata.taints[0].effect: Unsupported value: \"Foo\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ),
        (
            "ConfigMap",
            json!({"data": {"..": "x"}}),
            "data[..]: Invalid value: \"..\": must not be '..'",
        ),
    ];
    for (kind, object, expected) in cases {
        assert_eq!(created(kind, object), [expected], "{kind}");
    }
    let large = "x".repeat(1024 * 1024 + 1);
    assert_eq!(
        created("ConfigMap", json!({"data": {"a": large}})),
        [": Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn immutable_data_cannot_change() {
    let frozen = json!({"immutable": true, "data": {"k": "1"}});
    let errors = updated("ConfigMap", None, frozen.clone(), |new| {
        new["data"]["k"] = json!("2")
    });
    assert_eq!(
        errors,
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    let errors = updated("Secret", None, frozen, |new| {
        new["immutable"] = json!(false)
    });
    assert_eq!(
        errors,
        ["immutable: Forbidden: field is immutable when `immutable` is set"]
    );
    let errors = updated("Secret", None, json!({"type": "a"}), |new| {
        new["type"] = json!("b")
    });
    assert_eq!(errors, ["type: Invalid value: \"b\": field is immutable"]);
}

#[test]
fn duplicates_in_containers_cause_warnings() {
    let container = json!({"env": [{"name": "A"}, {"name": "A"}], "ports": [{"containerPort": 80}, {"containerPort": 80}]});
    let env = "env[1]: hides previous definition of \"A\", which may be dropped when using apply";
    for (kind, spec, path) in [
        ("Pod", json!({"containers": [container]}), "spec"),
        (
            "Deployment",
            json!({"template": {"spec": {"containers": [container]}}}),
            "spec.template.spec",
        ),
    ] {
        let ports = format!(
            "{path}.containers[0].ports[1]: duplicate port definition with {path}.containers[0].ports[0]"
        );
        assert_eq!(
            warnings(kind, &json!({"metadata": {"name": "x"}, "spec": spec})),
            [format!("{path}.containers[0].{env}"), ports]
        );
    }
    assert!(warnings("ConfigMap", &json!({})).is_empty());
}

#[test]
fn a_suspended_job_has_mutable_scheduling() {
    let container = json!({"name": "c", "image": "i", "resources": {}});
    let spec = json!({"restartPolicy": "Never", "containers": [container]});
    let job = json!({"spec": {"suspend": true, "template": {"spec": spec}}});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}});
    let started = |job: &mut Value| job["status"] = json!({"startTime": "2026-01-01T00:00:00Z"});
    type Change = fn(&mut Value);
    // (why, change of the Job before the update, change of the template, whether it is allowed)
    let cases: [(&str, Change, Value, bool); 9] = [
        (
            "nodes",
            |_| {},
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            true,
        ),
        (
            "gates",
            |_| {},
            json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
            true,
        ),
        (
            "affinity to nodes",
            |_| {},
            json!({"spec": {"affinity": affinity}}),
            true,
        ),
        (
            "affinity to pods",
            |_| {},
            json!({"spec": {"affinity": {"podAffinity": {}}}}),
            false,
        ),
        (
            "labels",
            |_| {},
            json!({"metadata": {"labels": {"a": "b"}}}),
            true,
        ),
        (
            "resources",
            |_| {},
            json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}),
            true,
        ),
        (
            "an image",
            |_| {},
            json!({"spec": {"containers": [{"name": "c", "image": "j", "resources": {}}]}}),
            false,
        ),
        (
            "of a running job",
            |job| job["spec"]["suspend"] = json!(false),
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            false,
        ),
        (
            "of a job that has started",
            started,
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
            false,
        ),
    ];
    for (why, before, change, may) in cases {
        let mut old = job.clone();
        before(&mut old);
        let mut new = old.clone();
        crate::patch::merge(&mut new["spec"]["template"], &change);
        let mut errors = super::errors::Errors::default();
        super::job::template_update(&new, &old, &mut errors);
        assert_eq!(errors.len() == 0, may, "{why}");
    }
}

#[test]
fn the_status_of_a_budget_has_no_negative_numbers_and_complete_conditions() {
    let complete = json!({"type": "Ours", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let broken = |field: &str, value: Value| {
        let mut condition = complete.clone();
        condition[field] = value;
        json!({"conditions": [condition]})
    };
    // (status, errors)
    let cases: [(Value, &[&str]); 9] = [
        (
            json!({"disruptionsAllowed": 1, "currentHealthy": 0, "conditions": [complete]}),
            &[],
        ),
        (
            json!({"disruptionsAllowed": -1, "currentHealthy": -2, "desiredHealthy": -3, "expectedPods": -4}),
            &[
                "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
                "status.currentHealthy: Invalid value: -2: must be greater than or equal to 0",
                "status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0",
                "status.expectedPods: Invalid value: -4: must be greater than or equal to 0",
            ],
        ),
        (
            json!({"conditions": [complete, complete]}),
            &["status.conditions[1].type: Duplicate value: \"Ours\""],
        ),
        (
            broken("status", json!("Maybe")),
            &[
                "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            ],
        ),
        (
            broken("observedGeneration", json!(-1)),
            &[
                "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            ],
        ),
        (
            broken("lastTransitionTime", Value::Null),
            &["status.conditions[0].lastTransitionTime: Required value"],
        ),
        (
            broken("reason", json!("")),
            &["status.conditions[0].reason: Required value"],
        ),
        (
            broken("reason", json!("A".repeat(1025))),
            &["status.conditions[0].reason: Too long: may not be more than 1024 bytes"],
        ),
        (
            broken("message", json!("m".repeat(32 * 1024 + 1))),
            &["status.conditions[0].message: Too long: may not be more than 32768 bytes"],
        ),
    ];
    for (status, expected) in cases {
        let old = json!({"spec": {"minAvailable": 1}});
        let found = updated("PodDisruptionBudget", Some("status"), old, |new| {
            new["status"] = status.clone();
        });
        assert_eq!(found, expected, "{status}");
    }
}

#[test]
fn allocations_and_pools_of_devices_are_immutable() {
    let claim = |allocation: Value| {
        json!({
            "metadata": {"namespace": "n"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
            "status": {"allocation": allocation},
        })
    };
    let device = |name: &str| json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": name}]}});
    let status = |old: Value, new: Value| {
        updated("ResourceClaim", Some("status"), claim(old), |claim| {
            claim["status"]["allocation"] = new.clone();
        })
    };
    assert_eq!(status(json!(null), device("a")), [""; 0]);
    assert_eq!(status(device("a"), json!(null)), [""; 0]);
    let errors = status(device("a"), device("b"));
    assert!(
        errors.len() == 1
            && errors[0].starts_with("status.allocation: Invalid value:")
            && errors[0].ends_with("field is immutable"),
        "{errors:?}"
    );
    let errors = updated("ResourceClaim", None, claim(json!(null)), |claim| {
        claim["spec"]["devices"]["requests"][0]["name"] = json!("s");
    });
    assert!(
        errors.len() == 1 && errors[0].starts_with("spec: Invalid value:"),
        "{errors:?}"
    );
    let slice = json!({"spec": {"driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}});
    let errors = updated("ResourceSlice", None, slice, |slice| {
        slice["spec"]["driver"] = json!("e");
        slice["spec"]["nodeName"] = json!("m");
        slice["spec"]["pool"] = json!({"name": "m", "generation": 2, "resourceSliceCount": 1});
    });
    let immutable = |field: &str, value: &str| {
        format!("{field}: Invalid value: \"{value}\": field is immutable")
    };
    let expected = [
        immutable("spec.pool.name", "m"),
        immutable("spec.driver", "e"),
        immutable("spec.nodeName", "m"),
    ];
    assert_eq!(errors, expected);
}
