//! Scenarios of the controllers of CertificateSigningRequests. The user is an administrator, so every
//! review allows the requests that the user makes.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::certificates::cleaning::requests;
use steersman_controllers::certificates::{approving, signing};
use steersman_perturb::rules::{OLD_REQUESTS, ONLY_APPROVED, SIGNER_RULES};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, has_condition, path, until_caches_are_current};

const CSRS: &str = "certificatesigningrequests";

const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

const APPROVING: Scenario = Scenario {
    controller: "csrapproving",
    controllers: &[approving::DESCRIPTOR],
    rules: &[ONLY_APPROVED, SIGNER_RULES],
    ..BLANK
};

const SIGNING: Scenario = Scenario {
    controller: "csrsigning",
    controllers: &[signing::DESCRIPTOR],
    configure: |context| {
        const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/testdata");
        context
            .with_flag("cluster-signing-cert-file", &format!("{FOLDER}/ca.crt"))
            .with_flag("cluster-signing-key-file", &format!("{FOLDER}/ca.key"))
    },
    ..APPROVING
};

const CLEANING: Scenario = Scenario {
    controller: "csrcleaner",
    controllers: &[requests::DESCRIPTOR],
    rules: &[OLD_REQUESTS],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |base: Scenario, name, steps| Scenario {
        name,
        steps,
        ..base
    };
    vec![
        scenario(APPROVING, "kubelet", approved),
        scenario(APPROVING, "several", approved_several),
        scenario(APPROVING, "right-later", right_later),
        scenario(APPROVING, "left-alone", left_to_users),
        Scenario {
            controllers: &[approving::DESCRIPTOR, signing::DESCRIPTOR],
            ..scenario(SIGNING, "joined", joined)
        },
        scenario(SIGNING, "approved", signed),
        scenario(SIGNING, "invalid", invalid),
        scenario(SIGNING, "not-approved", not_approved),
        scenario(CLEANING, "pending", old_pending),
        scenario(CLEANING, "decided", old_decided),
        scenario(CLEANING, "approved-late", approved_late),
        scenario(CLEANING, "young", young),
    ]
}

/// The request of OpenSSL with this name in `requests.json`.
fn csr(name: &str, signer: &str, request: &str) -> Value {
    let requests: Value = serde_json::from_str(include_str!("testdata/requests.json"))
        .expect("the test data is JSON");
    let purpose = if signer == SERVING {
        "server auth"
    } else {
        "client auth"
    };
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": requests[request], "signerName": signer,
            "usages": ["digital signature", purpose],
        },
    })
}

fn create(name: &str, signer: &str, request: &str) -> Step {
    Step::Create(csr(name, signer, request))
}

/// The user decides about a request.
fn decide(name: &str, kind: &str) -> Step {
    let condition = json!({"type": kind, "status": "True", "reason": "User", "message": "m"});
    let status = json!({"status": {"conditions": [condition]}});
    Step::Patch(path(CSRS, name) + "/approval", status)
}

fn until_has(name: &'static str, kind: &'static str) -> Step {
    Step::until(kind, move |state: &State| {
        state
            .get(CSRS, name)
            .is_some_and(|csr| has_condition(csr, kind, "True", ""))
    })
}

fn until_signed(name: &'static str) -> Step {
    Step::until("signed", move |state: &State| {
        state
            .get(CSRS, name)
            .is_some_and(|csr| csr["status"]["certificate"].is_string())
    })
}

fn approved() -> Vec<Step> {
    vec![create("a", KUBELET, "kubelet"), until_has("a", "Approved")]
}

fn approved_several() -> Vec<Step> {
    vec![
        create("a", KUBELET, "kubelet"),
        create("b", KUBELET, "kubelet"),
        create("c", KUBELET, "kubelet"),
        until_has("a", "Approved"),
        until_has("b", "Approved"),
        until_has("c", "Approved"),
    ]
}

