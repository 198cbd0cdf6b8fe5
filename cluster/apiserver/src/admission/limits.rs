//! LimitRanges: default requests and limits of containers, and checks of minimum, maximum and
//! ratio.
//!
//! Defaults apply before validation, checks after it. Upstream: `plugin/pkg/admission/limitranger`.

use serde_json::{Map, Value};
use steersman_helpers::quota::{Amounts, Side};

use super::amounts::{of_pod, parse};
use crate::Server;
use crate::schema::quantity::Quantity;

/// Annotation that lists the defaults that were set, in upstream's words.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Server {
    /// The items of each LimitRange of a namespace.
    pub(super) fn limits_of(&self, namespace: &str) -> Vec<Vec<Value>> {
        let entry = self
            .registry
            .find("", "v1", "limitranges")
            .expect("limit ranges are built in");
        if entry.store.is_empty() {
            return Vec::new();
        }
        let ranges = entry
            .store
            .list(&self.revisions, &format!("{namespace}/"))
            .objects;
        ranges
            .iter()
            .map(|range| {
                range.to_value()["spec"]["limits"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .collect()
    }
}

/// Sets missing requests and limits of containers from the defaults of each LimitRange. The list of
/// those that the last one set is the value of the annotation [`ANNOTATION`].
pub(super) fn complete(pod: &mut Value, ranges: &[Vec<Value>]) -> Option<String> {
    let mut note = None;
    for limits in ranges {
        note = fill_pod(pod, limits).or(note);
    }
    note
}

/// Adds the annotation that lists the defaults.
pub(super) fn annotate(pod: &mut Value, note: String) {
    pod["metadata"]["annotations"][ANNOTATION] = note.into();
}

/// Sets missing requests and limits from one LimitRange, whose later items replace defaults of earlier ones.
fn fill_pod(pod: &mut Value, limits: &[Value]) -> Option<String> {
    let defaults = |field: &str| -> Map<String, Value> {
        let items = limits.iter().filter(|limit| limit["type"] == "Container");
        let amounts = items.filter_map(|limit| limit[field].as_object().cloned());
        amounts.flatten().collect()
    };
    let sides = [
        ("requests", "request", defaults("defaultRequest")),
        ("limits", "limit", defaults("default")),
    ];
    let mut notes = Vec::new();
    for (list, kind) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        // An index of a mutable value would add the list as null.
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for (side, word, defaults) in &sides {
                let set = fill(container, side, defaults);
                if !set.is_empty() {
                    let name = container["name"].as_str().unwrap_or_default();
                    notes.push(format!("{} {word} for {kind} {name}", set.join(", ")));
                }
            }
        }
    }
    (!notes.is_empty()).then(|| format!("LimitRanger plugin set: {}", notes.join("; ")))
}

/// Sets the amounts of `defaults` that the container lacks, and returns the names of their
/// resources, sorted.
fn fill(container: &mut Value, side: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let given = container["resources"][side]
        .as_object()
        .cloned()
        .unwrap_or_else(Map::new);
    let mut names: Vec<String> = defaults
        .keys()
        .filter(|name| !given.contains_key(*name))
        .cloned()
        .collect();
    names.sort();
    for name in &names {
        container["resources"][side][name] = defaults[name].clone();
    }
    names
}

/// The violations of a pod or claim under the first LimitRange that has some, in one line.
pub(super) fn violations(kind: &str, object: &Value, ranges: &[Vec<Value>]) -> Option<String> {
    let mut ranges = ranges.iter();
    ranges.find_map(|limits| violations_of_one(kind, object, limits))
}

fn violations_of_one(kind: &str, object: &Value, limits: &[Value]) -> Option<String> {
    let mut problems = Vec::new();
    let spec = &object["spec"];
    for limit in limits {
        let amounts_of =
            |resources: &Value| (parse(&resources["requests"]), parse(&resources["limits"]));
        match (kind, limit["type"].as_str().unwrap_or_default()) {
            ("Pod", "Container") => {
                for container in ["containers", "initContainers"]
                    .iter()
                    .flat_map(|list| spec[*list].as_array().into_iter().flatten())
                {
                    check(limit, amounts_of(&container["resources"]), &mut problems);
                }
            }
            ("Pod", "Pod") => check(
                limit,
                (of_pod(spec, Side::Requests), of_pod(spec, Side::Limits)),
                &mut problems,
            ),
            ("PersistentVolumeClaim", "PersistentVolumeClaim") => {
                check_claim(limit, &amounts_of(&spec["resources"]).0, &mut problems)
            }
            _ => {}
        }
    }
    // Several violations form one list without duplicates, as upstream aggregates errors.
    match problems.len() {
        0 | 1 => problems.pop(),
        _ => {
            let mut seen = Vec::new();
            problems.retain(|problem| {
                !seen.contains(problem) && {
                    seen.push(problem.clone());
                    true
                }
            });
            Some(if problems.len() == 1 {
                problems.remove(0)
            } else {
                format!("[{}]", problems.join(", "))
            })
        }
    }
}

