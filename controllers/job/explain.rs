//! Why a Job does not start or finish.
//!
//! The decisions are those of the controller (`Snapshot`, `manage::decide`), computed from the same objects.
//! Its memory is absent, so back-offs are estimated from pods that still exist.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::{JOB_TRACKING, Job, Pod};
use steersman_values::resource::{JOBS, PODS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, pod, refusal, warning};

use super::NAME;
use super::backoff::Backoff;
use super::gates::BUILT_IN;
use super::manage::{self, Action};
use super::pods::JobPod;
use super::snapshot::Snapshot;

/// Time after which uncounted pods are worth a look: the controller counts them at once. A sync comes within
/// a second, and its requests take some more.
const COUNTED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Adds the reasons about `doc`, and the answers about its pods.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(job) = doc.view::<Job>() else {
        return;
    };
    let status = &job.status;
    // A work queue has no completions, and its parallelism is the best number to show.
    let total = job.spec.completions.unwrap_or(job.spec.parallelism);
    answer.state = format!(
        "has {} of {total} completions, {} active, {} failed",
        status.succeeded, status.active, status.failed
    );
    if let Some(end) = job.finished() {
        if job.is_complete() {
            answer.reasons.clear();
            answer.state = "is complete".to_owned();
            return;
        }
        answer.state = "has failed".to_owned();
        let mut message = format!("{}: {}", end.reason, end.message);
        let mut who = "owner of the Job";
        if *end.reason == *"DeadlineExceeded" {
            let seconds = doc.number("/spec/activeDeadlineSeconds");
            // The text of the condition lacks the deadline itself.
            message = format!(
                "{message} (activeDeadlineSeconds {seconds}); its pods were deleted, whatever backoffLimit allows"
            );
            who = "owner of the Job (a new Job with a larger activeDeadlineSeconds)";
        }
        let failed = doc.text("/status/failedIndexes");
        if !failed.is_empty() {
            message = format!(
                "{message}; failed indexes: {failed} of {total} (backoffLimitPerIndex {})",
                doc.number("/spec/backoffLimitPerIndex")
            );
        }
        let reason = Reason::new(Code::JobFailed, NAME, message).who(who);
        answer.add(reason.since(end.last_transition_time));
        // The last failed pod is the most likely cause, and one is enough for a reader.
        let pods = world.controlled(&PODS, doc.namespace(), doc.uid());
        let failed = pods.unwrap_or_default().into_iter();
        let failed = failed.filter(|pod| pod.text("/status/phase") == "Failed");
        let last = failed.max_by_key(|pod| pod.time("/metadata/creationTimestamp"));
        if let Some(pod) = last {
            answer.follow(world.explain(&PODS, &pod));
        }
        return;
    }
    // The field alone decides, since the gates of another process are unknown here.
    if let Some(manager) = job
        .spec
        .managed_by
        .as_deref()
        .filter(|name| *name != BUILT_IN)
    {
        let message = format!("spec.managedBy gives the Job to {manager}");
        answer.add(
            Reason::new(Code::ManagedElsewhere, manager, message)
                .who(format!("operator of {manager}")),
        );
        return;
    }
    if job.spec.suspend {
        let since = doc
            .condition("Suspended")
            .and_then(|condition| condition.time("/lastTransitionTime"));
        // Kueue resumes the Jobs with a label of its queues.
        let who = match doc.text("/metadata/labels/kueue.x-k8s.io~1queue-name") {
            "" => "owner of the Job (spec.suspend)".to_owned(),
            queue => format!("Kueue, in queue {queue}, or owner of the Job (spec.suspend)"),
        };
        answer.add(
            Reason::new(
                Code::Suspended,
                NAME,
                "spec.suspend is true, so no pod runs",
            )
            .who(who)
            .since(since),
        );
        return;
    }
    let Some(docs) = world.controlled(&PODS, doc.namespace(), doc.uid()) else {
        return;
    };
    let pods: Vec<JobPod> = docs.iter().filter_map(tracked).collect();
    // No pod of the explanation has a removal in flight, which only the controller knows.
    let snapshot = Snapshot::new(&job, pods);
    let backoff = Backoff::default()
        .after(&[], &failures(&snapshot))
        .remaining(world.now);
    replacement(&job, &snapshot, answer);
    decide(world, doc, &snapshot, backoff, answer);
    if snapshot.has_uncounted() {
        let message = "pods have ended, and the status of the Job does not count them yet";
        answer.add(Reason::new(Code::JobUncounted, NAME, message));
    }
    let active: Vec<Doc> = docs
        .iter()
        .filter(|doc| {
            snapshot
                .active
                .iter()
                .any(|pod| *pod.meta.name == *doc.name())
        })
        .cloned()
        .collect();
    for about in pod::unavailable(world, &active, 0) {
        answer.follow(about);
    }
    // Three examples are enough; a Job may have thousands of terminating pods.
    let ending = docs.iter().filter(|doc| doc.deleted().is_some());
    for pod in ending.take(3) {
        let about = world.explain(&PODS, pod);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// Adds the reason if missing pods wait for the end of terminating ones. An announced end needs no
/// replacement.
fn replacement(job: &Job, snapshot: &Snapshot<'_>, answer: &mut Explanation) {
    let is_ending = job.status.conditions.iter().any(|condition| {
        let kinds = ["FailureTarget", "SuccessCriteriaMet"];
        kinds.contains(&&*condition.kind) && &*condition.status == "True"
    });
    let held = manage::held(snapshot);
    if held == 0 || is_ending {
        return;
    }
    let wanted = steersman_why::count(manage::wanted(snapshot), "pod");
    let (is, end) = if held == 1 {
        ("is", "its end")
    } else {
        ("are", "their end")
    };
    let message = format!(
        "{held} of {wanted} {is} terminating, and {} allows a replacement only after {end}",
        policy(job)
    );
    let reason = Reason::new(Code::PodEndAwaited, NAME, message);
    answer.add(reason.field("held", held));
}

/// The rule of `job` by which only failed pods are replaced.
fn policy(job: &Job) -> &'static str {
    if job.spec.pod_failure_policy.is_some() {
        "podReplacementPolicy Failed (the only one beside a podFailurePolicy)"
    } else {
        "podReplacementPolicy Failed"
    }
}

