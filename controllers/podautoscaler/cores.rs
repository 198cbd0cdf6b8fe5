//! A target of CPU cores whose author may have meant a percentage: `averageValue: 80` is 80 cores for each pod.

use serde_json::Value;
use steersman_values::quantity::Quantity;
use steersman_why::{Code, Doc, Reason};

use super::NAME;
use super::held;

/// Cores beyond the requests of a pod that a target rarely means.
const BEYOND: f64 = 10.0;

/// The reason for the first target of CPU cores in `doc` that no pod of `target` can use, or that is far beyond the
/// requests of a pod.
pub(super) fn explain(doc: &Doc, target: &Doc) -> Option<Reason> {
    let metrics = doc.items("/spec/metrics");
    let (index, source, kind) = metrics.iter().enumerate().find_map(|(index, metric)| {
        let (kind, source) = held::source(metric)?;
        (source["name"] == "cpu").then_some((index, source, kind))
    })?;
    let value = held::quantity(&source["target"]["averageValue"])?;
    let cores = value.to_f64();
    let containers = containers(target, source["container"].as_str());
    let requests = sum(&containers, "requests").1;
    let (is_limited, limits) = sum(&containers, "limits");
    let percent = format!(
        "a percentage of the requests is a target of type Utilization (averageUtilization {cores})"
    );
    let begin = format!(
        "the target of cpu is {} for each pod (AverageValue)",
        held::amount("cpu", value)
    );
    // Another metric may ask for more pods.
    let is_only = metrics.len() == 1;
    let (code, message) = if is_limited && limits < cores && is_only {
        let limits = Quantity::milli((limits * 1000.0) as i64);
        let limits = held::amount("cpu", limits);
        let message = format!(
            "{begin}, and the limits of a pod allow {limits}, so the autoscaler never scales up; {percent}"
        );
        (Code::TargetUnreachable, message)
    } else if cores >= requests + BEYOND {
        let message = format!("{begin}, which is far beyond its requests; {percent}");
        (Code::TargetInCores, message)
    } else {
        return None;
    };
    let who = format!(
        "owner of the autoscaler (spec.metrics[{index}].{kind}.target: type Utilization, or a smaller averageValue)"
    );
    let reason = Reason::new(code, NAME, message).who(who);
    Some(reason.since(doc.changed()))
}

/// The containers of the template of `target` that run beside each other, or the one with the name `only`.
fn containers<'d>(target: &'d Doc, only: Option<&str>) -> Vec<&'d Value> {
    let list = |field: &str| target.items(&format!("/spec/template/spec/{field}"));
    let sidecars = list("initContainers").iter();
    let sidecars = sidecars.filter(|one| one["restartPolicy"] == "Always");
    let all = list("containers").iter().chain(sidecars);
    all.filter(|one| only.is_none_or(|only| one["name"] == *only))
        .collect()
}

/// Whether all `containers` have the `bound` for CPU, and its sum.
fn sum(containers: &[&Value], bound: &str) -> (bool, f64) {
    let values = containers
        .iter()
        .map(|one| held::quantity(&one["resources"][bound]["cpu"]));
    let known: Vec<f64> = values.flatten().map(Quantity::to_f64).collect();
    (
        !known.is_empty() && known.len() == containers.len(),
        known.iter().sum(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(metrics: &Value, resources: &Value) -> Option<(Code, String)> {
        let doc = Doc::new(json!({"spec": {"metrics": metrics}}));
        let sidecar = json!({"name": "log", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}});
        let target = Doc::new(json!({"spec": {"template": {"spec": {
            "containers": [{"name": "main", "resources": resources}],
            "initContainers": [{"name": "init", "resources": {}}, sidecar],
        }}}}));
        explain(&doc, &target).map(|reason| (reason.code, reason.message))
    }

    #[test]
    fn a_target_of_cores_is_told_if_no_pod_can_use_it_or_if_it_is_far_beyond_the_requests() {
        let metric = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let cores = |value: &str| metric(json!({"type": "AverageValue", "averageValue": value}));
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageUtilization": 80}}});
        let limited = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        let open = json!({"requests": {"cpu": "1"}});
        let (code, message) = told(&json!([cores("80")]), &limited).unwrap();
        assert_eq!(code, Code::TargetUnreachable);
        assert_eq!(
            message,
            "the target of cpu is 80 cores for each pod (AverageValue), and the limits of a pod allow 1.5 cores, so the \
             autoscaler never scales up; a percentage of the requests is a target of type Utilization (averageUtilization 80)"
        );
        let code =
            |metrics: Value, resources: &Value| told(&metrics, resources).map(|found| found.0);
        assert_eq!(
            code(json!([cores("80"), memory]), &limited),
            Some(Code::TargetInCores)
        );
        assert_eq!(code(json!([cores("80")]), &open), Some(Code::TargetInCores));
        assert_eq!(code(json!([cores("11")]), &open), Some(Code::TargetInCores));
        assert_eq!(code(json!([cores("10")]), &open), None);
        assert_eq!(code(json!([cores("1500m")]), &limited), None);
        assert_eq!(
            code(
                json!([metric(
                    json!({"type": "Utilization", "averageUtilization": 80})
                )]),
                &limited
            ),
            None
        );
        assert_eq!(code(json!([memory]), &limited), None);
        let of_container = json!([{"type": "ContainerResource", "containerResource":
            {"name": "cpu", "container": "main", "target": {"type": "AverageValue", "averageValue": "1200m"}}}]);
        assert_eq!(code(of_container, &limited), Some(Code::TargetUnreachable));
    }
}
