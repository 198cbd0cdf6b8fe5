//! `steersman apiserver`, used as test suites in other languages do.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use steersman_client::connect;

use crate::harness::kubectl;
use crate::support::{LIMIT, Program, output, output_of, python, steersman, wait};

/// A process that has printed the ready line of a server. It is killed when dropped.
struct Started {
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: Value,
}

impl Started {
    fn new(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        Self {
            child,
            stdout,
            ready,
        }
    }

    /// The kubeconfig named in the ready line.
    fn kubeconfig(&self) -> PathBuf {
        PathBuf::from(self.ready["kubeconfig"].as_str().unwrap())
    }

    fn signal(&self, name: &str, pid: u64) {
        let status = Command::new("kill")
            .args([format!("-{name}"), pid.to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// The rest of standard output, read until every process that holds the pipe has ended.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Usually the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a GET with the credentials of a kubeconfig.
fn get(kubeconfig: &Path, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    send(kubeconfig, request).unwrap()
}

/// Sends a merge patch with the credentials of a kubeconfig.
fn patch(kubeconfig: &Path, path: &str, change: &Value) -> Value {
    let request = http::Request::patch(path)
        .header("Content-Type", "application/merge-patch+json")
        .body(change.to_string().into_bytes());
    send(kubeconfig, request.unwrap()).unwrap()
}

fn send(kubeconfig: &Path, request: http::Request<Vec<u8>>) -> Result<Value, kube::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let config = steersman_client::load_config(Some(kubeconfig), None).unwrap();
        let client = kube::Client::from(connect(&config).unwrap());
        tokio::time::timeout(LIMIT, client.request(request))
            .await
            .expect("an answer in time")
    })
}

/// Reads the object at `path` until it is as expected.
fn read_until(kubeconfig: &Path, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let start = std::time::Instant::now();
    loop {
        let object = get(kubeconfig, path);
        if is_so(&object) {
            return object;
        }
        assert!(start.elapsed() < LIMIT, "{object}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_ready_line_names_the_server_and_a_signal_stops_it() {
    for signal in ["TERM", "INT"] {
        let mut server = Started::new(&mut steersman(&["apiserver", "--nodes=2"]));
        let pid = server.ready["pid"].as_u64().unwrap();
        assert_eq!(pid, u64::from(server.child.id()));
        let nodes = get(&server.kubeconfig(), "/api/v1/nodes");
        assert_eq!(nodes["items"].as_array().unwrap().len(), 2);
        let config = std::fs::read_to_string(server.kubeconfig()).unwrap();
        assert!(
            config.contains(&format!(
                "server: {}\n",
                server.ready["url"].as_str().unwrap()
            )),
            "{config}"
        );

        server.signal(signal, pid);
        assert_eq!(wait(&mut server.child).code(), Some(0), "{signal}");
        assert_eq!(server.rest(), "");
        assert!(!server.kubeconfig().exists(), "{signal}");
    }
}

#[test]
fn the_server_ends_with_its_parent_unless_told_otherwise() {
    let script = |flags: &str| {
        format!(
            "'{}' apiserver --nodes=0 {flags} & wait",
            env!("CARGO_BIN_EXE_steersman")
        )
    };
    let started = |flags: &str| Started::new(Command::new("sh").arg("-c").arg(script(flags)));

    let mut server = started("");
    server.child.kill().unwrap();
    // The pipe is closed once the server has ended too.
    assert_eq!(server.rest(), "");
    assert!(!server.kubeconfig().exists());

    let mut server = started("--outlive-parent");
    server.child.kill().unwrap();
    wait(&mut server.child);
    // The server checks its parent every 200 ms, so it would have ended after a second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(get(&server.kubeconfig(), "/version")["minor"], "36");
    server.signal("TERM", server.ready["pid"].as_u64().unwrap());
    assert_eq!(server.rest(), "");
}

#[test]
fn manifests_are_applied_and_only_the_named_controllers_run() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("web.yaml");
    let template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}";
    let spec =
        format!("spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {template}}}");
    let text = |kind: &str| {
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {}}}\n{spec}\n",
            kind.to_lowercase()
        )
    };
    std::fs::write(
        &manifest,
        format!("{}---\n{}", text("Deployment"), text("ReplicaSet")),
    )
    .unwrap();
    let arguments = [
        "apiserver",
        "--controllers=replicaset",
        "--apply",
        manifest.to_str().unwrap(),
    ];
    let server = Started::new(&mut steersman(&arguments));
    let sets = || {
        get(
            &server.kubeconfig(),
            "/apis/apps/v1/namespaces/default/replicasets",
        )
    };
    let start = std::time::Instant::now();
    while sets()["items"][0]["status"]["availableReplicas"] != 2 {
        assert!(start.elapsed() < LIMIT, "{}", sets());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(
        sets()["items"].as_array().unwrap().len(),
        1,
        "the Deployment has no controller"
    );
}

