//! A write as admission policies and webhooks see it.
//!
//! Upstream: `admission.Attributes` in `k8s.io/apiserver/pkg/admission`.

use parking_lot::Mutex;

use serde_json::{Value, json};

use crate::auth::User;
use crate::route::Target;
use crate::status::Status;

/// The user of a write, its options, and the warnings that its answer carries.
#[derive(Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) user: &'a User,
    /// `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`.
    pub(crate) options: Value,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Origin<'a> {
    pub(crate) fn new(user: &'a User, options: Value) -> Self {
        Self {
            user,
            options,
            warnings: Mutex::default(),
        }
    }

    /// Adds a warning to the answer, once.
    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Adds warnings that the answer carries even if the request is refused.
    pub(crate) fn warn_early(&self, warnings: &[String]) {
        warnings
            .iter()
            .cloned()
            .for_each(|warning| self.warn(warning));
    }

    /// The warnings so far, which are then empty.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }
}

/// The change of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// One write of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation,
    pub(crate) target: &'a Target,
    pub(crate) name: &'a str,
    /// The new state; absent for a deletion. Both states are in the kept version of the resource.
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
    pub(crate) origin: &'a Origin<'a>,
}

impl Request<'_> {
    /// The request with this new state.
    pub(super) fn with_object<'a>(&self, object: &'a Value) -> Request<'a>
    where
        Self: 'a,
    {
        Request {
            object: Some(object),
            ..*self
        }
    }

    pub(crate) fn subresource(&self) -> &str {
        self.target.subresource.map_or("", |part| part.name)
    }

    /// The namespace of the object. A Namespace is not in itself.
    pub(crate) fn namespace(&self) -> &str {
        if self.target.resource().namespaced {
            &self.target.namespace
        } else {
            ""
        }
    }

    /// 403 with `why`, as admission plugins refuse.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.target.resource().named(), self.name, why)
    }

    /// The request without its objects, as expressions read it. `resource` is the one that
    /// matched.
    pub(crate) fn to_value(self, resource: &crate::kinds::Resource) -> Value {
        let requested = self.target.resource();
        let kind = |resource: &crate::kinds::Resource| {
            let kind = self
                .target
                .subresource
                .map_or(&*resource.kind, |part| resource.kind_at(part));
            let own = (&*resource.group, &*resource.version);
            let (group, version) = self
                .target
                .subresource
                .and_then(|part| part.group_version)
                .unwrap_or(own);
            json!({"group": group, "version": version, "kind": kind})
        };
        let place = |resource: &crate::kinds::Resource| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let user = self.origin.user;
        json!({
            "kind": kind(resource),
            "resource": place(resource),
            "subResource": self.subresource(),
            "requestKind": kind(requested),
            "requestResource": place(requested),
            "requestSubResource": self.subresource(),
            "name": self.name,
            "namespace": self.namespace(),
            "operation": self.operation.as_str(),
            "userInfo": {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra},
            "dryRun": self.dry_run,
            "options": self.origin.options,
        })
    }
}
