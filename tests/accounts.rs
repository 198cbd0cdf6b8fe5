//! ServiceAccounts of a whole cluster, under the commands of the real kubectl.

use serde_json::{Value, json};

use crate::harness::Cluster;

/// The token in the Secret `bot-token`, after the controller has filled it.
fn token(cluster: &Cluster) -> String {
    let template = r"-o go-template={{.data.token|base64decode}}";
    cluster.eventually(&format!("get secret bot-token {template}"), |token| {
        token.matches('.').count() == 2
    })
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
    cluster.kubectl("create serviceaccount bot");
    cluster.apply(
        "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: bot-token, annotations: \
         {kubernetes.io/service-account.name: bot}}}",
    );
    let token = token(&cluster);
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
    // The Secret goes with the account, and the token with the Secret.
    cluster.kubectl("delete serviceaccount bot");
    cluster.eventually("get secrets -o name", |names| !names.contains("bot-token"));
    // A real API server caches the answer for ten seconds.
    let authenticated = "create -o jsonpath={.status.authenticated} -f review.json";
    cluster.eventually(authenticated, |answer| answer.trim() != "true");
}
