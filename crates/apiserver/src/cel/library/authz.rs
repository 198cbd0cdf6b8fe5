//! Access reviews: `authorizer.group('').resource('pods').check('get').allowed()`.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/authz.go`.

use std::sync::Arc;

use super::strings::text;
use crate::apimachinery::formats;
use crate::auth::{Attributes, Policy, ResourceRequest, User, Wanted};
use crate::cel::eval::Fail;
use crate::cel::functions::Row;
use crate::cel::value::Val;

/// A step on the way to a decision.
#[derive(Debug, Clone)]
pub(crate) enum Authz {
    Authorizer(Arc<Subject>),
    Path(Arc<Subject>, String),
    Group(Arc<Subject>, String),
    Resource(Arc<Subject>, ResourceRequest),
    Decision { allowed: bool, reason: String },
}

/// The user of a review, and the rules that decide.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) user: User,
    pub(crate) policy: Arc<Policy>,
}

impl Authz {
    /// The variable `authorizer`.
    pub(crate) fn authorizer(user: User, policy: Arc<Policy>) -> Val {
        Val::Authz(Arc::new(Self::Authorizer(Arc::new(Subject {
            user,
            policy,
        }))))
    }

    /// The variable `authorizer.requestResource`.
    pub(crate) fn resource(user: User, policy: Arc<Policy>, resource: ResourceRequest) -> Val {
        let subject = Arc::new(Subject { user, policy });
        Val::Authz(Arc::new(Self::Resource(subject, resource)))
    }

    /// The name of the type in expressions.
    pub(in crate::cel) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Resource(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision { .. } => "kubernetes.authorization.Decision",
        }
    }
}

pub(super) const ROWS: &[Row] = &[
    (".path(Authorizer, string) PathCheck", |args| {
        let (subject, path) = (subject(args)?, text(args, 1)?);
        match path {
            "" => Err(Fail::new("path must not be empty")),
            path => step(Authz::Path(subject.clone(), path.to_owned())),
        }
    }),
    (".group(Authorizer, string) GroupCheck", |args| {
        step(Authz::Group(
            subject(args)?.clone(),
            text(args, 1)?.to_owned(),
        ))
    }),
    (
        ".serviceAccount(Authorizer, string, string) Authorizer",
        service_account,
    ),
    (".resource(GroupCheck, string) ResourceCheck", |args| {
        let Authz::Group(subject, group) = of(args)? else {
            return Err(Fail::no_overload());
        };
        let resource = text(args, 1)?.to_owned();
        if resource.is_empty() {
            return Err(Fail::new("resource must not be empty"));
        }
        let request = ResourceRequest {
            group: group.clone(),
            resource,
            ..ResourceRequest::default()
        };
        step(Authz::Resource(subject.clone(), request))
    }),
    (
        ".subresource(ResourceCheck, string) ResourceCheck",
        |args| narrowed(args, |request, value| request.subresource = value),
    ),
    (".namespace(ResourceCheck, string) ResourceCheck", |args| {
        narrowed(args, |request, value| request.namespace = value)
    }),
    (".name(ResourceCheck, string) ResourceCheck", |args| {
        narrowed(args, |request, value| request.name = value)
    }),
    // RBAC ignores selectors: a rule allows all objects of a resource, or those with some names.
    (
        ".fieldSelector(ResourceCheck, string) ResourceCheck",
        |args| Ok(args[0].clone()),
    ),
    (
        ".labelSelector(ResourceCheck, string) ResourceCheck",
        |args| Ok(args[0].clone()),
    ),
    (".check(PathCheck, string) Decision", check),
    (".check(ResourceCheck, string) Decision", check),
    (".allowed(Decision) bool", |args| match of(args)? {
        Authz::Decision { allowed, .. } => Ok(Val::Bool(*allowed)),
        _ => Err(Fail::no_overload()),
    }),
    (".reason(Decision) string", |args| match of(args)? {
        Authz::Decision { reason, .. } => Ok(Val::text(reason)),
        _ => Err(Fail::no_overload()),
    }),
    // A decision by RBAC never fails.
    (".errored(Decision) bool", |_| Ok(Val::Bool(false))),
    (".error(Decision) string", |_| Ok(Val::text(""))),
];

fn of(args: &[Val]) -> Result<&Authz, Fail> {
    match &args[0] {
        Val::Authz(authz) => Ok(authz),
        _ => Err(Fail::no_overload()),
    }
}

fn subject(args: &[Val]) -> Result<&Arc<Subject>, Fail> {
    match of(args)? {
        Authz::Authorizer(subject) => Ok(subject),
        _ => Err(Fail::no_overload()),
    }
}

fn step(authz: Authz) -> Result<Val, Fail> {
    Ok(Val::Authz(Arc::new(authz)))
}

fn service_account(args: &[Val]) -> Result<Val, Fail> {
    let subject = subject(args)?;
    let (namespace, name) = (text(args, 1)?, text(args, 2)?);
    if !formats::subdomain(name).is_empty() {
        return Err(Fail::new("Invalid service account name"));
    }
    if !formats::label(namespace).is_empty() {
        return Err(Fail::new("Invalid service account namespace"));
    }
    step(Authz::Authorizer(Arc::new(Subject {
        user: User::service_account(namespace, name),
        policy: subject.policy.clone(),
    })))
}

fn narrowed(args: &[Val], set: fn(&mut ResourceRequest, String)) -> Result<Val, Fail> {
    let Authz::Resource(subject, request) = of(args)? else {
        return Err(Fail::no_overload());
    };
    let mut request = request.clone();
    set(&mut request, text(args, 1)?.to_owned());
    step(Authz::Resource(subject.clone(), request))
}

fn check(args: &[Val]) -> Result<Val, Fail> {
    let verb = text(args, 1)?;
    let (subject, wanted) = match of(args)? {
        Authz::Path(subject, path) => (
            subject,
            Attributes {
                verb: verb.to_owned(),
                object: Wanted::Path(path.clone()),
            },
        ),
        Authz::Resource(subject, request) => (subject, Attributes::resource(verb, request.clone())),
        _ => return Err(Fail::no_overload()),
    };
    let decision = subject.policy.decide(&subject.user, &wanted);
    step(Authz::Decision {
        allowed: decision.allowed,
        reason: decision.reason,
    })
}
