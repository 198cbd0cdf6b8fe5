//! Kinds with behaviour beyond their row in the table: two versions, approvals, computed objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_devcluster::rest::Component;

use crate::support::{Answer, ask, clock};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Answer {
    ask(
        client,
        method,
        path,
        content_type,
        body.to_string().as_bytes(),
    )
    .await
}

async fn get(client: &kube::Client, path: &str) -> Value {
    let asked = ask(client, "GET", path, "", b"").await;
    assert_eq!(asked.code, 200, "{path}: {}", asked.body);
    asked.body
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_is_one_object_in_both_versions() {
    let cluster = DevCluster::with_managed_fields(clock());
    let client = cluster.client();
    let path = |version: &str, name: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers{name}")
    };
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let old = json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 60}});
    let made = send(&client, "POST", &path("v1", ""), JSON, &old).await;
    assert_eq!(
        (made.code, &made.body["apiVersion"]),
        (201, &json!("autoscaling/v1")),
        "{}",
        made.body
    );
    assert_eq!(made.body["spec"]["targetCPUUtilizationPercentage"], 60);
    let new = get(&client, &path("v2", "/a")).await;
    assert_eq!(
        new["spec"]["metrics"][0]["resource"]["target"],
        json!({"type": "Utilization", "averageUtilization": 60})
    );
    assert_eq!(new["metadata"]["uid"], made.body["metadata"]["uid"]);

    // Annotations of v1 hold the fields that only v2 has. A change through v1 keeps them.
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 5}});
    let change = json!({"spec": {"metrics": [memory], "behavior": behavior}});
    assert_eq!(
        send(&client, "PATCH", &path("v2", "/a"), MERGE, &change)
            .await
            .code,
        200
    );
    let shown = get(&client, &path("v1", "/a")).await;
    assert!(
        text(
            &shown,
            "/metadata/annotations/autoscaling.alpha.kubernetes.io~1metrics"
        )
        .contains("\"targetAverageValue\":\"1Gi\"")
    );
    assert!(
        shown["spec"].get("behavior").is_none()
            && shown["spec"]
                .get("targetCPUUtilizationPercentage")
                .is_none(),
        "{shown}"
    );
    let grown = send(
        &client,
        "PATCH",
        &path("v1", "/a"),
        MERGE,
        &json!({"spec": {"maxReplicas": 5}}),
    )
    .await;
    assert_eq!(grown.code, 200, "{}", grown.body);
    let kept = get(&client, &path("v2", "/a")).await;
    assert_eq!(
        (&kept["spec"]["metrics"][0], &kept["spec"]["maxReplicas"]),
        (&memory, &json!(5))
    );
    let down = json!({"stabilizationWindowSeconds": 5, "selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    assert_eq!(kept["spec"]["behavior"]["scaleDown"], down);
    assert!(kept["metadata"].get("annotations").is_none(), "{kept}");

    // The same holds for lists, deletions and defaults.
    assert_eq!(
        get(&client, &path("v1", "")).await["items"][0]["spec"]["maxReplicas"],
        5
    );
    assert_eq!(
        ask(&client, "DELETE", &path("v1", "/a"), "", b"")
            .await
            .code,
        200
    );
    assert_eq!(get(&client, &path("v2", "")).await["items"], json!([]));
    let bare =
        json!({"metadata": {"name": "b"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    assert_eq!(
        send(&client, "POST", &path("v1", ""), JSON, &bare)
            .await
            .body["spec"]["targetCPUUtilizationPercentage"],
        80
    );
    let unknown = json!({"metadata": {"name": "c"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": []}});
    let strict = send(
        &client,
        "POST",
        &format!("{}?fieldValidation=Strict", path("v1", "")),
        JSON,
        &unknown,
    )
    .await;
    assert!(
        strict.code == 400
            && text(&strict.body, "/message").contains("unknown field \"spec.metrics\""),
        "{}",
        strict.body
    );
}

/// A CertificateSigningRequest for a member of `organization`.
fn request_for(name: &str, organization: &str) -> Value {
    let mut params = rcgen::CertificateParams::default();
    params
        .distinguished_name
        .push(rcgen::DnType::OrganizationName, organization);
    let pem = params
        .serialize_request(&rcgen::KeyPair::generate().unwrap())
        .unwrap()
        .pem()
        .unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "username": "somebody-else",
        },
        "status": {"conditions": [{"type": "Approved", "status": "True"}]},
    })
}

#[tokio::test(start_paused = true)]
async fn certificate_requests_need_approval_rights_and_then_a_certificate() {
    let cluster = DevCluster::new(clock());
    let admin = cluster.client();
    let rules = |resources: [&str; 2], verbs: [&str; 3]| json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": verbs});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "asks"},
        "rules": [
            rules(["certificatesigningrequests", "certificatesigningrequests/approval"], ["create", "get", "update"]),
        ],
    });
    cluster.create(role).await.unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "asks"},
        "roleRef": {"kind": "ClusterRole", "name": "asks", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": "ann"}],
    });
    cluster.create(binding).await.unwrap();
    let ann = cluster.client_as(User::new("ann", ["devs"]));

    let made = send(&ann, "POST", REQUESTS, JSON, &request_for("a", "devs")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(
        (&made.body["spec"]["username"], &made.body["status"]),
        (&json!("ann"), &json!({}))
    );
    assert_eq!(
        made.body["spec"]["groups"],
        json!(["devs", "system:authenticated"])
    );
    let master = send(
        &ann,
        "POST",
        REQUESTS,
        JSON,
        &request_for("b", "system:masters"),
    )
    .await;
    assert!(
        master.code == 403
            && text(&master.body, "/message").contains("with system:masters group is not allowed"),
        "{}",
        master.body
    );

    let approval = format!("{REQUESTS}/a/approval");
    let mut approved = made.body.clone();
    approved["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "KubectlApprove"}]);
    approved["status"]["certificate"] = json!("eA==");
    approved["spec"]["signerName"] = json!("example.com/other");
    let refused = send(&ann, "PUT", &approval, JSON, &approved).await;
    let why = "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"";
    assert!(
        refused.code == 403 && text(&refused.body, "/message").contains(why),
        "{}",
        refused.body
    );
    let done = send(&admin, "PUT", &approval, JSON, &approved).await;
    assert_eq!(done.code, 200, "{}", done.body);
    assert_eq!(
        text(&done.body, "/status/conditions/0/lastUpdateTime"),
        "2026-01-01T00:00:00Z"
    );
    assert!(
        done.body["status"].get("certificate").is_none() && done.body["spec"] == made.body["spec"],
        "{}",
        done.body
    );

    let both = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}});
    assert_eq!(
        send(&admin, "PATCH", &approval, MERGE, &both).await.code,
        422
    );
    let withdrawn = json!({"status": {"conditions": null}});
    assert_eq!(
        send(
            &admin,
            "PATCH",
            &format!("{REQUESTS}/a/status"),
            MERGE,
            &withdrawn
        )
        .await
        .code,
        422
    );
    let signed = json!({"status": {"certificate": STANDARD.encode("no certificate")}});
    let refused = send(
        &admin,
        "PATCH",
        &format!("{REQUESTS}/a/status"),
        MERGE,
        &signed,
    )
    .await;
    assert!(
        text(&refused.body, "/message").contains("must contain at least one CERTIFICATE PEM block"),
        "{}",
        refused.body
    );
    let pem = rcgen::generate_simple_self_signed(["x.test".to_owned()])
        .unwrap()
        .cert
        .pem();
    let signed = json!({"status": {"certificate": STANDARD.encode(pem)}});
    assert_eq!(
        send(
            &admin,
            "PATCH",
            &format!("{REQUESTS}/a/status"),
            MERGE,
            &signed
        )
        .await
        .code,
        200
    );
    let selected = get(
        &admin,
        &format!("{REQUESTS}?fieldSelector=spec.signerName%3Dkubernetes.io/kube-apiserver-client"),
    )
    .await;
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let unchanged = send(
        &admin,
        "PATCH",
        &format!("{REQUESTS}/a"),
        MERGE,
        &json!({"spec": {"usages": ["any"]}}),
    )
    .await;
    assert_eq!(
        (unchanged.code, &unchanged.body["spec"]["usages"]),
        (200, &json!(["client auth"]))
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_has_the_hashes_of_a_real_server() {
    let cluster = DevCluster::new(clock());
    let hash = async |path: &str, name: &str| {
        let list = get(&cluster.client(), path).await;
        let mut resources = list["resources"].as_array().unwrap().iter();
        let own = resources.find(|resource| resource["name"] == name).unwrap();
        own["storageVersionHash"].as_str().unwrap().to_owned()
    };
    assert_eq!(hash("/api/v1", "pods").await, "xPOwRZ+Yhw8=");
    let autoscalers = "horizontalpodautoscalers";
    let first = hash("/apis/autoscaling/v1", autoscalers).await;
    assert_eq!(first, hash("/apis/autoscaling/v2", autoscalers).await);
    assert_eq!(first, "qwQve8ut294=");
}

#[tokio::test(start_paused = true)]
async fn component_statuses_are_served_with_a_deprecation_warning() {
    let cluster = DevCluster::new(clock());
    let client = cluster.client();
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| text(item, "/metadata/name").to_owned())
            .collect()
    };
    let asked = ask(&client, "GET", "/api/v1/componentstatuses", "", b"").await;
    assert_eq!(
        names(&asked.body),
        ["controller-manager", "etcd-0", "scheduler"]
    );
    assert_eq!(
        asked.warnings,
        ["v1 ComponentStatus is deprecated in v1.19+"]
    );
    let refused = |port: u16| {
        json!([{"type": "Healthy", "status": "False", "message": format!(
            "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused"
        )}])
    };
    assert_eq!(asked.body["items"][0]["conditions"], refused(10257));
    assert_eq!(asked.body["items"][2]["conditions"], refused(10259));
    cluster.report_healthy(Component::Scheduler);
    let scheduler = get(&client, "/api/v1/componentstatuses/scheduler").await;
    assert_eq!(text(&scheduler, "/conditions/0/message"), "ok");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    cluster.create(lease).await.unwrap();
    let one = get(&client, "/api/v1/componentstatuses/controller-manager").await;
    assert_eq!(
        one["conditions"],
        json!([{"type": "Healthy", "status": "True", "message": "ok"}])
    );
    let selected = "/api/v1/componentstatuses?fieldSelector=metadata.name=etcd-0";
    assert_eq!(names(&get(&client, selected).await), ["etcd-0"]);
    tokio::time::advance(std::time::Duration::from_secs(16)).await;
    let late = get(&client, "/api/v1/componentstatuses/controller-manager").await;
    assert_eq!(
        text(&late, "/conditions/0/error"),
        "the lease expired at 2026-01-01T00:00:15Z"
    );
    let missing = ask(&client, "GET", "/api/v1/componentstatuses/nothing", "", b"");
    let missing = missing.await;
    assert_eq!(
        (missing.code, text(&missing.body, "/message")),
        (404, "componentstatus \"nothing\" not found")
    );
    let watch = ask(&client, "GET", "/api/v1/componentstatuses?watch=1", "", b"");
    let watch = watch.await;
    assert_eq!(
        (watch.code, text(&watch.body, "/message")),
        (
            405,
            "watch is not supported on resources of kind \"componentstatuses\""
        )
    );
    assert_eq!(
        ask(&client, "POST", "/api/v1/componentstatuses", JSON, b"{}")
            .await
            .code,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn taints_of_devices_get_the_time_of_their_write() {
    const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
    let cluster = DevCluster::with_managed_fields(clock());
    let client = cluster.client();
    let path = format!("{SLICES}/s");
    let time = |slice: &Value, taint: usize| {
        let pointer = format!("/spec/devices/0/taints/{taint}/timeAdded");
        text(slice, &pointer).to_owned()
    };
    let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
    let old = "2001-02-03T04:05:06Z";
    let dated = json!({"key": "b", "effect": "NoExecute", "timeAdded": old});
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "x", "taints": [taint("a"), dated]}],
        },
    });
    let created = send(&client, "POST", SLICES, JSON, &slice).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let first = time(&created.body, 0);
    assert_eq!(first, text(&created.body, "/metadata/creationTimestamp"));
    assert_eq!(time(&created.body, 1), old);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let mut known = get(&client, &path).await["spec"]["devices"].clone();
    known[0]["taints"].as_array_mut().unwrap().push(taint("c"));
    let change = json!({"spec": {"devices": known}});
    let patched = send(&client, "PATCH", &path, MERGE, &change).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    assert_eq!(
        [time(&patched.body, 0), time(&patched.body, 1)],
        [first.as_str(), old]
    );
    assert!(time(&patched.body, 2) > first);
}

