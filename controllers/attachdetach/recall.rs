//! The wait before a volume leaves its node, told as a reason.
//!
//! No object shows this wait: the time runs in the memory of the leader.

use jiff::Timestamp;
use steersman_objects::Node;
use steersman_values::intern::Sym;
use steersman_why::{Code, Reason};
use tokio::time::Instant;

use super::world::{Leave, Surroundings};
use super::{NAME, Shared};

impl Shared {
    /// The reason why a volume is still attached. `key` is `NODE/VOLUMEATTACHMENT`.
    ///
    /// `None` if a pod wants the volume, or if nothing holds it any more.
    pub(super) fn recall(&self, key: &str, now: Timestamp) -> Option<Reason> {
        let (node, attachment) = key.split_once('/')?;
        let node = Sym::new(node);
        let around = Surroundings {
            nodes: &self.nodes,
            attachments: &self.attachments,
            now: Instant::now(),
            forces_on_timeout: self.forces_on_timeout,
        };
        let mut world = self.world();
        let volume = world.volume_of(attachment, &node)?;
        if world.desired.get(&volume, &node).is_some() {
            return None;
        }
        // The same decision as in a step. Its clock may start here, as it would in the step.
        let Leave::InUse { forced_at } = world.may_leave(&volume, &node, &around) else {
            return None;
        };
        drop(world);
        let is_ready = around.node(&node).as_deref().is_some_and(Node::is_ready);
        Some(in_use(
            &node,
            is_ready,
            self.forces_on_timeout,
            forced_at.map(|at| after(now, at)),
        ))
    }
}

/// The time of `at`, which is in the future.
fn after(now: Timestamp, at: Instant) -> Timestamp {
    let left = at.saturating_duration_since(Instant::now());
    now.checked_add(left).unwrap_or(Timestamp::MAX)
}

/// The reason for a volume that no pod wants and that its node reports in use.
///
/// Three cases: a ready node, force that is switched off, and the six minutes.
fn in_use(node: &str, is_ready: bool, forces: bool, forced_at: Option<Timestamp>) -> Reason {
    let message = format!(
        "no pod on {node} wants the volume, but the node reports it in use (status.volumesInUse)"
    );
    let reason = |rest: &str| Reason::new(Code::DetachWaits, NAME, format!("{message}{rest}"));
    if is_ready {
        return reason(": its kubelet unmounts the volume first, and a ready node is never forced")
            .who(format!("administrator of node {node}"));
    }
    if !forces {
        return reason(
            ", the node is not ready, and --disable-force-detach-on-timeout forbids force",
        )
        .who(format!(
            "administrator of node {node} (taint it node.kubernetes.io/out-of-service if it is off)"
        ));
    }
    reason(" and is not ready: the volume is detached by force six minutes after the last pod")
        .who(format!("administrator of node {node} (the taint node.kubernetes.io/out-of-service ends the wait)"))
        .next(forced_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_force_has_an_end_only_if_force_may_come() {
        let at: Timestamp = "2026-11-28T12:06:00Z".parse().unwrap();
        // (ready, force on timeout, part of the message, end)
        let cases = [
            (true, true, "never forced", None),
            (false, false, "forbids force", None),
            (false, true, "by force six minutes after", Some(at)),
        ];
        for (is_ready, forces, part, end) in cases {
            let reason = in_use("node-1", is_ready, forces, Some(at));
            assert!(reason.message.contains(part), "{}", reason.message);
            assert_eq!(reason.next_try, end, "{part}");
        }
    }
}
