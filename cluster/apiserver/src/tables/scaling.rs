//! Cells of HorizontalPodAutoscalers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age_cell, list, name, number, or, shortened, text};

/// Most metrics in the cell.
const SHOWN: usize = 2;

const UNKNOWN: &str = "<unknown>";

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let least = object.pointer("/spec/minReplicas").and_then(Value::as_i64);
    let current = list(object, "/status/currentMetrics");
    let metrics = list(object, "/spec/metrics").iter().enumerate();
    let metrics: Vec<String> = metrics
        .map(|(at, spec)| metric(spec, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    vec![
        name(object),
        json!(format!(
            "{}/{}",
            text(object, "/spec/scaleTargetRef/kind"),
            text(object, "/spec/scaleTargetRef/name")
        )),
        json!(or(&shortened(&metrics, SHOWN, ", "), NONE)),
        json!(least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string())),
        json!(number(object, "/spec/maxReplicas")),
        json!(number(object, "/status/currentReplicas")),
        age_cell(object, now),
    ]
}

/// The current and the target value of a metric.
fn metric(spec: &Value, current: &Value) -> String {
    // (field of the source, whether the source is a resource of pods)
    let (field, is_resource) = match text(spec, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let source = &spec[field];
    let found = &current[field]["current"];
    let target = &source["target"];
    let amount = |holder: &Value, name: &str| holder[name].as_str().unwrap_or(UNKNOWN).to_owned();
    let percent = |holder: &Value, otherwise: &str| match holder["averageUtilization"].as_i64() {
        Some(percent) => format!("{percent}%"),
        None => otherwise.to_owned(),
    };
    let is_average = target["averageValue"].is_string();
    match (is_resource, is_average) {
        (true, true) => {
            format!(
                "{}: {}/{}",
                text(source, "/name"),
                amount(found, "averageValue"),
                amount(target, "averageValue")
            )
        }
        (true, false) => format!(
            "{}: {}/{}",
            text(source, "/name"),
            percent(found, UNKNOWN),
            percent(target, "<auto>")
        ),
        (false, true) => {
            let mark = if field == "pods" { "" } else { " (avg)" };
            format!(
                "{}/{}{mark}",
                amount(found, "averageValue"),
                amount(target, "averageValue")
            )
        }
        (false, false) => format!("{}/{}", amount(found, "value"), amount(target, "value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_shows_current_and_target_metrics() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "10"}}});
        let external = |target: Value| json!({"type": "External", "external": {"target": target}});
        // (metrics, current metrics, text)
        let cases = [
            (json!([]), json!([]), "<none>"),
            (json!([cpu]), json!([]), "cpu: <unknown>/50%"),
            (
                json!([cpu]),
                json!([{"resource": {"current": {"averageUtilization": 20}}}]),
                "cpu: 20%/50%",
            ),
            (
                json!([memory]),
                json!([{"resource": {"current": {"averageValue": "5Mi"}}}]),
                "memory: 5Mi/1Gi",
            ),
            (json!([pods]), json!([]), "<unknown>/10"),
            (
                json!([external(json!({"averageValue": "3"}))]),
                json!([]),
                "<unknown>/3 (avg)",
            ),
            (
                json!([external(json!({"value": "3"}))]),
                json!([{"external": {"current": {"value": "2"}}}]),
                "2/3",
            ),
            (
                json!([cpu, pods, memory]),
                json!([]),
                "cpu: <unknown>/50%, <unknown>/10 + 1 more...",
            ),
            (json!([{"type": "New"}]), json!([]), "<unknown type>"),
        ];
        for (metrics, current, expected) in cases {
            let object = json!({"spec": {"metrics": metrics, "minReplicas": 1}, "status": {"currentMetrics": current}});
            assert_eq!(autoscaler(&object, Timestamp::UNIX_EPOCH)[2], expected);
        }
    }
}