#[tokio::test(start_paused = true)]
async fn api_services_tell_whether_they_are_available() {
    let cluster = DevCluster::with_managed_fields(clock());
    let client = cluster.client();
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let available = |object: &Value| {
        let condition = &object["status"]["conditions"][0];
        ["type", "status", "reason", "message"]
            .map(|field| condition[field].as_str().unwrap_or_default().to_owned())
    };
    let list = get(&client, path).await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 21);
    assert_eq!(items[0]["metadata"]["name"], "v1.");
    let local = [
        "Available",
        "True",
        "Local",
        "Local APIServices are always available",
    ];
    assert!(items.iter().all(|item| available(item) == local));
    assert_eq!(
        items[0]["metadata"]["managedFields"][0]["manager"],
        "kube-apiserver"
    );

    let metrics = json!({"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"group": "metrics.k8s.io", "version": "v1beta1",
        "groupPriorityMinimum": 100, "versionPriority": 100, "service": {"name": "metrics-server", "namespace": "kube-system"}}});
    let sent = send(&client, "POST", path, JSON, &metrics).await;
    assert_eq!(sent.code, 201, "{}", sent.body);
    let stored = get(&client, &format!("{path}/v1beta1.metrics.k8s.io")).await;
    assert_eq!(
        available(&stored),
        [
            "Available",
            "False",
            "ServiceNotFound",
            "service/metrics-server in \"kube-system\" is not present"
        ]
    );
}

