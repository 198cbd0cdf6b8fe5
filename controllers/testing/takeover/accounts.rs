//! Takeover of the objects of a namespace as kube-controller-manager 1.36.2 leaves them.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use steersman_runtime::controller::Descriptor;

use super::{TWO_DAYS, resynced};
use crate::testing::NAMESPACE;
use crate::testing::world::World;
use crate::{legacytokencleaner, rootcacertpublisher, serviceaccount, serviceaccounttoken};

const CONTROLLERS: [Descriptor; 4] = [
    legacytokencleaner::DESCRIPTOR,
    rootcacertpublisher::DESCRIPTOR,
    serviceaccount::DESCRIPTOR,
    serviceaccounttoken::DESCRIPTOR,
];

const CA: &str = "-----BEGIN CERTIFICATE-----\n";

/// A private key. The token of upstream stays, whichever key signed it.
pub(super) fn account_key() -> Arc<str> {
    let keys = include_str!("../../serviceaccounttoken/testdata/tokens.json");
    let keys: Value = serde_json::from_str(keys).unwrap();
    keys["keys"][0]["privateKeyPEM"].as_str().unwrap().into()
}

fn object(kind: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{kind}-{name}")},
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        if field == "annotations" {
            object["metadata"][field] = value.clone();
        } else {
            object[field] = value.clone();
        }
    }
    object
}

/// The objects that upstream makes in a namespace.
fn of_namespace(namespace: &str) -> [Value; 2] {
    let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
    let published = json!({
        "annotations": {"kubernetes.io/description": description}, "data": {"ca.crt": CA},
    });
    [
        object("ServiceAccount", namespace, "default", json!({})),
        object("ConfigMap", namespace, "kube-root-ca.crt", published),
    ]
}

#[tokio::test(start_paused = true)]
async fn accounts_secrets_and_certificates_at_rest_are_taken_over_without_a_write() {
    let mut world = World::bare().await;
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let objects = of_namespace(namespace).into_iter();
        objects.for_each(|object| world.cluster.load(object).unwrap());
    }
    let secret = json!({
        "type": "kubernetes.io/service-account-token",
        "annotations": {
            "kubernetes.io/service-account.name": "bot",
            "kubernetes.io/service-account.uid": "ServiceAccount-bot",
        },
        "data": {
            "ca.crt": BASE64_STANDARD.encode(CA), "namespace": BASE64_STANDARD.encode(NAMESPACE),
            "token": BASE64_STANDARD.encode("eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
        },
    });
    let listed = json!({"secrets": [{"name": "bot-token"}]});
    for object in [
        object("ServiceAccount", NAMESPACE, "bot", listed),
        object("Secret", NAMESPACE, "bot-token", secret),
    ] {
        world.cluster.load(object).unwrap();
    }
    world
        .restart_with(&CONTROLLERS, |mut context| {
            context.credentials.root_ca = Arc::from(CA.as_bytes());
            context.credentials.account_key = Some(account_key());
            resynced(context)
        })
        .await;
    tokio::time::sleep(TWO_DAYS).await;
    assert_eq!(world.count_writes(), 0, "{:#?}", world.all_writes());
}
