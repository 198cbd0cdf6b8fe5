//! Decisions on the content of one type: the time until it is gone, and whether a rest is an error.
//!
//! Upstream: `estimateGracefulTermination` and `deleteAllContentForGroupVersionResource` in
//! `namespaced_resources_deleter.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use steersman_client::discovery::ServedResource;

/// Estimated seconds for objects with finalizers. 15 is upstream's guess for the garbage collector.
/// Upstream: `finalizerEstimateSeconds`.
const FINALIZER_ESTIMATE: i64 = 15;

/// The part of a pod that determines its termination time.
#[derive(Debug, Deserialize)]
pub(super) struct PodItem {
    #[serde(default, deserialize_with = "nullable")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "nullable")]
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    /// API servers fill in 30 by default. A deletion with a shorter period does not show here.
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

/// The name and finalizers of any object.
#[derive(Debug, Deserialize)]
pub(super) struct Item {
    /// `metadata`.
    pub(super) metadata: ItemMeta,
}

/// The metadata of an [`Item`].
#[derive(Debug, Deserialize)]
pub(super) struct ItemMeta {
    /// `metadata.name`.
    pub(super) name: String,
    #[serde(default, deserialize_with = "nullable")]
    finalizers: Vec<String>,
}

/// Go writes an empty list as `null`.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The longest grace period of the unfinished pods, in seconds. A finished pod has no process that
/// needs time. Upstream: `estimateGracefulTerminationForPods`.
pub(super) fn longest_grace(pods: &[PodItem]) -> i64 {
    let unfinished = pods
        .iter()
        .filter(|pod| !matches!(&*pod.status.phase, "Succeeded" | "Failed"));
    unfinished
        .filter_map(|pod| pod.spec.termination_grace_period_seconds)
        .max()
        .unwrap_or(0)
        .max(0)
}

/// The estimate for a grace period at `now`: 0 once it has passed since the deletion of the
/// namespace.
///
/// Until then it stays the whole grace period, as upstream's does. A grace period of 30 s gives an
/// estimate of 30 s during the first 30 s. Upstream: the end of `estimateGracefulTermination`.
pub(super) fn grace_estimate(grace: i64, deleted: Timestamp, now: Timestamp) -> i64 {
    if now.duration_since(deleted).as_secs() >= grace {
        0
    } else {
        grace
    }
}

/// The remaining objects of one type.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Remains {
    /// Estimated seconds until they are gone.
    pub(super) estimate: i64,
    /// Number of objects.
    pub(super) items: usize,
    /// Number of objects by finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
}

