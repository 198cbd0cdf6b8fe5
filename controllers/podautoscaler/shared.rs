//! Pods of other workloads that an autoscaler counts, because the selector of its target matches them.

use serde::Deserialize;
use serde_json::Value;
use steersman_values::labels::{Labels, Selector, WireSelector};
use steersman_why::{Code, Doc, Reason, World, workloads};

use super::NAME;

/// Names of other workloads in the text.
const SHOWN: usize = 3;

/// The fact that the metrics of an autoscaler have pods of other workloads, by the selector of `target`, the
/// scaled object in words `about`. Upstream: `GetResourceReplicas` in `replica_calculator.go` lists pods by the
/// selector of the scale alone.
///
/// Example: two Deployments with `app: web` in their templates, and an autoscaler for one of them. Its mean
/// then includes the pods of the other one, and both the sum and the number of pods mislead.
pub(super) fn pods_of_others(world: &World, target: &Doc, about: &str) -> Option<Reason> {
    // Targets without a selector in `spec`, such as custom resources with another layout, have no reason of
    // this kind.
    let wire = WireSelector::deserialize(target.at("/spec/selector")?).ok()?;
    let selector = Selector::parse(Some(&wire)).ok()?;
    let others = workloads(world, target.namespace(), |workload| {
        workload.uid() != target.uid() && selector.matches(&template_labels(workload))
    })?;
    if others.is_empty() {
        return None;
    }
    let names: Vec<String> = others
        .iter()
        .take(SHOWN)
        .map(|other| other.short())
        .collect();
    let more = match others.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = format!("{}{more}", names.join(", "));
    let message = format!(
        "the selector of {about} ({selector}) also matches pods of {names}, so their usage and their requests count too"
    );
    let who = format!("owner of {about}, or of {names} (labels that differ)");
    Some(Reason::new(Code::PodsOfOthers, NAME, message).who(who))
}

/// The labels of the pods that `workload` makes.
fn template_labels(workload: &Doc) -> Labels {
    let labels = workload.at("/spec/template/metadata/labels");
    let pairs = labels.and_then(Value::as_object).into_iter().flatten();
    Labels::new(pairs.filter_map(|(key, value)| Some((&**key, value.as_str()?))))
}
