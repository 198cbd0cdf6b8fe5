use serde_json::json;

use super::*;

/// The defaulted object. Asserts that defaulting is idempotent.
fn applied(kind: &str, mut object: Value) -> Value {
    apply(Release::DEFAULT, kind, &mut object);
    let once = object.clone();
    apply(Release::DEFAULT, kind, &mut object);
    assert_eq!(object, once, "defaulting is idempotent");
    object
}

/// The created object. Asserts that the result is the same whether defaulting ran before.
fn created(kind: &str, object: Value) -> Value {
    let mut alone = object.clone();
    on_create(Release::DEFAULT, kind, &mut alone);
    let mut defaulted_before = object;
    apply(Release::DEFAULT, kind, &mut defaulted_before);
    on_create(Release::DEFAULT, kind, &mut defaulted_before);
    assert_eq!(
        alone, defaulted_before,
        "defaulting before creation has no effect"
    );
    let mut after = alone.clone();
    apply(Release::DEFAULT, kind, &mut after);
    assert_eq!(after, alone, "a created object has all defaults");
    alone
}

#[test]
fn every_constant_belongs_to_a_field_of_the_schema() {
    let known: Vec<(&str, &Struct)> = schema::all().map(|shape| (shape.name(), shape)).collect();
    for (name, field) in CONSTANTS.entries().chain(defaults::POD_TEMPLATE.entries()) {
        let (_, shape) = known
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("no type {name}"));
        assert!(shape.field(field).is_some(), "{name} has no field {field}");
    }
}

#[test]
fn amounts_are_rounded_to_thousandths_in_copies_of_a_rule_too() {
    let got = applied("Node", json!({"status": {"capacity": {"cpu": "100u"}}}));
    for field in ["capacity", "allocatable"] {
        assert_eq!(got["status"][field], json!({"cpu": "1m"}), "{field}");
    }
}

#[test]
fn a_deployment_gets_all_defaults() {
    let got = created(
        "Deployment",
        json!({"metadata": {"name": "d"}, "status": {"replicas": 7}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}, "creationTimestamp": null},
                "spec": {"containers": [{"name": "c", "image": "app", "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}}]}}}}),
    );
    assert_eq!(
        got,
        json!({"metadata": {"name": "d"}, "status": {}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
                "containers": [{"name": "c", "image": "app", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    "terminationMessagePath": "/dev/termination-log", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}]}}}})
    );
}

#[test]
fn recreate_has_no_rolling_update() {
    let got = applied(
        "Deployment",
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
    assert_eq!(got["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn a_pod_gets_more_defaults_than_a_template() {
    let pod = created(
        "Pod",
        json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}),
    );
    assert_eq!(pod["spec"]["enableServiceLinks"], true);
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "1"})
    );
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "Burstable"})
    );
}

#[test]
fn default_tolerations_do_not_replace_existing_ones() {
    // (tolerations of the pod, keys after creation)
    let not_ready = "node.kubernetes.io/not-ready";
    let unreachable = "node.kubernetes.io/unreachable";
    let cases = [
        (json!([{"key": "k"}]), vec!["k", not_ready, unreachable]),
        (json!([{"operator": "Exists"}]), vec![""]),
        (
            json!([{"key": not_ready, "effect": "NoExecute"}]),
            vec![not_ready, unreachable],
        ),
        (
            json!([{"key": not_ready, "effect": "NoSchedule"}]),
            vec![not_ready, not_ready, unreachable],
        ),
    ];
    for (given, expected) in cases {
        let pod = created("Pod", json!({"spec": {"tolerations": given}}));
        let keys: Vec<&str> = pod["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["key"].as_str().unwrap_or(""))
            .collect();
        assert_eq!(keys, expected, "{given}");
    }
}

#[test]
fn a_pod_with_scheduling_gates_has_the_condition() {
    let pod = created(
        "Pod",
        json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": {"schedulingGates": [{"name": "g"}]}}),
    );
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["lastTransitionTime"]),
        (&json!("SchedulingGated"), &json!("2024-01-01T00:00:00Z"))
    );
}

