//! A target of CPU cores whose author may have meant a percentage: `averageValue: 80` is 80 cores for each pod.

use serde_json::Value;
use steersman_values::quantity::Quantity;
use steersman_why::{Code, Doc, Reason, World, quantity};

use super::NAME;
use super::containers;
use super::held;

/// Cores beyond the requests of a pod that a target rarely means.
const BEYOND: i64 = 10;
/// A smaller target is rarely meant as a percentage.
const PERCENT: i64 = 10;

/// The reason for the first target of CPU cores in `doc` that no running pod of `target` can use, or that is far beyond the
/// requests of a pod.
pub(super) fn explain(world: &World, doc: &Doc, target: &Doc) -> Option<Reason> {
    let pods = containers::pods(world, target).unwrap_or_default();
    judge(doc, target, &pods)
}

fn judge(doc: &Doc, target: &Doc, pods: &[&Doc]) -> Option<Reason> {
    let metrics = doc.items("/spec/metrics");
    let (index, source, kind, value) = metrics.iter().enumerate().find_map(|(index, metric)| {
        let (kind, source) = held::source(metric)?;
        let value = quantity(&source["target"]["averageValue"])?;
        (source["name"] == "cpu").then_some((index, source, kind, value))
    })?;
    let only = source["container"].as_str();
    let template = target.at("/spec/template/spec");
    let begin = format!(
        "the target of cpu is {} for each pod (AverageValue)",
        held::amount("cpu", value)
    );
    // Another metric may ask for more pods.
    let limits = limits(pods, only).filter(|limits| *limits < value && metrics.len() == 1);
    let requests = template.and_then(|spec| sum(spec, "requests", only));
    let (code, message) = if let Some(limits) = limits {
        let limits = held::amount("cpu", limits);
        let message = format!(
            "{begin}, and the limits of a pod allow {limits}, so the autoscaler never scales up"
        );
        (Code::TargetUnreachable, message)
    } else if requests.is_some_and(|all| all.plus(Quantity::whole(BEYOND)) <= value) {
        let message = format!("{begin}, which is far beyond its requests");
        (Code::TargetInCores, message)
    } else {
        return None;
    };
    let who = format!(
        "owner of the autoscaler (spec.metrics[{index}].{kind}.target: type Utilization, or a smaller averageValue)"
    );
    let message = format!("{message}{}", percentage(value));
    let reason = Reason::new(code, NAME, message).who(who);
    Some(reason.since(doc.changed()))
}

/// The advice for a target that may be meant as a percentage.
fn percentage(value: Quantity) -> String {
    let percent = value.to_i64().filter(|percent| *percent >= PERCENT);
    let advice = percent.map(|percent| {
        format!(
            "; a percentage of the requests is a target of type Utilization (averageUtilization {percent})"
        )
    });
    advice.unwrap_or_default()
}

/// The largest limit for CPU of the running ones of `pods`. Admission may have added containers and limits to them. `None`
/// if one of them has no limit, or if none runs.
fn limits(pods: &[&Doc], only: Option<&str>) -> Option<Quantity> {
    let running = pods
        .iter()
        .filter(|pod| pod.text("/status/phase") == "Running");
    let limits = running.map(|pod| limit(pod.at("/spec")?, only));
    let limits = limits.collect::<Option<Vec<Quantity>>>()?.into_iter();
    limits.reduce(|one, other| if one < other { other } else { one })
}

/// The limit for CPU of a pod: its own, else that of its containers if each has one.
fn limit(spec: &Value, only: Option<&str>) -> Option<Quantity> {
    let own = quantity(&spec["resources"]["limits"]["cpu"]).filter(|_| only.is_none());
    let mut containers = containers(spec, only);
    let is_limited = containers.all(|one| !one["resources"]["limits"]["cpu"].is_null());
    own.or_else(|| sum(spec, "limits", only).filter(|_| is_limited))
}

/// The sum of the `bound` for CPU. `None` if no container has it.
fn sum(spec: &Value, bound: &str, only: Option<&str>) -> Option<Quantity> {
    let values = containers(spec, only).filter_map(|one| quantity(&one["resources"][bound]["cpu"]));
    values.reduce(Quantity::plus)
}

