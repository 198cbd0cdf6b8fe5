//! Whole sweeps against the in-memory API server, under paused time.

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_devcluster::status::Status;

use super::DESCRIPTOR;
use crate::testing::world::World;

const TOKEN: &str = "kubernetes.io/service-account-token";

fn at(day: &str) -> Timestamp {
    format!("{day}T12:00:00Z").parse().unwrap()
}

/// The flag with the period from `start` to `now`, which upstream's cases name by its start.
fn period(now: Timestamp, start: &str) -> String {
    let start: Timestamp = format!("{start}T00:00:00Z").parse().unwrap();
    format!("{}h", (now.as_second() - start.as_second()) / 3600)
}

fn tracking(since: Option<&str>) -> Value {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
    });
    if let Some(since) = since {
        map["data"] = json!({"since": since});
    }
    map
}

/// The account `default` with a reference to each of these Secrets.
fn account(secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default", "uid": "12345"},
        "secrets": secrets,
    })
}

/// An automatic Secret of that account.
fn secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TOKEN,
        "metadata": {
            "name": "token-secret-1", "namespace": "default", "uid": "23456",
            "creationTimestamp": "2022-12-27T00:00:00Z", "labels": {},
            "annotations": {
                "kubernetes.io/service-account.name": "default",
                "kubernetes.io/service-account.uid": "12345",
            },
        },
        "data": {"token": "QUJD", "ca.crt": "Q0EgRGF0YQ==", "namespace": "ZGVmYXVsdA=="},
    })
}

/// `object` with other values at these pointers.
fn with(mut object: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/");
        object.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    object
}

const LAST_USED: &str = "/metadata/labels/kubernetes.io~1legacy-token-last-used";
const INVALID_SINCE: &str = "/metadata/labels/kubernetes.io~1legacy-token-invalid-since";
const ACCOUNT_NAME: &str = "/metadata/annotations/kubernetes.io~1service-account.name";
const ACCOUNT_UID: &str = "/metadata/annotations/kubernetes.io~1service-account.uid";

impl World {
    async fn clean(&mut self, period: &str) {
        self.restart_with(&[DESCRIPTOR], |context| {
            context.with_flag("legacy-service-account-token-clean-up-period", period)
        })
        .await;
        self.a_minute().await;
    }

    /// The cleaner's writes: verb, name and status code.
    fn cleaned(&self) -> Vec<String> {
        let requests = self.requests_of(DESCRIPTOR.identity).into_iter();
        let writes = requests.filter(|line| !line.starts_with("get "));
        writes
            .map(|line| line.replace("/api/v1/namespaces/default/secrets/", ""))
            .collect()
    }
}

