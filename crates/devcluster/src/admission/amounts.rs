//! Amounts of resources by name, as lists of quantities have them, and what a pod asks for in all.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::quantity::Quantity;

/// Amounts by resource name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amounts(pub(super) BTreeMap<String, Quantity>);

impl Amounts {
    /// From an object of quantities; what is no quantity is left out.
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

    /// At least as much as `other` of everything.
    pub(super) fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.combine(
                name,
                *amount,
                |own, other| if own < other { other } else { own },
            );
        }
    }

    /// What there is of this beyond `other`, without what is nothing.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        let rest = |(name, amount): (&String, &Quantity)| {
            let rest = other
                .get(name)
                .map_or(*amount, |other| amount.beyond(*other));
            (!rest.is_zero()).then(|| (name.clone(), rest))
        };
        Self(self.0.iter().filter_map(rest).collect())
    }

    fn combine(
        &mut self,
        name: &str,
        amount: Quantity,
        how: impl FnOnce(Quantity, Quantity) -> Quantity,
    ) {
        let combined = self.0.get(name).map_or(amount, |own| how(*own, amount));
        self.0.insert(name.to_owned(), combined);
    }

    /// Only what `wanted` names.
    pub(super) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| wanted(name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect(),
        )
    }

    /// `a=1,b=2`, as refusals have it.
    pub(super) fn in_words(&self) -> String {
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

fn quantity(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// What all containers of a pod ask for together, of `side` (`requests`, `limits`): those that run
/// side by side, or the hungriest that runs before them, if it asks for more.
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
    // What is set for the pod as a whole stands in place of the sum.
    for (name, amount) in Amounts::parse(&spec["resources"][side]).0 {
        total.set(name, amount);
    }
    if !spec["overhead"].is_null() {
        let overhead = Amounts::parse(&spec["overhead"]);
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
    fn a_pod_asks_for_what_runs_at_once() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar =
            |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let cases = [
            ("nothing", json!({"containers": [{}]}), ""),
            (
                "side by side",
                json!({"containers": [asks("1"), asks("500m")]}),
                "cpu=1500m",
            ),
            (
                "less before",
                json!({"containers": [asks("2")], "initContainers": [asks("1")]}),
                "cpu=2",
            ),
            (
                "more before",
                json!({"containers": [asks("1")], "initContainers": [asks("1"), asks("3")]}),
                "cpu=3",
            ),
            (
                "a sidecar stays",
                json!({"containers": [asks("1")], "initContainers": [sidecar("1"), asks("3")]}),
                "cpu=4",
            ),
            (
                "as a whole",
                json!({"containers": [asks("1")], "resources": {"requests": {"cpu": "5"}}}),
                "cpu=5",
            ),
            (
                "overhead",
                json!({"containers": [asks("1")], "overhead": {"cpu": "250m"}}),
                "cpu=1250m",
            ),
        ];
        for (why, spec, expected) in cases {
            assert_eq!(of_pod(&spec, "requests").in_words(), expected, "{why}");
        }
    }
}
