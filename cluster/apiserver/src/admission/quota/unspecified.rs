//! Resources that containers must request or limit, because a quota limits them.
//!
//! Upstream: `Constraints` of the evaluator of pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_helpers::quota::Amounts;

/// If a quota limits one of these, every container must specify its amount.
const MUST_BE_SPECIFIED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Limited resources that containers do not specify: `limits.cpu for: a,b; memory for: c`.
pub(super) fn unspecified(hard: &Amounts, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let of_pod = spec["resources"].as_object();
    if of_pod.is_some_and(|resources| !resources.is_empty()) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"]
        .iter()
        .flat_map(|list| spec[*list].as_array().into_iter().flatten())
    {
        for name in MUST_BE_SPECIFIED.into_iter().filter(|name| hard.has(name)) {
            let (side, amount) = match name.split_once('.') {
                Some((side, amount)) => (side, amount),
                None => ("requests", name),
            };
            if container["resources"][side][amount].is_null() {
                missing
                    .entry(name)
                    .or_default()
                    .insert(container["name"].as_str().unwrap_or_default());
            }
        }
    }
    let to_text = |(name, containers): (&str, BTreeSet<&str>)| {
        format!(
            "{name} for: {}",
            containers.into_iter().collect::<Vec<_>>().join(",")
        )
    };
    let words: Vec<String> = missing.into_iter().map(to_text).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::parse;
    use super::*;

    /// Upstream: `TestPodConstraintsFunc`.
    #[test]
    fn containers_must_specify_what_the_quota_limits() {
        let container = |name: &str, requests: Value, limits: Value| json!({"name": name, "resources": {"requests": requests, "limits": limits}});
        let cpu = json!({"cpu": "1m"});
        let memory = json!({"memory": "1Mi"});
        let none = || json!({});
        let plain = |containers: Vec<Value>| json!({"spec": {"containers": containers}});
        let all = json!({"requests.memory": "1", "limits.cpu": "1", "requests.cpu": "1"});
        // (case, pod, limits of the quota, missing)
        let cases = [
            (
                "init container resource missing",
                json!({"spec": {"initContainers": [container("dummy", cpu.clone(), cpu.clone())]}}),
                json!({"requests.memory": "1"}),
                Some("requests.memory for: dummy"),
            ),
            (
                "container resource missing",
                plain(vec![container("dummy", cpu.clone(), cpu.clone())]),
                json!({"requests.memory": "1"}),
                Some("requests.memory for: dummy"),
            ),
            (
                "multiple container resource missing",
                plain(vec![
                    container("foo", none(), none()),
                    container("bar", memory.clone(), none()),
                ]),
                all,
                Some(
                    "limits.cpu for: bar,foo; requests.cpu for: bar,foo; requests.memory for: foo",
                ),
            ),
            (
                "container resource specified",
                plain(vec![container("dummy", memory, none())]),
                json!({"requests.memory": "1"}),
                None,
            ),
            (
                "pod-level resource set, container-level resources are not required",
                json!({"spec": {
                    "resources": {"requests": cpu}, "containers": [{"name": "dummy"}],
                }}),
                json!({"requests.memory": "1", "requests.cpu": "1"}),
                None,
            ),
        ];
        for (case, pod, hard, missing) in cases {
            assert_eq!(
                unspecified(&parse(&hard), &pod).as_deref(),
                missing,
                "{case}"
            );
        }
    }
}
