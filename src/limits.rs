//! Limits of the process.

/// Lets the process open as many files as it is allowed to, as Go's runtime does: what is set by
/// default is low for the sake of old programs, and a thousand idle clients must not cut us off
/// from the API server.
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
