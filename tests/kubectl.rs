//! Deployments, ReplicaSets and other objects under the commands of the real kubectl.

use std::path::{Path, PathBuf};

use crate::harness::Cluster;
use crate::support::skip;

/// A manifest of the Deployment `web`.
fn web(replicas: u32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, labels: {{app: web}}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      \
         containers: [{{name: main, image: '{image}'}}]\n"
    )
}

/// Waits until the Deployment `web` is rolled out.
fn rolled_out(cluster: &Cluster) {
    rolled_out_as(cluster, "web");
}

fn rolled_out_as(cluster: &Cluster, name: &str) {
    let said = cluster.kubectl(&format!("rollout status deployment/{name} --timeout=60s"));
    assert!(said.contains("successfully rolled out"), "{said}");
}

#[test]
fn a_deployment_rolls_out_scales_rolls_back_and_is_deleted() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.apply(&web(3, "app:v1"));
    rolled_out(&cluster);
    assert_eq!(
        cluster.get(
            "deployment/web",
            "{.metadata.annotations.deployment\\.kubernetes\\.io/revision}"
        ),
        "1"
    );
    assert_eq!(
        cluster.get("pods", "{.items[*].spec.containers[0].image}"),
        "app:v1 app:v1 app:v1"
    );

    cluster.kubectl("set image deployment/web main=app:v2");
    rolled_out(&cluster);
    cluster.eventually(
        "get pods -o jsonpath={.items[*].spec.containers[0].image}",
        |images| images == "app:v2 app:v2 app:v2",
    );
    let history = cluster.kubectl("rollout history deployment/web");
    assert!(
        history.contains("1         <none>") && history.contains("2         <none>"),
        "{history}"
    );

    cluster.kubectl("rollout undo deployment/web");
    rolled_out(&cluster);
    cluster.eventually(
        "get pods -o jsonpath={.items[*].spec.containers[0].image}",
        |images| images == "app:v1 app:v1 app:v1",
    );
    assert_eq!(
        cluster.get(
            "deployment/web",
            "{.metadata.annotations.deployment\\.kubernetes\\.io/revision}"
        ),
        "3"
    );

    cluster.kubectl("scale deployment/web --replicas=5");
    rolled_out(&cluster);
    cluster.eventually("get pods --no-headers", |pods| {
        pods.matches("Running").count() == 5
    });
    cluster.kubectl("scale deployment/web --replicas=1");
    cluster.eventually("get pods --no-headers", |pods| pods.lines().count() == 1);

    cluster.kubectl("rollout restart deployment/web");
    rolled_out(&cluster);

    cluster.kubectl("delete deployment web");
    assert_eq!(cluster.get("deployments", "{.items[*].metadata.name}"), "");
}

#[test]
fn a_deleted_namespace_takes_all_its_objects_along() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.apply(&web(2, "app:v1"));
    rolled_out(&cluster);
    cluster.kubectl("create configmap settings --from-literal=a=b");
    // kubectl returns when its watch reports the deletion of the namespace.
    let said = cluster.kubectl(&format!(
        "delete namespace {} --timeout=60s",
        cluster.namespace()
    ));
    assert!(said.contains("deleted"), "{said}");
    let left = cluster
        .kubectl("get deployments,replicasets,pods,configmaps --no-headers --ignore-not-found");
    assert_eq!(left.trim(), "");
    let missing = cluster.try_kubectl("create configmap settings");
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(error.contains("not found"), "{error}");
}

#[test]
fn deletion_follows_every_propagation_policy() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let names = |kind: &str| cluster.get(kind, "{.items[*].metadata.name}");
    let is_empty = |text: &str| text.is_empty();
    for cascade in ["background", "foreground"] {
        cluster.apply(&web(2, "app:v1"));
        rolled_out(&cluster);
        cluster.kubectl(&format!(
            "delete deployment web --cascade={cascade} --timeout=60s"
        ));
        if cascade == "foreground" {
            assert_eq!(
                (names("replicasets"), names("pods")),
                (String::new(), String::new()),
                "all dependents are deleted before the owner"
            );
        }
        cluster.eventually(
            "get replicasets,pods -o jsonpath={.items[*].metadata.name}",
            is_empty,
        );
    }
    cluster.apply(&web(2, "app:v1"));
    rolled_out(&cluster);
    cluster.kubectl("delete deployment web --cascade=orphan --timeout=60s");
    assert_eq!(names("pods").split_whitespace().count(), 2);
    let owners = cluster.get("replicasets", "{.items[*].metadata.ownerReferences}");
    assert_eq!(owners, "", "the orphaned ReplicaSet has no owner");
    cluster.kubectl("delete replicasets --all --timeout=60s");
    cluster.eventually("get pods -o jsonpath={.items[*].metadata.name}", is_empty);
}

