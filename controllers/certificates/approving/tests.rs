//! Stories of the approving controller against the in-memory API server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};

use steersman_pki::x509::CertificateRequest;

use super::DESCRIPTOR;
use super::recognizer::{Recognizer, SIGNER};
use crate::certificates::testing::{
    CLIENT, CLIENT_USAGES, KUBELET_CLIENT, KUBELET_SERVING, csr, decode, dns, found, of_kubelet,
    pem, with_conditions,
};
use crate::testing::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// The user of kubelets that have no certificate yet.
const BOOTSTRAP: &str = "system:bootstrap:abcdef";

const REVIEW: &str = "create v1/subjectaccessreviews 201";

impl World {
    async fn approving() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// Lets `user` create this subresource of CertificateSigningRequests.
    fn allow_user(&self, user: &str, subresource: &str) {
        let group = "rbac.authorization.k8s.io";
        let object = |kind: &str| {
            json!({"apiVersion": format!("{group}/v1"), "kind": kind,
                "metadata": {"name": format!("{user}-{subresource}")}})
        };
        let mut role = object("ClusterRole");
        let mut binding = object("ClusterRoleBinding");
        role["rules"] = json!([{
            "apiGroups": ["certificates.k8s.io"], "verbs": ["create"],
            "resources": [format!("certificatesigningrequests/{subresource}")],
        }]);
        binding["roleRef"] = json!({"apiGroup": group, "kind": "ClusterRole",
            "name": role["metadata"]["name"]});
        binding["subjects"] = json!([{"apiGroup": group, "kind": "User", "name": user}]);
        self.cluster.load(role).unwrap();
        self.cluster.load(binding).unwrap();
    }
}

