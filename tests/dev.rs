//! `steersman dev`, used as scripts do: `--apply --once`, invalid input, signals.

use std::path::Path;
use std::process::Command;

use crate::support::{Program, output, output_of, python, steersman};

/// A ReplicationController and a ReplicaSet of two pods each. `behaviour` is that of their
/// simulated pods.
fn manifest(behaviour: &str) -> String {
    let template = format!(
        "template: {{metadata: {{labels: {{app: web}}, annotations: {{simulate.steersman.dev/behaviour: {behaviour}}}}}, \
         spec: {{containers: [{{name: main, image: app}}]}}}}"
    );
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata: {{name: old}}\nspec: {{replicas: 2, selector: {{app: web}}, {template}}}\n\
         ---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: young}}\n\
         spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {template}}}\n"
    )
}

/// Runs `dev --once` with this manifest; returns exit status and standard error.
fn once(manifest: &str, timeout: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    let output = output(&[
        "dev",
        "--once",
        "--latency",
        "100ms",
        "--timeout",
        timeout,
        "--apply",
        file.to_str().unwrap(),
    ]);
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn replica_sets_are_available_when_all_their_pods_are() {
    let (status, said) = once(&manifest("normal"), "15s");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("everything is available"), "{said}");
}

#[test]
fn warnings_of_the_server_are_shown() {
    let manifest = "apiVersion: v1\nkind: Endpoints\nmetadata: {name: old}\nsubsets: []\n";
    let (status, said) = once(manifest, "15s");
    assert_eq!(status, Some(0), "{said}");
    let line = "Warning: Endpoints \"old\": v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    assert!(said.lines().any(|one| one == line), "{said}");
}

#[test]
fn an_object_that_a_program_would_have_made_may_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: redis}\nspec:\n  containers:\n  - name: c\n    image: i\n    \
                    env: [{name: P, valueFrom: {secretKeyRef: {name: argocd-redis, key: auth}}}]\n";
    std::fs::write(&file, manifest).unwrap();
    let run = |timeout: &str, more: &[&str]| {
        let file = file.to_str().unwrap();
        let flags = ["dev", "--once", "--latency=0s", timeout, "--apply", file];
        let output = output(&[&flags, more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let (status, said) = run("--timeout=3s", &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("argocd-redis"), "{said}");
    let (status, said) = run("--timeout=30s", &["--missing-ok", "secret/argocd-redis"]);
    assert_eq!(status, Some(0), "{said}");
    let line = "made secret default/argocd-redis in place of a program, with the keys {\"auth\"}";
    assert!(said.contains(line), "{said}");
    let (status, said) = run("--timeout=3s", &["--missing-ok", "pod/a"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("secret/NAME or configmap/NAME"), "{said}");
}

#[test]
fn the_outcome_is_a_document_for_programs_and_gone_jobs_count() {
    let template = "{metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";
    let job = "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let manifest = format!(
        "apiVersion: batch/v1\nkind: JobList\nitems:\n- {{metadata: {{name: gone}}, spec: {{ttlSecondsAfterFinished: 0, template: {job}}}}}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{selector: {{app: wbe}}, ports: [{{port: 80}}]}}\n\
         ---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{minReadySeconds: 5, selector: {{matchLabels: {{app: web}}}}, template: {template}}}\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    let flags = [
        "dev",
        "--once",
        "--latency=100ms",
        "--timeout=30s",
        "--output=json",
        "--apply",
        file.to_str().unwrap(),
    ];
    let output = output(&flags);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("job default/gone deleted"), "{said}");
    let line = "service default/web selects no pod: none has the labels app=wbe";
    assert!(said.contains(line), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let objects = document["objects"].as_array().unwrap();
    let states: Vec<(&str, &str)> = objects
        .iter()
        .map(|object| {
            (
                object["name"].as_str().unwrap(),
                object["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(states, [("web", "available"), ("gone", "available")]);
    assert_eq!(document["available"], true);
}

#[test]
fn objects_that_are_not_available_in_time_are_named() {
    let (status, said) = once(&manifest("fail"), "3s");
    assert_eq!(status, Some(1), "{said}");
    for expected in [
        "replicaset default/young: 0 of 2 pods available (2 CrashLoopBackOff)",
        "replicationcontroller default/old: 0 of 2 pods available (2 CrashLoopBackOff)",
    ] {
        assert!(said.contains(expected), "no {expected:?} in:\n{said}");
    }
}

#[test]
fn a_rollout_past_its_deadline_is_reported_with_the_state_of_its_pods() {
    // Conditions have whole seconds, so a deadline of one second could pass before the pod fails.
    let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  progressDeadlineSeconds: 2\n  \
                    selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}, annotations: \
                    {simulate.steersman.dev/behaviour: fail}}\n    spec: {containers: [{name: main, image: app}]}\n";
    let (status, said) = once(manifest, "15s");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(status, Some(1), "{said}");
    assert!(
        last.starts_with("Error: not available: deployment default/web: ReplicaSet \"web-"),
        "{said}"
    );
    assert!(
        last.ends_with("\" has timed out progressing. (1 CrashLoopBackOff)"),
        "{said}"
    );
}

#[test]
fn a_failed_pod_ends_the_wait() {
    let pod = |policy: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{simulate.steersman.dev/behaviour: fail}}}}\n\
             spec: {{restartPolicy: {policy}, containers: [{{name: c, image: i}}]}}\n"
        )
    };
    // (restart policy, reason)
    let cases = [
        ("Always", "does not stay up (CrashLoopBackOff)"),
        ("Never", "failed (Error)"),
    ];
    for (policy, why) in cases {
        let (status, said) = once(&pod(policy), "15s");
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(
            said.lines().last(),
            Some(format!("Error: not available: pod default/p: {why}").as_str()),
            "{said}"
        );
    }
}

