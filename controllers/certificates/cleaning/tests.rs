//! Stories of the cleaners against the in-memory API server.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_releases::Release;

use super::{pods, requests};
use crate::certificates::testing::{
    CLIENT_USAGES, KUBELET_CLIENT, condition, csr, of_kubelet, with_conditions,
};
use crate::testing::world::{World, begin};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

impl World {
    /// A cluster in which these requests are cleaned from the start on.
    async fn cleaning(objects: Vec<Value>) -> Self {
        let mut world = Self::bare().await;
        for object in objects {
            world.cluster.load(object).unwrap();
        }
        world.restart(&[requests::DESCRIPTOR]).await;
        world
    }

    fn has(&self, name: &str) -> bool {
        self.find("certificatesigningrequests", name).is_some()
    }
}

/// The time so many minutes before the test begins.
fn ago(minutes: i64) -> Value {
    json!((begin() - jiff::SignedDuration::from_mins(minutes)).to_string())
}

/// A certificate that has ended, or that ends after the test, in PEM.
fn certificate(has_ended: bool) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(2023, 1, 1);
    params.not_after = rcgen::date_time_ymd(if has_ended { 2023 } else { 2100 }, 1, 2);
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

/// Upstream: `TestCleanerWithApprovedExpiredCSR`.
#[tokio::test(start_paused = true)]
async fn cleaner_with_approved_expired_csr() {
    let valid = certificate(false);
    let expired = certificate(true);
    let none = String::new();
    let garbage = "garbage".to_owned();
    // (case, minutes since the creation, certificate, conditions with their age, deleted)
    let cases: [(&str, i64, &String, &[(&str, i64)], bool); 14] = [
        (
            "no delete approved not passed deadline",
            1,
            &valid,
            &[("Approved", 50)],
            false,
        ),
        (
            "no delete approved passed deadline not issued",
            1,
            &none,
            &[("Approved", 50)],
            false,
        ),
        (
            "delete approved passed deadline",
            1,
            &valid,
            &[("Approved", 120)],
            true,
        ),
        (
            "no delete denied not passed deadline",
            1,
            &none,
            &[("Denied", 50)],
            false,
        ),
        (
            "delete denied passed deadline",
            1,
            &none,
            &[("Denied", 120)],
            true,
        ),
        (
            "no delete failed not passed deadline",
            1,
            &none,
            &[("Approved", 120), ("Failed", 50)],
            false,
        ),
        (
            "delete failed passed deadline",
            1,
            &none,
            &[("Approved", 120), ("Failed", 120)],
            true,
        ),
        (
            "no delete pending not passed deadline",
            300,
            &none,
            &[],
            false,
        ),
        ("delete pending passed deadline", 1500, &none, &[], true),
        (
            "delete approved unissued past deadline",
            1,
            &none,
            &[("Approved", 1500)],
            true,
        ),
        (
            "no delete approved unissued not past deadline",
            1,
            &none,
            &[("Approved", 300)],
            false,
        ),
        (
            "no delete approved not passed deadline unexpired",
            1,
            &valid,
            &[("Approved", 50)],
            false,
        ),
        (
            "delete approved not passed deadline expired",
            1,
            &expired,
            &[("Approved", 50)],
            true,
        ),
        (
            "delete approved passed deadline unparseable",
            1,
            &garbage,
            &[("Approved", 120)],
            true,
        ),
    ];
    let object = |index: usize| {
        let (_, age, certificate, conditions, _) = cases[index];
        let name = format!("c{index}");
        let mut csr = csr(&name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
        csr["metadata"]["creationTimestamp"] = ago(age);
        let conditions = conditions.iter().map(|(kind, age)| {
            let mut condition = condition(kind);
            condition["lastUpdateTime"] = ago(*age);
            condition
        });
        csr["status"]["conditions"] = conditions.collect();
        if !certificate.is_empty() {
            csr["status"]["certificate"] = json!(STANDARD.encode(certificate));
        }
        csr
    };
    let world = World::cleaning((0..cases.len()).map(object).collect()).await;
    tokio::time::sleep(MINUTE).await;
    for (index, (case, .., deleted)) in cases.iter().enumerate() {
        assert_eq!(world.has(&format!("c{index}")), !deleted, "{case}");
    }
}

/// Upstream: `isApprovedUnissuedPastDeadline`.
#[tokio::test(start_paused = true)]
async fn approved_requests_without_a_certificate_stay_up_to_1_34() {
    for (minor, stays) in [(33, true), (34, true), (35, false), (36, false)] {
        let mut world = World::bare().await;
        for (name, kind) in [("approved", "Approved"), ("denied", "Denied")] {
            let mut request = csr(name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
            let mut condition = condition(kind);
            condition["lastUpdateTime"] = ago(1500);
            request["status"]["conditions"] = json!([condition]);
            world.cluster.load(request).unwrap();
        }
        world
            .restart_with(&[requests::DESCRIPTOR], |mut context| {
                context.release = Release::of_minor(minor);
                context
            })
            .await;
        tokio::time::sleep(MINUTE).await;
        assert_eq!(world.has("approved"), stays, "1.{minor}");
        assert!(!world.has("denied"), "1.{minor}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_follows_an_hour_after_the_end_of_the_previous_one() {
    let pending = csr("pending", KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
    let denied = csr("denied", KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
    let world = World::cleaning(vec![pending, with_conditions(denied, &["Denied"])]).await;
    // Exactly an hour is not older than an hour.
    tokio::time::sleep(HOUR - MINUTE).await;
    assert!(world.has("denied"));
    tokio::time::sleep(HOUR + 2 * MINUTE).await;
    assert!(!world.has("denied") && world.has("pending"));
    tokio::time::sleep(HOUR * 21).await;
    assert!(world.has("pending"));
    tokio::time::sleep(HOUR * 2).await;
    assert!(!world.has("pending"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_repeated_in_the_next_pass_and_hinders_no_other() {
    let old = |name: &str| {
        let mut csr = csr(name, KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
        csr["metadata"]["creationTimestamp"] = ago(1500);
        csr
    };
    let mut world = World::bare().await;
    for name in ["a", "b"] {
        world.cluster.load(old(name)).unwrap();
    }
    let delete = Matcher::new("delete", "certificatesigningrequests");
    world
        .cluster
        .faults()
        .reject(delete, internal_error(), Some(1));
    world.restart(&[requests::DESCRIPTOR]).await;
    tokio::time::sleep(MINUTE).await;
    assert_ne!(world.has("a"), world.has("b"));
    tokio::time::sleep(HOUR).await;
    assert!(!world.has("a") && !world.has("b"));
    assert_eq!(world.certificate_writes().len(), 3);
}

/// The cache shows a request that waits for too long. In the meantime it was approved.
#[tokio::test(start_paused = true)]
async fn a_request_that_has_changed_survives() {
    let mut world = World::bare().await;
    let mut pending = csr("c", KUBELET_CLIENT, &CLIENT_USAGES, &of_kubelet());
    pending["metadata"]["creationTimestamp"] = ago(1439);
    world.cluster.load(pending).unwrap();
    world.restart(&[requests::DESCRIPTOR]).await;
    tokio::time::sleep(MINUTE / 2).await;
    world
        .cluster
        .faults()
        .stall_watches("certificatesigningrequests");
    let path = world
        .cluster
        .path("certificatesigningrequests", "", "c/approval");
    let approval = json!({"status": {"conditions": [condition("Approved")]}});
    world.cluster.patch(&path, approval).await.unwrap();
    tokio::time::sleep(HOUR).await;
    assert_eq!(
        world.certificate_writes(),
        ["delete certificatesigningrequests/c 409"]
    );
    world
        .cluster
        .faults()
        .resume_watches("certificatesigningrequests");
    tokio::time::sleep(HOUR * 23).await;
    assert!(world.has("c"));
    tokio::time::sleep(HOUR * 3).await;
    assert!(!world.has("c"));
}

/// Upstream: `TestPCRCleaner`. The API server here has the type by a definition.
#[tokio::test(start_paused = true)]
async fn pcr_cleaner() {
    let mut world = World::bare_at("2025-01-01T00:30:00Z".parse().unwrap()).await;
    let kind = "PodCertificateRequest";
    let requests = definition("certificates.k8s.io", kind, &["v1beta1"], "Namespaced");
    world.create(requests).await;
    // (case, creation, denied, deleted)
    let cases = [
        ("pending-within", "2025-01-01T00:15:01Z", false, false),
        ("pending-outside", "2025-01-01T00:14:59Z", false, true),
        ("terminal-within", "2025-01-01T00:15:01Z", true, false),
        ("terminal-outside", "2025-01-01T00:14:59Z", true, true),
    ];
    for (name, created, is_denied, _) in cases {
        let mut request = json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("of-{name}"),
                "creationTimestamp": created,
            },
            "spec": {"signerName": "foo.com/abc", "podName": "pod-1"},
        });
        if is_denied {
            request["status"] = json!({"conditions": [{"type": "Denied", "status": "True"}]});
        }
        world.cluster.load(request).unwrap();
    }
    world.restart(&[pods::DESCRIPTOR]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (name, _, _, is_deleted) in cases {
        let found = world.find("podcertificaterequests", name);
        assert_eq!(found.is_none(), is_deleted, "{name}");
    }
    tokio::time::sleep(MINUTE * 6).await;
    assert_eq!(
        world.cluster.objects("podcertificaterequests"),
        Vec::<Value>::new()
    );
    assert_eq!(world.certificate_writes().len(), 4);
}