#[test]
fn volumes_probes_and_references_get_defaults_at_any_depth() {
    let got = applied(
        "CronJob",
        json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {
            "volumes": [{"name": "e"}, {"name": "c", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/"}}],
            "containers": [{"name": "c", "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}]}]}}}}}}),
    );
    let spec = &got["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(
        spec["volumes"],
        json!([{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x", "defaultMode": 420}},
            {"name": "h", "hostPath": {"path": "/", "type": ""}}])
    );
    let container = &spec["containers"][0];
    assert_eq!(
        container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"],
        "v1"
    );
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3})
    );
}

#[test]
fn a_job_selects_pods_by_its_uid() {
    let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}});
    let mut got = job.clone();
    on_create(Release::DEFAULT, "Job", &mut got);
    assert_eq!(
        got["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    let labels = json!({"controller-uid": "u", "job-name": "j", "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j"});
    assert_eq!(
        (
            &got["spec"]["template"]["metadata"]["labels"],
            &got["metadata"]["labels"]
        ),
        (&labels, &labels)
    );
    assert_eq!(
        (&got["spec"]["parallelism"], &got["spec"]["completions"]),
        (&json!(1), &json!(1))
    );

    let mut manual = job;
    manual["spec"]["manualSelector"] = json!(true);
    on_create(Release::DEFAULT, "Job", &mut manual);
    assert_eq!(manual["spec"]["selector"], Value::Null);
    let queue = applied("Job", json!({"spec": {"parallelism": 2}}));
    assert_eq!(queue["spec"].get("completions"), None);
}

#[test]
fn small_kinds_get_defaults() {
    // (kind, object, completed)
    let cases = [
        (
            "Namespace",
            json!({"metadata": {"name": "n"}}),
            json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}, "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"}}),
        ),
        (
            "Secret",
            json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
            json!({"metadata": {"name": "s"}, "data": {"a": "Yg=="}, "type": "Opaque"}),
        ),
        (
            "Lease",
            json!({"metadata": {"name": "l"}}),
            json!({"metadata": {"name": "l"}, "spec": {}}),
        ),
        (
            "PodDisruptionBudget",
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}),
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
        ),
        (
            "Widget",
            json!({"metadata": {"name": "w", "x": null}}),
            json!({"metadata": {"name": "w", "x": null}}),
        ),
    ];
    for (kind, object, expected) in cases {
        assert_eq!(created(kind, object), expected, "{kind}");
    }
}

#[test]
fn a_replication_controller_takes_labels_and_selector_from_its_template() {
    let got = created(
        "ReplicationController",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
    );
    assert_eq!(
        (&got["metadata"]["labels"], &got["spec"]["selector"]),
        (&json!({"a": "b"}), &json!({"a": "b"}))
    );
    assert_eq!(got["status"], json!({"replicas": 0}));
}

#[test]
fn services_get_target_ports_and_linked_addresses() {
    let plain = created(
        "Service",
        json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}),
    );
    assert_eq!(
        plain["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    let headless = created("Service", json!({"spec": {"clusterIP": "None"}}));
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let external = created(
        "Service",
        json!({"spec": {"type": "ExternalName", "externalName": "x"}}),
    );
    assert_eq!(
        external["spec"],
        json!({"type": "ExternalName", "externalName": "x", "sessionAffinity": "None"})
    );
}

#[test]
fn job_templates_of_cron_jobs_lack_the_defaults_of_jobs() {
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    let created = created(
        "CronJob",
        json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}}}),
    );
    let template = &created["spec"]["jobTemplate"];
    let fields: Vec<&String> = template["spec"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["template"]);
    assert_eq!(
        template["spec"]["template"]["spec"]["dnsPolicy"],
        "ClusterFirst"
    );
    assert_eq!(template["metadata"], json!({}));
}

