//! How long kubelets may cache, by the number of nodes. The ranges of neighbours overlap, so that a
//! cluster of changing size does not switch to and fro.

struct Step {
    /// With fewer nodes, the step before it holds.
    min: usize,
    /// With more nodes, the next step holds.
    max: usize,
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

/// The step that holds for the nodes counted so far.
#[derive(Debug, Default)]
pub(super) struct Steps {
    nodes: usize,
    at: usize,
}

impl Steps {
    pub(super) fn node_added(&mut self) {
        self.nodes += 1;
        if self.nodes > STEPS[self.at].max {
            self.at += 1;
        }
    }

    pub(super) fn node_deleted(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if self.nodes < STEPS[self.at].min {
            self.at -= 1;
        }
    }

    /// Seconds for which kubelets may cache.
    pub(super) fn seconds(&self) -> i64 {
        STEPS[self.at].seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestDesiredTTL`. (added, nodes before, step before, seconds before, seconds
    /// after)
    #[test]
    fn desired_ttl() {
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
