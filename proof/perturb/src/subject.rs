//! The subject of the plans: the controllers of this project in this process, or a program.

use std::path::PathBuf;

use crate::pace::Pace;

/// The manager under test.
#[derive(Debug, Clone, Default)]
pub enum Subject {
    /// The controllers of the scenario, in this process, on a paused clock.
    #[default]
    InProcess,
    /// A program with the flags of kube-controller-manager, in real time.
    Program(PathBuf),
}

impl Subject {
    pub(crate) fn is_program(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    pub(crate) fn pace(&self) -> &'static Pace {
        match self {
            Self::InProcess => &Pace::PAUSED,
            Self::Program(_) => &Pace::REAL,
        }
    }
}
