//! Keys and certificates in files, given to the program: all forms, unusable ones, and changes.
//! OpenSSL makes the keys, and verifies the certificates.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_values::clock::Clock;

use crate::support::secured::Secured;
use crate::support::{LIMIT, Program, skip};

const CONTROLLERS: &str = "--controllers=serviceaccount-token,csrsigning";

/// `alg` of tokens, and the commands of OpenSSL that make the key.
const FORMS: [(&str, &[&str]); 8] = [
    ("RS256", &["genrsa -traditional -out KEY 2048"]),
    (
        "RS256",
        &["genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out KEY"],
    ),
    ("RS256", &["genrsa -traditional -out KEY 4096"]),
    ("ES256", &["ecparam -name prime256v1 -genkey -out KEY"]),
    (
        "ES256",
        &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out KEY"],
    ),
    (
        "ES384",
        &["genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out KEY"],
    ),
    (
        "ES512",
        &["ecparam -name secp521r1 -genkey -noout -out KEY"],
    ),
    // Upstream signs certificates with it, and no tokens.
    ("", &["genpkey -algorithm ED25519 -out KEY"]),
];

/// A folder with files of keys and certificates.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.text(name)
    }

    /// Runs OpenSSL in this folder.
    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&self.0);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {error}");
    }

    /// Makes a key by `commands`, and a certificate of the authority `name` with it.
    fn authority(&self, name: &str, commands: &[&str]) {
        for command in commands {
            self.openssl(&command.replace("KEY", &format!("{name}.key")));
        }
        self.openssl(&format!(
            "req -x509 -new -subj /CN={name} -days 365 -key {name}.key -out {name}.crt"
        ));
    }

    /// The flags of the signers and of the token controller.
    fn flags(&self, authority: &str, account_key: &str) -> [String; 3] {
        [
            format!(
                "--cluster-signing-cert-file={}",
                self.text(&format!("{authority}.crt"))
            ),
            format!(
                "--cluster-signing-key-file={}",
                self.text(&format!("{authority}.key"))
            ),
            format!("--service-account-private-key-file={account_key}"),
        ]
    }
}

fn has_no_openssl() -> bool {
    let is_absent = Command::new("openssl").arg("version").output().is_err();
    if is_absent {
        skip("there is no openssl");
    }
    is_absent
}

/// Creates and approves a request for a client certificate, and returns the certificate.
async fn signed(cluster: &DevCluster, name: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    let key = KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let created = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    });
    let mut object = cluster.create(created).await.unwrap();
    let path = format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}");
    object["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "x"}]);
    let approval = format!("{path}/approval");
    let body = object.to_string();
    let approved = cluster.call(Method::PUT, &approval, "application/json", body);
    approved.await.unwrap();
    let certificate = |requests: &[Value]| {
        let is_it = |request: &&Value| request["metadata"]["name"] == name;
        let status = &requests.iter().find(is_it)?["status"];
        status["certificate"].as_str().map(str::to_owned)
    };
    let plural = "certificatesigningrequests";
    let found = |requests: &[Value]| certificate(requests).is_some();
    let requests = cluster.wait_for(plural, LIMIT, found).await.unwrap();
    let pem = STANDARD.decode(certificate(&requests).unwrap()).unwrap();
    String::from_utf8(pem).unwrap()
}

/// Creates an account with a token Secret, and returns the token.
async fn token(cluster: &DevCluster) -> String {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "bot", "namespace": "default"},
    });
    let annotations = json!({"kubernetes.io/service-account.name": "bot"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "bot-token", "namespace": "default", "annotations": annotations},
    });
    cluster.create(account).await.unwrap();
    cluster.create(secret).await.unwrap();
    let of = |secrets: &[Value]| {
        let token = secrets
            .iter()
            .find_map(|secret| secret["data"]["token"].as_str());
        token.map(str::to_owned)
    };
    let found = |secrets: &[Value]| of(secrets).is_some();
    let secrets = cluster.wait_for("secrets", LIMIT, found).await.unwrap();
    let token = STANDARD.decode(of(&secrets).unwrap()).unwrap();
    String::from_utf8(token).unwrap()
}

