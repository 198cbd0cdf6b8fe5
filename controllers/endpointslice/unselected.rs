//! Why a Service selects no pod: its workload has no replicas, a label differs, or the pods are in another
//! namespace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use steersman_objects::{Pod, Service};
use steersman_values::labels::Labels;
use steersman_values::resource::PODS;
use steersman_why::{Code, Doc, Explanation, Reason, Workload, World, workloads};

use super::NAME;

/// Namespaces in one sentence, and workloads that one answer looks into. More would make the
/// message too long to read.
const SHOWN: usize = 3;

/// Adds the reason why `service`, the object `doc`, selects none of the `pods` of its namespace. Its
/// EndpointSlices are `slices`.
pub(super) fn explain(
    world: &World,
    doc: &Doc,
    (pods, slices): (&[Doc], &[&Doc]),
    service: &Service,
    answer: &mut Explanation,
) {
    let selector = &service.spec.selector;
    let labels: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let none = format!(
        "no pod in {} has the labels {}",
        doc.namespace(),
        labels.join(",")
    );
    let makers = workloads(world, doc.namespace(), |workload| makes(workload, selector));
    let makers = makers.unwrap_or_default();
    let (idle, wanting): (Vec<Workload<'_>>, Vec<Workload<'_>>) = makers
        .into_iter()
        .partition(|maker| maker.replicas() == Some(0));
    let since = empty_since(slices);
    // A workload that is scaled to zero is the whole reason, so other guesses are left out.
    if !idle.is_empty() && wanting.is_empty() {
        let short: Vec<String> = idle.iter().take(SHOWN).map(Workload::short).collect();
        let long: Vec<String> = idle.iter().take(SHOWN).map(Workload::long).collect();
        let message = format!(
            "{none}; {} makes such pods, and has 0 replicas",
            short.join(", ")
        );
        let who = format!("owner of {} (spec.replicas)", long.join(", "));
        let reason = Reason::new(Code::NoReplicas, NAME, message).who(who);
        answer.add(reason.since(since));
        return;
    }
    let mut message = none;
    let mut who = "owner of the Service, or of the labels of the pods".to_owned();
    if let Some(near) = near(pods, selector) {
        message = format!("{message}; {near}");
    }
    // A workload with replicas but without pods has its own reason, which follows below.
    if let [maker, ..] = &wanting[..] {
        message = format!(
            "{message}; {} makes such pods, and has none yet",
            maker.short()
        );
        who = Reason::see(&maker.short());
    } else if let Some((namespaces, first)) = elsewhere(world, selector) {
        message = format!(
            "{message}; pods with all these labels are in {namespaces}, and a Service selects pods of its own namespace alone"
        );
        who = format!(
            "{who}, or of their namespace (Service and pods in one namespace, such as {first})"
        );
    }
    let reason = Reason::new(Code::NoPodSelected, NAME, message).who(who);
    answer.add(reason.since(since));
    for maker in wanting.iter().take(SHOWN) {
        let about = world.explain(maker.of, maker.doc);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// Whether the pods of `workload` have the labels of `selector`.
fn makes(workload: &Doc, selector: &Labels) -> bool {
    let labels = workload.at("/spec/template/metadata/labels");
    selector.iter().all(|(key, value)| {
        let label = labels.and_then(|labels| labels.get(&**key));
        label.and_then(Value::as_str) == Some(&**value)
    })
}

/// The first pod that lacks a single label of `selector`, which has several. A selector with a
/// single label has no near miss: each pod without it would count.
fn near(pods: &[Doc], selector: &Labels) -> Option<String> {
    pods.iter().find_map(|doc| {
        let pod = doc.view::<Pod>()?;
        let mut missing = selector
            .iter()
            .filter(|(key, value)| pod.meta.labels.get(key) != Some(*value));
        let (key, _) = missing.next().filter(|_| selector.iter().count() > 1)?;
        let found = pod
            .meta
            .labels
            .get(key)
            .map_or("no value".to_owned(), |value| format!("{value:?}"));
        missing
            .next()
            .is_none()
            .then(|| format!("pod {} differs in {key} alone ({found})", doc.name()))
    })
}

/// The namespaces with running pods of these labels, in words, and the first one.
fn elsewhere(world: &World, selector: &Labels) -> Option<(String, String)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in world.labelled(&PODS, selector)? {
        if !matches!(pod.text("/status/phase"), "Succeeded" | "Failed") {
            *counts.entry(pod.namespace()).or_default() += 1;
        }
    }
    let (first, _) = counts.first_key_value()?;
    let texts = counts.iter().take(SHOWN);
    let texts: Vec<String> = texts
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    let texts = texts.join(", ");
    let text = match counts.len() {
        1 => format!("namespace {texts}"),
        2..=SHOWN => format!("namespaces {texts}"),
        all => format!("namespaces {texts} and {} more", all - SHOWN),
    };
    Some((text, (*first).to_owned()))
}

/// The time since which the `slices` have no endpoint, if they tell it: a slice of the first generation
/// never had one, and an annotation has the time of the last change of the pods.
fn empty_since(slices: &[&Doc]) -> Option<Timestamp> {
    const CHANGED: &str = "/metadata/annotations/endpoints.kubernetes.io~1last-change-trigger-time";
    if slices
        .iter()
        .any(|slice| !slice.items("/endpoints").is_empty())
    {
        return None;
    }
    let times = slices.iter().map(|slice| {
        if slice.number("/metadata/generation") == 1 {
            slice.time("/metadata/creationTimestamp")
        } else {
            slice.time(CHANGED)
        }
    });
    // One slice without a time makes the result unknown. The last change of all slices is the time
    // since which all of them are empty.
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_slices_tell_their_time_by_generation_or_annotation() {
        let slice = |generation: i64, changed: Option<&str>, endpoints: Value| {
            Doc::new(json!({
                "metadata": {"generation": generation, "creationTimestamp": "2026-11-28T10:00:00Z",
                    "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": changed}},
                "endpoints": endpoints,
            }))
        };
        let at = |text: &str| text.parse().ok();
        let eleven = Some("2026-11-28T11:00:00Z");
        // (slices, time)
        let cases = [
            (vec![], None),
            (
                vec![slice(1, None, Value::Null)],
                at("2026-11-28T10:00:00Z"),
            ),
            (vec![slice(3, None, Value::Null)], None),
            (
                vec![slice(3, eleven, json!([])), slice(1, None, json!([]))],
                at("2026-11-28T11:00:00Z"),
            ),
            (vec![slice(3, eleven, json!([{}]))], None),
        ];
        for (slices, expected) in cases {
            let slices: Vec<&Doc> = slices.iter().collect();
            assert_eq!(empty_since(&slices), expected, "{slices:?}");
        }
    }
}