/// The containers of a pod that run beside each other, or the one with the name `only`.
fn containers<'d>(spec: &'d Value, only: Option<&'d str>) -> impl Iterator<Item = &'d Value> {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let sidecars = list("initContainers").filter(|one| one["restartPolicy"] == "Always");
    let all = list("containers").chain(sidecars);
    all.filter(move |one| only.is_none_or(|only| one["name"] == *only))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(resources: &Value) -> Value {
        let sidecar = json!({"name": "log", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}});
        json!({
            "containers": [{"name": "main", "resources": resources}],
            "initContainers": [{"name": "init", "resources": {}}, sidecar],
        })
    }

    fn told_with(
        metrics: &Value,
        resources: &Value,
        pods: &[(&str, Value)],
    ) -> Option<(Code, String)> {
        let doc = Doc::new(json!({"spec": {"metrics": metrics}}));
        let target = Doc::new(json!({"spec": {"template": {"spec": spec(resources)}}}));
        let pod = |(phase, spec): &(&str, Value)| {
            Doc::new(json!({"spec": spec, "status": {"phase": phase}}))
        };
        let pods: Vec<Doc> = pods.iter().map(pod).collect();
        let pods: Vec<&Doc> = pods.iter().collect();
        judge(&doc, &target, &pods).map(|reason| (reason.code, reason.message))
    }

    fn told(metrics: &Value, resources: &Value) -> Option<(Code, String)> {
        told_with(metrics, resources, &[("Running", spec(resources))])
    }

    fn cores(value: &str) -> Value {
        let target = json!({"type": "AverageValue", "averageValue": value});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    }

    #[test]
    fn the_limits_of_running_pods_count_with_containers_that_admission_adds() {
        let limited = json!({"requests": {"cpu": "200m"}, "limits": {"cpu": "1"}});
        let mut injected = spec(&limited);
        let proxy = json!({"name": "proxy", "resources": {"limits": {"cpu": "2"}}});
        injected["containers"].as_array_mut().unwrap().push(proxy);
        let mut open = spec(&limited);
        open["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "proxy"}));
        let mut whole = spec(&json!({}));
        whole["resources"]["limits"]["cpu"] = json!("1");
        let plain = || ("Running", spec(&limited));
        let code = |value: &str, pods: &[(&str, Value)]| {
            let found = told_with(&json!([cores(value)]), &limited, pods);
            found.map(|(code, _)| code)
        };
        let unreachable = Some(Code::TargetUnreachable);
        assert_eq!(code("2", &[plain()]), unreachable);
        assert_eq!(code("2", &[("Running", whole)]), unreachable);
        assert_eq!(code("2", &[plain(), ("Running", injected.clone())]), None);
        assert_eq!(code("4", &[plain(), ("Running", injected)]), unreachable);
        assert_eq!(code("2", &[plain(), ("Running", open)]), None);
        assert_eq!(code("2", &[("Pending", spec(&limited))]), None);
        assert_eq!(code("2", &[]), None);
    }

    #[test]
    fn a_percentage_is_advised_for_whole_values_alone() {
        let limited = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        for (value, expected) in [
            ("10", true),
            ("9", false),
            ("10500m", false),
            ("80000m", true),
        ] {
            let (_, message) = told(&json!([cores(value)]), &limited).unwrap();
            assert_eq!(
                message.contains("Utilization"),
                expected,
                "{value}: {message}"
            );
        }
    }

    #[test]
    fn a_target_is_beyond_requests_only_if_there_are_some() {
        let code =
            |metrics: Value, resources: Value| told(&metrics, &resources).map(|found| found.0);
        assert_eq!(code(json!([cores("80")]), json!({})), None);
        let percent = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let open = json!({"requests": {"cpu": "1"}});
        assert_eq!(
            code(json!([percent, cores("80")]), open),
            Some(Code::TargetInCores)
        );
    }

    #[test]
    fn a_target_of_cores_is_told_if_no_pod_can_use_it_or_if_it_is_far_beyond_the_requests() {
        let metric = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
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
