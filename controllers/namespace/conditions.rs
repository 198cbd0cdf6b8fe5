//! The five conditions of a terminating namespace.
//!
//! Each pass writes all five, so a condition returns to `False` after its cause ended. Upstream:
//! `deletion/status_condition_utils.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_client::discovery::ServedResource;
use steersman_values::clock::whole_seconds;

use super::content::Remains;
use super::discovery::Failure;

/// The condition types in the order of their first write, with reason and message of status
/// `False`. Upstream: `conditionTypes`, `okReasons` and `okMessages`.
const CONDITIONS: [(&str, &str, &str); 5] = [
    (
        DISCOVERY,
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        PARSING,
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        CONTENT,
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        REMAINING,
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        FINALIZERS,
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// The types that discovery could not find may still have objects.
pub(super) const DISCOVERY: &str = "NamespaceDeletionDiscoveryFailure";
/// Discovery reports malformed group versions.
pub(super) const PARSING: &str = "NamespaceDeletionGroupVersionParsingFailure";
/// A request failed, or objects remain without a reason.
pub(super) const CONTENT: &str = "NamespaceDeletionContentFailure";
/// Objects remain, which is normal while they have grace periods or finalizers.
pub(super) const REMAINING: &str = "NamespaceContentRemaining";
/// Finalizers hold some of them.
pub(super) const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// The findings of one pass over a namespace.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Reason and message by condition type, for conditions with status `True`.
    failures: BTreeMap<&'static str, (&'static str, String)>,
    /// Errors of single types, for the message of [`CONTENT`].
    errors: Vec<String>,
    /// Types with remaining objects, for the message of [`REMAINING`].
    remaining: Vec<String>,
    /// Number of remaining objects by finalizer, for the message of [`FINALIZERS`].
    finalizers: BTreeMap<String, usize>,
}

impl Report {
    /// Records a failed discovery, for [`DISCOVERY`]. Upstream: `ProcessDiscoverResourcesErr`.
    pub(super) fn discovery_failed(&mut self, failure: &Failure) {
        let message = match failure {
            Failure::Complete(error) => error.to_string(),
            Failure::Groups(groups, error) => {
                format!("Discovery failed for some groups, {groups} failing: {error}")
            }
        };
        self.failures
            .insert(DISCOVERY, ("DiscoveryFailed", message));
    }

    /// Records unparsable group versions, for [`PARSING`]. Upstream: `ProcessGroupVersionErr`.
    pub(super) fn parsing_failed(&mut self, error: &str) {
        self.failures
            .insert(PARSING, ("GroupVersionParsingFailed", error.to_owned()));
    }

    /// Records the error of one type, for [`CONTENT`]. All errors share one condition. Upstream:
    /// `ProcessDeleteContentErr`.
    pub(super) fn content_failed(&mut self, error: String) {
        self.errors.push(error);
    }

    /// Adds the remaining objects of one type.
    ///
    /// The caller omits this while pods remain, as upstream does. The condition then reports that
    /// all content was removed.
    pub(super) fn remains(&mut self, served: &ServedResource, remains: &Remains) {
        if remains.items == 0 {
            return;
        }
        let resource = &served.resource;
        // The core group is empty, so its types end with a dot, as in `pods.`.
        self.remaining.push(format!(
            "{}.{} has {} resource instances",
            resource.plural, resource.group, remains.items
        ));
        for (finalizer, count) in &remains.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += count;
        }
    }

    /// Builds the messages, and returns reason and message by condition type. The entries are
    /// sorted, so that the same findings give the same message and no write. Upstream:
    /// `ProcessContentTotals` and `makeDeleteContentCondition`.
    fn finished(mut self) -> BTreeMap<&'static str, (&'static str, String)> {
        if !self.errors.is_empty() {
            let count = self.errors.len();
            let message = format!(
                "Failed to delete all resource types, {count} remaining: {}",
                sorted(self.errors)
            );
            self.failures
                .insert(CONTENT, ("ContentDeletionFailed", message));
        }
        if !self.remaining.is_empty() {
            let message = format!("Some resources are remaining: {}", sorted(self.remaining));
            self.failures
                .insert(REMAINING, ("SomeResourcesRemain", message));
        }
        if !self.finalizers.is_empty() {
            let entries = self
                .finalizers
                .iter()
                .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
            let list = sorted(entries.collect());
            let message = format!("Some content in the namespace has finalizers remaining: {list}");
            self.failures
                .insert(FINALIZERS, ("SomeFinalizersRemain", message));
        }
        self.failures
    }

    /// Puts the conditions into `status`. Returns whether `status` changed.
    ///
    /// Other conditions, and the fields of these that this program does not know, stay as they are.
    /// The transition time changes only with the status. Upstream: `updateConditions`.
    pub(super) fn apply(self, status: &mut Value, now: Timestamp) -> bool {
        let failures = self.finished();
        let time = json!(whole_seconds(now).to_string());
        if !status.is_object() {
            *status = json!({});
        }
        if !status["conditions"].is_array() {
            status["conditions"] = json!([]);
        }
        let Some(conditions) = status["conditions"].as_array_mut() else {
            return false;
        };
        let mut changed = false;
        for (kind, reason, message) in CONDITIONS {
            let (state, reason, message) = match failures.get(kind) {
                Some((reason, message)) => ("True", *reason, message.as_str()),
                None => ("False", reason, message),
            };
            let Some(known) = conditions.iter_mut().find(|known| known["type"] == kind) else {
                conditions.push(json!({
                    "type": kind, "status": state, "lastTransitionTime": time, "reason": reason, "message": message,
                }));
                changed = true;
                continue;
            };
            if known["status"] == state && known["reason"] == reason && known["message"] == message
            {
                continue;
            }
            if known["status"] != state {
                known["lastTransitionTime"] = time.clone();
            }
            known["status"] = json!(state);
            known["reason"] = json!(reason);
            known["message"] = json!(message);
            changed = true;
        }
        changed
    }
}