/// Whether the controller counts `pod` of `job`, which is being deleted, only after its end. `None` if one of
/// the two cannot be read. Then the general reason applies.
fn awaits_end(job: &Doc, pod: &Doc) -> Option<bool> {
    let view = job.view::<Job>()?;
    let pod = pod.view::<Pod>()?;
    let runs = !pod.is_finished() && !super::pods::has_failed(&pod, &view.spec);
    Some(runs && view.finished().is_none() && job.deleted().is_none())
}

fn tracked(doc: &Doc) -> Option<JobPod> {
    let has_finalizer = doc.texts("/metadata/finalizers").contains(&JOB_TRACKING);
    Some(JobPod {
        pod: doc.view::<Pod>()?,
        has_finalizer,
        is_tracked: has_finalizer,
    })
}

/// The ends of failed pods after the last success, from the pods that still exist.
///
/// The controller's own record also has pods that are gone; its queue tells the real delay.
///
/// So the delay told is the shortest possible one.
fn failures(snapshot: &Snapshot<'_>) -> Vec<Timestamp> {
    let failed = |pod: &&JobPod| super::pods::has_failed(pod, &snapshot.job.spec);
    let failed = snapshot.pods.iter().filter(failed);
    failed.map(|pod| super::backoff::finished_at(pod)).collect()
}

