//! The LeaseCandidate of this process, for a coordinated election.
//!
//! The API server chooses the holder of the Lease among the LeaseCandidates that name it: the one with
//! the oldest emulated release. Before an election it pings each candidate by `spec.pingTime`. A
//! candidate answers by a new `spec.renewTime` within five seconds, and renews it every five minutes.
//!
//! Upstream: `leasecandidate.go` of `client-go/tools/leaderelection`. A candidate that somebody deleted
//! is created again at once, and not within five minutes.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use steersman_client::{ApiClient, ApiError, Target};
use steersman_values::clock::{Clock, micro_time};
use steersman_values::resource::LEASE_CANDIDATES;

use super::watch::{Seen, Watched, changes};
use crate::tasks::CancellationToken;

/// The pause between renewals without a ping. Upstream: `requeueInterval`.
const RENEWAL: Duration = Duration::from_secs(300);
/// The shortest and the longest pause after a failure. Upstream's queue has 5 ms and 1000 s.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The namespace of LeaseCandidates of kube-controller-manager. The Lease may be in another one.
const NAMESPACE: &str = "kube-system";

/// A candidate: its name, and the fields by which the API server chooses.
pub struct Candidacy {
    /// Sends the requests.
    pub client: ApiClient,
    /// The time of renewals.
    pub clock: Clock,
    /// The identity of this process, as in the Lease.
    pub identity: String,
    /// Name of the Lease.
    pub lease: String,
    /// The release of this program, such as `1.36.2`.
    pub binary_version: String,
    /// The release that it equals, such as `1.36.0`.
    pub emulation_version: String,
}

impl Candidacy {
    /// Creates the LeaseCandidate, and keeps it renewed until `stop`. It runs beside the election,
    /// also while this process leads. The LeaseCandidate stays after `stop`, and the API server
    /// deletes it when it is old.
    pub async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.renew()).await;
    }

    async fn renew(&self) {
        let candidate = Watched {
            client: self.client.clone(),
            resource: &LEASE_CANDIDATES,
            namespace: NAMESPACE.to_owned(),
            name: self.identity.clone(),
            retry_period: RETRY,
        };
        // A hint only: without the watch, a ping is missed and the next renewal comes by time.
        let pings = changes(candidate, wants_renewal);
        let mut pings = pin!(pings.filter(|wants| ready(*wants)));
        let mut retry = RETRY;
        loop {
            let pause = match self.ensure().await {
                Ok(()) => {
                    retry = RETRY;
                    RENEWAL
                }
                Err(error) => {
                    tracing::error!(%error, candidate = self.identity, "Ensuring lease candidate failed");
                    let pause = retry;
                    retry = (retry * 2).min(LONGEST_RETRY);
                    pause
                }
            };
            tokio::select! {
                _ = pings.next() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn target<'a>(&'a self, name: Option<&'a str>) -> Target<'a> {
        Target {
            resource: &LEASE_CANDIDATES,
            namespace: Some(NAMESPACE),
            name,
            subresource: None,
        }
    }

    /// Creates the LeaseCandidate, or renews it. Reads the live object where upstream reads its
    /// cache. Upstream: `ensureLease`.
    async fn ensure(&self) -> Result<(), ApiError> {
        let named = self.target(Some(&self.identity));
        let live = match self.client.get(named).await {
            Ok(live) => serde_json::from_slice::<Value>(&live).unwrap_or_default(),
            Err(error) if error.is_object_not_found() => {
                self.client.create(self.target(None), &self.body()).await?;
                tracing::info!(candidate = self.identity, "Created lease candidate");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // The whole document goes back, so `pingTime` and unknown fields stay.
        let mut renewed = live;
        renewed["spec"]["renewTime"] = json!(micro_time(self.clock.now()));
        self.client.replace(named, &renewed).await.map(|_| ())
    }

    fn body(&self) -> Value {
        json!({
            "apiVersion": LEASE_CANDIDATES.api_version(), "kind": LEASE_CANDIDATES.kind,
            "metadata": {"name": self.identity, "namespace": NAMESPACE},
            "spec": {
                "leaseName": self.lease,
                "binaryVersion": self.binary_version,
                "emulationVersion": self.emulation_version,
                // The only strategy that the API knows.
                "strategy": "OldestEmulationVersion",
                "renewTime": micro_time(self.clock.now()),
            },
        })
    }
}

#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    object: Served,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Served {
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    /// When the API server last asked.
    ping_time: Option<Timestamp>,
    /// When a candidate last answered.
    renew_time: Option<Timestamp>,
}

/// Whether a watch event asks for a renewal: the API server pinged, or the LeaseCandidate is gone.
fn wants_renewal(line: &[u8]) -> Seen<bool> {
    let Ok(frame) = serde_json::from_slice::<Frame>(line) else {
        return Seen::Failure;
    };
    let Spec {
        ping_time,
        renew_time,
    } = frame.object.spec;
    match &*frame.kind {
        "ADDED" | "MODIFIED" => Seen::Change(ping_time.is_some() && ping_time > renew_time),
        "DELETED" => Seen::Change(true),
        "BOOKMARK" => Seen::Bookmark,
        // An ERROR frame, such as that of an expired version.
        _ => Seen::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_after_the_last_renewal_wants_an_answer() {
        let [early, late] = ["2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000002Z"];
        // (type, ping, renewal, expected)
        let cases = [
            ("ADDED", None, Some(early), Seen::Change(false)),
            ("ADDED", Some(late), Some(early), Seen::Change(true)),
            ("MODIFIED", Some(late), Some(early), Seen::Change(true)),
            ("MODIFIED", Some(early), Some(early), Seen::Change(false)),
            ("MODIFIED", Some(early), Some(late), Seen::Change(false)),
            ("MODIFIED", Some(early), None, Seen::Change(true)),
            ("DELETED", None, Some(early), Seen::Change(true)),
            ("BOOKMARK", None, None, Seen::Bookmark),
            ("ERROR", None, None, Seen::Failure),
        ];
        for (kind, ping, renewal, expected) in cases {
            let spec = json!({"pingTime": ping, "renewTime": renewal});
            let frame = json!({"type": kind, "object": {"spec": spec}});
            let line = frame.to_string();
            assert_eq!(wants_renewal(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(wants_renewal(b"not json"), Seen::Failure);
    }
}
