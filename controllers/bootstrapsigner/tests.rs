//! Whole syncs against the in-memory API server, under paused time.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict, internal_error};

use super::DESCRIPTOR;
use crate::testing::tokens::{bootstrap_token, signing_token};
use crate::testing::world::World;
use crate::tokencleaner;

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

fn cluster_info(data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "cluster-info", "namespace": "kube-public", "labels": {"a": "b"}},
    })
}

impl World {
    async fn signing_cluster_info() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The ids of the tokens that have signed cluster-info.
    fn signed_by(&self) -> Vec<String> {
        let info = self.find("configmaps", "cluster-info").unwrap_or_default();
        let keys = info["data"]
            .as_object()
            .map(|data| data.keys().cloned().collect::<Vec<_>>());
        let id = |key: &String| key.strip_prefix("jws-kubeconfig-").map(str::to_owned);
        keys.unwrap_or_default().iter().filter_map(id).collect()
    }

    async fn until_signed_by(&self, ids: &[&str]) {
        self.until(&format!("signatures of {ids:?}"), |_| {
            self.signed_by() == ids
        })
        .await;
    }

    async fn delete_token(&self, id: &str) {
        let path = format!("{SECRETS}/bootstrap-token-{id}");
        self.cluster.delete(&path).await.unwrap();
    }

    fn puts(&self) -> usize {
        self.writes_by("bootstrap-signer").len()
    }
}

