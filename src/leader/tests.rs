//! Servers that record each request: only a verified server gets a secret.

use std::io::Write as _;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::config::{AuthInfo, ExecConfig};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::access::AnyClient;

const SECRET: &str = "hunter2";

/// An authority of certificates.
struct Authority {
    der: Vec<u8>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self {
            der: certificate.der().to_vec(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for `name`, and its key.
    fn issue(
        &self,
        name: SanType,
        usage: ExtendedKeyUsagePurpose,
    ) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(name);
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

fn local() -> SanType {
    SanType::IpAddress("127.0.0.1".parse().unwrap())
}

fn answer_to(head: &str) -> &'static str {
    if head.contains("/leases/kube-controller-manager") || head.contains("/leases/beside") {
        r#"{"spec": {"holderIdentity": "far-away_1"}}"#
    } else if head.contains("/namespaces/kube-system/pods?") {
        r#"{"items": [{"metadata": {"name": "dns"}, "spec": {"nodeName": "far-away"}},
            {"metadata": {"name": "kube-controller-manager-far-away"}, "spec": {"nodeName": "far-away"}},
            {"metadata": {"name": "steersman-far-away"}, "spec": {"nodeName": "far-away"}}]}"#
    } else if head.contains("/namespaces/team/pods?") {
        r#"{"items": [{"metadata": {"name": "a-controller-manager"}, "spec": {"nodeName": "far-away"}},
            {"metadata": {"name": "beside-1"}, "spec": {"nodeName": "elsewhere"}},
            {"metadata": {"name": "beside-2"}, "spec": {"nodeName": "far-away"}}]}"#
    } else {
        "{}"
    }
}

/// A server without the path of `why`, such as kube-controller-manager.
async fn serve_nothing(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if head.ends_with(b"\r\n\r\n") {
                head.clear();
                let answer =
                    b"HTTP/1.1 404 Not Found\r\ncontent-length: 18\r\n\r\n404 page not found";
                stream.write_all(answer).await.unwrap();
            }
        }
    }
}

/// One request, as the server got it.
struct Seen {
    head: String,
    has_certificate: bool,
}

/// Records and answers the requests of one connection.
async fn answer_all(
    stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin),
    has_certificate: bool,
    log: &Mutex<Vec<Seen>>,
) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
        let body = answer_to(&text);
        log.lock().push(Seen {
            head: text,
            has_certificate,
        });
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
}

/// A server that records all requests. It has a Lease and a pod, and answers others with `{}`.
struct Recorder {
    url: String,
    fingerprint: Fingerprint,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Recorder {
    async fn start((certificate, key): (rcgen::Certificate, KeyPair)) -> Self {
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyClient::new()))
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                    answer_all(&mut stream, has_certificate, &log).await;
                });
            }
        });
        Self {
            url,
            fingerprint: Fingerprint::of(certificate.der()),
            seen,
        }
    }

    /// Whether a request had a secret, and whether one had a client certificate.
    fn got(&self) -> (bool, bool) {
        let seen = self.seen.lock();
        let has_secret =
            |seen: &Seen| seen.head.contains(SECRET) || seen.head.contains("authorization:");
        (
            seen.iter().any(has_secret),
            seen.iter().any(|seen| seen.has_certificate),
        )
    }
}

fn flags(url: &str) -> ManagerFlags {
    ManagerFlags {
        manager: Some(url.to_owned()),
        manager_lease: LeaseName::default(),
        manager_port: 10257,
        manager_ca: None,
        manager_fingerprint: None,
    }
}

/// Reaches the server with these credentials and asks it. The cluster's authority is `authority`.
async fn ask(
    authority: &Authority,
    auth: &AuthInfo,
    flags: &ManagerFlags,
) -> Result<Option<Fingerprint>, String> {
    ask_by(authority, auth, flags, ("https://127.0.0.1:1", "none")).await
}

/// The same with this API server and kubectl.
async fn ask_by(
    authority: &Authority,
    auth: &AuthInfo,
    flags: &ManagerFlags,
    programs: (&str, &str),
) -> Result<Option<Fingerprint>, String> {
    let leader = reach(authority, auth, flags, programs).await?;
    leader.get("/debug/why").await?;
    Ok(leader.unverified())
}

