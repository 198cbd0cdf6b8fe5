//! The requests that each signer signs, leaves alone, or marks as failed.

use serde_json::json;
use steersman_pki::x509::CertificateRequest;

use super::super::signer::Signer;
use super::{CLIENT_USAGES, Files, SECOND, SERVING_USAGES};
use crate::certificates::testing::{
    CLIENT, KUBELET_CLIENT, KUBELET_SERVING, certificate, csr, dns, found, pem, with_conditions,
};
use crate::testing::world::World;

/// Upstream: `TestHandle` of the signer. The API server stores no request for `legacy-unknown`.
#[tokio::test(start_paused = true)]
async fn handle() {
    let names = || vec![dns("example.com")];
    let node = "system:node:testnode";
    let nodes: &[&str] = &["system:nodes"];
    let all = ["key encipherment", "digital signature", "client auth"];
    let all_serving = ["key encipherment", "digital signature", "server auth"];
    let odd = [
        "server auth",
        "client auth",
        "digital signature",
        "key encipherment",
    ];
    let client = || pem(&["some-org"], "hello-world", Vec::new());
    let kubelet = || pem(nodes, "system:node:hello-world", Vec::new());
    let serving = || pem(nodes, node, names());
    let decided: &[&str] = &["Approved"];
    // (case, signer, request, usages, conditions, issued, failed)
    let cases: [(&str, &str, String, &[&str], &[&str], bool, bool); 12] = [
        ("sign client", CLIENT, client(), &all, decided, true, false),
        (
            "sign client without key encipherment",
            CLIENT,
            client(),
            &CLIENT_USAGES,
            decided,
            true,
            false,
        ),
        (
            "refuse client with an unexpected usage",
            CLIENT,
            client(),
            &odd,
            decided,
            false,
            true,
        ),
        (
            "sign kubelet client",
            KUBELET_CLIENT,
            kubelet(),
            &all,
            decided,
            true,
            false,
        ),
        (
            "sign kubelet client without key encipherment",
            KUBELET_CLIENT,
            kubelet(),
            &CLIENT_USAGES,
            decided,
            true,
            false,
        ),
        (
            "sign kubelet-serving",
            KUBELET_SERVING,
            serving(),
            &all_serving,
            decided,
            true,
            false,
        ),
        (
            "sign kubelet-serving without key encipherment",
            KUBELET_SERVING,
            serving(),
            &SERVING_USAGES,
            decided,
            true,
            false,
        ),
        (
            "nothing if failed",
            KUBELET_SERVING,
            serving(),
            &all_serving,
            &["Approved", "Failed"],
            false,
            true,
        ),
        (
            "nothing for an unrecognised signerName",
            "kubernetes.io/not-recognised",
            client(),
            &all,
            decided,
            false,
            false,
        ),
        (
            "nothing if not approved",
            KUBELET_SERVING,
            serving(),
            &all_serving,
            &[],
            false,
            false,
        ),
        (
            "nothing for a foreign signer",
            "example.com/sample-name",
            client(),
            &all,
            decided,
            false,
            false,
        ),
        (
            "nothing if denied",
            KUBELET_SERVING,
            serving(),
            &all_serving,
            &["Approved", "Denied"],
            false,
            false,
        ),
    ];
    let files = Files::new(365);
    let world = World::signing(&files).await;
    for (index, (_, signer, request, usages, conditions, ..)) in cases.iter().enumerate() {
        let csr = csr(&format!("c{index}"), signer, usages, request);
        world
            .cluster
            .load(with_conditions(csr, conditions))
            .unwrap();
    }
    tokio::time::sleep(SECOND * 10).await;
    for (index, (case, .., is_issued, has_failed)) in cases.iter().enumerate() {
        let csr = world.csr(&format!("c{index}"));
        assert_eq!(!certificate(&csr).is_empty(), *is_issued, "{case}");
        assert_eq!(found(&csr, "Failed").is_some(), *has_failed, "{case}");
    }
    assert_eq!(world.certificate_writes().len(), 7);
}

