//! Admission: quotas, limits, ServiceAccounts, priorities, tolerations, taints, and classes of claims,
//! Ingresses and pods.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::status::Status;
use steersman_devcluster::{Admission, DevCluster};
use steersman_values::clock::Clock;

fn clock() -> Clock {
    Clock::runtime("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = object(
        "v1",
        "Pod",
        name,
        json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    pod
}

fn quota(name: &str, spec: Value) -> Value {
    object("v1", "ResourceQuota", name, json!({"spec": spec}))
}

fn asking(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]})
}

async fn used(cluster: &DevCluster, name: &str) -> Value {
    cluster
        .get(&cluster.path("resourcequotas", "default", name))
        .await
        .unwrap()["status"]["used"]
        .clone()
}

fn refused(answer: Result<Value, Status>) -> (u16, String) {
    let status = answer.expect_err("the request is refused");
    (status.code, status.message)
}

#[tokio::test(start_paused = true)]
async fn quotas_count_usage_and_refuse_excess() {
    let cluster = DevCluster::new(clock());
    cluster
        .create(quota(
            "q",
            json!({"hard": {"pods": "1", "configmaps": "1", "count/deployments.apps": "0"}}),
        ))
        .await
        .unwrap();
    assert_eq!(
        used(&cluster, "q").await,
        json!({"configmaps": "0", "count/deployments.apps": "0", "pods": "0"})
    );

    cluster.create(pod("a", json!({}))).await.unwrap();
    assert_eq!(used(&cluster, "q").await["pods"], "1");
    let why = "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(
        refused(cluster.create(pod("b", json!({}))).await),
        (403, why.to_owned())
    );
    assert_eq!(cluster.count("pods"), 1);

    // Finished and deleted pods do not count.
    let path = cluster.path("pods", "default", "a");
    cluster
        .patch(
            &format!("{path}/status"),
            json!({"status": {"phase": "Succeeded"}}),
        )
        .await
        .unwrap();
    assert_eq!(used(&cluster, "q").await["pods"], "0");
    cluster.create(pod("b", json!({}))).await.unwrap();
    cluster
        .delete(&cluster.path("pods", "default", "b"))
        .await
        .unwrap();
    assert_eq!(used(&cluster, "q").await["pods"], "0");

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let (code, why) = refused(
        cluster
            .create(object("apps/v1", "Deployment", "d", spec))
            .await,
    );
    assert_eq!(code, 403);
    let expected = "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, limited: \
                    count/deployments.apps=0";
    assert!(why.ends_with(expected), "{why}");
}

#[tokio::test(start_paused = true)]
async fn quotas_count_the_difference_of_an_update() {
    let cluster = DevCluster::new(clock());
    cluster
        .create(quota(
            "q",
            json!({"hard": {"services": "5", "services.nodeports": "1"}}),
        ))
        .await
        .unwrap();
    let ports = |count: u16| {
        (0..count)
            .map(|i| json!({"name": format!("p{i}"), "port": 80 + i}))
            .collect::<Value>()
    };
    cluster
        .create(object(
            "v1",
            "Service",
            "s",
            json!({"spec": {"ports": ports(2)}}),
        ))
        .await
        .unwrap();
    let path = cluster.path("services", "default", "s");
    let (code, why) = refused(
        cluster
            .patch(&path, json!({"spec": {"type": "NodePort"}}))
            .await,
    );
    let expected = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
                    limited: services.nodeports=1";
    assert_eq!((code, &*why), (403, expected));
    assert_eq!(
        cluster.get(&path).await.unwrap()["spec"]["type"],
        "ClusterIP"
    );

    cluster
        .patch(
            &path,
            json!({"spec": {"type": "NodePort", "ports": ports(1)}}),
        )
        .await
        .unwrap();
    assert_eq!(
        used(&cluster, "q").await,
        json!({"services": "1", "services.nodeports": "1"})
    );
    // Usage that was counted before is not counted again.
    cluster
        .patch(&path, json!({"spec": {"sessionAffinity": "ClientIP"}}))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn compute_quotas_require_requests_and_scopes_select_pods() {
    let cluster = DevCluster::new(clock());
    cluster
        .create(quota(
            "q",
            json!({"hard": {"requests.cpu": "1"}, "scopes": ["NotTerminating"]}),
        ))
        .await
        .unwrap();
    let why = "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c";
    assert_eq!(
        refused(cluster.create(pod("a", json!({}))).await),
        (403, why.to_owned())
    );
    cluster
        .create(pod("short", json!({"activeDeadlineSeconds": 60})))
        .await
        .unwrap();
    cluster
        .create(pod("a", asking(json!({"cpu": "600m"}))))
        .await
        .unwrap();
    assert_eq!(used(&cluster, "q").await, json!({"requests.cpu": "600m"}));
    let why = "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: \
               requests.cpu=1";
    assert_eq!(
        refused(
            cluster
                .create(pod("b", asking(json!({"cpu": "600m"}))))
                .await
        ),
        (403, why.to_owned())
    );
}

/// Two tasks on two threads race for the rest of a quota many times. The quota is never exceeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creations_cannot_exceed_a_quota() {
    let cluster = DevCluster::new(clock());
    cluster
        .create(quota("q", json!({"hard": {"configmaps": "10"}})))
        .await
        .unwrap();
    let racing: Vec<_> = (0..2)
        .map(|racer| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for i in 0..20 {
                    let _ = cluster
                        .create(object(
                            "v1",
                            "ConfigMap",
                            &format!("m-{racer}-{i}"),
                            json!({}),
                        ))
                        .await;
                }
            })
        })
        .collect();
    for racer in racing {
        racer.await.unwrap();
    }
    assert_eq!(
        (cluster.count("configmaps"), used(&cluster, "q").await),
        (10, json!({"configmaps": "10"}))
    );
}