/// Adds the reason that corresponds to the next action of the controller.
fn decide(
    world: &World,
    doc: &Doc,
    snapshot: &Snapshot<'_>,
    backoff: Duration,
    answer: &mut Explanation,
) {
    match manage::decide(snapshot, backoff, world.now) {
        Action::Steady if snapshot.active.is_empty() => {}
        Action::Steady | Action::Track(_) => {
            let active = snapshot.active.len();
            let ready = snapshot.ready;
            let pods = steersman_why::count(active, "pod");
            let message = format!("{pods} under way, {ready} of them ready");
            answer.add(Reason::new(Code::JobPodsActive, NAME, message));
        }
        Action::Delete(victims) => {
            let message = format!("{} pods have to be deleted", victims.len());
            answer.add(Reason::new(Code::PodsSurplus, NAME, message));
        }
        Action::Wait(delay) => {
            let message = format!(
                "after {} failed pods, the next pod is created after a back-off",
                snapshot.failed
            );
            let next = world.now.checked_add(delay).ok();
            answer.add(
                Reason::new(Code::JobBackOff, NAME, message)
                    .next(next)
                    .who("owner of the container's program"),
            );
        }
        // A refused creation is known by its Event only. A known cause, such as a quota, needs no second
        // reason.
        Action::Create(pods) if !answer.knows_cause() => {
            match warning(world, doc, &["FailedCreate"]) {
                Some(event) => {
                    let text = event
                        .message
                        .strip_prefix("Error creating: ")
                        .unwrap_or(&event.message);
                    let mut reason = refusal(text, doc.namespace(), NAME).since(event.first);
                    reason.last_try = event.at;
                    reason.attempts = event.count;
                    answer.add(reason);
                }
                None => {
                    let message = format!("{} pods have to be created", pods.len());
                    answer.add(Reason::new(Code::PodsMissing, NAME, message));
                }
            }
        }
        Action::Create(_) => {}
    }
}

/// The reason why a pod that is being deleted keeps the finalizer of Jobs.
///
/// The order of causes: a pod without Job, a pod that has not ended, a foreign manager, a missing Job, and
/// else the queue of the controller.
pub(crate) fn tracking(world: &World, pod: &Doc, answer: &mut Explanation) {
    let owners = pod.items("/metadata/ownerReferences").iter();
    let owner = owners
        .into_iter()
        .find(|owner| owner["kind"] == "Job" && owner["controller"] == true);
    let name = owner.and_then(|owner| owner["name"].as_str());
    let since = pod.deleted();
    let Some(name) = name else {
        let message = format!("finalizer {JOB_TRACKING}, and the pod has no Job any more");
        let reason =
            Reason::new(Code::JobTracking, NAME, message).who("operator of the controller manager");
        answer.add(reason.since(since));
        return;
    };
    // The queue tells the last failure of the sync of that Job.
    let key = format!("{}/{name}", pod.namespace());
    let mut causes = keys::of_key(world, NAME, &key, pod.namespace());
    causes.retain(|reason| reason.code.role() == steersman_why::Role::Cause);
    let job = world.get(&JOBS, pod.namespace(), name);
    let managed = job
        .clone()
        .found()
        .map(|job| job.text("/spec/managedBy").to_owned());
    let managed = managed.filter(|by| !by.is_empty() && by != BUILT_IN);
    let awaits_end = job.clone().found().and_then(|job| awaits_end(&job, pod));
    if awaits_end == Some(true) && managed.is_none() && causes.is_empty() {
        let message = format!(
            "finalizer {JOB_TRACKING}: Job {key} counts the pod after its end (podReplacementPolicy Failed)"
        );
        answer.add(Reason::new(Code::PodEndAwaited, NAME, message).since(since));
        return;
    }
    // The controller needs a moment, so only later is it a problem.
    let is_new = since.is_some_and(|at| world.now.duration_since(at) < COUNTED_AFTER);
    let message = match (&managed, job.is_absent()) {
        (Some(by), _) => {
            format!("finalizer {JOB_TRACKING}: {by} has not counted the pod for Job {key}")
        }
        (None, true) => {
            format!("finalizer {JOB_TRACKING}: Job {key} is gone, and the pod is released next")
        }
        (None, false) => format!(
            "finalizer {JOB_TRACKING}: the pod is not counted in the status of Job {key} yet"
        ),
    };
    let code = if is_new && causes.is_empty() && managed.is_none() {
        Code::JobUncounted
    } else {
        Code::JobTracking
    };
    let by = managed.as_deref().unwrap_or(NAME);
    answer.add(
        Reason::new(code, by, message)
            .who(format!("operator of {by}"))
            .since(since),
    );
    answer.reasons.extend(causes);
}
