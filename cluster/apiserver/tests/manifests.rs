//! Requests of published manifests, in their smallest form. Each answer is that of kube-apiserver
//! 1.36.2.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{Answer, ask, clock, widgets};

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DRY: &str = "?dryRun=All&fieldManager=t";

fn cluster() -> DevCluster {
    DevCluster::with_managed_fields(clock())
}

/// A dry run of a creation.
async fn create(cluster: &DevCluster, path: &str, object: &Value) -> Answer {
    let body = object.to_string();
    let path = format!("{path}{DRY}");
    ask(&cluster.client(), "POST", &path, JSON, body.as_bytes()).await
}

/// A dry run of a forced apply of a YAML text.
async fn apply(cluster: &DevCluster, path: &str, yaml: &str) -> Answer {
    let path = format!("{path}{DRY}&force=true");
    ask(&cluster.client(), "PATCH", &path, APPLY, yaml.as_bytes()).await
}

fn message(answer: &Answer) -> (u16, &str) {
    (
        answer.code,
        answer.body["message"].as_str().unwrap_or_default(),
    )
}

/// A pod with this container and this volume.
fn pod(container: &Value, volume: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "m"},
        "spec": {
            "containers": [{"name": "a", "image": "a"}],
            "volumes": [{"name": "v"}],
        },
    });
    merge(&mut pod["spec"]["containers"][0], container);
    merge(&mut pod["spec"]["volumes"][0], volume);
    pod
}

fn merge(object: &mut Value, more: &Value) {
    let more = more.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(more);
}

#[tokio::test(start_paused = true)]
async fn an_apply_reads_yaml_as_go_does() {
    let cluster = cluster();
    let maps = [
        ("data:\n  a: 'one\n  two'\n", json!({"a": "one two"})),
        ("data:\n    a: 'one\n  two'\n", json!({"a": "one two"})),
        ("data:\n  a: |\n    one", json!({"a": "one"})),
        ("data: {yes: a, 0x10: c}", json!({"true": "a", "16": "c"})),
        ("data: {a: y, <<: {a: x}}", json!({"a": "x"})),
        ("data: {a: b}\n---\nfoo: [", json!({"a": "b"})),
    ];
    let map =
        |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\n{data}");
    for (yaml, data) in maps {
        let applied = apply(&cluster, &format!("{MAPS}/m"), &map(yaml)).await;
        assert_eq!(applied.code, 201, "{yaml}: {}", applied.body);
        assert_eq!(applied.body["data"], data, "{yaml}");
    }
    let refusals = [
        ("data: {a: .inf}", "json: unsupported value: +Inf"),
        ("data: &a [*a]", "yaml: anchor 'a' value contains itself"),
        (
            "data: {a: !!int x}",
            "yaml: cannot decode !!str `x` as a !!int",
        ),
    ];
    for (yaml, why) in refusals {
        let applied = apply(&cluster, &format!("{MAPS}/m"), &map(yaml)).await;
        let expected = format!("error decoding YAML: error converting YAML to JSON: {why}");
        assert_eq!(message(&applied), (400, &*expected), "{yaml}");
    }
    let path = format!("{MAPS}/m{DRY}&force=true");
    let octet = ask(&cluster.client(), "PATCH", &path, APPLY, b"a: \xff\n").await;
    let why =
        "error decoding YAML: error converting YAML to JSON: yaml: invalid leading UTF-8 octet";
    assert_eq!(message(&octet), (400, why));
    for (yaml, found) in [
        ("[]", "array"),
        ("5", "number"),
        ("x", "string"),
        ("on", "bool"),
    ] {
        let applied = apply(&cluster, &format!("{MAPS}/m"), yaml).await;
        let expected = format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
             value of type map[string]interface {{}}"
        );
        assert_eq!(message(&applied), (400, &*expected), "{yaml}");
    }
    let modes = "apiVersion: v1\nkind: Pod\nmetadata: {name: m}\nspec:\n  containers: [{name: a, image: a}]\n  \
                 volumes: [{name: v, configMap: {name: c, defaultMode: 0644}}]\n  terminationGracePeriodSeconds: 1e3\n";
    let applied = apply(&cluster, &format!("{PODS}/m"), modes).await;
    let spec = &applied.body["spec"];
    assert_eq!(spec["volumes"][0]["configMap"]["defaultMode"], 420);
    assert_eq!(spec["terminationGracePeriodSeconds"], 1000);
}

