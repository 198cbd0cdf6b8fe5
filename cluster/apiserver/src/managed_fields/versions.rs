//! The versions of one kind. Each manager owns fields of the version in which it wrote.
//!
//! Upstream: `versionconverter.go` of `k8s.io/apimachinery/pkg/util/managedfields/internal`.

use std::sync::Arc;

use serde_json::Value;

use super::compare::{Changes, compare};
use super::declared::check;
use super::set::FieldSet;
use crate::kinds::Resource;
use crate::registry::Registered;
use crate::status::Status;

/// An object in another version; `None` if the kind does not have the version.
pub(crate) type Converted = Option<(Arc<Registered>, Value)>;

/// The versions of one kind, as seen from the version of a request.
#[derive(Clone, Copy)]
pub(crate) struct Versions<'a> {
    /// The version of the request.
    pub(crate) resource: &'a Resource,
    /// The subresource of the request.
    pub(crate) part: Option<&'a str>,
    /// Converts an object into the version of this name. An object without a version has that of the
    /// request.
    pub(crate) convert: &'a dyn Fn(&Value, &str) -> Result<Converted, Status>,
}

impl Versions<'_> {
    /// The fields that the endpoint cannot write (upstream's reset fields).
    pub(super) fn reset(&self) -> FieldSet {
        self.resource.reset_fields(self.part)
    }

    /// Whether this is the version of the request.
    pub(super) fn is_own(&self, api_version: &str) -> bool {
        self.resource.api_version() == api_version
    }

    /// An object in another version. `None` if the kind does not have the version.
    pub(super) fn in_version(
        &self,
        object: &Value,
        api_version: &str,
    ) -> Result<Option<Value>, Status> {
        self.seen(object, api_version, |_, object| object.clone())
    }

    /// Calls `see` with an object in another version. `None` if the kind does not have the version.
    pub(super) fn seen<T>(
        &self,
        object: &Value,
        api_version: &str,
        see: impl FnOnce(&Resource, &Value) -> T,
    ) -> Result<Option<T>, Status> {
        let own = self.resource.api_version();
        let from = object["apiVersion"].as_str().unwrap_or(&own);
        if from == api_version && from == own {
            return Ok(Some(see(self.resource, object)));
        }
        let Some((entry, object)) = (self.convert)(object, api_version)? else {
            return Ok(None);
        };
        // Upstream's nop-converter changes only the version, so that fields that the other schema
        // lacks are errors.
        check(entry.resource.shape(&object), &object).map_err(Status::unclassified)?;
        Ok(Some(see(&entry.resource, &object)))
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
    pub(super) fn changes(&mut self, api_version: &str) -> Result<Option<&Changes>, Status> {
        let known = self
            .known
            .iter()
            .position(|(known, _)| known == api_version);
        let at = match known {
            Some(at) => at,
            None => {
                let changes = self.compared(api_version)?;
                self.known.push((api_version.to_owned(), changes));
                self.known.len() - 1
            }
        };
        Ok(self.known[at].1.as_ref())
    }

    fn compared(&self, api_version: &str) -> Result<Option<Changes>, Status> {
        let versions = self.versions;
        let reset = versions.reset();
        let unconverted = |what: &'static str| {
            move |status: Status| Status {
                message: format!("failed to convert {what} object: {}", status.message),
                ..status
            }
        };
        let changes = versions.seen(self.old, api_version, |resource, old| {
            let changes = versions.seen(self.new, api_version, |_, new| {
                compare(resource.shape(new), old, new).without(&reset)
            });
            changes.map_err(unconverted("new"))
        });
        let changes = changes.map_err(unconverted("old"))?;
        Ok(changes.transpose()?.flatten())
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