/// Upstream: `TestLegacyServiceAccountTokenCleanUp`.
#[tokio::test(start_paused = true)]
async fn legacy_service_account_token_clean_up() {
    const NONE: &str = "";
    let invalidated = "patch token-secret-1 200";
    let deleted = "delete token-secret-1 200";
    let used = |day: &str| (LAST_USED, json!(day));
    let marked = |day: &str| (INVALID_SINCE, json!(day));
    let tokens = || account(&["token-secret-1"]);
    let old = || with(secret(), &[used("2022-12-27")]);
    let mounted = json!({"volumes": [{"name": "foo", "secret": {"secretName": "token-secret-1"}}]});
    let bare = json!({});
    let late = with(
        old(),
        &[("/metadata/creationTimestamp", json!("2022-12-30T00:00:00Z"))],
    );
    let terminating = with(
        old(),
        &[
            ("/metadata/deletionTimestamp", json!("2023-05-30T00:00:00Z")),
            ("/metadata/finalizers", json!(["example.com/wait"])),
        ],
    );
    let unmarked = |day: &str| with(secret(), &[marked(day)]);
    let both = |day: &str| with(old(), &[marked(day)]);
    // (case, tracking, account, Secret, spec of the pod, start of the period, write)
    let cases: [(
        &str,
        Option<Value>,
        Option<Value>,
        Value,
        &Value,
        &str,
        &str,
    ); 21] = [
        (
            "configmap does not exist",
            None,
            Some(tokens()),
            old(),
            &bare,
            "2022-12-28",
            NONE,
        ),
        (
            "configmap exists, but the configmap does not have tracked-since label",
            Some(tracking(None)),
            Some(tokens()),
            old(),
            &bare,
            "2022-12-28",
            NONE,
        ),
        (
            "configmap exists, the time period since 'tracked-since' is smaller than the CleanUpPeriod",
            Some(tracking(Some("2022-12-29"))),
            Some(tokens()),
            old(),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "configmap exists, the 'tracked-since' cannot be parsed",
            Some(tracking(Some("2022-12-27-1"))),
            Some(tokens()),
            old(),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "secret is not SecretTypeServiceAccountToken type",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            with(old(), &[("/type", json!("Opaque"))]),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "secret is not referenced by serviceaccount",
            Some(tracking(Some("2022-12-27"))),
            Some(account(&[])),
            old(),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret has a late creation time",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            late,
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret has a deletion time",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            terminating,
            &bare,
            "2022-12-30",
            NONE,
        ),
        (
            "auto-generated secret has a late last-used time",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            with(secret(), &[used("2022-12-30")]),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret has a last-used label, but it can not be parsed",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            with(secret(), &[used("2022-12-27-1")]),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "secret-referenced service account does not exist",
            Some(tracking(Some("2022-12-27"))),
            None,
            old(),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "secret-referenced service account uid does not match",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            with(old(), &[(ACCOUNT_UID, json!("123456"))]),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "secret-referenced service account name is empty",
            Some(tracking(Some("2022-12-27"))),
            Some(tokens()),
            with(old(), &[(ACCOUNT_NAME, json!(""))]),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret does not have 'last-used' label, has not been marked as invalid",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            secret(),
            &bare,
            "2022-12-30",
            invalidated,
        ),
        (
            "auto-generated secret does not have 'last-used' label, has been marked as invalid, invalid_since label can not be parsed",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            unmarked("2022-12-29-1"),
            &bare,
            "2022-12-30",
            invalidated,
        ),
        (
            "auto-generated secret does not have 'last-used' label, has been marked as invalid, time period since invalid is less than CleanUpPeriod",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            unmarked("2023-01-01"),
            &bare,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret does not have 'last-used' label, has been marked as invalid, time period since invalid is larger than CleanUpPeriod",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            unmarked("2022-12-29"),
            &bare,
            "2023-01-01",
            deleted,
        ),
        (
            "auto-generated secret is mounted by the pod",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            old(),
            &mounted,
            "2022-12-29",
            NONE,
        ),
        (
            "auto-generated secret has 'last-used' label, the time period since last-used is larger than CleanUpPeriod, secret has not been marked as invalid",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            old(),
            &bare,
            "2022-12-30",
            invalidated,
        ),
        (
            "the same, marked as invalid, time period since invalid is less than CleanUpPeriod",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            both("2023-05-01"),
            &bare,
            "2022-12-30",
            NONE,
        ),
        (
            "the same, marked as invalid, time period since invalid is larger than CleanUpPeriod",
            Some(tracking(Some("2022-12-28"))),
            Some(tokens()),
            both("2023-01-05"),
            &bare,
            "2023-05-01",
            deleted,
        ),
    ];
    for (case, map, account, secret, spec, start, write) in cases {
        let now = at("2023-06-01");
        let mut world = World::bare_at(now).await;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "pod-1", "namespace": "default", "uid": "p"}, "spec": spec,
        });
        if map.is_none() {
            // The API server makes the ConfigMap, so only a refusal can hide it.
            let get = Matcher::new("get", "configmaps");
            let missing = Status::new(404, "NotFound", "no such ConfigMap");
            world.cluster.faults().reject(get, missing, None);
        }
        for object in [map, account, Some(secret), Some(pod)]
            .into_iter()
            .flatten()
        {
            world.cluster.load(object).unwrap();
        }
        world.clean(&period(now, start)).await;
        let expected = Some(write).filter(|write| !write.is_empty());
        assert_eq!(world.cleaned(), Vec::from_iter(expected), "{case}");
        if write == invalidated {
            let labels = &world.find("secrets", "token-secret-1").unwrap()["metadata"]["labels"];
            let label = &labels["kubernetes.io/legacy-token-invalid-since"];
            assert_eq!(label, "2023-06-01", "{case}");
        }
    }
}

