//! Single syncs against a server that only answers and records, and a story with exactly the rights of
//! the controller. The embedded API server lacks ClusterTrustBundles, as servers of 1.36 do by
//! default; in the story it has them by a definition.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, HttpService};
use steersman_devcluster::definitions::definition;
use steersman_objects::{ClusterTrustBundle, Object, ObjectKey};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::workers::Requeue;

use super::sync::{Publisher, SyncError};
use super::{DESCRIPTOR, GROUP, SIGNER, Version, bundle_name, served_version};
use crate::publisher_metrics::PublisherMetrics;
use crate::testing::world::World;

const CERTIFICATES: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

/// Requests with their bodies: method, path and body.
type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A client of a server that gives each request the answer of `answer`: status code and body.
fn client(
    calls: &Calls,
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> ApiClient {
    let calls = Arc::clone(calls);
    let service = tower::service_fn(move |request: Request<Body>| {
        let calls = Arc::clone(&calls);
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let call = format!("{} {}", parts.method, parts.uri.path());
            let (code, text) = answer(&call);
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            calls.lock().push((call, body));
            let response = Response::builder()
                .status(code)
                .header("content-type", "application/json")
                .body(Body::from(text.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let settings = ClientSettings {
        user_agent: "test".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(30),
    };
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    ApiClient::new(HttpService::new(service), settings, metrics)
}

/// The answer with this code and a `Status` or an object.
fn answered(code: u16, reason: &str) -> (u16, Value) {
    let failure = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": reason, "details": {"kind": "clustertrustbundles", "name": "x"},
    });
    let object = json!({"metadata": {"name": "x", "resourceVersion": "7"}});
    (code, if code < 300 { object } else { failure })
}

fn bundle(name: &str, certificates: &str) -> Arc<ClusterTrustBundle> {
    let json = json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "3"},
        "spec": {"signerName": SIGNER, "trustBundle": certificates, "fromTheFuture": 1},
    });
    Arc::new(ClusterTrustBundle::decode(json.to_string().as_bytes()).unwrap())
}

/// One sync with these cached bundles; returns its result and the code of its metric.
async fn sync(
    calls: &Calls,
    cached: &[Arc<ClusterTrustBundle>],
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Result<Requeue, SyncError>, String) {
    let world = World::bare().await;
    let context = world.context();
    let mut keyed = Keyed::<ClusterTrustBundle>::new(&context, "test", "test");
    let registry = Registry::new();
    let bundles = keyed.objects().clone();
    let publisher = Publisher {
        client: client(calls, answer),
        bundles: cached.iter().cloned().collect::<Store<_>>(),
        cache: keyed.tracked(&bundles),
        bundle: CERTIFICATES.into(),
        metrics: PublisherMetrics::register(&registry, &super::FAMILIES).unwrap(),
    };
    let key = ObjectKey::new("", &bundle_name(CERTIFICATES.as_bytes()));
    let synced = match publisher.bundles.get(&key) {
        Some(bundle) => publisher.sync(&key, bundle).await,
        None => publisher.clean_up(&key).await,
    };
    let families = registry.gather();
    let name = "clustertrustbundle_publisher_sync_total";
    let family = families
        .iter()
        .find(|family| family.name() == name)
        .unwrap();
    let metric = &family.get_metric()[0];
    assert_eq!(metric.get_counter().get_value(), 1.0);
    (synced, metric.get_label()[0].value().to_owned())
}

/// Upstream: `TestCTBPublisherSync`. Bundles of other signers never reach the cache, because the
/// informer selects those of the signer.
#[tokio::test(start_paused = true)]
async fn the_bundle_is_published_and_others_are_removed() {
    let name = bundle_name(CERTIFICATES.as_bytes());
    let other = "kubernetes.io:kube-apiserver-serving:name2";
    let path = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
    let create = format!("POST {path}");
    let update = format!("PUT {path}/{name}");
    let delete = format!("DELETE {path}/{other}");
    // (case, cached bundles, requests)
    let cases: [(&str, Vec<Arc<ClusterTrustBundle>>, Vec<&String>); 6] = [
        ("no CTBs exist", vec![], vec![&create]),
        (
            "CTB for the signer exists with different content",
            vec![bundle(&name, "olddata")],
            vec![&update],
        ),
        (
            "multiple CTBs for the signer",
            vec![bundle(&name, CERTIFICATES), bundle(other, CERTIFICATES)],
            vec![&delete],
        ),
        (
            "multiple CTBs for the signer - the one with the proper name needs changing",
            vec![bundle(&name, "olddata"), bundle(other, CERTIFICATES)],
            vec![&update, &delete],
        ),
        (
            "another CTB with a different name exists for the signer",
            vec![bundle(other, CERTIFICATES)],
            vec![&create, &delete],
        ),
        (
            "CTB at the correct state - noop",
            vec![bundle(&name, CERTIFICATES)],
            vec![],
        ),
    ];
    for (case, cached, expected) in cases {
        let calls = Calls::default();
        let (synced, code) = sync(&calls, &cached, |_| answered(200, "")).await;
        assert!(synced.is_ok() && code == "200", "{case}: {synced:?} {code}");
        let calls = calls.lock();
        let found: Vec<&String> = calls.iter().map(|(call, _)| call).collect();
        assert_eq!(found, expected, "{case}");
        for (call, body) in calls.iter() {
            if call.starts_with("DELETE") {
                assert_eq!(
                    body["preconditions"],
                    json!({"uid": format!("uid-of-{other}")})
                );
            } else {
                assert_eq!(body["spec"]["trustBundle"], CERTIFICATES, "{case}");
                assert_eq!(body["spec"]["signerName"], SIGNER, "{case}");
            }
            if call.starts_with("PUT") {
                assert_eq!(body["spec"]["fromTheFuture"], 1, "unknown fields survive");
                assert_eq!(body["metadata"]["resourceVersion"], "3");
            }
        }
    }
}