#[tokio::test(start_paused = true)]
async fn limits_complete_and_refuse_pods_and_claims() {
    let cluster = DevCluster::new(clock());
    let limits = json!([
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]);
    cluster
        .create(object(
            "v1",
            "LimitRange",
            "l",
            json!({"spec": {"limits": limits}}),
        ))
        .await
        .unwrap();
    let made = cluster.create(pod("a", json!({}))).await.unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let big =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]});
    let why = "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    assert_eq!(
        refused(cluster.create(pod("b", big)).await),
        (403, why.to_owned())
    );
    let spec = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let why = "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi";
    assert_eq!(
        refused(
            cluster
                .create(object("v1", "PersistentVolumeClaim", "c", spec.clone()))
                .await
        ),
        (403, why.to_owned())
    );

    // The limit came after this claim.
    let limits = cluster.path("limitranges", "default", "l");
    let range = cluster.get(&limits).await.unwrap();
    cluster.delete(&limits).await.unwrap();
    let mut claim = object("v1", "PersistentVolumeClaim", "c", spec);
    claim["metadata"]["finalizers"] = json!(["example.com/f"]);
    cluster.create(claim).await.unwrap();
    let spec = range["spec"].clone();
    cluster
        .create(object("v1", "LimitRange", "l", json!({"spec": spec})))
        .await
        .unwrap();
    let path = cluster.path("persistentvolumeclaims", "default", "c");
    let labelled = || json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        refused(cluster.patch(&path, labelled()).await),
        (403, why.to_owned())
    );
    cluster.delete(&path).await.unwrap();
    assert!(cluster.patch(&path, labelled()).await.is_ok());
}

