//! `steersman assets`: the programs of the folder, as test frameworks start, probe and end them.
//!
//! The flags are those of controller-runtime's envtest, except where a comment names another one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Clients, Identity, Program, ask, free_port, output, output_of, tls};

/// The folder of `KUBEBUILDER_ASSETS`, with the certificates of a framework beside it.
struct Assets {
    folder: tempfile::TempDir,
    clients: Clients,
}

impl Assets {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("assets");
        let answer = output(&["assets", made.to_str().unwrap()]);
        assert!(answer.status.success(), "{answer:?}");
        let printed = String::from_utf8(answer.stdout).unwrap();
        assert_eq!(
            printed.trim_end(),
            made.canonicalize().unwrap().to_str().unwrap()
        );
        let clients = Clients::new(folder.path());
        Self { folder, clients }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.path("assets").join(name))
    }

    /// The command line of kube-apiserver on `port`.
    fn api_server(&self, port: u16) -> Command {
        let certificates = self.path("certificates");
        let key = rcgen::KeyPair::generate().unwrap();
        let keys = [
            ("sa.pub", key.public_key_pem()),
            ("sa.key", key.serialize_pem()),
        ];
        for (name, pem) in keys {
            std::fs::write(self.path(name), pem).unwrap();
        }
        let mut command = self.program("kube-apiserver");
        command.args([
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", certificates.display()),
            format!("--client-ca-file={}", self.clients.bundle.display()),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--etcd-servers=http://127.0.0.1:1".to_owned(),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!(
                "--service-account-key-file={}",
                self.path("sa.pub").display()
            ),
            format!(
                "--service-account-signing-key-file={}",
                self.path("sa.key").display()
            ),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ]);
        command
    }

    /// The authority in the file that the server has written.
    fn authority(&self) -> PathBuf {
        self.path("certificates/apiserver.crt")
    }

    fn start(&self, environment: &[(&str, &str)]) -> Server<'_> {
        let port = free_port();
        let mut command = self.api_server(port);
        command.envs(environment.iter().copied());
        let mut server = Server {
            assets: self,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            program: Program::spawn(&mut command),
        };
        let address = server.address;
        let listens = || TcpStream::connect(address).is_ok();
        server.program.wait_until("listening", listens);
        server
    }
}

/// A running `kube-apiserver`.
struct Server<'a> {
    assets: &'a Assets,
    address: SocketAddr,
    program: Program,
}

impl Server<'_> {
    /// The head of the answer, and its body.
    fn ask(&self, user: Option<&Identity>, line: &str, body: &Value) -> (String, String) {
        let tls = tls(&self.assets.authority(), user);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(self.address, tls, &request)
    }

    /// The code of the answer.
    fn code(&self, user: Option<&Identity>, line: &str, body: &Value) -> u16 {
        let (head, _) = self.ask(user, line, body);
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// A GET over a plain connection.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn text(command: &mut Command) -> String {
    let output = output_of(command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a line of a help text begins with a flag, as envtest looks for it.
fn has_flag(help: &str, flag: &str) -> bool {
    help.lines().any(|line| {
        let rest = line.trim_start().strip_prefix(flag);
        rest.is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-')
        })
    })
}

