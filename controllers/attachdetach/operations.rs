//! Attach and detach operations that are under way, and the back-off of failed ones.
//!
//! A volume that only one node may have has at most one operation in the cluster. Other volumes have
//! one per node. Upstream: `pkg/volume/util/nestedpendingoperations`.
//!
//! Upstream's executor keeps goroutines, and this state keeps phases. A restart forgets both, and the
//! new process finds the volumes uncertain.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::volume::Volume;
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::desired::PodRef;

/// Delay after the first failure. Upstream: `initialDurationBeforeRetry`.
///
/// The constants are in `pkg/util/goroutinemap/exponentialbackoff`.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Longest delay. Upstream: `maxDurationBeforeRetry`.
///
/// The odd two seconds make delays of this kind recognizable, as upstream says.
const LAST_DELAY: Duration = Duration::from_secs(122);
/// Time in which an attacher has to answer. Upstream: `csiTimeout` of the controller.
///
/// The attacher may still finish its work later. The next try then finds its answer at once.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A pod wants the volume on the node.
    Attach,
    /// No pod wants it there any more.
    Detach,
}

impl Kind {
    /// Name of the operation in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attach => "volume_attach",
            Self::Detach => "volume_detach",
        }
    }
}

/// The next thing that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Attach: the VolumeAttachment exists.
    ///
    /// Plugins without attachments pass it at once.
    Create,
    /// Detach: the status of the node lacks the volume.
    ///
    /// A failed PATCH keeps the operation here. Nothing is deleted before.
    Report,
    /// Detach: the node does not use the volume, and the VolumeAttachment is deleted.
    ///
    /// Both need requests, so one step does them together.
    Delete,
    /// The answer of the attacher.
    ///
    /// An event of the VolumeAttachment, or the deadline, ends it.
    Answer,
}

/// An operation under way.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    /// Start of the operation, for its metric.
    pub(super) began: Instant,
    /// Time at which the attacher has to have answered.
    ///
    /// It is set anew when the wait for the attacher begins.
    pub(super) deadline: Instant,
    /// The volume; `None` if only the status of a node names it.
    pub(super) volume: Option<Arc<Volume>>,
    /// Detach: the rule under which a volume in use is detached.
    ///
    /// Decided at the start of the operation, as upstream; the live check follows before the deletion.
    pub(super) force: Force,
    /// Attach: the pods that get the Event of the result.
    ///
    /// Those at the start of the operation. A pod that joins later gets no Event, as upstream.
    pub(super) pods: Vec<PodRef>,
}

/// The rule under which a volume is detached that its node may still use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// None: the node must not use the volume.
    No,
    /// The six minutes for the unmount are over, and the node is not ready or does not use the volume.
    Timeout,
    /// The node has the taint `node.kubernetes.io/out-of-service`.
    ///
    /// An administrator promises that the node is off.
    OutOfService,
}

impl Operation {
    pub(super) fn new(kind: Kind, volume: Option<Arc<Volume>>, now: Instant) -> Self {
        Self {
            kind,
            phase: match kind {
                Kind::Attach => Phase::Create,
                Kind::Detach => Phase::Report,
            },
            began: now,
            deadline: now + TIMEOUT,
            volume,
            force: Force::No,
            pods: Vec::new(),
        }
    }

    /// The plugin, as metrics name it.
    pub(super) fn plugin(&self, name: &Sym) -> String {
        match &self.volume {
            Some(volume) => volume.plugin.qualified_name(),
            None => plugin_of(name),
        }
    }
}

/// The name of the plugin of a volume with this unique name. As upstream, it lacks the driver:
/// `SplitUniqueName` gives the plugin, and only the spec of a volume has the driver.
fn plugin_of(name: &Sym) -> String {
    name.split('/').take(2).collect::<Vec<_>>().join("/")
}

/// The scope of a back-off: one node, or the cluster for a volume that one node may have.
type Scope = Option<Sym>;

