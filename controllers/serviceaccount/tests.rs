//! Whole syncs against the in-memory API server, under paused time.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};

use super::DESCRIPTOR;
use crate::testing::world::World;

/// The namespace of the tests, which is not there at the start.
const NS: &str = "ns1";

fn namespace(phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NS, "uid": "ns-uid"}, "status": {"phase": phase},
    })
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NS, "uid": format!("uid-of-{name}")},
    })
}

impl World {
    async fn service_accounts() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        world
    }

    /// The status codes of the creations of accounts in [`NS`].
    fn creations(&self) -> Vec<String> {
        let start = format!("create /api/v1/namespaces/{NS}/serviceaccounts ");
        let requests = self.requests_of(DESCRIPTOR.identity).into_iter();
        let created = requests.filter_map(|line| Some(line.strip_prefix(&start)?.to_owned()));
        created.collect()
    }

    fn accounts(&self) -> Vec<Value> {
        let mut accounts = self.cluster.objects("serviceaccounts");
        accounts.retain(|account| account["metadata"]["namespace"] == NS);
        accounts
    }
}

/// The change of a case.
enum Change {
    /// The namespace is created in this phase.
    Added(&'static str),
    /// The namespace gets this phase.
    Updated(&'static str),
    /// This account is deleted.
    Deleted(&'static str),
}

/// Upstream: `TestServiceAccountCreation`. Its second managed account has no counterpart, because
/// the list of managed accounts is fixed.
#[tokio::test(start_paused = true)]
async fn service_account_creation() {
    use Change::{Added, Deleted, Updated};
    // (case, phase before the change, accounts before the change, change, created)
    let cases: [(&str, Option<&str>, &[&str], Change, bool); 13] = [
        (
            "new active namespace missing serviceaccounts",
            None,
            &[],
            Added("Active"),
            true,
        ),
        (
            "new active namespace missing serviceaccount",
            None,
            &["managed"],
            Added("Active"),
            true,
        ),
        (
            "new active namespace with serviceaccounts",
            None,
            &["default", "managed"],
            Added("Active"),
            false,
        ),
        (
            "new terminating namespace",
            None,
            &[],
            Added("Terminating"),
            false,
        ),
        (
            "updated active namespace missing serviceaccounts",
            Some("Terminating"),
            &[],
            Updated("Active"),
            true,
        ),
        (
            "updated active namespace missing serviceaccount",
            Some("Terminating"),
            &["managed"],
            Updated("Active"),
            true,
        ),
        (
            "updated active namespace with serviceaccounts",
            Some("Terminating"),
            &["default", "managed"],
            Updated("Active"),
            false,
        ),
        (
            "updated terminating namespace",
            Some(""),
            &[],
            Updated("Terminating"),
            false,
        ),
        (
            "deleted serviceaccount without namespace",
            None,
            &["default"],
            Deleted("default"),
            false,
        ),
        (
            "deleted serviceaccount with active namespace",
            Some("Active"),
            &["default", "managed"],
            Deleted("default"),
            true,
        ),
        (
            "deleted serviceaccount with terminating namespace",
            Some("Terminating"),
            &["default"],
            Deleted("default"),
            false,
        ),
        (
            "deleted unmanaged serviceaccount with active namespace",
            Some("Active"),
            &["default", "managed", "other"],
            Deleted("other"),
            false,
        ),
        (
            "deleted unmanaged serviceaccount with terminating namespace",
            Some("Terminating"),
            &["other"],
            Deleted("other"),
            false,
        ),
    ];
    for (case, phase, accounts, change, created) in cases {
        let world = World::service_accounts().await;
        accounts
            .iter()
            .for_each(|name| world.cluster.load(account(name)).unwrap());
        if let Some(phase) = phase {
            world.cluster.load(namespace(phase)).unwrap();
        }
        world.at_rest().await;
        match change {
            Added(phase) | Updated(phase) => world.cluster.load(namespace(phase)).unwrap(),
            Deleted(name) => {
                let path = world.cluster.path("serviceaccounts", NS, name);
                world.cluster.delete(&path).await.unwrap();
            }
        }
        world.at_rest().await;
        let expected: &[&str] = if created { &["201"] } else { &[] };
        assert_eq!(world.creations(), expected, "{case}");
    }
}

/// Upstream: `TestServiceAccountAutoCreate`.
#[tokio::test(start_paused = true)]
async fn every_namespace_has_its_account_again_after_a_deletion() {
    let world = World::service_accounts().await;
    world.create(namespace("")).await;
    world.at_rest().await;
    let [account] = &world.accounts()[..] else {
        panic!("{:#?}", world.accounts())
    };
    assert_eq!(account["metadata"]["name"], "default");
    let is_set = |field: &&str| !account[*field].is_null();
    let fields = [
        "secrets",
        "imagePullSecrets",
        "automountServiceAccountToken",
    ];
    assert_eq!(fields.iter().filter(|field| is_set(field)).count(), 0);

    let path = world.cluster.path("serviceaccounts", NS, "default");
    world.cluster.delete(&path).await.unwrap();
    world.at_rest().await;
    let again = &world.accounts()[0];
    assert_ne!(again["metadata"]["uid"], account["metadata"]["uid"]);
    // The namespaces of every cluster have one, too.
    assert_eq!(world.cluster.count("serviceaccounts"), 5);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_users_edit_stays_as_it_is() {
    let world = World::service_accounts().await;
    world.create(namespace("")).await;
    world.at_rest().await;
    let path = world.cluster.path("serviceaccounts", NS, "default");
    let edit =
        json!({"imagePullSecrets": [{"name": "registry"}], "automountServiceAccountToken": false});
    world.cluster.patch(&path, edit).await.unwrap();
    world.at_rest().await;
    assert_eq!(world.creations(), ["201"]);
    assert_eq!(
        world.accounts()[0]["imagePullSecrets"][0]["name"],
        "registry"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_causes_one_refused_request() {
    // The cache shows a terminating namespace as active, or lacks the account of a user.
    for (held, refusal) in [("namespaces", "403"), ("serviceaccounts", "409")] {
        let mut world = World::bare().await;
        let mut object = namespace("");
        object["spec"] = json!({"finalizers": ["example.com/wait"]});
        world.create(object).await;
        let view = world.hold(held, world.cluster.revision());
        if held == "namespaces" {
            let path = format!("/api/v1/namespaces/{NS}");
            world.cluster.delete(&path).await.unwrap();
        } else {
            world.create(account("default")).await;
        }
        world.restart(&[DESCRIPTOR]).await;
        world.a_minute().await;
        assert_eq!(world.creations(), [refusal], "{held}");
        world.cluster.faults().remove(view);
        world.a_minute().await;
        assert_eq!(world.creations(), [refusal], "{held}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_and_a_failing_server_are_retried_with_back_off() {
    let world = World::service_accounts().await;
    let create = Matcher::new("create", "serviceaccounts").namespace(NS);
    let fails = world
        .cluster
        .faults()
        .reject(create, internal_error(), Some(3));
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NS},
        "spec": {"hard": {"count/serviceaccounts": "0"}},
        "status": {"hard": {"count/serviceaccounts": "0"}, "used": {"count/serviceaccounts": "0"}},
    });
    world.cluster.load(quota).unwrap();
    world.create(namespace("")).await;
    world.a_minute().await;
    assert_eq!(world.cluster.faults().hits(fails), 3);
    let tries = world.creations();
    assert!(tries[3..].iter().all(|code| code == "403"), "{tries:?}");
    // 5 ms, doubled each time: the fourteenth retry comes after 82 seconds.
    assert!((12..=14).contains(&tries.len()), "{tries:?}");

    let path = world.cluster.path("resourcequotas", NS, "q");
    world.cluster.delete(&path).await.unwrap();
    world
        .until("the account", |_| !world.accounts().is_empty())
        .await;
}
