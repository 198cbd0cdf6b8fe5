//! The present manager, as far as its Lease shows it.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::compare::Live;

/// Duration of a Lease that names none. Upstream: `--leader-elect-lease-duration`.
const DURATION: u64 = 15;

/// The state of the leadership at a look at the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// The same leader as before, or a manager without a Lease.
    Same,
    /// Another leader, whose controllers start now.
    New,
    /// The Lease has no holder, or its holder has not renewed it in time. So no manager writes.
    Nobody,
}

/// The holder of the Lease.
pub(super) struct Present {
    /// Path of the Lease at the API server.
    pub(super) lease: String,
    /// The last holder, once the Lease was seen.
    holder: Option<String>,
    /// Whether the Lease was seen without a holder since then.
    was_free: bool,
    /// The last renewal, and when it was seen. The clocks of machines may differ.
    renewed: Option<(Value, Instant)>,
}

impl Present {
    /// The manager that leads by the Lease `name` in `namespace`.
    pub(super) fn of_lease(namespace: &str, name: &str) -> Self {
        Self {
            lease: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"),
            holder: None,
            was_free: false,
            renewed: None,
        }
    }

    /// The time at which the last renewal was seen. `None` before the first look, and without a Lease.
    pub(super) fn renewed(&self) -> Option<Instant> {
        self.renewed.as_ref().map(|(_, seen)| *seen)
    }

    /// Judges `lease`, read at `now`. The leader of the first look is no new one: its controllers may have run
    /// for long.
    pub(super) fn see(&mut self, lease: &Live, now: Instant) -> Sight {
        let Live::Object(lease) = lease else {
            self.was_free = true;
            return Sight::Same;
        };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder.is_empty() {
            self.was_free = true;
            return Sight::Nobody;
        }
        let is_other = self.holder.as_deref().is_some_and(|last| last != holder);
        self.holder = Some(holder.to_owned());
        let is_renewed = |(last, _): &(Value, Instant)| *last != spec["renewTime"];
        if is_other || self.renewed.as_ref().is_none_or(is_renewed) {
            self.renewed = Some((spec["renewTime"].clone(), now));
        }
        if std::mem::take(&mut self.was_free) || is_other {
            return Sight::New;
        }
        let duration = spec["leaseDurationSeconds"].as_u64().unwrap_or(DURATION);
        let since = self.renewed.as_ref().map_or(now, |(_, since)| *since);
        if now.duration_since(since) > Duration::from_secs(duration) {
            Sight::Nobody
        } else {
            Sight::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_holder_or_a_gap_shows_a_new_leader() {
        use Sight::{New, Nobody, Same};
        let held = |by: &str, renewed: u32| {
            let spec =
                json!({"holderIdentity": by, "renewTime": renewed, "leaseDurationSeconds": 15});
            Live::Object(json!({ "spec": spec }))
        };
        // (looks, ten seconds apart; states)
        let cases = [
            (vec![held("a", 1), held("a", 2)], vec![Same, Same]),
            (
                vec![held("a", 1), held("b", 2), held("b", 3)],
                vec![Same, New, Same],
            ),
            (
                vec![held("a", 1), held("", 2), held("a", 3)],
                vec![Same, Nobody, New],
            ),
            (
                vec![Live::Absent, held("a", 1), held("a", 2)],
                vec![Same, New, Same],
            ),
            (vec![Live::Absent, Live::Absent], vec![Same, Same]),
            (
                vec![held("a", 1), held("a", 1), held("a", 1), held("a", 2)],
                vec![Same, Same, Nobody, Same],
            ),
            (
                vec![held("a", 1), held("a", 1), held("a", 1), held("b", 1)],
                vec![Same, Same, Nobody, New],
            ),
        ];
        for (looks, expected) in cases {
            let mut present = Present::of_lease("kube-system", "kube-controller-manager");
            let mut now = Instant::now();
            for (look, expected) in looks.iter().zip(expected) {
                assert_eq!(present.see(look, now), expected, "{looks:?}");
                now += Duration::from_secs(10);
            }
        }
    }
}