async fn reach(
    authority: &Authority,
    auth: &AuthInfo,
    flags: &ManagerFlags,
    (server, kubectl): (&str, &str),
) -> Result<Leader, String> {
    let mut config = kube::Config::new(server.parse().unwrap());
    config.root_cert = Some(vec![authority.der.clone()]);
    config.auth_info = auth.clone();
    let caller = Caller {
        api: &ApiClient::new(
            steersman_client::connect(&config).unwrap(),
            ClientSettings {
                user_agent: "test".to_owned(),
                qps: 0.0,
                burst: 0,
                timeout: Duration::from_secs(30),
            },
            ClientMetrics::register(&Registry::new()).unwrap(),
        ),
        config: &config,
        kubeconfig: Some("the-kubeconfig"),
        command: "why",
        timeout: Duration::from_secs(30),
        kubectl: kubectl.to_owned(),
    };
    Leader::reach(&caller, flags).await
}

/// All kinds of secrets.
fn secrets(directory: &Path) -> Vec<(&'static str, AuthInfo)> {
    let file = directory.join("token");
    std::fs::write(&file, SECRET).unwrap();
    let credential = serde_json::json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": SECRET},
    });
    let plugin = directory.join("credential.json");
    let mut written = std::fs::File::create(&plugin).unwrap();
    written
        .write_all(credential.to_string().as_bytes())
        .unwrap();
    let exec: ExecConfig = serde_json::from_value(serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [plugin],
        "interactiveMode": "Never",
    }))
    .unwrap();
    vec![
        (
            "token",
            AuthInfo {
                token: Some(SECRET.to_owned().into()),
                ..AuthInfo::default()
            },
        ),
        (
            "token file",
            AuthInfo {
                token_file: Some(file.display().to_string()),
                ..AuthInfo::default()
            },
        ),
        (
            "password",
            AuthInfo {
                username: Some("jane".to_owned()),
                password: Some(SECRET.to_owned().into()),
                ..AuthInfo::default()
            },
        ),
        (
            "exec plugin",
            AuthInfo {
                exec: Some(exec),
                ..AuthInfo::default()
            },
        ),
    ]
}

fn certificate(authority: &Authority, token: Option<&str>) -> AuthInfo {
    let name = SanType::DnsName("jane".try_into().unwrap());
    let (certificate, key) = authority.issue(name, ExtendedKeyUsagePurpose::ClientAuth);
    AuthInfo {
        client_certificate_data: Some(BASE64_STANDARD.encode(certificate.pem())),
        client_key_data: Some(BASE64_STANDARD.encode(key.serialize_pem()).into()),
        token: token.map(|token| token.to_owned().into()),
        ..AuthInfo::default()
    }
}

#[tokio::test]
async fn a_hostile_server_gets_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let other = Authority::new("other");
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let node = SanType::DnsName("node-1".try_into().unwrap());
    // (why, certificate of the server, part of the error)
    let hostile = [
        (
            "of another authority",
            other.issue(local(), server.clone()),
            "UnknownIssuer",
        ),
        (
            "for another name",
            cluster.issue(node, server),
            "not valid for name",
        ),
        (
            "of a client of the cluster",
            cluster.issue(local(), ExtendedKeyUsagePurpose::ClientAuth),
            "cannot be verified",
        ),
    ];
    for (why, pair, part) in hostile {
        let recorder = Recorder::start(pair).await;
        let flags = flags(&recorder.url);
        for (kind, secret) in secrets(home.path()) {
            let error = ask(&cluster, &secret, &flags).await.unwrap_err();
            assert!(error.contains(part), "{why}, {kind}: {error}");
            let digits = recorder.fingerprint.to_string();
            assert!(error.contains(&digits), "{why}, {kind}: {error}");
            assert_eq!(recorder.got(), (false, false), "{why}, {kind}");
        }
        // A client certificate may go there, a token beside it may not.
        let both = certificate(&cluster, Some(SECRET));
        let unverified = ask(&cluster, &both, &flags).await;
        assert_eq!(unverified, Ok(Some(recorder.fingerprint)), "{why}");
        assert_eq!(recorder.got(), (false, true), "{why}");
    }
}