#[test]
fn a_pod_that_cannot_be_scheduled_is_reported_with_the_reason() {
    let pod = |spec: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}, containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let claim = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]";
    let lost = format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec: {{storageClassName: fast, \
         accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}\n---\n{}",
        pod(claim)
    );
    let unbound = "persistentvolumeclaim default/data: not bound (storageclass.storage.k8s.io \"fast\" not found); ";
    let container = |rest: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, image: i, {rest}}}]}}\n"
        )
    };
    // (manifest, objects before the pod, reasons)
    let cases = [
        (
            pod("nodeSelector: {disk: ssd}"),
            "",
            "Pending, 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            container("resources: {requests: {cpu: 500}}"),
            "",
            "Pending, 0/3 nodes are available: 3 Insufficient cpu",
        ),
        (
            pod(claim),
            "",
            "Pending, 0/3 nodes are available: persistentvolumeclaim \"data\" not found. not found",
        ),
        (
            lost,
            unbound,
            "Pending, 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found, claim data is \
             not bound: storageclass.storage.k8s.io \"fast\" not found",
        ),
        (
            container("envFrom: [{secretRef: {name: password}}]"),
            "",
            "CreateContainerConfigError, secret \"password\" not found",
        ),
        (
            pod("volumes: [{name: v, secret: {secretName: tls}}]"),
            "",
            "ContainerCreating, MountVolume.SetUp failed for volume \"v\" : secret \"tls\" not found",
        ),
    ];
    for (manifest, others, reasons) in cases {
        let (status, said) = once(&manifest, "2s");
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(
            said.lines().last(),
            Some(
                format!(
                    "Error: not available after 2s: {others}pod default/p: not ready ({reasons})"
                )
                .as_str()
            ),
            "{said}"
        );
    }
}

#[test]
fn manifests_come_from_folders_kustomizations_and_several_flags() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    std::fs::create_dir(path("plain")).unwrap();
    std::fs::write(
        path("plain/a.yaml"),
        format!("{}---\n{}", map("a"), map("b")),
    )
    .unwrap();
    std::fs::create_dir(path("built")).unwrap();
    std::fs::write(path("built/c.yaml"), map("c")).unwrap();
    let kustomization = "resources: [c.yaml]\nnamePrefix: x-\n";
    std::fs::write(path("built/kustomization.yaml"), kustomization).unwrap();
    std::fs::write(path("single.yaml"), map("d")).unwrap();
    let run = |search: &str, arguments: &[&str]| {
        let arguments = [&["dev", "--once", "--timeout=15s"], arguments].concat();
        let output = output_of(steersman(&arguments).env("PATH", search));
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let plain = path("plain");
    let single = path("single.yaml");
    let built = path("built");
    let (status, said) = run("", &["--apply", &plain, "--apply", &single]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("applied 3 objects from 2 files"), "{said}");

    let (status, said) = run("", &["--apply", &built]);
    assert_eq!(status, Some(1), "{said}");
    let needs = format!("Error: {built}: a kustomization needs kubectl: run kubectl kustomize: ");
    assert!(said.starts_with(&needs), "{said}");

    let url = "https://example.com/web.yaml";
    let (status, said) = run("", &["--apply", url]);
    assert_eq!(status, Some(1), "{said}");
    let refused = format!("Error: {url}: URLs are not read; pipe the file instead: curl -fL {url}");
    assert!(said.starts_with(&refused), "{said}");

    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let kubectl = programs.join("kubectl");
    let script = "#!/bin/sh\necho '{apiVersion: v1, kind: ConfigMap, metadata: {name: x-c}}'\n";
    std::fs::write(&kubectl, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&kubectl, mode).unwrap();
    let (status, said) = run(programs.to_str().unwrap(), &["--apply", &built]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("applied 1 object from 1 file"), "{said}");
}

