//! The running operation of an application of Argo CD, and the object that it waits for.

use jiff::Timestamp;
use steersman_values::resource::ResourceType;
use steersman_why::{Code, Doc, Explanation, Reason, World};

const GROUP: &str = "argoproj.io";
const KIND: &str = "Application";
/// `spec.destination` of an application in the cluster of Argo CD itself: server and name.
const HERE: [&str; 2] = ["https://kubernetes.default.svc", "in-cluster"];
/// Words before the first object in the message of an operation. Upstream: `sync_context.go` of gitops-engine.
const AWAITED: [&str; 2] = [
    "waiting for completion of hook ",
    "waiting for healthy state of ",
];

/// The start of the running operation of `doc`. `None` for other types, and if no operation runs.
pub(super) fn started(of: &ResourceType, doc: &Doc) -> Option<Timestamp> {
    let is_application = *of.group == *GROUP && *of.kind == *KIND;
    let is_running = doc.text("/status/operationState/phase") == "Running";
    let started = doc.time("/status/operationState/startedAt");
    started.filter(|_| is_application && is_running)
}

/// The reason that tells the running operation of `doc` in the words of `by`. The object that it waits for is followed in
/// `answer` if it stands still, and only then the reason is a cause.
pub(super) fn running(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    by: String,
    answer: &mut Explanation,
) -> Option<Reason> {
    let since = started(of, doc)?;
    let message = doc.text("/status/operationState/message").trim();
    if message.is_empty() {
        return None;
    }
    let awaited = awaited(world, doc, message).filter(Explanation::is_stuck);
    let code = match awaited {
        Some(_) => Code::ConditionBad,
        None => Code::ConditionOpen,
    };
    if let Some(awaited) = awaited {
        answer.follow(awaited);
    }
    let message = format!("the operation is Running: {message}");
    Some(Reason::new(code, by, message).since(Some(since)))
}

/// The answer about the object in `waiting for completion of hook batch/Job/migrate`. `None` if the application is one for
/// another cluster.
fn awaited(world: &World, doc: &Doc, message: &str) -> Option<Explanation> {
    let place = |field: &str| doc.text(&format!("/spec/destination/{field}"));
    if !HERE.contains(&place("server")) && !HERE.contains(&place("name")) {
        return None;
    }
    let (group, kind, name) = named(message)?;
    let of = world.resource(group, kind).found()?;
    let namespace = if of.namespaced {
        place("namespace")
    } else {
        ""
    };
    let found = world.get(&of, namespace, name).found()?;
    Some(world.explain(&of, &found))
}

/// Group, kind and name of the first object in `message`.
fn named(message: &str) -> Option<(&str, &str, &str)> {
    let rest = AWAITED
        .iter()
        .find_map(|words| message.split_once(words))?
        .1;
    let mut parts = rest.split(' ').next()?.splitn(3, '/');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_object_of_an_operation_is_read_from_its_message() {
        let cases = [
            (
                "waiting for completion of hook batch/Job/migrate",
                Some(("batch", "Job", "migrate")),
            ),
            (
                "waiting for healthy state of apps/Deployment/web and 3 more resources",
                Some(("apps", "Deployment", "web")),
            ),
            (
                "waiting for completion of hook /Pod/check",
                Some(("", "Pod", "check")),
            ),
            ("one or more tasks are running", None),
        ];
        for (message, expected) in cases {
            assert_eq!(named(message), expected, "{message}");
        }
    }
}
