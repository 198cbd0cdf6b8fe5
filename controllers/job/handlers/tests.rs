use serde_json::{Value, json};
use steersman_objects::Object;
use tokio::time::{Duration, timeout};

use super::*;
use crate::job::finalizers::Removals;
use crate::job::testing::{OneSync, job, pod_of_web};
use crate::testing::pods::{PodBuilder, pod};

/// Keys of both queues that a change adds, and the time until the Job's key is due.
struct Queued {
    jobs: Vec<(String, u64)>,
    orphans: Vec<String>,
}

/// Handlers over a cache with the Job `web`, and an adoptable Job `loose` with the label `app`.
struct Fixture {
    one: OneSync,
    handlers: Handlers,
}

impl Fixture {
    async fn new(web: Value) -> Self {
        let one = OneSync::of(web, Vec::new()).await;
        let mut loose = job("loose").0;
        loose["spec"]["selector"] = json!({"matchLabels": {"app": "loose"}});
        one.world.cluster.load(loose).unwrap();
        while one.jobs.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let syncer = &one.parts.syncer;
        let handlers = Handlers {
            gates: syncer.gates,
            jobs: one.jobs.clone(),
            queue: one.parts.keyed.queue(),
            orphans: one.parts.orphans.clone(),
            control: syncer.control.clone(),
            memory: Arc::clone(&syncer.memory),
            metrics: syncer.metrics.clone(),
            clock: syncer.clock.clone(),
        };
        let fixture = Self { one, handlers };
        // The first list enqueued both Jobs.
        fixture.queued().await;
        fixture
    }

    /// Takes all keys that are due within ten minutes, with the seconds until then.
    async fn queued(&self) -> Queued {
        let began = tokio::time::Instant::now();
        let mut jobs = Vec::new();
        let ten_minutes = Duration::from_secs(600);
        while let Ok(Some(item)) = timeout(ten_minutes, self.handlers.queue.get()).await {
            jobs.push((item.key.name.to_string(), began.elapsed().as_secs()));
        }
        let mut orphans = Vec::new();
        while !self.handlers.orphans.is_empty() {
            orphans.push(self.handlers.orphans.get().await.unwrap().key.to_string());
        }
        Queued { jobs, orphans }
    }

    async fn after_pod(&self, change: &Change<'_, Pod>) -> Queued {
        self.handlers.pod_changed(change);
        self.queued().await
    }

    fn removals(&self) -> &Removals {
        &self.one.parts.syncer.memory.removals
    }
}

fn version(pod: PodBuilder, version: u32) -> Arc<Pod> {
    Arc::new(pod.metadata("resourceVersion", version.to_string()).build())
}

fn untracked(pod: PodBuilder) -> PodBuilder {
    pod.metadata("finalizers", json!([]))
}

fn orphan() -> PodBuilder {
    pod("p").metadata("finalizers", json!(["batch.kubernetes.io/job-tracking"]))
}

fn added(object: &Arc<Pod>) -> Change<'_, Pod> {
    let initial = false;
    Change::Added { object, initial }
}

