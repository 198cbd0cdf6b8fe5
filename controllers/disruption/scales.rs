//! The sizes of the controllers of pods.
//!
//! pod -> controller reference -> workload in a cache, or else GET of its subresource `scale`
//!
//! A pod of a ReplicaSet counts for the Deployment of the ReplicaSet, if there is one. Any other
//! kind, also of a custom resource, needs the subresource `scale`.
//!
//! Upstream: `getExpectedScale` and the finders in `disruption.go`, and `client-go/scale`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use steersman_client::discovery::{MappingError, RestMapper, split_api_version};
use steersman_client::scale::{self, is_readable};
use steersman_client::{ApiClient, ApiError, ApiPath, Target};
use steersman_objects::{
    Deployment, Object, ObjectKey, OwnerReference, Pod, ReplicaSet, ReplicationController,
    StatefulSet, Uid,
};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::informer::Store;
use steersman_values::intern::Sym;
use steersman_values::resource::ResourceType;

/// Groups of Deployments and ReplicaSets. Old references may still have `extensions`, which is no longer
/// served.
const APPS: &[&str] = &["apps", "extensions"];

/// The size of a workload is unknown. The texts are in Events and conditions.
///
/// Upstream has the same texts for missing controllers and for kinds without a scale.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    /// The kind of a controller reference is not served.
    #[error("{0}")]
    Mapping(#[from] MappingError),
    /// The resource has no subresource `scale`.
    #[error("{0} does not implement the scale subresource")]
    NotScalable(String),
    /// The workload does not exist, or another object has its name.
    #[error("found no controllers for pod {0:?}")]
    NoController(Arc<str>),
    /// A request failed.
    #[error("{0}")]
    Request(#[from] ApiError),
    /// The subresource `scale` could not be read.
    #[error("{0}")]
    Scale(#[from] scale::ScaleError),
}

impl ScaleError {
    /// True if the same sync may succeed later without a change of the cluster.
    ///
    /// The other errors end with a change of a workload, a pod or a definition, and a retry without one is in
    /// vain.
    pub(super) fn is_failed_request(&self) -> bool {
        match self {
            Self::Request(_) | Self::Scale(scale::ScaleError::Request(_)) => true,
            Self::Mapping(error) => error.is_failed_request(),
            Self::NotScalable(_) | Self::NoController(_) | Self::Scale(_) => false,
        }
    }
}

/// The workloads that control the pods of a budget.
///
/// Upstream: `getExpectedScale`, which returns the names of unmanaged pods instead of a flag.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Sum of their sizes, each workload once.
    pub(super) expected: i32,
    /// True if pods without a controller were left out.
    pub(super) has_unmanaged: bool,
    /// True if a cache should have a workload that was read from the API server.
    pub(super) cache_is_behind: bool,
}

/// A workload with its size.
///
/// The UID keeps several ReplicaSets of one Deployment from being counted several times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scale {
    uid: Uid,
    replicas: i32,
}

/// Finds the sizes of workloads.
///
/// The caches are shared with the controllers of these kinds. Other kinds cost a request per sync and
/// workload.
pub(super) struct Scales {
    replication_controllers: Store<ReplicationController>,
    replica_sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    stateful_sets: Store<StatefulSet>,
    mapper: RestMapper,
    client: ApiClient,
}

impl Scales {
    /// Finds workloads in the caches of `ctx`, and others by `client`.
    pub(super) fn new(ctx: &ControllerContext, client: ApiClient) -> Self {
        Self {
            replication_controllers: ctx.informers.shared().store(),
            replica_sets: ctx.informers.shared().store(),
            deployments: ctx.informers.shared().store(),
            stateful_sets: ctx.informers.shared().store(),
            mapper: RestMapper::new(client.clone()),
            client,
        }
    }