/// Appends the violations of one `Container` or `Pod` limit.
fn check(limit: &Value, (requests, limits): (Amounts, Amounts), problems: &mut Vec<String>) {
    let of = limit["type"].as_str().unwrap_or_default();
    for (name, least) in parse(&limit["min"]).iter() {
        let request = requests.get(name);
        let most = limits.get(name);
        problems.extend(too_little(of, name, least, request, most));
    }
    for (name, most) in parse(&limit["max"]).iter() {
        let rule = format!("maximum {name} usage per {of} is {}", most.canonical());
        match (requests.get(name), limits.get(name)) {
            (_, None) => problems.push(format!("{rule}.  No limit is specified")),
            (_, Some(limit)) if limit > most => {
                problems.push(format!("{rule}, but limit is {}", limit.canonical()))
            }
            (Some(request), _) if request > most => {
                problems.push(format!("{rule}, but request is {}", request.canonical()))
            }
            _ => {}
        }
    }
    for (name, most) in parse(&limit["maxLimitRequestRatio"]).iter() {
        let rule = format!(
            "{name} max limit to request ratio per {of} is {}",
            most.canonical()
        );
        let given = |amounts: &Amounts| amounts.get(name).filter(|amount| !amount.is_zero());
        match (given(&requests), given(&limits)) {
            (None, _) => problems.push(format!(
                "{rule}, but no request is specified or request is 0"
            )),
            (_, None) => problems.push(format!("{rule}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.to_f64() / request.to_f64();
                if ratio > most.to_f64() {
                    problems.push(format!("{rule}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

/// Appends the violations of one `PersistentVolumeClaim` limit, which compares requests only.
fn check_claim(limit: &Value, requests: &Amounts, problems: &mut Vec<String>) {
    for (name, least) in parse(&limit["min"]).iter() {
        problems.extend(too_little(
            "PersistentVolumeClaim",
            name,
            least,
            requests.get(name),
            None,
        ));
    }
    for (name, most) in parse(&limit["max"]).iter() {
        let rule = format!(
            "maximum {name} usage per PersistentVolumeClaim is {}",
            most.canonical()
        );
        match requests.get(name) {
            None => problems.push(format!("{rule}.  No request is specified")),
            Some(request) if request > most => {
                problems.push(format!("{rule}, but request is {}", request.canonical()))
            }
            Some(_) => {}
        }
    }
}

/// The violation of a minimum, for the request first and then for the limit.
fn too_little(
    of: &str,
    name: &str,
    least: Quantity,
    request: Option<Quantity>,
    limit: Option<Quantity>,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {of} is {}", least.canonical());
    match (request, limit) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if request < least => {
            Some(format!("{rule}, but request is {}", request.canonical()))
        }
        (_, Some(limit)) if limit < least => {
            Some(format!("{rule}, but limit is {}", limit.canonical()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_requests_and_limits_get_defaults() {
        let limit = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}});
        let mut pod = json!({
            "metadata": {},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]},
        });
        let note = complete(&mut pod, &[vec![limit]]);
        let resources = |index: usize| pod["spec"]["containers"][index]["resources"].clone();
        assert_eq!(
            resources(0),
            json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        );
        assert_eq!(
            resources(1),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "1Gi"}})
        );
        let expected = "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; memory limit for container b";
        assert_eq!(note.as_deref(), Some(expected));
    }

    #[test]
    fn each_limit_range_completes_and_refuses_for_itself() {
        let limit = |field: &str, cpu: &str| json!({"type": "Container", field: {"cpu": cpu}});
        let ranges = [
            vec![
                limit("default", "1"),
                limit("default", "2"),
                limit("max", "1"),
            ],
            vec![limit("defaultRequest", "100m"), limit("min", "200m")],
        ];
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}});
        let note = complete(&mut pod, &ranges);
        assert_eq!(
            note.as_deref(),
            Some("LimitRanger plugin set: cpu request for container c")
        );
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}})
        );
        let found = violations("Pod", &pod, &ranges);
        let expected = "maximum cpu usage per Container is 1, but limit is 2";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn amounts_outside_minimum_maximum_and_ratio_are_violations() {
        let pod = |requests: Value, limits: Value| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}});
        let limit = |field: &str, cpu: &str| json!({"type": "Container", field: {"cpu": cpu}});
        let cases = [
            (
                limit("min", "100m"),
                json!({"cpu": "100m"}),
                json!({}),
                None,
            ),
            (
                limit("min", "100m"),
                json!({}),
                json!({}),
                Some("minimum cpu usage per Container is 100m.  No request is specified"),
            ),
            (
                limit("min", "100m"),
                json!({"cpu": "50m"}),
                json!({}),
                Some("minimum cpu usage per Container is 100m, but request is 50m"),
            ),
            (
                limit("max", "1"),
                json!({}),
                json!({}),
                Some("maximum cpu usage per Container is 1.  No limit is specified"),
            ),
            (
                limit("max", "1"),
                json!({}),
                json!({"cpu": "1500m"}),
                Some("maximum cpu usage per Container is 1, but limit is 1500m"),
            ),
            (
                limit("maxLimitRequestRatio", "2"),
                json!({"cpu": "1"}),
                json!({"cpu": "3"}),
                Some(
                    "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
                ),
            ),
        ];
        for (limit, requests, limits, expected) in cases {
            let shown = limit.to_string();
            let found = violations("Pod", &pod(requests, limits), &[vec![limit]]);
            assert_eq!(found.as_deref(), expected, "{shown}");
        }
    }
}
