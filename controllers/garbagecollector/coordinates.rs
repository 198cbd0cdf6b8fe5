//! Coordinates: the identity of an object, as observed or as an owner reference states it.
//!
//! References may contradict each other and the object with that UID. Upstream:
//! `objectReference` in `graph.go`, and `getAlternateOwnerIdentity` in `graph_builder.go`.

use std::fmt;
use std::sync::Arc;

use steersman_objects::{OwnerReference, Uid};
use steersman_values::intern::Sym;

/// Type, namespace, name and UID of an object. The order of the fields is the sort order of
/// [`Coordinates::alternate`], which starts with the kind as upstream's does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Coordinates {
    /// Kind, such as `ReplicaSet`.
    pub(super) kind: Sym,
    /// Group and version, such as `apps/v1`.
    pub(super) api_version: Sym,
    /// Empty for cluster-scoped objects and if it is unknown.
    pub(super) namespace: Sym,
    /// `metadata.name`.
    pub(super) name: Arc<str>,
    /// `metadata.uid`. The graph has one node per UID.
    pub(super) uid: Uid,
}

impl Coordinates {
    /// The owner according to `reference` in an object of `namespace`.
    pub(super) fn of_owner(reference: &OwnerReference, namespace: &Sym) -> Self {
        Self {
            kind: reference.kind.clone(),
            api_version: reference.api_version.clone(),
            namespace: namespace.clone(),
            name: reference.name.to_arc(),
            uid: reference.uid.clone(),
        }
    }

    /// Whether `reference` matches these coordinates. A reference has no namespace. Upstream:
    /// `ownerReferenceMatchesCoordinates`.
    pub(super) fn matches(&self, reference: &OwnerReference) -> bool {
        reference.uid == self.uid
            && *reference.name == *self.name
            && reference.kind == self.kind
            && reference.api_version == self.api_version
    }

    /// The next identity to look up for an owner that does not exist under these coordinates.
    ///
    /// `claims` are owner references with the namespaces of their dependents. The candidates with
    /// this UID are sorted. The result is the first one after `self`, or else the first of all, so
    /// repeated calls check every identity in turn. Upstream: `getAlternateOwnerIdentity`.
    pub(super) fn alternate<'a>(
        &self,
        claims: impl Iterator<Item = (&'a Sym, &'a OwnerReference)>,
    ) -> Option<Self> {
        let others = claims
            .filter(|(_, owner)| owner.uid == self.uid)
            .map(|(namespace, owner)| {
                // `self` was looked up as cluster-scoped, so owners of its type have no namespace.
                let is_cluster_scoped = self.namespace.is_empty()
                    && owner.kind == self.kind
                    && owner.api_version == self.api_version;
                Self::of_owner(
                    owner,
                    if is_cluster_scoped {
                        &self.namespace
                    } else {
                        namespace
                    },
                )
            });
        let mut others: Vec<Self> = others.filter(|other| other != self).collect();
        // Upstream: `referenceLessThan`. Kind and version come first, so all claims of one type
        // follow each other across namespaces.
        others.sort();
        others
            .iter()
            .find(|other| *other > self)
            .or(others.first())
            .cloned()
    }

    /// Whether objects in `namespace` (empty: cluster-scoped objects) cannot have this owner. A
    /// namespaced owner has dependents only in its own namespace. A cluster-scoped owner is in
    /// reach of all objects.
    pub(super) fn is_out_of_reach_of(&self, namespace: &Sym) -> bool {
        !self.namespace.is_empty() && self.namespace != *namespace
    }
}