    /// The workloads that control `pods`, with one request at most for each. One pod with an
    /// unknown workload makes the whole count fail.
    ///
    /// Upstream: `getExpectedScale` with its five finders. A pod without a controller is left out and
    /// reported.
    pub(super) async fn count(&self, pods: &[Arc<Pod>]) -> Result<Counted, ScaleError> {
        let mut counted = Counted::default();
        let mut scales: HashMap<Uid, i32> = HashMap::new();
        let mut known: HashSet<Uid> = HashSet::new();
        // Pods of one workload are frequent, so its reference is resolved once.
        for pod in pods {
            let Some(owner) = pod.meta.controller() else {
                counted.has_unmanaged = true;
                continue;
            };
            if !known.insert(owner.uid.clone()) {
                continue;
            }
            let namespace = &pod.meta.namespace;
            let found = match self.cached(owner, namespace)? {
                Some(found) => Some(found),
                None => {
                    let found = self.served(owner, namespace).await?;
                    counted.cache_is_behind |= found.is_some() && is_cached_kind(owner);
                    found
                }
            };
            let found = found.ok_or_else(|| ScaleError::NoController(pod.meta.name.clone()))?;
            // Several ReplicaSets of a Deployment have the same key here.
            scales.insert(found.uid, found.replicas);
        }
        counted.expected = scales.values().copied().fold(0, i32::saturating_add);
        Ok(counted)
    }

    /// The size of the workload `owner`, by the caches.
    ///
    /// `None` leads to a request: the kind has no cache, or the cache has no such object.
    fn cached(&self, owner: &OwnerReference, namespace: &Sym) -> Result<Option<Scale>, ScaleError> {
        let (group, _) = split_api_version(&owner.api_version)?;
        match (&*owner.kind, group) {
            ("ReplicationController", "") => {
                let found = find(&self.replication_controllers, owner, namespace);
                Ok(found.map(|rc| scale(&*rc, rc.spec.replicas)))
            }
            ("ReplicaSet", group) if APPS.contains(&group) => {
                let Some(rs) = find(&self.replica_sets, owner, namespace) else {
                    return Ok(None);
                };
                self.of_replica_set(&rs)
            }
            ("StatefulSet", "apps") => {
                let found = find(&self.stateful_sets, owner, namespace);
                Ok(found.map(|set| scale(&*set, set.spec.replicas)))
            }
            _ => Ok(None),
        }
    }

    /// The size of the Deployment of a ReplicaSet, or of a ReplicaSet without one.
    ///
    /// Upstream: `getPodDeployment` and `getPodReplicaSet`. During a rollout only the Deployment knows the
    /// wanted size. `None` if the cache lacks it.
    fn of_replica_set(&self, rs: &ReplicaSet) -> Result<Option<Scale>, ScaleError> {
        let Some(owner) = rs.meta.controller() else {
            return Ok(Some(scale(rs, rs.spec.replicas)));
        };
        let (group, _) = split_api_version(&owner.api_version)?;
        // Another controller may own ReplicaSets, for example a Rollout. Then the ReplicaSet's own size
        // counts.
        if *owner.kind != *"Deployment" {
            return Ok(Some(scale(rs, rs.spec.replicas)));
        }
        let found = APPS
            .contains(&group)
            .then(|| find(&self.deployments, owner, &rs.meta.namespace))
            .flatten();
        Ok(found.map(|deployment| scale(&*deployment, deployment.spec.replicas)))
    }

    /// The size of the workload `owner`, by its subresource `scale`. `None` if the workload does
    /// not exist, or if another object has its name.
    ///
    /// Upstream: `getScaleController`. The discovery is cached, while the scale is read each time.
    async fn served(
        &self,
        owner: &OwnerReference,
        namespace: &Sym,
    ) -> Result<Option<Scale>, ScaleError> {
        let mapping = self.mapper.mapping(&owner.api_version, &owner.kind).await?;
        let target = Target {
            resource: &mapping.preferred,
            namespace: Some(namespace),
            name: Some(&owner.name),
            subresource: None,
        };
        let found = match scale::Scale::get(&self.client, target).await {
            Ok(found) => found,
            // Either the object or the whole subresource is absent.
            Err(scale::ScaleError::Request(error)) if error.is_not_found() => {
                return if self.implements_scale(&mapping.resource).await? {
                    Ok(None)
                } else {
                    Err(ScaleError::NotScalable(mapping.resource.to_string()))
                };
            }
            Err(error) => return Err(error.into()),
        };
        // A new object of the same name does not control the pod.
        Ok((found.uid == owner.uid).then_some(Scale {
            uid: found.uid,
            replicas: found.replicas,
        }))
    }

