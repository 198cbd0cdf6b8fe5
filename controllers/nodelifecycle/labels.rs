//! Two beta labels of nodes that follow their stable labels.
//!
//! Upstream: `labelReconcileInfo` and `reconcileNodeLabels` in `node_lifecycle_controller.go`.

use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

/// (stable label, beta label with the same value). Old workloads may still select nodes by the beta
/// labels.
const COPIES: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// The labels that a node with `labels` lacks, with their values. A beta label with another value
/// counts as missing, since the stable one is the source of truth. A node without the stable label
/// is left alone.
pub(super) fn missing(labels: &Labels) -> Vec<(&'static str, Sym)> {
    let missing = COPIES.into_iter().filter_map(|(stable, beta)| {
        let value = labels.get(stable)?;
        (labels.get(beta) != Some(value)).then(|| (beta, value.clone()))
    });
    missing.collect()
}
