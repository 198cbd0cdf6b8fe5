//! Why a HorizontalPodAutoscaler does not scale.
//!
//! The reasons come from the conditions and Events that any autoscaler controller leaves, so they are also
//! right for the controller of another process. Its memory adds `recall.rs`.

use serde_json::Value;
use steersman_objects::HorizontalPodAutoscaler;
use steersman_values::resource::{HORIZONTAL_POD_AUTOSCALERS, ResourceType};
use steersman_why::{Code, Doc, Explanation, Reason, World};

use super::NAME;
use super::containers;
use super::cores;
use super::held;
use super::rates;
use super::shared;
use super::status::{ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED};

/// The actors for pods without metrics, as long as no other cause is known.
const NO_METRICS: &str = "operator of the metrics API, or wait until the pods are ready";

/// The window of a scale-down in seconds, without one in the spec and the flag
/// `--horizontal-pod-autoscaler-downscale-stabilization`. The flag itself is unknown here: the explanation
/// may run in another process than the controller.
const WINDOW: i64 = 300;

/// Adds the reasons about `doc`, and the answer about its target.
///
/// `ScalingActive` explains the metrics, `ScalingLimited` the limits, and `AbleToScale` the rest. A failure
/// of the target comes last, as the reason behind the others.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(hpa) = doc.view::<HorizontalPodAutoscaler>() else {
        return;
    };
    let target = &hpa.spec.scale_target_ref;
    let status = &hpa.status;
    let minimum = hpa.spec.min_replicas.unwrap_or(1);
    let current = usize::try_from(status.current_replicas).unwrap_or_default();
    // The status has 0 until the controller has computed a size.
    let wants = match status.desired_replicas {
        0 if minimum > 0 => String::new(),
        desired if desired == status.current_replicas => String::new(),
        desired => format!(" and wants {desired}"),
    };
    answer.state = format!(
        "has {}{wants} (limits {minimum} to {})",
        steersman_why::count(current, "replica"),
        hpa.spec.max_replicas
    );
    let about = format!("{} {}/{}", target.kind, doc.namespace(), target.name);
    if doc.condition(ABLE_TO_SCALE).is_none() {
        let message = "the controller has not looked at the autoscaler yet";
        let age = doc.time("/metadata/creationTimestamp");
        // Four periods of 15 s are long enough for the first sync, also for an autoscaler with a slow metrics
        // API.
        let late = age.is_some_and(|at| world.now.duration_since(at).as_secs() > 60);
        let code = if late {
            Code::NotObserved
        } else {
            Code::SyncQueued
        };
        answer.add(
            Reason::new(code, NAME, message)
                .who("operator of the controller manager")
                .since(age),
        );
    }
    if let Some(able) = doc.condition(ABLE_TO_SCALE) {
        let is_true = able.text("/status") == "True";
        let why = able.text("/reason");
        let since = able.time("/lastTransitionTime");
        if !is_true {
            let code = match why {
                "FailedGetScale" => Code::ScaleTargetMissing,
                _ => Code::RequestFailed,
            };
            let message = format!("{why}: {}", able.text("/message"));
            let who = format!("owner of {about}, or of the autoscaler (scaleTargetRef)");
            answer.name_failure(Reason::new(code, NAME, message).who(who).since(since));
        } else if matches!(
            // The reasons with `Backoff` are those of controllers of old releases. Objects keep them until
            // the next sync.
            why,
            "ScaleDownStabilized"
                | "ScaleUpStabilized"
                | "BackoffBoth"
                | "BackoffDownscale"
                | "BackoffUpscale"
        ) {
            let mut message = able.text("/message").to_owned();
            let mut who = "owner of the autoscaler (spec.behavior)";
            if why == "ScaleDownStabilized" {
                let window = doc.at("/spec/behavior/scaleDown/stabilizationWindowSeconds");
                let seconds = window.and_then(Value::as_i64).unwrap_or(WINDOW);
                message = format!("{message} (window of {seconds} s)");
                who = "owner of the autoscaler (behavior.scaleDown.stabilizationWindowSeconds)";
            }
            answer.add(
                Reason::new(Code::Stabilized, NAME, message)
                    .who(who)
                    .since(since),
            );
        }
    }
    let scaled = scaled(world, doc, &hpa);
    let scaled = scaled.as_ref();
    let missing = scaled.map(|(_, target)| containers::missing(world, doc, target, &about));
    match missing {
        Some(missing) if !missing.is_empty() => {
            for reason in missing {
                let active = doc.condition(SCALING_ACTIVE);
                let since = active.and_then(|active| active.time("/lastTransitionTime"));
                answer.name_failure(reason.since(since));
            }
        }
        _ => active(
            world,
            doc,
            (&about, scaled.map(|(_, target)| target)),
            answer,
        ),
    }
    if let Some(reason) = limited(world, doc) {
        answer.add(reason);
    } else if !answer.is_stuck()
        && !answer.has(Code::Stabilized)
        && !answer.has(Code::ScaledBy)
        && status.current_replicas == status.desired_replicas
    {
        // Equal sizes without another reason: the metrics ask for the present size. Stabilization would name
        // itself.
        answer.add(held::explain(&hpa, doc));
    }
    if let Some((of, target)) = scaled {
        answer.reasons.extend(cores::explain(world, doc, target));
        answer
            .reasons
            .extend(shared::pods_of_others(world, target, &about));
        let target = world.explain(of, target);
        // Only a target with a problem of its own is worth following.
        if target.is_stuck() {
            // Pods that do not run have no metrics.
            for reason in &mut answer.reasons {
                if reason.who == NO_METRICS {
                    reason.who = Reason::see(&about);
                }
            }
            answer.follow(target);
        }
    }
}

