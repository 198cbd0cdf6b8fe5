//! Resource amounts in objects, for LimitRanges and ResourceQuotas.

use serde::Deserialize;
use serde_json::Value;
use steersman_helpers::quota::{Amounts, Side, amounts_of_containers};
use steersman_objects::PodSpec;
use steersman_values::intern::Sym;

use crate::schema::quantity::Quantity;

/// Reads an object of quantities. Entries that are not quantities are left out.
pub(super) fn parse(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((Sym::new(name), quantity(amount)?)))
        .collect()
}

/// Parses a quantity; JSON numbers count as their decimal text.
fn quantity(amount: &Value) -> Option<Quantity> {
    match amount {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// The total of the spec of a pod.
pub(super) fn of_pod(spec: &Value, side: Side) -> Amounts {
    // The spec of a pod with defaults has the types of the schema.
    let spec = PodSpec::deserialize(spec).unwrap_or_default();
    amounts_of_containers(&spec, side)
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
            assert_eq!(of_pod(&spec, Side::Requests).to_text(), expected, "{why}");
        }
    }
}