fn sorted(mut entries: Vec<String>) -> String {
    entries.sort_unstable();
    entries.join(", ")
}

#[cfg(test)]
mod tests {
    use steersman_client::ApiError;
    use steersman_client::discovery::{Discovery, GroupVersion};
    use steersman_values::resource::{self, ResourceType};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failed(kind: &'static str, reason: &'static str, message: &str) -> Report {
        Report {
            failures: BTreeMap::from([(kind, (reason, message.to_owned()))]),
            ..Report::default()
        }
    }

    /// Type, status, reason and message of each condition.
    fn shown(status: &Value) -> Vec<[String; 4]> {
        let field =
            |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|c| ["type", "status", "reason", "message"].map(|name| field(c, name)))
            .collect()
    }

    /// The condition of type `kind` with status `False`.
    fn without_failure(kind: &str) -> [String; 4] {
        let (_, reason, message) = CONDITIONS
            .into_iter()
            .find(|(known, ..)| *known == kind)
            .unwrap();
        [kind, "False", reason, message].map(str::to_owned)
    }

    fn served(group: &'static str, plural: &'static str) -> ServedResource {
        let resource = ResourceType {
            group: group.into(),
            plural: plural.into(),
            ..resource::DEPLOYMENTS.clone()
        };
        ServedResource {
            resource,
            verbs: Vec::new(),
        }
    }

    /// Upstream: `TestUpdateConditions`.
    #[test]
    fn existing_conditions_are_changed_in_place_and_missing_ones_appended() {
        let foo_bar = || failed(PARSING, "foo", "bar");
        let broken = [PARSING, "True", "foo", "bar"].map(str::to_owned);
        let unknown = ["unknown", "True", "", ""].map(str::to_owned);
        let rest = || {
            [CONTENT, REMAINING, FINALIZERS]
                .map(without_failure)
                .to_vec()
        };
        let with_rest = |mut first: Vec<[String; 4]>| {
            first.extend(rest());
            first
        };
        // (name, report, conditions before: type and status, expected)
        let cases: [(&str, Report, &[(&str, &str)], Vec<[String; 4]>); 5] = [
            (
                "leave unknown",
                Report::default(),
                &[("unknown", "True")],
                with_rest(vec![
                    unknown,
                    without_failure(DISCOVERY),
                    without_failure(PARSING),
                ]),
            ),
            (
                "replace with success",
                Report::default(),
                &[(DISCOVERY, "True")],
                with_rest(vec![without_failure(DISCOVERY), without_failure(PARSING)]),
            ),
            (
                "leave different order",
                Report::default(),
                &[(PARSING, "True"), (DISCOVERY, "True")],
                with_rest(vec![without_failure(PARSING), without_failure(DISCOVERY)]),
            ),
            (
                "overwrite with failure",
                foo_bar(),
                &[(PARSING, "False"), (DISCOVERY, "True")],
                with_rest(vec![broken.clone(), without_failure(DISCOVERY)]),
            ),
            (
                "write new failure",
                foo_bar(),
                &[(DISCOVERY, "True")],
                with_rest(vec![without_failure(DISCOVERY), broken]),
            ),
        ];
        for (name, report, before, expected) in cases {
            let before: Vec<Value> = before
                .iter()
                .map(|(kind, status)| json!({"type": kind, "status": status}))
                .collect();
            let mut status = json!({"phase": "Terminating", "conditions": before});
            assert!(report.apply(&mut status, at(0)), "{name}");
            assert_eq!(shown(&status), expected, "{name}");
            assert_eq!(status["phase"], "Terminating", "{name}");
        }
    }

    #[test]
    fn a_repeated_report_does_not_change_the_status() {
        let mut status = Value::Null;
        assert!(Report::default().apply(&mut status, at(100)));
        assert!(!Report::default().apply(&mut status, at(200)));
        assert!(failed(PARSING, "foo", "bar").apply(&mut status, at(200)));
        assert!(!failed(PARSING, "foo", "bar").apply(&mut status, at(300)));
        assert!(failed(PARSING, "foo", "other").apply(&mut status, at(300)));
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let mut status = Value::Null;
        let time = |status: &Value| {
            status["conditions"][1]["lastTransitionTime"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        Report::default().apply(&mut status, at(1));
        assert_eq!(time(&status), "1970-01-01T00:00:01Z");
        failed(PARSING, "foo", "bar")
            .apply(&mut status, at(2) + std::time::Duration::from_millis(500));
        assert_eq!(time(&status), "1970-01-01T00:00:02Z");
        failed(PARSING, "foo", "other").apply(&mut status, at(3));
        assert_eq!(time(&status), "1970-01-01T00:00:02Z");
        assert_eq!(
            status["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:01Z"
        );
    }

    /// Upstream: `TestProcessContentTotals`. [`Remains`] cannot express its third case, which has
    /// finalizers of zero objects.
    #[test]
    fn remaining_objects_and_their_finalizers_are_listed() {
        let resources = "Some resources are remaining: daemonsets.apps.k8s.io has 5 resource instances, \
                         deployments.apps.k8s.io has 5 resource instances";
        let finalizers = "Some content in the namespace has finalizers remaining: kubedb in 5 resource instances, \
                          service-catalog in 6 resource instances";
        let remaining = [REMAINING, "True", "SomeResourcesRemain", resources].map(str::to_owned);
        let held = [FINALIZERS, "True", "SomeFinalizersRemain", finalizers].map(str::to_owned);
        // (name, finalizers of the Deployments, of the DaemonSets, expected)
        let cases: [(&str, &[(&str, usize)], &[(&str, usize)], [[String; 4]; 2]); 2] = [
            (
                "just remaining",
                &[],
                &[],
                [remaining.clone(), without_failure(FINALIZERS)],
            ),
            (
                "both",
                &[("service-catalog", 5), ("kubedb", 5)],
                &[("service-catalog", 1)],
                [remaining, held],
            ),
        ];
        for (name, deployments, daemon_sets, expected) in cases {
            let mut report = Report::default();
            for (plural, finalizers) in [("deployments", deployments), ("daemonsets", daemon_sets)]
            {
                let finalizers = finalizers
                    .iter()
                    .map(|(finalizer, count)| ((*finalizer).to_owned(), *count))
                    .collect();
                report.remains(
                    &served("apps.k8s.io", plural),
                    &Remains {
                        estimate: 15,
                        items: 5,
                        finalizers,
                    },
                );
            }
            report.remains(&served("apps.k8s.io", "replicasets"), &Remains::default());
            let mut status = Value::Null;
            report.apply(&mut status, at(0));
            assert_eq!(shown(&status)[3..], expected, "{name}");
        }
    }

    #[test]
    fn failures_have_upstreams_reasons_and_messages() {
        let mut report = Report::default();
        let version = GroupVersion {
            group: "b".to_owned(),
            version: "v1".to_owned(),
        };
        let incomplete = Discovery {
            failures: [(version, "down".to_owned())].into(),
            ..Discovery::default()
        };
        report.discovery_failed(&Failure::Groups(1, incomplete.failure().unwrap()));
        report.parsing_failed("unexpected GroupVersion string: a/b/c");
        report.content_failed("second".to_owned());
        report.content_failed("first".to_owned());
        let core = Remains {
            estimate: 15,
            items: 1,
            finalizers: BTreeMap::new(),
        };
        report.remains(&served("", "configmaps"), &core);
        let mut status = Value::Null;
        report.apply(&mut status, at(0));
        let discovery = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: b/v1: down";
        let expected = [
            [DISCOVERY, "True", "DiscoveryFailed", discovery],
            [
                PARSING,
                "True",
                "GroupVersionParsingFailed",
                "unexpected GroupVersion string: a/b/c",
            ],
            [
                CONTENT,
                "True",
                "ContentDeletionFailed",
                "Failed to delete all resource types, 2 remaining: first, second",
            ],
            [
                REMAINING,
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 1 resource instances",
            ],
        ];
        assert_eq!(
            shown(&status)[..4],
            expected.map(|condition| condition.map(str::to_owned))
        );

        let mut report = Report::default();
        let refused = ApiError::Fenced {
            request: "GET /apis".to_owned(),
        };
        report.discovery_failed(&Failure::Complete(refused));
        report.apply(&mut status, at(0));
        assert_eq!(
            shown(&status)[0][3],
            "GET /apis: not sent, leadership has ended",
            "a complete failure names no groups"
        );
    }
}
