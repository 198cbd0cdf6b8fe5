//! The EndpointSlices of a load: the number of their writes, and the time from the readiness of a pod
//! until a slice shows it.
//!
//! Both come from watches of pods and slices, so they mean the same for every manager. The time
//! includes the way of both watch events to this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use steersman_objects::{EndpointSlice, Pod};
use steersman_runtime::informer::{Change, SharedInformer};

/// Follows the pods and slices of namespaces. Only names tell pods apart, so they must be unique in all
/// of these namespaces.
#[derive(Clone, Default)]
pub(crate) struct SliceWatch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pods: HashMap<Arc<str>, Progress>,
    writes: usize,
    delays: Vec<Duration>,
}

/// The way of a ready pod into a slice. Its watch event may come after that of the slice.
enum Progress {
    Ready(Instant),
    ShownFirst,
    Shown,
}

/// The writes of slices in a phase, and the delays of its pods.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct SliceCosts {
    /// Creations, updates and deletions of slices.
    pub(crate) writes: usize,
    /// The number of pods that became ready and were shown.
    pub(crate) pods: usize,
    /// Time from the readiness of a pod until a slice shows it: 50th, 90th and 99th percentile, in
    /// milliseconds.
    pub(crate) delays_ms: [f64; 3],
}

impl SliceWatch {
    /// Follows the objects in namespaces whose names begin with `prefix`.
    pub(crate) fn start(
        prefix: &'static str,
        pods: &SharedInformer<Pod>,
        slices: &SharedInformer<EndpointSlice>,
    ) -> Self {
        let watch = Self::default();
        let of_pods = watch.clone();
        pods.add_handler(move |change| {
            let pod = change.object();
            if pod.meta.namespace.starts_with(prefix) {
                let is_gone = matches!(change, Change::Deleted { .. });
                let mut state = of_pods.state();
                state.pod(&pod.meta.name, !is_gone && pod.is_ready(), Instant::now());
            }
        });
        let of_slices = watch.clone();
        slices.add_handler(move |change| {
            let slice = change.object();
            if slice.meta.namespace.starts_with(prefix) {
                let mut state = of_slices.state();
                state.writes += 1;
                if !matches!(change, Change::Deleted { .. }) {
                    state.slice(slice, Instant::now());
                }
            }
        });
        watch
    }

    /// The costs since the last call.
    pub(crate) fn take(&self) -> SliceCosts {
        let mut state = self.state();
        let writes = std::mem::take(&mut state.writes);
        let mut delays = std::mem::take(&mut state.delays);
        drop(state);
        delays.sort_unstable();
        SliceCosts {
            writes,
            pods: delays.len(),
            delays_ms: [50, 90, 99].map(|percent| percentile(&delays, percent)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// A watch event of the pod with this name.
    fn pod(&mut self, name: &Arc<str>, is_ready: bool, now: Instant) {
        if !is_ready {
            self.pods.remove(name);
            return;
        }
        match self.pods.get(name) {
            None => drop(self.pods.insert(Arc::clone(name), Progress::Ready(now))),
            Some(Progress::ShownFirst) => self.shown(Arc::clone(name), Duration::ZERO),
            Some(Progress::Ready(_) | Progress::Shown) => {}
        }
    }

    /// A watch event of a slice.
    fn slice(&mut self, slice: &EndpointSlice, now: Instant) {
        let ready = slice
            .endpoints
            .iter()
            .filter(|e| e.conditions.ready == Some(true));
        for target in ready.filter_map(|endpoint| endpoint.target_ref.as_ref()) {
            match self.pods.get(&target.name) {
                Some(Progress::Ready(since)) => {
                    let delay = now.duration_since(*since);
                    self.shown(Arc::clone(&target.name), delay);
                }
                None => {
                    let name = Arc::clone(&target.name);
                    self.pods.insert(name, Progress::ShownFirst);
                }
                Some(Progress::ShownFirst | Progress::Shown) => {}
            }
        }
    }

    fn shown(&mut self, name: Arc<str>, delay: Duration) {
        self.pods.insert(name, Progress::Shown);
        self.delays.push(delay);
    }
}

/// The delay in milliseconds that this percentage of the sorted delays does not exceed.
pub(crate) fn percentile(delays: &[Duration], percent: usize) -> f64 {
    let rank = (delays.len() * percent).div_ceil(100);
    let delay = delays.get(rank.saturating_sub(1)).copied();
    delay.unwrap_or_default().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    fn slice(pods: &[(&str, bool)]) -> EndpointSlice {
        let endpoint = |(name, ready): &(&str, bool)| {
            json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready},
                   "targetRef": {"kind": "Pod", "namespace": "ns", "name": name}})
        };
        let endpoints: Vec<_> = pods.iter().map(endpoint).collect();
        let json = json!({"metadata": {"name": "s", "namespace": "ns"}, "endpoints": endpoints});
        EndpointSlice::decode(json.to_string().as_bytes()).expect("a valid slice")
    }

    #[test]
    fn a_delay_ends_with_the_first_slice_that_shows_the_pod_ready() {
        let start = Instant::now();
        let mut state = State::default();
        let at = |second: u64| start + Duration::from_secs(second);
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        state.pod(&a, false, at(0));
        state.pod(&a, true, at(1));
        state.slice(&slice(&[("a", false)]), at(2));
        state.slice(&slice(&[("a", true), ("b", true)]), at(4));
        state.slice(&slice(&[("a", true), ("b", true)]), at(5));
        state.pod(&a, true, at(6));
        state.pod(&b, true, at(6));
        let seconds: Vec<u64> = state.delays.iter().map(Duration::as_secs).collect();
        assert_eq!(
            seconds,
            [3, 0],
            "b was shown before its own watch event came"
        );
        state.pod(&a, false, at(7));
        state.pod(&a, true, at(8));
        state.slice(&slice(&[("a", true)]), at(10));
        assert_eq!(state.delays[2], Duration::from_secs(2), "ready again");
    }

    #[test]
    fn percentiles_are_delays_of_pods() {
        // (number of delays: 1 ms, 2 ms and so on; 50th, 90th and 99th percentile)
        let cases = [
            (0, [0.0, 0.0, 0.0]),
            (1, [1.0, 1.0, 1.0]),
            (200, [100.0, 180.0, 198.0]),
        ];
        for (count, expected) in cases {
            let delays: Vec<Duration> = (1..=count).map(Duration::from_millis).collect();
            let found = [50, 90, 99].map(|percent| percentile(&delays, percent).round());
            assert_eq!(found, expected, "{count}");
        }
    }
}
