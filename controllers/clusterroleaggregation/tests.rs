//! Whole syncs against the in-memory API server, under paused time.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};

use super::{DESCRIPTOR, NAME};
use crate::testing::world::World;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// A rule for the resource `resource`.
fn rule(resource: &str) -> Value {
    json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
}

/// A role with the label `team` and one rule.
fn role(name: &str, team: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"team": team}}, "rules": [rule(resource)],
    })
}

/// A role that selects the label `team`, and has `own` as its label.
fn aggregated(name: &str, team: &str, own: &str) -> Value {
    let mut role = role(name, own, "stale");
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"team": team}}]});
    role
}

impl World {
    async fn aggregating() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world.at_rest().await;
        world.clear_requests();
        world
    }

    /// The resources of the rules of a role.
    fn resources(&self, name: &str) -> Vec<String> {
        let role = self.find("clusterroles", name).unwrap_or_default();
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        let resource = |rule: &Value| rule["resources"][0].as_str().map(str::to_owned);
        rules.iter().filter_map(resource).collect()
    }

    async fn until_resources(&self, name: &str, resources: &[&str]) {
        let expected = format!("{name} has rules for {resources:?}");
        self.until(&expected, |_| self.resources(name) == resources)
            .await;
    }

    async fn patch_role(&self, name: &str, changes: Value) {
        self.cluster
            .patch(&format!("{ROLES}/{name}"), changes)
            .await
            .unwrap();
    }

    async fn delete_role(&self, name: &str) {
        self.cluster
            .delete(&format!("{ROLES}/{name}"))
            .await
            .unwrap();
    }
}

/// Upstream: `TestBootstrapping` in `test/integration/auth/rbac_test.go` finds the default roles, which
/// this controller fills.
#[tokio::test(start_paused = true)]
async fn default_roles_of_a_new_cluster_are_filled() {
    let mut world = World::bare().await;
    for name in ["view", "edit", "admin"] {
        assert_eq!(
            world.resources(name),
            [""; 0],
            "the API server creates {name} empty"
        );
    }
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    let [view, edit, admin] = ["view", "edit", "admin"].map(|name| world.resources(name));
    assert!(!view.is_empty() && view.iter().all(|resource| edit.contains(resource)));
    assert!(edit.len() > view.len() && edit.iter().all(|resource| admin.contains(resource)));
    assert!(admin.len() > edit.len());
    let written = world.writes_by(NAME).len();
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(
        world.writes_by(NAME).len(),
        written,
        "a restart writes nothing"
    );
    let owners = world.find("clusterroles", "view").unwrap()["metadata"]["managedFields"].clone();
    assert!(owners.to_string().contains(NAME), "{owners}");
    assert!(
        world.writes_by(NAME).len() <= 8,
        "{:?}",
        world.writes_by(NAME)
    );
}

#[tokio::test(start_paused = true)]
async fn rules_follow_the_selected_roles() {
    let world = World::aggregating().await;
    world.create(aggregated("combined", "a", "")).await;
    world.until_resources("combined", &["stale"]).await;
    world.create(role("hammer", "a", "nails")).await;
    world.until_resources("combined", &["nails"]).await;
    world.create(role("chisel", "a", "mortises")).await;
    world
        .until_resources("combined", &["mortises", "nails"])
        .await;
    world.create(role("other-hammer", "a", "nails")).await;
    world.at_rest().await;
    assert_eq!(world.resources("combined"), ["mortises", "nails"]);
    world
        .patch_role("chisel", json!({"metadata": {"labels": {"team": "b"}}}))
        .await;
    world.until_resources("combined", &["nails"]).await;
    world
        .patch_role("hammer", json!({"rules": [rule("wedges")]}))
        .await;
    world
        .until_resources("combined", &["wedges", "nails"])
        .await;
    world.delete_role("hammer").await;
    world.delete_role("other-hammer").await;
    world.until_resources("combined", &[]).await;
    world
        .patch_role("combined", json!({"rules": [rule("by hand")]}))
        .await;
    world
        .patch_role("chisel", json!({"metadata": {"labels": {"team": "a"}}}))
        .await;
    world.until_resources("combined", &["mortises"]).await;
    world
        .patch_role("combined", json!({"aggregationRule": null}))
        .await;
    world.delete_role("chisel").await;
    world.at_rest().await;
    assert_eq!(
        world.resources("combined"),
        ["mortises"],
        "the role is not maintained any more"
    );
    assert_eq!(
        world.find("clusterroles", "combined").unwrap()["metadata"]["labels"],
        json!({"team": ""})
    );
    let path = format!("patch {ROLES}/combined?fieldManager={NAME}&force=true 200");
    assert!(world.writes_by(NAME).iter().all(|write| *write == path));
}

