//! The rules by which a node accepts a pod: node selectors, required node affinity, and taints with
//! tolerations.
//!
//! The functions are pure, and an evaluation allocates no memory, because controllers evaluate
//! thousands of nodes in one sync. Selectors are parsed when the object with the pod template is
//! decoded.
//!
//! Upstream: `k8s.io/component-helpers/scheduling/corev1`, and `toleration.go` of
//! `k8s.io/api/core/v1`.

mod constraints;
mod node_selector;
mod taints;

pub use self::constraints::Constraints;
pub use self::node_selector::NodeSelector;
pub use self::taints::{Comparisons, tolerates, untolerated};
