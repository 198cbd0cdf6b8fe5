//! Stories of the signing controller against the in-memory API server.

mod openssl;
mod recorded;
mod rules;

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_pki::x509::{Certificate, certificates_in_pem};
use steersman_runtime::controller::ControllerContext;

use super::DESCRIPTOR;
use crate::certificates::testing::{
    CLIENT, CLIENT_USAGES, KUBELET_CLIENT, KUBELET_SERVING, certificate, csr, found, of_kubelet,
    with_conditions,
};
use crate::certificates::{approving, cleaning};
use crate::testing::world::{World, begin};

const SECOND: Duration = Duration::from_secs(1);
const DAY: i64 = 24 * 3600;
const SERVING_USAGES: [&str; 2] = ["digital signature", "server auth"];

/// The files of an authority.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// The files of an authority that ends so many days after the test begins.
    fn new(days: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        files.replace(days);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn replace(&self, days: i64) {
        let (certificate, key) = authority("authority", days);
        self.write("ca.crt", &certificate);
        self.write("ca.key", &key);
    }
}

/// Certificate and key of an authority, in PEM.
fn authority(name: &str, days: i64) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2023, 1, 1);
    // The test begins on 2023-11-14 at 22:13:20.
    let end = rcgen::date_time_ymd(2023, 11, 14);
    params.not_after = end + Duration::from_secs(u64::try_from(days * DAY).unwrap() + 80_000);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

impl World {
    /// A cluster with the controller, all signers with the authority in `files`.
    async fn signing(files: &Files) -> Self {
        Self::signing_for(files, "24h").await
    }

    async fn signing_for(files: &Files, duration: &str) -> Self {
        let mut world = Self::bare().await;
        let path = |name| files.path(name).to_str().unwrap().to_owned();
        let certificate = path("ca.crt");
        let key = path("ca.key");
        let configure = |context: ControllerContext| {
            context
                .with_flag("cluster-signing-cert-file", &certificate)
                .with_flag("cluster-signing-key-file", &key)
                .with_flag("cluster-signing-duration", duration)
        };
        world.restart_with(&[DESCRIPTOR], configure).await;
        world
    }
}

/// An approved request of the kubelet on the node `n1`.
fn approved(name: &str) -> Value {
    with_conditions(
        csr(name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet()),
        &["Approved"],
    )
}

fn issued(world: &World, name: &str) -> Certificate {
    let pem = certificate(&world.csr(name));
    Certificate::read(&certificates_in_pem(pem.as_bytes())[0]).unwrap()
}

