//! Workloads as served: metadata, and spec and status in JSON.
//!
//! The display reads few fields, and controllers cache others. One type serves all kinds in place
//! of a view per kind.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::Deserialize;
use serde_json::Value;
use steersman_objects::{DecodeError, Meta, Object, ObjectMetadata};
use steersman_values::resource::ResourceType;

/// A kind of workload.
pub(super) trait Kind: Send + Sync + 'static {
    /// Its resource.
    const RESOURCE: &'static ResourceType;
}

/// An object of the kind `K`.
#[derive(Debug)]
pub(super) struct Served<K> {
    pub(super) meta: Meta,
    pub(super) spec: Value,
    pub(super) status: Value,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Object for Served<K> {
    const RESOURCE: &'static ResourceType = K::RESOURCE;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "workload",
            source,
        })?;
        Ok(Self {
            meta: ObjectMetadata::decode(json)?.meta,
            spec: wire.spec,
            status: wire.status,
            kind: PhantomData,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $group:literal, $kind:literal, $plural:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(super) struct $name;

            impl Kind for $name {
                const RESOURCE: &'static ResourceType = &ResourceType {
                    group: Cow::Borrowed($group),
                    version: Cow::Borrowed("v1"),
                    kind: Cow::Borrowed($kind),
                    plural: Cow::Borrowed($plural),
                    namespaced: true,
                };
            }
        )*
    };
}

kinds! {
    /// apps/v1 statefulsets.
    StatefulSets: "apps", "StatefulSet", "statefulsets";
    /// apps/v1 daemonsets.
    DaemonSets: "apps", "DaemonSet", "daemonsets";
    /// batch/v1 jobs.
    Jobs: "batch", "Job", "jobs";
    /// v1 persistentvolumeclaims.
    Claims: "", "PersistentVolumeClaim", "persistentvolumeclaims";
    /// batch/v1 cronjobs.
    CronJobs: "batch", "CronJob", "cronjobs";
}
