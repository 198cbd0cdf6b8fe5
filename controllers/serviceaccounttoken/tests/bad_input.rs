//! Secrets and answers that users should not make: bounded requests, and nothing is deleted.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CA, COMPLETE, SECRET, account, by_hand, secret, value};
use crate::testing::log::Log;
use crate::testing::world::World;

#[tokio::test(start_paused = true)]
async fn names_that_are_no_names_cause_no_request() {
    let world = World::tokens().await;
    let names = [
        ".",
        "..",
        "a/b",
        "../../secrets/x",
        "default/token",
        "%2e%2e",
        "a%2Fb",
    ];
    for (number, name) in names.into_iter().enumerate() {
        world
            .cluster
            .load(by_hand(&format!("s{number}"), name))
            .unwrap();
    }
    world.a_minute().await;
    assert_eq!(world.token_requests(), [""; 0]);
    assert_eq!(world.cluster.count("secrets"), names.len());
}

#[tokio::test(start_paused = true)]
async fn odd_names_of_accounts_are_looked_up_as_they_are() {
    let world = World::tokens().await;
    let names = [
        "ghost",
        "UPPER",
        "with space",
        "ünïcode",
        "a?b=c",
        "a#b",
        "line\nbreak",
        "*",
    ];
    for (number, name) in names.into_iter().enumerate() {
        world
            .cluster
            .load(by_hand(&format!("s{number}"), name))
            .unwrap();
    }
    world.a_minute().await;
    // None of these accounts exists, so the API server confirms each absence.
    assert_eq!(world.cluster.count("secrets"), 0);
    assert_eq!(world.token_requests().len(), 2 * names.len());
}

#[tokio::test(start_paused = true)]
async fn a_secret_without_an_account_is_left_alone() {
    let world = World::tokens().await;
    let mut nameless = secret(&[]);
    nameless["metadata"]["annotations"] = json!({"kubernetes.io/service-account.uid": "12345"});
    world.cluster.load(nameless).unwrap();
    world.a_minute().await;
    assert_eq!(world.token_requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_odd_uid_means_another_account() {
    let mut world = World::bare().await;
    world.cluster.load(account(&[])).unwrap();
    let mut foreign = secret(&COMPLETE);
    let uid = "12345\u{0}\u{1f4a3} or 1=1";
    foreign["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!(uid);
    world.cluster.load(foreign).unwrap();
    world.sign_with("rsa2048", CA).await;
    assert_eq!(
        world.token_requests(),
        [
            "get serviceaccounts default 200",
            "delete secrets token-secret-1 200"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_immutable_secret_rests_after_ten_retries() {
    let world = World::tokens().await;
    world.cluster.load(account(&[])).unwrap();
    let mut fixed = secret(&[]);
    fixed["immutable"] = json!(true);
    world.cluster.load(fixed).unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let requests = world.token_requests();
    let refused = requests
        .iter()
        .filter(|line| line.starts_with("update") && line.ends_with("422"));
    assert_eq!(refused.count(), 11, "{requests:#?}");
    assert_eq!(value(&world.secret(), "token"), "");
}

#[tokio::test(start_paused = true)]
async fn values_that_are_odd_are_not_repaired() {
    let world = World::tokens().await;
    world.cluster.load(account(&[])).unwrap();
    // The content of a token is never looked at, and the namespace may be any text.
    let mut odd = secret(&COMPLETE);
    odd["data"]["token"] = json!("AAEC/w==");
    odd["data"]["namespace"] = json!("//8=");
    world.cluster.load(odd.clone()).unwrap();
    world.a_minute().await;
    assert_eq!(world.secret()["data"], odd["data"]);
    assert_eq!(world.token_requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_log_line_shows_a_token_or_a_key() {
    let log = Log::collect();
    let world = World::tokens().await;
    world.cluster.load(account(&[SECRET])).unwrap();
    world
        .cluster
        .load(secret(&[("namespace", "default")]))
        .unwrap();
    let mut fixed = secret(&[("namespace", "default")]);
    fixed["metadata"]["name"] = json!("fixed");
    fixed["metadata"]["uid"] = json!("fixed");
    fixed["immutable"] = json!(true);
    world.cluster.load(fixed).unwrap();
    world.a_minute().await;
    world.remove_account("default").await;
    world.a_minute().await;
    let lines = log.lines();
    assert!(!lines.is_empty());
    let key = super::key("rsa2048");
    let part = key.lines().nth(1).unwrap();
    assert!(
        lines
            .iter()
            .all(|line| !line.contains("eyJ") && !line.contains(part))
    );
}

#[tokio::test(start_paused = true)]
async fn many_secrets_of_one_account_go_with_it() {
    let world = World::tokens().await;
    world.cluster.load(account(&[])).unwrap();
    for number in 0..100 {
        world
            .create(by_hand(&format!("s{number}"), "default"))
            .await;
    }
    world.a_minute().await;
    let is_filled = |secret: &Value| !value(secret, "token").is_empty();
    assert!(world.cluster.objects("secrets").iter().all(is_filled));
    world.remove_account("default").await;
    world.a_minute().await;
    assert_eq!(world.cluster.count("secrets"), 0);
    assert_eq!(world.token_requests().len(), 500);
}