#[test]
fn a_paused_rollout_continues_when_it_is_resumed() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.apply(&web(2, "app:v1"));
    rolled_out(&cluster);
    cluster.kubectl("rollout pause deployment/web");
    cluster.kubectl("set image deployment/web main=app:v2");
    let condition = "{.status.conditions[?(@.type==\"Progressing\")].reason}";
    cluster.eventually(
        &format!("get deployment web -o jsonpath={condition}"),
        |reason| reason == "DeploymentPaused",
    );
    cluster.eventually(
        "get deployment web -o jsonpath={.status.observedGeneration}={.metadata.generation}",
        |pair| {
            pair.split_once('=')
                .is_some_and(|(observed, generation)| observed == generation)
        },
    );
    assert_eq!(
        cluster.get(
            "replicasets",
            "{.items[*].spec.template.spec.containers[0].image}"
        ),
        "app:v1"
    );
    cluster.kubectl("rollout resume deployment/web");
    rolled_out(&cluster);
    cluster.eventually(
        "get pods -o jsonpath={.items[*].spec.containers[0].image}",
        |images| images == "app:v2 app:v2",
    );
}

#[test]
fn tables_describe_and_wait_have_kubectls_usual_output() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.apply(&web(2, "app:v1"));
    cluster.kubectl("wait --for=condition=Available deployment/web --timeout=60s");
    rolled_out(&cluster);

    let table = cluster.kubectl("get deployments");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    );
    assert_eq!(lines[1][..4], ["web", "2/2", "2", "2"]);
    let table = cluster.kubectl("get replicasets");
    assert!(table.starts_with("NAME"), "{table}");
    assert_eq!(
        table
            .lines()
            .nth(1)
            .unwrap()
            .split_whitespace()
            .skip(1)
            .take(3)
            .collect::<Vec<_>>(),
        ["2", "2", "2"]
    );
    let pods = cluster.kubectl("get pods -o wide");
    assert_eq!(pods.matches("1/1").count(), 2, "{pods}");
    assert!(pods.contains("node-"), "{pods}");
    let nodes = cluster.kubectl("get nodes");
    assert!(nodes.contains("Ready"), "{nodes}");

    let hash = cluster.get(
        "replicasets",
        "{.items[0].metadata.labels.pod-template-hash}",
    );
    let described = cluster.kubectl("describe deployment web");
    for expected in [
        "Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable",
        "StrategyType:           RollingUpdate",
        "25% max unavailable, 25% max surge",
        "MinimumReplicasAvailable",
        "NewReplicaSetAvailable",
        &format!("NewReplicaSet:   web-{hash} (2/2 replicas created)"),
        &format!("Scaled up replica set web-{hash} from 0 to 2"),
    ] {
        assert!(
            described.contains(expected),
            "no {expected:?} in:\n{described}"
        );
    }
    let described = cluster.kubectl(&format!("describe replicaset web-{hash}"));
    assert!(described.contains("Created pod: web-"), "{described}");

    cluster.kubectl("delete deployment web --wait=false");
    cluster.kubectl("wait --for=delete deployment/web --timeout=60s");
}

#[test]
fn a_rollout_of_failing_pods_is_reported_and_undone() {
    let Some(cluster) = Cluster::start().and_then(Cluster::with_simulated_nodes) else {
        return;
    };
    cluster.apply(&web(3, "app:v1"));
    rolled_out(&cluster);
    cluster.kubectl(
        "patch deployment web -p {\"spec\":{\"progressDeadlineSeconds\":2,\"template\":{\"metadata\":{\"annotations\":{\"simulate.steersman.dev/behaviour\":\"fail\"}}}}}",
    );
    let said = cluster.try_kubectl("rollout status deployment/web --timeout=60s");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("exceeded its progress deadline"), "{said}");
    assert_eq!(
        cluster.get("deployment/web", "{.status.availableReplicas}"),
        "3"
    );
    cluster.eventually("get pods", |pods| pods.contains("CrashLoopBackOff"));
    cluster.kubectl("rollout undo deployment/web");
    rolled_out(&cluster);
    cluster.eventually("get pods --no-headers", |pods| {
        pods.lines().count() == 3 && !pods.contains("CrashLoop")
    });
}