/// The target of the autoscaler `doc`, with its type.
fn scaled(world: &World, doc: &Doc, hpa: &HorizontalPodAutoscaler) -> Option<(ResourceType, Doc)> {
    let target = &hpa.spec.scale_target_ref;
    // The core group has no slash, so a ReplicationController has the group "".
    let version = target.api_version.split_once('/');
    let group = version.map_or("", |(group, _)| group);
    let of = world.resource(group, &target.kind).found()?;
    let doc = world.get(&of, doc.namespace(), &target.name).found()?;
    Some((of, doc))
}

/// The limit that changes the size that the metrics of `doc` ask for. `None` if no limit applies, or if the
/// condition is older than the present state.
pub(crate) fn limited(world: &World, doc: &Doc) -> Option<Reason> {
    let limited = doc.condition(SCALING_LIMITED)?;
    // Without a size from metrics, the condition keeps its old state.
    let is_old = [ABLE_TO_SCALE, SCALING_ACTIVE].iter().any(|kind| {
        doc.condition(kind)
            .is_some_and(|condition| condition.text("/status") == "False")
    });
    if limited.text("/status") != "True" || is_old {
        return None;
    }
    let hpa = doc.view::<HorizontalPodAutoscaler>()?;
    let values: Vec<String> = held::uses(doc).iter().map(held::Use::words).collect();
    let reason = rates::limited(&hpa, &limited, &values, world.now);
    Some(reason.since(limited.time("/lastTransitionTime")))
}

/// The ScaledObject of KEDA that owns the autoscaler `doc`.
fn scaled_object(doc: &Doc) -> Option<&str> {
    let mut owners = doc.items("/metadata/ownerReferences").iter();
    owners.find(|owner| owner["kind"] == "ScaledObject")?["name"].as_str()
}

