//! Whether this manager may run against the version of the API server.
//!
//! Kubernetes supports managers that are as old as the API server, or one minor version older.
//! <https://kubernetes.io/releases/version-skew-policy/>

use serde::Deserialize;

use super::finding::Finding;
use crate::version;

const CHECK: &str = "skew";

/// The parts of the answer to `/version` that count.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerVersion {
    /// Such as `v1.36.2`, or `v1.36.2-eks-1234567`.
    pub(super) git_version: String,
}

/// Major and minor number of a version such as `v1.36.2-gke.1`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let mut number = || parts.next()?.trim_end_matches('+').parse().ok();
    Some((number()?, number()?))
}

/// Compares this manager with `server`.
pub(super) fn check(server: &ServerVersion) -> Finding {
    skew(version::GIT_VERSION, &server.git_version)
}

fn skew(ours: &str, theirs: &str) -> Finding {
    let (Some(own), Some(server)) = (numbers(ours), numbers(theirs)) else {
        return Finding::warning(
            CHECK,
            format!("the API server has the version {theirs:?}, which is no number"),
            format!("make sure that it is Kubernetes {ours} or one minor version newer"),
        );
    };
    let both = format!("API server {theirs}, Steersman as Kubernetes {ours}");
    if own > server {
        return Finding::failure(
            CHECK,
            format!("{both}: the manager must not be newer than the API server"),
            "upgrade the API server first",
        );
    }
    match server.1.checked_sub(own.1).filter(|_| own.0 == server.0) {
        Some(0) => Finding::ok(CHECK, format!("{both}: the same minor version")),
        Some(1) => Finding::ok(
            CHECK,
            format!("{both}: one minor version older, which is supported"),
        ),
        _ => Finding::failure(
            CHECK,
            format!("{both}: the manager is more than one minor version older"),
            "use a release of Steersman for a newer Kubernetes",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level::{Failure, Ok, Warning};
    use super::*;

    #[test]
    fn a_manager_may_be_one_minor_version_older_and_never_newer() {
        let cases = [
            ("v1.36.0", Ok),
            ("v1.36.9-eks-1", Ok),
            ("v1.37.0", Ok),
            ("v1.38.1", Failure),
            ("v1.35.7", Failure),
            ("v2.36.0", Failure),
            ("1.36+", Ok),
            ("unknown", Warning),
        ];
        for (server, level) in cases {
            assert_eq!(skew("v1.36.2", server).level, level, "{server}");
        }
    }
}
