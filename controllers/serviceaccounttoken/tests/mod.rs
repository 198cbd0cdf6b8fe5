//! Whole syncs against the in-memory API server, under paused time.

mod bad_input;
mod secrets;
mod start;
mod stories;

use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use steersman_runtime::controller::{ControllerContext, Descriptor};

use super::DESCRIPTOR;
use crate::testing::world::World;

/// The authority of the tests.
const CA: &str = "CA Data";

const SECRET: &str = "token-secret-1";
const TYPE: &str = "kubernetes.io/service-account-token";

/// Keys of the tests.
fn key(name: &str) -> String {
    let data: Value = serde_json::from_str(include_str!("../testdata/tokens.json")).unwrap();
    let keys = data["keys"].as_array().unwrap();
    let found = keys.iter().find(|key| key["name"] == name).unwrap();
    found["privateKeyPEM"].as_str().unwrap().to_owned()
}

/// A context with a key and an authority.
fn equipped(mut context: ControllerContext, key_name: &str, root_ca: &str) -> ControllerContext {
    context.credentials.account_key = Some(key(key_name).into());
    context.credentials.root_ca = Arc::from(root_ca.as_bytes());
    context
}

/// The account of the tests, with references to these Secrets.
fn account(secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default", "uid": "12345"},
        "secrets": secrets,
    })
}

/// A token Secret of that account, with this data in clear text.
fn secret(data: &[(&str, &str)]) -> Value {
    let pair =
        |(key, value): &(&str, &str)| ((*key).to_owned(), json!(BASE64_STANDARD.encode(value)));
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {
            "name": SECRET, "namespace": "default", "uid": "23456",
            "annotations": {
                "kubernetes.io/service-account.name": "default",
                "kubernetes.io/service-account.uid": "12345",
            },
        },
        "data": data.iter().map(pair).collect::<serde_json::Map<_, _>>(),
    })
}

/// The data of a Secret that needs nothing.
const COMPLETE: [(&str, &str); 3] = [("token", "ABC"), ("ca.crt", CA), ("namespace", "default")];

/// A Secret that a user makes for the account `name`.
fn by_hand(secret_name: &str, account_name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {
            "name": secret_name, "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": account_name},
        },
    })
}

/// A value of a Secret's data in clear text; empty if it is absent.
fn value(secret: &Value, field: &str) -> String {
    let text = secret["data"][field].as_str().unwrap_or_default();
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

/// The claims of a token.
fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

impl World {
    /// A cluster with the controller at work.
    async fn tokens() -> Self {
        let mut world = Self::bare().await;
        world.sign_with("rsa2048", CA).await;
        world
    }

    /// Starts the controller with a key and an authority.
    async fn sign_with(&mut self, key_name: &str, root_ca: &str) {
        self.start_signing(&[DESCRIPTOR], key_name, root_ca).await;
        self.a_minute().await;
    }

    async fn start_signing(&mut self, controllers: &[Descriptor], key_name: &str, root_ca: &str) {
        let equip = |context| equipped(context, key_name, root_ca);
        self.restart_with(controllers, equip).await;
    }

    /// The controller's requests: verb, resource, name and status code.
    fn token_requests(&self) -> Vec<String> {
        let requests = self.requests_of(DESCRIPTOR.identity).into_iter();
        requests
            .map(|line| {
                line.replace("/api/v1/namespaces/default/", "")
                    .replace('/', " ")
            })
            .collect()
    }

    fn secret(&self) -> Value {
        self.find("secrets", SECRET).unwrap()
    }

    async fn remove_account(&self, name: &str) {
        self.delete("serviceaccounts", name).await;
    }
}