#[test]
fn etcd_answers_the_probes_of_frameworks_and_ends_on_a_signal() {
    let assets = Assets::new();
    let help = text(assets.program("etcd").arg("--help"));
    assert!(has_flag(&help, "--unsafe-no-fsync"), "{help}");
    // fabric8's kube-api-test writes flags with one dash.
    for dash in ["--", "-"] {
        let port = free_port();
        let data = assets.path(&format!("data{dash}"));
        let mut etcd = Program::spawn(assets.program("etcd").args([
            format!("{dash}listen-peer-urls=http://localhost:0"),
            format!("{dash}data-dir={}", data.display()),
            format!("{dash}advertise-client-urls=http://127.0.0.1:{port}"),
            format!("{dash}listen-client-urls=http://127.0.0.1:{port}"),
            format!("{dash}unsafe-no-fsync=true"),
        ]));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        etcd.wait_until("listening", || TcpStream::connect(address).is_ok());
        let answer = get(address, "/health");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains(r#""health":"true""#), "{answer}");
        assert!(data.is_dir());
        etcd.signal("TERM");
        assert_eq!(etcd.end(), Some(0));
    }
}

#[test]
fn the_api_server_takes_the_flags_certificates_and_users_of_a_framework() {
    let assets = Assets::new();
    let help = text(assets.program("kube-apiserver").arg("--help"));
    assert!(
        has_flag(&help, "--secure-port") && !has_flag(&help, "--insecure-port"),
        "{help}"
    );
    let mut server = assets.start(&[]);
    for probe in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(
            server.code(None, &format!("GET {probe}"), &Value::Null),
            200,
            "{probe}"
        );
    }
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(server.code(None, &format!("GET {pods}"), &Value::Null), 403);
    let admin = assets.clients.master();
    let user = assets.clients.identity("jane", "testers");
    let namespace = "GET /api/v1/namespaces/default";
    assert_eq!(server.code(Some(&admin), namespace, &Value::Null), 200);
    assert_eq!(server.code(Some(&user), namespace, &Value::Null), 403);
    // Without the plugin ServiceAccount, a pod needs no account, and gets no token.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    });
    let (head, body) = server.ask(Some(&admin), &format!("POST {pods}"), &pod);
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}\n{body}");
    let created: Value = serde_json::from_str(&body).unwrap();
    assert!(created["spec"]["volumes"].is_null(), "{created}");
    // No controller runs.
    assert_eq!(
        server.code(
            Some(&admin),
            "GET /api/v1/namespaces/default/serviceaccounts/default",
            &Value::Null
        ),
        404
    );
    // Services have addresses of the flag's range.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let (_, body) = server.ask(
        Some(&admin),
        &format!("GET {services}/kubernetes"),
        &Value::Null,
    );
    let address = |body: &str| {
        let service: Value = serde_json::from_str(body).unwrap();
        service["spec"]["clusterIP"].clone()
    };
    assert_eq!(address(&body), "10.0.0.1");
    let (_, body) = server.ask(Some(&admin), &format!("POST {services}"), &service);
    assert_eq!(address(&body), "10.0.0.2");
    // Tokens have the issuer of the flag.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(
        server.code(Some(&admin), &format!("POST {accounts}"), &account),
        201
    );
    let (_, answer) = server.ask(
        Some(&admin),
        &format!("POST {accounts}/a/token"),
        &json!({}),
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let claims = URL_SAFE_NO_PAD
        .decode(token.split('.').nth(1).unwrap())
        .unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], format!("https://{}/", server.address));
    assert_eq!(claims["aud"], json!([claims["iss"]]));
    server.program.signal("TERM");
    assert_eq!(server.program.end(), Some(0));
}

#[test]
fn a_client_certificate_can_be_its_own_authority() {
    // fabric8's kube-api-test makes one certificate for both, and separates flags by spaces.
    let assets = Assets::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::OrganizationName, "system:masters");
    name.push(rcgen::DnType::CommonName, "jenvtest");
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(assets.path("client.crt"), certificate.pem()).unwrap();
    std::fs::write(assets.path("sa.key"), key.serialize_pem()).unwrap();
    let port = free_port().to_string();
    let path = |name: &str| assets.path(name).to_str().unwrap().to_owned();
    let mut program = Program::spawn(assets.program("kube-apiserver").args([
        "--cert-dir",
        &path("certificates"),
        "--secure-port",
        &port,
        "--etcd-servers",
        "http://0.0.0.0:1",
        "--authorization-mode",
        "RBAC,AlwaysAllow",
        "--service-account-issuer",
        "https://localhost",
        "--service-account-signing-key-file",
        &path("sa.key"),
        "--service-account-key-file",
        &path("sa.key"),
        "--disable-admission-plugins",
        "ServiceAccount",
        "--client-ca-file",
        &path("client.crt"),
        "--service-cluster-ip-range",
        "10.0.0.0/24",
        "--allow-privileged",
    ]));
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    program.wait_until("listening", || TcpStream::connect(address).is_ok());
    let identity = (
        certificate.der().clone(),
        key.serialize_der().try_into().unwrap(),
    );
    let request = "GET /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let (head, body) = ask(address, tls(&assets.authority(), Some(&identity)), request);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
    // The mode AlwaysAllow is for users without roles, such as impersonated ones.
    let impersonated = request.replacen("\r\n", "\r\nimpersonate-user: jane\r\n", 1);
    let tls_of = |user: Option<&Identity>| tls(&assets.authority(), user);
    let (head, body) = ask(address, tls_of(Some(&identity)), &impersonated);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
    // It is not for anonymous requests.
    let (head, _) = ask(address, tls_of(None), request);
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
}

