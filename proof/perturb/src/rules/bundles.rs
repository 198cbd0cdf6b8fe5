//! Rules of ClusterTrustBundles and PodCertificateRequests.

use super::Rule;
use crate::history::{Change, State};

/// The publisher writes only bundles of its signer.
pub const OWN_BUNDLES: Rule = Rule {
    name: "bundles of other signers stay as they are",
    check: own_bundles,
};

/// The cleaner deletes no PodCertificateRequest in its first fifteen minutes.
pub const OLD_POD_REQUESTS: Rule = Rule {
    name: "only old PodCertificateRequests are deleted",
    check: old_pod_requests,
};

const PUBLISHER: &str = "kube-apiserver-serving-clustertrustbundle-publisher";
const CLEANER: &str = "podcertificaterequestcleaner";

fn own_bundles(_: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "clustertrustbundles" || !change.is_by(PUBLISHER) {
        return Ok(());
    }
    let versions = change.before.iter().chain([&change.object]);
    for version in versions {
        let signer = &version["spec"]["signerName"];
        if signer != "kubernetes.io/kube-apiserver-serving" {
            return Err(format!("{} of the signer {signer}", change.key));
        }
    }
    Ok(())
}

fn old_pod_requests(_: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "podcertificaterequests" && change.begins_deletion();
    if !is_deletion || !change.is_by(CLEANER) {
        return Ok(());
    }
    let created = &change.object["metadata"]["creationTimestamp"];
    let age = created
        .as_str()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map(|created| change.at.as_second() - created.as_second());
    match age {
        Some(age) if age >= 15 * 60 => Ok(()),
        _ => Err(format!("{} was created at {created}", change.key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{check, object};
    use super::*;
    use crate::history::ChangeKind::{Deleted, Updated};

    #[test]
    fn bundles_of_other_signers_stay() {
        let bundle = |signer: &str| object("b", json!({ "signerName": signer }));
        let own = "kubernetes.io/kube-apiserver-serving";
        let case = |why, before: &str, by, kind, after: &str, breaks| {
            let plural = "clustertrustbundles";
            let world = vec![(plural, bundle(before))];
            (why, world, by, plural, kind, bundle(after), breaks)
        };
        check(
            OWN_BUNDLES,
            [
                case("own", own, PUBLISHER, Updated, own, false),
                case("taken over", "a/b", PUBLISHER, Updated, own, true),
                case("deleted", "a/b", PUBLISHER, Deleted, "a/b", true),
                case("by a user", "a/b", "kubectl", Deleted, "a/b", false),
            ],
        );
    }

    #[test]
    fn young_requests_stay() {
        let request = |created: Option<&str>| -> Value {
            let mut request = object("r", json!({}));
            request["metadata"]["creationTimestamp"] = json!(created);
            request
        };
        let case = |why, created, by, breaks| {
            let plural = "podcertificaterequests";
            let world = vec![(plural, request(created))];
            (why, world, by, plural, Deleted, request(created), breaks)
        };
        // The change is at the epoch.
        check(
            OLD_POD_REQUESTS,
            [
                case("old", Some("1969-12-31T23:45:00Z"), CLEANER, false),
                case("young", Some("1969-12-31T23:45:01Z"), CLEANER, true),
                case("without a time", None, CLEANER, true),
                case("by a user", None, "kubectl", false),
            ],
        );
    }
}
