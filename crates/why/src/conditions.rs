//! Conditions of any object, also those that a custom resource has deeper in its status.
//!
//! Gateway API has a list for each parent of a route, and one for each listener of a gateway.

use jiff::Timestamp;
use serde_json::Value;

use crate::Doc;

/// Fields between the status and a list of conditions.
const DEPTH: usize = 5;

/// Names of conditions that are True on a healthy object.
const GOOD: [&str; 24] = [
    "Accepted",
    "Admitted",
    "Available",
    "Deployed",
    "Established",
    "Healthy",
    "Initialized",
    "Installed",
    "NamesAccepted",
    "Programmed",
    "Provisioned",
    "Ready",
    "ReconcileSuccess",
    "Reconciled",
    "Released",
    "ResolvedRefs",
    "ResourcesProvisioned",
    "SecretSynced",
    "Successful",
    "Synced",
    "SyncedToCluster",
    "TestSuccess",
    "Valid",
    "Validated",
];

/// Names of conditions that are False on a healthy object.
const BAD: [&str; 15] = [
    "Conflicted",
    "Dangling",
    "Degraded",
    "Denied",
    "Error",
    "Errored",
    "Failed",
    "Failing",
    "Failure",
    "Invalid",
    "InvalidRequest",
    "NetworkUnavailable",
    "ReconcileError",
    "Stalled",
    "Unhealthy",
];

/// Ends of names of conditions that are False on a healthy object.
const BAD_ENDS: [&str; 4] = ["Error", "Failed", "Failure", "Pressure"];

fn is_failure(kind: &str) -> bool {
    BAD.contains(&kind) || BAD_ENDS.iter().any(|end| kind.ends_with(end))
}

/// A condition with the part of the status that has it.
#[derive(Debug)]
pub struct Found<'d> {
    /// The path of the part: `status`, `status.parents[0]`.
    pub place: String,
    part: &'d Value,
    condition: &'d Value,
}

impl Found<'_> {
    fn text(&self, field: &str) -> &str {
        self.condition[field].as_str().unwrap_or_default()
    }

    /// Whether the condition tells of a failure. A name of unknown meaning never does.
    pub fn is_bad(&self) -> bool {
        let kind = self.text("type");
        match self.text("status") {
            "False" => GOOD.contains(&kind),
            "True" => is_failure(kind),
            // Argo CD has conditions without a status, each of which is a problem.
            "" => kind.ends_with("Error"),
            _ => false,
        }
    }

    /// Whether the condition tells that the object is not ready.
    pub fn is_unready(&self) -> bool {
        self.text("type") == "Ready" && self.text("status") == "False"
    }

    /// Whether the condition may tell why an object does not move: it is not True, and its name is not that of
    /// a failure.
    pub fn is_open(&self) -> bool {
        let is_told = !self.text("reason").is_empty() || !self.text("message").is_empty();
        let is_failure = is_failure(self.text("type"));
        matches!(self.text("status"), "False" | "Unknown") && !is_failure && is_told
    }

    /// Whether a program still works on the condition: the name of a success, with an unknown status.
    pub fn is_awaited(&self) -> bool {
        self.text("status") == "Unknown" && GOOD.contains(&self.text("type"))
    }

    /// Whether no controller has looked at the object. Gateway API has this condition as a default.
    pub fn is_unclaimed(&self) -> bool {
        self.is_awaited() && self.message() == "Waiting for controller"
    }

    /// The message of the condition.
    pub fn message(&self) -> &str {
        self.text("message").trim()
    }

    /// The reason of the condition.
    pub fn reason(&self) -> &str {
        self.text("reason")
    }

    /// The generation of the object that the condition is about; `None` if it does not say so.
    pub fn observed(&self) -> Option<i64> {
        self.condition["observedGeneration"].as_i64()
    }

    /// The time of its last change.
    pub fn since(&self) -> Option<Timestamp> {
        self.text("lastTransitionTime").parse().ok()
    }

    /// The program that wrote the part of the status, if the part names it.
    pub fn controller(&self) -> &str {
        self.part["controllerName"].as_str().unwrap_or_default()
    }

    /// The parent that the part of the status is about; null if it has none.
    pub fn parent(&self) -> &Value {
        &self.part["parentRef"]
    }

    /// `ResolvedRefs is False (RefNotPermitted): no ReferenceGrant`, with the parent or listener that it is about.
    pub fn words(&self) -> String {
        let kind = self.text("type");
        let mut text = match self.text("status") {
            "" => kind.to_owned(),
            status => format!("{kind} is {status}"),
        };
        if !self.reason().is_empty() {
            text = format!("{text} ({})", self.reason());
        }
        if let Some(about) = self.about() {
            text = format!("{text} for {about}");
        }
        match self.message() {
            "" => text,
            message => format!("{text}: {message}"),
        }
    }

    /// The parent, ancestor or listener that the condition is about.
    fn about(&self) -> Option<String> {
        let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
        for field in ["parentRef", "ancestorRef"] {
            let parent = &self.part[field];
            let Some(name) = text(parent, "name") else {
                continue;
            };
            let kind = text(parent, "kind").unwrap_or_else(|| "Gateway".to_owned());
            return Some(match text(parent, "namespace") {
                Some(namespace) => format!("{kind} {namespace}/{name}"),
                None => format!("{kind} {name}"),
            });
        }
        let list = self.place.rsplit('.').next()?.split('[').next()?;
        let name = text(self.part, "name").filter(|_| self.place.contains('['))?;
        Some(format!("{} {name}", list.trim_end_matches('s')))
    }
}

