//! The cause of a write that the API server refuses, from the text of the refusal.
//!
//! The API server gives these causes only as text, the same one that controllers put into Events and
//! conditions. Sources of the texts: the admission plugins in `plugin/pkg/admission` and
//! `staging/src/k8s.io/apiserver/pkg/admission`.

use crate::{Code, Reason};

/// The reason for the refusal `message` of a write in `namespace`; `by` sent the write. Its field
/// `webhook` is the name of the admission webhook that refused. The fields `group` and `kind` are the
/// type whose conversion failed. The fields `kind` and `name` of [`Code::ReferenceMissing`] are the object that
/// does not exist.
pub fn refusal(message: &str, namespace: &str, by: &str) -> Reason {
    let (code, who) = cause(message, namespace);
    let reason = Reason::new(code, by, message.trim()).who(who);
    match code {
        Code::WebhookRefused | Code::WebhookUnreachable => match webhook(message) {
            Some(name) => reason.field("webhook", name),
            None => reason,
        },
        Code::ConversionFailed => match converted(message) {
            Some((group, kind)) => reason.field("group", group).field("kind", kind),
            None => reason,
        },
        Code::ReferenceMissing => match absent(message) {
            Some((kind, _, name)) => reason.field("kind", kind).field("name", name),
            None => reason,
        },
        _ => reason,
    }
}

/// The object in the refusal that an admission plugin does not find: kind, field of the template, and name.
/// Upstream: the plugins `priority` and `runtimeclass`.
fn absent(message: &str) -> Option<(&'static str, &'static str, &str)> {
    if let Some(rest) = after(message, "no PriorityClass with name ") {
        let (name, _) = rest.split_once(" was found")?;
        return Some(("PriorityClass", "priorityClassName", name));
    }
    let rest = after(message, "RuntimeClass ")?;
    let name = quoted(rest);
    let is_absent = rest.contains(" not found");
    is_absent.then_some(("RuntimeClass", "runtimeClassName", name))
}

/// Group and kind of the objects whose conversion failed. Upstream: `webhook_converter.go` of
/// apiextensions-apiserver.
fn converted(message: &str) -> Option<(&str, &str)> {
    let rest = after(message, "conversion webhook for ")?;
    let (version, rest) = rest.split_once(", Kind=")?;
    let (group, _) = version.split_once('/')?;
    let kind = rest.split([' ', ',', ':']).next()?;
    Some((group, kind))
}

fn webhook(message: &str) -> Option<&str> {
    let called = after(message, "failed calling webhook ");
    called
        .or_else(|| after(message, "admission webhook "))
        .map(quoted)
}

fn cause(message: &str, namespace: &str) -> (Code, String) {
    if let Some(rest) = after(message, "exceeded quota: ") {
        let quota = rest.split(',').next().unwrap_or_default();
        let who =
            format!("owner of ResourceQuota {namespace}/{quota}, or fewer objects in {namespace}");
        return (Code::QuotaExceeded, who);
    }
    if let Some(rest) = after(message, "failed quota: ") {
        let quota = rest.split(':').next().unwrap_or_default();
        let who = format!(
            "owner of the pod template: ResourceQuota {namespace}/{quota} asks for requests or limits"
        );
        return (Code::QuotaDemands, who);
    }
    if let Some((group, kind)) = converted(message) {
        let who = format!("operator of the conversion webhook of {kind}.{group}");
        return (Code::ConversionFailed, who);
    }
    if let Some(name) = webhook(message) {
        let who = format!("operator of the admission webhook {name}");
        if message.contains("failed calling webhook ") {
            return (Code::WebhookUnreachable, who);
        }
        if message.contains("denied the request") {
            return (Code::WebhookRefused, who);
        }
    }
    if message.contains("ValidatingAdmissionPolicy") {
        let policy = after(message, "ValidatingAdmissionPolicy ").map(quoted);
        let who = format!(
            "owner of ValidatingAdmissionPolicy {}",
            policy.unwrap_or_default()
        );
        return (Code::PolicyRefused, who);
    }
    if message.contains("violates PodSecurity") {
        let who = format!(
            "owner of the pod template, or of the labels pod-security.kubernetes.io/* of namespace {namespace}"
        );
        return (Code::PodSecurityViolated, who);
    }
    if let Some(rest) = after(message, "error looking up service account ") {
        let account = rest.split(':').next().unwrap_or_default();
        return (
            Code::ServiceAccountMissing,
            format!(
                "creator of ServiceAccount {account}, or owner of the pod template (serviceAccountName)"
            ),
        );
    }
    if let Some((kind, field, name)) = absent(message) {
        let who = format!("creator of {kind} {name}, or owner of the pod template ({field})");
        return (Code::ReferenceMissing, who);
    }
    if [
        "usage per Container",
        "usage per Pod",
        "usage per PersistentVolumeClaim",
        "limit to request ratio",
    ]
    .iter()
    .any(|text| message.contains(text))
    {
        let who = format!("owner of the LimitRange in {namespace}, or of the template");
        return (Code::LimitRangeViolated, who);
    }
    if message.contains("because it is being terminated") {
        return (
            Code::NamespaceTerminating,
            format!("creator of namespace {namespace}, after it is gone"),
        );
    }
    if message.trim_end().ends_with("already exists") {
        let who = "owner of the object with this name (delete or rename it)";
        return (Code::NameTaken, who.to_owned());
    }
    if message.contains("is invalid: ") {
        return (
            Code::ObjectInvalid,
            "owner of the spec or template".to_owned(),
        );
    }
    if message.contains(" is forbidden: User ") {
        let lacked = lacked(message).map(|lacked| format!(" ({lacked})"));
        let who = format!(
            "administrator of the RBAC rules{}",
            lacked.unwrap_or_default()
        );
        return (Code::Forbidden, who);
    }
    (
        Code::RequestFailed,
        "operator of the API server, or owner of the object".to_owned(),
    )
}

