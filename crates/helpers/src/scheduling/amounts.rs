//! Amounts of resources: those that a pod requests, and those that a node has for pods.
//!
//! Upstream: `PodRequests` of `k8s.io/component-helpers/resource`.

use std::collections::BTreeMap;

use steersman_objects::{Container, PodSpec, ResourceList};
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

/// Amounts by resource name, in thousandths of the unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Sym, i64>);

impl Amounts {
    /// The amounts of a served list. Malformed quantities, which the API server refuses, are
    /// missing.
    pub fn of(list: &ResourceList) -> Self {
        let amounts = list.iter().filter_map(|(name, text)| {
            let amount = Quantity::parse(text)?;
            Some((name.clone(), amount.milli_value()))
        });
        Self(amounts.collect())
    }

    /// The amount of a resource; `None` if the list does not name it.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// Whether the list names no resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All amounts, sorted by resource name.
    pub fn iter(&self) -> impl Iterator<Item = (&Sym, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Adds all amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts all amounts of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to that of `other`.
    fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, how: impl Fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = how(*own, *amount);
        }
    }
}

/// The amounts that a node reserves for a pod: those of containers and sidecars together, or of one
/// init container beside the sidecars before it, whichever is larger. Amounts of the pod as a whole
/// replace these; the overhead comes on top.
pub fn requests(spec: &PodSpec) -> Amounts {
    let of = |container: &Container| Amounts::of(&container.resources.requests);
    let mut all = Amounts::default();
    for container in &spec.containers {
        all.add(&of(container));
    }
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in &spec.init_containers {
        let mut needed = of(container);
        if container.restarts_always() {
            all.add(&needed);
            sidecars.add(&needed);
            starting.raise_to(&sidecars);
        } else {
            needed.add(&sidecars);
            starting.raise_to(&needed);
        }
    }
    all.raise_to(&starting);
    for (name, amount) in Amounts::of(&spec.resources.requests).0 {
        if is_of_pods(&name) {
            all.0.insert(name, amount);
        }
    }
    all.add(&Amounts::of(&spec.overhead));
    all
}

/// Whether a pod as a whole can request the resource `name`. Upstream:
/// `IsSupportedPodLevelResource`.
pub fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::{Object, Pod};

    use super::*;

    fn cpu(spec: Value) -> Option<i64> {
        let json = json!({"metadata": {"name": "p"}, "spec": spec});
        requests(&Pod::decode(json.to_string().as_bytes()).unwrap().spec).get("cpu")
    }

    #[test]
    fn a_pod_requests_what_its_containers_need_at_any_time() {
        let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        // (why, spec, thousandths of a core)
        let cases = [
            ("no request", json!({"containers": [{"name": "c"}]}), None),
            (
                "containers together",
                json!({"containers": [container("250m"), container("1")]}),
                Some(1250),
            ),
            (
                "the largest init container",
                json!({"containers": [container("1")], "initContainers": [container("3"), container("2")]}),
                Some(3000),
            ),
            (
                "sidecars beside containers",
                json!({"containers": [container("1")], "initContainers": [sidecar("500m")]}),
                Some(1500),
            ),
            (
                "an init container beside earlier sidecars",
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("3"), sidecar("1")]}),
                Some(4000),
            ),
            (
                "the pod as a whole, and overhead",
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "100m"}}),
                Some(5100),
            ),
        ];
        for (why, spec, expected) in cases {
            assert_eq!(cpu(spec), expected, "{why}");
        }
    }
}
