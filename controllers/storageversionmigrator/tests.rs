//! Whole syncs against the in-memory API server, which has StorageVersionMigrations as a custom kind.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, conflict, internal_error};
use steersman_devcluster::status::Status;
use steersman_options::features::{FeatureGates, IN_ORDER_INFORMERS};
use steersman_releases::Release;
use steersman_runtime::controller::ControllerContext;

use super::DESCRIPTOR;
use crate::testing::world::World;

const MIGRATIONS: &str = "storageversionmigrations";

fn migration(name: &str, group: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": resource}},
    })
}

/// The version of StorageVersionMigrations that API servers of `release` have.
fn version_of(release: Release) -> &'static str {
    if release < Release::of_minor(35) {
        "v1alpha1"
    } else {
        "v1beta1"
    }
}

/// A migration in the version of `release`. Up to 1.34, it names version `v1` of the resource.
fn migration_of(release: Release, name: &str, group: &str, resource: &str) -> Value {
    let mut migration = migration(name, group, resource);
    let version = version_of(release);
    migration["apiVersion"] = json!(format!("storagemigration.k8s.io/{version}"));
    if version == "v1alpha1" {
        migration["spec"]["resource"]["version"] = json!("v1");
    }
    migration
}

impl World {
    async fn migrating() -> Self {
        Self::migrating_as(Release::DEFAULT).await
    }

    async fn migrating_as(release: Release) -> Self {
        let mut world = Self::bare().await;
        world
            .create(definition(
                "storagemigration.k8s.io",
                "StorageVersionMigration",
                &[version_of(release)],
                "Cluster",
            ))
            .await;
        let of_release = |mut context: ControllerContext| {
            context.release = release;
            context
        };
        world.restart_with(&[DESCRIPTOR], of_release).await;
        world
    }

    /// The conditions of a migration after all retries: type, status, reason and message.
    async fn conditions_of(&self, name: &str) -> Vec<[String; 4]> {
        self.a_minute().await;
        let path = self.cluster.path(MIGRATIONS, "", name);
        let migration = self.cluster.get(&path).await.unwrap();
        let conditions = migration["status"]["conditions"].as_array();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        let shown =
            |one: &Value| ["type", "status", "reason", "message"].map(|field| text(one, field));
        conditions.into_iter().flatten().map(shown).collect()
    }

    /// The objects that the controller has rewritten, in order.
    fn rewritten(&self) -> Vec<String> {
        let requests = self.requests_of(DESCRIPTOR.identity).into_iter();
        requests
            .filter(|line| line.starts_with("patch"))
            .map(|line| {
                let (path, code) = line.rsplit_once(' ').unwrap();
                let path = path.split('?').next().unwrap_or_default();
                format!("{} {code}", path.rsplit('/').next().unwrap_or_default())
            })
            .collect()
    }

    async fn create_maps(&self, names: &[&str]) {
        for name in names {
            self.create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
            }))
            .await;
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> [String; 4] {
    [kind, status, reason, message].map(str::to_owned)
}

fn completed() -> [String; 4] {
    condition(
        "Running",
        "False",
        "MigrationCompleted",
        "Migration completed",
    )
}

fn succeeded() -> [String; 4] {
    condition("Succeeded", "True", "StorageVersionMigrationSucceeded", "")
}

fn failed(message: &str) -> [String; 4] {
    condition("Failed", "True", "StorageVersionMigrationFailed", message)
}

/// Upstream: `TestStorageVersionMigration`.
#[tokio::test(start_paused = true)]
async fn all_objects_of_a_resource_are_rewritten() {
    let world = World::migrating().await;
    world.create_maps(&["a", "b"]).await;
    world.create(migration("m", "", "configmaps")).await;
    assert_eq!(world.conditions_of("m").await, [completed(), succeeded()]);
    assert_eq!(world.rewritten(), ["a 200", "b 200"]);
    let maps = world.cluster.objects("configmaps");
    assert_eq!(maps.len(), 2, "nothing is created");

    // A finished migration stays as it is.
    world.cluster.clear_requests();
    world.a_minute().await;
    assert!(world.rewritten().is_empty());
}

