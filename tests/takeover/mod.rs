//! A settled cluster is handed over from one manager to another and back. All objects keep their
//! resource versions, and no Event is written. Both managers run all controllers of Steersman.
//!
//! This proves that a user can replace kube-controller-manager by Steersman, and return, without
//! restarting a pod. `KUBEBUILDER_ASSETS` selects a real control plane, of any known release, and the other
//! manager is the kube-controller-manager of that folder, if it has one. Otherwise the other manager is Steersman, too.
//! `STEERSMAN_TAKEOVER_OTHER`, which `scripts/takeover.sh --other PATH` sets, selects another program.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use steersman::ControllerRegistry;
use steersman_releases::Release;

use crate::harness::{Cluster, assets};
use crate::support::{Program, steersman};

/// Workloads, budgets and Services, in addition to those of [`manifests`].
const WORKLOADS: &str = include_str!("workloads.yaml");

/// Volumes, devices, quotas, autoscalers and policies; `NAMESPACE` is the place of the namespace.
const STORAGE: &str = include_str!("storage.yaml");

/// The objects of a sentinel; `SENTINEL` is the place of its name.
const SENTINEL: &str = include_str!("sentinel.yaml");

/// Objects of [`WORKLOADS`] before the changes of [`CHANGES`]: object, path, value.
const COMPLETE: [(&str, &str, &str); 8] = [
    ("statefulset/ordered", "{.status.availableReplicas}", "2"),
    ("statefulset/half", "{.status.availableReplicas}", "2"),
    ("statefulset/stuck", "{.status.availableReplicas}", "2"),
    ("statefulset/manual", "{.status.availableReplicas}", "1"),
    ("daemonset/agent", "{.status.numberAvailable}", "3"),
    ("daemonset/agent-stuck", "{.status.numberAvailable}", "3"),
    ("daemonset/agent-manual", "{.status.numberAvailable}", "3"),
    ("cronjob/yearly", "{.metadata.name}", "yearly"),
];

/// Commands that leave workloads on their way.
const CHANGES: [&str; 5] = [
    "set image statefulset/half main=app:v2",
    r#"patch statefulset/stuck -p {"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
    "set image statefulset/manual main=app:v2",
    r#"patch daemonset/agent-stuck -p {"spec":{"template":{"metadata":{"annotations":{"simulate.steersman.dev/behaviour":"never-ready"}}}}}"#,
    "set image daemonset/agent-manual main=app:v2",
];

/// A time of which yearly CronJobs have missed runs since.
const LONG_AGO: &str = "2024-06-01T00:00:00Z";

