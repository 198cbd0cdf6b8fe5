//! Why a deleted claim keeps its finalizer: the pods that hold it.
//!
//! The answer repeats the decision of the controller; see `usage.rs`.

use steersman_objects::{PersistentVolumeClaim, Pod};
use steersman_values::resource::PODS;
use steersman_why::{Code, Doc, Explanation, Reason, World};

use super::NAME;
use super::usage::holds;

/// Pods in one answer.
///
/// The rest is a number, since a claim of a shared volume may have thousands of pods.
const SHOWN: usize = 3;

/// Adds the pods for which the deletion of `doc`, a claim, waits.
///
/// The claim and the list of pods are needed, since a guess could mislead.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(claim) = doc.view::<PersistentVolumeClaim>() else {
        return;
    };
    let Some(pods) = world.list(&PODS, doc.namespace()) else {
        return;
    };
    let holds = |pod: &&Doc| pod.view::<Pod>().is_some_and(|pod| holds(&pod, &claim));
    let users: Vec<&Doc> = pods.iter().filter(holds).collect();
    let since = doc.deleted();
    if users.is_empty() {
        // The failure of the controller is known.
        if answer.causes().any(|(_, cause)| cause.by == NAME) {
            return;
        }
        // 30 seconds are ample for a sync and its write. Later, the controller itself is the likely
        // cause.
        let late = since.is_some_and(|at| world.now.duration_since(at).as_secs() > 30);
        let (code, left, who) = if late {
            (
                Code::Finalizer,
                "the controller has not removed the finalizer",
                "operator of the controller manager: it does not run, lacks rights, is refused or is behind",
            )
        } else {
            (Code::SyncQueued, "the finalizer is removed next", "")
        };
        let message =
            format!("finalizer kubernetes.io/pvc-protection: no pod uses the claim, and {left}");
        answer.add(Reason::new(code, NAME, message).who(who).since(since));
        return;
    }
    let names: Vec<&str> = users.iter().take(SHOWN).map(|pod| pod.name()).collect();
    let more = users.len() - names.len();
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let message = format!(
        "finalizer kubernetes.io/pvc-protection: pods use the claim: {}{more}",
        names.join(", ")
    );
    let reason = Reason::new(Code::ClaimInUse, NAME, message)
        .who("owner of these pods: the claim goes after them")
        .field("pods", users.len());
    answer.add(reason.since(since));
    // A pod that is being deleted may wait for its own finalizers or its kubelet; the answer goes on
    // there.
    for pod in users
        .iter()
        .take(SHOWN)
        .filter(|pod| pod.deleted().is_some())
    {
        answer.follow(world.explain(&PODS, pod));
    }
}