/// The API server first refuses the requester.
fn right_later() -> Vec<Step> {
    let group = "rbac.authorization.k8s.io";
    let role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    let user = "system:bootstrap:abcdef";
    let mut csr = csr("a", KUBELET, "kubelet");
    csr["spec"]["username"] = json!(user);
    csr["metadata"]["uid"] = json!("of-a");
    vec![
        Step::Load(csr),
        Step::Sleep(Duration::from_secs(5)),
        Step::Create(json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "bootstrap"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        })),
        until_has("a", "Approved"),
    ]
}

fn left_to_users() -> Vec<Step> {
    vec![
        create("serving", SERVING, "serving"),
        create("client", CLIENT, "jane"),
        create("names", KUBELET, "serving"),
        create("user", KUBELET, "jane"),
        create("kubelet", KUBELET, "kubelet"),
        until_has("kubelet", "Approved"),
        until_caches_are_current(),
    ]
}

fn joined() -> Vec<Step> {
    vec![
        create("client", KUBELET, "kubelet"),
        until_signed("client"),
        create("serving", SERVING, "serving"),
        decide("serving", "Approved"),
        until_signed("serving"),
    ]
}

fn signed() -> Vec<Step> {
    vec![
        create("a", CLIENT, "jane"),
        decide("a", "Approved"),
        create("b", SERVING, "serving"),
        decide("b", "Approved"),
        until_signed("a"),
        until_signed("b"),
    ]
}

fn invalid() -> Vec<Step> {
    vec![
        create("a", SERVING, "kubelet"),
        decide("a", "Approved"),
        create("b", KUBELET, "jane"),
        decide("b", "Approved"),
        until_has("a", "Failed"),
        until_has("b", "Failed"),
    ]
}

fn not_approved() -> Vec<Step> {
    vec![
        create("denied", CLIENT, "jane"),
        decide("denied", "Denied"),
        create("pending", KUBELET, "kubelet"),
        create("foreign", "example.com/s", "jane"),
        decide("foreign", "Approved"),
        create("approved", CLIENT, "jane"),
        decide("approved", "Approved"),
        until_signed("approved"),
        until_caches_are_current(),
    ]
}

/// A request that was made before the start of the run, at 22:13:20 on the 14th.
fn made(name: &str, created: &str, conditions: &[(&str, &str)]) -> Step {
    let mut csr = csr(name, KUBELET, "kubelet");
    csr["metadata"]["creationTimestamp"] = json!(created);
    csr["metadata"]["uid"] = json!(format!("of-{name}"));
    let conditions = conditions.iter().map(|(kind, time)| {
        json!({"type": kind, "status": "True", "lastUpdateTime": time, "lastTransitionTime": time})
    });
    csr["status"]["conditions"] = conditions.collect();
    Step::Load(csr)
}

/// Two passes of the cleaner of CertificateSigningRequests, also after a failed deletion.
fn two_passes() -> Step {
    Step::Sleep(Duration::from_secs(2 * 3600 + 600))
}

/// One pass, after which nothing is due.
fn one_pass() -> Step {
    Step::Sleep(Duration::from_secs(3600 + 600))
}

fn old_pending() -> Vec<Step> {
    vec![
        made("old", "2023-11-13T22:00:00Z", &[]),
        made("older", "2023-11-01T00:00:00Z", &[]),
        made("young", "2023-11-14T22:00:00Z", &[]),
        two_passes(),
    ]
}

fn old_decided() -> Vec<Step> {
    let old = "2023-11-14T20:00:00Z";
    let recent = "2023-11-14T22:13:00Z";
    vec![
        made("denied", old, &[("Denied", old)]),
        made("failed", old, &[("Approved", old), ("Failed", old)]),
        made("approved", old, &[("Approved", recent)]),
        two_passes(),
    ]
}

/// The user approves requests that are about to be deleted.
fn approved_late() -> Vec<Step> {
    vec![
        made("a", "2023-11-13T23:00:00Z", &[]),
        Step::Sleep(Duration::from_secs(600)),
        decide("a", "Approved"),
        one_pass(),
    ]
}

fn young() -> Vec<Step> {
    vec![
        create("pending", KUBELET, "kubelet"),
        create("approved", CLIENT, "jane"),
        decide("approved", "Approved"),
        one_pass(),
    ]
}
