//! The end of the process that started this one.

/// Waits until the process that is the parent when this is called has ended. Where that cannot be
/// known it waits for ever.
///
/// To be called first of all: whoever is the parent of an orphan is not who started it. The
/// kernel's own signal for this comes when the parent's thread ends, which in Go or Python may be
/// long before the process does.
pub(super) fn gone() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use std::os::unix::process::parent_id;

        const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(200);
        let parent = parent_id();
        async move {
            while parent_id() == parent {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
    #[cfg(not(unix))]
    std::future::pending()
}
