//! Cells of workloads: Deployments, ReplicaSets, DaemonSets, StatefulSets, Jobs, CronJobs and
//! related kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NONE, age_cell, age_since, human_age, labels, list, name, number, or, text};

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        json!(format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        )),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age_cell(object, now),
    ];
    cells.extend(template(object));
    cells.push(selector(object));
    cells
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age_cell(object, now),
    ];
    cells.extend(template(object));
    cells.push(selector(object));
    cells
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let counters = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells = vec![name(object)];
    cells.extend(counters.map(|counter| json!(number(object, &format!("/status/{counter}")))));
    cells.push(json!(labels(
        object.pointer("/spec/template/spec/nodeSelector")
    )));
    cells.push(age_cell(object, now));
    cells.extend(template(object));
    cells.push(selector(object));
    cells
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    );
    let mut cells = vec![name(object), json!(ready), age_cell(object, now)];
    cells.extend(template(object));
    cells
}

/// Desired and current replicas of a Scale.
pub(super) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    let desired = number(object, "/spec/replicas");
    let available = number(object, "/status/replicas");
    vec![
        name(object),
        json!(desired),
        json!(available),
        age_cell(object, now),
    ]
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = number(object, "/status/succeeded");
    let completions = match (
        object.pointer("/spec/completions").and_then(Value::as_i64),
        number(object, "/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let mut cells = vec![
        name(object),
        json!(job_status(object)),
        json!(completions),
        json!(job_duration(object, now)),
        age_cell(object, now),
    ];
    cells.extend(template(object));
    cells.push(selector(object));
    cells
}

/// The first state of a Job in upstream's order. Finished Jobs stay so while terminating.
fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        list(job, "/status/conditions")
            .iter()
            .any(|c| c["type"] == kind && c["status"] == "True")
    };
    let is_deleted = job
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if is_deleted => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

/// Time from start to completion, or until now. Empty before the start.
fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| text(job, pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(_), None) => age_since(job.pointer("/status/startTime"), now),
        (Some(start), Some(end)) => human_age(end.duration_since(start)),
    }
}

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = object
        .pointer("/status/lastScheduleTime")
        .filter(|time| !time.is_null());
    let suspend = match object.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let job = &object["spec"]["jobTemplate"];
    let mut cells = vec![
        name(object),
        json!(text(object, "/spec/schedule")),
        json!(or(text(object, "/spec/timeZone"), NONE)),
        json!(suspend),
        json!(list(object, "/status/active").len()),
        json!(last.map_or_else(|| NONE.to_owned(), |time| age_since(Some(time), now))),
        age_cell(object, now),
    ];
    cells.extend(template(job));
    cells.push(selector(job));
    cells
}

pub(super) fn pod_template(object: &Value) -> Vec<Value> {
    let [names, images] = containers(object, "/template/spec/containers");
    vec![
        name(object),
        names,
        images,
        json!(labels(object.pointer("/template/metadata/labels"))),
    ]
}

/// The controller appears as `kind.group/name`, as in `kubectl get`.
pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let controller = list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true);
    let controller = controller.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = text(owner, "/apiVersion")
                .split_once('/')
                .map_or(String::new(), |(group, _)| format!(".{group}"));
            format!(
                "{}{group}/{}",
                text(owner, "/kind").to_lowercase(),
                text(owner, "/name")
            )
        },
    );
    vec![
        name(object),
        json!(controller),
        json!(number(object, "/revision")),
        age_cell(object, now),
    ]
}

/// Names and images of the template's containers.
fn template(object: &Value) -> [Value; 2] {
    containers(object, "/spec/template/spec/containers")
}

fn containers(object: &Value, pointer: &str) -> [Value; 2] {
    ["/name", "/image"].map(|field| {
        let values: Vec<&str> = list(object, pointer)
            .iter()
            .map(|c| text(c, field))
            .collect();
        json!(values.join(","))
    })
}

fn selector(object: &Value) -> Value {
    label_selector(object.pointer("/spec/selector"))
}

/// The selector in kubectl's syntax, sorted by key.
pub(super) fn label_selector(selector: Option<&Value>) -> Value {
    let Some(selector) = selector else {
        return json!(NONE);
    };
    let is_label_selector = selector.get("matchLabels").is_some_and(Value::is_object)
        || selector.get("matchExpressions").is_some();
    if !is_label_selector {
        return json!(labels(Some(selector)));
    }
    let equals = selector["matchLabels"].as_object().into_iter().flatten();
    let mut requirements: Vec<(&str, String)> = equals
        .map(|(key, value)| {
            (
                key.as_str(),
                format!("{key}={}", value.as_str().unwrap_or("")),
            )
        })
        .collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = list(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        requirements.push((
            key,
            match text(expression, "/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    requirements.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    json!(or(&texts.join(","), NONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_kubectls_syntax() {
        let cases = [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchLabels": {"m": "1"}, "matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["y", "x"]},
                    {"key": "a", "operator": "DoesNotExist"}, {"key": "n", "operator": "Exists"}]}),
                "!a,m=1,n,z notin (x,y)",
            ),
            (json!({"app": "d"}), "app=d"),
            (json!({}), "<none>"),
        ];
        for (given, expected) in cases {
            assert_eq!(
                selector(&json!({"spec": {"selector": given}})),
                expected,
                "{given}"
            );
        }
    }

    #[test]
    fn jobs_show_progress() {
        let now = "2024-01-01T01:00:00Z".parse().unwrap();
        // (job, status, completions, duration)
        let cases = [
            (
                json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": "2024-01-01T00:58:30Z"}}),
                ["Running", "1/3", "90s"],
            ),
            (
                json!({"spec": {"parallelism": 2}}),
                ["Running", "0/1 of 2", ""],
            ),
            (
                json!({"spec": {"parallelism": 1}, "status": {"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:07Z",
                    "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}),
                ["Complete", "1/1", "7s"],
            ),
            (
                json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}),
                ["Suspended", "0/1", ""],
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}),
                ["Terminating", "0/1", ""],
            ),
        ];
        for (object, expected) in cases {
            let cells = job(&object, now);
            assert_eq!(
                [1, 2, 3].map(|column| cells[column].as_str().unwrap().to_owned()),
                expected,
                "{object}"
            );
        }
    }
}