#[tokio::test(start_paused = true)]
async fn signatures_follow_tokens_and_content() {
    let world = World::signing_cluster_info().await;
    world.create(signing_token("abcdef", "")).await;
    world.at_rest().await;
    assert_eq!(world.puts(), 0, "there is no ConfigMap");

    let data = json!({"kubeconfig": "payload", "jws-kubeconfig-zzzzzz": "x", "other": "o"});
    let mut info = cluster_info(data);
    info["binaryData"] = json!({"b": "AAE="});
    world.create(info).await;
    world.until_signed_by(&["abcdef"]).await;
    let first = world.find("configmaps", "cluster-info").unwrap();
    assert_eq!(
        (&first["data"]["other"], &first["data"]["kubeconfig"]),
        (&json!("o"), &json!("payload"))
    );
    assert_eq!(first["binaryData"], json!({"b": "AAE="}));
    assert_eq!(first["metadata"]["labels"], json!({"a": "b"}));
    world.at_rest().await;
    assert_eq!(world.puts(), 1, "the own write causes none");

    world.create(signing_token("ghijkl", "")).await;
    world.until_signed_by(&["abcdef", "ghijkl"]).await;
    world.delete_token("abcdef").await;
    world.until_signed_by(&["ghijkl"]).await;

    let before = world.find("configmaps", "cluster-info").unwrap();
    world
        .cluster
        .patch(INFO, json!({"data": {"kubeconfig": "moved"}}))
        .await
        .unwrap();
    let signature = |info: &Value| info["data"]["jws-kubeconfig-ghijkl"].clone();
    world
        .until("a new signature", |_| {
            let info = world.find("configmaps", "cluster-info").unwrap();
            signature(&info) != signature(&before)
        })
        .await;
    world
        .cluster
        .patch(INFO, json!({"data": {"kubeconfig": null}}))
        .await
        .unwrap();
    world.delete_token("ghijkl").await;
    world.at_rest().await;
    assert_eq!(
        world.signed_by(),
        ["ghijkl"],
        "without content, signatures stay"
    );
    assert_eq!(world.puts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_config_map_is_signed() {
    let world = World::signing_cluster_info().await;
    world.create(signing_token("abcdef", "")).await;
    world.create(cluster_info(json!({"kubeconfig": "a"}))).await;
    world.until_signed_by(&["abcdef"]).await;
    world.cluster.delete(INFO).await.unwrap();
    world.at_rest().await;
    assert_eq!(world.puts(), 1, "nothing is signed in its absence");
    world.create(cluster_info(json!({"kubeconfig": ""}))).await;
    world.until_signed_by(&["abcdef"]).await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let world = World::signing_cluster_info().await;
    let update = |nth| Matcher::new("update", "configmaps").nth(nth);
    let faults = world.cluster.faults();
    faults.reject(update(1), internal_error(), Some(1));
    faults.reject(update(2), conflict(), Some(1));
    world.create(signing_token("abcdef", "")).await;
    world.create(cluster_info(json!({"kubeconfig": "a"}))).await;
    world.until_signed_by(&["abcdef"]).await;
    assert_eq!(world.puts(), 3);
}

/// Tokens with odd names, ids and values, and hostile kubeconfigs, as any user with rights in
/// `kube-system` or `kube-public` can write them.
#[tokio::test(start_paused = true)]
async fn hostile_objects_are_not_signed_and_cause_no_loop() {
    let world = World::signing_cluster_info().await;
    let long = "a".repeat(100_000);
    let tokens: [(&str, &[(&str, &str)]); 7] = [
        (
            "bootstrap-token-aaaaaa",
            &[
                ("token-id", "bbbbbb"),
                ("token-secret", "s"),
                ("usage-bootstrap-signing", "true"),
            ],
        ),
        (
            "bootstrap-token-aaaaa",
            &[
                ("token-id", "aaaaa"),
                ("token-secret", "s"),
                ("usage-bootstrap-signing", "true"),
            ],
        ),
        (
            "bootstrap-token-cccccc",
            &[
                ("token-id", "cccccc\n"),
                ("token-secret", "s"),
                ("usage-bootstrap-signing", "true"),
            ],
        ),
        ("bootstrap-token-dddddd", &[]),
        (
            "bootstrap-token-eeeeee",
            &[
                ("token-id", "eeeeee"),
                ("token-secret", &long),
                ("usage-bootstrap-signing", "true\n"),
            ],
        ),
        (
            "bootstrap-token-ffffff",
            &[
                ("token-id", "ffffff"),
                ("token-secret", "s"),
                ("usage-bootstrap-signing", "true"),
                ("expiration", &long),
            ],
        ),
        (
            "x",
            &[
                ("token-id", "../../x"),
                ("token-secret", "s"),
                ("usage-bootstrap-signing", "true"),
            ],
        ),
    ];
    for (name, data) in tokens {
        world.create(bootstrap_token(name, data)).await;
    }
    let mut opaque = signing_token("gggggg", "");
    opaque["type"] = json!("Opaque");
    world.create(opaque).await;
    let mut elsewhere = signing_token("hhhhhh", "");
    elsewhere["metadata"]["namespace"] = json!("default");
    world.create(elsewhere).await;
    for kubeconfig in [
        "{{{",
        "\u{0}\u{202e}",
        &long,
        "apiVersion: v1\nclusters: &a [*a]",
    ] {
        world
            .create(cluster_info(json!({"kubeconfig": kubeconfig})))
            .await;
        world.at_rest().await;
        assert_eq!(
            (world.signed_by(), world.puts()),
            (vec![], 0),
            "{kubeconfig:.20}"
        );
        world.cluster.delete(INFO).await.unwrap();
    }
    let mut immutable = cluster_info(json!({"kubeconfig": "a"}));
    immutable["immutable"] = json!(true);
    world.create(immutable).await;
    world.create(signing_token("abcdef", "")).await;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert!(
        world.puts() < 25,
        "refused writes back off: {}",
        world.puts()
    );
    let debug = format!(
        "{:?}",
        world
            .informers
            .shared::<super::BootstrapToken>()
            .store()
            .list()
    );
    assert!(!debug.contains(&long), "{debug:.200}");
}

#[tokio::test(start_paused = true)]
async fn the_signature_of_an_expired_token_goes_with_its_secret() {
    let mut world = World::bare().await;
    let expiration = (world.clock.now() + std::time::Duration::from_secs(90)).to_string();
    world.create(signing_token("abcdef", &expiration)).await;
    world.create(cluster_info(json!({"kubeconfig": "a"}))).await;
    world.restart(&[DESCRIPTOR]).await;
    world.until_signed_by(&["abcdef"]).await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!(world.signed_by(), ["abcdef"], "the expiration is no event");
    world.restart(&[DESCRIPTOR, tokencleaner::DESCRIPTOR]).await;
    world.until_signed_by(&[]).await;
    assert!(world.find("secrets", "bootstrap-token-abcdef").is_none());
    let written = world.puts();
    world.restart(&[DESCRIPTOR, tokencleaner::DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.puts(), written, "a restart writes nothing");
}
