//! The Lease: its holder, and whether this manager would wait, lead, or act beside another one.

use jiff::Timestamp;
use serde::Deserialize;

use super::finding::Finding;
use crate::config::ElectionSettings;

const CHECK: &str = "lease";

/// A Lease, as the API server has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Lease {
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    #[serde(default)]
    holder_identity: Option<String>,
    #[serde(default)]
    lease_duration_seconds: Option<i64>,
    #[serde(default)]
    renew_time: Option<Timestamp>,
}

impl Lease {
    /// The holder, with the age of its last renewal in seconds, and whether the Lease is valid.
    fn holder(&self, now: Timestamp) -> Option<(&str, i64, bool)> {
        let holder = self.spec.holder_identity.as_deref();
        let holder = holder.filter(|name| !name.is_empty())?;
        let age = self
            .spec
            .renew_time
            .map_or(i64::MAX, |time| now.duration_since(time).as_secs().max(0));
        let duration = self.spec.lease_duration_seconds.unwrap_or(0);
        Some((holder, age, age <= duration))
    }
}

/// Checks the Lease of `settings`, which is `lease` at the server; `None` if there is none.
pub(super) fn check(
    settings: &ElectionSettings,
    lease: Option<&Lease>,
    now: Timestamp,
) -> Vec<Finding> {
    let name = format!("{}/{}", settings.namespace, settings.name);
    let Some(lease) = lease else {
        return vec![Finding::ok(
            CHECK,
            format!("Lease {name} does not exist; the manager creates it"),
        )];
    };
    let mut findings = vec![match lease.holder(now) {
        None => Finding::ok(
            CHECK,
            format!("Lease {name} has no holder; the manager leads at once"),
        ),
        Some((holder, age, true)) => Finding::ok(
            CHECK,
            format!("{holder} holds Lease {name}, renewed {age} s ago; the manager waits for it"),
        ),
        Some((holder, age, false)) => Finding::warning(
            CHECK,
            format!("Lease {name} has expired: {holder} has not renewed it for {age} s"),
            "no manager leads; find out why its holder stopped",
        ),
    }];
    let ours = settings.lease_duration.as_secs();
    let theirs = lease.spec.lease_duration_seconds.unwrap_or(0);
    if lease.holder(now).is_some() && i64::try_from(ours) != Ok(theirs) {
        findings.push(Finding::warning(
            CHECK,
            format!("Lease {name} has a duration of {theirs} s, and --leader-elect-lease-duration is {ours}s"),
            "give all candidates the same duration, or the shorter one may take the Lease too early",
        ));
    }
    findings
}

/// Checks a manager without leader election against the default Lease.
pub(super) fn without_election(lease: Option<&Lease>, now: Timestamp) -> Finding {
    match lease.and_then(|lease| lease.holder(now)) {
        Some((holder, _, true)) => Finding::failure(
            CHECK,
            format!(
                "leader election is off, and {holder} holds the default Lease: both would write at the same time"
            ),
            "remove --leader-elect=false, or let no two managers have the same controllers",
        ),
        _ => Finding::warning(
            CHECK,
            "leader election is off: a second manager would write at the same time",
            "remove --leader-elect=false, unless there is never a second one",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Level::{Failure, Ok, Warning};
    use super::super::finding::tests::words;
    use super::*;

    fn lease(holder: &str, renewed: &str, duration: i64) -> Lease {
        let spec = serde_json::json!({
            "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration,
        });
        serde_json::from_value(serde_json::json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn holder_age_and_duration_of_the_lease_are_checked() {
        let settings = ElectionSettings {
            namespace: "kube-system".to_owned(),
            name: "m".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            coordinated: false,
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let fresh = "2026-01-01T00:00:55.000000Z";
        let old = "2026-01-01T00:00:00.000000Z";
        // (why, Lease, findings)
        let cases = [
            (
                "none",
                None,
                vec![(
                    Ok,
                    "Lease kube-system/m does not exist; the manager creates it",
                )],
            ),
            (
                "held",
                Some(lease("a_1", fresh, 15)),
                vec![(
                    Ok,
                    "a_1 holds Lease kube-system/m, renewed 5 s ago; the manager waits for it",
                )],
            ),
            (
                "released",
                Some(lease("", fresh, 1)),
                vec![(
                    Ok,
                    "Lease kube-system/m has no holder; the manager leads at once",
                )],
            ),
            (
                "expired",
                Some(lease("a_1", old, 15)),
                vec![(
                    Warning,
                    "Lease kube-system/m has expired: a_1 has not renewed it for 60 s",
                )],
            ),
            (
                "another duration",
                Some(lease("a_1", fresh, 60)),
                vec![
                    (
                        Ok,
                        "a_1 holds Lease kube-system/m, renewed 5 s ago; the manager waits for it",
                    ),
                    (
                        Warning,
                        "Lease kube-system/m has a duration of 60 s, and --leader-elect-lease-duration is 15s",
                    ),
                ],
            ),
        ];
        for (why, lease, expected) in cases {
            assert_eq!(
                words(&check(&settings, lease.as_ref(), now)),
                expected,
                "{why}"
            );
        }
        let level = |lease: Option<&Lease>| without_election(lease, now).level;
        assert_eq!(level(Some(&lease("a_1", fresh, 15))), Failure);
        assert_eq!(level(Some(&lease("a_1", old, 15))), Warning);
        assert_eq!(level(None), Warning);
    }
}
