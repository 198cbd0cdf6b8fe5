//! The cached view of a PersistentVolumeClaim.
//!
//! The view keeps the served [`Document`], because the StatefulSet controller PUTs claims to change
//! their owner references. Upstream: `k8s.io/api/core/v1`.

use super::view::view;

view! {
    /// A claim: its metadata, and the document for its writes.
    pub struct PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIMS, keeps document {
    }
}
