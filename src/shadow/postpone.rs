//! Creations that the present manager cannot make yet, so that a difference tells nothing.
//!
//! - The API server refuses them for either manager: pods beyond a quota, or a webhook that does not answer.
//!   A shadow cannot try. The namespace tells, its quotas, and the Events of the present manager: it reports
//!   most refusals in an Event about the owner. Refused revisions of controllers have none, but other objects
//!   of the namespace tell of the same webhook.
//! - Their owner is in foreground deletion. The garbage collector may have deleted the object again.
//! - They replace failed pods of a Job. The present manager alone knows which failures its back-off counts.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use steersman_controllers::job;
use steersman_objects::{Object, Pod};

use super::compare::Live;
use super::write::{Verb, Write};

/// The age of an Event that still counts. The present manager tries again after 1000 s at the latest.
/// Upstream: `DefaultTypedControllerRateLimiter`.
const LATEST: Duration = Duration::from_secs(1020);

/// The age of an Event of another object that still counts. A webhook may be open again afterwards.
const RECENT: Duration = Duration::from_secs(120);

/// The label of a Job's pods with the UID of the Job. Upstream: `ControllerUidLabel`.
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

/// The paths of the objects that tell whether the present manager can make a creation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Witnesses {
    pub(super) namespace: String,
    /// The quotas of the namespace.
    pub(super) quotas: String,
    /// All Warning Events of the namespace.
    pub(super) warnings: String,
    /// The Warning Events about the owner of the new object, else about the object of the sync.
    pub(super) events: Option<String>,
    /// The owner of the new object.
    pub(super) owner: Option<String>,
    /// The pods of the owner, if it is a Job.
    pub(super) pods: Option<String>,
}

impl Witnesses {
    /// The witnesses of `write`. `None` if it creates nothing in a namespace.
    pub(super) fn of(write: &Write) -> Option<Self> {
        if !matches!(write.verb, Verb::Create | Verb::Generate) {
            return None;
        }
        let name = write.namespace.as_deref()?;
        let namespace = format!("/api/v1/namespaces/{name}");
        let quotas = format!("{namespace}/resourcequotas");
        let warnings = query(&namespace, "events", "fieldSelector", "type=Warning");
        let Some(owner) = write.owner() else {
            // Such as claims of a StatefulSet: the Events are about the object of the sync.
            let of_sync = write.context.key.split_once('/');
            let subject = of_sync.filter(|(of, _)| *of == name).map(|(_, name)| name);
            let about = |name| format!("involvedObject.name={name},type=Warning");
            let events =
                subject.map(|name| query(&namespace, "events", "fieldSelector", &about(name)));
            return Some(Self {
                events,
                namespace,
                quotas,
                warnings,
                ..Self::default()
            });
        };
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let uid = text("uid");
        let events = format!("involvedObject.uid={uid},type=Warning");
        let pods = format!("{}={uid}", JOB_UID);
        let is_job = text("kind") == "Job" && text("apiVersion") == "batch/v1";
        Some(Self {
            events: Some(query(&namespace, "events", "fieldSelector", &events)),
            owner: Some(path_of(owner, name)),
            pods: is_job.then(|| query(&namespace, "pods", "labelSelector", &pods)),
            namespace,
            quotas,
            warnings,
        })
    }
}

fn query(namespace: &str, resource: &str, parameter: &str, value: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(parameter, value);
    format!("{namespace}/{resource}?{}", query.finish())
}

