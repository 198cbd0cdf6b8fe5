//! The control interface of `steersman apiserver --control`, and the packages for Python and Node that use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use steersman_client::connect;

use crate::support::{output_of, python, skip, steersman};

/// A server with its control interface. It is killed when dropped.
struct Server {
    child: Child,
    address: String,
    token: String,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let flags = [&["apiserver", "--control"], flags].concat();
        let mut child = steersman(&flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["control"]["url"].as_str().unwrap();
        Self {
            child,
            address: url
                .strip_prefix("http://127.0.0.1:")
                .map(|port| format!("127.0.0.1:{port}"))
                .unwrap(),
            token: ready["control"]["token"].as_str().unwrap().to_owned(),
            kubeconfig: PathBuf::from(ready["kubeconfig"].as_str().unwrap()),
        }
    }

    /// The code and the body of the answer of the API server.
    fn api(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let config = steersman_client::load_config(Some(&self.kubeconfig), None).unwrap();
            let client = kube::Client::from(connect(&config).unwrap());
            let body = if body.is_null() {
                String::new()
            } else {
                body.to_string()
            };
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", "application/json")
                .body(kube::client::Body::from(body.into_bytes()))
                .unwrap();
            let answer = client.send(request).await.unwrap();
            let code = answer.status().as_u16();
            let bytes = answer.into_body().collect_bytes().await.unwrap();
            (code, String::from_utf8(bytes.to_vec()).unwrap())
        })
    }

    fn object(&self, path: &str) -> Value {
        serde_json::from_str(&self.api("GET", path, &Value::Null).1).unwrap()
    }

    /// The code and the body of the answer.
    fn ask(&self, line: &str, token: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (
            code,
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}")),
        )
    }

    fn call(&self, line: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.ask(line, &self.token, &body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_need_the_token_and_wrong_ones_are_explained() {
    let server = Server::start(&["--nodes=0", "--controllers="]);
    let cases = [
        (
            "POST /namespaces",
            "wrong",
            "",
            401,
            "the token of the ready line",
        ),
        ("GET /nothing", "", "", 404, "there is no such path"),
        ("POST /namespaces", "", "{", 400, "the body"),
        (
            "POST /namespaces",
            "",
            r#"{"name": "x"}"#,
            400,
            "unknown field `name`",
        ),
        (
            "POST /namespaces",
            "",
            r#"{"prefix": "A"}"#,
            400,
            "a lowercase RFC 1123",
        ),
        (
            "POST /faults",
            "",
            "{}",
            400,
            "one of \"fault\", \"event\" and \"view\"",
        ),
        (
            "POST /faults?cluster=7",
            "",
            r#"{"fault": "reset"}"#,
            404,
            "there is no cluster 7",
        ),
        ("GET /faults/7", "", "", 404, "there is no fault 7"),
        (
            "POST /clusters",
            "",
            r#"{"snapshot": 7}"#,
            404,
            "there is no snapshot 7",
        ),
        ("DELETE /clusters/0", "", "", 404, "there is no fork 0"),
        (
            "POST /snapshots/7/restore",
            "",
            "",
            404,
            "there is no snapshot 7",
        ),
        ("POST /requests", "", "", 400, "missing field `bodies`"),
        (
            "POST /watches/pods/explode",
            "",
            "",
            400,
            "none of stall, resume, break",
        ),
    ];
    for (line, token, body, code, part) in cases {
        let token = if token.is_empty() {
            &server.token
        } else {
            token
        };
        let (found, answer) = server.ask(line, token, body);
        assert_eq!(found, code, "{line}: {answer}");
        let text = answer["error"].as_str().unwrap();
        assert!(text.contains(part), "{line}: {text}");
    }
}

#[test]
fn faults_of_a_fork_end_with_it_and_touch_no_other_cluster() {
    let server = Server::start(&["--nodes=0", "--controllers="]);
    let (_, fork) = server.call("POST /clusters", &Value::Null);
    let number = &fork["cluster"];
    let rule = json!({"match": {"verb": "create"}, "fault": {"reject": "conflict"}});
    let (code, rule) = server.call(&format!("POST /faults?cluster={number}"), &rule);
    assert_eq!(code, 200, "{rule}");
    let (refused, answer) =
        server.call(&format!("POST /namespaces?cluster={number}"), &Value::Null);
    assert_eq!(refused, 400, "{answer}");
    assert_eq!(server.call("POST /namespaces", &Value::Null).0, 200);
    let (_, state) = server.call(&format!("GET /faults/{}", rule["id"]), &Value::Null);
    assert_eq!(state, json!({"hits": 1, "last": "create namespaces"}));
    assert_eq!(
        server
            .call(&format!("DELETE /clusters/{number}"), &Value::Null)
            .0,
        200
    );
    let (gone, _) = server.call(&format!("GET /faults/{}", rule["id"]), &Value::Null);
    assert_eq!(gone, 404);
}

#[test]
fn a_restore_returns_to_a_snapshot_while_controllers_run() {
    let server = Server::start(&["--nodes=1"]);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]},
        }},
    });
    assert_eq!(server.api("POST", deployments, &web).0, 201);
    // The jump returns when the work in it is done.
    let settle = || server.call("POST /time", &json!({"stopped": true, "advance": "30s"}));
    settle();
    let pods = || {
        let list = server.object("/api/v1/namespaces/default/pods");
        let of_web = list["items"].as_array().unwrap().iter();
        of_web
            .map(|pod| {
                let phase = pod["status"]["phase"].as_str().unwrap();
                format!("{} {phase}", pod["metadata"]["uid"].as_str().unwrap())
            })
            .collect::<Vec<_>>()
    };
    let before = pods();
    assert_eq!(before.len(), 2);
    assert!(before.iter().all(|pod| pod.ends_with(" Running")));
    let (_, prepared) = server.call("POST /snapshots", &Value::Null);

    let all = "/api/v1/namespaces/default/pods";
    assert_eq!(server.api("DELETE", all, &Value::Null).0, 200);
    settle();
    let others = pods();
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|pod| !before.contains(pod)));
    let restore = format!("POST /snapshots/{}/restore", prepared["snapshot"]);
    assert_eq!(server.call(&restore, &Value::Null).0, 200);
    assert_eq!(pods(), before);
    settle();
    assert_eq!(pods(), before, "there is nothing to correct");

    // The cluster works on: a larger size has more pods.
    let larger = format!("{deployments}/web");
    let mut web = server.object(&larger);
    web["spec"]["replicas"] = 3.into();
    assert_eq!(server.api("PUT", &larger, &web).0, 200);
    settle();
    let after = pods();
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|pod| after.contains(pod)));
}