/// Upstream: `TestLegacyServiceAccountTokenCleanUp` of the integration tests.
#[tokio::test(start_paused = true)]
async fn an_unused_token_is_invalid_for_a_period_before_its_deletion() {
    let begin = at("2026-05-10");
    let mut world = World::bare_at(begin).await;
    world.cluster.load(tracking(Some("2024-05-01"))).unwrap();
    let names = ["unused", "used-later", "by-hand", "in-use"];
    let listed: Vec<&str> = names
        .into_iter()
        .filter(|name| *name != "by-hand")
        .collect();
    world.cluster.load(account(&listed)).unwrap();
    for name in names {
        let day = if name == "in-use" {
            "2026-04-30"
        } else {
            "2026-04-29"
        };
        let uid = ("/metadata/uid", json!(format!("uid-of-{name}")));
        let changes = [
            ("/metadata/name", json!(name)),
            uid,
            (LAST_USED, json!(day)),
        ];
        world.cluster.load(with(secret(), &changes)).unwrap();
    }
    world.clean("240h0m0s").await;
    // The order is that of the cache.
    let mut cleaned = world.cleaned();
    cleaned.sort();
    assert_eq!(cleaned, ["patch unused 200", "patch used-later 200"]);

    // An administrator makes one token valid again, and it is used.
    let label = |name: &str, value: Value| {
        (
            world.cluster.path("secrets", "default", name),
            json!({"metadata": {"labels": {
                "kubernetes.io/legacy-token-invalid-since": null,
                "kubernetes.io/legacy-token-last-used": value,
            }}}),
        )
    };
    let (path, used) = label("used-later", json!("2027-05-01"));
    world.cluster.patch(&path, used).await.unwrap();
    let (path, used) = label("in-use", json!("2027-05-01"));
    world.cluster.patch(&path, used).await.unwrap();

    let days = |days: i64| Duration::from_secs(24 * 60 * 60 * days.unsigned_abs());
    tokio::time::sleep(days(10)).await;
    assert_eq!(world.cluster.count("secrets"), 4);
    world.cluster.clear_requests();
    tokio::time::sleep(days(1)).await;
    assert_eq!(world.cleaned(), ["delete unused 200"]);
    let expected = begin + (11 * 24).hours();
    assert!((world.clock.now() - expected).get_minutes().abs() < 10);
    assert_eq!(world.cluster.count("secrets"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_after_the_last_look_keeps_the_secret() {
    let now = at("2026-05-10");
    for (mark, refused) in [(json!(null), "patch"), (json!("2025-01-01"), "delete")] {
        let mut world = World::bare_at(now).await;
        world.cluster.load(tracking(Some("2020-05-01"))).unwrap();
        world.cluster.load(account(&["token-secret-1"])).unwrap();
        let mut old = secret();
        if mark.is_string() {
            old = with(old, &[(INVALID_SINCE, mark)]);
        }
        world.cluster.load(old).unwrap();
        let view = world.hold("secrets", world.cluster.revision());
        let path = world.cluster.path("secrets", "default", "token-secret-1");
        let used =
            json!({"metadata": {"labels": {"kubernetes.io/legacy-token-last-used": "2026-05-10"}}});
        world.cluster.patch(&path, used).await.unwrap();
        world.clean("8760h").await;
        let tries = world.cleaned();
        let refusal = format!("{refused} token-secret-1 409");
        assert_eq!(tries.iter().max(), Some(&refusal));
        assert_eq!(tries.iter().min(), Some(&refusal));
        assert!(tries.len() < 5, "{tries:#?}");
        world.cluster.faults().remove(view);
        tokio::time::sleep(Duration::from_secs(50 * 60 * 60)).await;
        assert_eq!(world.cleaned(), tries);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_of_pods_keeps_the_secret_until_the_next_try() {
    let mut world = World::bare_at(at("2026-05-10")).await;
    world.cluster.load(tracking(Some("2020-05-01"))).unwrap();
    world.cluster.load(account(&["token-secret-1"])).unwrap();
    world.cluster.load(secret()).unwrap();
    let list = Matcher::new("list", "pods").namespace("default");
    let fails = world.cluster.faults().reject(list, internal_error(), None);
    world.clean("8760h").await;
    assert!(world.cluster.faults().hits(fails) > 0);
    assert_eq!(world.cleaned(), [""; 0]);
    world.cluster.faults().remove(fails);
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert_eq!(world.cleaned(), ["patch token-secret-1 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_period_that_is_not_positive_ends_the_start() {
    let world = World::bare().await;
    let flag = "legacy-service-account-token-clean-up-period";
    for (period, shown) in [("0s", "0s"), ("-1h", "-1h0m0s")] {
        let context = world.context().with_flag(flag, period);
        let error = (DESCRIPTOR.init)(&context).err().unwrap();
        let expected = format!(
            "failed to init the legacy service account token cleaner: invalid CleanUpPeriod: {shown}"
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}
