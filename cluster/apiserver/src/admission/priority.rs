//! The priority admission plugin: PriorityClasses, and the number that a pod gets from its class.
//!
//! Upstream: `plugin/pkg/admission/priority`.

use serde_json::{Value, json};

use crate::Server;

/// Name, value and description of the classes that every cluster has.
const SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// The two system PriorityClasses, which exist in every cluster.
pub(crate) fn system_classes() -> impl Iterator<Item = Value> {
    SYSTEM.into_iter().map(|(name, value, description)| {
        json!({
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        })
    })
}

/// Keeps the values that the plugin set at the creation of a pod, where an update leaves them out.
pub(super) fn keep(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let kept = &old["spec"][field];
        if pod["spec"][field].is_null() && !kept.is_null() {
            pod["spec"][field] = kept.clone();
        }
    }
}

impl Server {
    /// Sets class, priority and preemption policy of a new pod. The error is the reason for a 403.
    pub(super) fn set_priority(&self, pod: &mut Value) -> Result<(), String> {
        let entry = self
            .registry
            .find("scheduling.k8s.io", "v1", "priorityclasses")
            .expect("priority classes are built in");
        let spec = &mut pod["spec"];
        let class = match spec["priorityClassName"]
            .as_str()
            .filter(|name| !name.is_empty())
        {
            Some(name) => {
                let found = entry
                    .store
                    .get(name)
                    .ok_or_else(|| format!("no PriorityClass with name {name} was found"))?;
                Some(found.to_value())
            }
            None => {
                let classes = entry.store.list(&self.revisions, "").objects;
                let defaults = classes
                    .iter()
                    .map(|class| class.to_value())
                    .filter(|class| class["globalDefault"] == true);
                // Of several defaults, the lowest value wins, as in upstream's
                // `getDefaultPriorityClass`.
                defaults.min_by_key(|class| class["value"].as_i64())
            }
        };
        let (priority, policy) = match &class {
            Some(class) => (
                class["value"].as_i64().unwrap_or(0),
                class["preemptionPolicy"].as_str(),
            ),
            None => (0, Some("PreemptLowerPriority")),
        };
        if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority) {
            return Err(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
                 {priority} from the given PriorityClass name"
            ));
        }
        let given = spec["preemptionPolicy"]
            .as_str()
            .filter(|given| policy.is_some_and(|policy| policy != *given));
        if let Some(given) = given
            && let Some(policy) = policy
        {
            return Err(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
                 computed {policy} from the given PriorityClass name"
            ));
        }
        if let Some(class) = &class {
            spec["priorityClassName"] = class["metadata"]["name"].clone();
        }
        spec["priority"] = Value::from(priority);
        if let Some(policy) = policy {
            spec["preemptionPolicy"] = Value::from(policy);
        }
        Ok(())
    }

    /// Refuses a second default class.
    pub(super) fn check_priority_class(&self, class: &Value) -> Result<(), String> {
        if class["globalDefault"] != true {
            return Ok(());
        }
        let entry = self
            .registry
            .find("scheduling.k8s.io", "v1", "priorityclasses")
            .expect("priority classes are built in");
        let others = entry.store.list(&self.revisions, "").objects;
        let default = others
            .iter()
            .map(|class| class.to_value())
            .find(|class| class["globalDefault"] == true);
        default.map_or(Ok(()), |default| {
            let name = default["metadata"]["name"].as_str().unwrap_or_default();
            Err(format!(
                "PriorityClass {name} is already marked as default. Only one default can exist"
            ))
        })
    }
}
