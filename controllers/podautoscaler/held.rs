//! Why an autoscaler keeps its size, by the use of each resource in its status.
//!
//! `replicas.rs` decides with the samples of the pods, which the status does not have. Their mean is enough here, since
//! the decision itself is known: the size stays.

use steersman_objects::HorizontalPodAutoscaler;
use steersman_why::{Code, Doc, Reason};

use super::NAME;
use super::replicas::{Tolerances, at_ratio};

/// The default of `--horizontal-pod-autoscaler-tolerance`. The flag itself is unknown here: the explanation may run in
/// another process than the controller.
const TOLERANCE: f64 = 0.1;

/// The use of a resource, in percent of its requests.
pub(super) struct Use {
    name: String,
    percent: i64,
    target: i64,
}

impl Use {
    /// `cpu 54% beside a target of 50%`.
    pub(super) fn words(&self) -> String {
        let Self {
            name,
            percent,
            target,
        } = self;
        format!("{name} {percent}% beside a target of {target}%")
    }

    fn ratio(&self) -> f64 {
        self.percent as f64 / self.target as f64
    }
}

/// The use of each resource of `doc` that has a target. Other metrics are left out: their values and targets have units
/// that only their source knows.
pub(super) fn uses(doc: &Doc) -> Vec<Use> {
    let current = doc.items("/status/currentMetrics");
    let metrics = doc.items("/spec/metrics").iter();
    let found = metrics.filter_map(|metric| {
        let kind = match metric["type"].as_str()? {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            _ => return None,
        };
        let source = &metric[kind];
        let is_same = |seen: &&serde_json::Value| {
            seen[kind]["name"] == source["name"] && seen[kind]["container"] == source["container"]
        };
        let seen = current.iter().find(is_same)?;
        Some(Use {
            name: source["name"].as_str()?.to_owned(),
            percent: seen[kind]["current"]["averageUtilization"].as_i64()?,
            target: source["target"]["averageUtilization"].as_i64()?,
        })
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
        let asked = at_ratio(current, one.ratio(), tolerances).max(minimum);
        if tolerances.contain(one.ratio()) {
            near.push(format!("{words} is a ratio of {:.2}", one.ratio()));
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
}
