//! The end of the process that started this one.

/// Waits until the process that was the parent when this was called has ended. Where that cannot be known it waits for ever.
///
/// The kernel's own signal for this comes when the parent's thread ends, which in Go or Python may be long before the process does.
pub(super) async fn gone() {
    #[cfg(unix)]
    {
        use std::os::unix::process::parent_id;

        const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);
        let parent = parent_id();
        while parent_id() == parent {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}