/// Upstream: `ExponentialBackoff`.
#[derive(Debug)]
struct BackOff {
    /// A failure to attach does not delay a detach.
    kind: Kind,
    delay: Duration,
    until: Instant,
    /// Whether a late success of the attacher ends it. A node that uses the volume is asked again
    /// after the delay only, whatever the attacher does.
    ends_early: bool,
}

/// All operations.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// By unique name of the volume, then by node.
    running: HashMap<Sym, BTreeMap<Sym, Operation>>,
    /// The back-offs, also those that are over: the next failure doubles their delay.
    failed: HashMap<Sym, HashMap<Scope, BackOff>>,
}

impl Operations {
    /// The nodes with an operation of this volume.
    pub(super) fn nodes_of(&self, volume: &Sym) -> Vec<Sym> {
        let running = self.running.get(volume);
        running.map_or_else(Vec::new, |running| running.keys().cloned().collect())
    }

    pub(super) fn get(&self, volume: &Sym, node: &Sym) -> Option<&Operation> {
        self.running.get(volume)?.get(node)
    }

    pub(super) fn set_phase(&mut self, volume: &Sym, node: &Sym, phase: Phase, deadline: Instant) {
        let running = self.running.get_mut(volume);
        if let Some(operation) = running.and_then(|running| running.get_mut(node)) {
            operation.phase = phase;
            operation.deadline = deadline;
        }
    }

    /// Whether an operation of the volume excludes one on this node.
    ///
    /// Upstream: `IsOperationPending`. A volume for one node must not be attached here while it is
    /// being detached there.
    pub(super) fn is_busy(&self, volume: &Sym, node: &Sym, is_multi_attach: bool) -> bool {
        let running = self.running.get(volume);
        running.is_some_and(|running| !is_multi_attach || running.contains_key(node))
    }

    /// The time until which an operation of this kind has to wait after failures. `None` if it may
    /// start. `has_succeeded`: the attacher has done the work by now.
    ///
    /// Upstream: `IsOperationSafeToRetry` and `SafeToRetry`.
    pub(super) fn waits_until(
        &self,
        volume: &Sym,
        scope: &Scope,
        kind: Kind,
        now: Instant,
        has_succeeded: bool,
    ) -> Option<Instant> {
        let failed = self.failed.get(volume)?.get(scope)?;
        let is_over = now >= failed.until || (failed.ends_early && has_succeeded);
        (failed.kind == kind && !is_over).then_some(failed.until)
    }

    /// The caller has checked that none is under way.
    pub(super) fn start(&mut self, volume: &Sym, node: &Sym, operation: Operation) {
        let running = self.running.entry(volume.clone()).or_default();
        running.insert(node.clone(), operation);
    }

    /// Ends an operation without a result.
    ///
    /// Returns the operation. `None` if another path has ended it.
    pub(super) fn end(&mut self, volume: &Sym, node: &Sym) -> Option<Operation> {
        let running = self.running.get_mut(volume)?;
        let operation = running.remove(node);
        if running.is_empty() {
            self.running.remove(volume);
        }
        operation
    }

    /// Forgets failures after a success.
    pub(super) fn succeeded(&mut self, volume: &Sym, scope: &Scope) {
        if let Some(failed) = self.failed.get_mut(volume) {
            failed.remove(scope);
            if failed.is_empty() {
                self.failed.remove(volume);
            }
        }
    }

    /// Starts or doubles the back-off after a failure in `phase`. A failure of the other kind starts it
    /// over.
    ///
    /// Upstream: `Update` of `ExponentialBackoff`, and the reset in `Run` of
    /// `nestedpendingoperations.go`.
    pub(super) fn failed(
        &mut self,
        volume: &Sym,
        scope: Scope,
        kind: Kind,
        phase: Phase,
        now: Instant,
    ) {
        let failed = self.failed.entry(volume.clone()).or_default();
        let before = failed.get(&scope).filter(|before| before.kind == kind);
        let delay = before.map_or(FIRST_DELAY, |before| (before.delay * 2).min(LAST_DELAY));
        let until = now + delay;
        let ends_early = phase != Phase::Delete;
        failed.insert(
            scope,
            BackOff {
                kind,
                delay,
                until,
                ends_early,
            },
        );
    }

