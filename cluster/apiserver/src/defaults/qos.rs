//! The quality of service class of a pod.
//!
//! Upstream: `pkg/apis/core/v1/helper/qos`.

use serde_json::Value;

use crate::schema::quantity::Quantity;

/// `Guaranteed` if every container has limits of CPU and memory, equal to its requests.
/// `BestEffort` if no container has requests or limits of them. `Burstable` otherwise.
pub fn qos_class(spec: &Value) -> &'static str {
    let list = |name: &str| {
        spec.get(name)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    // The resources of the whole pod, if given, decide alone.
    let whole = spec
        .get("resources")
        .is_some_and(|resources| !resources.is_null());
    let containers = || {
        let each = list("containers").iter().chain(list("initContainers"));
        std::iter::once(spec)
            .filter(move |_| whole)
            .chain(each.filter(move |_| !whole))
    };
    let amount = |container: &Value, side: &str, resource: &str| {
        let text = container
            .get("resources")?
            .get(side)?
            .get(resource)?
            .as_str()?;
        Quantity::parse(text).filter(|quantity| !quantity.is_zero())
    };
    let resources = ["cpu", "memory"];
    let has_amounts = |container: &Value| {
        resources.iter().any(|r| {
            amount(container, "requests", r).is_some() || amount(container, "limits", r).is_some()
        })
    };
    // A missing request defaults to the limit, and a request of zero does not.
    let is_bound = |container: &Value| {
        resources.iter().all(|r| {
            let requested = container.pointer(&format!("/resources/requests/{r}"));
            amount(container, "limits", r).is_some_and(|limit| {
                requested.is_none() || amount(container, "requests", r) == Some(limit)
            })
        })
    };
    if !containers().any(has_amounts) {
        "BestEffort"
    } else if containers().all(is_bound) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let full = json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}});
        let cases = [
            ("no amounts", json!({"containers": [{}]}), "BestEffort"),
            (
                "zero request",
                json!({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}),
                "BestEffort",
            ),
            (
                "other resources do not count",
                json!({"containers": [{"resources": {"limits": {"x/y": "1"}}}]}),
                "BestEffort",
            ),
            (
                "limits equal requests",
                json!({"containers": [full]}),
                "Guaranteed",
            ),
            (
                "limits alone",
                json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1"}}}]}),
                "Guaranteed",
            ),
            (
                "requests of zero",
                json!({"containers": [{"resources": {"requests": {"cpu": "0"}, "limits": {"cpu": "1", "memory": "1"}}}]}),
                "Burstable",
            ),
            (
                "one resource alone",
                json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}),
                "Burstable",
            ),
            (
                "one container of two",
                json!({"containers": [full, {}]}),
                "Burstable",
            ),
            (
                "init containers count",
                json!({"containers": [full], "initContainers": [{}]}),
                "Burstable",
            ),
        ];
        for (why, spec, expected) in cases {
            assert_eq!(qos_class(&spec), expected, "{why}");
        }
    }
}
