//! Times from the change of a Deployment until its status shows that a controller has seen the change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::Deployment;
use steersman_runtime::informer::SharedInformer;

use crate::cluster::NAMESPACE;

/// Follows the Deployments of the loads.
#[derive(Clone, Default)]
pub(super) struct SyncTimes(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// For each changed Deployment, the generation of the change and its moment.
    waiting: HashMap<Arc<str>, (i64, Instant)>,
    times: Vec<Duration>,
}

impl SyncTimes {
    pub(super) fn start(deployments: &SharedInformer<Deployment>) -> Self {
        let times = Self::default();
        let seen = times.clone();
        deployments.add_handler(move |change| {
            let Deployment { meta, status, .. } = &**change.object();
            if meta.namespace == *NAMESPACE {
                let now = Instant::now();
                seen.state()
                    .observed(&meta.name, status.observed_generation, now);
            }
        });
        times
    }

    /// The Deployment gets this generation now.
    pub(super) fn changes(&self, name: &Arc<str>, generation: i64) {
        let change = (generation, Instant::now());
        self.state().waiting.insert(Arc::clone(name), change);
    }

    /// Number of changes that no status shows yet.
    pub(super) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// The times since the last call, sorted.
    pub(super) fn take(&self) -> Vec<Duration> {
        let mut times = std::mem::take(&mut self.state().times);
        times.sort_unstable();
        times
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn observed(&mut self, name: &str, generation: i64, now: Instant) {
        let Some((changed, since)) = self.waiting.get(name) else {
            return;
        };
        if generation >= *changed {
            self.times.push(now.duration_since(*since));
            self.waiting.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ends_with_the_status_of_the_changed_generation() {
        let times = SyncTimes::default();
        let name = Arc::<str>::from("a");
        times.changes(&name, 2);
        let since = times.state().waiting["a"].1;
        for (generation, seconds) in [(1, 1), (2, 3), (2, 9)] {
            let now = since + Duration::from_secs(seconds);
            times.state().observed("a", generation, now);
            times.state().observed("other", generation, now);
        }
        assert_eq!(times.take(), [Duration::from_secs(3)]);
        assert!(times.take().is_empty(), "each time is taken once");
    }
}