    /// Drops the failures of a volume that is neither wanted nor attached.
    ///
    /// Upstream keeps them.
    pub(super) fn forget(&mut self, volume: &Sym) {
        self.failed.remove(volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_name_the_plugin_of_a_volume_that_only_a_node_names() {
        let cases = [
            (
                "kubernetes.io/csi/csi.example.com^vol-1",
                "kubernetes.io/csi",
            ),
            ("kubernetes.io/iscsi/1.2.3.4:iqn:0", "kubernetes.io/iscsi"),
        ];
        for (name, expected) in cases {
            let operation = Operation::new(Kind::Detach, None, Instant::now());
            assert_eq!(operation.plugin(&Sym::new(name)), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_delay_up_to_its_limit() {
        let volume = Sym::new("v");
        let scope = None;
        let now = Instant::now();
        let mut operations = Operations::default();
        let mut delays = Vec::new();
        for _ in 0..10 {
            operations.failed(&volume, scope.clone(), Kind::Attach, Phase::Answer, now);
            let until = operations.waits_until(&volume, &scope, Kind::Attach, now, false);
            delays.push(until.unwrap().duration_since(now).as_millis());
        }
        let expected = [
            500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000,
        ];
        assert_eq!(delays, expected);
        let over = now + LAST_DELAY;
        assert_eq!(
            operations.waits_until(&volume, &scope, Kind::Attach, over, false),
            None
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_other_kind_of_operation_starts_at_once() {
        let volume = Sym::new("v");
        let now = Instant::now();
        let mut operations = Operations::default();
        operations.failed(&volume, None, Kind::Attach, Phase::Answer, now);
        operations.failed(&volume, None, Kind::Attach, Phase::Answer, now);
        let waits = |operations: &Operations, kind| {
            let until = operations.waits_until(&volume, &None, kind, now, false);
            until.map(|until| until.duration_since(now))
        };
        assert_eq!(waits(&operations, Kind::Detach), None);
        operations.failed(&volume, None, Kind::Detach, Phase::Answer, now);
        assert_eq!(waits(&operations, Kind::Attach), None);
        assert_eq!(waits(&operations, Kind::Detach), Some(FIRST_DELAY));
        operations.succeeded(&volume, &None);
        assert_eq!(waits(&operations, Kind::Detach), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_success_ends_only_the_wait_for_an_attacher() {
        let volume = Sym::new("v");
        let now = Instant::now();
        for (phase, ends) in [(Phase::Answer, true), (Phase::Delete, false)] {
            let mut operations = Operations::default();
            operations.failed(&volume, None, Kind::Detach, phase, now);
            let waits = |has_succeeded| {
                let until =
                    operations.waits_until(&volume, &None, Kind::Detach, now, has_succeeded);
                until.is_some()
            };
            assert!(waits(false), "{phase:?}");
            assert_eq!(waits(true), !ends, "{phase:?}");
        }
    }

    /// Upstream's rule of operation keys.
    #[tokio::test(start_paused = true)]
    async fn an_exclusive_volume_has_one_operation_in_the_cluster() {
        let volume = Sym::new("v");
        let now = Instant::now();
        let here = Sym::new("n1");
        let there = Sym::new("n2");
        let mut operations = Operations::default();
        operations.start(&volume, &here, Operation::new(Kind::Attach, None, now));
        // (node, volume is for several nodes, busy)
        let cases = [
            (&here, true, true),
            (&there, true, false),
            (&there, false, true),
        ];
        for (node, is_multi_attach, expected) in cases {
            assert_eq!(operations.is_busy(&volume, node, is_multi_attach), expected);
        }
        operations.end(&volume, &here);
        assert!(!operations.is_busy(&volume, &there, false));
    }
}