/// The texts are those of kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn an_account_can_limit_its_pods_to_its_own_secrets() {
    let cluster = DevCluster::full(clock());
    let mut account = object(
        "v1",
        "ServiceAccount",
        "strict",
        json!({"secrets": [{"name": "own"}], "imagePullSecrets": [{"name": "pull"}]}),
    );
    account["metadata"]["annotations"] = json!({"kubernetes.io/enforce-mountable-secrets": "true"});
    cluster.create(account).await.unwrap();
    let of = |account: &str, secret: &str| {
        let volume = json!({"name": "v", "secret": {"secretName": secret}});
        json!({"serviceAccountName": account, "volumes": [volume]})
    };
    for (name, account, secret) in [("a", "strict", "own"), ("b", "default", "x")] {
        let made = cluster.create(pod(name, of(account, secret))).await;
        assert!(made.is_ok(), "{made:?}");
    }
    let why = "pods \"c\" is forbidden: volume with secret.secretName=\"x\" is not allowed because service account \
               strict does not reference that secret";
    assert_eq!(
        refused(cluster.create(pod("c", of("strict", "x"))).await),
        (403, why.to_owned())
    );

    let path = format!(
        "{}/ephemeralcontainers",
        cluster.path("pods", "default", "a")
    );
    let debugging = |secret: &str| {
        let source = json!([{"secretRef": {"name": secret}}]);
        let container = json!({"name": "e", "image": "i", "envFrom": source, "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File"});
        json!({"spec": {"ephemeralContainers": [container]}})
    };
    let why = "ephemeral container e with envFrom referencing secret.secretName=\"x\" is not allowed because service \
               account strict does not reference that secret";
    assert_eq!(
        refused(cluster.patch(&path, debugging("x")).await),
        (500, why.to_owned())
    );
    assert!(cluster.patch(&path, debugging("own")).await.is_ok());

    let mut mirror = pod("m", of("", "own"));
    mirror["spec"]["nodeName"] = "n".into();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let why = "pods \"m\" is forbidden: a mirror pod may not reference secrets";
    assert_eq!(
        refused(cluster.create(mirror.clone()).await),
        (403, why.to_owned())
    );
    let token = json!({"serviceAccountToken": {"path": "t"}});
    mirror["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [token]}}]);
    let why =
        "pods \"m\" is forbidden: a mirror pod may not use ServiceAccountToken volume projections";
    assert_eq!(refused(cluster.create(mirror).await), (403, why.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn pods_get_accounts_and_priorities_if_enabled() {
    let cluster = DevCluster::full(clock());
    let made = cluster
        .create(pod(
            "a",
            json!({"priorityClassName": "system-node-critical"}),
        ))
        .await
        .unwrap();
    let spec = &made["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    assert_eq!(
        (&spec["priority"], &spec["preemptionPolicy"]),
        (&json!(2_000_001_000), &json!("PreemptLowerPriority"))
    );
    let volume = &spec["volumes"][0];
    assert_eq!(
        spec["containers"][0]["volumeMounts"][0]["name"],
        volume["name"]
    );
    assert_eq!(
        volume["projected"]["sources"][1]["configMap"]["name"],
        "kube-root-ca.crt"
    );
    let made = cluster.create(pod("plain", json!({}))).await.unwrap();
    assert_eq!(
        (
            &made["spec"]["priority"],
            &made["spec"]["priorityClassName"]
        ),
        (&json!(0), &Value::Null)
    );
    // A client that does not know the field leaves it out.
    let mut without = made.clone();
    without["spec"].as_object_mut().unwrap().remove("priority");
    without["metadata"]["labels"] = json!({"a": "b"});
    let path = "/api/v1/namespaces/default/pods/plain";
    let changed = crate::support::send(&cluster, "PUT", path, &without).await;
    assert_eq!(
        (changed.code, &changed.body["spec"]["priority"]),
        (200, &json!(0)),
        "{}",
        changed.body
    );

    let unknown = [
        (
            json!({"serviceAccountName": "x"}),
            "error looking up service account default/x: serviceaccount \"x\" not found",
        ),
        (
            json!({"priorityClassName": "x"}),
            "no PriorityClass with name x was found",
        ),
    ];
    for (spec, why) in unknown {
        assert_eq!(
            refused(cluster.create(pod("b", spec)).await),
            (403, format!("pods \"b\" is forbidden: {why}"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_namespace_keeps_its_account_and_certificate() {
    let cluster = DevCluster::full(clock());
    let names = |plural: &str, namespace: &str| -> Vec<String> {
        let objects = cluster
            .objects(plural)
            .into_iter()
            .filter(|object| object["metadata"]["namespace"] == namespace);
        objects
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))
        .await
        .unwrap();
    for namespace in ["default", "team"] {
        cluster
            .delete(&cluster.path("serviceaccounts", namespace, "default"))
            .await
            .unwrap();
        assert_eq!(names("serviceaccounts", namespace), ["default"]);
        assert_eq!(names("configmaps", namespace), ["kube-root-ca.crt"]);
    }
    // A terminating namespace gets no new account.
    cluster.delete("/api/v1/namespaces/team").await.unwrap();
    cluster
        .delete(&cluster.path("serviceaccounts", "team", "default"))
        .await
        .unwrap();
    assert!(names("serviceaccounts", "team").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_tolerate_failed_nodes_for_five_minutes_if_enabled() {
    let cluster = DevCluster::full(clock());
    let default = |key: &str| {
        json!({
            "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300,
        })
    };
    let own = |fields: Value| {
        let mut toleration = json!({"operator": "Exists"});
        let fields = fields.as_object().unwrap().clone();
        toleration.as_object_mut().unwrap().extend(fields);
        toleration
    };
    let key = |key: &str| json!(format!("node.kubernetes.io/{key}"));
    // (own toleration, default ones behind it)
    let cases = [
        (None, vec!["not-ready", "unreachable"]),
        (Some(own(json!({}))), vec![]),
        (Some(own(json!({"effect": "NoExecute"}))), vec![]),
        (
            Some(own(json!({"effect": "NoSchedule"}))),
            vec!["not-ready", "unreachable"],
        ),
        (
            Some(own(json!({"key": "other"}))),
            vec!["not-ready", "unreachable"],
        ),
        (
            Some(own(json!({"key": key("not-ready")}))),
            vec!["unreachable"],
        ),
        (
            Some(own(json!({
                "key": key("unreachable"), "effect": "NoExecute", "tolerationSeconds": 5,
            }))),
            vec!["not-ready"],
        ),
        (
            Some(own(
                json!({"key": key("unreachable"), "effect": "NoSchedule"}),
            )),
            vec!["not-ready", "unreachable"],
        ),
    ];
    for (index, (own, defaults)) in cases.into_iter().enumerate() {
        let own: Vec<Value> = own.into_iter().collect();
        let name = format!("p{index}");
        let made = cluster.create(pod(&name, json!({"tolerations": own})));
        let made = made.await.unwrap();
        let defaults = defaults.into_iter().map(default);
        let expected: Vec<Value> = own.into_iter().chain(defaults).collect();
        assert_eq!(made["spec"]["tolerations"], json!(expected));
    }
    // An update adds them, too.
    cluster
        .load(pod("old", json!({"dnsPolicy": "Default"})))
        .unwrap();
    let path = cluster.path("pods", "default", "old");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let status = json!({"status": {"phase": "Running"}});
    let changed = cluster
        .patch(&format!("{path}/status"), status)
        .await
        .unwrap();
    assert!(changed["spec"]["tolerations"].is_null());
    let changed = cluster.patch(&path, label).await.unwrap();
    let expected = [default("not-ready"), default("unreachable")];
    assert_eq!(changed["spec"]["tolerations"], json!(expected));
}

#[tokio::test(start_paused = true)]
async fn new_nodes_are_tainted_if_enabled() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let not_ready = "node.kubernetes.io/not-ready";
    let admitted = taint(not_ready, "NoSchedule");
    // (taints, expected)
    let cases = [
        (vec![], vec![admitted.clone()]),
        (vec![admitted.clone()], vec![admitted.clone()]),
        (
            vec![taint(not_ready, "NoExecute"), taint("k", "NoSchedule")],
            vec![
                taint(not_ready, "NoExecute"),
                taint("k", "NoSchedule"),
                admitted.clone(),
            ],
        ),
    ];
    let node = |taints: &[Value]| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "spec": {"taints": taints},
        })
    };
    for (taints, expected) in cases {
        let cluster = DevCluster::full(clock());
        let made = cluster.create(node(&taints)).await.unwrap();
        assert_eq!(made["spec"]["taints"], json!(expected));
        // The taint can be removed.
        let change = json!({"spec": {"taints": null}});
        let changed = cluster.patch("/api/v1/nodes/n", change).await.unwrap();
        assert!(changed["spec"]["taints"].is_null());
    }
    let made = DevCluster::new(clock()).create(node(&[])).await.unwrap();
    assert!(made["spec"]["taints"].is_null());
}

/// A snapshot keeps the configured plugins. Plugins that are enabled later act in existing
/// namespaces, too.
#[tokio::test(start_paused = true)]
async fn a_fork_keeps_its_admission_plugins_by_default() {
    let has_account = async |cluster: &DevCluster| {
        let made = cluster.create(pod("a", json!({}))).await.unwrap();
        made["spec"]["serviceAccountName"] == "default"
    };
    let full = DevCluster::full(clock()).snapshot();
    assert!(has_account(&full.fork()).await);
    let begun = async |admission: Option<Admission>, snapshot| {
        let builder = DevCluster::builder().snapshot(snapshot);
        admission
            .into_iter()
            .fold(builder, |builder, admission| builder.admission(admission))
            .start()
            .await
            .unwrap()
    };
    assert!(has_account(&begun(None, &full).await).await);
    assert!(!has_account(&begun(Some(Admission::default()), &full).await).await);
    let bare = DevCluster::new(clock());
    assert!(!has_account(&bare.fork()).await);
    assert!(has_account(&begun(Some(Admission::FULL), &bare.snapshot()).await).await);
}

fn class(name: &str, mark: &str) -> Value {
    let rest = json!({"provisioner": "example.com/disk", "allowVolumeExpansion": name == "grows"});
    let mut class = object("storage.k8s.io/v1", "StorageClass", name, rest);
    class["metadata"] =
        json!({"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": mark}});
    class
}

fn claim(name: &str, class: Value) -> Value {
    let requests = json!({"requests": {"storage": "1Gi"}});
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": class});
    object("v1", "PersistentVolumeClaim", name, json!({ "spec": spec }))
}

#[tokio::test(start_paused = true)]
async fn claims_without_a_class_get_the_newest_default_class() {
    let cluster = DevCluster::new(clock());
    let class_of = async |name: &str, class: Value| {
        let made = cluster.create(claim(name, class)).await.unwrap();
        made["spec"]["storageClassName"].clone()
    };
    cluster.create(class("other", "false")).await.unwrap();
    assert_eq!(class_of("none", Value::Null).await, Value::Null);
    for name in ["b", "a"] {
        cluster.create(class(name, "true")).await.unwrap();
    }
    assert_eq!(class_of("first-name", Value::Null).await, "a");
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    cluster.create(class("newer", "true")).await.unwrap();
    assert_eq!(class_of("newest", Value::Null).await, "newer");
    assert_eq!(class_of("own", json!("other")).await, "other");
    assert_eq!(class_of("unclassed", json!("")).await, "");
}

#[tokio::test(start_paused = true)]
async fn ingresses_without_a_class_get_the_default_class() {
    let cluster = DevCluster::new(clock());
    let class_of = async |name: &str, metadata: Value, spec: Value| {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let mut ingress = object(
            "networking.k8s.io/v1",
            "Ingress",
            name,
            json!({"spec": spec}),
        );
        ingress["spec"]["defaultBackend"] = backend;
        ingress["metadata"]["annotations"] = metadata;
        let made = cluster.create(ingress).await.unwrap();
        made["spec"]["ingressClassName"].clone()
    };
    assert_eq!(class_of("none", json!({}), json!({})).await, Value::Null);
    let spec = json!({"controller": "example.com/proxy"});
    let mut class = object(
        "networking.k8s.io/v1",
        "IngressClass",
        "proxy",
        json!({"spec": spec}),
    );
    class["metadata"] = json!({"name": "proxy", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}});
    cluster.create(class).await.unwrap();
    assert_eq!(class_of("default", json!({}), json!({})).await, "proxy");
    let own = json!({"ingressClassName": "other"});
    assert_eq!(class_of("own", json!({}), own).await, "other");
    let older = json!({"kubernetes.io/ingress.class": "other"});
    assert_eq!(class_of("older", older, json!({})).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn pods_follow_their_runtime_class() {
    let cluster = DevCluster::new(clock());
    let named = json!({"runtimeClassName": "heavy"});
    let missing = refused(cluster.create(pod("early", named.clone())).await);
    let why = "pods \"early\" is forbidden: pod rejected: RuntimeClass \"heavy\" not found";
    assert_eq!(missing, (403, why.to_owned()));

    let mut class = object(
        "node.k8s.io/v1",
        "RuntimeClass",
        "heavy",
        json!({"handler": "heavy"}),
    );
    class["metadata"] = json!({"name": "heavy"});
    class["overhead"] = json!({"podFixed": {"cpu": "250m"}});
    class["scheduling"] = json!({"nodeSelector": {"runtime": "heavy"}});
    cluster.create(class).await.unwrap();
    let made = cluster.create(pod("late", named)).await.unwrap();
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"runtime": "heavy"}));

    let overhead = json!({"overhead": {"cpu": "1"}});
    let (code, message) = refused(cluster.create(pod("heavier", overhead)).await);
    let why = "pods \"heavier\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!((code, message.as_str()), (403, why));
}

#[tokio::test(start_paused = true)]
async fn bound_claims_grow_where_their_class_allows_it() {
    let cluster = DevCluster::new(clock());
    for name in ["grows", "fixed"] {
        cluster.create(class(name, "false")).await.unwrap();
        cluster.create(claim(name, json!(name))).await.unwrap();
    }
    let path = |name: &str| cluster.path("persistentvolumeclaims", "default", name);
    let request = async |name: &str, size: &str| {
        let body = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        cluster.patch(&path(name), body).await
    };
    let (code, message) = refused(request("grows", "2Gi").await);
    let immutable = "PersistentVolumeClaim \"grows\" is invalid: spec: Forbidden: spec is immutable after creation except \
                     resources.requests and volumeAttributesClassName for bound claims\n";
    assert!(code == 422 && message.starts_with(immutable), "{message}");
    for name in ["grows", "fixed"] {
        let status = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        let path = format!("{}/status", path(name));
        cluster.patch(&path, status).await.unwrap();
    }
    let fixed = "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc can be resized and the \
                 storageclass that provisions the pvc must support resize";
    let shrunk = "PersistentVolumeClaim \"grows\" is invalid: spec.resources.requests.storage: Forbidden: field can not be less \
                  than status.capacity";
    assert_eq!(
        refused(request("fixed", "2Gi").await),
        (403, fixed.to_owned())
    );
    request("grows", "2Gi").await.unwrap();
    assert_eq!(
        refused(request("grows", "1Mi").await),
        (422, shrunk.to_owned())
    );
}

/// Upstream: `TestAdmit` of `storageobjectinuseprotection`.
#[tokio::test(start_paused = true)]
async fn new_objects_of_storage_get_the_finalizer_that_protects_them() {
    let protected = Admission {
        protected_claims: true,
        protected_volumes: true,
        protected_classes: true,
        ..Admission::default()
    };
    let volume = || {
        let spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "h"},
        });
        object("v1", "PersistentVolume", "a", json!({ "spec": spec }))
    };
    let attributes = || {
        let fields = json!({"driverName": "d", "parameters": {"iops": "1"}});
        object("storage.k8s.io/v1", "VolumeAttributesClass", "a", fields)
    };
    for (admission, is_on) in [(protected, true), (Admission::FULL, false)] {
        let cluster = DevCluster::builder().clock(clock()).admission(admission);
        let cluster = cluster.start().await.unwrap();
        // (object, finalizer)
        let cases = [
            (claim("a", Value::Null), "kubernetes.io/pvc-protection"),
            (volume(), "kubernetes.io/pv-protection"),
            (attributes(), "kubernetes.io/vac-protection"),
        ];
        for (mut new, finalizer) in cases {
            let created = cluster.create(new.clone()).await.unwrap();
            let expected = if is_on {
                json!([finalizer])
            } else {
                Value::Null
            };
            assert_eq!(created["metadata"]["finalizers"], expected, "{finalizer}");
            new["metadata"]["name"] = json!("b");
            new["metadata"]["finalizers"] = json!([finalizer, "example.com/keep"]);
            let created = cluster.create(new.clone()).await.unwrap();
            let finalizers = &created["metadata"]["finalizers"];
            assert_eq!(*finalizers, new["metadata"]["finalizers"]);
        }
    }
}