#[tokio::test]
async fn the_service_of_the_api_server_has_endpoints() {
    let cluster = DevCluster::with_managed_fields(clock());
    let (_, door) = crate::support::both_doors(&cluster).await;
    let ip = door.address().ip().to_string();
    let port = door.address().port();
    let client = cluster.client();
    let endpoints = get(&client, "/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}])
    );
    let slice = get(
        &client,
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    )
    .await;
    assert_eq!(slice["endpoints"][0]["addresses"], json!([ip]));
    let managers = endpoints["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        managers[0]["fieldsV1"],
        json!({"f:metadata": {"f:labels": {".": {}, "f:endpointslice.kubernetes.io/skip-mirror": {}}}, "f:subsets": {}})
    );
}

/// Recorded from kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn refused_requests_carry_warnings() {
    let cluster = DevCluster::new(clock());
    let client = cluster.client();
    let unknown = "unknown field \"bogus\"";
    let deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    // (method, path, body, code, warnings)
    let cases = [
        (
            "POST",
            "configmaps",
            r#"{"metadata":{"name":"UPPER"},"bogus":1}"#,
            422,
            vec![unknown],
        ),
        (
            "POST",
            "configmaps",
            r#"{"metadata":{"name":"x","name":"UPPER"},"bogus":1}"#,
            422,
            vec![unknown, "duplicate field \"metadata.name\""],
        ),
        (
            "POST",
            "configmaps?fieldValidation=Strict",
            r#"{"metadata":{"name":"x"},"bogus":1}"#,
            400,
            vec![],
        ),
        (
            "PUT",
            "configmaps/none",
            r#"{"metadata":{"name":"none"},"bogus":1}"#,
            404,
            vec![unknown],
        ),
        (
            "PUT",
            "configmaps/none",
            r#"{"metadata":{"name":"other"},"bogus":1}"#,
            400,
            vec![unknown],
        ),
        (
            "POST",
            "endpoints",
            r#"{"metadata":{"name":"UPPER"}}"#,
            422,
            vec![deprecated],
        ),
        ("GET", "endpoints/none", "", 404, vec![deprecated]),
    ];
    for (method, path, body, code, warnings) in cases {
        let path = format!("/api/v1/namespaces/default/{path}");
        let answer = ask(&client, method, &path, JSON, body.as_bytes()).await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        assert_eq!(answer.warnings, warnings, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_the_status_of_its_creation() {
    let cluster = DevCluster::new(clock());
    let client = cluster.client();
    let node = json!({
        "metadata": {"name": "n"},
        "spec": {"configSource": {"configMap": {"name": "a", "namespace": "b", "kubeletConfigKey": "c"}}},
        "status": {"capacity": {"cpu": "4"}, "phase": "Running", "config": {"error": "x"}},
    });
    let made = send(&client, "POST", "/api/v1/nodes", JSON, &node).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let spec = &made.body["spec"];
    let status = &made.body["status"];
    assert_eq!(
        (
            &status["capacity"],
            &status["allocatable"],
            &status["phase"]
        ),
        (
            &json!({"cpu": "4"}),
            &json!({"cpu": "4"}),
            &json!("Running")
        )
    );
    assert_eq!(
        (&spec["configSource"], &status["config"]),
        (&Value::Null, &Value::Null)
    );
    let changed = json!({"status": {"phase": "Terminated"}});
    let changed = send(&client, "PATCH", "/api/v1/nodes/n", MERGE, &changed).await;
    assert_eq!(changed.body["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pod_template_counts_changes_of_its_template() {
    let cluster = DevCluster::new(clock());
    let client = cluster.client();
    let path = "/api/v1/namespaces/default/podtemplates";
    let template = json!({
        "metadata": {"name": "t"},
        "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    });
    let made = send(&client, "POST", path, JSON, &template).await;
    assert_eq!(made.body["metadata"]["generation"], 1);
    let cases = [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"template": {"metadata": {"labels": {"a": "b"}}}}), 2),
        (json!({"template": {"spec": {"nodeName": "n"}}}), 3),
    ];
    for (change, generation) in cases {
        let changed = send(&client, "PATCH", &format!("{path}/t"), MERGE, &change).await;
        assert_eq!(
            changed.body["metadata"]["generation"], generation,
            "{change}"
        );
    }
}

/// Recorded from kube-apiserver 1.36.2: the first change of the spec gives the first generation.
#[tokio::test(start_paused = true)]
async fn a_csi_driver_has_no_generation_before_its_first_change() {
    let cluster = DevCluster::new(clock());
    let client = cluster.client();
    let path = "/apis/storage.k8s.io/v1/csidrivers";
    let driver = json!({"metadata": {"name": "d.example.com"}, "spec": {}});
    let made = send(&client, "POST", path, JSON, &driver).await;
    assert_eq!(
        (made.code, &made.body["metadata"]["generation"]),
        (201, &Value::Null)
    );
    let cases = [
        (json!({"metadata": {"labels": {"a": "b"}}}), Value::Null),
        (json!({"spec": {"requiresRepublish": true}}), json!(1)),
        (json!({"spec": {"podInfoOnMount": true}}), json!(2)),
    ];
    for (change, generation) in cases {
        let path = format!("{path}/d.example.com");
        let changed = send(&client, "PATCH", &path, MERGE, &change).await;
        assert_eq!(
            changed.body["metadata"]["generation"], generation,
            "{change}"
        );
    }
}
