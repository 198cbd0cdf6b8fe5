//! Scenarios of the horizontal pod autoscaler. The user makes the pods ready and sets their load, in
//! place of the controllers of the target.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::{Category, Decision};
use steersman_controllers::podautoscaler;
use steersman_perturb::rules::WITHIN_LIMITS;
use steersman_perturb::{AllowedError, Scenario, State, Step};

use crate::objects::{BLANK, delete, has_condition, patch, path, pod_on, template};

const BASE: Scenario = Scenario {
    controller: "horizontalpodautoscaling",
    controllers: &[podautoscaler::DESCRIPTOR],
    // The window of stabilization would make every scenario five minutes longer.
    configure: |context| {
        context.with_flag("horizontal-pod-autoscaler-downscale-stabilization", "30s")
    },
    errors: ERRORS,
    rules: &[WITHIN_LIMITS],
    ..BLANK
};

/// A cache without the pods of the target is no error of the controller.
const ERRORS: &[AllowedError] = &[UNUSABLE];
const AMBIGUOUS: &[AllowedError] = &[
    UNUSABLE,
    AllowedError::of(Category::Named(Decision("selector_unusable")), 40),
];
const UNUSABLE: AllowedError = AllowedError::of(Category::Named(Decision("metrics_unusable")), 20);

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "grow",
            steps: grow,
            ..BASE
        },
        Scenario {
            name: "shrink",
            steps: shrink,
            ..BASE
        },
        Scenario {
            name: "limits",
            steps: limits,
            ..BASE
        },
        Scenario {
            name: "external",
            steps: external,
            ..BASE
        },
        Scenario {
            name: "rules",
            steps: rules,
            ..BASE
        },
        Scenario {
            name: "user-resizes",
            steps: user_resizes,
            ..BASE
        },
        Scenario {
            name: "ambiguous",
            steps: ambiguous,
            errors: AMBIGUOUS,
            ..BASE
        },
    ]
}

const LOAD: &str = "simulate.steersman.dev/cpu";

/// A ReplicaSet without a controller.
fn target(replicas: usize) -> Step {
    Step::Create(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "web:1")},
    }))
}

/// Pods that have been ready for long. Each requests half a core and uses `used`.
fn pods(names: &[&str], used: &str) -> Vec<Step> {
    let pod = |name: &&str| {
        let mut pod = pod_on(name, "absent");
        pod["metadata"]["annotations"] = json!({ LOAD: used });
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
        let since = "2023-11-14T20:00:00Z";
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
        let status = json!({"phase": "Running", "startTime": since, "conditions": [ready]});
        let status = Step::Patch(path("pods", name) + "/status", json!({ "status": status }));
        [Step::Create(pod), status]
    };
    names.iter().flat_map(pod).collect()
}

/// An autoscaler of the target, with these fields of its spec.
fn autoscaler(name: &str, fields: Value) -> Step {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
        "minReplicas": 1, "maxReplicas": 6,
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    Step::Create(json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name}, "spec": spec,
    }))
}

/// Mean use of CPU of 50 % of the requests.
fn cpu() -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
}

