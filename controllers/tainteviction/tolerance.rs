//! How long a pod may stay on a node with NoExecute taints.
//!
//! Upstream: `processPodOnNode` and `getMinTolerationTime` in `taint_eviction.go`.

use std::time::Duration;

use steersman_helpers::scheduling::{Comparisons, tolerates};
use steersman_objects::{Taint, Toleration};

/// The time for which a pod tolerates all taints of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    /// Some taint is not tolerated.
    None,
    /// All taints are tolerated for this time. It may be zero. The API accepts negative times, and
    /// they mean zero.
    For(Duration),
    /// All taints are tolerated for ever, also if there are none.
    Forever,
}

/// The NoExecute taints among `taints`. Only these evict pods.
pub(super) fn no_execute(taints: &[Taint]) -> impl Iterator<Item = &Taint> + Clone {
    taints.iter().filter(|taint| taint.effect == *"NoExecute")
}

/// The tolerance of a pod with `tolerations` on a node with `taints`.
///
/// For each taint, the first toleration that tolerates it counts. The shortest time of these
/// counts; a time below zero is zero.
pub(super) fn of_pod(
    taints: &[Taint],
    tolerations: &[Toleration],
    comparisons: Comparisons,
) -> Tolerance {
    let mut shortest: Option<i64> = None;
    for taint in no_execute(taints) {
        let mut tolerations = tolerations.iter();
        let Some(used) = tolerations.find(|known| tolerates(known, taint, comparisons)) else {
            return Tolerance::None;
        };
        // A toleration without a time is for ever, so the others decide.
        shortest = match (shortest, used.toleration_seconds) {
            (Some(known), Some(seconds)) => Some(known.min(seconds)),
            (known, seconds) => known.or(seconds),
        };
    }
    shortest.map_or(Tolerance::Forever, |seconds| {
        Tolerance::For(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    })
}