/// The condition `Running` of releases without admission.
fn in_progress(status: &str) -> [String; 4] {
    condition("Running", status, "StorageVersionMigrationInProgress", "")
}

/// Migrations wait for others since 1.36 only. 1.34 also fails for errors that may pass.
#[tokio::test(start_paused = true)]
async fn migrations_of_a_resource_run_at_once_up_to_1_35() {
    let unhandled = failed("migration encountered unhandled error");
    for (minor, refused, at_last) in [
        (34, vec![in_progress("False"), unhandled.clone()], unhandled),
        (35, vec![in_progress("True")], succeeded()),
    ] {
        let release = Release::of_minor(minor);
        let world = World::migrating_as(release).await;
        world.create_maps(&["a"]).await;
        let patch = Matcher::new("patch", "configmaps");
        let rule = world.cluster.faults().reject(patch, internal_error(), None);
        for name in ["first", "second"] {
            let migration = migration_of(release, name, "", "configmaps");
            world.create(migration).await;
        }
        for name in ["first", "second"] {
            assert_eq!(world.conditions_of(name).await, refused, "1.{minor} {name}");
        }
        world.cluster.faults().remove(rule);
        // The back-off of the migrations has grown meanwhile.
        for _ in 0..20 {
            world.a_minute().await;
        }
        for name in ["first", "second"] {
            let ended = [in_progress("False"), at_last.clone()];
            assert_eq!(world.conditions_of(name).await, ended, "1.{minor} {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn definitions_stay_as_they_are_up_to_1_35() {
    for minor in [34, 35] {
        let release = Release::of_minor(minor);
        let world = World::migrating_as(release).await;
        let carts = definition("shop.io", "Cart", &["v1"], "Cluster");
        world.create(carts).await;
        let cart = json!({"apiVersion": "shop.io/v1", "kind": "Cart", "metadata": {"name": "c"}});
        world.create(cart).await;
        let stored = || world.cluster.objects("customresourcedefinitions");
        let before = stored();
        let migration = migration_of(release, "m", "shop.io", "carts");
        world.create(migration).await;
        let expected = [in_progress("False"), succeeded()];
        assert_eq!(world.conditions_of("m").await, expected, "1.{minor}");
        assert_eq!(world.rewritten(), ["c 200"], "1.{minor}");
        assert_eq!(stored(), before, "1.{minor}");
    }
}

/// Upstream: `setStatusConditions` of 1.34.
#[tokio::test(start_paused = true)]
async fn migrations_of_v1alpha1_keep_their_fields() {
    let release = Release::of_minor(34);
    let world = World::migrating_as(release).await;
    world.create_maps(&["a"]).await;
    let mut migration = migration_of(release, "m", "", "configmaps");
    migration["spec"]["continueToken"] = json!("token");
    migration["metadata"]["uid"] = json!("uid-of-m");
    migration["status"] = json!({
        "progress": 7, "conditions": [{"type": "Seen", "status": "True", "by": "me"}],
    });
    world.cluster.load(migration.clone()).unwrap();
    world.a_minute().await;
    let [stored] = &world.cluster.objects(MIGRATIONS)[..] else {
        panic!("there is one migration");
    };
    assert_eq!(stored["spec"], migration["spec"]);
    let status = &stored["status"];
    let time = &status["conditions"][1]["lastUpdateTime"];
    assert!(time.is_string(), "{status}");
    let of_type = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "lastUpdateTime": time, "reason": reason, "message": ""});
    let expected = json!({
        "progress": 7, "resourceVersion": status["resourceVersion"],
        "conditions": [
            {"type": "Seen", "status": "True", "by": "me"},
            of_type("Running", "False", "StorageVersionMigrationInProgress"),
            of_type("Succeeded", "True", "StorageVersionMigrationSucceeded"),
        ],
    });
    assert_eq!(*status, expected);
}

/// Objects with a later version are in the storage version already.
#[tokio::test(start_paused = true)]
async fn later_objects_are_skipped_since_1_35() {
    for (minor, rewritten) in [(34, &["a 200"][..]), (35, &[][..])] {
        let release = Release::of_minor(minor);
        let world = World::migrating_as(release).await;
        world.create_maps(&["a"]).await;
        let mut migration = migration_of(release, "m", "", "configmaps");
        migration["metadata"]["uid"] = json!("uid-of-m");
        migration["status"] = json!({"resourceVersion": "1"});
        world.cluster.load(migration).unwrap();
        let expected = [in_progress("False"), succeeded()];
        assert_eq!(world.conditions_of("m").await, expected, "1.{minor}");
        assert_eq!(world.rewritten(), rewritten, "1.{minor}");
    }
}

/// `v1alpha1` names a version, and waits for it. Upstream: `resourceExists` of 1.34.
#[tokio::test(start_paused = true)]
async fn unknown_resources_of_v1alpha1_are_waited_for() {
    let missing = [failed("resource does not exist in discovery")];
    // (group, version, resource, conditions)
    let cases = [
        ("shop.io", "v1", "carts", &[][..]),
        ("apps", "v1beta1", "deployments", &[][..]),
        ("", "v1", "deployments", &missing[..]),
        ("apps", "v1", "deployment", &missing[..]),
    ];
    let release = Release::of_minor(34);
    for (group, version, resource, expected) in cases {
        let world = World::migrating_as(release).await;
        let mut migration = migration_of(release, "m", group, resource);
        migration["spec"]["resource"]["version"] = json!(version);
        world.create(migration).await;
        world.a_minute().await;
        let found = world.conditions_of("m").await;
        assert_eq!(found, expected, "{group}/{version} {resource}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_vanishes_fails_a_migration() {
    let discovery = "migration encountered unhandled error: unable to obtain GVR from discovery";
    for (minor, message) in [(34, "resource not found"), (35, discovery)] {
        let release = Release::of_minor(minor);
        let world = World::migrating_as(release).await;
        let mut migration = migration_of(release, "m", "shop.io", "carts");
        migration["metadata"]["uid"] = json!("uid-of-m");
        migration["status"] = json!({"resourceVersion": "1"});
        world.cluster.load(migration).unwrap();
        let found = world.conditions_of("m").await;
        assert_eq!(found, [failed(message)], "1.{minor}");
    }
}

/// Upstream: `TestStorageVersionMigrationWithCRD`.
#[tokio::test(start_paused = true)]
async fn the_stored_versions_of_a_custom_kind_are_updated() {
    let world = World::migrating().await;
    let mut carts = definition("shop.io", "Cart", &["v1"], "Cluster");
    world.create(carts.clone()).await;
    let cart = json!({"apiVersion": "shop.io/v1", "kind": "Cart", "metadata": {"name": "c"}});
    world.create(cart).await;
    let path = world
        .cluster
        .path("customresourcedefinitions", "", "carts.shop.io");
    let mut next = carts["spec"]["versions"][0].take();
    next["storage"] = json!(false);
    let old = next.clone();
    next["name"] = json!("v2");
    next["storage"] = json!(true);
    let versions = json!({"spec": {"versions": [old, next]}});
    world.cluster.patch(&path, versions).await.unwrap();
    let stored = async || world.cluster.get(&path).await.unwrap()["status"].clone();
    assert_eq!(stored().await["storedVersions"], json!(["v1", "v2"]));

    world.create(migration("m", "shop.io", "carts")).await;
    assert_eq!(world.conditions_of("m").await, [completed(), succeeded()]);
    let status = stored().await;
    assert_eq!(status["storedVersions"], json!(["v2"]));
    let conditions = status["conditions"].as_array().unwrap();
    let migrating = conditions
        .iter()
        .find(|found| found["type"] == "StorageMigrating")
        .unwrap();
    assert_eq!(migrating["status"], "False");
    assert_eq!(migrating["reason"], "MigrationSucceeded");
    assert_eq!(
        migrating["message"],
        "The migration has succeeded and the stored versions have been updated"
    );
}

/// Upstream drops the stored versions in this case too.
#[tokio::test(start_paused = true)]
async fn a_failure_keeps_the_stored_versions() {
    let world = World::migrating().await;
    world
        .create(definition("shop.io", "Cart", &["v1"], "Cluster"))
        .await;
    let cart = json!({"apiVersion": "shop.io/v1", "kind": "Cart", "metadata": {"name": "c"}});
    world.create(cart).await;
    let path = world
        .cluster
        .path("customresourcedefinitions", "", "carts.shop.io");
    let both = json!({"status": {"storedVersions": ["v0", "v1"]}});
    world
        .cluster
        .patch(&(path.clone() + "/status"), both)
        .await
        .unwrap();
    world.cluster.faults().reject(
        Matcher::new("patch", "carts"),
        Status::new(422, "Invalid", "no"),
        None,
    );
    world.create(migration("m", "shop.io", "carts")).await;
    let found = world.conditions_of("m").await;
    assert_eq!(found[0], completed());
    assert_eq!(found[1][..3], failed("")[..3]);
    assert!(
        found[1][3].starts_with("migration encountered unhandled error: "),
        "{found:?}"
    );
    let status = world.cluster.get(&path).await.unwrap()["status"].clone();
    assert_eq!(status["storedVersions"], json!(["v0", "v1"]));
}

#[tokio::test(start_paused = true)]
async fn one_migration_of_a_resource_runs_at_a_time() {
    let world = World::migrating().await;
    world.create_maps(&["a"]).await;
    let refused =
        world
            .cluster
            .faults()
            .reject(Matcher::new("patch", "configmaps"), internal_error(), None);
    world.create(migration("first", "", "configmaps")).await;
    world.a_minute().await;
    world.create(migration("second", "", "configmaps")).await;
    world.create(migration("other", "", "secrets")).await;
    assert_eq!(
        world.conditions_of("other").await,
        [completed(), succeeded()]
    );
    let running = condition(
        "Running",
        "True",
        "MigrationRunning",
        "The migration is running",
    );
    assert_eq!(world.conditions_of("first").await, [running]);
    assert!(world.conditions_of("second").await.is_empty());
    world.cluster.faults().remove(refused);
    // The back-off of the first migration has grown meanwhile.
    for _ in 0..20 {
        world.a_minute().await;
    }
    for name in ["first", "second"] {
        assert_eq!(world.conditions_of(name).await, [completed(), succeeded()]);
    }
}

/// Upstream: `TestSync` and `TestRVSync`.
#[tokio::test(start_paused = true)]
async fn unusable_resources_fail() {
    // (group, resource, message)
    let cases = [
        ("shop.io", "carts", "resource does not exist in discovery"),
        (
            "",
            "componentstatuses",
            "resource \"/v1, Resource=componentstatuses\" does not support discovery operations: [update patch list]",
        ),
    ];
    for (group, resource, message) in cases {
        let world = World::migrating().await;
        world.create(migration("m", group, resource)).await;
        world.a_minute().await;
        world.a_minute().await;
        let expected = [completed(), failed(message)];
        assert_eq!(world.conditions_of("m").await, expected, "{resource}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_and_deleted_objects_are_skipped() {
    let world = World::migrating().await;
    world.create_maps(&["a", "b"]).await;
    let patch = Matcher::new("patch", "configmaps").name("a");
    world.cluster.faults().reject(patch, conflict(), None);
    world.create(migration("m", "", "configmaps")).await;
    assert_eq!(world.conditions_of("m").await, [completed(), succeeded()]);
    assert_eq!(world.rewritten(), ["a 409", "a 409", "b 200"]);
}

/// Up to 1.36, an apply of a deleted object is a creation, which the server refuses with a conflict.
#[tokio::test(start_paused = true)]
async fn objects_are_patched_since_1_37() {
    for (minor, outcome) in [(36, "Failed"), (37, "Succeeded")] {
        let world = World::migrating_as(Release::of_minor(minor)).await;
        world.create_maps(&["a", "b"]).await;
        let patch = Matcher::new("patch", "configmaps").name("a");
        let mut gone = Status::new(404, "NotFound", "configmaps \"a\" not found");
        gone.details = Some(Box::new(json!({"name": "a", "kind": "configmaps"})));
        world.cluster.faults().reject(patch, gone, None);
        world.create(migration("m", "", "configmaps")).await;
        let found = world.conditions_of("m").await;
        assert_eq!(found[1][0], outcome, "1.{minor}: {found:?}");
        let requests = world.requests_of(DESCRIPTOR.identity);
        let of_maps = |line: &&String| line.starts_with("patch") && line.contains("configmaps");
        let patches = requests.iter().filter(of_maps);
        let applies: Vec<bool> = patches.map(|line| line.contains("force=true")).collect();
        assert!(!applies.is_empty());
        assert!(
            applies.iter().all(|is_apply| *is_apply == (minor == 36)),
            "{requests:?}"
        );
        if minor == 37 {
            assert_eq!(world.rewritten(), ["a 404", "b 200"]);
        }
    }
}

/// A type that is no longer served, or a proxy before the API server, answers so.
#[tokio::test(start_paused = true)]
async fn a_404_without_the_name_of_the_object_fails_a_migration() {
    let world = World::migrating_as(Release::of_minor(37)).await;
    world.create_maps(&["a"]).await;
    let patch = Matcher::new("patch", "configmaps");
    let unserved = Status::new(404, "NotFound", "404 page not found");
    world.cluster.faults().reject(patch, unserved, None);
    world.create(migration("m", "", "configmaps")).await;
    assert_eq!(world.conditions_of("m").await[1][0], "Failed");
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_object_is_rewritten_after_a_conflict() {
    let world = World::migrating().await;
    world.create_maps(&["a", "b"]).await;
    let patch = Matcher::new("patch", "configmaps").name("a");
    world.cluster.faults().reject(patch, conflict(), Some(1));
    world.create(migration("m", "", "configmaps")).await;
    assert_eq!(world.conditions_of("m").await, [completed(), succeeded()]);
    assert_eq!(world.rewritten(), ["a 409", "a 200", "b 200"]);
}

#[tokio::test(start_paused = true)]
async fn changes_in_order_are_required_since_1_35() {
    let world = World::bare().await;
    for (minor, is_on, expected) in [(34, false, true), (35, false, false), (35, true, true)] {
        let mut context = world.context();
        context.release = Release::of_minor(minor);
        context.features = FeatureGates::new(|name| is_on || name != IN_ORDER_INFORMERS.name);
        let built = (DESCRIPTOR.init)(&context);
        assert_eq!(built.is_ok(), expected, "1.{minor}");
        if let Err(error) = built {
            assert_eq!(
                error.to_string(),
                "build storage-version-migrator-controller: storage version migrator requires the InOrderInformers feature gate to be \
                 enabled"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_garbage_collector_is_required() {
    let world = World::bare().await;
    let context = world
        .context()
        .with_flag("enable-garbage-collector", "false");
    let error = (DESCRIPTOR.init)(&context).err().unwrap();
    assert_eq!(
        error.to_string(),
        "build storage-version-migrator-controller: storage version migrator requires garbage collector"
    );
}
