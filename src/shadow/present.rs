//! The present manager, as far as its Lease shows it.

use super::compare::Live;

/// The holder of the Lease.
pub(super) struct Present {
    /// Path of the Lease at the API server.
    pub(super) lease: String,
    /// The last holder, once the Lease was seen.
    holder: Option<String>,
    /// Whether the Lease was seen without a holder since then.
    was_free: bool,
}

impl Present {
    /// The manager that leads by the Lease `name` in `namespace`.
    pub(super) fn of_lease(namespace: &str, name: &str) -> Self {
        Self {
            lease: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"),
            holder: None,
            was_free: false,
        }
    }

    /// Whether `lease` shows another leader than at the last look. The leader of the first look is no new one:
    /// its controllers may have run for long.
    pub(super) fn is_new_leader(&mut self, lease: &Live) -> bool {
        let holder = match lease {
            Live::Object(lease) => lease["spec"]["holderIdentity"].as_str().unwrap_or_default(),
            Live::Absent | Live::List(_) => "",
        };
        if holder.is_empty() {
            self.was_free = true;
            return false;
        }
        let is_other = self.holder.as_deref().is_some_and(|last| last != holder);
        self.holder = Some(holder.to_owned());
        std::mem::take(&mut self.was_free) || is_other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_holder_or_a_gap_shows_a_new_leader() {
        let held = |by: &str| Live::Object(json!({"spec": {"holderIdentity": by}}));
        // (looks, the one that shows a new leader)
        let cases = [
            (vec![held("a"), held("a")], None),
            (vec![held("a"), held("b"), held("b")], Some(1)),
            (vec![held("a"), held(""), held("a")], Some(2)),
            (vec![Live::Absent, held("a"), held("a")], Some(1)),
            (vec![Live::Absent, Live::Absent], None),
        ];
        for (looks, expected) in cases {
            let mut present = Present::of_lease("kube-system", "kube-controller-manager");
            let new: Vec<bool> = looks
                .iter()
                .map(|look| present.is_new_leader(look))
                .collect();
            let expected: Vec<bool> = (0..looks.len()).map(|at| Some(at) == expected).collect();
            assert_eq!(new, expected, "{looks:?}");
        }
    }
}