/// Upstream: `TestSyncCounter`.
#[tokio::test(start_paused = true)]
async fn failures_are_counted_by_their_code() {
    let name = bundle_name(CERTIFICATES.as_bytes());
    let others = ["a", "b"].map(|other| bundle(other, "x"));
    let all = [vec![bundle(&name, CERTIFICATES)], others.to_vec()].concat();
    // (case, cached bundles, failing method, its code and reason, code of the metric, requests)
    let cases = [
        ("existing", vec![], "POST", (409, "AlreadyExists"), "409", 1),
        (
            "invalid",
            vec![bundle(&name, "x")],
            "PUT",
            (422, "Invalid"),
            "422",
            1,
        ),
        (
            "refused",
            all.clone(),
            "DELETE",
            (403, "Forbidden"),
            "403",
            2,
        ),
        ("gone already", all, "DELETE", (404, "NotFound"), "200", 2),
    ];
    for (case, cached, method, (code, reason), expected, requests) in cases {
        let calls = Calls::default();
        let answer = move |call: &str| {
            let fails = call.starts_with(method);
            answered(if fails { code } else { 200 }, reason)
        };
        let (synced, found) = sync(&calls, &cached, answer).await;
        assert_eq!(
            (found.as_str(), synced.is_ok()),
            (expected, expected == "200"),
            "{case}"
        );
        assert_eq!(calls.lock().len(), requests, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_best_served_version_is_used() {
    let list = |names: &[&str]| {
        let resources: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        (
            200,
            json!({"kind": "APIResourceList", "resources": resources}),
        )
    };
    let with = list(&["clustertrustbundles"]);
    let without = list(&["podcertificaterequests"]);
    let missing = answered(404, "NotFound");
    // (beta, alpha, version)
    let cases = [
        (with.clone(), with.clone(), Some(Version::Beta)),
        (without.clone(), with.clone(), Some(Version::Alpha)),
        (missing.clone(), with, Some(Version::Alpha)),
        (missing.clone(), without, None),
        (missing.clone(), missing.clone(), None),
    ];
    for (beta, alpha, expected) in cases {
        let answers = move |call: &str| {
            if call.contains("beta") {
                beta.clone()
            } else {
                alpha.clone()
            }
        };
        let found = served_version(&client(&Calls::default(), answers))
            .await
            .unwrap();
        assert_eq!(found, expected);
    }
    let failing = |_: &str| answered(403, "Forbidden");
    assert!(
        served_version(&client(&Calls::default(), failing))
            .await
            .is_err()
    );
}

#[test]
fn the_name_has_a_hash_of_the_certificates() {
    let name = bundle_name(CERTIFICATES.as_bytes());
    let (signer, hash) = name.rsplit_once(':').unwrap();
    assert_eq!(signer, "kubernetes.io:kube-apiserver-serving");
    assert_eq!(hash.len(), 24);
    assert_eq!(
        bundle_name(b""),
        "kubernetes.io:kube-apiserver-serving:e3b0c44298fc1c149afbf4c8"
    );
}

#[tokio::test(start_paused = true)]
async fn the_bundle_is_restored_and_others_of_the_signer_are_deleted() {
    let mut world = World::bare().await;
    let mut bundles = definition(GROUP, "ClusterTrustBundle", &["v1beta1"], "Cluster");
    let version = &mut bundles["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".spec.signerName"}]);
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"signerName": {"type": "string"}},
    }});
    world.create(bundles).await;
    let stored = |name: &str, signer: &str| {
        json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": {"name": name, "uid": format!("uid-of-{name}")},
            "spec": {"signerName": signer, "trustBundle": "old"},
        })
    };
    let own = bundle_name(CERTIFICATES.as_bytes());
    // Custom objects cannot be created with a colon in their name.
    for (name, signer) in [(&*own, SIGNER), ("old", SIGNER), ("foreign", "a.b/c")] {
        world.cluster.load(stored(name, signer)).unwrap();
    }
    let configure = |mut context: ControllerContext| {
        context.credentials.root_ca = CERTIFICATES.as_bytes().into();
        context
    };
    world.restart_with(&[DESCRIPTOR], configure).await;
    world.create(stored("late", SIGNER)).await;
    world.a_minute().await;
    let content = |name: &str| {
        let bundle = world.find("clustertrustbundles", name)?;
        Some(bundle["spec"]["trustBundle"].clone())
    };
    assert_eq!(content(&own), Some(json!(CERTIFICATES)));
    assert_eq!(content("foreign"), Some(json!("old")));
    assert_eq!((content("old"), content("late")), (None, None));
}