#[test]
fn the_server_and_its_manager_have_the_named_release() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("web.yaml");
    let template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}";
    let head = "apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}";
    let spec = format!("{{replicas: 1, selector: {{matchLabels: {{app: web}}}}, {template}}}");
    std::fs::write(&manifest, format!("{{{head}, spec: {spec}}}")).unwrap();
    // (flag, version, whether ReplicaSets report terminating pods)
    for (release, version, reports) in [
        ("v1.34.8", "v1.34.8", false),
        ("1.36", "v1.36.2", true),
        ("1.37", "v1.37.0", true),
    ] {
        let release = format!("--kubernetes-version={release}");
        let manifest = manifest.to_str().unwrap();
        let server = Started::new(&mut steersman(&[
            "apiserver",
            &release,
            "--nodes=1",
            "--apply",
            manifest,
        ]));
        let read = |path: &str| get(&server.kubeconfig(), path);
        assert_eq!(read("/version")["gitVersion"], version);
        let node = &read("/api/v1/nodes")["items"][0];
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], version);
        let set = || read("/apis/apps/v1/namespaces/default/replicasets/web");
        let start = std::time::Instant::now();
        while set()["status"]["availableReplicas"] != 1 {
            assert!(start.elapsed() < LIMIT, "{}", set());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let reported = !set()["status"]["terminatingReplicas"].is_null();
        assert_eq!(reported, reports, "{version}: {}", set());
    }
}

