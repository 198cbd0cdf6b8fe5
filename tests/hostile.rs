//! Invalid files and hostile clients. Errors name the file; clients are refused or disconnected,
//! and the manager continues to work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use steersman_devcluster::DevCluster;
use steersman_devcluster::auth::User;
use steersman_values::clock::Clock;

use crate::support::cluster::{deployment, held, wait_for_count, wait_for_lease};
use crate::support::secured::Secured;
use crate::support::{Clients, LIMIT, api_server, free_port, kubeconfig, output};

#[test]
fn errors_name_invalid_files_and_the_manager_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path(), api_server("200 OK"));
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pair = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let one = pair();
    let other = pair();
    let certificate = format!("--tls-cert-file={}", file("one.crt", &one.cert.pem()));
    let key = |name: &str, text: &str| format!("--tls-private-key-file={}", file(name, text));
    let others_key = key("other.key", &other.signing_key.serialize_pem());
    let no_key = key("no.key", "no key");
    let authority = |name: &str, text: &str| format!("--client-ca-file={}", file(name, text));
    let no_authority = authority("no.ca", "no authority");
    let directory_flag = format!("--client-ca-file={}", directory.path().display());
    // (case, flags, parts of the last line)
    let cases: [(&str, &[&str], [&str; 2]); 5] = [
        (
            "key of another certificate",
            &[&certificate, &others_key],
            ["other.key", "tls: private key does not match public key"],
        ),
        (
            "invalid key",
            &[&certificate, &no_key],
            ["no.key", "private key: "],
        ),
        (
            "certificate without a key",
            &[&certificate],
            ["need to specify both", "--tls-private-key-file"],
        ),
        (
            "invalid authority",
            &[&no_authority],
            ["no.ca", "does not contain any valid"],
        ),
        (
            "unreadable authority",
            &[&directory_flag],
            ["unable to load client CA provider", "is a directory"],
        ),
    ];
    let port = format!("--secure-port={}", free_port());
    for (what, flags, parts) in cases {
        let common = [
            "--kubeconfig",
            &kubeconfig,
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            &port,
        ];
        let ended = output(&[&common, flags].concat());
        let said = String::from_utf8(ended.stderr).unwrap();
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(ended.status.code(), Some(1), "{what}: {said}");
        assert!(
            parts.iter().all(|part| last.contains(part)),
            "{what}: {last}"
        );
    }
}

/// Asserts that the manager answers probes, and that a new Deployment leads to `pods` pods in all.
async fn assert_working(secured: &Secured, pods: usize) {
    let (head, body) = secured.ask("GET /healthz", "", "", None);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}\n{body}");
    secured
        .cluster
        .create(deployment(&format!("web-{pods}"), 1))
        .await
        .unwrap();
    wait_for_count(&secured.cluster, "pods", pods).await;
}