#[tokio::test(start_paused = true)]
async fn a_chain_settles_with_one_round_per_link() {
    let world = World::aggregating().await;
    world.create(aggregated("third", "c", "")).await;
    world.create(aggregated("second", "b", "c")).await;
    world.create(aggregated("first", "a", "b")).await;
    world.create(role("leaf", "a", "leaves")).await;
    world.until_resources("third", &["leaves"]).await;
    world.delete_role("leaf").await;
    world.until_resources("third", &[]).await;
}

/// Upstream keeps such rules too. The writes end, because equal rules are not written.
#[tokio::test(start_paused = true)]
async fn roles_that_select_each_other_settle() {
    let world = World::aggregating().await;
    world.create(role("leaf", "a", "leaves")).await;
    let selects = |values: &[&str]| {
        let selector = |team| json!({"matchLabels": {"team": team}});
        json!({"clusterRoleSelectors": values.iter().map(selector).collect::<Vec<_>>()})
    };
    for (name, own, teams) in [("one", "x", ["a", "y"]), ("other", "y", ["a", "x"])] {
        let mut role = aggregated(name, "", own);
        role["rules"] = json!([]);
        role["aggregationRule"] = selects(&teams);
        world.create(role).await;
    }
    world.until_resources("one", &["leaves"]).await;
    world.until_resources("other", &["leaves"]).await;
    world.delete_role("leaf").await;
    world.at_rest().await;
    assert_eq!(
        world.resources("one"),
        ["leaves"],
        "each has the rule from the other one"
    );
    assert!(
        world.writes_by(NAME).len() < 10,
        "{:?}",
        world.writes_by(NAME)
    );
}

#[tokio::test(start_paused = true)]
async fn a_huge_role_is_written_once() {
    let world = World::aggregating().await;
    let everything = json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]});
    let mut all = aggregated("all", "", "");
    all["metadata"]["labels"] = json!({});
    all["aggregationRule"] = json!({"clusterRoleSelectors": vec![everything; 50]});
    for number in 0..300 {
        let mut part = role(&format!("part-{number}"), "many", "x");
        part["rules"] = (0..10)
            .map(|rule_number| rule(&format!("r{number}-{rule_number}")))
            .collect();
        world.create(part).await;
    }
    world.create(all).await;
    world
        .until("3,000 rules", |_| world.resources("all").len() == 3000)
        .await;
    world.at_rest().await;
    assert_eq!(world.writes_by(NAME).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let world = World::aggregating().await;
    let patch = Matcher::new("patch", "clusterroles");
    world
        .cluster
        .faults()
        .reject(patch, internal_error(), Some(3));
    world.create(role("hammer", "a", "nails")).await;
    world.create(aggregated("combined", "a", "")).await;
    world.until_resources("combined", &["nails"]).await;
    assert_eq!(world.writes_by(NAME).len(), 4);
}

/// A user deletes the role while the request of the controller is on its way.
#[tokio::test(start_paused = true)]
async fn a_deleted_role_is_not_created_again() {
    let world = World::aggregating().await;
    let delay = Duration::from_secs(5);
    let patch = Matcher::new("patch", "clusterroles");
    world.cluster.faults().delay(patch, delay, Some(1));
    world.create(role("hammer", "a", "nails")).await;
    world.create(aggregated("combined", "a", "")).await;
    tokio::time::sleep(delay / 2).await;
    world.delete_role("combined").await;
    tokio::time::sleep(delay).await;
    world.at_rest().await;
    assert!(world.find("clusterroles", "combined").is_none());
    let path = format!("patch {ROLES}/combined?fieldManager={NAME}&force=true 409");
    assert_eq!(world.writes_by(NAME), [path]);
}

/// The cache of a new leader shows a role that was deleted before its term.
#[tokio::test(start_paused = true)]
async fn a_new_leader_does_not_grant_the_rules_of_a_deleted_role() {
    let mut world = World::aggregating().await;
    world.create(role("hammer", "a", "nails")).await;
    world.create(role("chisel", "a", "mortises")).await;
    world.create(aggregated("combined", "a", "")).await;
    world
        .until_resources("combined", &["mortises", "nails"])
        .await;
    let earlier = world.cluster.revision();
    world.delete_role("chisel").await;
    world.until_resources("combined", &["nails"]).await;
    let written = world.writes_by(NAME).len();
    let view = world
        .take_over_behind(&[DESCRIPTOR], "clusterroles", earlier)
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.resources("combined"), ["nails"]);
    world.cluster.faults().remove(view);
    world.at_rest().await;
    assert_eq!(world.resources("combined"), ["nails"]);
    assert!(
        world.writes_by(NAME).len() <= written + 1,
        "{:?}",
        world.writes_by(NAME)
    );
}
