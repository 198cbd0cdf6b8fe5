//! The steps of one roll-out on a time axis: Events about the object, oldest first.

use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use steersman_values::resource::EVENTS;
use steersman_why::{ClientReader, Doc};

use super::asked::{Asked, Refusal, list};

/// One kind of step, with the times of its first and its last occurrence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Step {
    first: Timestamp,
    last: Timestamp,
    count: i64,
    warning: bool,
    reason: String,
    message: String,
    by: String,
}

/// The Kinds whose plural names paths have.
const KINDS: [(&str, &str); 4] = [
    ("deployments", "Deployment"),
    ("statefulsets", "StatefulSet"),
    ("daemonsets", "DaemonSet"),
    ("jobs", "Job"),
];

/// The steps of `of`.
pub(super) async fn view(reader: &ClientReader, of: &Asked) -> Result<Value, Refusal> {
    let kind = KINDS.iter().find(|(plural, _)| *plural == of.kind);
    let Some((_, kind)) = kind else {
        let reason = format!("{} have no roll-outs", of.kind);
        return Err((StatusCode::NOT_FOUND, reason));
    };
    let fields = format!("involvedObject.kind={kind},involvedObject.name={}", of.name);
    let events = list(reader, &EVENTS, &of.namespace, &fields).await;
    let events = events.map_err(|why| (StatusCode::FORBIDDEN, format!("Events: {why}")))?;
    Ok(json!({ "steps": steps(&events) }))
}

fn steps(events: &[Doc]) -> Vec<Step> {
    let mut steps: Vec<Step> = events.iter().filter_map(step).collect();
    steps.sort_by(|a, b| (a.first, a.last, &a.message).cmp(&(b.first, b.last, &b.message)));
    steps
}

fn step(event: &Doc) -> Option<Step> {
    let times = [
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ];
    let first = times.iter().find_map(|pointer| event.time(pointer))?;
    let last = event
        .time("/series/lastObservedTime")
        .or_else(|| event.time("/lastTimestamp"))
        .unwrap_or(first);
    let count = event.number("/series/count").max(event.number("/count"));
    let by = match event.text("/reportingComponent") {
        "" => event.text("/source/component"),
        by => by,
    };
    Some(Step {
        first,
        last: last.max(first),
        count: count.max(1),
        warning: event.text("/type") == "Warning",
        reason: event.text("/reason").to_owned(),
        message: event.text("/message").to_owned(),
        by: by.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_forms_become_steps_in_order() {
        let events = [
            json!({
                "type": "Normal", "reason": "ScalingReplicaSet", "message": "down", "count": 3,
                "firstTimestamp": "2026-11-28T12:00:05Z", "lastTimestamp": "2026-11-28T12:00:09Z",
                "source": {"component": "deployment-controller"},
            }),
            json!({
                "type": "Warning", "reason": "Failed", "message": "up",
                "eventTime": "2026-11-28T12:00:01Z", "reportingComponent": "x",
                "series": {"count": 2, "lastObservedTime": "2026-11-28T12:00:02Z"},
            }),
            json!({"message": "without a time"}),
        ];
        let found = steps(&events.map(Doc::new));
        let short: Vec<_> = found
            .iter()
            .map(|step| {
                (
                    step.message.as_str(),
                    step.count,
                    step.warning,
                    step.by.as_str(),
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("up", 2, true, "x"),
                ("down", 3, false, "deployment-controller")
            ]
        );
        assert_eq!(found[1].last.to_string(), "2026-11-28T12:00:09Z");
    }
}
