//! Accounts, tokens and certificates that cannot be made, and requests that are not signed.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_runtime::controller::ControllerContext;

use super::super::accounts::account_key;
use super::{CHANGED, Trouble, cluster_object, merge, object};
use crate::certificates::testing::{CLIENT_USAGES, KUBELET_CLIENT, csr, of_kubelet};
use crate::certificates::{approving, cleaning, signing};
use crate::testing::tokens::signing_token;
use crate::{
    bootstrapsigner, clusterroleaggregation, clustertrustbundlepublisher, legacytokencleaner,
    rootcacertpublisher, serviceaccount, serviceaccounttoken, tokencleaner,
};

pub(super) fn troubles() -> Vec<Trouble> {
    vec![
        accounts(),
        tokens(),
        requests(),
        pod_requests(),
        bundle(),
        roles(),
    ]
}

fn with_authority(mut context: ControllerContext) -> ControllerContext {
    context.credentials.root_ca = Arc::from(b"-----BEGIN CERTIFICATE-----\n".as_slice());
    context.credentials.account_key = Some(account_key());
    context
}

/// The API server refuses accounts and ConfigMaps. A token Secret names no account any more.
fn accounts() -> Trouble {
    let secret = |name: &str, account: &str| {
        object(
            "v1",
            "Secret",
            name,
            json!({
                "type": "kubernetes.io/service-account-token",
                "metadata": {
                    "annotations": {"kubernetes.io/service-account.name": account},
                    "finalizers": ["example.com/hold"],
                },
            }),
        )
    };
    Trouble::new(
        "accounts and tokens are refused",
        &[
            legacytokencleaner::DESCRIPTOR,
            rootcacertpublisher::DESCRIPTOR,
            serviceaccount::DESCRIPTOR,
            serviceaccounttoken::DESCRIPTOR,
        ],
    )
    .with([
        object("v1", "ServiceAccount", "bot", json!({})),
        secret("orphan", "gone"),
        secret("unfilled", "bot"),
    ])
    .configured(with_authority)
    .refusing(Matcher::new("create", "serviceaccounts"), internal_error())
    .refusing(Matcher::new("create", "configmaps"), internal_error())
    .refusing(Matcher::new("update", "secrets"), internal_error())
    .refusing(Matcher::new("patch", "secrets"), internal_error())
    .listing(
        "delete /api/v1/namespaces/default/secrets/orphan",
        "`syncSecret`: the account is missing",
    )
}

/// An expired token stays, and the signatures of the others cannot be written.
fn tokens() -> Trouble {
    let mut expired = signing_token("expire", "2026-11-21T02:00:00Z");
    merge(
        &mut expired,
        json!({"metadata": {"finalizers": ["example.com/hold"], "uid": "uid-of-expired"}}),
    );
    let mut later = signing_token("laters", "2026-11-21T03:20:00Z");
    later["metadata"]["uid"] = json!("uid-of-later");
    let mut info = object(
        "v1",
        "ConfigMap",
        "cluster-info",
        json!({"data": {"kubeconfig": "apiVersion: v1\n"}}),
    );
    info["metadata"]["namespace"] = json!("kube-public");
    Trouble::new(
        "bootstrap tokens stay",
        &[bootstrapsigner::DESCRIPTOR, tokencleaner::DESCRIPTOR],
    )
    .with([expired, later, info])
    .refusing(Matcher::new("update", "configmaps"), internal_error())
    .listing(
        "delete /api/v1/namespaces/kube-system/secrets/bootstrap-token-expire",
        "`evalSecret` of an expired token of the first list",
    )
}

/// Requests that may not be approved, that no authority signs, that failed, and that are old.
fn requests() -> Trouble {
    let request = |name: &str, fields: Value| {
        let mut request = csr(name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
        request["metadata"]["creationTimestamp"] = json!(CHANGED);
        merge(&mut request, fields);
        request
    };
    let condition = |kind: &str| {
        json!({"status": {"conditions": [{
            "type": kind, "status": "True", "reason": "r", "message": "m",
            "lastUpdateTime": CHANGED, "lastTransitionTime": CHANGED,
        }]}})
    };
    Trouble::new(
        "requests for certificates wait",
        &[
            approving::DESCRIPTOR,
            cleaning::requests::DESCRIPTOR,
            signing::DESCRIPTOR,
        ],
    )
    .with([
        request("waits", json!({})),
        request("denied", condition("Denied")),
        request("failed", condition("Failed")),
        request(
            "old",
            json!({"metadata": {
                "creationTimestamp": "2026-11-19T00:00:00Z", "finalizers": ["example.com/hold"],
            }}),
        ),
    ])
    .listing(
        "certificatesigningrequests/old",
        "`CSRCleanerController.Run`: its first pass is at the start",
    )
    .listing(
        "subjectaccessreviews",
        "`sarApprover.handle` reviews each request of the first list",
    )
}

fn pod_requests() -> Trouble {
    let request = object(
        "certificates.k8s.io/v1beta1",
        "PodCertificateRequest",
        "old",
        json!({
            "metadata": {"creationTimestamp": "2026-11-21T02:00:00Z", "finalizers": ["example.com/hold"]},
            "spec": {},
        }),
    );
    let mut trouble = Trouble::new(
        "an old request of a pod stays",
        &[cleaning::pods::DESCRIPTOR],
    )
    .with([request]);
    trouble.definitions.push(definition(
        "certificates.k8s.io",
        "PodCertificateRequest",
        &["v1beta1"],
        "Namespaced",
    ));
    trouble
}

/// The API server refuses the bundle.
fn bundle() -> Trouble {
    let mut trouble = Trouble::new(
        "the bundle of the API server is refused",
        &[clustertrustbundlepublisher::DESCRIPTOR],
    )
    .configured(with_authority)
    .refusing(
        Matcher::new("create", "clustertrustbundles"),
        internal_error(),
    );
    let mut bundles = definition(
        "certificates.k8s.io",
        "ClusterTrustBundle",
        &["v1beta1"],
        "Cluster",
    );
    let version = &mut bundles["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".spec.signerName"}]);
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"signerName": {"type": "string"}},
    }});
    trouble.definitions.push(bundles);
    trouble
}

/// A role aggregates the rules of another one, and the API server refuses the result.
fn roles() -> Trouble {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let labelled = json!({"matchLabels": {"part": "of"}});
    Trouble::new(
        "an aggregated role is refused",
        &[clusterroleaggregation::DESCRIPTOR],
    )
    .with([
        cluster_object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "part",
            json!({"metadata": {"labels": {"part": "of"}}, "rules": [rule]}),
        ),
        cluster_object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "sum",
            json!({"aggregationRule": {"clusterRoleSelectors": [labelled]}, "rules": []}),
        ),
    ])
    .refusing(Matcher::new("patch", "clusterroles"), internal_error())
}