/// Waits until the target has this size, and the autoscaler needs no other.
fn settled(replicas: usize) -> Step {
    Step::until("settled", move |state: &State| {
        let target = state.get("replicasets", "default/web");
        let hpa = state.get("horizontalpodautoscalers", "default/web");
        let Some(target) = target else {
            return false;
        };
        let Some(hpa) = hpa else {
            return false;
        };
        target["spec"]["replicas"] == replicas
            && hpa["status"]["currentReplicas"] == replicas
            && has_condition(hpa, "AbleToScale", "True", "ReadyForNewScale")
            && hpa["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.len() == 3)
    })
}

fn grow() -> Vec<Step> {
    let mut steps = vec![target(2)];
    steps.extend(pods(&["a", "b"], "400m"));
    steps.extend([autoscaler("web", cpu()), settled(4)]);
    steps
}

/// The load falls, and the size follows after the window of stabilization.
fn shrink() -> Vec<Step> {
    let mut steps = vec![target(3)];
    steps.extend(pods(&["a", "b", "c"], "250m"));
    steps.extend([autoscaler("web", cpu()), settled(3)]);
    let idle = json!({"metadata": {"annotations": {LOAD: "20m"}}});
    let idle = |name| patch("pods", name, idle.clone());
    steps.extend(["a", "b", "c"].map(idle));
    steps.push(settled(1));
    steps
}

/// The limits move the target without metrics, and the metrics keep it.
fn limits() -> Vec<Step> {
    let mut steps = vec![target(9)];
    steps.extend(pods(&["a", "b"], "490m"));
    let raised = json!({"spec": {"minReplicas": 5, "maxReplicas": 8}});
    steps.extend([
        autoscaler("web", cpu()),
        Step::until("the upper limit", |state: &State| {
            let target = state.get("replicasets", "default/web");
            target.is_some_and(|target| target["spec"]["replicas"] == 6)
        }),
        patch("horizontalpodautoscalers", "web", raised),
        settled(5),
    ]);
    steps
}

/// An external metric rises in two steps.
fn external() -> Vec<Step> {
    let target_value = json!({"type": "AverageValue", "averageValue": "10"});
    let metric = json!({"metric": {"name": "queue"}, "target": target_value});
    let metrics = json!({"metrics": [{"type": "External", "external": metric}]});
    let values = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "queue", "labels": {"simulate.steersman.dev/metrics": "external"}},
        "data": {"queue": "20"},
    });
    let mut steps = vec![target(1), Step::Create(values)];
    steps.extend(pods(&["a"], "0"));
    let status = json!({"status": {"replicas": 1}});
    steps.extend([
        Step::Patch(path("replicasets", "web") + "/status", status),
        autoscaler("web", metrics),
        settled(2),
        patch("configmaps", "queue", json!({"data": {"queue": "41"}})),
        settled(5),
    ]);
    steps
}

/// One more replica in 20 seconds.
fn rules() -> Vec<Step> {
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 20});
    let mut fields = cpu();
    fields["behavior"] = json!({"scaleUp": {"policies": [policy]}});
    let mut steps = vec![target(1)];
    steps.extend(pods(&["a"], "1800m"));
    steps.extend([autoscaler("web", fields), settled(6)]);
    steps
}

/// A target of size zero stays there. Above it, the lower limit applies.
fn user_resizes() -> Vec<Step> {
    let mut fields = cpu();
    fields["minReplicas"] = json!(2);
    let resize = |replicas: i32| {
        patch(
            "replicasets",
            "web",
            json!({"spec": {"replicas": replicas}}),
        )
    };
    let mut steps = vec![target(0)];
    steps.extend(pods(&["a", "b"], "250m"));
    steps.extend([
        autoscaler("web", fields),
        Step::until("disabled", |state: &State| {
            let hpa = state.get("horizontalpodautoscalers", "default/web");
            hpa.is_some_and(|hpa| has_condition(hpa, "ScalingActive", "False", "ScalingDisabled"))
        }),
        resize(1),
        settled(2),
    ]);
    steps
}

/// Two autoscalers select the same pods, until the user deletes one.
fn ambiguous() -> Vec<Step> {
    let mut steps = vec![target(2)];
    steps.extend(pods(&["a", "b"], "400m"));
    steps.extend([
        autoscaler("other", cpu()),
        Step::Sleep(Duration::from_secs(5)),
        autoscaler("web", cpu()),
        Step::until("ambiguous", |state: &State| {
            let hpa = state.get("horizontalpodautoscalers", "default/web");
            hpa.is_some_and(|hpa| has_condition(hpa, "ScalingActive", "False", "AmbiguousSelector"))
        }),
        delete("horizontalpodautoscalers", "other", json!({})),
        settled(4),
    ]);
    steps
}