#[test]
fn invalid_manifests_are_refused_with_the_servers_message() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    // (why, manifest, part of the error)
    let mismatch = web(1, "a").replace(
        "selector: {matchLabels: {app: web}}",
        "selector: {matchLabels: {app: other}}",
    );
    let everything = web(1, "a").replace("selector: {matchLabels: {app: web}}", "selector: {}");
    let cases = [
        ("syntax", "a: [1,\n b: }".to_owned(), "error"),
        (
            "selector mismatch",
            mismatch,
            "`selector` does not match template `labels`",
        ),
        (
            "selector of everything",
            everything,
            "empty selector is invalid for deployment",
        ),
        (
            "negative replicas",
            web(1, "a").replace("replicas: 1", "replicas: -1"),
            "must be greater than or equal to 0",
        ),
        (
            "unknown kind of a known group",
            web(1, "a").replace("Deployment", "Deploymint"),
            "no matches for kind \"Deploymint\" in version \"apps/v1\"",
        ),
        (
            "unknown kind",
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n".to_owned(),
            "no matches for kind",
        ),
    ];
    for (why, manifest, words) in cases {
        let output = cluster.kubectl_file("apply -f", &manifest);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains(words),
            "{why}: {error}"
        );
    }
    let missing = cluster.try_kubectl("get deployment nope");
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(
        error.contains("deployments.apps \"nope\" not found"),
        "{error}"
    );
}

/// The folder of real-world manifests; `None`, with a message, if it is missing.
fn manifests() -> Option<PathBuf> {
    let root = std::env::var_os("STEERSMAN_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let folder = root.join("data/manifests");
    if !folder.exists() {
        skip(&format!(
            "no {}; STEERSMAN_SHARED names another place",
            folder.display()
        ));
        return None;
    }
    Some(folder)
}

/// Applies a real-world manifest, waits for all its Deployments, and deletes it again.
fn real_world(file: &str) {
    let Some(manifests) = manifests() else { return };
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.kubectl(&format!("apply -f {}", manifests.join(file).display()));
    let names = cluster.get("deployments", "{.items[*].metadata.name}");
    assert!(!names.is_empty());
    for name in names.split_whitespace() {
        let said = cluster.kubectl(&format!("rollout status deployment/{name} --timeout=90s"));
        assert!(said.contains("successfully rolled out"), "{said}");
    }
    // A second apply changes nothing.
    let again = cluster.kubectl(&format!("apply -f {}", manifests.join(file).display()));
    assert!(
        again.lines().all(|line| line.ends_with("unchanged")),
        "{again}"
    );
    cluster.kubectl(&format!("delete -f {}", manifests.join(file).display()));
    assert_eq!(cluster.get("deployments", "{.items[*].metadata.name}"), "");
}

#[test]
fn guestbook_runs() {
    real_world("guestbook.yaml");
}

#[test]
fn online_boutique_runs() {
    real_world("online-boutique.yaml");
}

#[test]
fn guestbook_of_replication_controllers_runs() {
    let Some(folder) = manifests().map(|manifests| manifests.join("guestbook-rc")) else {
        return;
    };
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let apply = format!("apply -f {}", folder.display());
    cluster.kubectl(&apply);
    let available = "get replicationcontrollers -o jsonpath={range.items[*]}{.metadata.name}:{.status.availableReplicas},{end}";
    cluster.eventually(available, |all| all == "guestbook:3,redis-replica:2,");
    rolled_out_as(&cluster, "redis-master");
    let owner = cluster.get(
        "pods -l app=guestbook",
        "{.items[0].metadata.ownerReferences[0].kind}",
    );
    assert_eq!(owner, "ReplicationController");
    let table = cluster.kubectl("get replicationcontrollers redis-replica");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]);
    assert_eq!(lines[1][..4], ["redis-replica", "2", "2", "2"]);

    cluster.kubectl("scale replicationcontroller redis-replica --replicas=4");
    cluster.eventually(available, |all| all.contains("redis-replica:4"));
    cluster.kubectl("scale replicationcontroller redis-replica --replicas=1");
    cluster.eventually("get pods -l app=redis,role=replica --no-headers", |pods| {
        pods.lines().count() == 1
    });
    let described = cluster.kubectl("describe replicationcontroller redis-replica");
    for expected in [
        "Replicas:     1 current / 1 desired",
        "replication-controller  Created pod: redis-replica-",
        "Deleted pod: redis-replica-",
    ] {
        assert!(
            described.contains(expected),
            "no {expected:?} in:\n{described}"
        );
    }
    // A second apply resets only the scaled object.
    let again = cluster.kubectl(&apply);
    assert_eq!(
        again
            .lines()
            .filter(|line| !line.ends_with("unchanged"))
            .collect::<Vec<_>>(),
        ["replicationcontroller/redis-replica configured"]
    );
    cluster.kubectl(&format!("delete -f {}", folder.display()));
    assert_eq!(
        cluster.get("replicationcontrollers", "{.items[*].metadata.name}"),
        ""
    );
}

