//! exec, cp, logs, attach, port-forward and proxy of simulated containers, with the real kubectl.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use crate::harness::{Cluster, kubectl};
use crate::support::LIMIT;

/// A pod whose containers have answers.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {app: p}
  annotations:
    simulate.steersman.dev/logs: "first\nsecond\n"
    simulate.steersman.dev/exec: |
      - {command: psql -c, stdout: "1 row\n"}
      - {command: sh -c exit, stdout: "out\n", stderr: "wrong\n", exitCode: 3}
    simulate.steersman.dev/files: |
      /etc/app/config.yaml: "a: 1\n"
    simulate.steersman.dev/http: |
      - {path: /healthz, body: ok}
      - {path: /teapot, status: 418, body: short}
spec:
  containers:
  - {name: main, image: app, ports: [{name: web, containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: p}, ports: [{port: 80, targetPort: web}]}
"#;

/// The two ways in which clients open sessions: WebSocket, and SPDY as older ones.
const WEBSOCKETS: [&str; 2] = ["true", "false"];

fn start() -> Option<Cluster> {
    let cluster = Cluster::start()?
        .with_simulated_nodes()?
        .embedded("real nodes have no answers")?;
    cluster.apply(POD);
    cluster.kubectl("wait --for=condition=Ready pod/p --timeout=60s");
    Some(cluster)
}

/// kubectl with these words, over WebSocket or SPDY.
fn command(cluster: &Cluster, websockets: &str, words: &[&str]) -> Command {
    let mut command = Command::new(kubectl().expect("the cluster has started with it"));
    command
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .args(["-n", cluster.namespace()])
        .args(words)
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

fn run(cluster: &Cluster, websockets: &str, words: &[&str]) -> Output {
    command(cluster, websockets, words)
        .output()
        .expect("kubectl runs")
}

fn texts(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn commands_have_their_output_and_exit_code() {
    let Some(cluster) = start() else { return };
    for websockets in WEBSOCKETS {
        let exec = |words: &[&str]| {
            let all = [&["exec", "p", "--"], words].concat();
            texts(&run(&cluster, websockets, &all))
        };
        let row = exec(&["psql", "-c", "select 1"]);
        assert_eq!(
            row,
            ("1 row\n".to_owned(), String::new(), Some(0)),
            "{websockets}"
        );
        let (out, error, code) = exec(&["sh", "-c", "exit 3"]);
        assert_eq!((out.as_str(), code), ("out\n", Some(3)), "{error}");
        assert!(error.starts_with("wrong\n"), "{error}");
        let (_, error, code) = exec(&["nothing"]);
        assert_eq!(code, Some(1));
        assert!(
            error.contains("executable file not found in $PATH"),
            "{error}"
        );
    }
}

#[test]
fn standard_input_reaches_a_command() {
    let Some(cluster) = start() else { return };
    for websockets in WEBSOCKETS {
        let mut child = command(&cluster, websockets, &["exec", "-i", "p", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let sent = "line\n".repeat(20_000);
        let expected = sent.clone();
        let writer = std::thread::spawn(move || stdin.write_all(sent.as_bytes()));
        let output = child.wait_with_output().expect("kubectl ends");
        writer
            .join()
            .expect("the writer ends")
            .expect("kubectl reads it all");
        assert!(output.status.success());
        assert_eq!(output.stdout, expected.as_bytes(), "{websockets}");
    }
}

#[test]
fn files_are_copied_both_ways() {
    let Some(cluster) = start() else { return };
    for websockets in WEBSOCKETS {
        let home = tempfile::tempdir().expect("temporary directory");
        let local = |name: &str| home.path().join(name).display().to_string();
        std::fs::write(local("in"), "sent").expect("a file");
        let into = run(&cluster, websockets, &["cp", &local("in"), "p:/tmp/in"]);
        assert_eq!(texts(&into).2, Some(0), "{:?}", texts(&into));
        for (remote, expected) in [("/etc/app/config.yaml", "a: 1\n"), ("/tmp/in", "sent")] {
            let out = run(
                &cluster,
                websockets,
                &["cp", &format!("p:{remote}"), &local("out")],
            );
            let found = std::fs::read_to_string(local("out")).unwrap_or_default();
            assert_eq!(found, expected, "{websockets} {:?}", texts(&out));
        }
    }
}

#[test]
fn logs_and_attach_show_the_lines_of_the_annotation() {
    let Some(cluster) = start() else { return };
    assert_eq!(cluster.kubectl("logs p"), "first\nsecond\n");
    assert_eq!(cluster.kubectl("logs p --tail=1"), "second\n");
    for websockets in WEBSOCKETS {
        let (shown, ..) = texts(&run(&cluster, websockets, &["attach", "p"]));
        assert_eq!(shown, "first\nsecond\n", "{websockets}");
    }
}

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Usually it still runs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status line and the body of the answer at a path of a local port.
fn get(port: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the port is open");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.lines().next().unwrap_or_default();
    (status.to_owned(), body.to_owned())
}

#[test]
fn forwarded_ports_and_proxies_serve_pages() {
    let Some(cluster) = start() else { return };
    for websockets in WEBSOCKETS {
        let child = command(&cluster, websockets, &["port-forward", "service/s", ":80"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let mut child = Running(child);
        let mut line = String::new();
        // kubectl ends when it cannot write its next line, so the pipe stays open.
        let mut stdout = BufReader::new(child.0.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        // Forwarding from 127.0.0.1:PORT -> 8080
        let port = line
            .split("127.0.0.1:")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let port = port.unwrap_or_else(|| panic!("{line}"));
        for _ in 0..2 {
            let (status, body) = get(port, "/healthz");
            assert_eq!(
                (status.as_str(), body.as_str()),
                ("HTTP/1.1 200 OK", "ok"),
                "{websockets}"
            );
        }
        assert_eq!(get(port, "/teapot").0, "HTTP/1.1 418 I'm a teapot");
        assert_eq!(get(port, "/x").0, "HTTP/1.1 404 Not Found");
    }
    let namespace = cluster.namespace();
    for target in ["pods/p:8080", "services/s"] {
        let path = format!("/api/v1/namespaces/{namespace}/{target}/proxy/healthz");
        assert_eq!(
            cluster.kubectl(&format!("get --raw {path}")),
            "ok",
            "{target}"
        );
    }
}