impl Remains {
    /// Adds one page of a list.
    pub(super) fn count(&mut self, items: &[Item]) {
        self.items += items.len();
        for finalizer in items.iter().flat_map(|item| &item.metadata.finalizers) {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
}

/// Objects remain, although their grace period has passed and no finalizer holds them. The next
/// pass tries again: a client may have created them meanwhile, or a deletion is slow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unexpected;

/// Completes counted `remains` with an estimate, given the `estimate` before the deletion. A
/// nonzero estimate is trusted, so a rest is normal until its time has passed. Upstream: the end of
/// `deleteAllContentForGroupVersionResource`.
pub(super) fn judge(mut remains: Remains, estimate: i64) -> (Remains, Result<(), Unexpected>) {
    remains.estimate = estimate;
    if remains.items == 0 {
        remains.estimate = 0;
    } else if estimate == 0 {
        if remains.finalizers.is_empty() {
            return (remains, Err(Unexpected));
        }
        remains.estimate = FINALIZER_ESTIMATE;
    }
    (remains, Ok(()))
}

/// A type in the format of Go's `GroupVersionResource.String`, which is part of condition messages.
pub(super) fn gvr(served: &ServedResource) -> String {
    let resource = &served.resource;
    format!(
        "{}/{}, Resource={}",
        resource.group, resource.version, resource.plural
    )
}

#[cfg(test)]
mod tests {
    use steersman_values::resource;

    use super::*;

    fn pod(phase: &str, grace: Option<i64>) -> PodItem {
        let spec = PodSpec {
            termination_grace_period_seconds: grace,
        };
        PodItem {
            spec,
            status: PodStatus {
                phase: phase.to_owned(),
            },
        }
    }

    #[test]
    fn the_estimate_is_the_longest_grace_period_of_the_unfinished_pods() {
        // (why, pods, expected)
        let cases: [(&str, &[PodItem], i64); 6] = [
            ("none", &[], 0),
            ("one", &[pod("Running", Some(30))], 30),
            (
                "the longest",
                &[
                    pod("Running", Some(5)),
                    pod("Running", Some(60)),
                    pod("Running", Some(30)),
                ],
                60,
            ),
            ("a pending pod counts", &[pod("Pending", Some(40))], 40),
            (
                "finished pods do not count",
                &[
                    pod("Succeeded", Some(90)),
                    pod("Failed", Some(90)),
                    pod("Running", Some(1)),
                ],
                1,
            ),
            (
                "without a grace period, or with a negative one",
                &[pod("Running", None), pod("Running", Some(-1))],
                0,
            ),
        ];
        for (why, pods, expected) in cases {
            assert_eq!(longest_grace(pods), expected, "{why}");
        }
    }

    #[test]
    fn the_estimate_is_zero_after_the_grace_period() {
        let deleted = Timestamp::from_second(1000).unwrap();
        // (grace, seconds since the deletion, expected)
        for (grace, since, expected) in [
            (30, 0, 30),
            (30, 29, 30),
            (30, 30, 0),
            (30, 31, 0),
            (0, 0, 0),
            (30, -10, 30),
        ] {
            let now = Timestamp::from_second(1000 + since).unwrap();
            assert_eq!(
                grace_estimate(grace, deleted, now),
                expected,
                "{grace} s, {since} s later"
            );
        }
    }

    #[test]
    fn remaining_objects_without_grace_period_and_finalizers_are_unexpected() {
        let item = |finalizers: &[&str]| Item {
            metadata: ItemMeta {
                name: "x".to_owned(),
                finalizers: finalizers.iter().map(|&f| f.to_owned()).collect(),
            },
        };
        // (why, items, estimate before, expected estimate, expected to remain)
        let cases: [(&str, &[Item], i64, i64, bool); 6] = [
            ("empty", &[], 0, 0, true),
            ("empty before the estimated time", &[], 30, 0, true),
            ("within the grace period", &[item(&[])], 30, 30, true),
            (
                "the grace period takes precedence over finalizers",
                &[item(&["a.io/f"])],
                30,
                30,
                true,
            ),
            ("finalizers", &[item(&["a.io/f"]), item(&[])], 0, 15, true),
            ("without a reason", &[item(&[])], 0, 0, false),
        ];
        for (why, items, estimate, expected, is_expected) in cases {
            let mut remains = Remains::default();
            remains.count(items);
            let (remains, verdict) = judge(remains, estimate);
            assert_eq!(
                (remains.estimate, remains.items),
                (expected, items.len()),
                "{why}"
            );
            assert_eq!(verdict.is_ok(), is_expected, "{why}");
        }
    }

    #[test]
    fn finalizers_are_counted_over_all_pages() {
        let items = |json: &str| serde_json::from_str::<Vec<Item>>(json).unwrap();
        let mut remains = Remains::default();
        remains.count(&items(
            r#"[{"metadata":{"name":"a","finalizers":["x","y"]}}]"#,
        ));
        remains.count(&items(
            r#"[{"metadata":{"name":"b","finalizers":["x"]}},{"metadata":{"name":"c"}}]"#,
        ));
        remains.count(&[]);
        assert_eq!(remains.items, 3);
        assert_eq!(
            remains.finalizers,
            BTreeMap::from([("x".to_owned(), 2), ("y".to_owned(), 1)])
        );
    }

    #[test]
    fn types_are_printed_as_in_go() {
        let served = |resource: &resource::ResourceType| ServedResource {
            resource: resource.clone(),
            verbs: Vec::new(),
        };
        assert_eq!(gvr(&served(&resource::PODS)), "/v1, Resource=pods");
        assert_eq!(
            gvr(&served(&resource::DEPLOYMENTS)),
            "apps/v1, Resource=deployments"
        );
    }
}