/// The first request of a kubelet, or a renewal.
fn request(name: &str, user: &str) -> Value {
    let mut csr = csr(name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
    csr["spec"]["username"] = json!(user);
    csr
}

/// Upstream: `TestRecognizers`.
#[test]
fn recognizers() {
    use Recognizer::{NodeClient, SelfNodeClient};
    let node = "system:node:foo";
    let nodes: &[&str] = &["system:nodes"];
    // (case, signer, organizations, common name, requester, further usage, expected)
    let cases: [(_, _, &[&str], _, _, _, &[Recognizer]); 9] = [
        (
            "good",
            SIGNER,
            nodes,
            node,
            node,
            None,
            &[SelfNodeClient, NodeClient],
        ),
        ("cn mike", SIGNER, nodes, "mike", node, None, &[]),
        ("no orgs", SIGNER, &[], node, node, None, &[]),
        (
            "system:master",
            SIGNER,
            &["system:master"],
            node,
            node,
            None,
            &[],
        ),
        (
            "server auth",
            SIGNER,
            nodes,
            node,
            node,
            Some("server auth"),
            &[],
        ),
        (
            "example.com/not-correct",
            "example.com/not-correct",
            nodes,
            node,
            node,
            None,
            &[],
        ),
        (
            "kubelet-serving",
            KUBELET_SERVING,
            nodes,
            node,
            node,
            None,
            &[],
        ),
        (
            "requestor joe",
            SIGNER,
            nodes,
            node,
            "joe",
            None,
            &[NodeClient],
        ),
        (
            "cn bar",
            SIGNER,
            nodes,
            "system:node:bar",
            node,
            None,
            &[NodeClient],
        ),
    ];
    for (case, signer, organizations, common_name, requester, usage, expected) in cases {
        let text = pem(organizations, common_name, Vec::new());
        for enciphers in [true, false] {
            let mut usages = CLIENT_USAGES.to_vec();
            usages.extend(usage);
            if enciphers {
                usages.push("key encipherment");
            }
            let mut csr = csr("c", signer, &usages, &text);
            csr["spec"]["username"] = json!(requester);
            let content = decode(&csr).content();
            let request = CertificateRequest::from_pem(&content.request).unwrap();
            let found = Recognizer::of(signer, &content, &request);
            assert_eq!(found, expected, "{case}, key encipherment: {enciphers}");
        }
    }
}

/// Upstream: `TestHandle` of the approver, and `TestController_AutoApproval`.
#[tokio::test(start_paused = true)]
async fn a_kubelet_is_approved_by_the_rights_of_its_user() {
    let node = "system:node:n1";
    let own = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    let other = "Auto approving kubelet client certificate after SubjectAccessReview.";
    // (case, user, subresource that the user may create, message, reviews)
    let cases = [
        ("first", BOOTSTRAP, "nodeclient", other, 1),
        ("renewal", node, "selfnodeclient", own, 1),
        ("renewal by the other right", node, "nodeclient", other, 2),
    ];
    for (case, user, right, message, reviews) in cases {
        let world = World::approving().await;
        world.allow_user(user, right);
        world.cluster.load(request("c", user)).unwrap();
        tokio::time::sleep(SECOND).await;
        let csr = world.csr("c");
        let approved = found(&csr, "Approved").unwrap();
        assert_eq!(
            (
                &approved["status"],
                &approved["reason"],
                &approved["message"]
            ),
            (&json!("True"), &json!("AutoApproved"), &json!(message)),
            "{case}"
        );
        assert!(
            approved["lastUpdateTime"].is_string() && approved["lastTransitionTime"].is_string()
        );
        let mut expected = vec![REVIEW; reviews];
        expected.push("update c/approval 200");
        assert_eq!(world.certificate_writes(), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_and_decided_requests_are_left_alone() {
    let world = World::approving().await;
    world.allow_user("system:node:n1", "nodeclient");
    world.allow_user("system:node:n1", "selfnodeclient");
    let requests = [
        csr(
            "serving",
            KUBELET_SERVING,
            &["digital signature", "server auth"],
            &pem(&["system:nodes"], "system:node:n1", vec![dns("n1")]),
        ),
        csr("client", CLIENT, &CLIENT_USAGES, &of_kubelet()),
        csr("foreign", "example.com/s", &CLIENT_USAGES, &of_kubelet()),
        csr(
            "masters",
            KUBELET_CLIENT,
            &CLIENT_USAGES,
            &pem(
                &["system:nodes", "system:masters"],
                "system:node:n1",
                Vec::new(),
            ),
        ),
        csr(
            "user",
            KUBELET_CLIENT,
            &CLIENT_USAGES,
            &pem(&["system:nodes"], "jane", Vec::new()),
        ),
        csr(
            "names",
            KUBELET_CLIENT,
            &CLIENT_USAGES,
            &pem(&["system:nodes"], "system:node:n1", vec![dns("n1")]),
        ),
        with_conditions(request("approved", BOOTSTRAP), &["Approved"]),
        with_conditions(request("denied", BOOTSTRAP), &["Denied"]),
    ];
    for request in requests {
        world.cluster.load(request).unwrap();
    }
    let mut issued = request("issued", BOOTSTRAP);
    issued["status"] = json!({"certificate": "eA=="});
    world.cluster.load(issued).unwrap();
    tokio::time::sleep(SECOND * 3600).await;
    assert_eq!(world.certificate_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_asked_for_again_with_growing_delay() {
    let world = World::approving().await;
    world.cluster.load(request("c", "system:node:n1")).unwrap();
    tokio::time::sleep(SECOND * 60).await;
    let reviews = world.certificate_writes();
    // Two reviews at once, then after 0.2, 0.4, 0.8, ... 25.6 seconds.
    assert_eq!(reviews, vec![REVIEW; 18]);
    world.allow_user("system:node:n1", "selfnodeclient");
    tokio::time::sleep(SECOND * 60).await;
    assert!(found(&world.csr("c"), "Approved").is_some());
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_repeated() {
    let faults: [(Matcher, RequestFault); 4] = [
        (
            Matcher::new("create", "subjectaccessreviews"),
            RequestFault::Reject(internal_error()),
        ),
        (
            Matcher::new("create", "subjectaccessreviews"),
            RequestFault::LoseAnswer,
        ),
        (
            Matcher::new("update", "certificatesigningrequests"),
            RequestFault::Reject(conflict()),
        ),
        (
            Matcher::new("update", "certificatesigningrequests"),
            RequestFault::LoseAnswer,
        ),
    ];
    for (matcher, fault) in faults {
        let world = World::approving().await;
        world.allow_user(BOOTSTRAP, "nodeclient");
        let case = format!("{matcher:?}");
        world.cluster.faults().on_request(matcher, fault, Some(1));
        world.cluster.load(request("c", BOOTSTRAP)).unwrap();
        tokio::time::sleep(SECOND * 120).await;
        let csr = world.csr("c");
        assert_eq!(
            csr["status"]["conditions"].as_array().unwrap().len(),
            1,
            "{case}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_cause_no_requests() {
    let world = World::approving().await;
    let texts = [
        "",
        "x",
        "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n",
    ];
    for (index, text) in texts.into_iter().enumerate() {
        let csr = csr(&format!("c{index}"), KUBELET_CLIENT, &CLIENT_USAGES, text);
        world.cluster.load(csr).unwrap();
    }
    tokio::time::sleep(SECOND * 600).await;
    assert_eq!(world.certificate_writes(), Vec::<String>::new());
}

#[test]
fn a_review_has_the_properties_of_the_requester() {
    let mut csr = request("c", BOOTSTRAP);
    csr["spec"]["uid"] = json!("u");
    csr["spec"]["extra"] = json!({"k": ["v"]});
    let attributes = json!({"verb": "create", "group": "certificates.k8s.io", "version": "*",
        "resource": "certificatesigningrequests", "subresource": "nodeclient"});
    let review = Recognizer::NodeClient.review(&decode(&csr).content());
    let groups = json!(["system:nodes", "system:authenticated"]);
    let expected = json!({"resourceAttributes": attributes, "user": BOOTSTRAP, "uid": "u",
        "groups": groups, "extra": {"k": ["v"]}});
    assert_eq!(review["spec"], expected);
    csr["spec"] = json!({});
    let review = Recognizer::NodeClient.review(&decode(&csr).content());
    assert_eq!(review["spec"], json!({"resourceAttributes": attributes}));
}
