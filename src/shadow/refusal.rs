//! Creations that the API server refuses, such as pods beyond a quota, or by a webhook that does not answer.
//!
//! The present manager cannot make such a write either, and a shadow cannot try it. The namespace and the
//! Events of the present manager tell: it reports each refusal in an Event about the owner.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::compare::Live;
use super::write::{Verb, Write};

/// The age of an Event that still counts. The present manager tries again after 1000 s at the latest.
/// Upstream: `DefaultTypedControllerRateLimiter`.
const LATEST: Duration = Duration::from_secs(1020);

/// The paths of the objects that tell whether the API server refuses a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Witnesses {
    pub(super) namespace: String,
    /// The Warning Events about the owner of the new object.
    pub(super) events: Option<String>,
}

impl Witnesses {
    /// The witnesses of `write`. `None` if it creates nothing in a namespace.
    pub(super) fn of(write: &Write) -> Option<Self> {
        if !matches!(write.verb, Verb::Create | Verb::Generate) {
            return None;
        }
        let namespace = format!("/api/v1/namespaces/{}", write.namespace.as_deref()?);
        let events = write.owner().map(|owner| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            let selector = format!("involvedObject.uid={owner},type=Warning");
            query.append_pair("fieldSelector", &selector);
            format!("{namespace}/events?{}", query.finish())
        });
        Some(Self { namespace, events })
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

/// Whether one of `events` tells of a refused creation, shortly before `now`.
pub(super) fn tells_refusal(events: &Live, now: Timestamp) -> bool {
    let Live::List(events) = events else {
        return false;
    };
    events.iter().any(|event| {
        let reason = event["reason"].as_str().unwrap_or_default();
        // FailedCreate, FailedToCreateEndpoint, ReplicaSetCreateError.
        let is_refusal = reason.contains("Create") || reason == "FailedToUpdateEndpointSlices";
        let since = last_time(event).map(|at| now.duration_since(at));
        is_refusal && since.is_some_and(|since| since.unsigned_abs() < LATEST)
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
        let owner = json!([{"uid": "o", "controller": true}]);
        let pod = json!({"metadata": {"generateName": "a-", "ownerReferences": owner}});
        let json = "application/json";
        let pods = write(Method::POST, "/api/v1/namespaces/n/pods", json, pod);
        let expected = Witnesses {
            namespace: "/api/v1/namespaces/n".to_owned(),
            events: Some(
                "/api/v1/namespaces/n/events?fieldSelector=involvedObject.uid%3Do%2Ctype%3DWarning"
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
    fn a_terminating_namespace_refuses_new_objects() {
        let namespace = |meta| Live::Object(json!({"metadata": meta}));
        let deleted = json!({"deletionTimestamp": "2026-01-02T03:04:05Z"});
        assert!(is_terminating(&namespace(deleted)));
        assert!(!is_terminating(&namespace(json!({}))));
        assert!(is_terminating(&Live::Absent));
    }
}
