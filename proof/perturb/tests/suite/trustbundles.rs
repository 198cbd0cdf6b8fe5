//! Scenarios of the beta types of `certificates.k8s.io`, which the API server has by definitions:
//! the publisher of ClusterTrustBundles, and the cleaner of PodCertificateRequests.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::certificates::cleaning::pods;
use steersman_controllers::clustertrustbundlepublisher;
use steersman_devcluster::definitions::definition;
use steersman_perturb::rules::{OLD_POD_REQUESTS, OWN_BUNDLES};
use steersman_perturb::{AllowedError, Scenario, Step};

use crate::objects::{BLANK, is_gone, until_caches_are_current};

const BUNDLES: &str = "clustertrustbundles";
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
/// Name of the published bundle, with the hash of the authority's certificates.
const PUBLISHED: &str = "kubernetes.io:kube-apiserver-serving:8f76fd501bb68ef71f4e276b";

const REQUESTS: &str = "podcertificaterequests";
/// Times of creation. Runs begin at 22:13:20.
const OLD: &str = "2023-11-14T21:00:00Z";
const NOW: &str = "2023-11-14T22:13:20Z";
const LATER: &str = "2023-11-14T22:30:00Z";

const PUBLISHER: Scenario = Scenario {
    controller: "kube-apiserver-serving-clustertrustbundle-publisher",
    controllers: &[clustertrustbundlepublisher::DESCRIPTOR],
    configure: |mut context| {
        context.credentials.root_ca = (*b"authority").into();
        context
    },
    before: with_bundle,
    // While a fault hides the group for 40 s, discovery is repeated each 5 s.
    errors: &[AllowedError::of(Category::Server, 9)
        .from("kube-apiserver-serving-clustertrustbundle-publisher-controller")],
    rules: &[OWN_BUNDLES],
    ..BLANK
};

const CLEANER: Scenario = Scenario {
    controller: "podcertificaterequest-cleaner",
    controllers: &[pods::DESCRIPTOR],
    rules: &[OLD_POD_REQUESTS],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let publisher = |name, steps| Scenario {
        name,
        steps,
        ..PUBLISHER
    };
    let cleaner = |name, before, steps| Scenario {
        name,
        before,
        steps,
        ..CLEANER
    };
    vec![
        publisher("published", || vec![is_published()]),
        publisher("others", others),
        publisher("changed", changed),
        publisher("left-alone", left_alone),
        cleaner(
            "old",
            || with_requests(&[("a", OLD), ("b", OLD), ("c", OLD)]),
            || vec![two_passes()],
        ),
        cleaner(
            "young",
            || with_requests(&[("old", OLD), ("young", LATER)]),
            || vec![two_passes()],
        ),
        cleaner(
            "ages",
            || with_requests(&[("young", NOW)]),
            || {
                vec![
                    two_passes(),
                    two_passes(),
                    is_gone(REQUESTS, "default/young"),
                ]
            },
        ),
        cleaner("late", with_type, || {
            vec![Step::Load(request("late", OLD)), two_passes()]
        }),
    ]
}

/// A definition of a type of `certificates.k8s.io`, whose objects are selected by their signer.
fn of_certificates(kind: &str, scope: &str) -> Value {
    let mut made = definition("certificates.k8s.io", kind, &["v1beta1"], scope);
    made["metadata"]["uid"] = json!(format!("uid-of-{kind}"));
    let version = &mut made["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".spec.signerName"}]);
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"signerName": {"type": "string"}},
    }});
    made
}

fn bundle(name: &str, signer: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"signerName": signer, "trustBundle": "old"},
    })
}

/// The publisher's bundle with old content. Custom objects cannot be created with its name.
fn with_bundle() -> Vec<Value> {
    vec![
        of_certificates("ClusterTrustBundle", "Cluster"),
        bundle(PUBLISHED, SIGNER),
    ]
}

fn is_published() -> Step {
    Step::until("published", |state| {
        let bundle = state.get(BUNDLES, PUBLISHED);
        bundle.is_some_and(|bundle| bundle["spec"]["trustBundle"] == "authority")
    })
}

fn others() -> Vec<Step> {
    vec![
        Step::Create(bundle("one", SIGNER)),
        Step::Create(bundle("another", SIGNER)),
        is_published(),
        is_gone(BUNDLES, "one"),
        is_gone(BUNDLES, "another"),
        Step::Create(bundle("late", SIGNER)),
        is_gone(BUNDLES, "late"),
    ]
}

fn changed() -> Vec<Step> {
    let path = format!("/apis/certificates.k8s.io/v1beta1/{BUNDLES}/{PUBLISHED}");
    vec![
        is_published(),
        until_caches_are_current(),
        Step::Patch(path, json!({"spec": {"trustBundle": "another"}})),
        is_published(),
    ]
}

fn left_alone() -> Vec<Step> {
    vec![
        Step::Create(bundle("other", "example.com/signer")),
        is_published(),
        Step::Create(bundle("later", "example.com/signer")),
        until_caches_are_current(),
    ]
}

fn with_type() -> Vec<Value> {
    vec![of_certificates("PodCertificateRequest", "Namespaced")]
}

fn request(name: &str, created: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "creationTimestamp": created,
        },
        "spec": {"signerName": "example.com/signer", "podName": "web"},
    })
}

fn with_requests(requests: &[(&str, &str)]) -> Vec<Value> {
    let requests = requests
        .iter()
        .map(|(name, created)| request(name, created));
    with_type().into_iter().chain(requests).collect()
}

/// Two passes of the cleaner, also after a failed deletion.
fn two_passes() -> Step {
    Step::Sleep(Duration::from_secs(2 * 300 + 60))
}
