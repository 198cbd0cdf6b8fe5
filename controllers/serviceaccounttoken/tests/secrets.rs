//! Upstream's table of `tokens_controller_test.go`.

use serde_json::{Value, json};

use super::{CA, COMPLETE, SECRET, account, secret, value};
use crate::testing::world::World;

fn opaque() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "regular-secret-1", "namespace": "default", "uid": "23456"},
        "data": {"mykey": "bXlkYXRh"},
    })
}

/// The change of a case.
enum Change {
    Added(Value),
    Updated(Value),
    Deleted(Value),
}

/// Upstream: `TestTokenCreation`. The objects before the change are there when the controller
/// starts.
#[tokio::test(start_paused = true)]
async fn token_creation() {
    use Change::{Added, Deleted, Updated};
    let no = || account(&[]);
    let missing = || account(&["missing-secret-1"]);
    let regular = || account(&["regular-secret-1"]);
    let token = || account(&[SECRET]);
    let complete = || secret(&COMPLETE);
    let without = |field: &str| {
        let rest: Vec<_> = COMPLETE
            .into_iter()
            .filter(|(key, _)| *key != field)
            .collect();
        secret(&rest)
    };
    let replaced = |field: &str, text: &'static str| {
        let replace = |(key, value)| (key, if key == field { text } else { value });
        secret(&COMPLETE.map(replace))
    };
    let populated: &[&str] = &[
        "get secrets token-secret-1 200",
        "update secrets token-secret-1 200",
    ];
    let orphaned: &[&str] = &[
        "get serviceaccounts default 404",
        "delete secrets token-secret-1 200",
    ];
    // (case, objects before, change, requests)
    let cases: [(&str, Vec<Value>, Change, &[&str]); 30] = [
        (
            "new serviceaccount with no secrets",
            vec![],
            Added(no()),
            &[],
        ),
        (
            "new serviceaccount with missing secrets",
            vec![],
            Added(missing()),
            &[],
        ),
        (
            "new serviceaccount with non-token secrets",
            vec![opaque()],
            Added(regular()),
            &[],
        ),
        (
            "new serviceaccount with token secrets",
            vec![token(), complete()],
            Added(token()),
            &[],
        ),
        (
            "updated serviceaccount with no secrets",
            vec![token()],
            Updated(no()),
            &[],
        ),
        (
            "updated serviceaccount with missing secrets",
            vec![no()],
            Updated(missing()),
            &[],
        ),
        (
            "updated serviceaccount with non-token secrets",
            vec![no(), opaque()],
            Updated(regular()),
            &[],
        ),
        (
            "updated serviceaccount with token secrets",
            vec![no(), complete()],
            Updated(token()),
            &[],
        ),
        (
            "updated serviceaccount with no secrets with resource conflict",
            vec![no()],
            Updated(no()),
            &[],
        ),
        (
            "deleted serviceaccount with no secrets",
            vec![no()],
            Deleted(no()),
            &[],
        ),
        (
            "deleted serviceaccount with missing secrets",
            vec![missing()],
            Deleted(missing()),
            &[],
        ),
        (
            "deleted serviceaccount with non-token secrets",
            vec![regular(), opaque()],
            Deleted(regular()),
            &[],
        ),
        (
            "deleted serviceaccount with token secrets",
            vec![token(), complete()],
            Deleted(token()),
            orphaned,
        ),
        (
            "added secret without serviceaccount",
            vec![],
            Added(complete()),
            orphaned,
        ),
        (
            "added secret with serviceaccount",
            vec![token()],
            Added(complete()),
            &[],
        ),
        (
            "added token secret without token data",
            vec![token()],
            Added(without("token")),
            populated,
        ),
        (
            "added token secret without ca data",
            vec![token()],
            Added(without("ca.crt")),
            populated,
        ),
        (
            "added token secret with mismatched ca data",
            vec![token()],
            Added(replaced("ca.crt", "mismatched")),
            populated,
        ),
        (
            "added token secret without namespace data",
            vec![token()],
            Added(without("namespace")),
            populated,
        ),
        (
            "added token secret with custom namespace data",
            vec![token()],
            Added(replaced("namespace", "custom")),
            &[],
        ),
        (
            "updated secret without serviceaccount",
            vec![],
            Updated(complete()),
            orphaned,
        ),
        (
            "updated secret with serviceaccount",
            vec![token(), complete()],
            Updated(complete()),
            &[],
        ),
        (
            "updated token secret without token data",
            vec![token(), complete()],
            Updated(without("token")),
            populated,
        ),
        (
            "updated token secret without ca data",
            vec![token(), complete()],
            Updated(without("ca.crt")),
            populated,
        ),
        (
            "updated token secret with mismatched ca data",
            vec![token(), complete()],
            Updated(replaced("ca.crt", "mismatched")),
            populated,
        ),
        (
            "updated token secret without namespace data",
            vec![token(), complete()],
            Updated(without("namespace")),
            populated,
        ),
        (
            "updated token secret with custom namespace data",
            vec![token(), complete()],
            Updated(replaced("namespace", "custom")),
            &[],
        ),
        (
            "deleted secret without serviceaccount",
            vec![],
            Deleted(complete()),
            &[],
        ),
        (
            "deleted secret with serviceaccount with reference",
            vec![token(), complete()],
            Deleted(complete()),
            &[
                "get serviceaccounts default 200",
                "update serviceaccounts default 200",
            ],
        ),
        (
            "deleted secret with serviceaccount without reference",
            vec![no(), complete()],
            Deleted(complete()),
            &["get serviceaccounts default 200"],
        ),
    ];
    for (case, before, change, expected) in cases {
        let mut world = World::bare().await;
        before
            .into_iter()
            .for_each(|object| world.cluster.load(object).unwrap());
        world.sign_with("rsa2048", CA).await;
        match change {
            Added(object) | Updated(object) => world.cluster.load(object).unwrap(),
            Deleted(object) => {
                let plural = if object["kind"] == "Secret" {
                    "secrets"
                } else {
                    "serviceaccounts"
                };
                let name = object["metadata"]["name"].as_str().unwrap();
                // A case without the object has nothing to delete.
                if world.find(plural, name).is_some() {
                    world.delete(plural, name).await;
                }
            }
        }
        world.a_minute().await;
        assert_eq!(world.token_requests(), expected, "{case}");
        if expected == populated {
            let secret = world.secret();
            assert_eq!(value(&secret, "ca.crt"), CA, "{case}");
            assert_eq!(value(&secret, "namespace"), "default", "{case}");
            assert_eq!(
                value(&secret, "token").contains('.'),
                case.ends_with("without token data")
            );
        }
        if case == "deleted secret with serviceaccount with reference" {
            let account = world.find("serviceaccounts", "default").unwrap();
            let secrets = account["secrets"].as_array();
            assert!(secrets.is_none_or(Vec::is_empty), "{account}");
        }
    }
}
