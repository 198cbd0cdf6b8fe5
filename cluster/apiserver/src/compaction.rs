//! Compaction of old revisions, as `--etcd-compaction-interval` of kube-apiserver.
//!
//! each interval: forget the revisions before the previous interval's end -> note the present one
//!
//! Upstream is `compactor.runCompactLoop` and `Compact` in
//! `apiserver/pkg/storage/etcd3/compact.go`. Watches are not affected: upstream serves them from
//! its watch cache, and here the history of each type has limits of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::Server;

/// The interval of a kube-apiserver without flags: `DefaultCompactInterval` in
/// `apiserver/pkg/storage/storagebackend/config.go`.
pub const COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Compacts the revisions of `server` each `interval`, until dropped. Lists of a revision, and their
/// continue tokens, expire when it is one to two intervals old.
pub async fn compact_revisions(server: Arc<Server>, interval: Duration) {
    let mut noted = 0;
    loop {
        tokio::time::sleep(interval).await;
        // Upstream's compactor writes a key of its own. So its own revision is the noted one, and
        // tokens expire in a cluster without other writes, too.
        let present = server.revisions.skip_one();
        server.revisions.compact(noted);
        noted = present;
    }
}