/// The manager writes these fields to a server of 1.37, and a server of 1.36 lacks them.
#[test]
fn a_server_of_1_37_has_the_fields_and_kinds_that_its_manager_writes() {
    const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
    const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("web.yaml");
    let template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web}]}}";
    let set = format!(
        "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web}}, \
         spec: {{replicas: 1, selector: {{matchLabels: {{app: web}}}}, {template}}}}}"
    );
    let target = "scaleTargetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: web}";
    let autoscaler = format!(
        "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: web}}, \
         spec: {{{target}, maxReplicas: 2}}}}"
    );
    std::fs::write(&manifest, format!("{set}\n---\n{autoscaler}\n")).unwrap();
    for (release, is_new) in [("1.36", false), ("1.37", true)] {
        let flag = format!("--kubernetes-version={release}");
        let applied = manifest.to_str().unwrap();
        let period = "--horizontal-pod-autoscaler-sync-period=1s";
        let arguments = [
            "apiserver",
            &flag,
            "--nodes=1",
            "--apply",
            applied,
            "--",
            period,
        ];
        let server = Started::new(&mut steersman(&arguments));
        let kubeconfig = server.kubeconfig();
        let generation = |number: i64| if is_new { json!(number) } else { Value::Null };
        let is_synced = |object: &Value, number: i64| {
            let observed = &object["status"]["observedGeneration"];
            object["status"]["conditions"].is_array()
                && (&object["metadata"]["generation"], observed)
                    == (&generation(number), &generation(number))
        };
        read_until(&kubeconfig, AUTOSCALER, |object| is_synced(object, 1));

        // Another client notes the generation of a condition, and the manager leaves it alone.
        let condition = json!({
            "type": "AbleToScale", "status": "False", "reason": "Ours", "observedGeneration": 7,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let change = json!({"status": {"conditions": [condition]}});
        patch(&kubeconfig, &format!("{AUTOSCALER}/status"), &change);
        patch(
            &kubeconfig,
            AUTOSCALER,
            &json!({"spec": {"maxReplicas": 3}}),
        );
        let object = read_until(&kubeconfig, AUTOSCALER, |object| {
            is_synced(object, 2) && object["status"]["conditions"][0]["status"] == "True"
        });
        let condition = &object["status"]["conditions"][0];
        assert_eq!(condition["observedGeneration"], generation(7), "{object}");

        let body = json!({
            "apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration",
            "metadata": {"name": "sets"},
            "spec": {"resource": {"group": "apps", "resource": "replicasets"}},
        });
        let request = http::Request::post(MIGRATIONS)
            .header("Content-Type", "application/json")
            .body(body.to_string().into_bytes());
        let created = send(&kubeconfig, request.unwrap());
        assert_eq!(created.is_ok(), is_new, "{release}: {created:?}");
        if is_new {
            read_until(&kubeconfig, &format!("{MIGRATIONS}/sets"), |object| {
                let conditions = object["status"]["conditions"].as_array();
                conditions.is_some_and(|all| {
                    let is_met =
                        |one: &Value| one["type"] == "Succeeded" && one["status"] == "True";
                    all.iter().any(is_met)
                })
            });
        }
    }
}

#[test]
fn invalid_input_leads_to_one_error_and_no_ready_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let in_use = format!("Error: listen on 127.0.0.1:{port}: Address already in use");
    // (arguments, beginning of the error)
    let cases: [(&[&str], &str); 10] = [
        (
            &["--kubernetes-version=1.20"],
            "error: invalid value '1.20' for '--kubernetes-version <RELEASE>': \"1.20\" is no release of Kubernetes that Steersman knows: 1.33, 1.34, 1.35, 1.36, 1.37",
        ),
        (&["--bogus"], "error: unexpected argument '--bogus' found"),
        (&["extra"], "error: unexpected argument 'extra' found"),
        (
            &["--port=70000"],
            "error: invalid value '70000' for '--port <P>': 70000 is not in 0..=65535",
        ),
        (&["--port", &port], &in_use),
        (
            &["--controllers=deployment,nope"],
            "Error: \"nope\" is not in the list of known controllers",
        ),
        (
            &["--latency=-1s"],
            "error: invalid value '-1s' for '--latency <DURATION>': must not be negative",
        ),
        (
            &["--write-kubeconfig=/nowhere/at/all"],
            "Error: write the kubeconfig /nowhere/at/all: No such file or directory",
        ),
        (
            &["--apply", "/nowhere.yaml"],
            "Error: read /nowhere.yaml: No such file or directory",
        ),
        (
            &["--", "--leader-elekt"],
            "Error: unknown flag: --leader-elekt; did you mean --leader-elect?",
        ),
    ];
    for (arguments, expected) in cases {
        let output = output(&[&["apiserver"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with(expected), "{arguments:?} said: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_python_client_watches_patches_deletes_and_waits_for_a_rollout() {
    let Some(python) = python("kubernetes") else {
        return;
    };
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python_client.py");
    let program = Program::spawn(
        Command::new(python)
            .arg(story)
            .arg(env!("CARGO_BIN_EXE_steersman")),
    );
    let (status, said) = program.end_with_log();
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn the_objects_of_data_are_there_in_the_next_run_and_load_reads_them_too() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let state = state.to_str().unwrap();
    let run = |flags: &[&str], look: &dyn Fn(&Path) -> Value| {
        let flags = [&["apiserver", "--nodes=1"], flags].concat();
        let mut server = Started::new(&mut steersman(&flags));
        let found = look(&server.kubeconfig());
        server.signal("TERM", server.ready["pid"].as_u64().unwrap());
        assert_eq!(wait(&mut server.child).code(), Some(0));
        found
    };
    let manifest = folder.path().join("map.yaml");
    std::fs::write(
        &manifest,
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {a: b}}",
    )
    .unwrap();
    let map = |kubeconfig: &Path| get(kubeconfig, "/api/v1/namespaces/default/configmaps/kept");
    let apply = ["--data", state, "--apply", manifest.to_str().unwrap()];
    let first = run(&apply, &map);
    assert_eq!(first["data"]["a"], "b");
    let second = run(&["--data", state], &map);
    assert_eq!(second, first);
    let loaded = run(&["--load", state, "--controllers="], &map);
    assert_eq!(loaded, first);
    let node = run(&["--data", state], &|kubeconfig| {
        get(kubeconfig, "/api/v1/nodes/node-0")
    });
    assert_eq!(node["metadata"]["name"], "node-0");

    let broken = folder.path().join("broken.json");
    std::fs::write(&broken, "not JSON").unwrap();
    let refused = output(&["apiserver", "--data", broken.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("it is no state of a cluster"), "{said}");
}

/// A program with a custom object, and texts that YAML writes in several ways.
const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.dev/v1
kind: Gadget
metadata: {name: odd, namespace: shop}
size: 1.5
parts: [{name: "null"}, {name: "~"}, {}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: texts, namespace: shop, annotations: {version: "1.10", enabled: "yes"}}
data:
  number: "0o17"
  exponent: "1e3"
  date: "2026-01-01"
  colons: "12:30:45"
  lines: "first: 1\n  second\t\n\nlast"
  dashes: "---\n- a\n"
  empty: ""
binaryData: {blob: AAEC/w==}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web, resources: {requests: {cpu: "0.5", memory: 1e6}}}]}
"#;

#[test]
fn the_yaml_of_kubectl_get_is_loaded_with_owners_statuses_uids_and_versions() {
    let Some(kubectl) = kubectl() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let manifest = file("shop.yaml", SHOP);
    let start = |flags: &[&str]| Started::new(&mut steersman(&[&["apiserver"], flags].concat()));
    let ask = |server: &Started, words: &str| {
        let mut command = Command::new(&kubectl);
        let kubeconfig = server.kubeconfig();
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(words.split(' '));
        let answer = output_of(&mut command);
        assert!(answer.status.success(), "{words}: {answer:?}");
        String::from_utf8(answer.stdout).unwrap()
    };
    let available = "rollout status deployment/web -n shop --timeout=300s";

    let first = start(&["--nodes=1", "--apply", &manifest]);
    ask(&first, available);
    let kinds = "crd,nodes,pv,sa,cm,secrets,svc,endpoints,endpointslices,deploy,rs,pods,gadgets";
    let everything = format!("get {kinds},namespaces,events,leases -A -o yaml");
    let in_shop = format!("get {kinds} -n shop -o yaml");
    let began = std::time::Instant::now();
    let (dump, left) = loop {
        let left = ask(&first, &in_shop);
        let dump = ask(&first, &everything);
        if ask(&first, &in_shop) == left {
            break (file("dump.yaml", &dump), left);
        }
        assert!(began.elapsed() < LIMIT, "the cluster comes to no rest");
    };
    for part in [
        "uid: ",
        "ownerReferences:",
        "resourceVersion: ",
        "podIP: ",
        "acceptedNames:",
    ] {
        assert!(left.contains(part), "{part} in {left}");
    }

    // Nothing runs, so all objects are as they were.
    let still = start(&["--nodes=0", "--controllers=", "--load", &dump]);
    assert_eq!(ask(&still, &in_shop), left);

    // The controllers take the pods for those of the Deployment.
    let second = start(&["--nodes=1", "--load", &dump]);
    let uids = "get pods -n shop -o jsonpath={.items[*].metadata.uid}";
    let before = ask(&first, uids);
    ask(&second, "scale deployment/web -n shop --replicas=3");
    ask(&second, available);
    let after = ask(&second, uids);
    assert_eq!(
        (before.split(' ').count(), after.split(' ').count()),
        (2, 3)
    );
    assert!(
        before.split(' ').all(|uid| after.contains(uid)),
        "{before} in {after}"
    );
}
