//! The time for which kubelets may cache Secrets and ConfigMaps, by the number of nodes.
//!
//! More nodes send more reads, so a longer time limits the load on the API server. Neighbouring
//! ranges overlap, so a cluster with a changing size does not alternate between two values.
//! Upstream: `ttlBoundaries` in `ttl_controller.go`.

/// A range of cluster sizes with the same time.
struct Step {
    /// With fewer nodes, the previous step applies.
    min: usize,
    /// With more nodes, the next step applies.
    max: usize,
    /// The time, in seconds.
    seconds: i64,
}

/// Upstream: `ttlBoundaries`.
const STEPS: [Step; 5] = [
    Step {
        min: 0,
        max: 100,
        seconds: 0,
    },
    Step {
        min: 90,
        max: 500,
        seconds: 15,
    },
    Step {
        min: 450,
        max: 1000,
        seconds: 30,
    },
    Step {
        min: 900,
        max: 2000,
        seconds: 60,
    },
    Step {
        min: 1800,
        max: i32::MAX as usize,
        seconds: 300,
    },
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
        if self.nodes > STEPS[self.at].max {
            self.at += 1;
        }
    }

    /// Counts a deleted node.
    pub(super) fn node_deleted(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if self.nodes < STEPS[self.at].min {
            self.at -= 1;
        }
    }

    /// The value of the annotation, in seconds.
    pub(super) fn seconds(&self) -> i64 {
        STEPS[self.at].seconds
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