fn deleted(object: &Arc<Pod>) -> Change<'_, Pod> {
    let final_state_unknown = false;
    Change::Deleted {
        object,
        final_state_unknown,
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_pods_enqueue_jobs_in_batches_and_orphans_at_once() {
    let fixture = Fixture::new(job("web").0).await;
    let loose = || pod("p").labels(json!({"app": "loose"}));
    let of_unknown = || {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "x", "controller": true}]);
        pod_of_web("p").metadata("ownerReferences", owner)
    };
    let web: &[(&str, u64)] = &[("web", 1)];
    let adopter: &[(&str, u64)] = &[("loose", 1)];
    // (why, pod before, pod after, Jobs with seconds, orphans)
    let cases: [(
        &str,
        Option<PodBuilder>,
        Option<PodBuilder>,
        &[(&str, u64)],
        usize,
    ); 17] = [
        ("TestAddPod", None, Some(pod_of_web("p")), web, 0),
        ("TestAddPodOrphan", None, Some(loose()), adopter, 0),
        ("an orphan with the finalizer", None, Some(orphan()), &[], 1),
        ("a pod of an unknown Job", None, Some(of_unknown()), &[], 0),
        (
            "a terminating pod is a deleted one",
            None,
            Some(pod_of_web("p").deleted(1)),
            web,
            0,
        ),
        (
            "a terminating pod of an unknown Job",
            None,
            Some(of_unknown().deleted(1)),
            &[],
            1,
        ),
        (
            "TestUpdatePod",
            Some(pod_of_web("p")),
            Some(pod_of_web("p").phase("Failed")),
            web,
            0,
        ),
        (
            "TestUpdatePodOrphanWithNewLabels",
            Some(pod("p")),
            Some(loose()),
            adopter,
            0,
        ),
        ("an unchanged orphan", Some(loose()), Some(loose()), &[], 0),
        (
            "TestUpdatePodChangeControllerRef",
            Some(of_unknown()),
            Some(pod_of_web("p")),
            web,
            0,
        ),
        (
            "TestUpdatePodRelease",
            Some(pod_of_web("p")),
            Some(untracked(loose())),
            &[("loose", 1), ("web", 1)],
            0,
        ),
        (
            "released with the finalizer",
            Some(pod_of_web("p")),
            Some(orphan()),
            web,
            1,
        ),
        (
            "terminating",
            Some(pod_of_web("p")),
            Some(pod_of_web("p").deleted(1)),
            web,
            0,
        ),
        (
            "TestDeletePod",
            Some(untracked(pod_of_web("p"))),
            None,
            web,
            0,
        ),
        ("TestDeletePodOrphan", Some(loose()), None, &[], 0),
        (
            "a deleted orphan with the finalizer",
            Some(orphan()),
            None,
            &[],
            1,
        ),
        (
            "a deleted pod of an unknown Job",
            Some(of_unknown()),
            None,
            &[],
            1,
        ),
    ];
    for (why, old, new, jobs, orphans) in cases {
        let old = old.map(|pod| version(pod, 1));
        let new = new.map(|pod| version(pod, 2));
        let change = match (&old, &new) {
            (None, Some(new)) => added(new),
            (Some(old), Some(new)) => Change::Updated { old, new },
            (Some(old), None) => deleted(old),
            (None, None) => unreachable!("each case has a pod"),
        };
        let Queued {
            jobs: mut found,
            orphans: names,
        } = fixture.after_pod(&change).await;
        found.sort();
        let expected: Vec<_> = jobs
            .iter()
            .map(|(name, s)| ((*name).to_owned(), *s))
            .collect();
        assert_eq!((found, names.len()), (expected, orphans), "{why}");
    }
    let same = version(orphan(), 1);
    let queued = fixture
        .after_pod(&Change::Updated {
            old: &same,
            new: &same,
        })
        .await;
    assert!(
        queued.jobs.is_empty() && queued.orphans.is_empty(),
        "a resync"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_finished_job_becomes_an_orphan_when_it_is_deleted() {
    let complete = json!([{"type": "Complete", "status": "True"}]);
    let fixture = Fixture::new(job("web").status("conditions", complete).0).await;
    let pod = version(pod_of_web("p").deleted(1), 1);
    for change in [added(&pod), deleted(&pod)] {
        let queued = fixture.after_pod(&change).await;
        assert!(queued.jobs.is_empty());
        assert_eq!(queued.orphans, ["default/p"]);
    }
}

/// `TestFinalizersRemovedExpectations` of upstream's unit tests, and the rules of deletions.
#[tokio::test(start_paused = true)]
async fn removed_finalizers_and_deleted_pods_satisfy_expectations() {
    let fixture = Fixture::new(job("web").0).await;
    let key = &fixture.one.key;
    let tracked = version(pod_of_web("p"), 1);
    let uid = tracked.meta.uid.clone();
    let removed = version(untracked(pod_of_web("p")), 2);
    let lost = version(untracked(pod("p")), 2);
    let terminating = version(pod_of_web("p").deleted(1), 2);
    let updated = |new| Change::Updated { old: &tracked, new };
    // (why, change, whether the removal is observed)
    let cases = [
        ("the finalizer is still there", updated(&terminating), false),
        ("removed", updated(&removed), true),
        ("removed, with the owner", updated(&lost), true),
        ("deleted", deleted(&tracked), true),
        ("an addition with the finalizer", added(&tracked), false),
    ];
    for (why, change, observed) in cases {
        fixture.removals().expect(key, [uid.clone()].into_iter());
        fixture.handlers.pod_changed(&change);
        assert_eq!(
            fixture.removals().expected(key).is_empty(),
            observed,
            "{why}"
        );
    }
    let expectations = fixture.one.parts.syncer.control.consistency();
    expectations.expect_creations(key, 1);
    fixture.handlers.pod_changed(&added(&tracked));
    assert!(expectations.satisfied(key));
    expectations.expect_deletions(key, [tracked.key()].into_iter().collect());
    fixture.handlers.pod_changed(&updated(&terminating));
    assert!(expectations.satisfied(key));
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_spec_enqueue_a_job_at_once_and_others_in_batches() {
    let fixture = Fixture::new(job("web").0).await;
    let begin = fixture.one.world.clock.now().as_second();
    let started = |deadline: Value| {
        let start = crate::testing::time(begin - 2);
        job("web")
            .spec("activeDeadlineSeconds", deadline)
            .status("startTime", start)
    };
    let complete = json!([{"type": "Complete", "status": "True"}]);
    let second = |job: crate::job::testing::JobBuilder| job.metadata("generation", 2);
    // (why, Job before, Job after, seconds, orphans)
    let cases: [(&str, _, _, &[u64], usize); 5] = [
        (
            "TestUpdateJobRequeue: spec update",
            job("web"),
            second(job("web")),
            &[0],
            0,
        ),
        (
            "TestUpdateJobRequeue: status update",
            job("web"),
            job("web"),
            &[1],
            0,
        ),
        (
            "finished",
            job("web"),
            job("web").status("conditions", complete),
            &[],
            1,
        ),
        (
            "a new deadline",
            started(json!(null)),
            second(started(json!(300))),
            &[0, 298],
            0,
        ),
        (
            "the same deadline",
            started(json!(300)),
            second(started(json!(300))),
            &[0],
            0,
        ),
    ];
    for (why, old, new, seconds, orphans) in cases {
        let old = Arc::new(old.build());
        let new = Arc::new(new.build());
        let now = fixture.one.world.clock.now().as_second();
        fixture.handlers.job_changed(&Change::Updated {
            old: &old,
            new: &new,
        });
        let queued = fixture.queued().await;
        let found: Vec<u64> = queued.jobs.iter().map(|(_, seconds)| *seconds).collect();
        // Earlier cases take time, which brings the deadline closer.
        let passed = u64::try_from(now - begin).unwrap();
        let expected: Vec<u64> = seconds
            .iter()
            .map(|s| if *s > 1 { s.saturating_sub(passed) } else { *s })
            .collect();
        let mut expected = expected;
        expected.dedup();
        assert_eq!((found, queued.orphans.len()), (expected, orphans), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_no_records_and_releases_its_pods() {
    let fixture = Fixture::new(job("web").0).await;
    let syncer = &fixture.one.parts.syncer;
    let key = &fixture.one.key;
    let web = Arc::new(job("web").build());
    let remember = || {
        syncer.control.consistency().expect_creations(key, 1);
        syncer
            .memory
            .removals
            .expect(key, [web.meta.uid.clone()].into_iter());
    };
    let again = Arc::new(job("web").metadata("uid", "new").build());
    let gone = Change::Deleted {
        object: &web,
        final_state_unknown: true,
    };
    for change in [
        gone,
        Change::Updated {
            old: &web,
            new: &again,
        },
    ] {
        remember();
        fixture.handlers.job_changed(&change);
        assert!(syncer.control.consistency().satisfied(key));
        assert!(syncer.memory.removals.expected(key).is_empty());
        let queued = fixture.queued().await;
        assert_eq!(queued.jobs, [("web".to_owned(), 0)]);
        let selector = web.spec.selector.clone().unwrap();
        let expected = format!("default/{selector}");
        assert_eq!(queued.orphans, [expected]);
    }
}