#[test]
fn addresses_of_load_balancers_are_virtual() {
    // (type, mode)
    for (kind, mode) in [("LoadBalancer", json!("VIP")), ("ClusterIP", Value::Null)] {
        let service = json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
        let found = applied("Service", service);
        assert_eq!(
            found["status"]["loadBalancer"]["ingress"][0]["ipMode"], mode,
            "{kind}"
        );
    }
}

#[test]
fn daemon_sets_count_template_generations() {
    let old = created(
        "DaemonSet",
        json!({"spec": {"template": {"spec": {"hostNetwork": false}}}}),
    );
    let count = |set: &Value| {
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    assert_eq!(count(&old), "1");
    // (pointer, value, count)
    let cases = [
        ("/spec/minReadySeconds", json!(5), "1"),
        ("/metadata/annotations", json!({"a": "b"}), "1"),
        (
            "/metadata/annotations",
            json!({"deprecated.daemonset.template.generation": "7"}),
            "1",
        ),
        (
            "/spec/template/metadata",
            json!({"labels": {"a": "b"}}),
            "2",
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut new = old.clone();
        let (holder, field) = pointer.rsplit_once('/').unwrap();
        new.pointer_mut(holder).unwrap()[field] = value;
        on_update(Release::DEFAULT, "DaemonSet", &mut new, &old);
        assert_eq!(count(&new), expected, "{pointer}");
    }
}

#[test]
fn kinds_of_other_components_get_defaults() {
    // (kind, object, pointer, expected value)
    let cases = [
        (
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{"operations": ["CREATE"]}]}]}),
            "/webhooks/0",
            json!({"name": "a", "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
                "rules": [{"operations": ["CREATE"], "scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
                "namespaceSelector": {}, "objectSelector": {}, "sideEffects": null, "timeoutSeconds": 10, "admissionReviewVersions": null}),
        ),
        (
            "FlowSchema",
            json!({"spec": {}}),
            "/spec/matchingPrecedence",
            json!(1000),
        ),
        (
            "PriorityLevelConfiguration",
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 7}}}}}),
            "/spec/limited",
            json!({"nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue", "queuing": {"queues": 7, "handSize": 8, "queueLengthLimit": 50}},
                "lendablePercent": 0}),
        ),
        (
            "ResourceClaim",
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}),
            "/spec/devices/requests/0/exactly",
            json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}),
        ),
        (
            "CSIDriver",
            json!({"spec": {"attachRequired": false}}),
            "/spec",
            json!({"attachRequired": false, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"], "storageCapacity": false,
                "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false}),
        ),
        (
            "IngressClass",
            json!({"spec": {"parameters": {"kind": "K", "name": "n"}}}),
            "/spec/parameters/scope",
            json!("Cluster"),
        ),
        (
            "APIService",
            json!({"spec": {"service": {"name": "s"}}}),
            "/spec/service/port",
            json!(443),
        ),
        (
            "HorizontalPodAutoscaler",
            json!({"apiVersion": "autoscaling/v2", "spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}}),
            "/spec/behavior",
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Min", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
            }),
        ),
    ];
    for (kind, object, pointer, expected) in cases {
        assert_eq!(
            applied(kind, object).pointer(pointer),
            Some(&expected),
            "{kind}"
        );
    }
}

#[test]
fn service_accounts_keep_the_names_of_their_secrets() {
    let secrets = json!([{"name": "a", "namespace": "other", "kind": "Secret"}, {"name": "b"}]);
    let sent = json!({"metadata": {"name": "s"}, "secrets": secrets});
    let kept = json!([{"name": "a"}, {"name": "b"}]);
    let mut created = sent.clone();
    on_create(Release::DEFAULT, "ServiceAccount", &mut created);
    assert_eq!(created["secrets"], kept);
    let mut updated = sent.clone();
    on_update(Release::DEFAULT, "ServiceAccount", &mut updated, &created);
    assert_eq!(updated["secrets"], kept);
}
