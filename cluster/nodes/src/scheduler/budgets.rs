//! PodDisruptionBudgets: the pods whose end would break one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_objects::{Object, PodDisruptionBudget};
use steersman_values::intern::Sym;

use super::census::Subject;

/// The budgets of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Budgets(HashMap<Sym, BTreeMap<Arc<str>, Arc<PodDisruptionBudget>>>);

impl Budgets {
    pub(super) fn note(&mut self, budget: &Arc<PodDisruptionBudget>) {
        let key = budget.key();
        let of_namespace = self.0.entry(key.namespace).or_default();
        of_namespace.insert(key.name, Arc::clone(budget));
    }

    pub(super) fn forget(&mut self, budget: &PodDisruptionBudget) {
        let meta = budget.meta();
        if let Some(of_namespace) = self.0.get_mut(&meta.namespace) {
            of_namespace.remove(&*meta.name);
            if of_namespace.is_empty() {
                self.0.remove(&meta.namespace);
            }
        }
    }

    /// For each pod, whether its end breaks a budget, after the end of the pods before it. Upstream:
    /// `filterPodsWithPDBViolation`.
    pub(super) fn broken_by<'a>(&self, pods: impl Iterator<Item = &'a Subject>) -> Vec<bool> {
        let mut ended: HashMap<(&Sym, &str), i32> = HashMap::new();
        let mut breaks = |pod: &Subject| {
            let of_namespace = self.0.get_key_value(&pod.key.namespace);
            let (namespace, budgets) = match of_namespace {
                Some(known) if !pod.labels.is_empty() => known,
                _ => return false,
            };
            let mut is_broken = false;
            for (name, budget) in budgets.iter().filter(|(_, budget)| covers(budget, pod)) {
                let ended = ended.entry((namespace, name)).or_default();
                *ended += 1;
                is_broken |= *ended > budget.status.disruptions_allowed;
            }
            is_broken
        };
        pods.map(&mut breaks).collect()
    }
}

/// Whether the budget counts the end of the pod. It has counted an accepted eviction already.
fn covers(budget: &PodDisruptionBudget, pod: &Subject) -> bool {
    let selects = budget.spec.selector.as_ref().is_ok_and(|selector| {
        // The scheduler lets an empty selector match no pod.
        !selector.is_everything() && selector.matches(&pod.labels)
    });
    selects && !budget.status.disrupted_pods.contains_key(&*pod.key.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::SimPod;

    fn budget(name: &str, selector: Value, status: Value) -> Arc<PodDisruptionBudget> {
        let json = json!({
            "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": {"selector": selector}, "status": status
        });
        Arc::new(PodDisruptionBudget::decode(json.to_string().as_bytes()).unwrap())
    }

    fn subject(name: &str, namespace: &str, labels: Value) -> Subject {
        let json = json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels}});
        Subject::of(&SimPod::decode(json.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn pods_beyond_the_allowed_disruptions_break_their_budget() {
        let web = || json!({"matchLabels": {"app": "web"}});
        let allowed = |count: i32| json!({"disruptionsAllowed": count});
        let negative =
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]});
        let evicted = json!({
            "disruptionsAllowed": 1, "disruptedPods": {"a": "2026-01-01T00:00:00Z"}
        });
        let malformed = json!({"matchExpressions": [{"key": "app", "operator": "Odd"}]});
        let one = |selector, status| vec![budget("one", selector, status)];
        // (why, budgets, whether each of the pods a, b, other namespace, without labels breaks one)
        let cases = [
            ("none", vec![], [false, false, false, false]),
            (
                "none allowed",
                one(web(), allowed(0)),
                [true, true, false, false],
            ),
            (
                "one allowed",
                one(web(), allowed(1)),
                [false, true, false, false],
            ),
            (
                "an eviction counts once",
                one(web(), evicted),
                [false, false, false, false],
            ),
            (
                "an absent label matches, but no pod without labels",
                one(negative, allowed(0)),
                [true, true, false, false],
            ),
            ("empty selector", one(json!({}), allowed(0)), [false; 4]),
            ("absent selector", one(Value::Null, allowed(0)), [false; 4]),
            ("malformed selector", one(malformed, allowed(0)), [false; 4]),
            (
                "the stricter one of two",
                vec![
                    budget("one", web(), allowed(2)),
                    budget("two", web(), allowed(1)),
                ],
                [false, true, false, false],
            ),
        ];
        let app = || json!({"app": "web"});
        let pods = [
            subject("a", "d", app()),
            subject("b", "d", app()),
            subject("c", "e", app()),
            subject("d", "d", json!({})),
        ];
        for (why, all, expected) in cases {
            let mut budgets = Budgets::default();
            all.iter().for_each(|budget| budgets.note(budget));
            assert_eq!(budgets.broken_by(pods.iter()), expected, "{why}");
            all.iter().for_each(|budget| budgets.forget(budget));
            assert_eq!(budgets.broken_by(pods.iter()), [false; 4], "{why}");
        }
    }
}
