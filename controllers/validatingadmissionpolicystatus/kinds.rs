//! The kinds whose objects a policy validates.
//!
//! Upstream: `typesToCheck`.

use std::collections::BTreeSet;

use steersman_client::ApiError;
use steersman_client::discovery::RestMapper;
use steersman_objects::ResourceRule;
use steersman_values::intern::Sym;

/// One rule ends the collection when it has this many kinds. Upstream: `maxTypesToCheck`. A kind
/// that several resources have counts each time. The limit bounds the number of compilations.
const MAX_KINDS: usize = 10;

/// A kind in one version. The order is that of the warnings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind {
    /// API group; empty for core.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The kinds of all rules, sorted. Rules with wildcards in group or version have none, and neither
/// have wildcards and subresources. The group of core, which is empty, finds resources of all
/// groups, as upstream's `KindsFor` does.
pub(super) async fn of_rules(
    rules: &[ResourceRule],
    mapper: &RestMapper,
) -> Result<BTreeSet<Kind>, ApiError> {
    let mut kinds = BTreeSet::new();
    let mut is_fresh = false;
    for rule in rules {
        let mut count = 0;
        for (group, version, resource) in combinations(rule) {
            let mut found = mapper.kinds(group, version, resource).await?;
            // A resource may be newer than the discovery. One new discovery per policy is enough,
            // as in upstream. Names of no resource would cause one per combination otherwise.
            if found.is_empty() && !is_fresh {
                mapper.reset().await;
                is_fresh = true;
                found = mapper.kinds(group, version, resource).await?;
            }
            for resource in found {
                kinds.insert(Kind {
                    group: resource.group.into_owned(),
                    version: resource.version.into_owned(),
                    kind: resource.kind.into_owned(),
                });
                count += 1;
                // Upstream returns here too, so one rule with many kinds hides all later rules.
                if count == MAX_KINDS {
                    return Ok(kinds);
                }
            }
        }
    }
    Ok(kinds)
}

/// The combinations of group, version and resource, in upstream's order. The limit cuts their list,
/// so the order decides which kinds are checked. Upstream: `extractGroups`, `extractVersions` and
/// `extractResources`.
fn combinations(rule: &ResourceRule) -> Vec<(&str, &str, &str)> {
    let has_wildcard = |names: &[Sym]| names.iter().any(|name| name.contains('*'));
    // One wildcard among the names gives up the whole rule. A resource with one is only skipped.
    if has_wildcard(&rule.api_groups) || has_wildcard(&rule.api_versions) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for group in &rule.api_groups {
        for version in &rule.api_versions {
            let resources = rule.resources.iter();
            let whole = resources.filter(|resource| !resource.contains(['*', '/']));
            found.extend(whole.map(|resource| (&**group, &**version, &**resource)));
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestExtractTypeNames`.
    #[test]
    fn wildcards_and_subresources_have_no_kinds() {
        // (case, groups, versions, resources, combinations)
        #[allow(clippy::type_complexity, reason = "a table of cases")]
        let cases: [(&str, &[&str], &[&str], &[&str], &[(&str, &str, &str)]); 6] = [
            ("empty", &[], &[], &[], &[]),
            ("no groups", &[], &["v1"], &["pods"], &[]),
            (
                "sorted",
                &["apps", ""],
                &["v1"],
                &["pods", "deployments", "pods/status", "*"],
                &[
                    ("", "v1", "deployments"),
                    ("", "v1", "pods"),
                    ("apps", "v1", "deployments"),
                    ("apps", "v1", "pods"),
                ],
            ),
            ("any group", &["*", "apps"], &["v1"], &["pods"], &[]),
            ("any version", &["apps"], &["v1", "*"], &["pods"], &[]),
            ("any resource", &["apps"], &["v1"], &["*", "*/scale"], &[]),
        ];
        let names = |names: &[&str]| names.iter().map(|name| Sym::from(*name)).collect();
        for (case, groups, versions, resources, expected) in cases {
            let rule = ResourceRule {
                api_groups: names(groups),
                api_versions: names(versions),
                resources: names(resources),
            };
            assert_eq!(combinations(&rule), expected, "{case}");
        }
    }
}
