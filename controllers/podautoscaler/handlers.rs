//! Changes of autoscalers: each enqueues its autoscaler.
//!
//! Up to 1.36, each change waits for one period, as upstream. Since 1.37, new autoscalers and changes of the spec
//! have their effect at once ([`is_urgent`]). All other syncs follow from the sync before.
//!
//! There is no handler for targets or pods: a change of them has its effect with the next sync of the
//! autoscaler.

use prometheus::IntGauge;
use std::sync::Arc;
use steersman_objects::{HorizontalPodAutoscaler, Object, ObjectKey};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::config::Config;
use super::selectors::Selectors;

/// Registers the handler of autoscalers. `count` is the number of registered ones.
///
/// A new autoscaler counts as such until its deletion, so a second event of one autoscaler changes no count.
/// Upstream decrements its gauge for each deletion.
pub(super) fn register(
    autoscalers: &SharedInformer<HorizontalPodAutoscaler>,
    queue: WorkQueue<ObjectKey>,
    selectors: Arc<Selectors>,
    count: IntGauge,
    config: &Config,
) {
    // A process that leads again starts from zero.
    count.set(0);
    let config = config.clone();
    autoscalers.add_handler(move |change| {
        let key = change.object().key();
        if let Change::Deleted { .. } = change {
            if selectors.remove(&key) {
                count.dec();
            }
            // The next sync drops the memory of the autoscaler.
            return;
        }
        if selectors.register(&key) {
            count.inc();
        }
        if is_urgent(&change, &config) {
            queue.add(key);
        } else {
            // `add_after` with a key that already waits keeps the earlier time, so updates of the status
            // delay no sync.
            queue.add_after(key, config.period);
        }
    });
}

/// Whether `change` has its effect at once. Upstream: `enqueueHPA` and `updateHPA`. Writes of the status keep
/// the generation, so the controller wakes no autoscaler by its own writes.
fn is_urgent(change: &Change<'_, HorizontalPodAutoscaler>, config: &Config) -> bool {
    match change {
        Change::Added { .. } => config.syncs_new_ones_at_once,
        Change::Updated { old, new } => {
            config.has_generations && old.meta.generation != new.meta.generation
        }
        Change::Deleted { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::config::Readiness;
    use super::*;

    fn config(is_new: bool) -> Config {
        Config {
            period: Duration::from_secs(15),
            downscale_window: Duration::ZERO,
            tolerance: 0.1,
            readiness: Readiness {
                cpu_initialization: Duration::ZERO,
                initial_delay: Duration::ZERO,
            },
            has_own_tolerances: true,
            syncs_new_ones_at_once: is_new,
            names_two_autoscalers: is_new,
            wraps_errors: is_new,
            has_generations: is_new,
            scales_to_zero: is_new,
            guards_zero: true,
            has_pod_level_resources: true,
            requires_containers: true,
            has_binary_suffixes: true,
        }
    }

    #[test]
    fn changes_of_the_spec_are_urgent_since_1_37() {
        let hpa = |generation: i64| {
            let meta = json!({"name": "web", "namespace": "n", "generation": generation});
            let spec =
                json!({"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3});
            let text = json!({"metadata": meta, "spec": spec}).to_string();
            Arc::new(HorizontalPodAutoscaler::decode(text.as_bytes()).unwrap())
        };
        let first = hpa(1);
        let second = hpa(2);
        let added = Change::Added {
            object: &first,
            initial: false,
        };
        let changed = Change::Updated {
            old: &first,
            new: &second,
        };
        let same = Change::Updated {
            old: &first,
            new: &first,
        };
        // (release has both, expected for each change)
        for (is_new, expected) in [(false, [false; 3]), (true, [true, true, false])] {
            let config = config(is_new);
            let found = [&added, &changed, &same].map(|change| is_urgent(change, &config));
            assert_eq!(found, expected, "{is_new}");
        }
    }
}
