//! The time of the change that leads to a write, for the annotation
//! `endpoints.kubernetes.io/last-change-trigger-time`. Tools measure the delay of the network with it.
//!
//! The times of a Service and its pods are remembered from sync to sync. A time that is later than
//! the remembered one belongs to a change. A sync whose writes fail has used up its changes, as in
//! upstream. A sync that ends before them, because its caches are old, does not call this.
//!
//! Upstream: `TriggerTimeTracker` of `k8s.io/endpointslice/util`.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use steersman_objects::{ObjectKey, Pod, Service, Time};
use steersman_runtime::consistency::Memory;
use steersman_values::sync::{Mutex, MutexGuard};

/// Remembered times by the key of a Service.
#[derive(Default)]
pub struct TriggerTimes(Mutex<HashMap<ObjectKey, Times>>);

struct Times {
    service: Option<Time>,
    /// Name of each pod and time of its last change of readiness, sorted by name.
    pods: Box<[(Arc<str>, Time)]>,
}

impl Times {
    fn of(service: &Service, pods: &[Arc<Pod>]) -> Self {
        let time = |pod: &Arc<Pod>| Some((Arc::clone(&pod.meta.name), pod.ready.since?));
        let mut pods: Box<[_]> = pods.iter().filter_map(time).collect();
        pods.sort_unstable();
        Self {
            service: service.meta.created,
            pods,
        }
    }

    /// The remembered time of the pod with this name.
    fn of_pod(&self, name: &str) -> Option<Time> {
        let position = self.pods.binary_search_by(|(pod, _)| (**pod).cmp(name));
        Some(self.pods[position.ok()?].1)
    }

    /// The earliest time that is later than the one in `known`.
    fn earliest_change(&self, known: &Self) -> Option<Time> {
        let is_later = |time: &Time, old: Option<Time>| old.is_none_or(|old| old < *time);
        let pods = self.pods.iter();
        pods.filter(|(name, time)| is_later(time, known.of_pod(name)))
            .map(|(_, time)| *time)
            .chain(self.service.filter(|time| is_later(time, known.service)))
            .min()
    }
}

impl TriggerTimes {
    /// The time of the earliest change since the last call for this Service, and remembers the
    /// current times. The first call for a Service gives the time of its creation.
    ///
    /// `pods` are all selected pods, also those that are no endpoints.
    pub fn observe(
        &self,
        key: &ObjectKey,
        service: &Service,
        pods: &[Arc<Pod>],
    ) -> Option<Timestamp> {
        let times = Times::of(service, pods);
        // Syncs of one Service never overlap, so the entry stays the same in between.
        let known = self.all().remove(key);
        let earliest = match &known {
            None => times.service,
            Some(known) => times.earliest_change(known),
        };
        self.all().insert(key.clone(), times);
        earliest.map(Timestamp::from)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Times>> {
        self.0.lock()
    }
}

impl Memory for TriggerTimes {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove(owner);
    }

    fn history_went_back(&self) {
        // Times of a restored cluster are earlier. Without the memory, Services count as new.
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::Object;

    use super::*;

    const CREATED: i64 = 100;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn service(created: i64) -> Service {
        let json = json!({"metadata": {"name": "web", "namespace": "ns", "creationTimestamp": at(created).to_string()}});
        Service::decode(json.to_string().as_bytes()).unwrap()
    }

    fn pod(name: &str, ready_since: i64) -> Arc<Pod> {
        let json = json!({
            "metadata": {"name": name, "namespace": "ns"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready_since).to_string()}]},
        });
        Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
    }

    /// Upstream: the eight functions of `trigger_time_tracker_test.go`.
    #[test]
    fn the_earliest_change_since_the_last_sync_is_found() {
        let pods = |list: &[(&str, i64)]| -> Vec<Arc<Pod>> {
            list.iter().map(|(name, time)| pod(name, *time)).collect()
        };
        // (upstream's case, creation of the Service and times of pods at each sync, expected times)
        type Syncs<'a> = Vec<(i64, &'a [(&'a str, i64)], Option<i64>)>;
        let cases: Vec<(&str, Syncs<'_>)> = vec![
            ("new service, no pods", vec![(CREATED, &[], Some(CREATED))]),
            (
                "existing pods",
                vec![(CREATED, &[("a", 99), ("b", 101)], Some(CREATED))],
            ),
            (
                "pods added",
                vec![
                    (CREATED, &[], Some(CREATED)),
                    (CREATED, &[("a", 102), ("b", 103)], Some(102)),
                ],
            ),
            (
                "pods updated",
                vec![
                    (
                        CREATED,
                        &[("a", 102), ("b", 103), ("c", 104)],
                        Some(CREATED),
                    ),
                    (CREATED, &[("a", 105), ("b", 103), ("c", 106)], Some(105)),
                ],
            ),
            (
                "pods updated, no time change",
                vec![
                    (CREATED, &[("a", 102)], Some(CREATED)),
                    (CREATED, &[("a", 102)], None),
                ],
            ),
            (
                "pods removed",
                vec![
                    (CREATED, &[("a", 102), ("b", 103)], Some(CREATED)),
                    (CREATED, &[("a", 102)], None),
                    (CREATED, &[("a", 102), ("b", 103)], Some(103)),
                ],
            ),
            (
                "service updated, no pod change",
                vec![
                    (CREATED, &[("a", 102)], Some(CREATED)),
                    (CREATED, &[("a", 102)], None),
                ],
            ),
            (
                "service recreated under its name",
                vec![
                    (CREATED, &[("a", 102)], Some(CREATED)),
                    (CREATED + 9, &[("a", 102)], Some(CREATED + 9)),
                ],
            ),
            (
                "a time that goes back is no change",
                vec![
                    (CREATED, &[("a", 102)], Some(CREATED)),
                    (CREATED, &[("a", 101)], None),
                ],
            ),
        ];
        let key = ObjectKey::new("ns", "web");
        for (case, syncs) in cases {
            let times = TriggerTimes::default();
            for (n, (created, list, expected)) in syncs.into_iter().enumerate() {
                let found = times.observe(&key, &service(created), &pods(list));
                assert_eq!(found, expected.map(at), "{case}, sync {n}");
            }
            times.forget(&key);
            let found = times.observe(&key, &service(CREATED), &pods(&[("a", 200)]));
            assert_eq!(found, Some(at(CREATED)), "{case}, recreated");
        }
    }

    #[test]
    fn pods_without_a_ready_condition_have_no_time() {
        let times = TriggerTimes::default();
        let key = ObjectKey::new("ns", "web");
        let bare =
            Arc::new(Pod::decode(br#"{"metadata": {"name": "a", "namespace": "ns"}}"#).unwrap());
        assert_eq!(
            times.observe(&key, &service(CREATED), &[]),
            Some(at(CREATED))
        );
        assert_eq!(times.observe(&key, &service(CREATED), &[bare]), None);
    }

    #[test]
    fn times_are_written_without_trailing_zeros() {
        // (nanoseconds, text)
        let cases = [
            (0, "1970-01-01T00:01:40Z"),
            (120_000_000, "1970-01-01T00:01:40.12Z"),
            (1, "1970-01-01T00:01:40.000000001Z"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(Timestamp::new(100, nanos).unwrap().to_string(), expected);
        }
    }
}
