//! Calls of webhooks, and connections to them and to aggregated APIs. A request awaits each answer, and
//! holds no lock meanwhile.

mod client;
pub(crate) mod exchange;
pub(crate) mod transport;
mod trust;

use futures::FutureExt;
use serde_json::Value;

pub(crate) use client::CallError;

use crate::Server;

/// A call of a webhook.
pub(crate) struct Call {
    /// The `clientConfig` of the webhook.
    pub(crate) client: Value,
    /// Time-out in seconds.
    pub(crate) seconds: u64,
    /// The review, whose `request` has no UID yet.
    pub(crate) review: Value,
}

/// The outcome of a call.
pub(crate) struct Answer {
    /// The UID of the request.
    pub(crate) uid: String,
    pub(crate) body: Result<Value, CallError>,
}

/// The result of a write by the server itself to an object of a built-in kind. Such a write calls no
/// webhook, so it has nothing to await.
pub(crate) fn at_once<T>(write: impl Future<Output = T>) -> T {
    let written = write.now_or_never();
    written.expect("the server's own writes call no webhook")
}

impl Server {
    /// Makes a call.
    pub(crate) async fn call(&self, mut call: Call) -> Answer {
        let uid = self.random.identities.uid();
        call.review["request"]["uid"] = Value::from(uid.as_str());
        // In a box of its own, because few requests need the room for a connection.
        let body = Box::pin(self.post_to(&call)).await;
        Answer { uid, body }
    }
}