/// Upstream: `TestCSRDuration`.
#[tokio::test(start_paused = true)]
async fn the_lifetime_is_bounded_by_flag_request_and_authority() {
    let hour = 3600;
    // (days until the authority ends, flag, requested seconds, seconds until the end)
    let cases = [
        (365, "24h", None, 24 * hour - 300),
        (365, "24h", Some(7200), 7200),
        (365, "24h", Some(36_000), 10 * hour - 300),
        (365, "24h", Some(172_800), 24 * hour - 300),
        (365, "8760h", Some(600), 600),
        (1, "8760h", None, DAY),
    ];
    for (days, flag, requested, expected) in cases {
        let files = Files::new(days);
        let world = World::signing_for(&files, flag).await;
        let mut csr = approved("c");
        csr["spec"]["expirationSeconds"] = json!(requested);
        world.cluster.load(csr).unwrap();
        tokio::time::sleep(SECOND).await;
        let now = begin().as_second();
        let issued = issued(&world, "c");
        assert_eq!(issued.not_before, now - 300, "{requested:?}");
        assert_eq!(issued.not_after, now + expected, "{requested:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_authority_signs_nothing() {
    let files = Files::new(0);
    let world = World::signing(&files).await;
    tokio::time::sleep(SECOND * 60).await;
    world.cluster.load(approved("c")).unwrap();
    tokio::time::sleep(SECOND * 600).await;
    let csr = world.csr("c");
    assert_eq!(
        (certificate(&csr), found(&csr, "Failed")),
        (String::new(), None)
    );
    assert_eq!(world.certificate_writes(), Vec::<String>::new());
    // The retries use the new authority.
    files.replace(365);
    tokio::time::sleep(SECOND * 1000).await;
    assert!(!certificate(&world.csr("c")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_files_of_the_authority_are_read_again() {
    let files = Files::new(365);
    let world = World::signing_for(&files, "87600h").await;
    let (other, key_of_other) = authority("other", 10);
    let (own, own_key) = authority("own", 20);
    // Two certificates fit to the key by the first of them, and cannot be used.
    let two = own.clone() + &other;
    // (case, file, content, days until a new certificate ends; none is issued without)
    let steps = [
        ("certificate without its key", "ca.crt", other, Some(365)),
        ("the key follows", "ca.key", key_of_other, Some(10)),
        ("key is not PEM", "ca.key", "x".to_owned(), Some(10)),
        ("certificate is empty", "ca.crt", String::new(), Some(10)),
        ("another key", "ca.key", own_key, Some(10)),
        ("two certificates", "ca.crt", two, None),
        ("one certificate", "ca.crt", own, Some(20)),
    ];
    for (index, (case, file, content, days)) in steps.into_iter().enumerate() {
        files.write(file, &content);
        tokio::time::sleep(SECOND * 2).await;
        let name = format!("c{index}");
        world.cluster.load(approved(&name)).unwrap();
        tokio::time::sleep(SECOND / 10).await;
        let is_issued = !certificate(&world.csr(&name)).is_empty();
        let end = is_issued.then(|| issued(&world, &name).not_after);
        let found = end.map(|end| (end - begin().as_second()) / DAY);
        assert_eq!(found, days, "{case}");
    }
}

/// All controllers start among requests that another manager has handled.
#[tokio::test(start_paused = true)]
async fn requests_at_rest_are_taken_over_without_a_write() {
    let files = Files::new(365);
    let mut world = World::signing(&files).await;
    let mut issued = approved("issued");
    issued["status"]["certificate"] = json!("eA==");
    let conditions = |name: &str, kinds: &[&str]| {
        let csr = csr(name, KUBELET_SERVING, &CLIENT_USAGES, &of_kubelet());
        with_conditions(csr, kinds)
    };
    let handled = [
        issued,
        conditions("denied", &["Denied"]),
        conditions("failed", &["Approved", "Failed"]),
        conditions("pending", &[]),
    ];
    for request in handled {
        world.cluster.load(request).unwrap();
    }
    let path = |name| files.path(name).to_str().unwrap().to_owned();
    let certificate = path("ca.crt");
    let key = path("ca.key");
    let all = [
        approving::DESCRIPTOR,
        DESCRIPTOR,
        cleaning::requests::DESCRIPTOR,
    ];
    let configure = |context: ControllerContext| {
        context
            .with_flag("cluster-signing-cert-file", &certificate)
            .with_flag("cluster-signing-key-file", &key)
    };
    world.restart_with(&all, configure).await;
    tokio::time::sleep(SECOND * 3000).await;
    assert_eq!(world.certificate_writes(), Vec::<String>::new());
}

#[test]
fn unusable_files_end_the_start() {
    let files = Files::new(365);
    let (other, _) = authority("other", 10);
    let own = std::fs::read_to_string(files.path("ca.crt")).unwrap();
    files.write("two.crt", &(own.clone() + &other));
    files.write("other.crt", &other);
    files.write("empty", "");
    files.write("text", "x");
    let malformed = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    files.write("malformed.crt", malformed);
    let headers = "CERTIFICATE-----\nProc-Type: x\n\n";
    files.write(
        "headers.crt",
        &own.replacen("CERTIFICATE-----\n", headers, 1),
    );
    let own_key = std::fs::read_to_string(files.path("ca.key")).unwrap();
    files.write(
        "odd.key",
        &own_key.replace(" PRIVATE KEY", " ODD PRIVATE KEY"),
    );
    let ed25519 = include_str!("../../../serviceaccounttoken/testdata/ed25519.pem");
    files.write("ed25519.key", ed25519);
    let path = |name: &str| files.path(name).to_str().unwrap().to_owned();
    let reading = |part: &str, file: &str| format!("error reading CA {part} file {file:?}: ");
    let pair = |certificate: &str, key: &str| {
        format!("csr-controller::{}::{}", path(certificate), path(key))
    };
    let missing = |name: &str| format!("open {}: no such file or directory", path(name));
    let of_file = |certificate: &str, reason: &str| reading("cert", &path(certificate)) + reason;
    let of_pair = |part: &str, certificate: &str, key: &str, reason: &str| {
        reading(part, &pair(certificate, key)) + reason
    };
    let no_content = format!(
        "missing content for serving cert {:?}",
        pair("empty", "ca.key")
    );
    // (certificate, key, error)
    let cases = [
        (
            "none.crt",
            "ca.key",
            of_file("none.crt", &missing("none.crt")),
        ),
        (
            "ca.crt",
            "none.key",
            of_file("ca.crt", &missing("none.key")),
        ),
        ("empty", "ca.key", of_file("empty", &no_content)),
        (
            "text",
            "ca.key",
            of_file(
                "text",
                "tls: failed to find any PEM data in certificate input",
            ),
        ),
        (
            "malformed.crt",
            "ca.key",
            of_file("malformed.crt", "x509: malformed tbs certificate"),
        ),
        (
            "ca.crt",
            "text",
            of_file("ca.crt", "tls: failed to find any PEM data in key input"),
        ),
        (
            "ca.crt",
            "ed25519.key",
            of_file(
                "ca.crt",
                "tls: private key type does not match public key type",
            ),
        ),
        (
            "other.crt",
            "ca.key",
            of_file("other.crt", "tls: private key does not match public key"),
        ),
        (
            "two.crt",
            "ca.key",
            of_pair(
                "cert",
                "two.crt",
                "ca.key",
                "expected 1 certificate, found 2",
            ),
        ),
        (
            "headers.crt",
            "ca.key",
            of_pair(
                "cert",
                "headers.crt",
                "ca.key",
                "data does not contain any valid RSA or ECDSA certificates",
            ),
        ),
        (
            "ca.crt",
            "odd.key",
            of_pair(
                "key",
                "ca.crt",
                "odd.key",
                "data does not contain a valid RSA or ECDSA private key",
            ),
        ),
    ];
    for (certificate, key, expected) in cases {
        let mut options = steersman_options::Options::default();
        options
            .set("cluster-signing-cert-file", &path(certificate))
            .unwrap();
        options.set("cluster-signing-key-file", &path(key)).unwrap();
        let error = super::authority::of_signers(&options)
            .err()
            .unwrap()
            .to_string();
        let start = "failed to init kubernetes.io/kubelet-serving certificate controller: ";
        assert_eq!(error, format!("{start}{expected}"));
    }
    let mut half = steersman_options::Options::default();
    half.set("cluster-signing-kubelet-client-cert-file", "/ca.crt")
        .unwrap();
    let error = super::authority::of_signers(&half)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.ends_with("missing filename for serving cert"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_files_the_controller_is_skipped() {
    let world = World::bare().await;
    assert!(
        (DESCRIPTOR.init)(&world.context())
            .unwrap()
            .is_switched_off()
    );
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_repeated() {
    let update = || Matcher::new("update", "certificatesigningrequests");
    for fault in [
        RequestFault::Reject(internal_error()),
        RequestFault::Reject(conflict()),
        RequestFault::Reset,
        RequestFault::LoseAnswer,
    ] {
        let files = Files::new(365);
        let world = World::signing(&files).await;
        let case = format!("{fault:?}");
        world.cluster.faults().on_request(update(), fault, Some(1));
        world.cluster.load(approved("c")).unwrap();
        let broken = with_conditions(csr("f", CLIENT, &["any"], &of_kubelet()), &["Approved"]);
        world.cluster.load(broken).unwrap();
        tokio::time::sleep(SECOND * 120).await;
        assert!(!certificate(&world.csr("c")).is_empty(), "{case}");
        let failed = world.csr("f")["status"]["conditions"].clone();
        assert_eq!(failed.as_array().unwrap().len(), 2, "{case}");
    }
}

/// Requests past the API server's checks: a request whose requester lacks the private key, an
/// unknown usage, and texts that are no requests.
#[tokio::test(start_paused = true)]
async fn requests_that_cannot_be_signed_cause_no_write() {
    let files = Files::new(365);
    let world = World::signing(&files).await;
    let request = of_kubelet();
    let (start, end) = request.split_at(request.find("\n-----END").unwrap() - 30);
    // The signature is at the end. Its last bytes are random.
    let changed = if end.starts_with('A') { "B" } else { "A" };
    let forged = format!("{start}{changed}{}", &end[1..]);
    let legacy = "kubernetes.io/legacy-unknown";
    let requests = [
        csr("forged", KUBELET_CLIENT, &CLIENT_USAGES, &forged),
        csr("usage", legacy, &["fly"], &of_kubelet()),
        csr("text", legacy, &[], "x"),
        csr("certificate", legacy, &[], &authority("a", 1).0),
    ];
    for request in requests {
        world
            .cluster
            .load(with_conditions(request, &["Approved"]))
            .unwrap();
    }
    tokio::time::sleep(SECOND * 600).await;
    assert_eq!(world.certificate_writes(), Vec::<String>::new());
}