    /// True if the API server lists a readable subresource `scale` of `resource`.
    ///
    /// Upstream: `implementsScale`. It only tells the two reasons for a 404 apart, so an answer is never
    /// kept.
    async fn implements_scale(&self, resource: &ResourceType) -> Result<bool, ScaleError> {
        let path = ApiPath::of_version(&resource.group, &resource.version);
        let path = path.map_err(ApiError::from)?;
        let answer = self.client.get_path(path.clone()).await?;
        let list: Resources = serde_json::from_slice(&answer).map_err(|source| {
            let request = format!("GET {path}");
            let source = source.into();
            ApiError::Decode { request, source }
        })?;
        Ok(list.has_scale_of(&resource.plural))
    }
}

/// The object that `owner` names, if it is in the cache with the same UID.
///
/// A reference has no namespace of its own, so that of the pod applies.
fn find<T: Object>(store: &Store<T>, owner: &OwnerReference, namespace: &Sym) -> Option<Arc<T>> {
    let key = ObjectKey {
        namespace: namespace.clone(),
        name: owner.name.to_arc(),
    };
    store
        .get(&key)
        .filter(|object| object.meta().uid == owner.uid)
}

/// The size of a cached workload.
fn scale(object: &impl Object, replicas: i32) -> Scale {
    let uid = object.meta().uid.clone();
    Scale { uid, replicas }
}

/// True if the workload `owner` should be in a cache.
///
/// A live read of such a workload means that the cache is behind, so the sync is repeated.
fn is_cached_kind(owner: &OwnerReference) -> bool {
    let group = split_api_version(&owner.api_version).map_or("", |(group, _)| group);
    match &*owner.kind {
        "ReplicationController" => group.is_empty(),
        "ReplicaSet" => APPS.contains(&group),
        "StatefulSet" => group == "apps",
        _ => false,
    }
}

/// `APIResourceList` of one group version.
///
/// Only the fields that this check needs are decoded.
#[derive(Deserialize)]
struct Resources {
    resources: Option<Vec<ResourceEntry>>,
}

impl Resources {
    /// True if the resource `plural` has a subresource `scale` in a readable version.
    ///
    /// Readable are the versions of `Scale` that `steersman_client::scale` decodes.
    fn has_scale_of(&self, plural: &str) -> bool {
        let name = format!("{plural}/scale");
        let mut entries = self.resources.iter().flatten();
        entries.any(|entry| {
            let version = format!("{}/{}", entry.group, entry.version);
            entry.name == name && entry.kind == "Scale" && is_readable(&version)
        })
    }
}

