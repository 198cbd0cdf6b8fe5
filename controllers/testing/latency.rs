//! A slow API server, and the virtual time between a cause and its effects.
//!
//! Each request takes the same time, and nothing else takes any. So the time of a write tells how
//! many requests, one after the other, precede it; any further time is a delay of the controller.
//!
//! ```ignore
//! let world = World::bare().await.with_latency(Duration::from_millis(50));
//! // ... start controllers, wait until they are at rest
//! let cause = Instant::now();
//! world.patch("deployments", "web", json!({"spec": {"replicas": 3}})).await;
//! world.at_rest().await;
//! assert_eq!(
//!     world.writes_since(cause),
//!     ["50 ms: update replicasets", "100 ms: create pods", "150 ms: create pods * 2", ...],
//! );
//! ```

use std::time::Duration;

use steersman_devcluster::faults::Matcher;
use steersman_devcluster::requests::RequestRecord;
use tokio::time::Instant;

use super::world::World;

/// The part of the user agent that all clients of a [`World`] share. Requests of
/// [`World::cluster`], with which tests act, lack it.
const CLIENTS: &str = "kube-controller-manager";

impl World {
    /// Makes requests of controllers, informers and simulated nodes take `latency` from now on.
    ///
    /// The server handles a request at the end of this time. The answer and the watch events about
    /// it then arrive at one instant. Requests of the test take no time.
    pub(crate) fn with_latency(self, latency: Duration) -> Self {
        let clients = Matcher::default().client(CLIENTS);
        self.cluster.faults().delay(clients, latency, None);
        self
    }

    /// The writes of controllers since `cause`, without Events, in the order of their answers:
    /// `50 ms: create pods * 3`. Equal writes of one instant are one entry.
    pub(crate) fn writes_since(&self, cause: Instant) -> Vec<String> {
        let requests = self.cluster.requests();
        let writes = requests
            .iter()
            .filter(|r| r.answered >= cause && is_write(r));
        let mut entries: Vec<(String, usize)> = Vec::new();
        for write in writes {
            let entry = entry(write, cause);
            match entries.last_mut() {
                Some((last, count)) if *last == entry => *count += 1,
                _ => entries.push((entry, 1)),
            }
        }
        let texts = entries.into_iter().map(|(entry, count)| match count {
            1 => entry,
            _ => format!("{entry} * {count}"),
        });
        texts.collect()
    }
}

/// Whether a controller changed an object other than an Event.
fn is_write(request: &RequestRecord) -> bool {
    request.user_agent.ends_with("-controller")
        && !matches!(&*request.verb, "get" | "list" | "watch")
        && request.resource != "events"
}

fn entry(request: &RequestRecord, cause: Instant) -> String {
    let RequestRecord { verb, resource, .. } = request;
    let passed = (request.answered - cause).as_millis();
    let failure = match request.status {
        200..=299 => String::new(),
        status => format!(" is {status}"),
    };
    format!("{passed} ms: {verb} {resource}{failure}")
}

mod tests {
    use serde_json::json;
    use steersman_client::Target;
    use steersman_objects::Pod;

    use super::*;

    fn body(name: &str) -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
               "spec": {"containers": [{"name": "main", "image": "i"}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn only_requests_take_time_and_equal_writes_are_counted() {
        let world = World::bare().await.with_latency(Duration::from_millis(50));
        let cause = Instant::now();
        world.create(body("of-the-test")).await;
        assert_eq!(cause.elapsed(), Duration::ZERO);
        let client = (world.clients)("some-controller");
        let target = || Target::collection::<Pod>("default");
        let [a, b] = ["a", "b"].map(body);
        let (first, second) =
            tokio::join!(client.create(target(), &a), client.create(target(), &b));
        first.unwrap();
        second.unwrap();
        client.create(target(), &a).await.unwrap_err();
        assert_eq!(
            world.writes_since(cause),
            ["50 ms: create pods * 2", "100 ms: create pods is 409"]
        );
        assert_eq!(
            world.writes_since(Instant::now()),
            ["0 ms: create pods is 409"]
        );
    }
}
