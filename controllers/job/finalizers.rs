//! Removals of the tracking finalizer that the cache does not show yet.
//!
//! A sync must not count a pod again after it removed the finalizer. Own writes delay a sync until
//! the cache has reached the version of such a write. The UIDs here also hold if the watch omitted
//! the event. Upstream: `uidTrackingExpectations` in `tracking_utils.go`.
//!
//! They are the third safeguard against a second count, after the UIDs in the status and the finalizer
//! itself.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use steersman_client::ApiError;
use steersman_objects::{JOB_TRACKING, ObjectKey, Uid};
use steersman_runtime::consistency::Memory;

/// UIDs of pods with a removed finalizer, by the key of their Job. They never expire. A removal that no event
/// shows would otherwise let a pod count twice after some minutes.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<HashMap<ObjectKey, HashSet<Uid>>>);

impl Removals {
    /// Expects the removal of the finalizer from the pods with these UIDs. It is called before the requests,
    /// so that the event of a fast request is not missed.
    pub(super) fn expect(&self, job: &ObjectKey, pods: impl Iterator<Item = Uid>) {
        let mut pods = pods.peekable();
        if pods.peek().is_some() {
            self.all().entry(job.clone()).or_default().extend(pods);
        }
    }

    /// The cache shows `pod` without the finalizer, or the removal failed. Unknown Jobs and pods have no
    /// effect, since events of all pods come here.
    pub(super) fn observed(&self, job: &ObjectKey, pod: &Uid) {
        let mut all = self.all();
        let Some(expected) = all.get_mut(job) else {
            return;
        };
        expected.remove(pod);
        if expected.is_empty() {
            all.remove(job);
        }
    }

    /// The expected removals for `job`. A copy, since a sync compares many pods with it, and events change
    /// the original meanwhile.
    pub(super) fn expected(&self, job: &ObjectKey) -> HashSet<Uid> {
        self.all().get(job).cloned().unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, HashSet<Uid>>> {
        self.0.lock()
    }
}

impl Memory for Removals {
    fn forget(&self, job: &ObjectKey) {
        self.all().remove(job);
    }

    // A restored pod has its finalizer again, and must be counted again.
    fn history_went_back(&self) {
        self.all().clear();
    }
}

/// The strategic merge patch that adds or removes the finalizer. It names one member of the list, so finalizers
/// of other controllers stay.
///
/// Upstream's patch lacks the UID. Here it protects a new pod of the same name. Upstream:
/// `removeTrackingFinalizerPatch`.
#[derive(Debug, Serialize)]
pub(super) struct FinalizerPatch<'a> {
    metadata: Metadata<'a>,
}

#[derive(Debug, Serialize)]
struct Metadata<'a> {
    uid: &'a Uid,
    #[serde(flatten)]
    change: Change,
}

#[derive(Debug, Serialize)]
enum Change {
    #[serde(rename = "finalizers")]
    Add([&'static str; 1]),
    #[serde(rename = "$deleteFromPrimitiveList/finalizers")]
    Remove([&'static str; 1]),
}

impl<'a> FinalizerPatch<'a> {
    /// Gives the pod with this UID the finalizer.
    pub(super) fn add(uid: &'a Uid) -> Self {
        Self::of(uid, Change::Add([JOB_TRACKING]))
    }

    /// Takes the finalizer from the pod with this UID.
    pub(super) fn remove(uid: &'a Uid) -> Self {
        Self::of(uid, Change::Remove([JOB_TRACKING]))
    }

    fn of(uid: &'a Uid, change: Change) -> Self {
        Self {
            metadata: Metadata { uid, change },
        }
    }
}

/// Whether a removal failed because the pod is gone, or because another pod has its name. An invalid
/// update of the pod for other reasons, such as a webhook, is a failure.
pub(super) fn is_gone(error: &ApiError) -> bool {
    error.is_object_not_found() || error.is_about_another_uid()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(names: &[&str]) -> HashSet<Uid> {
        names.iter().map(|name| Uid::new(name)).collect()
    }

    #[test]
    fn removals_are_expected_until_observed() {
        let removals = Removals::default();
        let jobs = ["default/a", "default/b"].map(|name| ObjectKey::new("default", name));
        // (upstream's case, UIDs expected, UIDs observed, UIDs left)
        let cases: [(&str, &[&str], &[&str], &[&str]); 3] = [
            ("simple", &["foo", "bar"], &["foo"], &["bar"]),
            (
                "multiple",
                &["foo", "bar", "baz"],
                &["foo", "baz"],
                &["bar"],
            ),
            ("all observed, one twice", &["foo"], &["foo", "foo"], &[]),
        ];
        for (why, expected, observed, left) in cases {
            for job in &jobs {
                removals.expect(job, uids(expected).into_iter());
            }
            for uid in uids(observed) {
                removals.observed(&jobs[0], &uid);
            }
            assert_eq!(removals.expected(&jobs[0]), uids(left), "{why}");
            assert_eq!(
                removals.expected(&jobs[1]),
                uids(expected),
                "{why}: other Job"
            );
            jobs.iter().for_each(|job| removals.forget(job));
            assert!(removals.all().is_empty(), "{why}");
        }
    }

    #[test]
    fn the_patches_change_only_this_finalizer_of_this_pod() {
        let uid = Uid::new("p1");
        // (patch, JSON)
        let cases = [
            (
                FinalizerPatch::add(&uid),
                r#"{"metadata":{"uid":"p1","finalizers":["batch.kubernetes.io/job-tracking"]}}"#,
            ),
            (
                FinalizerPatch::remove(&uid),
                r#"{"metadata":{"uid":"p1","$deleteFromPrimitiveList/finalizers":["batch.kubernetes.io/job-tracking"]}}"#,
            ),
        ];
        for (patch, json) in cases {
            assert_eq!(serde_json::to_string(&patch).unwrap(), json);
        }
    }
}
