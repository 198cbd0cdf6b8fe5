//! The behaviour of a node, by the annotation [`BEHAVIOUR`](super::BEHAVIOUR) on it.
//!
//! | value | Lease | status | pods |
//! |---|---|---|---|
//! | none | every 10 s | every 5 minutes | served |
//! | `dead` | never | never | left alone |
//! | `no-status` | every 10 s | never | served |
//! | `flapping` | as `dead` for a minute, then as without the annotation for a minute, and so on | | |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The time for which a flapping node stays dead or alive.
const FLAP: Duration = Duration::from_secs(60);

/// A behaviour that differs from that of a healthy node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Dead,
    NoStatus,
    Flapping,
}

impl Behaviour {
    /// The values of the annotation.
    pub(super) const VALUES: [(&str, Self); 3] = [
        ("dead", Self::Dead),
        ("flapping", Self::Flapping),
        ("no-status", Self::NoStatus),
    ];

    /// The behaviour with this name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let found = Self::VALUES.iter().find(|(name, _)| *name == text);
        found.map(|(_, behaviour)| *behaviour)
    }

    /// The state of a node that has behaved like this for a time.
    fn after(self, time: Duration) -> Condition {
        let (is_dead, changes_in) = match self {
            Self::Dead => (true, None),
            Self::NoStatus => (false, None),
            Self::Flapping => {
                let flaps = time.as_secs() / FLAP.as_secs();
                let next = FLAP * u32::try_from(flaps + 1).unwrap_or(u32::MAX);
                (flaps.is_multiple_of(2), Some(next.saturating_sub(time)))
            }
        };
        Condition {
            is_dead,
            posts_status: !is_dead && self != Self::NoStatus,
            changes_in,
        }
    }
}

/// What a node does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) is_dead: bool,
    pub(super) posts_status: bool,
    /// Time to the next change without a change of the annotation.
    pub(super) changes_in: Option<Duration>,
}

impl Condition {
    const HEALTHY: Self = Self {
        is_dead: false,
        posts_status: true,
        changes_in: None,
    };
}

/// The behaviours of all nodes that are not healthy. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Behaviours(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Behaviours, and the times of their begin.
    known: HashMap<Box<str>, (Behaviour, Instant)>,
    /// Nodes that were dead at the last look.
    dead: HashSet<Box<str>>,
}

impl Behaviours {
    /// Notes the behaviour of a node; true if it is another one than before.
    pub(super) fn note(&self, node: &str, behaviour: Option<Behaviour>) -> bool {
        let mut state = self.state();
        let before = state.known.get(node).map(|(before, _)| *before);
        if behaviour == before {
            return false;
        }
        match behaviour {
            Some(behaviour) => {
                state.known.insert(node.into(), (behaviour, Instant::now()));
                if behaviour.after(Duration::ZERO).is_dead {
                    state.dead.insert(node.into());
                }
            }
            None => drop(state.known.remove(node)),
        }
        true
    }

    /// Forgets a deleted node.
    pub(super) fn forget(&self, node: &str) {
        let mut state = self.state();
        state.known.remove(node);
        state.dead.remove(node);
    }

    pub(super) fn is_dead(&self, node: &str) -> bool {
        self.state().condition(node).is_dead
    }

    /// What the node does now, and whether it has come back to life since the last look.
    pub(super) fn look(&self, node: &str) -> (Condition, bool) {
        let mut state = self.state();
        let condition = state.condition(node);
        if condition.is_dead {
            state.dead.insert(node.into());
            return (condition, false);
        }
        (condition, state.dead.remove(node))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn condition(&self, node: &str) -> Condition {
        let found = self.known.get(node);
        found.map_or(Condition::HEALTHY, |(behaviour, since)| {
            behaviour.after(since.elapsed())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flapping_nodes_change_every_minute() {
        // (seconds, dead, seconds to the next change)
        let cases = [
            (0, true, 60),
            (59, true, 1),
            (60, false, 60),
            (119, false, 1),
            (120, true, 60),
            (86_400, true, 60),
        ];
        for (seconds, is_dead, next) in cases {
            let found = Behaviour::Flapping.after(Duration::from_secs(seconds));
            let expected = Condition {
                is_dead,
                posts_status: !is_dead,
                changes_in: Some(Duration::from_secs(next)),
            };
            assert_eq!(found, expected, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_dead_comes_back_once() {
        let behaviours = Behaviours::default();
        let back = || behaviours.look("n").1;
        assert!(!back());
        assert!(behaviours.note("n", Some(Behaviour::Dead)));
        assert!(!behaviours.note("n", Some(Behaviour::Dead)) && behaviours.is_dead("n"));
        // The annotation goes before the first look.
        assert!(behaviours.note("n", None) && !behaviours.is_dead("n"));
        assert_eq!([back(), back()], [true, false]);

        behaviours.note("n", Some(Behaviour::Flapping));
        let mut found = Vec::new();
        for _ in 0..4 {
            found.push((behaviours.is_dead("n"), back()));
            tokio::time::sleep(FLAP).await;
        }
        let expected = [(true, false), (false, true), (true, false), (false, true)];
        assert_eq!(found, expected);

        behaviours.note("n", Some(Behaviour::Dead));
        behaviours.forget("n");
        assert_eq!(behaviours.look("n"), (Condition::HEALTHY, false));
    }

    #[test]
    fn names_of_behaviours_are_exact() {
        for (text, behaviour) in Behaviour::VALUES {
            assert_eq!(Behaviour::parse(text), Some(behaviour));
        }
        for text in ["", "Dead", "dead ", "hang"] {
            assert_eq!(Behaviour::parse(text), None, "{text:?}");
        }
    }
}