#[test]
fn every_kind_of_workload_is_waited_for_with_a_line_of_progress() {
    let workloads = include_str!("commands/workloads.yaml");
    let template = "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let manifest = format!(
        "{workloads}---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: once}}\nspec: {{completions: 2, template: {template}}}\n\
         ---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: tick}}\n\
         spec: {{schedule: '0 0 1 1 *', jobTemplate: {{spec: {{template: {template}}}}}}}\n"
    );
    let (status, said) = once(&manifest, "30s");
    assert_eq!(status, Some(0), "{said}");
    let is_said = |start: &str, end: &str| {
        said.lines()
            .any(|line| line.starts_with(start) && line.ends_with(end))
    };
    for (start, end) in [
        ("statefulset default/db complete in ", "s: 2 pods"),
        ("daemonset default/agent complete in ", "s: 3 pods"),
        ("job default/once complete in ", "s: 2 completions"),
        ("cronjob default/tick scheduled", ": 0 0 1 1 *, 0 active"),
    ] {
        assert!(is_said(start, end), "no {start}...{end} in:\n{said}");
    }
}

#[test]
fn workloads_that_cannot_get_there_are_reported_with_the_reason() {
    let failing = include_str!("commands/failing-job.yaml");
    let set = |kind: &str, spec: &str| {
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  selector: {{matchLabels: {{app: x}}}}\n  \
             template:\n    metadata: {{labels: {{app: x}}, annotations: {{simulate.steersman.dev/behaviour: fail}}}}\n    \
             spec: {{{spec}containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: '0'}}\n---\n";
    // (manifest, parts of the error)
    let cases = [
        (
            failing.to_owned(),
            vec![
                "not available: job default/bad: failed: BackoffLimitExceeded: Job has reached the specified backoff limit",
            ],
        ),
        (
            set("StatefulSet", ""),
            vec!["statefulset default/x: 0 of 1 pods available (1 CrashLoopBackOff"],
        ),
        (
            set("StatefulSet", "nodeSelector: {disk: ssd}, "),
            vec![
                "statefulset default/x: 0 of 1 pods available (1 Pending, 0/3 nodes are available: 3 node(s) didn't match",
            ],
        ),
        (
            set("DaemonSet", ""),
            vec!["daemonset default/x: 0 of 3 pods available (3 CrashLoopBackOff"],
        ),
        (
            format!("{quota}{}", set("StatefulSet", "")),
            vec![
                "statefulset default/x: 0 of 1 new pods created (",
                "exceeded quota: none",
            ],
        ),
    ];
    for (manifest, parts) in cases {
        let (status, said) = once(&manifest, "6s");
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        for part in parts {
            assert!(last.contains(part), "no {part:?} in:\n{said}");
        }
    }
}

#[test]
fn manifests_that_cannot_be_applied_are_reported_with_the_reason() {
    let pod = |rest: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{rest}\n");
    let deployment = |selector: &str, replicas: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {{replicas: {replicas}, selector: {selector}, \
             template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}\n"
        )
    };
    // (manifest, error after the file name)
    let cases = [
        (
            "a: [1,\nb: }".to_owned(),
            "not valid YAML: line 1: did not find expected node content",
        ),
        ("# nothing\n".to_owned(), "no objects in it"),
        (
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "document 1 has no metadata.name: every object needs apiVersion, kind and metadata.name",
        ),
        (
            pod("").replace("Pod", "Pot"),
            r#"no matches for kind "Pot" in version "v1""#,
        ),
        (
            pod("spec: {containers: [{name: c, image: i}], color: red}"),
            r#"apply Pod "p": Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.color""#,
        ),
        (
            deployment("{}", "1"),
            r#"apply Deployment "web": Deployment.apps "web" is invalid: spec.selector: Invalid value: {}: empty selector is invalid for deployment"#,
        ),
        (
            deployment("{matchLabels: {app: web}}", "-1"),
            r#"apply Deployment "web": Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#,
        ),
    ];
    for (manifest, expected) in cases {
        let (status, said) = once(&manifest, "15s");
        assert_eq!(status, Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("Error: /") && last.ends_with(&format!("manifest.yaml: {expected}")),
            "{manifest}said {last}"
        );
    }
}

