//! The time for which kubelets may cache Secrets and ConfigMaps, by the number of nodes.
//!
//! More nodes send more reads, so a longer time limits the load on the API server. Neighbouring
//! ranges overlap, so a cluster with a changing size does not alternate between two values.
//! Upstream: `ttlBoundaries` in `ttl_controller.go`.

/// (fewest nodes, most nodes, seconds): outside its range of nodes, a step gives way to its
/// neighbour. Upstream: `ttlBoundaries`.
const STEPS: [(usize, usize, i64); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, i32::MAX as usize, 300),
];

/// The number of nodes, and the step that applies to it.
///
/// The step depends on the history of the number, because the ranges overlap.
#[derive(Debug, Default)]
pub(super) struct Steps {
    nodes: usize,
    /// Index into [`STEPS`].
    at: usize,
}

impl Steps {
    /// Counts a new node.
    pub(super) fn node_added(&mut self) {
        self.nodes += 1;
        let (_, most, _) = STEPS[self.at];
        if self.nodes > most {
            self.at += 1;
        }
    }

    /// Counts a deleted node.
    pub(super) fn node_deleted(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        let (fewest, _, _) = STEPS[self.at];
        if self.nodes < fewest {
            self.at -= 1;
        }
    }

    /// The value of the annotation, in seconds.
    pub(super) fn seconds(&self) -> i64 {
        let (_, _, seconds) = STEPS[self.at];
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestDesiredTTL`.
    #[test]
    fn desired_ttl() {
        // (a node is added, nodes before, step before, seconds before, seconds after)
        let cases = [
            (true, 0, 0, 0, 0),
            (true, 99, 0, 0, 0),
            (true, 100, 0, 0, 15),
            (true, 101, 1, 15, 15),
            (true, 91, 1, 15, 15),
            (false, 91, 1, 15, 15),
            (false, 90, 1, 15, 0),
            (true, 1000, 2, 30, 60),
            (false, 1800, 4, 300, 60),
        ];
        for (added, nodes, at, before, after) in cases {
            let mut steps = Steps { nodes, at };
            assert_eq!(steps.seconds(), before, "{nodes} nodes");
            if added {
                steps.node_added()
            } else {
                steps.node_deleted()
            }
            assert_eq!(steps.seconds(), after, "{nodes} nodes, added: {added}");
        }
    }
}