/// The rules of the signers, each broken once, and the message.
#[tokio::test(start_paused = true)]
async fn a_request_outside_the_rules_of_its_signer_fails() {
    use rcgen::SanType::{IpAddress, Rfc822Name, URI};
    let nodes: &[&str] = &["system:nodes"];
    let node = "system:node:n1";
    let name = |text: &str| text.try_into().unwrap();
    let ip = || IpAddress("10.0.0.7".parse().unwrap());
    let email = || Rfc822Name(name("a@b"));
    let uri = || URI(name("spiffe://td/x"));
    let client = CLIENT_USAGES.to_vec();
    let serving = SERVING_USAGES.to_vec();
    let organization = "subject organization is not system:nodes";
    let common_name = "subject common name does not begin with system:node:";
    let client_usages = "usages did not match [client auth digital signature key encipherment]";
    let serving_usages = "usages did not match [digital signature key encipherment server auth]";
    let emails = "Email subjectAltNames are not allowed";
    let uris = "URI subjectAltNames are not allowed";
    // (signer, request, usages, message)
    let cases = [
        (
            KUBELET_CLIENT,
            pem(&["masters"], node, vec![dns("a")]),
            vec!["any"],
            organization,
        ),
        (
            KUBELET_CLIENT,
            pem(&["system:nodes", "system:masters"], node, vec![]),
            client.clone(),
            organization,
        ),
        (
            KUBELET_CLIENT,
            pem(&[], node, vec![]),
            client.clone(),
            organization,
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, "x", vec![email(), dns("a")]),
            client.clone(),
            "DNS subjectAltNames are not allowed",
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, "x", vec![ip(), email()]),
            client.clone(),
            emails,
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, "x", vec![uri(), ip()]),
            client.clone(),
            "IP subjectAltNames are not allowed",
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, "x", vec![uri()]),
            client.clone(),
            uris,
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, "x", vec![]),
            serving.clone(),
            common_name,
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, node, vec![]),
            serving.clone(),
            client_usages,
        ),
        (
            KUBELET_CLIENT,
            pem(nodes, node, vec![]),
            vec!["client auth", "digital signature", "cert sign"],
            client_usages,
        ),
        (
            KUBELET_SERVING,
            pem(&["a"], node, vec![]),
            client.clone(),
            organization,
        ),
        (
            KUBELET_SERVING,
            pem(nodes, node, vec![email()]),
            client.clone(),
            "DNS or IP subjectAltName is required",
        ),
        (
            KUBELET_SERVING,
            pem(nodes, "x", vec![dns("a"), email(), uri()]),
            client.clone(),
            emails,
        ),
        (
            KUBELET_SERVING,
            pem(nodes, "x", vec![ip(), uri()]),
            client.clone(),
            uris,
        ),
        (
            KUBELET_SERVING,
            pem(nodes, "x", vec![ip()]),
            client.clone(),
            serving_usages,
        ),
        (
            KUBELET_SERVING,
            pem(nodes, "x", vec![ip()]),
            serving.clone(),
            common_name,
        ),
        (
            CLIENT,
            pem(nodes, node, vec![]),
            vec!["client auth", "cert sign"],
            "invalid usage for client certificate: cert sign",
        ),
        (
            CLIENT,
            pem(nodes, node, vec![]),
            vec!["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
    ];
    let files = Files::new(365);
    let world = World::signing(&files).await;
    for (index, (signer, request, usages, _)) in cases.iter().enumerate() {
        let csr = csr(&format!("c{index}"), signer, usages, request);
        world
            .cluster
            .load(with_conditions(csr, &["Approved"]))
            .unwrap();
    }
    tokio::time::sleep(SECOND * 10).await;
    for (index, (.., message)) in cases.iter().enumerate() {
        let csr = world.csr(&format!("c{index}"));
        let failed = found(&csr, "Failed").unwrap();
        let condition = ["status", "reason", "message"].map(|field| failed[field].clone());
        let expected = ["True", "SignerValidationFailure", message].map(|text| json!(text));
        assert_eq!(condition, expected, "{index}");
        assert!(failed["lastUpdateTime"].is_string(), "{index}");
        assert_eq!(certificate(&csr), "", "{index}");
    }
    assert_eq!(world.certificate_writes().len(), cases.len());
}

#[test]
fn the_legacy_signer_has_no_rules() {
    let request = CertificateRequest::from_pem(pem(&[], "", vec![dns("a")]).as_bytes()).unwrap();
    assert_eq!(Signer::LegacyUnknown.check(&request, &[]), Ok(()));
}