#[tokio::test(start_paused = true)]
async fn a_refused_apply_warns_of_equal_keys() {
    let cluster = cluster();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, uid: x}\ndata: {a: b}\ndata: {a: c}\n";
    let applied = apply(&cluster, &format!("{MAPS}/m"), yaml).await;
    assert_eq!(applied.code, 409, "{}", applied.body);
    assert_eq!(
        applied.warnings,
        ["line 5: key \"data\" already set in map"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_an_apply_shows_the_link_of_its_configuration() {
    let cluster = cluster();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "selfLink": "/a"}});
    let applied = apply(&cluster, &format!("{MAPS}/m"), &map.to_string()).await;
    assert_eq!(applied.body["metadata"]["selfLink"], "/a");
    let created = create(&cluster, MAPS, &map).await;
    assert_eq!(created.body["metadata"]["selfLink"], Value::Null);
    let path = format!("{MAPS}/m?fieldManager=t");
    let body = map.to_string();
    let stored = ask(&cluster.client(), "PATCH", &path, APPLY, body.as_bytes()).await;
    assert_eq!(stored.code, 201, "{}", stored.body);
    assert_eq!(stored.body["metadata"]["selfLink"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn volumes_have_the_defaults_of_their_sources() {
    let azure = json!({"cachingMode": "ReadWrite", "diskName": "d", "diskURI": "https://a.blob.core.windows.net/v/d",
        "fsType": "ext4", "kind": "Shared", "readOnly": false});
    let rbd = json!({"monitors": ["a"], "image": "i", "keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"});
    let scale_io = json!({"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v",
        "storageMode": "ThinProvisioned", "fsType": "xfs"});
    let iscsi = json!({"targetPortal": "a:1", "iqn": "iqn.2001-04.com.example:d", "lun": 0, "iscsiInterface": "default"});
    let sources = [
        (
            "azureDisk",
            json!({"diskName": "d", "diskURI": "https://a.blob.core.windows.net/v/d"}),
            azure,
        ),
        ("rbd", json!({"monitors": ["a"], "image": "i"}), rbd),
        (
            "scaleIO",
            json!({"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}),
            scale_io,
        ),
        (
            "iscsi",
            json!({"targetPortal": "a:1", "iqn": "iqn.2001-04.com.example:d", "lun": 0}),
            iscsi,
        ),
    ];
    let cluster = cluster();
    for (name, given, expected) in sources {
        let made = create(&cluster, PODS, &pod(&json!({}), &json!({name: given}))).await;
        assert_eq!(
            made.body["spec"]["volumes"][0][name], expected,
            "{}",
            made.body
        );
        let mut volume = json!({"metadata": {"name": "m"}, "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"]}});
        volume["spec"][name] = given;
        let made = create(&cluster, "/api/v1/persistentvolumes", &volume).await;
        assert_eq!(made.body["spec"][name], expected, "{}", made.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_keeps_the_class_of_its_author() {
    let cluster = cluster();
    let container = json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    let mut given = pod(&container, &json!({}));
    let made = create(&cluster, PODS, &given).await;
    assert_eq!(made.body["status"]["qosClass"], "Guaranteed");
    given["status"] = json!({"qosClass": "Burstable", "phase": "Running"});
    let made = create(&cluster, PODS, &given).await;
    assert_eq!(
        made.body["status"],
        json!({"phase": "Pending", "qosClass": "Burstable"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_only_asks_for_the_range_of_an_address() {
    let cluster = cluster();
    let services = "/api/v1/namespaces/default/services";
    let service = |address: &str| json!({"metadata": {"name": "m"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    for address in ["192.0.2.1", "10.96.0.0"] {
        let refused = create(&cluster, services, &service(address)).await;
        let expected = format!(
            "Service \"m\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: \
             the provided IP ({address}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
        );
        assert_eq!(message(&refused), (422, &*expected));
    }
    let taken = service("10.96.0.9").to_string();
    let made = ask(&cluster.client(), "POST", services, JSON, taken.as_bytes()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let mut second = service("10.96.0.9");
    second["metadata"]["name"] = json!("other");
    let made = create(&cluster, services, &second).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

#[tokio::test(start_paused = true)]
async fn names_without_a_key_in_the_storage_are_refused() {
    let cluster = cluster();
    let client = cluster.client();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}).to_string();
    let other = map.replace("\"m\"", "\"a%b\"");
    let namespace = "Internal error occurred: invalid resource name \"a%b\": [may not contain '%']";
    let name = "Name parameter invalid: \"a%b\": may not contain '%'";
    let missing = "configmaps \"x\" not found";
    let mismatch = "the name of the object (m) does not match the name on the URL (a%b)";
    let cases = [
        (
            "POST",
            "/api/v1/namespaces/a%25b/configmaps",
            &*map,
            (500, namespace),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/a%25b/configmaps/m",
            &*map,
            (500, namespace),
        ),
        (
            "GET",
            "/api/v1/namespaces/a%25b/configmaps/x",
            "",
            (404, missing),
        ),
        ("GET", "/api/v1/namespaces/a%25b", "", (400, name)),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/a%25b",
            "",
            (400, name),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/a%25b",
            &*map,
            (400, name),
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/a%25b",
            &*map,
            (400, mismatch),
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/a%25b",
            &*other,
            (400, name),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/a%2Fb",
            "",
            (404, "the server could not find the requested resource"),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/%2E%2E",
            "",
            (400, "Name parameter invalid: \"..\": may not be '..'"),
        ),
    ];
    for (method, path, body, expected) in cases {
        let content_type = match method {
            "PATCH" => APPLY,
            _ => JSON,
        };
        let path = format!("{path}{DRY}");
        let answer = ask(&client, method, &path, content_type, body.as_bytes()).await;
        assert_eq!(message(&answer), expected, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_of_an_autoscaler_belong_to_its_author() {
    let cluster = cluster();
    let conditions = "[{\"type\":\"AbleToScale\",\"status\":\"True\"}]";
    let scaler = json!({
        "metadata": {"name": "m", "annotations": {"autoscaling.alpha.kubernetes.io/conditions": conditions}},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "m", "apiVersion": "apps/v1"}},
    });
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let made = create(&cluster, path, &scaler).await;
    let owned = &made.body["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"];
    let expected =
        json!({"f:annotations": {".": {}, "f:autoscaling.alpha.kubernetes.io/conditions": {}}});
    assert_eq!(owned, &expected, "{}", made.body);
    assert!(made.body["metadata"]["annotations"].is_null());
}

#[tokio::test(start_paused = true)]
async fn roles_of_a_new_cluster_have_managers() {
    let cluster = cluster();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
    let role = ask(&cluster.client(), "GET", path, "", b"").await.body;
    assert_eq!(role.get("rules"), Some(&Value::Null));
    let entries = role["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["manager"], "kube-apiserver");
    let fields = json!({
        "f:aggregationRule": {".": {}, "f:clusterRoleSelectors": {}},
        "f:metadata": {
            "f:annotations": {".": {}, "f:rbac.authorization.kubernetes.io/autoupdate": {}},
            "f:labels": {".": {}, "f:kubernetes.io/bootstrapping": {}},
        },
    });
    assert_eq!(entries[0]["fieldsV1"], fields);
}

#[tokio::test(start_paused = true)]
async fn the_addresses_of_services_have_a_range() {
    let cluster = cluster();
    let address = "127.0.0.1:0".parse().unwrap();
    let _door = cluster.serve_https(address).await.unwrap();
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let range = ask(&cluster.client(), "GET", path, "", b"").await.body;
    assert_eq!(range["spec"], json!({"cidrs": ["10.96.0.0/16"]}));
    let condition = &range["status"]["conditions"][0];
    let expected = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": range["metadata"]["creationTimestamp"],
    });
    assert_eq!(condition, &expected);
    let fields =
        json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {}});
    let entries = [
        json!({"manager": "kubernetes-service-cidr-controller", "operation": "Apply", "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": fields}}}}),
        json!({"manager": "kube-apiserver", "operation": "Update", "fieldsV1": {"f:spec": {"f:cidrs": {}}}}),
    ];
    let mut found = range["metadata"]["managedFields"].clone();
    for entry in found.as_array_mut().unwrap() {
        let entry = entry.as_object_mut().unwrap();
        entry.retain(|name, _| !["time", "fieldsType", "apiVersion"].contains(&name.as_str()));
    }
    assert_eq!(found, json!(entries));
}

/// A definition with a deprecated version and better ones.
fn definition() -> Value {
    let status = json!({"type": "object", "properties": {"conditions": {"type": "array", "items": {"type": "object"}}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"status": status, "spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let version = |name: &str, deprecated: bool| {
        json!({"name": name, "served": true, "storage": name == "v1", "deprecated": deprecated,
            "schema": schema, "subresources": {"status": {}}})
    };
    let versions = [
        ("v1alpha1", true),
        ("v1beta1", false),
        ("v1", false),
        ("v2", true),
        ("other", false),
    ];
    let versions = versions.map(|(name, deprecated)| version(name, deprecated));
    widgets(json!(versions))
}

#[tokio::test(start_paused = true)]
async fn the_warning_of_a_deprecated_version_names_the_best_one() {
    let cluster = cluster();
    cluster.create(definition()).await.unwrap();
    let warnings = [
        (
            "v1alpha1",
            vec!["example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"],
        ),
        ("v1beta1", vec![]),
        ("v2", vec!["example.com/v2 Widget is deprecated"]),
    ];
    for (version, expected) in warnings {
        let widget = json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "m"}});
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let made = create(&cluster, &path, &widget).await;
        assert_eq!(
            (made.code, made.warnings),
            (201, expected.iter().map(ToString::to_string).collect())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_status_costs_a_custom_object_its_managers() {
    let cluster = cluster();
    cluster.create(definition()).await.unwrap();
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |conditions: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "m"}, "spec": {"a": 1},
            "status": {"conditions": conditions}})
    };
    let made = create(&cluster, path, &widget(json!([]))).await;
    assert_eq!(
        made.body["metadata"]["managedFields"][0]["manager"], "t",
        "{}",
        made.body
    );
    let made = create(&cluster, path, &widget(json!({}))).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["metadata"]["managedFields"], Value::Null);
}