#[test]
fn invalid_input_to_dev_leads_to_one_error_and_status_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let directory = tempfile::tempdir().unwrap();
    let existing = directory.path().join("config");
    std::fs::write(&existing, "apiVersion: v1\nkind: Config\n").unwrap();
    let existing = existing.to_str().unwrap();
    let in_use = format!("Error: listen on 127.0.0.1:{port}: Address already in use");
    // (arguments, beginning of the error)
    let cases: [(&[&str], &str); 11] = [
        (&["--bogus"], "error: unexpected argument '--bogus' found"),
        (
            &["--latency=5"],
            "error: invalid value '5' for '--latency <DURATION>': time: missing unit in duration \"5\"",
        ),
        (
            &["--nodes=many"],
            "error: invalid value 'many' for '--nodes <N>'",
        ),
        (
            &["--once"],
            "error: the following required arguments were not provided:",
        ),
        (
            &["--apply", "/nowhere.yaml"],
            "Error: read /nowhere.yaml: No such file or directory",
        ),
        (&["--port", &port], &in_use),
        (
            &["--write-kubeconfig=/nowhere/at/all"],
            "Error: write the kubeconfig /nowhere/at/all: No such file or directory",
        ),
        (
            &["--write-kubeconfig", existing],
            "Error: write the kubeconfig ",
        ),
        (
            &["--", "--leader-elekt"],
            "Error: unknown flag: --leader-elekt; did you mean --leader-elect?",
        ),
        (
            &["--", "--kube-api-qps=x"],
            "Error: invalid argument \"x\" for \"--kube-api-qps\" flag",
        ),
        (
            &["--", "--controllers=nope"],
            "Error: \"nope\" is not in the list of known controllers",
        ),
    ];
    for (arguments, expected) in cases {
        let output = output(&[&["dev"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with(expected), "{arguments:?} said: {said}");
    }
    assert_eq!(
        std::fs::read_to_string(existing).unwrap(),
        "apiVersion: v1\nkind: Config\n"
    );
}

/// Starts `steersman dev` with a manifest, and waits until it is applied.
fn started(kubeconfig: &Path, more: &[&str]) -> Program {
    let manifest = kubeconfig.with_file_name("manifest.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )
    .unwrap();
    let arguments = [
        &[
            "dev",
            "--write-kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--apply",
            manifest.to_str().unwrap(),
        ],
        more,
    ]
    .concat();
    let mut program = Program::start(&arguments);
    program.wait_for_line("applied 1 object from 1 file");
    program
}

#[test]
fn signals_stop_dev_and_remove_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    for signal in ["INT", "TERM", "HUP"] {
        let mut program = started(&kubeconfig, &[]);
        assert!(kubeconfig.exists());
        program.signal(signal);
        assert_eq!(program.end(), Some(0), "{signal}");
        assert!(!kubeconfig.exists(), "{signal}");
    }
}

#[test]
fn a_signal_before_everything_is_available_leads_to_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let pod = directory.path().join("pod.yaml");
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {simulate.steersman.dev/behaviour: hang}}\n\
                    spec: {containers: [{name: c, image: i}]}\n";
    std::fs::write(&pod, manifest).unwrap();
    let mut program = Program::start(&["dev", "--once", "--apply", pod.to_str().unwrap()]);
    program.wait_for_line("applied 1 object from 1 file");
    program.signal("TERM");
    program.wait_for_line("Error: interrupted before everything was available");
    assert_eq!(program.end(), Some(1));
}

/// A Deployment of two pods.
fn deployment(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: 2\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: main, image: app}}]}}\n"
    )
}

