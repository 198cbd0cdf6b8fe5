//! The running operation of an application of Argo CD, and the object that it waits for.

use jiff::Timestamp;
use serde_json::Value;
use steersman_values::resource::ResourceType;
use steersman_why::{Code, Doc, Explanation, Reason, World};

const GROUP: &str = "argoproj.io";
const KIND: &str = "Application";
/// `spec.destination` of an application in the cluster of Argo CD itself: server and name.
const HERE: [&str; 2] = ["https://kubernetes.default.svc", "in-cluster"];
/// Words before the first object in the message of an operation. Upstream: `sync_context.go` of gitops-engine.
const AWAITED: [&str; 3] = [
    "waiting for completion of hook ",
    "waiting for healthy state of ",
    "waiting for deletion of ",
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
        namespace_of(doc, group, kind, name)?
    } else {
        ""
    };
    let found = world.get(&of, namespace, name).found()?;
    Some(world.explain(&of, &found))
}

/// The namespace of an object of the operation: the one in its results, or that of the application's destination. `None`
/// if it is not known for sure.
fn namespace_of<'d>(doc: &'d Doc, group: &str, kind: &str, name: &str) -> Option<&'d str> {
    let results = doc.items("/status/operationState/syncResult/resources");
    let is_it = |one: &&Value| {
        let of = one["group"].as_str().unwrap_or_default();
        of == group && one["kind"] == *kind && one["name"] == *name
    };
    let told = results.iter().filter(is_it);
    let told: Vec<&str> = told.filter_map(|one| one["namespace"].as_str()).collect();
    let namespace = match &told[..] {
        [] => doc.text("/spec/destination/namespace"),
        [only] => only,
        _ => "",
    };
    (!namespace.is_empty()).then_some(namespace)
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
    use serde_json::json;

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
            (
                "waiting for deletion of /ConfigMap/old",
                Some(("", "ConfigMap", "old")),
            ),
            ("one or more tasks are running", None),
        ];
        for (message, expected) in cases {
            assert_eq!(named(message), expected, "{message}");
        }
    }

    #[test]
    fn the_namespace_of_an_object_is_that_of_its_result_or_of_the_destination() {
        let namespace = |destination: &str, results: &[&str]| {
            let resources: Vec<Value> = results
                .iter()
                .map(|namespace| json!({"group": "batch", "kind": "Job", "name": "migrate", "namespace": namespace}))
                .collect();
            let doc = Doc::new(json!({
                "spec": {"destination": {"namespace": destination}},
                "status": {"operationState": {"syncResult": {"resources": resources}}},
            }));
            namespace_of(&doc, "batch", "Job", "migrate").map(str::to_owned)
        };
        assert_eq!(namespace("shop", &[]).as_deref(), Some("shop"));
        assert_eq!(namespace("shop", &["jobs"]).as_deref(), Some("jobs"));
        assert_eq!(namespace("shop", &["jobs", "shop"]), None);
        assert_eq!(namespace("", &[]), None);
    }
}
