//! ServiceAccounts of a whole cluster, under the commands of the real kubectl.

use serde_json::{Value, json};

use crate::harness::Cluster;
use crate::support::output;

/// Makes the account `bot` with a token Secret, and checks that the API server accepts the token.
/// Writes a TokenReview of it to `review.json`.
fn has_accepted_token(cluster: &Cluster) {
    cluster.kubectl("create serviceaccount bot");
    cluster.apply(
        "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: bot-token, annotations: \
         {kubernetes.io/service-account.name: bot}}}",
    );
    let template = "get secret bot-token -o go-template={{.data.token|base64decode}}";
    let token = cluster.eventually(template, |token| token.matches('.').count() == 2);
    let user = format!("system:serviceaccount:{}:bot", cluster.namespace());
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    cluster.file("review.json", &review.to_string());
    let answer = cluster.kubectl("create -o json -f review.json");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let status = &answer["status"];
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["user"]["username"], user);
    let uid = cluster.get("serviceaccount bot", "{.metadata.uid}");
    assert_eq!(status["user"]["uid"], uid.trim());
}

#[test]
fn every_namespace_gets_account_and_certificates_again() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let names = "-o name";
    let account = format!("get serviceaccount default {names}");
    let certificates = "get configmap kube-root-ca.crt -o jsonpath={.data.ca\\.crt}";
    let begins = |text: &str| text.starts_with("-----BEGIN CERTIFICATE-----");
    for _ in 0..2 {
        cluster.eventually(&account, |found| found.trim() == "serviceaccount/default");
        cluster.eventually(certificates, begins);
        cluster.kubectl("delete serviceaccount/default configmap/kube-root-ca.crt");
    }
    cluster.eventually(&account, |found| !found.is_empty());
    cluster.eventually(certificates, begins);
    cluster.kubectl("run web --image=web:1");
}

/// Upstream: `TestServiceAccountTokenAuthentication`.
#[test]
fn the_token_of_a_secret_is_accepted_until_its_account_is_deleted() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    has_accepted_token(&cluster);
    // The Secret goes with the account, and the token with the Secret.
    cluster.kubectl("delete serviceaccount bot");
    cluster.eventually("get secrets -o name", |names| !names.contains("bot-token"));
    // A real API server caches the answer for ten seconds.
    let authenticated = "create -o jsonpath={.status.authenticated} -f review.json";
    cluster.eventually(authenticated, |answer| answer.trim() != "true");
}

/// The path of a key of OpenSSL.
fn key(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/pki/src/keys/testdata");
    format!("{folder}/{name}.pem")
}

#[test]
fn the_embedded_server_accepts_tokens_of_the_users_key() {
    for name in ["rsa-pkcs1", "p521-sec1"] {
        let flag = format!("--service-account-private-key-file={}", key(name));
        let Some(cluster) = Cluster::embedded_with(&[&flag]) else {
            return;
        };
        has_accepted_token(&cluster);
    }
}

#[test]
fn unusable_keys_of_the_user_end_dev_with_the_reason() {
    let missing = "open /no/such.pem: no such file or directory".to_owned();
    let source = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let text = format!("{source}: data does not contain a valid RSA or ECDSA private key");
    let ed25519 = key("ed25519-pkcs8");
    let other = format!(
        "{ed25519}: the API server cannot verify its tokens: public key is not RSA, P-256, P-384 or P-521"
    );
    for (file, reason) in [
        ("/no/such.pem", missing),
        (&*source, text),
        (&*ed25519, other),
    ] {
        let flag = format!("--service-account-private-key-file={file}");
        let ended = output(&["dev", "--nodes=0", "--", &flag]);
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        let line = error.lines().last().unwrap();
        assert!(
            line.contains("--service-account-private-key-file"),
            "{error}"
        );
        assert!(line.ends_with(&reason), "{error}");
    }
}
