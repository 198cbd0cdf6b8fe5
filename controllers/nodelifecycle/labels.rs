//! Two beta labels of nodes that follow their stable labels.
//!
//! Upstream: `labelReconcileInfo` and `reconcileNodeLabels` in `node_lifecycle_controller.go`.

use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

/// (stable label, beta label with the same value).
const COPIES: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// The labels that a node with `labels` lacks, with their values.
pub(super) fn missing(labels: &Labels) -> Vec<(&'static str, Sym)> {
    let missing = COPIES.into_iter().filter_map(|(stable, beta)| {
        let value = labels.get(stable)?;
        (labels.get(beta) != Some(value)).then(|| (beta, value.clone()))
    });
    missing.collect()
}
