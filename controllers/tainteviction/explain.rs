//! Why a pod of a node with NoExecute taints is not evicted yet.

use jiff::Timestamp;
use steersman_helpers::scheduling::Comparisons;
use steersman_objects::{Node, Pod};
use steersman_values::resource::NODES;
use steersman_why::{Code, Doc, Explanation, Reason, World};

use super::NAME;
use super::tolerance::{Tolerance, no_execute, of_pod};

/// Adds the time for which `doc`, a pod, tolerates the taints of its node.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let node = doc.text("/spec/nodeName");
    if node.is_empty() || doc.deleted().is_some() {
        return;
    }
    let Some(found) = world.get(&NODES, "", node).found() else {
        return;
    };
    let Some(node) = found.view::<Node>() else {
        return;
    };
    let Some(pod) = doc.view::<Pod>() else {
        return;
    };
    let taints: Vec<String> = no_execute(&node.spec.taints)
        .map(|taint| taint.key.to_string())
        .collect();
    if taints.is_empty() {
        return;
    }
    let taints = taints.join(", ");
    let reason = match of_pod(
        &node.spec.taints,
        &pod.spec.tolerations,
        // The gates of the manager are unknown here, so tolerations by comparison are left out.
        Comparisons::Disabled,
    ) {
        Tolerance::None => Reason::new(
            Code::RolloutStep,
            NAME,
            format!("the pod does not tolerate {taints}, and is evicted next"),
        ),
        Tolerance::Forever => {
            let message =
                format!("the pod tolerates {taints} of its node for ever, so it is not evicted");
            Reason::new(Code::TaintTolerated, NAME, message)
                .who("owner of the pod template (tolerations)")
        }
        Tolerance::For(time) => {
            let since = tainted(&found);
            let due = since.and_then(|since| since.checked_add(time).ok());
            let message = format!(
                "the pod tolerates {taints} of its node for {} s, and is then evicted",
                time.as_secs()
            );
            Reason::new(Code::TaintTolerated, NAME, message)
                .since(since)
                .next(due)
        }
    };
    answer.add(reason);
}

/// The time of the newest NoExecute taint. The timer of a pod begins when the manager sees the taint,
/// so the result is an estimate.
fn tainted(node: &Doc) -> Option<Timestamp> {
    let taints = node.items("/spec/taints").iter();
    let no_execute = taints
        .into_iter()
        .filter(|taint| taint["effect"] == "NoExecute");
    no_execute
        .filter_map(|taint| taint["timeAdded"].as_str()?.parse().ok())
        .max()
}
