//! Stories of users: Secrets made by hand, deleted accounts, new keys, changes of leader.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict, internal_error};

use super::{CA, COMPLETE, DESCRIPTOR, SECRET, account, by_hand, claims, secret, value};
use crate::testing::world::World;

fn plain_account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "default"},
    })
}

/// Upstream: `TestServiceAccountTokenAutoMount` and `TestServiceAccountTokenAuthentication`, up to
/// the use of the token.
#[tokio::test(start_paused = true)]
async fn a_secret_made_by_hand_is_filled_and_goes_with_its_account() {
    let world = World::tokens().await;
    let bot = world.create(plain_account("bot")).await;
    let mut made = by_hand("bot-token", "bot");
    made["metadata"]["labels"] = json!({"team": "a"});
    made["data"] = json!({"extra": "eA=="});
    world.create(made).await;
    world.a_minute().await;
    let filled = world.find("secrets", "bot-token").unwrap();
    let uid = &bot["metadata"]["uid"];
    assert_eq!(
        claims(&value(&filled, "token")),
        json!({
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "bot-token",
            "kubernetes.io/serviceaccount/service-account.name": "bot",
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "sub": "system:serviceaccount:default:bot",
        })
    );
    assert_eq!(
        (value(&filled, "ca.crt"), value(&filled, "namespace")),
        (CA.to_owned(), "default".to_owned())
    );
    assert_eq!(
        &filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"],
        uid
    );
    assert_eq!(filled["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(value(&filled, "extra"), "x");
    let requests = [
        "get serviceaccounts bot 200",
        "get secrets bot-token 200",
        "update secrets bot-token 200",
    ];
    assert_eq!(world.token_requests(), requests);

    world.remove_account("bot").await;
    world.a_minute().await;
    assert_eq!(world.cluster.count("secrets"), 0);
    assert_eq!(
        world.token_requests()[3..],
        [
            "get serviceaccounts bot 404",
            "delete secrets bot-token 200"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_never_replaced() {
    let mut world = World::tokens().await;
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    world.a_minute().await;
    let before = world.find("secrets", "bot-token").unwrap();
    // A new key and a new authority change the certificates alone.
    world.sign_with("ec-p256", "new authority").await;
    let after = world.find("secrets", "bot-token").unwrap();
    assert_eq!(value(&after, "token"), value(&before, "token"));
    assert_eq!(value(&after, "ca.crt"), "new authority");
    // Without an authority, the certificates stay.
    let writes = world.token_requests().len();
    world.sign_with("ec-p384", "").await;
    assert_eq!(world.token_requests().len(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_removed_token_is_made_again() {
    let world = World::tokens().await;
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    world.a_minute().await;
    let path = world.cluster.path("secrets", "default", "bot-token");
    let patch = json!({"data": {"token": null}});
    world.cluster.patch(&path, patch).await.unwrap();
    world.a_minute().await;
    let secret = world.find("secrets", "bot-token").unwrap();
    assert!(value(&secret, "token").contains('.'));
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_an_account_that_was_created_again_survives() {
    let world = World::tokens().await;
    world.create(plain_account("bot")).await;
    world.create(by_hand("old", "bot")).await;
    world.a_minute().await;
    // The deletion reaches the controller after the new account and its Secret.
    world.cluster.faults().stall_watches("serviceaccounts");
    let fails = world.cluster.faults().reject(
        Matcher::new("update", "secrets").name("new"),
        internal_error(),
        Some(5),
    );
    world.remove_account("bot").await;
    let bot = world.create(plain_account("bot")).await;
    world.create(by_hand("new", "bot")).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.cluster.faults().resume_watches("serviceaccounts");
    world.a_minute().await;
    assert!(world.cluster.faults().hits(fails) > 0);
    assert!(world.find("secrets", "old").is_none());
    let secret = world.find("secrets", "new").unwrap();
    let uid = &claims(&value(&secret, "token"))["kubernetes.io/serviceaccount/service-account.uid"];
    assert_eq!(uid, &bot["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_was_annotated_anew_is_kept() {
    let mut world = World::bare().await;
    world.cluster.load(account(&[])).unwrap();
    let mut other = secret(&COMPLETE);
    other["metadata"]["annotations"]["kubernetes.io/service-account.uid"] =
        json!("of-a-former-account");
    world.cluster.load(other).unwrap();
    let view = world.hold("secrets", world.cluster.revision());
    let path = world.cluster.path("secrets", "default", SECRET);
    let annotation = json!({"kubernetes.io/service-account.uid": "12345"});
    world
        .cluster
        .patch(&path, json!({"metadata": {"annotations": annotation}}))
        .await
        .unwrap();
    world.sign_with("rsa2048", CA).await;
    let requests = world.token_requests();
    let try_to_delete = [
        "get serviceaccounts default 200",
        "delete secrets token-secret-1 409",
    ];
    assert_eq!(requests[..2], try_to_delete);
    // Back-off makes these requests rare until the cache shows the change.
    assert!((8..40).contains(&requests.len()), "{requests:#?}");
    world.cluster.faults().remove(view);
    world.a_minute().await;
    assert_eq!(value(&world.secret(), "token"), "ABC");
}

/// The API server's copy equals that of the cache, so no event follows the conflict.
#[tokio::test(start_paused = true)]
async fn a_write_is_repeated_after_a_conflict_without_a_change() {
    let world = World::tokens().await;
    let faults = world.cluster.faults();
    for verb in ["update", "delete"] {
        faults.reject(Matcher::new(verb, "secrets"), conflict(), Some(1));
    }
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    world.a_minute().await;
    let secret = world.find("secrets", "bot-token").unwrap();
    assert!(value(&secret, "token").contains('.'));
    world.remove_account("bot").await;
    world.a_minute().await;
    assert_eq!(world.cluster.count("secrets"), 0);
    let expected = [
        "get serviceaccounts bot 200",
        "get secrets bot-token 200",
        "update secrets bot-token 409",
        "get serviceaccounts bot 200",
        "get secrets bot-token 200",
        "update secrets bot-token 200",
        "get serviceaccounts bot 404",
        "delete secrets bot-token 409",
        "get serviceaccounts bot 404",
        "delete secrets bot-token 200",
    ];
    assert_eq!(world.token_requests(), expected);
}

/// The sync of the gone account fails at first, and is repeated after the change of the Secret.
#[tokio::test(start_paused = true)]
async fn a_secret_that_moved_to_another_account_is_kept() {
    let world = World::tokens().await;
    world.create(plain_account("bot")).await;
    let read = Matcher::new("get", "serviceaccounts").name("ghost");
    let fails = world
        .cluster
        .faults()
        .reject(read, internal_error(), Some(6));
    world.create(by_hand("bot-token", "ghost")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!((1..6).contains(&world.cluster.faults().hits(fails)));
    let path = world.cluster.path("secrets", "default", "bot-token");
    let annotations = json!({"kubernetes.io/service-account.name": "bot"});
    let patch = json!({"metadata": {"annotations": annotations}});
    world.cluster.patch(&path, patch).await.unwrap();
    world.a_minute().await;
    let secret = world.find("secrets", "bot-token").unwrap();
    let claims = claims(&value(&secret, "token"));
    assert_eq!(
        claims["kubernetes.io/serviceaccount/service-account.name"],
        "bot"
    );
    let requests = world.token_requests().into_iter();
    assert_eq!(
        requests.filter(|line| line.starts_with("delete")).count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_deleted_secret_is_removed_after_conflicts() {
    let mut world = World::bare().await;
    let mut listed = account(&["x", SECRET, "y", SECRET]);
    listed["imagePullSecrets"] = json!([{"name": SECRET}]);
    world.cluster.load(listed).unwrap();
    world.cluster.load(secret(&COMPLETE)).unwrap();
    world.sign_with("rsa2048", CA).await;
    let update = Matcher::new("update", "serviceaccounts");
    world.cluster.faults().reject(update, conflict(), Some(3));
    world.delete("secrets", SECRET).await;
    world.a_minute().await;
    let account = world.find("serviceaccounts", "default").unwrap();
    assert_eq!(account["secrets"], json!([{"name": "x"}, {"name": "y"}]));
    assert_eq!(account["imagePullSecrets"], json!([{"name": SECRET}]));
    assert_eq!(
        world.token_requests().len(),
        8,
        "{:#?}",
        world.token_requests()
    );
}

/// Upstream gives up after ten retries, which take five seconds.
#[tokio::test(start_paused = true)]
async fn a_long_outage_leaves_no_secret_empty() {
    let world = World::tokens().await;
    let update = Matcher::new("update", "secrets");
    let fails = world
        .cluster
        .faults()
        .reject(update, internal_error(), None);
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = world.cluster.faults().hits(fails);
    assert!((12..40).contains(&tries), "{tries}");
    world.cluster.faults().remove(fails);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let secret = world.find("secrets", "bot-token").unwrap();
    assert!(value(&secret, "token").contains('.'));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_old_cache_makes_no_second_token() {
    let mut world = World::bare().await;
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    let revision = world.cluster.revision();
    world.sign_with("rsa2048", CA).await;
    let token = value(&world.find("secrets", "bot-token").unwrap(), "token");
    let view = world.hold("secrets", revision);
    world.start_signing(&[DESCRIPTOR], "ec-p256", CA).await;
    world.a_minute().await;
    world.cluster.faults().remove(view);
    world.a_minute().await;
    let secret = world.find("secrets", "bot-token").unwrap();
    assert_eq!(value(&secret, "token"), token);
    let updates = world.token_requests().into_iter();
    assert_eq!(updates.filter(|line| line.starts_with("update")).count(), 1);
}

/// Upstream: `TestQueueServiceAccountSync_Tombstone`.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_watch_missed_is_handled() {
    let world = World::tokens().await;
    world.create(plain_account("bot")).await;
    world.create(by_hand("bot-token", "bot")).await;
    world.a_minute().await;
    world.cluster.faults().stall_watches("serviceaccounts");
    world.remove_account("bot").await;
    world.cluster.compact("serviceaccounts");
    world.cluster.faults().resume_watches("serviceaccounts");
    world.cluster.faults().break_watches("serviceaccounts");
    world.a_minute().await;
    assert_eq!(world.cluster.count("secrets"), 0);
}