/// Names the ScaledObject `scaler` of KEDA that owns `doc`, and follows it. KEDA itself scales from and to 0.
fn scaled_from_zero(
    world: &World,
    doc: &Doc,
    scaler: &str,
    target: &str,
    answer: &mut Explanation,
) {
    let namespace = doc.namespace();
    let message = format!(
        "{target} has 0 replicas, and ScaledObject {namespace}/{scaler} of KEDA decides about the first one"
    );
    let reason = Reason::new(Code::ScaledBy, "keda-operator", message);
    answer.add(reason.who(format!("owner of ScaledObject {namespace}/{scaler}")));
    let of = world.resource("keda.sh", "ScaledObject").found();
    let found = of.and_then(|of| {
        let found = world.get(&of, namespace, scaler).found()?;
        Some(world.explain(&of, &found))
    });
    if let Some(about) = found.filter(Explanation::is_stuck) {
        answer.follow(about);
    }
}

/// The reason why no metrics decide the size.
///
/// Failures of metrics differ by their remedy, and the texts of `problem.rs` and `metrics_api` tell them
/// apart. The order of arms matters: requests that are missing come before the reasons of API calls, since
/// both have the same reason of the condition.
fn active(
    world: &World,
    doc: &Doc,
    (target, scaled): (&str, Option<&Doc>),
    answer: &mut Explanation,
) {
    let Some(active) = doc.condition(SCALING_ACTIVE) else {
        return;
    };
    if active.text("/status") != "False" {
        return;
    }
    let why = active.text("/reason");
    let message = active.text("/message");
    if let Some(scaler) = scaled_object(doc).filter(|_| why == "ScalingDisabled") {
        scaled_from_zero(world, doc, scaler, target, answer);
        return;
    }
    let (code, who) = match why {
        "ScalingDisabled" => (
            Code::ScalingDisabled,
            format!("owner of {target} (scale it to at least 1)"),
        ),
        "AmbiguousSelector" => (
            Code::AmbiguousSelector,
            format!("owners of the autoscalers in {}", doc.namespace()),
        ),
        "InvalidSelector" => (Code::SelectorInvalid, format!("owner of {target}")),
        "InvalidMetricSourceType" => (Code::ObjectInvalid, "owner of the autoscaler".to_owned()),
        _ if message.contains("missing request for") => (
            Code::MetricsFailed,
            containers::who_requests(scaled, message, target),
        ),
        _ if message.contains("no metrics returned")
            || message.contains("did not receive metrics") =>
        {
            let who = if why == "FailedGetExternalMetric" {
                "operator of the external metrics API, source of the metric, or owner of the autoscaler"
            } else {
                NO_METRICS
            };
            (Code::MetricsFailed, who.to_owned())
        }
        "FailedGetPodsMetric" | "FailedGetObjectMetric" => (
            Code::MetricsFailed,
            "owner of the autoscaler (name of the metric), or operator of the adapter of custom.metrics.k8s.io (its rules)"
                .to_owned(),
        ),
        "FailedGetExternalMetric" => (
            Code::MetricsFailed,
            "owner of the autoscaler (name of the metric), or operator of the adapter of external.metrics.k8s.io"
                .to_owned(),
        ),
        _ => (
            Code::MetricsFailed,
            "operator of the metrics API (metrics-server or adapter)".to_owned(),
        ),
    };
    let mut message = format!("{why}: {message}");
    // As `Reconciler::propose`: the remaining metrics may only enlarge the target.
    if code == Code::MetricsFailed && doc.items("/spec/metrics").len() > 1 {
        message.push_str(
            "; with one metric without a value of several, the size rises and never falls",
        );
    }
    if code == Code::AmbiguousSelector {
        // The condition names the keys of some autoscalers only, and a list of all is cheap within one
        // namespace.
        let all = world
            .list(&HORIZONTAL_POD_AUTOSCALERS, doc.namespace())
            .unwrap_or_default();
        let others: Vec<&str> = all
            .iter()
            .map(Doc::name)
            .filter(|name| *name != doc.name())
            .collect();
        message = format!("{message}; other autoscalers here: {}", others.join(", "));
    }
    answer.name_failure(
        Reason::new(code, NAME, message)
            .who(who)
            .since(active.time("/lastTransitionTime")),
    );
}
