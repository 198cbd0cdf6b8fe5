//! Resource limits of the process.

/// Raises the soft limit of open files to the hard limit, as Go's runtime does. The default soft
/// limit (often 1024) is low for historical reasons. Idle clients must not use up the descriptors
/// that connections to the API server need.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        if let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        ) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
}