/// Log lines of `dev --once` during one rollout, at this verbosity.
fn logged(verbosity: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    std::fs::write(&file, deployment("web")).unwrap();
    let output = output(&[
        "dev",
        "--once",
        "--latency",
        "2s",
        "--apply",
        file.to_str().unwrap(),
        "--",
        verbosity,
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let is_log = |line: &&str| line.starts_with(['I', 'W', 'E']) && line.contains("] ");
    said.lines().filter(is_log).map(str::to_owned).collect()
}

#[test]
fn each_verbosity_adds_upstreams_lines() {
    // (verbosity, maximum number of lines, parts of some line, parts of no line)
    // Each controller has a line at its start.
    type Parts = &'static [&'static str];
    let cases: [(&str, usize, Parts, Parts); 3] = [
        (
            "-v=1",
            80,
            &[
                r#""Caches are filled" informers="#,
                "all resource monitors have synced",
                "Controller starting...",
            ],
            &["Caches populated", "Too few replicas", "syncing"],
        ),
        (
            "-v=2",
            200,
            &[
                "Caches populated",
                r#"replicaset/sync.rs:"#,
                r#""Too few replicas" kind="ReplicaSet" need=2 creating=2 controller="replicaset-controller" key="default/web-"#,
                r#""Created new replica set" replicaSet="web-"#,
            ],
            &["Finished syncing", "Event occurred", "HTTP", "\"Response\""],
        ),
        (
            "-v=4",
            2000,
            &[
                r#""Started syncing" controller="deployment-controller" key="default/web""#,
                "Finished syncing",
                "Event occurred",
            ],
            &["\"Response\""],
        ),
    ];
    for (verbosity, most, present, absent) in cases {
        let lines = logged(verbosity);
        let all = lines.join("\n");
        assert!(
            lines.len() <= most,
            "{verbosity}: {} lines\n{all}",
            lines.len()
        );
        for part in present {
            assert!(all.contains(part), "{verbosity}: no {part:?} in\n{all}");
        }
        for part in absent {
            assert!(!all.contains(part), "{verbosity}: {part:?} in\n{all}");
        }
    }
}

const LONG_NAME: &str = "checkout-production-eu-west-1-service-frontend";

/// The output of `dev --once` on a terminal that changes its width while rows are shown. `None`
/// without a Python that can open a pseudo-terminal.
fn on_terminal(widths: [usize; 2], environment: &[(&str, &str)]) -> Option<String> {
    let python = python("pty")?;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    std::fs::write(&file, deployment(LONG_NAME)).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/terminal.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .args(widths.map(|width| width.to_string()))
        .arg(env!("CARGO_BIN_EXE_steersman"));
    command.args([
        "dev",
        "--once",
        "--latency",
        "3s",
        "--apply",
        file.to_str().unwrap(),
    ]);
    command
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(environment.iter().copied());
    let output = output_of(&mut command);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(said)
}

#[test]
fn rows_adapt_to_the_width_of_the_terminal() {
    let Some(said) = on_terminal([160, 50], &[("NO_COLOR", "1")]) else {
        return;
    };
    let (before, after) = said.split_once("@resized@").unwrap();
    assert!(
        before.contains(&format!("default/{LONG_NAME} [")),
        "{before}"
    );
    // The row of about 120 columns now takes three lines of 50 columns. All three are erased.
    let (_, after) = after.split_once("\x1b[3A\x1b[J").unwrap();
    let rows: Vec<&str> = after
        .lines()
        .filter(|line| line.contains("new pods"))
        .collect();
    let shown = |row: &str| {
        row.rsplit("\x1b[J")
            .next()
            .unwrap_or_default()
            .chars()
            .count()
    };
    assert!(
        !rows.is_empty() && rows.iter().all(|row| shown(row) <= 50),
        "{rows:#?}"
    );
    assert!(
        said.contains(&format!("deployment default/{LONG_NAME} complete in ")),
        "{said}"
    );
    assert!(!said.contains("\x1b[0m"), "a colour code in {said:?}");
}

#[test]
fn colours_are_used_only_on_capable_terminals() {
    let Some(coloured) = on_terminal([130, 130], &[]) else {
        return;
    };
    assert!(coloured.contains("\x1b[32mcomplete\x1b[0m"), "{coloured:?}");
    let dumb = on_terminal([130, 130], &[("TERM", "dumb")]).unwrap();
    assert!(!dumb.contains('\x1b'), "{dumb:?}");
    let (_, piped) = once(&deployment("web"), "15s");
    assert!(
        !piped.contains('\x1b') && piped.contains("deployment default/web rolling out: "),
        "{piped:?}"
    );
}