/// A token of a service account for one audience.
async fn token(cluster: &DevCluster, audience: &str) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/scraper/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}});
    let answer = cluster
        .call(Method::POST, path, "application/json", request.to_string())
        .await
        .unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_credentials_are_refused_with_upstreams_messages() {
    let cluster = DevCluster::new(Clock::system());
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": "default"}});
    cluster.create(account).await.unwrap();
    cluster.add_token("monitor", User::new("prometheus", ["system:monitoring"]));
    let ours = token(&cluster, "https://kubernetes.default.svc").await;
    let others = token(&cluster, "vault").await;
    let secured = Secured::start(cluster, &[]).await;
    let expired = secured
        .clients
        .identity_until("jane", "system:masters", 2020);
    let joe = secured.clients.identity("joe", "people");
    let stranger = Clients::new(tempfile::tempdir().unwrap().path()).master();
    let cannot = |user: &str| format!("forbidden: User \"{user}\" cannot get path \"/metrics\"");
    let account = cannot("system:serviceaccount:default:scraper");
    // (case, token, certificate, status, message)
    let cases = [
        ("permitted token", "monitor", None, 200, String::new()),
        (
            "token of an account without permission",
            ours.as_str(),
            None,
            403,
            account,
        ),
        (
            "token for another audience",
            others.as_str(),
            None,
            401,
            "Unauthorized".to_owned(),
        ),
        (
            "unknown token",
            "made.up.token",
            None,
            401,
            "Unauthorized".to_owned(),
        ),
        (
            "certificate of a user without permission",
            "",
            Some(&joe),
            403,
            cannot("joe"),
        ),
        (
            "expired certificate",
            "",
            Some(&expired),
            401,
            "Unauthorized".to_owned(),
        ),
        (
            "certificate of an unknown authority",
            "",
            Some(&stranger),
            401,
            "Unauthorized".to_owned(),
        ),
        ("no credentials", "", None, 403, cannot("system:anonymous")),
    ];
    for (case, token, certificate, status, message) in cases {
        let header = if token.is_empty() {
            String::new()
        } else {
            format!("authorization: Bearer {token}\r\n")
        };
        let (head, body) = secured.ask("GET /metrics", &header, "", certificate);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{case}: {head}"
        );
        if status != 200 {
            let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                (&answer["kind"], &answer["code"], &answer["message"]),
                (&"Status".into(), &status.into(), &message.into()),
                "{case}"
            );
        }
    }
    assert_working(&secured, 1).await;
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_requests_are_refused_or_cut_off() {
    let secured = Secured::start(DevCluster::new(Clock::system()), &[]).await;
    let master = secured.clients.master();
    let (head, _) = secured.ask(
        "POST /healthz",
        "content-length: 1000000000000\r\n",
        "and so on",
        None,
    );
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n"),
        "the server answers without waiting for an unused body: {head}"
    );
    let number = "1".repeat(2000);
    let (head, body) = secured.ask(
        "PUT /debug/flags/v",
        &format!("content-length: {}\r\n", number.len()),
        &number,
        Some(&master),
    );
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    assert!(body.contains("at most 1024 bytes"), "{body}");
    let (head, _) = secured.ask("GET /healthz", &"x-a: b\r\n".repeat(101), "", None);
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let long = format!("x-a: {}\r\n", "b".repeat(300_000));
    let (head, _) = secured.ask("GET /healthz", &long, "", None);
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let (head, _) = secured.ask("GET /healthz", "content-length: many\r\n", "", None);
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert_working(&secured, 1).await;
    secured.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_clients_do_not_disturb_the_manager() {
    let secured = Secured::start(DevCluster::new(Clock::system()), &[]).await;
    let idle: Vec<TcpStream> = (0..1000)
        .map(|_| TcpStream::connect(secured.address).unwrap())
        .collect();
    let mut nonsense = TcpStream::connect(secured.address).unwrap();
    nonsense
        .write_all(&[22, 3, 1, 255, 255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        .unwrap();
    assert_working(&secured, 1).await;
    // The server closes each connection at its time limit; then reading ends.
    for mut client in idle.into_iter().chain([nonsense]) {
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let mut rest = Vec::new();
        match tokio::task::block_in_place(|| client.read_to_end(&mut rest)) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
    assert_working(&secured, 2).await;
    secured.stop().await;
}

/// A leaf and intermediates with one name, that of the authority, so that each may be the issuer of
/// each, and the authority of all of them.
fn tangle(intermediates: usize) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let params = |name: &str| {
        let mut params = rcgen::CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    };
    let issuer = rcgen::Issuer::new(params("clients"), rcgen::KeyPair::generate().unwrap());
    let issue = |params: rcgen::CertificateParams| {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.der().clone(), key)
    };
    let mut leaf = params("jane");
    leaf.is_ca = rcgen::IsCa::NoCa;
    let (leaf, key) = issue(leaf);
    let others = (0..intermediates).map(|_| issue(params("clients")).0);
    let chain = std::iter::once(leaf).chain(others).collect();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (chain, key)
}

/// The start of the response to `request`, or nothing if the server ends the connection first.
fn response_to(address: SocketAddr, tls: &Arc<ClientConfig>, request: &[u8]) -> String {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::clone(tls), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    let mut start = [0; 12];
    let asked = tls.write_all(request).and_then(|()| tls.flush());
    match asked.and_then(|()| tls.read_exact(&mut start)) {
        Ok(()) => String::from_utf8_lossy(&start).into_owned(),
        Err(_) => String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_hostile_connections_delay_no_renewal() {
    const CONNECTIONS: usize = 500;
    let secured = Secured::start(DevCluster::new(Clock::system()), &[]).await;
    let before = wait_for_lease(&secured.cluster, held).await;
    let address = secured.address;
    let plain = secured.tls(None);
    let showing = |intermediates| secured.tls_with_chain(tangle(intermediates));
    // (kind, TLS settings, request, beginning of the response)
    let get = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(14_000));
    let half = b"GET /healthz HTTP/1.1\r\nhost".to_vec();
    let kinds = [
        ("a chain that takes minutes", showing(268), get.clone(), ""),
        (
            "the worst chain within bounds",
            showing(4),
            get.clone(),
            "HTTP/1.1 401",
        ),
        (
            "many requests",
            Arc::clone(&plain),
            get.repeat(50),
            "HTTP/1.1 200",
        ),
        (
            "a long path",
            Arc::clone(&plain),
            long.into_bytes(),
            "HTTP/1.1 403",
        ),
        ("no HTTP", plain, b"\0\r\n\r\n".repeat(100), "HTTP/1.1 400"),
    ];
    let opened: Vec<TcpStream> = (0..CONNECTIONS / 5)
        .map(|index| {
            let mut stream = TcpStream::connect(address).unwrap();
            let part: &[u8] = if index % 2 == 0 {
                &[22, 3, 1, 2]
            } else {
                &half
            };
            stream.write_all(part).unwrap();
            stream
        })
        .collect();
    let attackers: Vec<_> = (0..16)
        .map(|attacker| {
            let kinds = kinds.clone();
            std::thread::spawn(move || {
                for index in (attacker..CONNECTIONS * 4 / 5).step_by(16) {
                    let (kind, tls, request, expected) = &kinds[index % kinds.len()];
                    assert_eq!(&response_to(address, tls, request), expected, "{kind}");
                }
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    let mut probes = 0;
    while attackers.iter().any(|attacker| !attacker.is_finished()) {
        let began = Instant::now();
        let (head, _) = secured.ask("GET /healthz", "", "", None);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        slowest = slowest.max(began.elapsed());
        probes += 1;
    }
    for attacker in attackers {
        attacker.join().unwrap();
    }
    let after = wait_for_lease(&secured.cluster, |lease| {
        lease["renewTime"] != before["renewTime"]
    })
    .await;
    for field in ["holderIdentity", "acquireTime", "leaseTransitions"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    let (_, metrics) = secured.ask("GET /metrics", "", "", Some(&secured.clients.master()));
    let slow = metrics
        .lines()
        .any(|line| line.starts_with("leader_election_slowpath_total{"));
    assert!(!slow, "each renewal succeeded at once");
    eprintln!("the slowest of {probes} probes took {slowest:?}");
    drop(opened);
    assert_working(&secured, 1).await;
    secured.stop().await;
}
