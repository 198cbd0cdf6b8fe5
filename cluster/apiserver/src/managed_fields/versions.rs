//! The versions of one kind. Each manager owns fields of the version in which it wrote.
//!
//! Upstream: `versionconverter.go` of `k8s.io/apimachinery/pkg/util/managedfields/internal`.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::compare::{Changes, compare};
use super::declared::check;
use super::set::FieldSet;
use super::shape::Shape;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::status::Status;

/// An object in another version; `None` if the kind does not have the version.
pub(crate) type Converted = Option<(Arc<Registered>, Value)>;

/// Converts objects between the versions of one kind.
pub(crate) trait Convert: Sync {
    /// The object in the version of this name. An object without a version has that of the request.
    /// A webhook may have to convert it.
    fn convert<'a>(
        &'a self,
        object: &'a Value,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Converted, Status>>;
}

/// The versions of one kind, as seen from the version of a request.
#[derive(Clone, Copy)]
pub(crate) struct Versions<'a> {
    /// The version of the request.
    pub(crate) resource: &'a Resource,
    /// The subresource of the request.
    pub(crate) part: Option<&'a str>,
    pub(crate) convert: &'a dyn Convert,
}

/// An object in one of the versions.
pub(super) enum Seen<'a> {
    /// In the version of the request.
    Own(&'a Resource, &'a Value),
    Other(Arc<Registered>, Value),
}

impl Seen<'_> {
    pub(super) fn resource(&self) -> &Resource {
        match self {
            Self::Own(resource, _) => resource,
            Self::Other(entry, _) => &entry.resource,
        }
    }

    pub(super) fn object(&self) -> &Value {
        match self {
            Self::Own(_, object) => object,
            Self::Other(_, object) => object,
        }
    }

    pub(super) fn shape(&self) -> Shape<'_> {
        self.resource().shape(self.object())
    }

    pub(super) fn into_object(self) -> Value {
        match self {
            Self::Own(_, object) => object.clone(),
            Self::Other(_, object) => object,
        }
    }
}

impl<'a> Versions<'a> {
    /// The fields that the endpoint cannot write (upstream's reset fields).
    pub(super) fn reset(&self) -> FieldSet {
        self.resource.reset_fields(self.part)
    }

    /// Whether this is the version of the request.
    pub(super) fn is_own(&self, api_version: &str) -> bool {
        self.resource.api_version() == api_version
    }

    /// An object in another version. `None` if the kind does not have the version.
    pub(super) async fn seen<'b>(
        self,
        object: &'b Value,
        api_version: &str,
    ) -> Result<Option<Seen<'b>>, Status>
    where
        'a: 'b,
    {
        let own = self.resource.api_version();
        let from = object["apiVersion"].as_str().unwrap_or(&own);
        if from == api_version && from == own {
            return Ok(Some(Seen::Own(self.resource, object)));
        }
        let Some((entry, object)) = self.convert.convert(object, api_version).await? else {
            return Ok(None);
        };
        // Upstream's nop-converter changes only the version, so that fields that the other schema
        // lacks are errors.
        check(entry.resource.shape(&object), &object).map_err(Status::unclassified)?;
        Ok(Some(Seen::Other(entry, object)))
    }
}

/// A write, in the versions of all managers.
pub(super) struct Write<'a> {
    pub(super) versions: Versions<'a>,
    old: &'a Value,
    new: &'a Value,
    /// The changes by version. `None` if the kind does not have the version.
    known: Vec<(String, Option<Changes>)>,
}

impl<'a> Write<'a> {
    /// The write that makes `new` of `old`, both in the version of the request.
    pub(super) fn new(versions: Versions<'a>, old: &'a Value, new: &'a Value) -> Self {
        Self {
            versions,
            old,
            new,
            known: Vec::new(),
        }
    }

    /// The changes in one version, apart from the fields that the endpoint cannot write.
    pub(super) async fn changes(&mut self, api_version: &str) -> Result<Option<&Changes>, Status> {
        let known = self
            .known
            .iter()
            .position(|(known, _)| known == api_version);
        let at = match known {
            Some(at) => at,
            None => {
                let changes = self.compared(api_version).await?;
                self.known.push((api_version.to_owned(), changes));
                self.known.len() - 1
            }
        };
        Ok(self.known[at].1.as_ref())
    }

    async fn compared(&self, api_version: &str) -> Result<Option<Changes>, Status> {
        let versions = self.versions;
        let unconverted = |what: &'static str| {
            move |status: Status| Status {
                message: format!("failed to convert {what} object: {}", status.message),
                ..status
            }
        };
        let old = versions.seen(self.old, api_version).await;
        let Some(old) = old.map_err(unconverted("old"))? else {
            return Ok(None);
        };
        let new = versions.seen(self.new, api_version).await;
        let Some(new) = new.map_err(unconverted("new"))? else {
            return Ok(None);
        };
        let shape = old.resource().shape(new.object());
        let changes = compare(shape, old.object(), new.object());
        Ok(Some(changes.without(&versions.reset())))
    }
}

impl Resource {
    /// The fields that an endpoint cannot write (upstream's reset fields).
    ///
    /// Upstream: `GetResetFields` of the strategies in `pkg/registry`.
    pub(crate) fn reset_fields(&self, part: Option<&str>) -> FieldSet {
        let of = |paths: &[&[&str]]| {
            let mut set = FieldSet::default();
            for path in paths {
                set.union(FieldSet::path(path.iter().copied()));
            }
            set
        };
        match part {
            None if self.is("CertificateSigningRequest") => of(&[&["spec"], &["status"]]),
            None if self.has_status() => of(&[&["status"]]),
            Some("status") if self.custom.is_some() => of(&[&["metadata"], &["spec"]]),
            Some("status") => match &*self.kind {
                "Deployment" => of(&[&["spec"], &["metadata", "labels"]]),
                "Pod" => of(&[
                    &["spec"],
                    &["metadata", "deletionTimestamp"],
                    &["metadata", "ownerReferences"],
                ]),
                "CertificateSigningRequest" => of(&[&["spec"], &["status", "conditions"]]),
                "FlowSchema"
                | "PriorityLevelConfiguration"
                | "ValidatingAdmissionPolicy"
                | "StorageVersion"
                | "ServiceCIDR"
                | "DeviceTaintRule"
                | "ResourceClaim"
                | "ResourcePoolStatusRequest"
                | "PodGroup"
                | "VolumeAttachment"
                | "StorageVersionMigration"
                | "APIService" => of(&[&["metadata"], &["spec"]]),
                _ => of(&[&["spec"]]),
            },
            Some("approval") => of(&[&["spec"], &["status", "certificate"]]),
            Some("finalize") => of(&[&["status"]]),
            _ => FieldSet::default(),
        }
    }
}