/// The conditions of `doc`, in the order of its status.
pub fn all(doc: &Doc) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    if let Some(status) = doc.at("/status") {
        collect(status, "status", DEPTH, &mut found);
    }
    found
}

fn collect<'d>(part: &'d Value, place: &str, depth: usize, found: &mut Vec<Found<'d>>) {
    if depth == 0 {
        return;
    }
    let is_condition = |one: &&Value| {
        let has_status = one["status"].is_string() || one["status"].is_null();
        one["type"].is_string() && has_status
    };
    match part {
        Value::Object(fields) => {
            let own = fields.get("conditions").and_then(Value::as_array);
            for condition in own.into_iter().flatten().filter(is_condition) {
                let place = place.to_owned();
                found.push(Found {
                    place,
                    part,
                    condition,
                });
            }
            for (name, value) in fields.iter().filter(|(name, _)| *name != "conditions") {
                collect(value, &format!("{place}.{name}"), depth - 1, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{place}[{index}]"), depth - 1, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "Because", "message": "it is so"})
    }

    #[test]
    fn conditions_are_found_at_any_depth_with_the_part_that_they_are_about() {
        let doc = Doc::new(json!({"status": {
            "conditions": [condition("Ready", "False"), "no condition"],
            "parents": [{
                "controllerName": "example.com/gateway",
                "parentRef": {"name": "public", "namespace": "edge"},
                "conditions": [condition("Accepted", "True"), condition("ResolvedRefs", "False")],
            }],
            "listeners": [{"name": "https", "conditions": [condition("Programmed", "False")]}],
        }}));
        let found = all(&doc);
        let bad = found.iter().filter(|one| one.is_bad());
        let bad: BTreeSet<String> = bad.map(Found::words).collect();
        let expected = [
            "Ready is False (Because): it is so",
            "Programmed is False (Because) for listener https: it is so",
            "ResolvedRefs is False (Because) for Gateway edge/public: it is so",
        ];
        assert_eq!(bad, expected.map(str::to_owned).into());
        let mut named = found.iter().filter(|one| !one.controller().is_empty());
        assert!(named.all(|one| one.place == "status.parents[0]"));
    }

    #[test]
    fn the_name_of_a_condition_tells_which_status_is_bad() {
        // (name, status, bad, open)
        let cases = [
            ("Ready", "False", true, true),
            ("Ready", "True", false, false),
            ("Ready", "Unknown", false, true),
            ("Degraded", "True", true, false),
            ("Degraded", "False", false, false),
            ("DiskPressure", "True", true, false),
            ("Drained", "False", false, true),
            ("Drained", "Unknown", false, true),
            ("Issuing", "True", false, false),
            ("FetchFailed", "True", true, false),
            ("FetchFailed", "False", false, false),
            ("ComparisonError", "", true, false),
            ("OrphanedResourceWarning", "", false, false),
        ];
        for (kind, status, is_bad, is_open) in cases {
            let doc = Doc::new(json!({"status": {"conditions": [condition(kind, status)]}}));
            let found = all(&doc);
            assert_eq!(
                (found[0].is_bad(), found[0].is_open()),
                (is_bad, is_open),
                "{kind} {status}"
            );
        }
    }
}
