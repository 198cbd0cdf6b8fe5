//! Access reviews: `authorizer.group('').resource('pods').check('get').allowed()`.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/authz.go`.

use std::sync::Arc;

use steersman_values::validation::formats;

use super::args::text;
use crate::fail::Fail;
use crate::objects::authz::{Access, Authz, ResourceCheck};
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    (".path(Authorizer, string) PathCheck", |args| {
        let subject = subject(args)?;
        let path = text(args, 1)?;
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
        let request = ResourceCheck {
            group: group.clone(),
            resource,
            ..ResourceCheck::default()
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
        Authz::Decision(decision) => Ok(Val::Bool(decision.allowed)),
        _ => Err(Fail::no_overload()),
    }),
    (".reason(Decision) string", |args| match of(args)? {
        Authz::Decision(decision) => Ok(Val::text(&decision.reason)),
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

fn subject(args: &[Val]) -> Result<&Arc<dyn Access>, Fail> {
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
    let namespace = text(args, 1)?;
    let name = text(args, 2)?;
    if !formats::subdomain(name).is_empty() {
        return Err(Fail::new("Invalid service account name"));
    }
    if !formats::label(namespace).is_empty() {
        return Err(Fail::new("Invalid service account namespace"));
    }
    step(Authz::Authorizer(
        subject.of_service_account(namespace, name),
    ))
}

fn narrowed(args: &[Val], set: fn(&mut ResourceCheck, String)) -> Result<Val, Fail> {
    let Authz::Resource(subject, request) = of(args)? else {
        return Err(Fail::no_overload());
    };
    let mut request = request.clone();
    set(&mut request, text(args, 1)?.to_owned());
    step(Authz::Resource(subject.clone(), request))
}

fn check(args: &[Val]) -> Result<Val, Fail> {
    let verb = text(args, 1)?;
    let decision = match of(args)? {
        Authz::Path(subject, path) => subject.to_path(verb, path),
        Authz::Resource(subject, check) => subject.to_resource(verb, check),
        _ => return Err(Fail::no_overload()),
    };
    step(Authz::Decision(decision))
}
