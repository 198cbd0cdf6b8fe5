//! New pods that need the node or the claim of an old pod: the old pods go first, or the rollout never ends.

use serde_json::Value;
use steersman_objects::{Deployment, Strategy};
use steersman_why::{Code, Doc, Explanation, Reason, pod};

use super::replica_sets::ReplicaSets;
use super::{NAME, limits, rolling};

/// Changes the reasons of new pods of `doc` that need the place of old ones, of which there are some.
pub(super) fn explain(doc: &Doc, d: &Deployment, sets: &ReplicaSets, answer: &mut Explanation) {
    if excludes_itself(doc) {
        taken_nodes(d, answer);
    }
    if d.spec.strategy != Strategy::Recreate {
        taken_claim(d, sets, answer);
    }
}

/// Adds the deadlock if an old pod uses the claim of a new one, and no step removes the old pods.
fn taken_claim(d: &Deployment, sets: &ReplicaSets, answer: &mut Explanation) {
    let field = |cause: &Reason, name: &str| {
        let text = cause.fields.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let is_old = |cause: &Reason| {
        let owner = field(cause, pod::USER_CONTROLLER);
        matches!(cause.code, Code::ClaimTaken | Code::AttachedElsewhere)
            && sets.old.iter().any(|rs| *rs.meta.name == *owner)
    };
    let found = answer.causes().find(|(_, cause)| is_old(cause));
    let Some((_, cause)) = found else {
        return;
    };
    if !rolling::scale_down_old(d, sets).resizes.is_empty() {
        wait_for_old(&is_old, "the pod waits for the claim of an old pod", answer);
        return;
    }
    let unavailable = d.spec.replicas - limits::min_available(d);
    let message = format!(
        "the new pod waits for claim {} ({}), which pod {} of the old ReplicaSet {} uses, and the rolling update keeps that pod \
         until the new one is available (maxUnavailable {unavailable})",
        field(cause, "claim"),
        field(cause, "accessModes"),
        field(cause, "user"),
        field(cause, pod::USER_CONTROLLER)
    );
    let who = "owner of the Deployment (strategy Recreate, or for one replica maxSurge 0 and maxUnavailable 1)";
    let since = cause.since;
    let reason = Reason::new(Code::RolloutDeadlock, NAME, message);
    answer.add(reason.who(who).since(since));
}

/// Changes the causes that `is_meant` selects to a wait that ends by itself.
fn wait_for_old(is_meant: &impl Fn(&Reason) -> bool, words: &str, answer: &mut Explanation) {
    answer.change(&|reason: &mut Reason| {
        if is_meant(reason) {
            reason.code = Code::OldPodsRunning;
            reason.message = format!("{words}: {}", reason.message);
            reason.who.clear();
        }
    });
}

/// Texts of the scheduler about nodes that only another pod excludes.
const TAKEN: [&str; 2] = ["anti-affinity", "free ports for the requested pod ports"];

/// Changes the reasons of new pods that need nodes of old ones: a deadlock if maxUnavailable 0 keeps these,
/// else they go in one of the next steps.
fn taken_nodes(d: &Deployment, answer: &mut Explanation) {
    let is_taken = |cause: &Reason| {
        cause.code == Code::PodUnscheduled && TAKEN.iter().any(|text| cause.message.contains(text))
    };
    if !answer.causes().any(|(_, cause)| is_taken(cause)) {
        return;
    }
    if limits::min_available(d) < d.spec.replicas {
        wait_for_old(
            &is_taken,
            "the pod waits for the node of an old pod",
            answer,
        );
        return;
    }
    let message = "the new pod fits no node beside an old one (pod anti-affinity or host port), and maxUnavailable 0 keeps the old pods until it is available";
    let who =
        "owner of the Deployment (maxUnavailable 1), or administrator of the nodes (one more)";
    answer.add(Reason::new(Code::RolloutDeadlock, NAME, message).who(who));
}

/// Whether two pods of the template never share a node, by anti-affinity or a host port. Otherwise, other
/// pods may be what takes the nodes.
fn excludes_itself(doc: &Doc) -> bool {
    const TERMS: &str = "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let label = |key: &str| doc.at("/spec/template/metadata/labels")?.get(key);
    let selects = |term: &Value| {
        let selector = &term["labelSelector"];
        let labels = selector["matchLabels"].as_object();
        let has_labels =
            labels.is_none_or(|labels| labels.iter().all(|(key, value)| label(key) == Some(value)));
        let expressions = selector["matchExpressions"].as_array();
        let has_values = expressions.is_none_or(|expressions| {
            expressions.iter().all(|one| {
                let values = one["values"].as_array();
                let own = one["key"].as_str().and_then(label);
                one["operator"] == "In"
                    && own.is_some_and(|own| values.is_some_and(|values| values.contains(own)))
            })
        });
        selector.is_object() && has_labels && has_values
    };
    let has_host_port = |container: &Value| {
        let ports = container["ports"].as_array();
        ports.is_some_and(|ports| ports.iter().any(|port| port["hostPort"].is_number()))
    };
    doc.items(TERMS).iter().any(selects)
        || doc
            .items("/spec/template/spec/containers")
            .iter()
            .any(has_host_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_exclude_each_other_by_their_own_labels_or_a_host_port() {
        let anti_affinity = |selector: &Value| {
            let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
            let terms = json!([term]);
            json!({"affinity": {"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
        };
        let values = |operator, values| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        let port =
            |port: Value| json!({"containers": [{"name": "c"}, {"name": "d", "ports": [port]}]});
        let cases = [
            (anti_affinity(&json!({"matchLabels": {"app": "web"}})), true),
            (
                anti_affinity(&json!({"matchLabels": {"app": "database"}})),
                false,
            ),
            (
                anti_affinity(&json!({"matchLabels": {"app": "web", "tier": "front"}})),
                false,
            ),
            (
                anti_affinity(&values("In", json!(["database", "web"]))),
                true,
            ),
            (anti_affinity(&values("In", json!(["database"]))), false),
            (anti_affinity(&values("NotIn", json!(["database"]))), false),
            // An empty selector selects all pods, and no selector none.
            (anti_affinity(&json!({})), true),
            (anti_affinity(&Value::Null), false),
            (port(json!({"containerPort": 80, "hostPort": 80})), true),
            (port(json!({"containerPort": 80})), false),
            (json!({"containers": [{"name": "c"}]}), false),
        ];
        for (spec, expected) in cases {
            let labels = json!({"labels": {"app": "web"}});
            let template = json!({"metadata": labels, "spec": spec});
            let doc = Doc::new(json!({"spec": {"template": template}}));
            assert_eq!(excludes_itself(&doc), expected, "{template}");
        }
    }
}
