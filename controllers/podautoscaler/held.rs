//! Why an autoscaler keeps its size, by the use of each resource in its status.
//!
//! `replicas.rs` decides with the samples of the pods, which the status does not have. Their mean is enough here, since
//! the decision itself is known: the size stays.

use serde_json::Value;
use steersman_objects::HorizontalPodAutoscaler;
use steersman_values::quantity::Quantity;
use steersman_why::{Code, Doc, Reason, quantity};

use super::NAME;
use super::replicas::{Tolerances, at_ratio};

/// The default of `--horizontal-pod-autoscaler-tolerance`. The flag itself is unknown here: the explanation may run in
/// another process than the controller.
const TOLERANCE: f64 = 0.1;

/// The use of a resource beside its target.
pub(super) struct Use {
    name: String,
    current: String,
    target: String,
    ratio: f64,
}

impl Use {
    /// `cpu 54% beside a target of 50%`, or `cpu 0.95 cores beside a target of 80 cores for each pod (AverageValue)`.
    pub(super) fn words(&self) -> String {
        let Self {
            name,
            current,
            target,
            ..
        } = self;
        format!("{name} {current} beside a target of {target}")
    }

    /// The use of the resource `name` with a target in percent of its requests, or as an amount for each pod.
    fn of(name: &str, target: &Value, current: &Value) -> Option<Self> {
        let name = name.to_owned();
        if let Some(wanted) = target["averageUtilization"].as_i64() {
            let percent = current["averageUtilization"].as_i64()?;
            return Some(Self {
                name,
                current: format!("{percent}%"),
                target: format!("{wanted}%"),
                ratio: percent as f64 / wanted as f64,
            });
        }
        let wanted = quantity(&target["averageValue"])?;
        let found = quantity(&current["averageValue"])?;
        Some(Self {
            current: amount(&name, found),
            target: format!("{} for each pod (AverageValue)", amount(&name, wanted)),
            ratio: found.to_f64() / wanted.to_f64(),
            name,
        })
    }
}

/// `value` of the resource `name` with its unit.
pub(super) fn amount(name: &str, value: Quantity) -> String {
    match name {
        "cpu" if value == Quantity::whole(1) => "1 core".to_owned(),
        "cpu" => format!("{} cores", value.to_f64()),
        _ => value.canonical(),
    }
}

/// The field and the source of a metric of a resource. Other metrics have units that only their source knows.
pub(super) fn source(metric: &Value) -> Option<(&'static str, &Value)> {
    let kind = match metric["type"].as_str()? {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return None,
    };
    Some((kind, &metric[kind]))
}

/// The use of each resource of `doc` that has a target.
pub(super) fn uses(doc: &Doc) -> Vec<Use> {
    let current = doc.items("/status/currentMetrics");
    let metrics = doc.items("/spec/metrics").iter();
    let found = metrics.filter_map(|metric| {
        let (kind, source) = source(metric)?;
        let is_same = |seen: &&Value| {
            seen[kind]["name"] == source["name"] && seen[kind]["container"] == source["container"]
        };
        let seen = current.iter().find(is_same)?;
        Use::of(
            source["name"].as_str()?,
            &source["target"],
            &seen[kind]["current"],
        )
    });
    found.collect()
}