/// `ServiceAccount ops/robot: create services in namespace shop`: the right that a refused request lacks. Upstream:
/// `forbiddenMessage` of the API server.
fn lacked(message: &str) -> Option<String> {
    let user = quoted(after(message, " is forbidden: User ")?);
    let rest = after(message, " cannot ")?;
    let (verb, rest) = rest.split_once(" resource ")?;
    let resource = quoted(rest);
    let place = match after(rest, " in the namespace ") {
        Some(rest) => format!("in namespace {}", quoted(rest)),
        None => "in the cluster".to_owned(),
    };
    let account = user.strip_prefix("system:serviceaccount:");
    let account = account.and_then(|account| account.split_once(':'));
    let subject = match account {
        Some((namespace, name)) => format!("ServiceAccount {namespace}/{name}"),
        None => format!("user {user}"),
    };
    Some(format!("{subject}: {verb} {resource} {place}"))
}

fn after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.split_once(start).map(|(_, rest)| rest)
}

/// The first quoted word of `text`, or its first word.
fn quoted(text: &str) -> &str {
    let text = text.trim_start();
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default();
        }
    }
    text.split([' ', ':']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_that_a_request_lacks_is_told() {
        let cases = [
            (
                "services is forbidden: User \"system:serviceaccount:ops:robot\" cannot create resource \"services\" in API group \"\" in the namespace \"shop\"",
                Some("ServiceAccount ops/robot: create services in namespace shop"),
            ),
            (
                "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
                Some("user jane: list nodes in the cluster"),
            ),
            ("pods is forbidden: User \"jane\" is unknown", None),
        ];
        for (message, expected) in cases {
            assert_eq!(lacked(message).as_deref(), expected, "{message}");
        }
    }

    #[test]
    fn the_cause_of_a_refusal_is_told_from_its_text() {
        // (text of the API server, code, part of the text about the owner)
        let cases = [
            (
                "pods \"a\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2",
                Code::QuotaExceeded,
                "ResourceQuota ns/team",
            ),
            (
                "pods \"a\" is forbidden: failed quota: team: must specify limits.cpu for: main",
                Code::QuotaDemands,
                "ResourceQuota ns/team",
            ),
            (
                "conversion webhook for gw.example.com/v1alpha1, Kind=Backend failed: Post \"https://x.y.svc\": no endpoints",
                Code::ConversionFailed,
                "conversion webhook of Backend.gw.example.com",
            ),
            (
                "Internal error occurred: failed calling webhook \"pods.example.com\": Post \"https://x.y.svc\": connection refused",
                Code::WebhookUnreachable,
                "pods.example.com",
            ),
            (
                "admission webhook \"labels.example.com\" denied the request: no team label",
                Code::WebhookRefused,
                "labels.example.com",
            ),
            (
                "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'teams' with binding 'b' denied request: no",
                Code::PolicyRefused,
                "teams",
            ),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
                Code::PodSecurityViolated,
                "namespace ns",
            ),
            (
                "pods \"a\" is forbidden: error looking up service account ns/robot: serviceaccount \"robot\" not found",
                Code::ServiceAccountMissing,
                "ns/robot",
            ),
            (
                "pods \"a\" is forbidden: no PriorityClass with name urgent was found",
                Code::ReferenceMissing,
                "creator of PriorityClass urgent, or owner of the pod template (priorityClassName)",
            ),
            (
                "pods \"a\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found",
                Code::ReferenceMissing,
                "creator of RuntimeClass gvisor, or owner of the pod template (runtimeClassName)",
            ),
            (
                "pods \"a\" is forbidden: maximum cpu usage per Container is 1, but limit is 2",
                Code::LimitRangeViolated,
                "LimitRange in ns",
            ),
            (
                "pods \"a\" is forbidden: unable to create new content in namespace ns because it is being terminated",
                Code::NamespaceTerminating,
                "ns",
            ),
            (
                "Pod \"a\" is invalid: spec.x: Required value",
                Code::ObjectInvalid,
                "template",
            ),
            (
                "pods is forbidden: User \"system:serviceaccount:kube-system:replicaset-controller\" cannot create resource",
                Code::Forbidden,
                "RBAC",
            ),
            (
                "pods \"a-0\" already exists",
                Code::NameTaken,
                "with this name",
            ),
            ("connection reset", Code::RequestFailed, "API server"),
        ];
        for (message, code, who) in cases {
            let reason = refusal(message, "ns", "replicaset-controller");
            assert_eq!(reason.code, code, "{message}");
            assert!(reason.who.contains(who), "{message}: {}", reason.who);
            let webhook = reason.fields.get("webhook").and_then(|name| name.as_str());
            let expected = reason
                .who
                .strip_prefix("operator of the admission webhook ");
            assert_eq!(webhook, expected, "{message}");
        }
    }
}
