//! The EndpointSlices of a load: the number of their writes, and the time from the readiness of a pod
//! until a slice shows it.
//!
//! Both come from watches of pods and slices, so they mean the same for every manager. The time
//! includes the way of both watch events to this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::object::{EndpointSlice, Pod};

/// Follows the pods and slices of one namespace.
#[derive(Clone, Default)]
pub(crate) struct SliceWatch(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pods: HashMap<Arc<str>, Progress>,
    costs: SliceCosts,
}

/// The way of a ready pod into a slice. Its watch event may come after that of the slice.
enum Progress {
    Ready(Instant),
    ShownFirst,
    Shown,
}

/// The writes of slices in a phase, and the delays of its pods.
#[derive(Debug, Default)]
pub(crate) struct SliceCosts {
    /// Creations, updates and deletions of slices.
    pub(crate) writes: usize,
    delays: Vec<Duration>,
}

impl SliceCosts {
    /// The number of pods that became ready and were shown.
    pub(crate) fn pods(&self) -> usize {
        self.delays.len()
    }

    /// The delay that this percentage of the pods does not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.delays.len() * percent).div_ceil(100);
        let delay = self.delays.get(rank.saturating_sub(1));
        delay.copied().unwrap_or_default()
    }
}

impl SliceWatch {
    /// Follows the objects in `namespace`.
    pub(crate) fn start(
        namespace: &'static str,
        pods: &SharedInformer<Pod>,
        slices: &SharedInformer<EndpointSlice>,
    ) -> Self {
        let watch = Self::default();
        let of_pods = watch.clone();
        pods.add_handler(move |change| {
            let pod = change.object();
            if pod.meta.namespace == *namespace {
                let is_gone = matches!(change, Change::Deleted { .. });
                let mut state = of_pods.state();
                state.pod(&pod.meta.name, !is_gone && pod.is_ready(), Instant::now());
            }
        });
        let of_slices = watch.clone();
        slices.add_handler(move |change| {
            let slice = change.object();
            if slice.meta.namespace == *namespace {
                let mut state = of_slices.state();
                state.costs.writes += 1;
                if !matches!(change, Change::Deleted { .. }) {
                    state.slice(slice, Instant::now());
                }
            }
        });
        watch
    }

    /// The costs since the last call.
    pub(crate) fn take(&self) -> SliceCosts {
        let mut costs = std::mem::take(&mut self.state().costs);
        costs.delays.sort_unstable();
        costs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.costs.delays.push(delay);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_runtime::object::Object;

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
        let (start, mut state) = (Instant::now(), State::default());
        let at = |second: u64| start + Duration::from_secs(second);
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        state.pod(&a, false, at(0));
        state.pod(&a, true, at(1));
        state.slice(&slice(&[("a", false)]), at(2));
        state.slice(&slice(&[("a", true), ("b", true)]), at(4));
        state.slice(&slice(&[("a", true), ("b", true)]), at(5));
        state.pod(&a, true, at(6));
        state.pod(&b, true, at(6));
        let seconds: Vec<u64> = state.costs.delays.iter().map(Duration::as_secs).collect();
        assert_eq!(
            seconds,
            [3, 0],
            "b was shown before its own watch event came"
        );
        state.pod(&a, false, at(7));
        state.pod(&a, true, at(8));
        state.slice(&slice(&[("a", true)]), at(10));
        assert_eq!(state.costs.delays[2], Duration::from_secs(2), "ready again");
    }

    #[test]
    fn percentiles_are_delays_of_pods() {
        // (number of delays: 1 ms, 2 ms and so on; 50th, 90th and 99th percentile)
        let cases = [(0, [0, 0, 0]), (1, [1, 1, 1]), (200, [100, 180, 198])];
        for (count, expected) in cases {
            let costs = SliceCosts {
                writes: 0,
                delays: (1..=count).map(Duration::from_millis).collect(),
            };
            let found = [50, 90, 99].map(|percent| costs.percentile(percent).as_millis());
            assert_eq!(found, expected, "{count}");
        }
    }
}
