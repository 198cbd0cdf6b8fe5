//! The holder of the Lease, its renewals, the hand-overs, and the caches that a standby has warm.

use serde_json::{Value, json};
use steersman_runtime::informer::InformerFactory;
use steersman_values::resource::{EVENTS, LEASES};
use steersman_why::{ClientReader, Doc, Loaded, Need, Reader};

use super::asked::list;

/// The caches of a manager.
pub(super) fn caches(informers: &InformerFactory) -> Value {
    json!({ "notSynced": informers.not_synced(), "findings": informers.findings() })
}

/// The Lease as its record tells, and the process that answers; `leads` is `None` if that is no manager.
pub(super) async fn view(
    reader: &ClientReader,
    lease: Option<(&str, &str)>,
    leads: Option<bool>,
    caches: Value,
) -> Value {
    let Some((namespace, name)) = lease else {
        return json!({ "elects": false, "leads": leads, "caches": caches });
    };
    let need = Need::Object {
        of: LEASES.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let fields = format!("involvedObject.kind=Lease,involvedObject.name={name}");
    let (lease, events) = futures::join!(
        reader.read(&need),
        list(reader, &EVENTS, namespace, &fields)
    );
    let mut withheld = Vec::new();
    let lease = match lease {
        Loaded::Objects(found) => found.first().map(record),
        Loaded::Denied => {
            withheld.push(format!("Lease {namespace}/{name}: you may not get it"));
            None
        }
        Loaded::Failed(error) => {
            withheld.push(format!("Lease {namespace}/{name}: {error}"));
            None
        }
        Loaded::Absent | Loaded::Type(_) => None,
    };
    let events = events.unwrap_or_else(|error| {
        withheld.push(format!("Events: {error}"));
        Vec::new()
    });
    json!({
        "elects": true, "leads": leads, "caches": caches, "withheld": withheld,
        "name": format!("{namespace}/{name}"), "lease": lease, "handOvers": hand_overs(&events),
    })
}

fn record(lease: &Doc) -> Value {
    json!({
        "holder": lease.text("/spec/holderIdentity"),
        "acquired": lease.time("/spec/acquireTime"),
        "renewed": lease.time("/spec/renewTime"),
        "seconds": lease.number("/spec/leaseDurationSeconds"),
        "transitions": lease.number("/spec/leaseTransitions"),
    })
}

/// The leaders and the times at which their terms began, newest first.
fn hand_overs(events: &[Doc]) -> Vec<Value> {
    let mut found: Vec<_> = events
        .iter()
        .filter(|event| event.text("/reason") == "LeaderElection")
        .filter_map(|event| {
            let at = event
                .time("/lastTimestamp")
                .or_else(|| event.time("/eventTime"))
                .or_else(|| event.time("/metadata/creationTimestamp"))?;
            Some((at, event.text("/message").to_owned()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found
        .into_iter()
        .map(|(at, message)| json!({ "at": at, "message": message }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_overs_are_newest_first() {
        let event = |at: &str, reason: &str, message: &str| {
            Doc::new(json!({"reason": reason, "message": message, "lastTimestamp": at}))
        };
        let found = hand_overs(&[
            event("2026-11-28T12:00:00Z", "LeaderElection", "a became leader"),
            event("2026-11-28T12:05:00Z", "LeaderElection", "b became leader"),
            event("2026-11-28T12:06:00Z", "Other", "c"),
        ]);
        let texts: Vec<&str> = found
            .iter()
            .filter_map(|one| one["message"].as_str())
            .collect();
        assert_eq!(texts, ["b became leader", "a became leader"]);
    }
}
