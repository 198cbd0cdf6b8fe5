//! The waits of a run. On a paused clock they cost nothing, so they are as long as the longest delay of a
//! manager. In real time they are as short as the faults allow.

use std::time::Duration;

/// Durations of faults, and of waits for their effects.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Time without a write after which a reference run is in its final state.
    pub(crate) quiet: Duration,
    /// Time after the final state in which all watches receive the last changes. The reference run
    /// counts the events and requests of this time, so plans cover them.
    pub(crate) last_events: Duration,
    /// Time without a change that every run must show after its final state.
    pub(crate) stable: Duration,
    /// Time after the final state during which the fault may still cause writes.
    pub(crate) settle: Duration,
    /// Allowed delay beyond the duration of the fault.
    pub(crate) slack: Duration,
    /// Duration of a stale view.
    pub(crate) lag: Duration,
    /// Time from a crash to the next start.
    pub(crate) restart: Duration,
    /// Time for which discovery hides a group.
    pub(crate) hidden: Duration,
    /// Limit of each wait in a reference run.
    pub(crate) reference: Duration,
}

impl Pace {
    /// The paused clock. `slack` is shorter than the five minutes after which expectations expire, and
    /// shorter than the life of a watch. `settle` is longer than any fault. `hidden` is longer than the
    /// interval at which the garbage collector reads discovery.
    pub(crate) const PAUSED: Self = Self {
        quiet: Duration::from_secs(90),
        last_events: Duration::from_secs(5),
        stable: Duration::from_secs(600),
        settle: Duration::from_secs(90),
        slack: Duration::from_secs(60),
        lag: Duration::from_secs(20),
        restart: Duration::from_secs(1),
        hidden: Duration::from_secs(40),
        reference: Duration::from_secs(30 * 60),
    };

    /// Real time. The start of a program takes some seconds on a busy machine. Work that a manager does
    /// later than `quiet` after the last write is not seen.
    pub(crate) const REAL: Self = Self {
        quiet: Duration::from_secs(6),
        last_events: Duration::from_secs(1),
        stable: Duration::from_secs(4),
        settle: Duration::from_secs(4),
        slack: Duration::from_secs(45),
        lag: Duration::from_secs(6),
        restart: Duration::from_millis(200),
        hidden: Duration::from_secs(15),
        reference: Duration::from_secs(90),
    };
}
