//! The types that may have objects in a namespace.
//!
//! Pods are separate, because the controller deletes them before all other types.
//!
//! A partial failure is no reason to stop: the content of all other types goes, and the failure keeps the
//! namespace.

use steersman_client::ApiError;
use steersman_client::discovery::{Discovery, IncompleteError, ServedResource};

/// The result of discovery for one pass over a namespace.
#[derive(Debug, Default)]
pub(super) struct Types {
    /// Pods of `v1`, if the server has them. Pods in other versions or groups count as any type.
    pub(super) pods: Option<ServedResource>,
    /// All other namespaced types with the verb `delete`, in their preferred version. One version
    /// suffices, since all versions show the same objects.
    pub(super) others: Vec<ServedResource>,
    /// The failure because of which types may be missing.
    pub(super) failure: Option<Failure>,
    /// Error text for unparsable group versions.
    pub(super) unparsable: Option<String>,
}

/// A failed discovery. `Display` is the text for the condition.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing could be discovered.
    #[error("{0}")]
    Complete(#[source] ApiError),
    /// This number of group versions could not be discovered.
    #[error("{1}")]
    Groups(usize, #[source] IncompleteError),
}

impl Types {
    /// Sorts the outcome of a discovery. Upstream: the start of `deleteAllContent`, with
    /// `ServerPreferredNamespacedResources`.
    pub(super) fn new(found: Result<Discovery, ApiError>) -> Self {
        let discovery = match found {
            Ok(discovery) => discovery,
            Err(error) => {
                return Self {
                    failure: Some(Failure::Complete(error)),
                    ..Self::default()
                };
            }
        };
        let is_content =
            |served: &&ServedResource| served.resource.namespaced && served.allows("delete");
        let deletable = discovery
            .preferred()
            .into_iter()
            .filter(is_content)
            .cloned();
        let (mut pods, others): (Vec<_>, Vec<_>) = deletable.partition(is_pods);
        let failure = discovery
            .failure()
            .map(|error| Failure::Groups(discovery.failures.len(), error));
        let unparsable: Vec<String> = discovery
            .unparsable
            .iter()
            .map(|text| format!("unexpected GroupVersion string: {text}"))
            .collect();
        let unparsable = (!unparsable.is_empty()).then(|| unparsable.join(", "));
        Self {
            pods: pods.pop(),
            others,
            failure,
            unparsable,
        }
    }

    /// Whether discovery found no deletable type. This is the sign of a broken API server, since
    /// each has ConfigMaps at least.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_none() && self.others.is_empty()
    }
}

fn is_pods(served: &ServedResource) -> bool {
    let resource = &served.resource;
    resource.group.is_empty() && resource.version == "v1" && resource.plural == "pods"
}

#[cfg(test)]
mod tests {
    use steersman_client::Category;
    use steersman_client::discovery::{GroupVersion, INCOMPLETE, ServedGroup};
    use steersman_values::resource::ResourceType;

    use super::*;

    fn served(
        group: &str,
        version: &str,
        plural: &str,
        namespaced: bool,
        verbs: &[&str],
    ) -> ServedResource {
        let resource = ResourceType {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: plural.to_owned().into(),
            plural: plural.to_owned().into(),
            namespaced,
        };
        ServedResource {
            resource,
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        }
    }

    fn group(name: &str, version: &str, resources: Vec<ServedResource>) -> ServedGroup {
        ServedGroup {
            name: name.to_owned(),
            preferred: version.to_owned(),
            versions: vec![(version.to_owned(), resources)],
        }
    }

    #[test]
    fn only_namespaced_and_deletable_types_are_content_and_pods_are_separate() {
        let core = vec![
            served("", "v1", "bindings", true, &["create"]),
            served("", "v1", "nodes", false, &["delete"]),
            served("", "v1", "pods", true, &["delete", "list"]),
            served("", "v1", "secrets", true, &["delete"]),
        ];
        let metrics = vec![served(
            "metrics.k8s.io",
            "v1",
            "pods",
            true,
            &["get", "delete"],
        )];
        let discovery = Discovery {
            groups: vec![
                group("", "v1", core),
                group("metrics.k8s.io", "v1", metrics),
            ],
            failures: [(
                GroupVersion {
                    group: "x.io".to_owned(),
                    version: "v1".to_owned(),
                },
                "down".to_owned(),
            )]
            .into(),
            unparsable: vec!["a/b/c".to_owned()],
        };
        let types = Types::new(Ok(discovery));
        let name = |served: &ServedResource| served.resource.to_string();
        assert_eq!(types.pods.as_ref().map(name).as_deref(), Some("pods"));
        assert_eq!(
            types.others.iter().map(name).collect::<Vec<_>>(),
            ["secrets", "pods.metrics.k8s.io"]
        );
        let Some(failure @ Failure::Groups(1, _)) = types.failure else {
            panic!("{:?}", types.failure);
        };
        let text = "unable to retrieve the complete list of server APIs: x.io/v1: down";
        assert_eq!(failure.to_string(), text);
        assert_eq!(Category::of(&failure), Category::Named(INCOMPLETE));
        assert_eq!(
            types.unparsable.as_deref(),
            Some("unexpected GroupVersion string: a/b/c")
        );
    }

    #[test]
    fn a_failed_discovery_gives_no_types_and_the_error() {
        let types = Types::new(Err(ApiError::Fenced {
            request: "GET /apis".to_owned(),
        }));
        let failure = types.failure.as_ref().unwrap();
        let text = "GET /apis: not sent, leadership has ended";
        assert_eq!(failure.to_string(), text);
        assert_eq!(Category::of(failure), Category::Fenced);
        assert!(types.is_empty() && types.unparsable.is_none());
    }
}
