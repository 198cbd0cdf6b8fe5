//! Gathers wake-ups of the manager's thread while the API server is busy.
//!
//! The kernel wakes a thread for each watch event and each answer that arrives alone, and the thread
//! finds its code and data out of the processor's caches. Before it waits for events, the thread
//! therefore pauses for a part of the time that requests take. Events that arrive in this pause are
//! handled together. An event after the pause wakes the thread at once, so an idle manager reacts
//! without delay. A request's answer comes after the pause that begins when the request is sent, so
//! requests one after the other take no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The longest pause.
const LONGEST: Duration = Duration::from_millis(10);
/// How many times as long as a pause requests take.
const REQUEST_PER_PAUSE: u32 = 2;
/// How many answers change the usual time of a request by two thirds of a difference.
const ANSWERS: i64 = 8;

/// The usual time of a request, and the pauses that follow from it. Cheap to clone; clones share
/// one state.
#[derive(Debug, Clone, Default)]
pub struct WakePace {
    /// The moving mean of requests, in nanoseconds.
    usual: Arc<AtomicU64>,
}

impl WakePace {
    /// Records that a request was answered after `time`.
    pub(crate) fn answered(&self, time: Duration) {
        // A slow webhook must not hide the requests around it.
        let time = time.min(LONGEST * REQUEST_PER_PAUSE).as_nanos() as i64;
        let usual = self.usual.load(Ordering::Relaxed) as i64;
        // A sample that another thread overwrites is no loss.
        let next = usual + (time - usual) / ANSWERS;
        self.usual.store(next as u64, Ordering::Relaxed);
    }

    /// The time for which the thread pauses: half a request's usual time, at most 10 ms. No
    /// time before the first answer.
    pub fn pause(&self) -> Duration {
        Duration::from_nanos(self.usual.load(Ordering::Relaxed)) / REQUEST_PER_PAUSE
    }

    /// Blocks the thread for [`WakePace::pause`]. Only for a thread that has nothing left to do.
    pub fn block_for_pause(&self) {
        let pause = self.pause();
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn after(answers: &[(usize, Duration)]) -> Duration {
        let pace = WakePace::default();
        for (times, time) in answers {
            for _ in 0..*times {
                pace.answered(*time);
            }
        }
        pace.pause()
    }

    #[test]
    fn a_pause_is_half_a_request() {
        for (what, answers, least, most) in [
            ("no answer", &[][..], 0, 0),
            ("a fast API server", &[(100, 400 * MS / 1000)], 190, 200),
            ("a usual API server", &[(100, 4 * MS)], 1_990, 2_000),
            ("a busy API server", &[(100, 3000 * MS)], 9_990, 10_000),
            (
                "one slow answer",
                &[(100, 4 * MS), (1, 9000 * MS)],
                2_990,
                3_000,
            ),
            (
                "answers after it",
                &[(1, 9000 * MS), (40, 4 * MS)],
                1_990,
                2_010,
            ),
        ] {
            let micros = after(answers).as_micros();
            assert!((least..=most).contains(&micros), "{what}: {micros}");
        }
    }
}
