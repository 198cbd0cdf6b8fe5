//! Detects the end of the parent process.

/// Waits until the current parent process has ended. Waits for ever on systems that cannot tell.
///
/// Call it first in the process: after the parent has ended, the parent ID is that of another
/// process. `PR_SET_PDEATHSIG` is no alternative, because its signal arrives when the parent's
/// *thread* ends. In Go or Python, that may be long before the process ends.
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