/// The path of the object of an owner reference. Names of resources follow from kinds for all owners that the
/// controllers create objects for.
fn path_of(owner: &Value, namespace: &str) -> String {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let root = match text("apiVersion") {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let kind = text("kind").to_lowercase();
    let plural = format!("{}s", kind.trim_end_matches('s'));
    let name =
        percent_encoding::utf8_percent_encode(text("name"), percent_encoding::NON_ALPHANUMERIC);
    match plural.as_str() {
        "nodes" => format!("{root}/{plural}/{name}"),
        _ => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
    }
}

/// Whether `namespace` is terminating, and so refuses every new object.
pub(super) fn is_terminating(namespace: &Live) -> bool {
    match namespace {
        Live::Object(object) => object["metadata"]["deletionTimestamp"].is_string(),
        Live::Absent => true,
        Live::List(_) => false,
    }
}

/// Whether one of `quotas` has no room for one more object of `resource`, such as `configmaps` or
/// `jobs.batch`. Most controllers send no Event about that. Quotas with a scope are for pods and claims, and
/// those have Events.
/// Upstream: `count/<resource>.<group>`, and the plain names of core resources.
pub(super) fn is_full(quotas: &Live, resource: &str) -> bool {
    let Live::List(quotas) = quotas else {
        return false;
    };
    let count = format!("count/{resource}");
    let has_scope = |quota: &Value| {
        let scopes = ["scopes", "scopeSelector"].into_iter();
        scopes
            .map(|field| &quota["spec"][field])
            .any(|scope| !scope.is_null())
    };
    let is_exhausted = |quota: &Value, name: &str| {
        let number = |field: &str| quota["status"][field][name].as_str()?.parse::<u64>().ok();
        number("hard").is_some_and(|hard| number("used").is_some_and(|used| used >= hard))
    };
    let mut quotas = quotas.iter().filter(|quota| !has_scope(quota));
    quotas.any(|quota| is_exhausted(quota, resource) || is_exhausted(quota, &count))
}

/// Whether the garbage collector deletes the new objects of `owner`, before `owner` itself.
pub(super) fn is_in_foreground_deletion(owner: &Live) -> bool {
    let Live::Object(owner) = owner else {
        return false;
    };
    let finalizers = owner["metadata"]["finalizers"].as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    owner["metadata"]["deletionTimestamp"].is_string()
        && finalizers.any(|finalizer| finalizer == "foregroundDeletion")
}

/// Whether the present manager may still wait before it replaces the failed ones of `pods`, the pods of `job`.
pub(super) fn may_back_off(job: &Live, pods: &Live, now: Timestamp) -> bool {
    let Live::Object(job) = job else {
        return false;
    };
    let Live::List(pods) = pods else {
        return false;
    };
    let failed = job["status"]["failed"].as_u64().unwrap_or(0);
    let decoded = pods
        .iter()
        .filter_map(|pod| Pod::decode(pod.to_string().as_bytes()).ok());
    let pods: Vec<Pod> = decoded.collect();
    let ends = job::back_off_ends(u32::try_from(failed).unwrap_or(u32::MAX), &pods);
    ends.is_some_and(|end| now < end)
}

/// Whether one of `events` tells of a refused creation, shortly before `now`.
pub(super) fn tells_refusal(events: &Live, now: Timestamp) -> bool {
    let Live::List(events) = events else {
        return false;
    };
    events.iter().any(|event| {
        let reason = event["reason"].as_str().unwrap_or_default();
        // FailedCreate, FailedToCreateEndpoint, ReplicaSetCreateError, FailedResourceClaimCreation. Events about
        // a pod have FailedBinding for the claim of an ephemeral volume only.
        let is_refusal = reason.contains("Creat")
            || matches!(reason, "FailedToUpdateEndpointSlices" | "FailedBinding");
        let since = last_time(event).map(|at| now.duration_since(at));
        is_refusal && since.is_some_and(|since| since.unsigned_abs() < LATEST)
    })
}

/// Whether one of `warnings`, those of the namespace, tells of a refusal by a webhook, shortly before `now`.
/// The names of upstream's errors: `failed calling webhook` and `admission webhook "..." denied the request`.
pub(super) fn tells_webhook(warnings: &Live, now: Timestamp) -> bool {
    let Live::List(warnings) = warnings else {
        return false;
    };
    warnings.iter().any(|event| {
        let message = event["message"].as_str().unwrap_or_default();
        let is_refusal = message.contains("failed calling webhook \"")
            || (message.contains("admission webhook \"") && message.contains("denied the request"));
        let since = last_time(event).map(|at| now.duration_since(at));
        is_refusal && since.is_some_and(|since| since.unsigned_abs() < RECENT)
    })
}

fn last_time(event: &Value) -> Option<Timestamp> {
    let pointers = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
    let times = pointers.into_iter().filter_map(|at| event.pointer(at));
    times.filter_map(|time| time.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::shadow::write::tests::write;

    #[test]
    fn namespace_and_owner_are_asked_about_creations() {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": true}]);
        let pod = json!({"metadata": {"generateName": "a-", "ownerReferences": owner}});
        let json = "application/json";
        let pods = write(Method::POST, "/api/v1/namespaces/n/pods", json, pod);
        let expected = Witnesses {
            namespace: "/api/v1/namespaces/n".to_owned(),
            quotas: "/api/v1/namespaces/n/resourcequotas".to_owned(),
            warnings: "/api/v1/namespaces/n/events?fieldSelector=type%3DWarning".to_owned(),
            events: Some(
                "/api/v1/namespaces/n/events?fieldSelector=involvedObject.uid%3Do%2Ctype%3DWarning"
                    .to_owned(),
            ),
            owner: Some("/apis/batch/v1/namespaces/n/jobs/j".to_owned()),
            pods: Some(
                "/api/v1/namespaces/n/pods?labelSelector=batch.kubernetes.io%2Fcontroller-uid%3Do"
                    .to_owned(),
            ),
        };
        assert_eq!(Witnesses::of(&pods), Some(expected));
        let named = json!({"metadata": {"name": "kube-root-ca.crt"}});
        let config_map = write(
            Method::POST,
            "/api/v1/namespaces/n/configmaps",
            json,
            named.clone(),
        );
        assert_eq!(Witnesses::of(&config_map).unwrap().events, None);
        let mut claim = config_map;
        claim.context.key = "n/web".to_owned();
        let about =
            "/api/v1/namespaces/n/events?fieldSelector=involvedObject.name%3Dweb%2Ctype%3DWarning";
        assert_eq!(
            Witnesses::of(&claim).unwrap().events.as_deref(),
            Some(about)
        );
        let node = write(Method::POST, "/api/v1/nodes", json, named.clone());
        assert_eq!(Witnesses::of(&node), None);
        let update = write(Method::PUT, "/api/v1/namespaces/n/pods/a", json, named);
        assert_eq!(Witnesses::of(&update), None);
    }

    #[test]
    fn an_event_of_the_last_seventeen_minutes_tells_of_a_refusal() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let event = |reason: &str, at: &str, time: &str| json!({"reason": reason, at: time});
        // (event, expected)
        let cases = [
            (
                event("FailedCreate", "lastTimestamp", "2026-01-02T11:44:00Z"),
                true,
            ),
            (
                event("FailedCreate", "eventTime", "2026-01-02T11:59:59.123456Z"),
                true,
            ),
            (
                event("FailedCreate", "lastTimestamp", "2026-01-02T11:42:00Z"),
                false,
            ),
            (
                event(
                    "FailedResourceClaimCreation",
                    "lastTimestamp",
                    "2026-01-02T11:59:00Z",
                ),
                true,
            ),
            (
                event("FailedBinding", "lastTimestamp", "2026-01-02T11:59:00Z"),
                true,
            ),
            (
                event(
                    "BackoffLimitExceeded",
                    "lastTimestamp",
                    "2026-01-02T11:59:00Z",
                ),
                false,
            ),
            (
                json!({"reason": "FailedCreate", "eventTime": "2026-01-02T10:00:00Z", "lastTimestamp": null,
                       "series": {"count": 9, "lastObservedTime": "2026-01-02T11:58:00.000000Z"}}),
                true,
            ),
        ];
        for (event, expected) in cases {
            let found = tells_refusal(&Live::List(vec![event.clone()]), now);
            assert_eq!(found, expected, "{event}");
        }
    }

    #[test]
    fn a_warning_of_the_namespace_tells_of_a_closed_webhook() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let event = |message: &str, time: &str| json!({"reason": "FailedCreate", "message": message, "lastTimestamp": time});
        let closed =
            "Internal error occurred: failed calling webhook \"a.example.com\": connection refused";
        let denied = "admission webhook \"a.example.com\" denied the request: no label";
        // (event, expected)
        let cases = [
            (event(closed, "2026-01-02T11:59:00Z"), true),
            (event(denied, "2026-01-02T11:59:00Z"), true),
            (event(closed, "2026-01-02T11:57:00Z"), false),
            (event("exceeded quota: a", "2026-01-02T11:59:00Z"), false),
        ];
        for (event, expected) in cases {
            let found = tells_webhook(&Live::List(vec![event.clone()]), now);
            assert_eq!(found, expected, "{event}");
        }
    }

    #[test]
    fn a_full_quota_refuses_one_more_object() {
        let quota = |name: &str, used: &str, scopes: Value| {
            let status = json!({"hard": {name: "2"}, "used": {name: used}});
            json!({"spec": {"scopes": scopes}, "status": status})
        };
        let all = || Value::Null;
        // (quota, resource, expected)
        let cases = [
            (quota("configmaps", "2", all()), "configmaps", true),
            (quota("configmaps", "3", all()), "configmaps", true),
            (quota("configmaps", "1", all()), "configmaps", false),
            (quota("configmaps", "2", all()), "secrets", false),
            (quota("count/jobs.batch", "2", all()), "jobs.batch", true),
            (quota("pods", "2", json!(["Terminating"])), "pods", false),
            (json!({"spec": {}}), "configmaps", false),
        ];
        for (quota, resource, expected) in cases {
            let found = is_full(&Live::List(vec![quota.clone()]), resource);
            assert_eq!(found, expected, "{resource}: {quota}");
        }
    }

    #[test]
    fn owners_are_found_by_their_kind() {
        // (API version, kind, path)
        let cases = [
            ("v1", "Endpoints", "/api/v1/namespaces/n/endpoints/a%2Db"),
            ("v1", "Node", "/api/v1/nodes/a%2Db"),
            (
                "apps/v1",
                "StatefulSet",
                "/apis/apps/v1/namespaces/n/statefulsets/a%2Db",
            ),
        ];
        for (version, kind, path) in cases {
            let owner = json!({"apiVersion": version, "kind": kind, "name": "a-b"});
            assert_eq!(path_of(&owner, "n"), path);
        }
    }

    #[test]
    fn an_owner_in_foreground_deletion_gets_nothing_new() {
        let deleted = "2026-01-02T03:04:05Z";
        let owner = |meta| Live::Object(json!({"metadata": meta}));
        // (owner, expected)
        let cases = [
            (
                owner(json!({"deletionTimestamp": deleted, "finalizers": ["foregroundDeletion"]})),
                true,
            ),
            (
                owner(json!({"deletionTimestamp": deleted, "finalizers": ["orphan"]})),
                false,
            ),
            (owner(json!({"finalizers": ["foregroundDeletion"]})), false),
            (Live::Absent, false),
        ];
        for (owner, expected) in cases {
            assert_eq!(is_in_foreground_deletion(&owner), expected, "{owner:?}");
        }
    }

    #[test]
    fn failed_pods_of_a_job_are_replaced_after_a_back_off() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let job = Live::Object(json!({"status": {"failed": 3}}));
        let pod = |ended: &str| {
            let state = json!({"terminated": {"exitCode": 1, "finishedAt": ended}});
            let status =
                json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}]});
            Live::List(vec![
                json!({"metadata": {"name": "p", "namespace": "n"}, "status": status}),
            ])
        };
        // (pods, expected): three failures delay the next pod by 40 s.
        let cases = [
            (pod("2026-01-02T11:59:21Z"), true),
            (pod("2026-01-02T11:59:19Z"), false),
            (Live::List(vec![]), false),
        ];
        for (pods, expected) in cases {
            assert_eq!(may_back_off(&job, &pods, now), expected, "{pods:?}");
        }
    }

    #[test]
    fn a_terminating_namespace_refuses_new_objects() {
        let namespace = |meta| Live::Object(json!({"metadata": meta}));
        let deleted = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
        assert!(is_terminating(&namespace(deleted)));
        assert!(!is_terminating(&namespace(json!({}))));
        assert!(is_terminating(&Live::Absent));
    }
}
