//! The time of a server: it can stand still, and jump.
//!
//! All clocks and timers of the process follow Tokio's time. Tokio's paused time moves to the next timer
//! whenever no task has work, so a jump fires all timers in their order, with the work between them done.

use std::sync::mpsc;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_values::clock::Clock;
use tokio::sync::Mutex;

use super::faults::Time;
use super::{Refusal, Result};

/// The body of `POST /time`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Change {
    /// Whether time stands still from now on.
    stopped: Option<bool>,
    /// The time to move by, before `stopped` applies.
    advance: Option<Time>,
}

/// A blocking task that holds Tokio's paused time: it does not move while such a task runs. Dropping
/// this ends the task.
struct Hold(#[expect(dead_code, reason = "the task waits for its end")] mpsc::Sender<()>);

impl Hold {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || receiver.recv());
        Self(sender)
    }
}

/// The time of the process. It runs, or is held.
#[derive(Default)]
pub(super) struct Pace(Mutex<Option<Hold>>);

impl Pace {
    /// The time by `clock`, and whether it stands still.
    pub(super) async fn show(&self, clock: &Clock) -> Value {
        json!({"now": clock.now().to_string(), "stopped": self.0.lock().await.is_some()})
    }

    /// Moves the time, and stops it or lets it go on. Returns when both are done.
    pub(super) async fn change(&self, change: Change) -> Result<()> {
        if change.stopped.is_none() && change.advance.is_none() {
            return Err(Refusal::bad(
                "the body has neither \"stopped\" nor \"advance\"",
            ));
        }
        let mut hold = self.0.lock().await;
        let was_stopped = hold.is_some();
        if let Some(Time(by)) = change.advance {
            if !was_stopped {
                tokio::time::pause();
            }
            *hold = None;
            tokio::time::sleep(by).await;
            *hold = Some(Hold::new());
        }
        match (change.stopped.unwrap_or(was_stopped), hold.is_some()) {
            (true, false) => {
                tokio::time::pause();
                *hold = Some(Hold::new());
            }
            (false, true) => {
                tokio::time::resume();
                *hold = None;
            }
            (true, true) | (false, false) => {}
        }
        Ok(())
    }
}