#[test]
fn time_stands_still_and_jumps_over_the_life_of_a_job() {
    let server = Server::start(&["--nodes=1"]);
    let time = |body: Value| {
        let (code, state) = server.call("POST /time", &body);
        assert_eq!(code, 200, "{state}");
        state["now"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let stopped = time(json!({"stopped": true}));
    let (_, state) = server.call("GET /time", &Value::Null);
    assert_eq!(state, json!({"now": stopped.to_string(), "stopped": true}));
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"ttlSecondsAfterFinished": 3600, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
        }}},
    });
    let kubernetes = |method: &str, path: &str, body: &Value| server.api(method, path, body).0;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    assert_eq!(kubernetes("POST", jobs, &job), 201);
    // The Job ends after moments, and is removed an hour later.
    time(json!({"advance": "30m"}));
    assert_eq!(
        kubernetes("GET", &format!("{jobs}/once"), &Value::Null),
        200
    );
    let moved = time(json!({"advance": "31m"}));
    assert_eq!(
        kubernetes("GET", &format!("{jobs}/once"), &Value::Null),
        404
    );
    let minutes = moved.duration_since(stopped).as_secs() / 60;
    assert_eq!(minutes, 61);
    // Heartbeats of the node went on meanwhile.
    let node = server.object("/api/v1/nodes/node-0");
    assert!(node["spec"]["taints"].is_null(), "{node}");
    time(json!({"stopped": false}));
    let (_, state) = server.call("GET /time", &Value::Null);
    assert_eq!(state["stopped"], false);
    let (code, _) = server.call("POST /time", &json!({}));
    assert_eq!(code, 400);
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a client until it prints `done`.
fn run(command: &mut Command) {
    command.env("STEERSMAN", env!("CARGO_BIN_EXE_steersman"));
    let output = output_of(command);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.trim_end() == "done",
        "{said}\n{errors}"
    );
}

#[test]
fn the_python_package_has_namespaces_faults_requests_and_forks() {
    let Some(python) = python("kubernetes") else {
        return;
    };
    let script = root().join("tests/clients/control.py");
    run(Command::new(python)
        .arg(script)
        .env("PYTHONPATH", root().join("scripts/release/python")));
}

#[test]
fn pytest_gives_each_test_a_namespace_or_a_cluster() {
    let Some(python) = python("pytest") else {
        return;
    };
    let mut command = Command::new(python);
    command
        .args(["-m", "pytest", "-p", "steersman.pytest_plugin"])
        .args(["-p", "no:cacheprovider"])
        .arg(root().join("tests/clients/pytest_story.py"))
        .env("PYTHONPATH", root().join("scripts/release/python"))
        .env("STEERSMAN", env!("CARGO_BIN_EXE_steersman"));
    let output = output_of(&mut command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("4 passed"),
        "{said}"
    );
}

#[test]
fn the_npm_package_has_namespaces_faults_requests_and_forks() {
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|found| found.status.success()) {
        return skip("no node on the PATH");
    }
    let script = root().join("tests/clients/control.cjs");
    run(Command::new("node").args([&script, Path::new(&root().join("scripts/release/npm"))]));
}