/// API group (empty for core) and version of an `apiVersion`.
pub(super) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl fmt::Display for Coordinates {
    /// The form of upstream's `objectReference.String`, which Events and logs show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            api_version,
            namespace,
            name,
            uid,
        } = self;
        write!(
            f,
            "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Id = (&'static str, &'static str, &'static str, &'static str);

    fn coordinates((api_version, kind, namespace, name): Id) -> Coordinates {
        let kind = kind.into();
        let api_version = api_version.into();
        let namespace = namespace.into();
        Coordinates {
            kind,
            api_version,
            namespace,
            name: Arc::from(name),
            uid: Uid::new("uid"),
        }
    }

    fn reference((api_version, kind, _, name): Id, uid: &str) -> OwnerReference {
        let api_version = api_version.into();
        let kind = kind.into();
        let name = name.into();
        OwnerReference {
            api_version,
            kind,
            name,
            uid: Uid::new(uid),
            controller: false,
            block_owner_deletion: false,
        }
    }

    /// Upstream: `TestGetAlternateOwnerIdentity`.
    #[test]
    fn get_alternate_owner_identity() {
        const PARENT: Id = ("v1", "NSParent", "ns1", "parentname");
        const ELSEWHERE: Id = ("v1", "NSParent", "ns2", "parentname");
        const VERSION: Id = ("xx", "NSParent", "ns1", "parentname");
        const KIND: Id = ("v1", "xxxxxxxx", "ns1", "parentname");
        const NAME: Id = ("v1", "NSParent", "ns1", "xxxxxxxxxx");
        const CLUSTER: Id = ("v1", "ClusterParent", "", "parentname");
        const CLUSTER_VERSION: Id = ("xx", "ClusterParent", "ns1", "parentname");
        const CLUSTER_KIND: Id = ("v1", "xxxxxxxxxxxxx", "ns1", "parentname");
        const CLUSTER_NAME: Id = ("v1", "ClusterParent", "", "xxxxxxxxxx");
        const CLUSTER_KIND_NOWHERE: Id = ("v1", "xxxxxxxxxxxxx", "", "parentname");
        let ordered = |namespace| {
            ["v1", "v2", "v3", "v4", "v5"].map(|version| (version, "kind", namespace, "name"))
        };
        let namespaced = ordered("ns1");
        let clustered = ordered("");
        let claimed_in = |namespace, all: [Id; 5]| all.map(|id| (namespace, id)).to_vec();
        // (name, namespaces and references of dependents, absent identity, expected)
        let cases: Vec<(&str, Vec<(&str, Id)>, Id, Option<Id>)> = vec![
            (
                "namespaced alternate version",
                vec![("ns1", PARENT), ("ns1", VERSION)],
                PARENT,
                Some(VERSION),
            ),
            (
                "namespaced alternate kind",
                vec![("ns1", PARENT), ("ns1", KIND)],
                PARENT,
                Some(KIND),
            ),
            (
                "namespaced alternate namespace",
                vec![("ns1", PARENT), ("ns2", ELSEWHERE)],
                PARENT,
                Some(ELSEWHERE),
            ),
            (
                "namespaced alternate name",
                vec![("ns1", PARENT), ("ns1", NAME)],
                PARENT,
                Some(NAME),
            ),
            (
                "cluster alternate version",
                vec![("ns1", CLUSTER), ("ns1", CLUSTER_VERSION)],
                CLUSTER,
                Some(CLUSTER_VERSION),
            ),
            (
                "cluster alternate kind",
                vec![("ns1", CLUSTER), ("ns1", CLUSTER_KIND)],
                CLUSTER,
                Some(CLUSTER_KIND),
            ),
            (
                "cluster alternate namespace",
                vec![("ns1", CLUSTER), ("ns2", CLUSTER)],
                CLUSTER,
                None,
            ),
            (
                "cluster alternate name",
                vec![("ns1", CLUSTER), ("ns1", CLUSTER_NAME)],
                CLUSTER,
                Some(CLUSTER_NAME),
            ),
            (
                "namespaced ref from namespaced child returns first if absent is sorted last",
                claimed_in("ns1", namespaced),
                namespaced[4],
                Some(namespaced[0]),
            ),
            (
                "namespaced ref from namespaced child returns next after absent",
                claimed_in("ns1", namespaced),
                namespaced[3],
                Some(namespaced[4]),
            ),
            (
                "cluster ref from cluster child returns first if absent is sorted last",
                claimed_in("", clustered),
                clustered[4],
                Some(clustered[0]),
            ),
            (
                "cluster ref from cluster child returns next after absent",
                claimed_in("", clustered),
                clustered[3],
                Some(clustered[4]),
            ),
            ("ignore unrelated", vec![("ns1", CLUSTER)], CLUSTER, None),
            (
                "ignore matches",
                vec![("ns1", CLUSTER), ("ns1", CLUSTER)],
                CLUSTER,
                None,
            ),
            (
                "collapse duplicates",
                vec![
                    ("", CLUSTER),
                    ("", CLUSTER_KIND_NOWHERE),
                    ("", CLUSTER_KIND_NOWHERE),
                ],
                CLUSTER,
                Some(CLUSTER_KIND_NOWHERE),
            ),
        ];
        for (name, claims, absent, expected) in cases {
            let unrelated = (
                Sym::new("ns1"),
                reference(("v1", "Parent", "ns1", "name"), "anotheruid"),
            );
            let claims = claims
                .into_iter()
                .map(|(namespace, id)| (Sym::new(namespace), reference(id, "uid")));
            let claims: Vec<(Sym, OwnerReference)> = claims.chain([unrelated]).collect();
            let found = coordinates(absent)
                .alternate(claims.iter().map(|(namespace, owner)| (namespace, owner)));
            assert_eq!(found, expected.map(coordinates), "{name}");
        }
    }
}