/// The lines of a key that nobody else may see.
fn secret_lines(key: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(key).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.len() > 30 && !line.starts_with('-'));
    lines.map(str::to_owned).collect()
}

fn assert_no_key(text: &str, key: &Path) {
    for line in secret_lines(key) {
        assert!(!text.contains(&line), "a line of the key is in: {text}");
    }
}

/// Whether OpenSSL verifies `certificate` by the authority of this name.
fn is_verified(folder: &Folder, authority: &str, certificate: &str) -> bool {
    folder.write("leaf.crt", certificate);
    let mut command = Command::new("openssl");
    let authority = format!("{authority}.crt");
    command.args(["verify", "-CAfile", &authority, "leaf.crt"]);
    command
        .current_dir(&folder.0)
        .output()
        .unwrap()
        .status
        .success()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_type_and_form_sign_and_stay_secret() {
    if has_no_openssl() {
        return;
    }
    for (algorithm, commands) in FORMS {
        let folder = Folder::new();
        folder.authority("ca", commands);
        let key = folder.path("ca.key");
        let account_key = if algorithm.is_empty() {
            ""
        } else {
            key.to_str().unwrap()
        };
        let flags = folder.flags("ca", account_key);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let more = [CONTROLLERS, "--v=10"];
        let cluster = DevCluster::new(Clock::system());
        let secured = Secured::start(cluster, &[&flags[..], &more].concat()).await;
        let certificate = signed(&secured.cluster, "one").await;
        assert!(is_verified(&folder, "ca", &certificate), "{certificate}");
        if !algorithm.is_empty() {
            let token = token(&secured.cluster).await;
            let header = token.split('.').next().unwrap();
            let header = URL_SAFE_NO_PAD.decode(header).unwrap();
            let header: Value = serde_json::from_slice(&header).unwrap();
            assert_eq!(header["alg"], algorithm);
        }
        let master = secured.clients.master();
        let (head, body) = secured.ask("GET /configz", "", "", Some(&master));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(body.contains("ClusterSigningKeyFile"), "{body}");
        assert_no_key(&body, &key);
        secured.program.signal("TERM");
        let program = secured.program;
        let (status, log) = tokio::task::spawn_blocking(|| program.end_with_log())
            .await
            .unwrap();
        assert_eq!(status, Some(0), "{log}");
        assert_no_key(&log, &key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_authority_signs_without_a_restart() {
    if has_no_openssl() {
        return;
    }
    let folder = Folder::new();
    folder.authority("first", FORMS[3].1);
    folder.authority("second", FORMS[0].1);
    let take = |name: &str, part: &str| {
        let content = std::fs::read_to_string(folder.path(&format!("{name}.{part}"))).unwrap();
        folder.write(&format!("ca.{part}"), &content);
    };
    for part in ["crt", "key"] {
        take("first", part);
    }
    let flags = folder.flags("ca", "");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = DevCluster::new(Clock::system());
    let mut secured = Secured::start(cluster, &[&flags[..], &[CONTROLLERS]].concat()).await;
    let mut number = 0..;
    let mut next = async || {
        let name = format!("request-{}", number.next().unwrap());
        signed(&secured.cluster, &name).await
    };
    // The controller has read both files when it signs.
    assert!(is_verified(&folder, "first", &next().await));
    // The certificate alone does not fit to the key, so the first authority signs on.
    take("second", "crt");
    let refused = "files have changed and are invalid, the previous content stays in effect";
    let begin = Instant::now();
    while !secured.program.has_line(refused) {
        assert!(begin.elapsed() < LIMIT, "the certificate is not read again");
        assert!(is_verified(&folder, "first", &next().await));
    }
    assert!(is_verified(&folder, "first", &next().await));
    take("second", "key");
    let begin = Instant::now();
    while !is_verified(&folder, "second", &next().await) {
        assert!(begin.elapsed() < LIMIT, "the new authority does not sign");
    }
    secured.stop().await;
}

/// A server, and the kubeconfig of programs that connect to it.
struct Server {
    door: HttpsDoor,
    kubeconfig: String,
}

impl Server {
    async fn start(folder: &Folder) -> Self {
        let cluster = DevCluster::new(Clock::system());
        let door = cluster.serve_https(SocketAddr::from(([127, 0, 0, 1], 0)));
        let door = door.await.unwrap();
        let kubeconfig = folder.write("kubeconfig", &door.kubeconfig());
        Self { door, kubeconfig }
    }

    fn program(&self, flags: &[&str]) -> Program {
        let common = [
            "--kubeconfig",
            &self.kubeconfig,
            "--leader-elect=false",
            "--secure-port=0",
            CONTROLLERS,
        ];
        Program::start(&[&common, flags].concat())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_keys_switch_controllers_off_in_upstreams_words() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let half = format!("--cluster-signing-key-file={}", folder.write("ca.key", "x"));
    for flags in [&[][..], &[&*half]] {
        let mut program = server.program(flags);
        let lines = [
            "Controller is disabled because there is no private key",
            "Skipping CSR signer controller because no csr cert/key was specified",
        ];
        let program = tokio::task::spawn_blocking(move || {
            for line in lines {
                program.wait_for_line(line);
            }
            program.signal("TERM");
            program.end_with_log()
        });
        let (status, log) = program.await.unwrap();
        assert_eq!(status, Some(0), "{log}");
    }
    server.door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_files_end_the_program_in_upstreams_words() {
    if has_no_openssl() {
        return;
    }
    let folder = Folder::new();
    folder.authority("ca", FORMS[3].1);
    folder.authority("other", FORMS[4].1);
    folder.authority("ed25519", FORMS[7].1);
    let text = folder.write("text", "no key");
    let missing = folder.text("missing");
    let path = |name: &str| folder.text(name);
    let accounts = "error reading key for service account token controller: ";
    let signers = format!(
        "failed to init kubernetes.io/kubelet-serving certificate controller: \
         error reading CA cert file {:?}: ",
        path("ca.crt")
    );
    let signing = |key: &str| {
        [
            format!("--cluster-signing-cert-file={}", path("ca.crt")),
            format!("--cluster-signing-key-file={key}"),
        ]
    };
    let account = |key: &str| {
        [
            format!("--service-account-private-key-file={key}"),
            "--cluster-signing-duration=1h".to_owned(),
        ]
    };
    let no_key = "data does not contain a valid RSA or ECDSA private key";
    let no_file = format!("open {missing}: no such file or directory");
    // (flags, the file of a key, error)
    let cases = [
        (account(&missing), None, format!("{accounts}{no_file}")),
        (
            account(&text),
            None,
            format!("{accounts}error reading private key file {text}: {no_key}"),
        ),
        (
            account(&path("ed25519.key")),
            Some("ed25519.key"),
            "failed to build token generator: unknown private key type ed25519.PrivateKey, must be \
             *rsa.PrivateKey, *ecdsa.PrivateKey, or jose.OpaqueSigner"
                .to_owned(),
        ),
        (signing(&missing), None, format!("{signers}{no_file}")),
        (
            signing(&text),
            None,
            format!("{signers}tls: failed to find any PEM data in key input"),
        ),
        (
            signing(&path("ca.crt")),
            None,
            format!(
                "{signers}tls: found a certificate rather than a key in the PEM for the private key"
            ),
        ),
        (
            signing(&path("other.key")),
            Some("other.key"),
            format!("{signers}tls: private key does not match public key"),
        ),
        (
            signing(&path("ed25519.key")),
            Some("ed25519.key"),
            format!("{signers}tls: private key type does not match public key type"),
        ),
    ];
    let server = Server::start(&folder).await;
    for (flags, key, expected) in cases {
        let program = server.program(&[&flags[0], &flags[1]]);
        let ended = tokio::task::spawn_blocking(|| program.end_with_log());
        let (status, log) = ended.await.unwrap();
        assert_eq!(status, Some(1), "{log}");
        // The log escapes quotation marks.
        let last = log.lines().last().unwrap_or_default().replace('\\', "");
        assert!(last.contains(&expected), "{flags:?}: {last}");
        if let Some(key) = key {
            assert_no_key(&log, &folder.path(key));
        }
    }
    server.door.stop().await;
}