/// The reason why `hpa`, the object `doc`, keeps its size: a ratio within the tolerance, a metric that asks for this
/// size, pods that the decision counts otherwise, or only that its metrics ask for it.
pub(super) fn explain(hpa: &HorizontalPodAutoscaler, doc: &Doc) -> Reason {
    let current = hpa.status.current_replicas;
    let minimum = hpa.spec.min_replicas.unwrap_or(1);
    let tolerances = Tolerances::of(hpa.spec.behavior.as_ref(), TOLERANCE);
    let mut near = Vec::new();
    let mut asking = Vec::new();
    let mut clauses = Vec::new();
    let mut asks_for_more = false;
    for one in uses(doc) {
        let words = one.words();
        let asked = at_ratio(current, one.ratio, tolerances).max(minimum);
        if tolerances.contain(one.ratio) {
            near.push(format!("{words} is a ratio of {:.2}", one.ratio));
        } else if asked == current {
            asking.push(one.name);
            clauses.push(format!("{words} asks for {asked}"));
        } else if asked < current {
            clauses.push(format!("{words} alone would ask for {asked}"));
        } else {
            asks_for_more = true;
            clauses.push(format!("{words} alone would ask for {asked}"));
        }
    }
    if asks_for_more {
        clauses.extend(near);
        let message = format!(
            "the autoscaler keeps the size: {}; pods that are not ready, or have no metrics, count otherwise",
            clauses.join("; ")
        );
        return Reason::new(Code::WithinTolerance, NAME, message);
    }
    if !near.is_empty() {
        near.extend(clauses);
        let message = format!(
            "the autoscaler keeps the size on purpose: {}; a ratio of {:.2} to {:.2} (the tolerance) changes nothing",
            near.join("; "),
            1.0 - tolerances.down,
            1.0 + tolerances.up
        );
        return Reason::new(Code::WithinTolerance, NAME, message);
    }
    if clauses.is_empty() {
        let message = "the metrics ask for the current size";
        return Reason::new(Code::WithinTolerance, NAME, message);
    }
    let end = match (asking.len(), clauses.len()) {
        (0, _) => "; another metric asks for the size",
        (_, 1) => "",
        _ => "; the largest size counts",
    };
    let message = format!(
        "the metrics ask for the current size: {}{end}",
        clauses.join("; ")
    );
    match &asking[..] {
        [] => Reason::new(Code::WithinTolerance, NAME, message),
        names => Reason::new(Code::MetricHolds, NAME, message).who(format!(
            "owner of the autoscaler (target of {})",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn the_metric_that_holds_the_size_is_told_with_its_ratio() {
        // (cpu, memory, tolerance, code, message)
        let cases = [
            (
                54,
                None,
                None,
                Code::WithinTolerance,
                "the autoscaler keeps the size on purpose: cpu 54% beside a target of 50% is a ratio of 1.08; a ratio of \
                 0.90 to 1.10 (the tolerance) changes nothing",
            ),
            (
                54,
                None,
                Some("0.05"),
                Code::WithinTolerance,
                "the autoscaler keeps the size: cpu 54% beside a target of 50% alone would ask for 6; pods that are not ready, \
                 or have no metrics, count otherwise",
            ),
            (
                80,
                Some(78),
                None,
                Code::WithinTolerance,
                "the autoscaler keeps the size: cpu 80% beside a target of 50% alone would ask for 8; memory 78% beside a \
                 target of 80% is a ratio of 0.97; pods that are not ready, or have no metrics, count otherwise",
            ),
            (
                3,
                None,
                None,
                Code::WithinTolerance,
                "the metrics ask for the current size: cpu 3% beside a target of 50% alone would ask for 2; another metric asks \
                 for the size",
            ),
            (
                3,
                Some(70),
                None,
                Code::MetricHolds,
                "the metrics ask for the current size: cpu 3% beside a target of 50% alone would ask for 2; memory 70% beside \
                 a target of 80% asks for 5; the largest size counts",
            ),
            (
                3,
                Some(78),
                None,
                Code::WithinTolerance,
                "the autoscaler keeps the size on purpose: memory 78% beside a target of 80% is a ratio of 0.97; cpu 3% \
                 beside a target of 50% alone would ask for 2; a ratio of 0.90 to 1.10 (the tolerance) changes nothing",
            ),
        ];
        for (cpu, memory, tolerance, code, message) in cases {
            let metric = |name: &str, target: i64| json!({"type": "Resource", "resource": {"name": name, "target": {"averageUtilization": target}}});
            let value = |name: &str, percent: i64| json!({"type": "Resource", "resource": {"name": name, "current": {"averageUtilization": percent}}});
            let mut values = vec![value("cpu", cpu)];
            values.extend(memory.map(|percent| value("memory", percent)));
            let rules = tolerance.map(|tolerance| json!({"scaleUp": {"tolerance": tolerance}}));
            let hpa = json!({
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {
                    "minReplicas": 2, "maxReplicas": 9, "metrics": [metric("cpu", 50), metric("memory", 80)],
                    "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
                    "behavior": rules,
                },
                "status": {"currentReplicas": 5, "desiredReplicas": 5, "currentMetrics": values},
            });
            let view = HorizontalPodAutoscaler::decode(hpa.to_string().as_bytes()).unwrap();
            let reason = explain(&view, &Doc::new(hpa));
            assert_eq!((reason.code, &*reason.message), (code, message));
            assert_eq!(
                reason.who.contains("target of memory"),
                code == Code::MetricHolds
            );
        }
    }

    #[test]
    fn the_use_of_a_resource_has_its_unit() {
        let words = |name: &str, target: Value, current: Value| {
            let doc = json!({
                "spec": {"metrics": [{"type": "Resource", "resource": {"name": name, "target": target}}]},
                "status": {"currentMetrics": [{"type": "Resource", "resource": {"name": name, "current": current}}]},
            });
            let uses = uses(&Doc::new(doc)).into_iter();
            let texts: Vec<String> = uses
                .map(|one| format!("{} ({:.3})", one.words(), one.ratio))
                .collect();
            texts.join("; ")
        };
        let current = json!({"averageValue": "950m", "averageUtilization": 95});
        assert_eq!(
            words(
                "cpu",
                json!({"type": "AverageValue", "averageValue": "80"}),
                current.clone()
            ),
            "cpu 0.95 cores beside a target of 80 cores for each pod (AverageValue) (0.012)"
        );
        assert_eq!(
            words(
                "cpu",
                json!({"type": "Utilization", "averageUtilization": 50}),
                current
            ),
            "cpu 95% beside a target of 50% (1.900)"
        );
        assert_eq!(
            words(
                "memory",
                json!({"averageValue": "1Gi"}),
                json!({"averageValue": "512Mi"})
            ),
            "memory 512Mi beside a target of 1Gi for each pod (AverageValue) (0.500)"
        );
        assert_eq!(words("cpu", json!({"averageValue": "1"}), json!({})), "");
    }
}