#[tokio::test]
async fn a_manager_without_tls_is_asked_without_credentials() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let flags = flags(&format!("http://{}", listener.local_addr().unwrap()));
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let log = Arc::clone(&log);
            tokio::spawn(async move { answer_all(&mut stream, false, &log).await });
        }
    });
    for (kind, secret) in secrets(home.path()) {
        let unverified = ask(&cluster, &secret, &flags).await;
        assert_eq!(unverified, Ok(None), "{kind}");
    }
    let seen = seen.lock();
    assert!(seen.iter().any(|seen| seen.head.contains("/debug/why")));
    for seen in &*seen {
        let is_bare = !seen.head.contains(SECRET) && !seen.head.contains("authorization:");
        assert!(is_bare, "{}", seen.head);
    }
}

/// `why` answers from API objects alone then.
#[tokio::test]
async fn a_port_without_a_listener_is_not_the_leader() {
    let cluster = Authority::new("cluster");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["http", "https"] {
        let flags = flags(&format!("{scheme}://{at}"));
        let programs = ("https://127.0.0.1:1", "none");
        let found = reach(&cluster, &AuthInfo::default(), &flags, programs).await;
        assert!(found.is_err(), "{scheme}");
    }
}

#[tokio::test]
async fn kube_controller_manager_is_told_by_its_answer() {
    let cluster = Authority::new("cluster");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let flags = flags(&format!("http://{}", listener.local_addr().unwrap()));
    tokio::spawn(serve_nothing(listener));
    let error = ask(&cluster, &AuthInfo::default(), &flags)
        .await
        .unwrap_err();
    assert!(error.contains("kube-controller-manager"), "{error}");
}

#[tokio::test]
async fn a_verified_server_gets_the_credentials() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let other = Authority::new("other");
    let file = home.path().join("manager.crt");
    std::fs::write(&file, &other.pem).unwrap();
    let issue =
        |authority: &Authority| authority.issue(local(), ExtendedKeyUsagePurpose::ServerAuth);
    let secrets = secrets(home.path());
    // (why, certificate of the server, whether the flags name its authority, whether its fingerprint)
    let cases = [
        ("authority of the cluster", issue(&cluster), false, false),
        ("--manager-ca", issue(&other), true, false),
        ("--manager-fingerprint", issue(&other), false, true),
    ];
    for (why, pair, by_file, by_fingerprint) in cases {
        let recorder = Recorder::start(pair).await;
        let mut flags = flags(&recorder.url);
        flags.manager_ca = by_file.then(|| file.clone());
        flags.manager_fingerprint = by_fingerprint.then_some(recorder.fingerprint);
        for (kind, secret) in &secrets {
            recorder.seen.lock().clear();
            let unverified = ask(&cluster, secret, &flags).await;
            assert_eq!(unverified, Ok(None), "{why}, {kind}");
            assert_eq!(recorder.got(), (true, false), "{why}, {kind}");
        }
        recorder.seen.lock().clear();
        let unverified = ask(&cluster, &certificate(&cluster, None), &flags).await;
        assert_eq!(unverified, Ok(None), "{why}");
        assert_eq!(recorder.got(), (false, true), "{why}");
    }
}

#[tokio::test]
async fn flags_that_name_another_server_are_no_advice() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let other = Authority::new("other");
    let pair = cluster.issue(local(), ExtendedKeyUsagePurpose::ServerAuth);
    let recorder = Recorder::start(pair).await;
    let file = home.path().join("manager.crt");
    std::fs::write(&file, &other.pem).unwrap();
    let mut by_file = flags(&recorder.url);
    by_file.manager_ca = Some(file);
    let mut by_fingerprint = flags(&recorder.url);
    by_fingerprint.manager_fingerprint = Some(Fingerprint::of(b"another"));
    for flags in [by_file, by_fingerprint] {
        let error = ask(&cluster, &certificate(&cluster, None), &flags).await;
        assert!(
            error.unwrap_err().contains("cannot be verified"),
            "{flags:?}"
        );
        assert_eq!(recorder.got(), (false, false), "{flags:?}");
    }
}