/// Objects of [`WORKLOADS`] at rest: object, path, value.
const AT_REST: [(&str, &str, &str); 19] = [
    (
        "statefulset/half",
        "{.status.updatedReplicas}/{.status.availableReplicas}",
        "1/2",
    ),
    (
        "statefulset/stuck",
        "{.status.updatedReplicas}/{.status.replicas}/{.status.readyReplicas}",
        "1/2/1",
    ),
    (
        "statefulset/manual",
        "{.status.observedGeneration}/{.status.availableReplicas}",
        "2/1",
    ),
    (
        "pvc/data-claims-5",
        "{.metadata.ownerReferences[*].kind}",
        "StatefulSet",
    ),
    (
        "daemonset/agent-stuck",
        "{.status.updatedNumberScheduled}/{.status.numberReady}",
        "1/2",
    ),
    (
        "daemonset/agent-manual",
        "{.status.observedGeneration}/{.status.numberReady}",
        "2/3",
    ),
    (
        "job/done",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    (
        "job/failed",
        "{.status.conditions[?(@.type==\"Failed\")].status}",
        "True",
    ),
    (
        "job/indexed",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    ("job/running", "{.status.ready}/{.status.active}", "2/2"),
    (
        "job/suspended",
        "{.status.conditions[?(@.type==\"Suspended\")].status}",
        "True",
    ),
    ("cronjob/yearly", "{.status.active[*].kind}", "Job"),
    (
        "pdb/ordered",
        "{.status.disruptionsAllowed}/{.status.currentHealthy}",
        "1/2",
    ),
    (
        "pdb/complete",
        "{.status.disruptionsAllowed}/{.status.currentHealthy}",
        "2/3",
    ),
    ("endpoints/ordered", "{.subsets[0].ports[*].name}", "http"),
    (
        "endpoints/complete",
        "{.subsets[0].addresses[*].targetRef.kind}",
        "Pod Pod Pod",
    ),
    ("endpoints/empty", "{.metadata.name}", "empty"),
    (
        "endpointslices -l kubernetes.io/service-name=ordered",
        "{.items[0].endpoints[*].conditions.ready}",
        "true true",
    ),
    (
        "endpointslices -l kubernetes.io/service-name=external",
        "{.items[0].metadata.labels.site}",
        "b",
    ),
];

/// Objects of [`STORAGE`] at rest: object, path, value.
const STORAGE_AT_REST: [(&str, &str, &str); 9] = [
    ("pvc/data-claims-5", "{.status.phase}", "Bound"),
    ("pvc/attached", "{.status.phase}", "Bound"),
    ("pod/ephemeral", "{.status.phase}", "Running"),
    ("pv/released", "{.status.phase}", "Released"),
    (
        "vac/gold",
        "{.metadata.finalizers[*]}",
        "kubernetes.io/vac-protection",
    ),
    ("pod/device", "{.status.phase}", "Running"),
    (
        "hpa/zero",
        "{.status.conditions[?(@.type==\"ScalingActive\")].reason}",
        "ScalingDisabled",
    ),
    (
        "validatingadmissionpolicy/mistyped",
        "{.status.observedGeneration}",
        "1",
    ),
    (
        "quota/controllers",
        "{.status.used.replicationcontrollers}",
        "2",
    ),
];

/// The sentinel when each controller has done its part: object, path, value.
const DONE: [(&str, &str, &str); 13] = [
    ("deployment/SENTINEL", "{.status.availableReplicas}", "1"),
    ("statefulset/SENTINEL", "{.status.availableReplicas}", "1"),
    ("daemonset/SENTINEL", "{.status.numberAvailable}", "3"),
    (
        "job/SENTINEL",
        "{.status.conditions[?(@.type==\"Complete\")].status}",
        "True",
    ),
    ("pdb/SENTINEL", "{.status.currentHealthy}", "1"),
    ("endpoints/SENTINEL", "{.subsets[0].ports[0].port}", "80"),
    (
        "endpointslices -l kubernetes.io/service-name=SENTINEL",
        "{.items[0].endpoints[*].conditions.ready}",
        "true",
    ),
    (
        "endpointslices -l kubernetes.io/service-name=SENTINEL-external",
        "{.items[0].endpoints[*].addresses[0]}",
        "192.0.2.1",
    ),
    ("pvc/SENTINEL", "{.status.phase}", "Bound"),
    ("pod/SENTINEL-device", "{.status.phase}", "Running"),
    (
        "hpa/SENTINEL",
        "{.status.conditions[?(@.type==\"ScalingActive\")].reason}",
        "ScalingDisabled",
    ),
    (
        "validatingadmissionpolicy/SENTINEL",
        "{.status.observedGeneration}",
        "1",
    ),
    (
        "quota/SENTINEL",
        "{.status.used.count/ingresses\\.networking\\.k8s\\.io}",
        "0",
    ),
];

/// Annotation of nodes whose volumes the attach-detach controller attaches.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// Annotation with the behaviour of simulated pods.
const BEHAVIOUR: &str = "simulate.steersman.dev/behaviour";

fn other() -> Command {
    let named = std::env::var_os("STEERSMAN_TAKEOVER_OTHER").map(PathBuf::from);
    let of_assets = || Some(assets()?.join("kube-controller-manager")).filter(|path| path.exists());
    let Some(path) = named.or_else(of_assets) else {
        eprintln!("takeover: the other manager is Steersman");
        return steersman(&[]);
    };
    eprintln!("takeover: the other manager is {}", path.display());
    Command::new(path)
}

/// Time for which to look for unexpected writes.
fn window() -> Duration {
    let seconds = std::env::var("STEERSMAN_TAKEOVER_WINDOW")
        .map_or(2, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// The release of the API server.
fn release(cluster: &Cluster) -> Release {
    let version: Value = serde_json::from_str(&cluster.kubectl("version -o json")).unwrap();
    let version = version["serverVersion"]["gitVersion"].as_str().unwrap();
    Release::in_version(version).expect("the API server has a version")
}

/// The controllers of the release of the API server.
fn controllers(cluster: &Cluster) -> Vec<&'static str> {
    let release = release(cluster);
    let names = ControllerRegistry::builtin().names().into_iter();
    names.filter(|name| release.has_controller(name)).collect()
}

/// A running manager. All managers use the same Lease, so two never write at the same time.
struct Manager(Program);

impl Manager {
    fn start(cluster: &Cluster, mut program: Command) -> Self {
        Self(Program::spawn(
            program
                .arg("--kubeconfig")
                .arg(cluster.kubeconfig())
                .arg(format!("--controllers={}", controllers(cluster).join(",")))
                .args([
                    "--allocate-node-cidrs",
                    "--cluster-cidr=10.244.0.0/16",
                    "--secure-port=0",
                ]),
        ))
    }

    fn end(mut self) {
        self.0.assert_running();
        self.0.signal("TERM");
        // Ignore the exit status: upstream's manager reports the loss of the Lease by it.
        self.0.end();
    }
}

/// A workload object of the group `apps`, or a ReplicationController.
fn object(kind: &str, name: &str, spec: Value) -> Value {
    let api_version = if kind == "ReplicationController" {
        "v1"
    } else {
        "apps/v1"
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn template(name: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The spec of a workload with `replicas` pods; `more` overrides fields.
fn spec(name: &str, replicas: u32, more: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:v1")});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

/// A template with quantities that the API server does not print in this form. Its hash must not
/// depend on the form.
fn unusual_quantities() -> Value {
    let mut template = template("odd", "app:v1");
    template["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1048576Ki"}, "requests": {"cpu": 0.25}});
    template["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}}]);
    template
}

/// The objects that exist before the first manager starts: ReplicaSets to adopt, and Deployments of
/// every kind.
fn manifests() -> Vec<Value> {
    let mut stalled = template("stalled", "registry.invalid/never:v1");
    stalled["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    let deployment =
        |name: &str, replicas, more| object("Deployment", name, spec(name, replicas, more));
    vec![
        object("ReplicaSet", "orphan", spec("adopted", 1, json!({}))),
        deployment("adopted", 1, json!({})),
        deployment("complete", 3, json!({})),
        deployment("rolled", 2, json!({"minReadySeconds": 1})),
        deployment(
            "undone",
            2,
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}),
        ),
        deployment("recreated", 2, json!({"strategy": {"type": "Recreate"}})),
        deployment(
            "stalled",
            2,
            json!({"progressDeadlineSeconds": 2, "template": stalled}),
        ),
        deployment("endless", 1, json!({"progressDeadlineSeconds": i32::MAX})),
        deployment("born-paused", 1, json!({"paused": true})),
        deployment("paused", 1, json!({})),
        deployment("zero", 0, json!({})),
        deployment("odd", 1, json!({"template": unusual_quantities()})),
        object(
            "ReplicaSet",
            "set",
            spec("set", 2, json!({"minReadySeconds": 1})),
        ),
        object(
            "ReplicationController",
            "controller",
            spec("controller", 2, json!({"selector": {"app": "controller"}})),
        ),
        object(
            "ReplicationController",
            "patient",
            spec(
                "patient",
                1,
                json!({"selector": {"app": "patient"}, "minReadySeconds": 1}),
            ),
        ),
    ]
}

/// Deployments without pods, with templates of every group of fields, and the template hashes that
/// upstream computes.
fn hashed() -> Vec<(Value, String)> {
    let lines = include_str!("../../crates/objects/src/template/testdata/cases.jsonl").lines();
    let cases = lines.map(|line| serde_json::from_str::<Value>(line).expect("a case a line"));
    let is_plain = |case: &Value| {
        case["collisionCount"].is_null()
            && !case["name"].as_str().is_some_and(|name| name.contains(' '))
    };
    let made = cases.filter(is_plain).map(|case| {
        let app = case["template"]["metadata"]["labels"]["app"].clone();
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": case["template"]});
        let name = case["name"].as_str().expect("a name");
        (object("Deployment", &format!("hash-{name}"), spec), case["hash"].as_str().expect("a hash").to_owned())
    });
    made.collect()
}

/// Waits until these Deployments are rolled out.
fn rolled_out(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.kubectl(&format!("rollout status deployment/{name} --timeout=90s"));
    }
}

/// Waits until the condition Progressing of the Deployment has this reason.
fn wait_for_progressing_reason(cluster: &Cluster, name: &str, reason: &str) {
    let path = "{.status.observedGeneration}={.metadata.generation}={.status.conditions[?(@.type==\"Progressing\")].reason}";
    cluster.eventually(
        &format!("get deployment {name} -o jsonpath={path}"),
        |said| {
            let [observed, generation, said] = said.split('=').collect::<Vec<_>>()[..] else {
                return false;
            };
            observed == generation && said == reason
        },
    );
}

/// Answers the VolumeAttachment of [`STORAGE`], as the attacher of its driver does.
fn attach(cluster: &Cluster) {
    let names = "get volumeattachments -o name";
    let name = cluster.eventually(names, |names| names.lines().count() == 1);
    cluster.kubectl(&format!(
        "patch {} --subresource=status --type=merge -p {}",
        name.trim(),
        json!({"status": {"attached": true}})
    ));
    cluster.eventually(
        "get nodes -o jsonpath={.items[*].status.volumesAttached[*].name}",
        |names| !names.is_empty(),
    );
}

/// Waits until each object has its value at the path.
fn wait_for_all(cluster: &Cluster, states: &[(&str, &str, &str)]) {
    for (object, path, value) in states {
        cluster.eventually(&format!("get {object} -o jsonpath={path}"), |said| {
            said == *value
        });
    }
}

/// Makes the latest run of a CronJob due.
fn make_due(cluster: &Cluster, name: &str) {
    let status = json!({"status": {"lastScheduleTime": LONG_AGO}});
    cluster.kubectl(&format!(
        "patch cronjob/{name} --subresource=status --type=merge -p {status}"
    ));
}

/// Resource versions of all objects that controllers write, and of their Events; those of sentinels
/// are left out, and Events of the scheduler and of kubelets. Kubelets write nodes too: of these, the
/// parts that controllers write.
fn versions(cluster: &Cluster) -> Vec<String> {
    let path = "{range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion} {.source.component}{\"\\n\"}{end}";
    let all = cluster.get(
        "deployments,replicasets,replicationcontrollers,statefulsets,daemonsets,controllerrevisions,jobs,cronjobs,poddisruptionbudgets,services,endpoints,endpointslices,persistentvolumeclaims,persistentvolumes,volumeattachments,volumeattributesclasses,resourceclaims,horizontalpodautoscalers,validatingadmissionpolicies,resourcequotas,pods,events",
        path,
    );
    let nodes = cluster.get(
        "nodes",
        "{range .items[*]}{.kind} {.metadata.name} {.metadata.labels} {.metadata.annotations} {.spec} {.status.volumesAttached}{\"\\n\"}{end}",
    );
    let mut lines: Vec<String> = all
        .lines()
        .chain(nodes.lines())
        .filter(|line| !line.contains(" sentinel"))
        .filter(|line| !line.ends_with(" default-scheduler") && !line.ends_with(" kubelet"))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

/// Waits until nothing changes, and returns the resource versions.
fn at_rest(cluster: &Cluster) -> Vec<String> {
    let mut before = versions(cluster);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = versions(cluster);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Starts a manager in a settled cluster, and asserts that it writes nothing except for the
/// sentinel. The manager continues to run.
fn taken_over_without_a_write(cluster: &Cluster, program: Command, sentinel: &str) -> Manager {
    let before = versions(cluster);
    let manager = Manager::start(cluster, program);
    // Workqueues are first in, first out: once the sentinel is done, all older objects have been
    // synced.
    cluster.apply(&SENTINEL.replace("SENTINEL", sentinel));
    make_due(cluster, sentinel);
    cluster.eventually(
        &format!("get cronjob {sentinel} -o jsonpath={{.status.lastSuccessfulTime}}"),
        |time| !time.is_empty(),
    );
    for (object, path, value) in DONE {
        wait_for_all(
            cluster,
            &[(&object.replace("SENTINEL", sentinel), path, value)],
        );
    }
    std::thread::sleep(window());
    let after = versions(cluster);
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "the takeover changed\n{gone:#?}\nto\n{new:#?}"
    );
    manager
}

#[test]
fn a_handover_between_managers_changes_no_object() {
    let Some(cluster) = Cluster::start_without_manager().and_then(Cluster::with_simulated_nodes)
    else {
        return;
    };
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    cluster.apply(&list(manifests()));
    cluster.apply(&list(
        hashed().into_iter().map(|(manifest, _)| manifest).collect(),
    ));

    cluster.apply(WORKLOADS);
    cluster.apply(&STORAGE.replace("NAMESPACE", cluster.namespace()));
    cluster.kubectl(&format!("annotate nodes --all {MANAGED}=true"));

    let first = Manager::start(&cluster, other());
    wait_for_all(&cluster, &COMPLETE);
    for change in CHANGES {
        cluster.kubectl(change);
    }
    make_due(&cluster, "yearly");
    rolled_out(
        &cluster,
        &[
            "adopted",
            "complete",
            "rolled",
            "undone",
            "recreated",
            "endless",
            "paused",
            "zero",
            "odd",
        ],
    );
    for name in ["rolled", "undone", "recreated"] {
        cluster.kubectl(&format!("set image deployment/{name} main=app:v2"));
    }
    rolled_out(&cluster, &["rolled", "undone", "recreated"]);
    cluster.kubectl("rollout undo deployment/undone");
    cluster.kubectl("rollout pause deployment/paused");
    cluster.kubectl("set image deployment/paused main=app:v2");
    rolled_out(&cluster, &["undone"]);
    for name in ["born-paused", "paused"] {
        wait_for_progressing_reason(&cluster, name, "DeploymentPaused");
    }
    wait_for_progressing_reason(&cluster, "stalled", "ProgressDeadlineExceeded");
    for (kind, name, pods) in [
        ("rs", "set", "2"),
        ("rc", "controller", "2"),
        ("rc", "patient", "1"),
    ] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == pods,
        );
    }
    // Each release adds fields to the templates of pods, and so changes their hashes.
    let has_known_hashes = release(&cluster) == Release::DEFAULT;
    for (manifest, hash) in hashed() {
        let mut prefix = format!(
            "{}-",
            manifest["metadata"]["name"].as_str().expect("a name")
        );
        if has_known_hashes {
            prefix.push_str(&hash);
        }
        cluster.eventually(
            "get replicasets -o jsonpath={.items[*].metadata.name}",
            |names| names.split(' ').any(|name| name.starts_with(&prefix)),
        );
    }
    attach(&cluster);
    wait_for_all(&cluster, &AT_REST);
    wait_for_all(&cluster, &STORAGE_AT_REST);
    at_rest(&cluster);
    first.end();

    let ours = taken_over_without_a_write(&cluster, steersman(&[]), "sentinel-one");
    cluster.kubectl("set image deployment/complete main=app:v2");
    cluster.kubectl("annotate deployment/odd touched=yes");
    cluster.kubectl("scale deployment/rolled rs/set rc/controller --replicas=3");
    cluster.kubectl("rollout resume deployment/paused");
    cluster.kubectl("rollout pause deployment/endless");
    cluster.kubectl("set image statefulset/ordered daemonset/agent main=app:v2");
    cluster.kubectl("scale statefulset/half --replicas=3");
    cluster.kubectl("create job extra --from=cronjob/paused");
    cluster.kubectl(r#"patch job/suspended -p {"spec":{"suspend":false}}"#);
    cluster.kubectl("rollout status statefulset/ordered --timeout=90s");
    cluster.kubectl("rollout status daemonset/agent --timeout=90s");
    cluster.kubectl("wait --for=condition=complete job/suspended job/extra --timeout=90s");
    wait_for_all(
        &cluster,
        &[("statefulset/half", "{.status.availableReplicas}", "3")],
    );
    rolled_out(&cluster, &["complete", "odd", "rolled", "paused"]);
    for (kind, name) in [("rs", "set"), ("rc", "controller")] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == "3",
        );
    }
    at_rest(&cluster);
    ours.end();

    taken_over_without_a_write(&cluster, other(), "sentinel-two").end();
}
