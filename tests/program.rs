//! The running program: its HTTPS endpoints, and its reaction to signals.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::https::HttpsDoor;
use steersman_values::clock::Clock;

use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};
use crate::support::{
    Clients, LIMIT, Program, api_server, ask, free_port, get, kubeconfig, split, steersman, tls,
};

/// A manager without controllers that serves HTTPS. Its API server only reports that it is healthy.
pub(crate) struct Serving {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) certificate: PathBuf,
    pub(crate) clients: Clients,
}

impl Serving {
    /// TLS settings of a client in `system:masters`.
    pub(crate) fn master(&self) -> Arc<rustls::ClientConfig> {
        tls(&self.certificate, Some(&self.clients.master()))
    }

    /// TLS settings of a client without a certificate.
    pub(crate) fn anonymous(&self) -> Arc<rustls::ClientConfig> {
        tls(&self.certificate, None)
    }
}

/// Starts a manager with its files in `directory`, and with more flags.
pub(crate) fn start(directory: &Path, flags: &[&str]) -> Serving {
    let kubeconfig = kubeconfig(directory, api_server("200 OK"));
    let clients = Clients::new(directory);
    let port = free_port();
    let port_flag = format!("--secure-port={port}");
    let bundle = clients.bundle.to_str().unwrap();
    let mut arguments = vec![
        "--kubeconfig",
        &kubeconfig,
        "--leader-elect=false",
        "--controllers=",
        "--bind-address=127.0.0.1",
    ];
    arguments.extend([
        &*port_flag,
        "--client-ca-file",
        bundle,
        "--cert-dir",
        directory.to_str().unwrap(),
    ]);
    arguments.extend(flags);
    let mut program = Program::start(&arguments);
    program.wait_for_line("Serving securely");
    let certificate = directory.join("kube-controller-manager.crt");
    Serving {
        program,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        certificate,
        clients,
    }
}

#[test]
fn a_server_that_is_not_verified_needs_no_authorities_of_the_system() {
    let directory = tempfile::tempdir().unwrap();
    let first = start(directory.path(), &[]);
    let unverified = directory.path().join("unverified");
    let content = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{}", first.address), "insecure-skip-tls-verify": true,
        }}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    });
    std::fs::write(&unverified, content.to_string()).unwrap();
    let plain = kubeconfig(directory.path(), api_server("200 OK"));
    for server in [&plain, unverified.to_str().unwrap()] {
        let port = format!("--secure-port={}", free_port());
        let arguments = [
            "--kubeconfig",
            server,
            "--leader-elect=false",
            "--controllers=",
            &port,
        ];
        let mut command = steersman(&arguments);
        // An image with nothing but the program has no authorities.
        command
            .args(["--bind-address=127.0.0.1", "--cert-dir"])
            .arg(directory.path())
            .env("SSL_CERT_FILE", "/dev/null")
            .env("SSL_CERT_DIR", "/dev/null");
        Program::spawn(&mut command).wait_for_line("Serving securely");
    }
}

#[test]
fn health_metrics_and_configuration_are_served_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let mut serving = start(directory.path(), &[]);
    let address = serving.address;
    let anonymous = serving.anonymous();
    // The check comes with the phase after the API server has answered; `ping` stands in before.
    serving.program.wait_until("the check of progress", || {
        let (head, body) = get(address, anonymous.clone(), "/healthz?verbose");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        body == "[+]progress ok\nhealthz check passed\n"
    });
    let (head, _) = get(address, serving.anonymous(), "/metrics");
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
    let (head, body) = get(address, serving.master(), "/metrics");
    assert!(
        head.contains("text/plain; version=0.0.4; charset=utf-8; escaping=underscores"),
        "{head}"
    );
    assert!(
        body.contains("\n# TYPE kubernetes_build_info gauge\n"),
        "{body}"
    );
    let (_, body) = get(address, serving.master(), "/configz");
    assert!(
        body.contains(r#""LeaderElection":{"leaderElect":false,"#)
            && body.contains(r#""Controllers":[]"#),
        "{body}"
    );

    let mut plain = TcpStream::connect(address).unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let (head, body) = split(plain);
    assert_eq!(
        (head.as_str(), body.as_str()),
        (
            "HTTP/1.0 400 Bad Request",
            "Client sent an HTTP request to an HTTPS server.\n"
        )
    );
}

#[test]
fn the_verbosity_changes_at_run_time_unless_profiling_is_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let put = |serving: &Serving| {
        let head = "PUT /debug/flags/v HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1\r\n\r\n3";
        ask(serving.address, serving.master(), head)
    };
    let mut serving = start(directory.path(), &[]);
    get(serving.address, serving.anonymous(), "/healthz?quietly");
    let (head, body) = put(&serving);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "successfully set klog.logging.verbosity to 3");
    get(serving.address, serving.anonymous(), "/healthz?loudly");
    serving
        .program
        .wait_for_line(r#""HTTP" verb="GET" URI="/healthz?loudly""#);
    serving.program.signal("TERM");
    let (_, log) = serving.program.end_with_log();
    assert!(!log.contains("quietly"), "{log}");

    let serving = start(directory.path(), &["--profiling=false"]);
    let (head, _) = put(&serving);
    assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
}

#[test]
fn a_signal_stops_the_program_in_order() {
    for signal in ["TERM", "INT"] {
        let directory = tempfile::tempdir().unwrap();
        let mut program = start(directory.path(), &[]).program;
        program.signal(signal);
        program.wait_for_line("received a signal");
        assert_eq!(program.end(), Some(0), "{signal}");
    }
}

/// Starts the program with a cluster over HTTPS, and waits until it leads.
async fn start_leading(cluster: &DevCluster) -> (Program, HttpsDoor) {
    let door = cluster
        .serve_https(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let program = start_at(&door, &[]);
    wait_for_lease(cluster, held).await;
    (program, door)
}

/// Starts the program with these arguments; it connects to this door.
pub(crate) fn start_at(door: &HttpsDoor, arguments: &[&str]) -> Program {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, door.kubeconfig()).unwrap();
    let mut all = vec![
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--secure-port=0",
    ];
    all.extend(arguments);
    let mut program = Program::start(&all);
    // The program has read the kubeconfig now, so the file may be deleted.
    program.wait_for_line("Attempting to acquire leader lease");
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn over_https_it_rolls_out_and_a_signal_releases_the_lease() {
    let cluster = DevCluster::new(Clock::system());
    let (mut program, door) = start_leading(&cluster).await;
    cluster.create(deployment("web", 3)).await.unwrap();
    wait_for_count(&cluster, "pods", 3).await;
    program.signal("TERM");
    assert_eq!(
        tokio::task::spawn_blocking(move || program.end())
            .await
            .unwrap(),
        Some(0)
    );
    assert!(!held(&wait_for_lease(&cluster, |_| true).await));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    let cluster = DevCluster::new(Clock::system());
    let (mut program, door) = start_leading(&cluster).await;
    // From now on, releasing the Lease takes much longer than the test waits.
    cluster
        .faults()
        .delay(Matcher::new("update", "leases"), LIMIT * 2, None);
    let ended = tokio::task::spawn_blocking(move || {
        program.signal("TERM");
        program.wait_for_line("received a signal");
        program.signal("TERM");
        program.end()
    });
    assert_eq!(ended.await.unwrap(), Some(1));
    door.stop().await;
}