#[test]
fn a_lease_has_a_namespace_and_a_name() {
    let lease: LeaseName = "team/beside".parse().unwrap();
    assert_eq!((&*lease.namespace, &*lease.name), ("team", "beside"));
    assert_eq!(lease.to_string(), "team/beside");
    for wrong in ["beside", "/beside", "team/", "team/beside/1", ""] {
        assert!(wrong.parse::<LeaseName>().is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_port_forward_reaches_the_pod_that_belongs_to_the_lease() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let api = Recorder::start(cluster.issue(local(), server.clone())).await;
    let node = SanType::DnsName("far-away".try_into().unwrap());
    let leader = Recorder::start(cluster.issue(node, server)).await;
    let kubectl = fake_kubectl(home.path(), &leader.url);
    let mut flags = flags("");
    flags.manager = None;
    flags.manager_lease = "team/beside".parse().unwrap();
    flags.manager_port = 10267;
    let auth = AuthInfo::default();
    let asked = ask_by(&cluster, &auth, &flags, (&api.url, &kubectl)).await;
    assert_eq!(asked, Ok(None));
    let arguments = std::fs::read_to_string(home.path().join("arguments")).unwrap();
    let expected = "--kubeconfig the-kubeconfig port-forward --namespace team --address 127.0.0.1 pod/beside-2 :10267";
    assert_eq!(arguments.trim(), expected);
}

/// Writes a kubectl that records its arguments and its process, and forwards to `url`.
#[cfg(unix)]
fn fake_kubectl(home: &Path, url: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let port = url.rsplit_once(':').unwrap().1;
    let path = home.join("kubectl");
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}/arguments\necho $$ > {0}/pid\n\
         echo \"Forwarding from 127.0.0.1:{port} -> 10257\"\nexec sleep 600\n",
        home.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.display().to_string()
}

#[cfg(unix)]
#[tokio::test]
async fn a_port_forward_reaches_the_leader_and_ends_with_the_command() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Authority::new("cluster");
    let other = Authority::new("other");
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let api = Recorder::start(cluster.issue(local(), server.clone())).await;
    let (_, token) = secrets(home.path()).swap_remove(0);
    let mut flags = flags("");
    flags.manager = None;
    // A certificate for the node of the Lease, as no certificate is for the local port.
    let node = SanType::DnsName("far-away".try_into().unwrap());
    let leader = Recorder::start(cluster.issue(node.clone(), server.clone())).await;
    let kubectl = fake_kubectl(home.path(), &leader.url);
    let unverified = ask_by(&cluster, &token, &flags, (&api.url, &kubectl)).await;
    assert_eq!(unverified, Ok(None));
    assert_eq!(leader.got(), (true, false));
    let arguments = std::fs::read_to_string(home.path().join("arguments")).unwrap();
    let expected = "--kubeconfig the-kubeconfig port-forward --namespace kube-system --address 127.0.0.1 \
                    pod/kube-controller-manager-far-away :10257";
    assert_eq!(arguments.trim(), expected);
    let pid = std::fs::read_to_string(home.path().join("pid")).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    let is_over = || match std::fs::read_to_string(process.join("stat")) {
        // The runtime reaps it later.
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while cfg!(target_os = "linux") && !is_over() {
        assert!(tokio::time::Instant::now() < limit, "kubectl still runs");
        tokio::task::yield_now().await;
    }
    // A hostile pod, or another program on the local port.
    let hostile = Recorder::start(other.issue(node, server)).await;
    let kubectl = fake_kubectl(home.path(), &hostile.url);
    let error = ask_by(&cluster, &token, &flags, (&api.url, &kubectl)).await;
    assert!(error.unwrap_err().contains("cannot be verified"));
    assert_eq!(hostile.got(), (false, false));
    // kubectl's own words, if it fails.
    let refusal = "echo 'error: pods \"x\" is forbidden' >&2; exit 1";
    std::fs::write(
        home.path().join("kubectl"),
        format!("#!/bin/sh\n{refusal}\n"),
    )
    .unwrap();
    let error = ask_by(&cluster, &token, &flags, (&api.url, &kubectl)).await;
    let error = error.unwrap_err();
    assert!(error.ends_with("error: pods \"x\" is forbidden"), "{error}");
}

#[test]
fn a_manager_of_another_machine_is_asked_by_https_alone() {
    let cases = [
        ("https://10.0.0.1:10257", true),
        ("http://10.0.0.1:10257", false),
        ("http://127.0.0.1:10257", true),
        ("http://[::1]:10257", true),
        ("http://127.0.0.1.example.com", false),
        ("http://jane:hunter2@127.0.0.1", false),
        ("10.0.0.1:10257", false),
        ("https://jane:hunter2@10.0.0.1", false),
        ("", false),
    ];
    for (url, is_right) in cases {
        let found = address(url);
        assert_eq!(found.is_ok(), is_right, "{url}");
        assert!(!found.err().unwrap_or_default().contains(SECRET), "{url}");
    }
}
