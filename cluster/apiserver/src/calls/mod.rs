//! Calls of webhooks: those that a request waits for, and the answers so far.
//!
//! Handlers of writes are not asynchronous, because they hold locks. A write that needs the answer
//! of a webhook therefore fails with [`Calls::pending`] set. Its caller then makes the call and
//! handles the write again, which finds the answer in [`Calls`]. Names, UIDs and answers stay the
//! same in every round.

mod client;
mod trust;

use std::collections::HashMap;
use std::fmt;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

pub(crate) use client::CallError;

use crate::Server;
use crate::status::Status;

/// The calls of one request of a client.
#[derive(Default)]
pub(crate) struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    answers: HashMap<String, Answer>,
    pending: Option<(String, Call)>,
    /// Random texts, which must not change when the write is handled again.
    drawn: HashMap<String, String>,
}

/// A call that a request waits for.
pub(crate) struct Call {
    /// The `clientConfig` of the webhook.
    pub(crate) client: Value,
    /// Time-out in seconds.
    pub(crate) seconds: u64,
    /// The review, whose `request` has no UID yet.
    pub(crate) review: Value,
}

/// The outcome of a call.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The UID of the request.
    pub(crate) uid: String,
    pub(crate) body: Result<Value, CallError>,
}

/// Reviews contain whole objects, such as Secrets, so they are not shown.
impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The answer to the call with this key. The error only tells that the call is still to be
    /// made.
    pub(crate) fn answer(
        &self,
        key: String,
        call: impl FnOnce() -> Call,
    ) -> Result<Answer, Status> {
        let mut state = self.state();
        if let Some(answer) = state.answers.get(&key) {
            return Ok(answer.clone());
        }
        state.pending = Some((key, call()));
        Err(Status::internal("the answer of a webhook is pending"))
    }

    /// Whether the last attempt of the write needs a further call.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state().pending.is_some()
    }

    /// The call that the last attempt of the write needs, with its key.
    pub(crate) fn pending(&self) -> Option<(String, Call)> {
        self.state().pending.take()
    }

    /// The text that `draw` makes, the same one for each `purpose`.
    pub(crate) fn drawn(&self, purpose: &str, draw: impl FnOnce() -> String) -> String {
        let mut state = self.state();
        let drawn = state.drawn.entry(purpose.to_owned());
        drawn.or_insert_with(draw).clone()
    }
}

impl Server {
    /// Makes a pending call, and keeps its answer for the next attempt of the write.
    pub(crate) async fn make_call(&self, calls: &Calls, (key, call): (String, Call)) {
        // In a box of its own, because an open watch keeps the room for its largest step.
        let answer = Box::pin(self.call(call)).await;
        calls.state().answers.insert(key, answer);
    }

    /// Makes a call.
    pub(crate) async fn call(&self, mut call: Call) -> Answer {
        let uid = self.random.identities.uid();
        call.review["request"]["uid"] = Value::from(uid.as_str());
        let body = self.post_to(&call).await;
        Answer { uid, body }
    }
}
