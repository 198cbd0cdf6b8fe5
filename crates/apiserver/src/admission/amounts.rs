//! Resource amounts by name, and the totals that a pod requests and limits.
//!
//! LimitRanges and ResourceQuotas compare these totals. Upstream:
//! `k8s.io/component-helpers/resource` for pods, and `k8s.io/apiserver/pkg/quota/v1` for the
//! arithmetic.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::quantity::Quantity;

/// Amounts by resource name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amounts(pub(super) BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads an object of quantities. Entries that are not quantities are left out.
    pub(super) fn parse(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flatten();
        Self(
            entries
                .filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?)))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    pub(super) fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Adds all of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.combine(name, *amount, Quantity::plus);
        }
    }

    /// Raises each amount to at least that of `other`.
    pub(super) fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.combine(
                name,
                *amount,
                |own, other| if own < other { other } else { own },
            );
        }
    }

    /// The part of each amount that exceeds `other`. Amounts that become zero are left out.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        let rest = |(name, amount): (&String, &Quantity)| {
            let rest = other
                .get(name)
                .map_or(*amount, |other| amount.beyond(*other));
            (!rest.is_zero()).then(|| (name.clone(), rest))
        };
        Self(self.0.iter().filter_map(rest).collect())
    }

    /// Stores `amount`, or its combination with the existing amount.
    fn combine(
        &mut self,
        name: &str,
        amount: Quantity,
        how: impl FnOnce(Quantity, Quantity) -> Quantity,
    ) {
        let combined = self.0.get(name).map_or(amount, |own| how(*own, amount));
        self.0.insert(name.to_owned(), combined);
    }

    /// Only the resources that `wanted` selects.
    pub(super) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| wanted(name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect(),
        )
    }

    /// `a=1,b=2`, as messages of refusals list amounts.
    pub(super) fn to_text(&self) -> String {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|(name, amount)| format!("{name}={}", amount.canonical()))
            .collect();
        words.join(",")
    }

    pub(super) fn to_value(&self) -> Value {
        let entries = self
            .0
            .iter()
            .map(|(name, amount)| (name.clone(), Value::from(amount.canonical())));
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

/// Parses a quantity; JSON numbers count as their decimal text.
fn quantity(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// The total of a pod for `side`, which is `requests` or `limits`.
///
/// Containers and sidecars run together, so their amounts add up. Each init container runs before
/// the containers, together with the sidecars started earlier. The total is the maximum of these
/// phases.
pub(super) fn of_pod(spec: &Value, side: &str) -> Amounts {
    let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let amounts = |container: &Value| Amounts::parse(&container["resources"][side]);
    let mut total = Amounts::default();
    for container in list("containers") {
        total.add(&amounts(container));
    }
    let (mut sidecars, mut before) = (Amounts::default(), Amounts::default());
    for container in list("initContainers") {
        let own = amounts(container);
        if container["restartPolicy"] == "Always" {
            total.add(&own);
            sidecars.add(&own);
            before.raise(&sidecars);
        } else {
            let mut with_sidecars = own;
            with_sidecars.add(&sidecars);
            before.raise(&with_sidecars);
        }
    }
    total.raise(&before);
    // Amounts at pod level replace the sum over containers.
    for (name, amount) in Amounts::parse(&spec["resources"][side]).0 {
        total.set(name, amount);
    }
    if !spec["overhead"].is_null() {
        let overhead = Amounts::parse(&spec["overhead"]);
        // Overhead counts towards requests always, and towards limits only where a limit exists.
        let counted = side == "requests";
        total.add(&overhead.only(|name| counted || total.get(name).is_some()));
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_amounts_are_the_maximum_over_phases() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar =
            |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let cases = [
            ("no amounts", json!({"containers": [{}]}), ""),
            (
                "containers add up",
                json!({"containers": [container("1"), container("500m")]}),
                "cpu=1500m",
            ),
            (
                "init container with less",
                json!({"containers": [container("2")], "initContainers": [container("1")]}),
                "cpu=2",
            ),
            (
                "init container with more",
                json!({"containers": [container("1")], "initContainers": [container("1"), container("3")]}),
                "cpu=3",
            ),
            (
                "sidecars run beside later init containers",
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("3")]}),
                "cpu=4",
            ),
            (
                "pod level amounts",
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}),
                "cpu=5",
            ),
            (
                "overhead",
                json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}),
                "cpu=1250m",
            ),
        ];
        for (why, spec, expected) in cases {
            assert_eq!(of_pod(&spec, "requests").to_text(), expected, "{why}");
        }
    }
}
