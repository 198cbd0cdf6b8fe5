//! The machine behind a simulated node, as an annotation on the Node tells it.
//!
//! The simulated cloud answers by the same annotation, so a node and the cloud agree.

/// Annotation on a Node with the state of its machine in the simulated cloud.
pub const MACHINE: &str = "simulate.steersman.dev/cloud";

/// The state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// The machine runs. This is the state without the annotation.
    Running,
    /// The cloud has shut the machine down.
    ShutDown,
    /// The machine exists no more.
    Deleted,
}

impl Machine {
    /// The state for this value of [`MACHINE`]. An unknown value counts as running.
    pub fn of(annotation: Option<&str>) -> Self {
        match annotation {
            Some("shutdown") => Self::ShutDown,
            Some("deleted") => Self::Deleted,
            _ => Self::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_stop_a_machine() {
        let states = [
            Some("shutdown"),
            Some("deleted"),
            Some("Deleted"),
            Some(""),
            None,
        ];
        let expected = [
            Machine::ShutDown,
            Machine::Deleted,
            Machine::Running,
            Machine::Running,
            Machine::Running,
        ];
        assert_eq!(states.map(Machine::of), expected);
    }
}