/// An entry of the list. Absent fields are empty texts, as in Go.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceEntry {
    name: String,
    group: String,
    version: String,
    kind: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_runtime::tasks::{CancellationToken, Tasks};

    use super::*;
    use crate::disruption::tests::{reference, workload};
    use crate::testing::world::World;

    /// Scales with the caches of a cluster that has these objects.
    struct Fixture {
        scales: Scales,
        _tasks: Tasks,
    }

    impl Fixture {
        async fn new(world: &World) -> Self {
            let tasks = Tasks::default();
            let stop = CancellationToken::new();
            let context = world.context();
            let scales = Scales::new(&context, context.client("tester"));
            context.informers.start(&tasks, &stop);
            assert!(context.informers.wait_synced(&stop).await);
            let _tasks = tasks;
            Self { scales, _tasks }
        }

        /// UID and size of the workload that the caches have for `reference`.
        fn cached(&self, reference: &Value) -> Option<(String, i32)> {
            let metadata = json!({"name": "pod", "ownerReferences": [reference]});
            let pod = Pod::decode(json!({"metadata": metadata}).to_string().as_bytes()).unwrap();
            let owner = pod.meta.controller().unwrap();
            let found = self.scales.cached(owner, &Sym::new("default")).unwrap();
            found.map(|scale| (scale.uid.to_string(), scale.replicas))
        }
    }

    fn with(object: &Value, api_version: &str, kind: &str) -> Value {
        let mut reference = reference(object);
        reference["apiVersion"] = json!(api_version);
        reference["kind"] = json!(kind);
        reference
    }

    fn uid(object: &Value) -> String {
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn basic_finder_functions() {
        let world = World::bare().await;
        let new = async |kind: &str, name: &str, replicas: i32| {
            let mut object = workload(kind, replicas);
            object["metadata"]["name"] = json!(name);
            world.create(object).await
        };
        let rs = new("ReplicaSet", "rs", 10).await;
        let rc = new("ReplicationController", "rc", 12).await;
        let ss = new("StatefulSet", "ss", 14).await;
        let fixture = Fixture::new(&world).await;
        let set = "ReplicaSet";
        let controller = "ReplicationController";
        let stateful = "StatefulSet";
        // (name, object, apiVersion, kind, size)
        let cases = [
            (
                "replicaset controller with apps group",
                &rs,
                "apps/v1",
                set,
                Some(10),
            ),
            (
                "replicaset controller with invalid group",
                &rs,
                "invalid/v1",
                set,
                None,
            ),
            (
                "replicationcontroller with empty group",
                &rc,
                "/v1",
                controller,
                Some(12),
            ),
            (
                "replicationcontroller with invalid group",
                &rc,
                "apps/v1",
                controller,
                None,
            ),
            (
                "statefulset controller with extensions group",
                &ss,
                "apps/v1",
                stateful,
                Some(14),
            ),
            (
                "statefulset controller with invalid kind",
                &ss,
                "apps/v1",
                set,
                None,
            ),
        ];
        for (name, object, api_version, kind, size) in cases {
            let found = fixture.cached(&with(object, api_version, kind));
            assert_eq!(found, size.map(|size| (uid(object), size)), "{name}");
        }
        let mut recreated = with(&rs, "apps/v1", set);
        recreated["uid"] = json!("another");
        assert_eq!(fixture.cached(&recreated), None, "another UID");
        let error = fixture.scales.cached(
            &OwnerReference {
                api_version: "a/b/c".into(),
                kind: "Any".into(),
                name: "any".into(),
                uid: Uid::new("u"),
                controller: true,
                block_owner_deletion: false,
            },
            &Sym::new("default"),
        );
        let text = "unexpected GroupVersion string: a/b/c";
        assert_eq!(error.unwrap_err().to_string(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn deployment_finder_function() {
        const RS: &str = "ReplicaSet";
        const DEPLOYMENT: &str = "Deployment";
        const OTHER: &str = "InvalidKind";
        // (name, reference to the ReplicaSet, reference to the Deployment, size). Upstream finds a
        // ReplicaSet without a Deployment by another function, with its own size of 5.
        let cases = [
            (
                "happy path",
                ("apps/v1", RS),
                ("extensions/v1", DEPLOYMENT),
                Some(10),
            ),
            (
                "invalid rs apiVersion",
                ("invalid/v1", RS),
                ("apps/v1", DEPLOYMENT),
                None,
            ),
            (
                "invalid rs kind",
                ("apps/v1", OTHER),
                ("apps/v1", DEPLOYMENT),
                None,
            ),
            (
                "invalid deployment apiVersion",
                ("extensions/v1", RS),
                ("deployment/v1", DEPLOYMENT),
                None,
            ),
            (
                "invalid deployment kind",
                ("apps/v1", RS),
                ("extensions/v1", OTHER),
                Some(5),
            ),
        ];
        for (name, rs, deployment, size) in cases {
            let world = World::bare().await;
            let dep = world.create(workload("Deployment", 10)).await;
            let mut set = workload("ReplicaSet", 5);
            set["metadata"]["ownerReferences"] = json!([with(&dep, deployment.0, deployment.1)]);
            let set = world.create(set).await;
            let fixture = Fixture::new(&world).await;
            let found = fixture.cached(&with(&set, rs.0, rs.1));
            let owner = if size == Some(5) { &set } else { &dep };
            assert_eq!(found, size.map(|size| (uid(owner), size)), "{name}");
        }
    }

    /// Upstream: `TestScaleFinderNoResource`.
    #[test]
    fn only_a_readable_subresource_counts_as_scale() {
        let own = json!({"name": "customresources", "kind": "customresource"});
        let status = json!({"name": "customresources/status", "kind": "customresource"});
        let scale = json!({"name": "customresources/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"});
        let unreadable = json!({"name": "customresources/scale", "kind": "customresource"});
        // (name, resources, has a scale)
        let cases = [
            (
                "resource implements scale",
                json!([status, scale, own]),
                true,
            ),
            (
                "resource implements unsupported data format for scale subresource",
                json!([own, unreadable]),
                false,
            ),
            ("resource does not implement scale", json!([own]), false),
            ("no resources", Value::Null, false),
        ];
        for (name, resources, expected) in cases {
            let list: Resources = serde_json::from_value(json!({"resources": resources})).unwrap();
            assert_eq!(list.has_scale_of("customresources"), expected, "{name}");
        }
    }
}
