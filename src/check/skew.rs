//! Whether this manager may run against the version of the API server.
//!
//! Kubernetes supports managers that are as old as the API server, or one minor version older. The
//! manager equals the release of the API server, unless `--emulated-version` sets another one.
//! <https://kubernetes.io/releases/version-skew-policy/>

use steersman_releases::Release;

use super::finding::Finding;
use crate::config::Config;
use crate::follow::ServerVersion;

const CHECK: &str = "skew";

/// Compares the manager of `config` with `server`.
pub(super) fn check(config: &Config, server: &ServerVersion) -> Finding {
    let set = (!config.follows_server()).then_some(config.features.releases.emulated);
    skew(set, server.release(), &server.git_version)
}

/// `set` is the release of `--emulated-version`, and `server` that of the API server.
fn skew(set: Option<Release>, server: Option<Release>, version: &str) -> Finding {
    let oldest = Release::OLDEST;
    let newest = Release::NEWEST;
    let Some(server) = server else {
        return Finding::warning(
            CHECK,
            format!("the API server has the version {version:?}, which is no number"),
            format!(
                "make sure that it is Kubernetes {oldest} to {newest}, or one minor version newer"
            ),
        );
    };
    let own = set.unwrap_or_else(|| server.nearest_known());
    let both = format!("API server {version}, Steersman as Kubernetes {own}");
    if own > server {
        let advice = match set {
            Some(_) => format!("remove --emulated-version={own}, or set {server}"),
            None => format!("upgrade the API server to Kubernetes {oldest} first"),
        };
        return Finding::failure(
            CHECK,
            format!("{both}: the manager must not be newer than the API server"),
            advice,
        );
    }
    if own == server {
        return Finding::ok(CHECK, format!("{both}: the same minor version"));
    }
    if own == server.previous() {
        return Finding::ok(
            CHECK,
            format!("{both}: one minor version older, which is supported"),
        );
    }
    let advice = match set {
        Some(_) => format!("remove --emulated-version={own}"),
        None => "use a release of Steersman for a newer Kubernetes".to_owned(),
    };
    Finding::failure(
        CHECK,
        format!("{both}: the manager is more than one minor version older"),
        advice,
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level::{Failure, Ok, Warning};
    use super::*;

    #[test]
    fn a_manager_may_be_one_minor_version_older_and_never_newer() {
        // (--emulated-version, API server, level)
        let cases = [
            (None, "v1.33.12", Ok),
            (None, "v1.34.8", Ok),
            (None, "v1.36.9-eks-1", Ok),
            (None, "v1.37.0", Ok),
            (None, "v1.38.1", Ok),
            (None, "v1.39.0", Failure),
            (None, "v1.32.7", Failure),
            (None, "v2.36.0", Failure),
            (None, "1.36+", Ok),
            (None, "unknown", Warning),
            (Some(35), "v1.34.8", Failure),
            (Some(34), "v1.34.8", Ok),
            (Some(34), "v1.35.1", Ok),
            (Some(34), "v1.36.2", Failure),
        ];
        for (set, version, level) in cases {
            let set = set.map(Release::of_minor);
            let found = skew(set, Release::in_version(version), version);
            assert_eq!(found.level, level, "{set:?} {version}");
        }
    }
}