/// Recorded from kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn pods_get_the_zone_and_region_of_their_node() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    let cluster = DevCluster::new(clock());
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {ZONE: "a", REGION: "r", "topology.kubernetes.io/other": "o"}},
    });
    cluster.create(node).await.unwrap();
    let mut placed = pod("placed", json!({"nodeName": "n"}));
    placed["metadata"]["labels"] = json!({ZONE: "mine"});
    let placed = cluster.create(placed).await.unwrap();
    assert_eq!(
        placed["metadata"]["labels"],
        json!({ZONE: "a", REGION: "r"})
    );

    // (name, target of the binding, labels)
    let cases = [
        (
            "bound",
            json!({"kind": "Node", "name": "n"}),
            json!({"x": "y", ZONE: "a", REGION: "r"}),
        ),
        ("without-kind", json!({"name": "n"}), json!({"x": "y"})),
    ];
    for (name, target, labels) in cases {
        cluster.create(pod(name, json!({}))).await.unwrap();
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let binding = json!({"metadata": {"name": name, "labels": {"x": "y"}}, "target": target});
        let answer =
            crate::support::send(&cluster, "POST", &format!("{path}/binding"), &binding).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let bound = cluster.get(&path).await.unwrap();
        assert_eq!(bound["metadata"]["labels"], labels, "{name}");
    }

    let gated = json!({"schedulingGates": [{"name": "g"}]});
    cluster.create(pod("gated", gated)).await.unwrap();
    let path = "/api/v1/namespaces/default/pods/gated/binding";
    let binding = json!({"metadata": {"name": "gated"}, "target": {"kind": "Node", "name": "n"}});
    let answer = crate::support::send(&cluster, "POST", path, &binding).await;
    assert_eq!(
        (answer.code, answer.body["message"].as_str()),
        (
            409,
            Some(
                "Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty .spec.schedulingGates"
            )
        )
    );
}