/// kubectl sends these objects as protobuf.
#[test]
fn objects_are_created_by_generator_commands() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    // (arguments, object, path, value)
    let cases = [
        (
            "create deployment web --image=app:v1 --replicas=2 --port=80",
            "deployment/web",
            "{.spec.replicas}",
            "2",
        ),
        (
            "create configmap settings --from-literal=a=1",
            "configmap/settings",
            "{.data}",
            r#"{"a":"1"}"#,
        ),
        (
            "create secret generic pass --from-literal=k=v",
            "secret/pass",
            "{.data.k}",
            "dg==",
        ),
        (
            "create job once --image=app:v1 -- true",
            "job/once",
            "{.spec.template.spec.containers[0].command}",
            r#"["true"]"#,
        ),
        (
            "create cronjob often --image=app:v1 --schedule=*/5_*_*_*_*",
            "cronjob/often",
            "{.spec.jobTemplate.spec.template.spec.restartPolicy}",
            "OnFailure",
        ),
        (
            "create service clusterip svc --tcp=80:8080",
            "service/svc",
            "{.spec.ports[0].targetPort}",
            "8080",
        ),
        (
            "run single --image=app:v1 --labels=run=single,x=y --port=8080",
            "pod/single",
            "{.metadata.labels.x}",
            "y",
        ),
        (
            "expose deployment web --port=80 --target-port=http",
            "service/web",
            "{.spec.ports[0].targetPort}",
            "http",
        ),
        (
            "autoscale deployment web --min=2 --max=5 --cpu=50%",
            "hpa/web",
            "{.spec.maxReplicas}",
            "5",
        ),
        (
            "create role reader --verb=get,list --resource=pods",
            "role/reader",
            "{.rules[0].verbs}",
            r#"["get","list"]"#,
        ),
        (
            "create rolebinding readers --role=reader --user=ann",
            "rolebinding/readers",
            "{.subjects[0].name}",
            "ann",
        ),
        (
            "create serviceaccount robot",
            "serviceaccount/robot",
            "{.metadata.name}",
            "robot",
        ),
        (
            "create poddisruptionbudget some --selector=app=web --min-available=50%",
            "pdb/some",
            "{.spec.minAvailable}",
            "50%",
        ),
        (
            "create ingress in --rule=a.test/*=web:80",
            "ingress/in",
            "{.spec.rules[0].http.paths[0].backend.service.port.number}",
            "80",
        ),
        (
            "create quota few --hard=pods=100,services=1k",
            "quota/few",
            "{.spec.hard.services}",
            "1k",
        ),
        (
            "create priorityclass low-story --value=-5",
            "priorityclass/low-story",
            "{.value}",
            "-5",
        ),
        (
            "create namespace story-made",
            "namespace/story-made",
            "{.status.phase}",
            "Active",
        ),
    ];
    for (words, what, path, value) in cases {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| word.replace('_', " "))
            .collect();
        cluster.kubectl_words(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(cluster.get(what, path), value, "{}", words.join(" "));
    }
    cluster.kubectl("rollout status deployment/web --timeout=60s");
    cluster.kubectl("delete priorityclass/low-story namespace/story-made --wait=false");
    assert_eq!(
        cluster.kubectl("auth can-i create deployments").trim(),
        "yes"
    );
}

#[test]
fn an_object_migrates_from_client_side_to_server_side_apply() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.apply(&web(2, "app:v1"));
    rolled_out(&cluster);
    let managers = "{range .metadata.managedFields[*]}{.manager}:{.operation}:{.subresource},{end}";
    let get = || {
        cluster.kubectl_words(&[
            "get",
            "deployment",
            "web",
            "--show-managed-fields",
            "-o",
            &format!("jsonpath={managers}"),
        ])
    };
    assert!(
        get().contains("kubectl-client-side-apply:Update:,"),
        "{}",
        get()
    );

    let moved = cluster.kubectl_file("apply --server-side -f", &web(3, "app:v2"));
    assert!(
        moved.status.success(),
        "{}",
        String::from_utf8_lossy(&moved.stderr)
    );
    rolled_out(&cluster);
    assert!(
        get().contains(",kubectl:Apply:,") && !get().contains("client-side"),
        "{}",
        get()
    );

    cluster.kubectl("scale deployment/web --replicas=1");
    assert!(get().contains("kubectl:Update:scale,"), "{}", get());
    let refused = cluster.kubectl_file("apply --server-side -f", &web(3, "app:v2"));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        words.contains("Apply failed with 1 conflict") && words.contains(".spec.replicas"),
        "{words}"
    );
    let forced = cluster.kubectl_file(
        "apply --server-side --force-conflicts -f",
        &web(3, "app:v2"),
    );
    assert!(
        forced.status.success(),
        "{}",
        String::from_utf8_lossy(&forced.stderr)
    );
    assert_eq!(cluster.get("deployment/web", "{.spec.replicas}"), "3");
    rolled_out(&cluster);
}
