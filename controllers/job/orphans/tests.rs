use serde_json::{Value, json};
use steersman_objects::JOB_TRACKING;

use super::*;
use crate::job::testing::{OneSync, job, pod_of_web};

/// The Job `web`, as it is in the cache.
#[derive(Clone, Copy)]
enum Cached {
    Running,
    Finished,
    External,
    /// There is another Job instead.
    Gone,
}

async fn fixture(cached: Cached, owners: Value) -> OneSync {
    let complete = json!([{"type": "Complete", "status": "True"}]);
    let web = match cached {
        Cached::Running => job("web"),
        Cached::Finished => job("web").status("conditions", complete),
        Cached::External => job("web")
            .status("conditions", complete)
            .spec("managedBy", "a/b"),
        Cached::Gone => job("other"),
    };
    let pod = pod_of_web("p").metadata("ownerReferences", owners);
    OneSync::of(web.0, vec![pod.0]).await
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str, controller: bool) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": controller}])
}

/// The keys for the pod of a Job with this UID.
fn keys(job_uid: &str) -> [OrphanKey; 2] {
    let selector = job("web").build().spec.selector.unwrap();
    [
        OrphanKey::Named(ObjectKey::new("default", "p")),
        OrphanKey::Selected {
            namespace: Sym::new("default"),
            uid: Uid::new(job_uid),
            selector,
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn sync_orphan_pod() {
    let web = || owner("batch/v1", "Job", "web", "uid-of-web", true);
    // (upstream's case, the Job, owners of the pod, whether the finalizer is removed)
    let cases = [
        (
            "controlled_by_existing_running_job",
            Cached::Running,
            web(),
            false,
        ),
        (
            "controlled_by_existing_finished_job",
            Cached::Finished,
            web(),
            true,
        ),
        ("controlled_by_non_existing_job", Cached::Gone, web(), true),
        (
            "controlled_by_cronjob",
            Cached::Running,
            owner("batch/v1", "CronJob", "web", "u", true),
            false,
        ),
        ("not_controlled", Cached::Running, json!([]), true),
        (
            "controlled_by_custom_crd",
            Cached::Running,
            owner("example/v1", "Job", "web", "u", true),
            false,
        ),
        (
            "owned_by_existing_running_job",
            Cached::Running,
            owner("batch/v1", "Job", "web", "uid-of-web", false),
            true,
        ),
        (
            "owned_by_custom_crd",
            Cached::Running,
            owner("example/v1", "Job", "web", "u", false),
            true,
        ),
        (
            "controlled by a Job of another UID",
            Cached::Running,
            owner("batch/v1", "Job", "web", "u", true),
            true,
        ),
        (
            "controlled by a Job of another controller",
            Cached::External,
            web(),
            false,
        ),
    ];
    for (why, cached, owners, is_removed) in cases {
        // The second key is upstream's case "orphan_pods_by_label_selector".
        let job_uid = owners[0]["uid"].as_str().unwrap_or("uid-of-web");
        for key in keys(job_uid) {
            let one = fixture(cached, owners.clone()).await;
            one.parts.orphan_syncer.sync(&key).await.unwrap();
            let expected = if is_removed {
                json!(null)
            } else {
                json!([JOB_TRACKING])
            };
            let pod = one.world.find("pods", "p").unwrap();
            assert_eq!(pod["metadata"]["finalizers"], expected, "{why}: {key}");
            let sent = one.sent("patch", "pods");
            let patch = json!({"metadata": {"uid": "uid-of-p", "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}});
            assert_eq!(sent, vec![patch; usize::from(is_removed)], "{why}: {key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_needs_no_removal_and_other_failures_are_errors() {
    for key in keys("uid-of-web") {
        let one = fixture(Cached::Gone, json!([])).await;
        one.reject("patch", "pods");
        assert!(one.parts.orphan_syncer.sync(&key).await.is_err(), "{key}");
    }
    for key in keys("uid-of-web") {
        let one = fixture(Cached::Gone, json!([])).await;
        one.world.cluster.faults().stall_watches("pods");
        one.world
            .patch("pods", "p", json!({"metadata": {"finalizers": null}}))
            .await;
        one.world.kill("p").await;
        one.parts.orphan_syncer.sync(&key).await.unwrap();
    }
    let one = fixture(Cached::Gone, json!([])).await;
    let missing = OrphanKey::Named(ObjectKey::new("default", "missing"));
    one.parts.orphan_syncer.sync(&missing).await.unwrap();
}

/// Another pod has the name of the cached one.
#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_keeps_its_finalizer() {
    let one = fixture(Cached::Gone, json!([])).await;
    one.world.cluster.faults().stall_watches("pods");
    let new = pod_of_web("p")
        .uid("new")
        .metadata("ownerReferences", json!([]));
    one.world.cluster.load(new.0).unwrap();
    one.parts
        .orphan_syncer
        .sync(&keys("uid-of-web")[0])
        .await
        .unwrap();
    let pod = one.world.find("pods", "p").unwrap();
    assert_eq!(pod["metadata"]["finalizers"], json!([JOB_TRACKING]));
}

/// The cache of a new leader lacks the Job `web`.
#[tokio::test(start_paused = true)]
async fn a_new_leader_reads_the_job_that_its_cache_lacks() {
    let complete = || {
        job("web").status(
            "conditions",
            json!([{"type": "Complete", "status": "True"}]),
        )
    };
    // (why, the Job on the API server, whether the finalizer is removed)
    let cases = [
        ("gone", None, true),
        ("running", Some(job("web")), false),
        ("finished", Some(complete()), true),
        (
            "of another controller",
            Some(complete().spec("managedBy", "a/b")),
            false,
        ),
        (
            "another Job of its name",
            Some(job("web").metadata("uid", "new")),
            true,
        ),
    ];
    let [key, _] = keys("uid-of-web");
    for (why, live, is_removed) in cases {
        let one = OneSync::of_new_leader(job("other").0, vec![pod_of_web("p").0]).await;
        one.world.cluster.faults().stall_watches("jobs");
        if let Some(live) = live {
            one.world.cluster.load(live.0).unwrap();
        }
        one.parts.orphan_syncer.sync(&key).await.unwrap();
        let removals = one.sent("patch", "pods").len();
        assert_eq!(removals, usize::from(is_removed), "{why}");
    }
    let one = OneSync::of_new_leader(job("other").0, vec![pod_of_web("p").0]).await;
    one.reject("get", "jobs");
    assert!(one.parts.orphan_syncer.sync(&key).await.is_err());
    assert!(one.sent("patch", "pods").is_empty());
}
