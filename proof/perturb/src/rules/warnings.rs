//! The rule of the SELinux warning controller.

use serde_json::Value;

use crate::history::{EVENTS, State};
use crate::scenario::FinalRule;

/// An Event of a conflict names two pods that use one claim with these different labels. Pods that
/// are gone are left out.
pub const TRUE_WARNINGS: FinalRule = FinalRule {
    name: "an Event of an SELinux conflict is true",
    check: true_warnings,
};

fn true_warnings(state: &State) -> Result<(), String> {
    let conflicts = state
        .all(EVENTS)
        .filter(|event| event["reason"] == "SELinuxLabelConflict");
    for event in conflicts {
        let message = event["message"].as_str().unwrap_or_default();
        let Some(told) = Told::parse(message) else {
            return Err(format!("an unknown message {message:?}"));
        };
        let of = &event["involvedObject"];
        // A change of the driver reaches one pod after the other.
        if told.label.is_empty() || told.other_label.is_empty() {
            continue;
        }
        let pods = [&of["name"], &Value::from(told.other)].map(|name| {
            let mut pods = state.all("pods");
            pods.find(|pod| {
                pod["metadata"]["name"] == *name && pod["metadata"]["namespace"] == of["namespace"]
            })
        });
        let [Some(pod), Some(other)] = pods else {
            continue;
        };
        if pod["metadata"]["uid"] != of["uid"] {
            continue;
        }
        let is_true = told.label == label(pod)
            && told.other_label == label(other)
            && told.label != told.other_label
            && claim(pod) == claim(other);
        if !is_true {
            return Err(message.to_owned());
        }
    }
    Ok(())
}

/// The content of a message about two pods of one namespace.
struct Told<'a> {
    label: &'a str,
    other: &'a str,
    other_label: &'a str,
}

impl<'a> Told<'a> {
    fn parse(message: &'a str) -> Option<Self> {
        let (label, rest) = message
            .strip_prefix("SELinuxLabel \"")?
            .split_once("\" conflicts with pod ")?;
        let (other, rest) = rest.split_once(' ')?;
        let (_, rest) = rest.split_once("SELinuxLabel \"")?;
        let (other_label, _) = rest.split_once('"')?;
        Some(Self {
            label,
            other,
            other_label,
        })
    }
}

/// The label of a pod that sets only the level.
fn label(pod: &Value) -> String {
    let level = &pod["spec"]["securityContext"]["seLinuxOptions"]["level"];
    format!(":::{}", level.as_str().unwrap_or_default())
}

fn claim(pod: &Value) -> &Value {
    &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{object, put};
    use super::*;
    use crate::history::ChangeKind;

    #[test]
    fn an_event_about_other_labels_or_claims_breaks_the_rule() {
        let pod = |name: &str, level: &str, claim: &str| {
            let volume = json!({"persistentVolumeClaim": {"claimName": claim}});
            let context = json!({"seLinuxOptions": {"level": level}});
            object(
                name,
                json!({"securityContext": context, "volumes": [volume]}),
            )
        };
        let message = "SELinuxLabel \":::s1\" conflicts with pod b that uses the same volume as this pod with SELinuxLabel \":::s2\". If both pods land on the same node, only one of them may access the volume.";
        // (other pod, kept)
        let cases = [
            (pod("b", "s2", "shared"), true),
            (pod("c", "s2", "other"), true),
            (pod("b", "s1", "shared"), false),
            (pod("b", "s3", "shared"), false),
            (pod("b", "s2", "other"), false),
        ];
        for (other, kept) in cases {
            let a = pod("a", "s1", "shared");
            let mut event = object("a.1", json!({}));
            event["reason"] = json!("SELinuxLabelConflict");
            event["message"] = json!(message);
            event["involvedObject"] = a["metadata"].clone();
            let mut state = State::default();
            for (plural, object) in [("pods", a), ("pods", other.clone()), (EVENTS, event)] {
                put(&mut state, plural, ChangeKind::Created, object, "");
            }
            let verdict = (TRUE_WARNINGS.check)(&state);
            assert_eq!(verdict.is_ok(), kept, "{other}: {verdict:?}");
        }
    }
}
