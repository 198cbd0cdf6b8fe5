//! Access reviews, step by step.

use std::fmt;
use std::sync::Arc;

/// The rights of one user.
pub trait Access: fmt::Debug + Send + Sync {
    /// The rights of a service account, by the same rules.
    fn of_service_account(&self, namespace: &str, name: &str) -> Arc<dyn Access>;

    /// Whether the user may use `verb` on a path that is no resource.
    fn to_path(&self, verb: &str, path: &str) -> Decision;

    /// Whether the user may use `verb` on the resource.
    fn to_resource(&self, verb: &str, check: &ResourceCheck) -> Decision;
}

/// A resource, optionally limited to a subresource, namespace and name. An empty field means no
/// limit.
#[derive(Debug, Clone, Default)]
pub struct ResourceCheck {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// The answer to a review.
#[derive(Debug, Clone)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// A step on the way to a decision.
#[derive(Debug, Clone)]
pub enum Authz {
    Authorizer(Arc<dyn Access>),
    Path(Arc<dyn Access>, String),
    Group(Arc<dyn Access>, String),
    Resource(Arc<dyn Access>, ResourceCheck),
    Decision(Decision),
}

impl Authz {
    /// The name of the type in expressions.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}