#[test]
fn clients_of_other_authorities_get_no_connection() {
    let assets = Assets::new();
    let server = assets.start(&[]);
    let other = tempfile::tempdir().unwrap();
    let stranger = Clients::new(other.path()).master();
    let mut connection = rustls::ClientConnection::new(
        tls(&assets.authority(), Some(&stranger)),
        "localhost".try_into().unwrap(),
    )
    .unwrap();
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    let written = tls.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let refused = written.and_then(|()| tls.read(&mut [0; 1]));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn given_certificates_and_tokens_are_used() {
    let assets = Assets::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let certificates = assets.path("certificates");
    std::fs::create_dir(&certificates).unwrap();
    std::fs::write(certificates.join("apiserver.crt"), certificate.pem()).unwrap();
    std::fs::write(certificates.join("apiserver.key"), key.serialize_pem()).unwrap();
    std::fs::write(
        assets.path("tokens"),
        "secret,jane,1,\"system:masters,b\"\n",
    )
    .unwrap();
    let port = free_port();
    let mut command = assets.api_server(port);
    command.arg(format!(
        "--token-auth-file={}",
        assets.path("tokens").display()
    ));
    let mut program = Program::spawn(&mut command);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    program.wait_until("listening", || TcpStream::connect(address).is_ok());
    let request = "GET /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer secret\r\n\r\n";
    let (head, body) = ask(address, tls(&assets.authority(), None), request);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
}

#[test]
fn an_environment_variable_turns_controllers_and_nodes_on() {
    let assets = Assets::new();
    let mut server = assets.start(&[("STEERSMAN_CONTROLLERS", "*"), ("STEERSMAN_NODES", "1")]);
    let admin = assets.clients.master();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        }},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(
        server.code(Some(&admin), &format!("POST {path}"), &deployment),
        201
    );
    let assets = &assets;
    let address = server.address;
    server.program.wait_until("available", || {
        let tls = tls(&assets.authority(), Some(&admin));
        let request =
            format!("GET {path}/web HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let (_, body) = ask(address, tls, &request);
        let found: Value = serde_json::from_str(&body).unwrap();
        found["status"]["availableReplicas"] == 1
    });
    server.program.signal("TERM");
    assert_eq!(server.program.end(), Some(0));
}

#[test]
fn an_environment_variable_selects_the_release() {
    const RELEASE: &str = "STEERSMAN_KUBERNETES_VERSION";
    let assets = Assets::new();
    let admin = assets.clients.master();
    let old = (RELEASE, "1.34");
    for environment in [vec![old], vec![old, ("STEERSMAN_CONTROLLERS", "*")]] {
        let server = assets.start(&environment);
        let (_, body) = server.ask(Some(&admin), "GET /version", &Value::Null);
        let found: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(found["gitVersion"], "v1.34.8", "{environment:?}");
    }
    let mut version = assets.program("kube-apiserver");
    version.arg("--version").env(RELEASE, "1.34");
    assert_eq!(text(&mut version), "Kubernetes v1.34.8\n");
    let mut unknown = assets.api_server(free_port());
    let (code, log) = Program::spawn(unknown.env(RELEASE, "1.20")).end_with_log();
    assert_eq!(code, Some(1), "{log}");
    let expected =
        "STEERSMAN_KUBERNETES_VERSION: \"1.20\" is no release of Kubernetes that Steersman knows";
    assert!(log.contains(expected), "{log}");
}

#[test]
fn wrong_flags_and_used_ports_are_errors_as_with_the_real_program() {
    let assets = Assets::new();
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = used.local_addr().unwrap().port();
    let missing = Path::new("/nowhere/ca.crt");
    let cases = [
        (
            vec!["--bogus".to_owned()],
            "Error: unknown flag: --bogus".to_owned(),
        ),
        (
            vec!["true".to_owned()],
            "does not take any arguments, got [\"true\"]".to_owned(),
        ),
        (
            vec![format!("--secure-port={port}")],
            format!("failed to listen on 127.0.0.1:{port}: "),
        ),
        (
            vec![format!("--client-ca-file={}", missing.display())],
            "--client-ca-file: open /nowhere/ca.crt: no such file or directory".to_owned(),
        ),
        (
            vec!["--tls-cert-file=/x".to_owned()],
            "--tls-cert-file: open /x".to_owned(),
        ),
    ];
    for (flags, expected) in cases {
        let mut command = assets.api_server(free_port());
        let (code, log) = Program::spawn(command.args(&flags)).end_with_log();
        assert_eq!(code, Some(1), "{flags:?}: {log}");
        assert!(log.contains(&expected), "{flags:?}: {log}");
    }
}
