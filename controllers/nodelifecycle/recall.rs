//! The disruption of a node's zone, told as a reason for pods that are not evicted.

use steersman_why::{Code, Reason};

use super::NAME;
use super::zones::Zone;

/// The disruption around a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// No node has shown a sign of life in this leadership term. So taints wait, although some
    /// nodes look ready.
    Unknown,
    /// No node of the cluster is ready.
    Everywhere,
    /// Some node of the cluster is ready.
    Here,
}

/// The reason why `node`, which is not ready, has no NoExecute taint yet. `name` is that of its
/// zone. `None` if the node does not wait: then its pods are evicted, or no pass has seen it yet.
pub(super) fn recall(node: &str, name: &str, zone: &Zone, around: Around) -> Option<Reason> {
    let ready = zone.count.ready;
    let size = zone.count.size();
    let waiting = zone.queue.len();
    let rate = zone.queue.rate();
    let zone_of = match name {
        "" => String::new(),
        name => format!(" of zone {}", name.replace(":\0:", "/")),
    };
    let nodes = format!("{ready} of {size} nodes{zone_of} are ready");
    let stopped = |why: &str| {
        let message = format!("{nodes}: {why}, so the controller evicts no pods");
        Reason::new(Code::ZoneStopped, NAME, message)
            .who("administrator of the nodes and of the network between them and the control plane")
    };
    let slowed = |why: &str| Reason::new(Code::ZoneSlowed, NAME, format!("{nodes}: {why}"));
    let waits = zone.queue.has(node);
    let reason = match around {
        Around::Everywhere => stopped("no node of the cluster is ready"),
        Around::Unknown => slowed("no node has reported to this leader yet, so no pod is evicted"),
        Around::Here if !waits => return None,
        Around::Here if rate <= 0.0 => stopped(
            "the zone is small, and too many of its nodes are not ready (--large-cluster-size-threshold, --unhealthy-zone-threshold)",
        ),
        Around::Here => slowed(&format!(
            "{waiting} nodes wait for the taint that evicts their pods, and {rate} nodes per second get it"
        )),
    };
    Some(
        reason
            .field("ready", ready)
            .field("nodes", size)
            .field("waiting", waiting),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::super::zone_queue::ZoneQueue;
    use super::super::zones::{Count, ZoneState};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiting_node_learns_the_rate_of_its_zone() {
        let told = |rate: f32, waits: bool, around: Around| {
            let now = Instant::now();
            let mut queue = ZoneQueue::new(0.1, now);
            queue.set_rate(rate, now);
            if waits {
                queue.add(&Arc::from("n"));
            }
            let zone = Zone {
                state: ZoneState::PartialDisruption,
                count: Count {
                    ready: 2,
                    not_ready: 3,
                },
                queue,
            };
            recall("n", "eu:\0:a", &zone, around).map(|reason| (reason.code, reason.message))
        };
        // (rate, whether the node waits, disruption, code, part of the message)
        let cases = [
            (
                0.1,
                true,
                Around::Here,
                Code::ZoneSlowed,
                "0.1 nodes per second",
            ),
            (
                0.0,
                true,
                Around::Here,
                Code::ZoneStopped,
                "2 of 5 nodes of zone eu/a are ready: the zone is small",
            ),
            (
                0.0,
                false,
                Around::Everywhere,
                Code::ZoneStopped,
                "no node of the cluster",
            ),
            (
                0.1,
                true,
                Around::Unknown,
                Code::ZoneSlowed,
                "reported to this leader",
            ),
        ];
        for (rate, waits, around, code, part) in cases {
            let (found, message) = told(rate, waits, around).unwrap();
            assert_eq!(found, code, "{message}");
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(told(0.1, false, Around::Here), None);
    }
}
