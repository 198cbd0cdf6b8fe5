//! Faults as JSON: the requests or watch events that they apply to, and their effect. A stale view is one,
//! too.

use std::time::Duration;

use serde::Deserialize;
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{
    EventFault, Faults, Matcher, RequestFault, RuleId, conflict, expired, internal_error, throttled,
};
use steersman_devcluster::status::Status;

use super::{Refusal, Result};

/// The body of `POST /faults`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default)]
    r#match: Wanted,
    /// The failure of a matching request; or `event`.
    fault: Option<Fault>,
    /// The failure of a matching event of open watches.
    event: Option<Event>,
    /// The revision that the watch cache shows to matching requests.
    view: Option<View>,
    /// The number of matches after which the rule ends; without it, the rule stays until removed.
    times: Option<usize>,
}

/// Attributes of requests; an absent one matches all.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    verb: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    client: Option<String>,
    writes: bool,
    except: Vec<String>,
    nth: Option<usize>,
}

/// The failure of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Fault {
    /// `conflict`, `expired`, `throttled` or `internalError`, as a real server answers them.
    Reject(Answer),
    Delay(Time),
    DelayUpTo(Time),
    Reset,
    LoseAnswer,
    Hang,
    HangAfterwards,
}

/// An error answer: its name, or code and message.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Known(Known),
    Given { code: u16, message: String },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Known {
    Conflict,
    Expired,
    Throttled,
    InternalError,
}

/// A duration such as `500ms`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        crate::dev::duration(&text).map(|time| Self(time.to_std()))
    }
}

/// The failure of a watch at an event.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Event {
    Delay(Time),
    DelayUpTo(Time),
    /// The event is lost, and the watch ends after this time.
    Drop(Time),
    Coalesce(Time),
    Close,
    Expire,
}

/// The state of a watch cache that lags behind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum View {
    /// That of the moment at which the rule is added.
    Now,
    /// No later one than of this revision.
    At(u64),
    /// That before the latest changes, by their number.
    Behind(u64),
}

impl Rule {
    /// Adds the rule to the faults of a cluster.
    pub(super) fn add(self, cluster: &DevCluster) -> Result<RuleId> {
        let faults = cluster.faults();
        let matcher = self.r#match.matcher();
        match (self.fault, self.event, self.view) {
            (Some(fault), None, None) => {
                Ok(faults.on_request(matcher, fault.of_request(), self.times))
            }
            (None, Some(event), None) => Ok(faults.on_event(matcher, event.of_watch(), self.times)),
            (None, None, Some(_)) if self.times.is_some() => Err(Refusal::bad(
                "a \"view\" stays until it is removed, so it has no \"times\"",
            )),
            (None, None, Some(view)) => Ok(match view {
                View::Now => faults.hold_view(matcher, cluster.revision()),
                View::At(revision) => faults.hold_view(matcher, revision),
                View::Behind(revisions) => faults.lag_view(matcher, revisions),
            }),
            _ => Err(Refusal::bad(
                "a rule has one of \"fault\", \"event\" and \"view\"",
            )),
        }
    }
}

impl Wanted {
    fn matcher(self) -> Matcher {
        Matcher {
            verb: self.verb,
            resource: self.resource,
            subresource: self.subresource,
            namespace: self.namespace,
            name: self.name,
            client: self.client,
            writes_only: self.writes,
            except: self.except,
            skip: self.nth.map_or(0, |nth| nth.saturating_sub(1)),
        }
    }
}

impl Fault {
    fn of_request(self) -> RequestFault {
        match self {
            Self::Reject(answer) => RequestFault::Reject(answer.status()),
            Self::Delay(time) => RequestFault::Delay(time.0),
            Self::DelayUpTo(time) => RequestFault::DelayUpTo(time.0),
            Self::Reset => RequestFault::Reset,
            Self::LoseAnswer => RequestFault::LoseAnswer,
            Self::Hang => RequestFault::Hang,
            Self::HangAfterwards => RequestFault::HangAfterwards,
        }
    }
}

impl Answer {
    fn status(self) -> Status {
        match self {
            Self::Known(Known::Conflict) => conflict(),
            Self::Known(Known::Expired) => expired(),
            Self::Known(Known::Throttled) => throttled(1),
            Self::Known(Known::InternalError) => internal_error(),
            Self::Given { code, message } => Status::new(code, reason(code), message),
        }
    }
}

/// The reason that a real server gives with a code; empty for other codes.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

impl Event {
    fn of_watch(self) -> EventFault {
        match self {
            Self::Delay(time) => EventFault::Delay(time.0),
            Self::DelayUpTo(time) => EventFault::DelayUpTo(time.0),
            Self::Drop(time) => EventFault::Drop {
                repaired_after: time.0,
            },
            Self::Coalesce(time) => EventFault::Coalesce(time.0),
            Self::Close => EventFault::Close,
            Self::Expire => EventFault::Expire,
        }
    }
}

/// Number of matches of a rule so far, and the last one as text.
pub(super) fn state(faults: &Faults, id: RuleId) -> (usize, Option<String>) {
    (faults.hits(id), faults.last_hit(id))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_values::clock::Clock;

    use super::*;

    fn add(cluster: &DevCluster, rule: Value) -> std::result::Result<RuleId, String> {
        let rule: Rule = serde_json::from_value(rule).map_err(|error| error.to_string())?;
        rule.add(cluster).map_err(|refusal| refusal.1)
    }

    #[tokio::test(start_paused = true)]
    async fn rules_apply_to_the_requests_that_they_name() {
        let cluster = DevCluster::new(Clock::system());
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let rule = json!({
            "match": {"verb": "create", "resource": "configmaps", "nth": 2},
            "fault": {"reject": {"code": 429, "message": "slowly"}}, "times": 1,
        });
        let id = add(&cluster, rule).unwrap();
        cluster.create(map("a")).await.unwrap();
        let refused = cluster.create(map("b")).await.unwrap_err();
        assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
        cluster.create(map("b")).await.unwrap();
        let (hits, last) = state(cluster.faults(), id);
        assert_eq!((hits, last.as_deref()), (1, Some("create configmaps")));
    }

    #[tokio::test(start_paused = true)]
    async fn views_show_old_states_to_those_who_accept_them() {
        let cluster = DevCluster::new(Clock::system());
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        cluster.create(map("a")).await.unwrap();
        let before = cluster.revision();
        cluster.create(map("b")).await.unwrap();
        for (view, then, seen) in [
            (json!("now"), map("c"), 2),
            (json!({"at": before}), map("d"), 1),
            (json!({"behind": 2}), map("e"), 3),
        ] {
            let rule = json!({"match": {"resource": "configmaps"}, "view": view});
            let id = add(&cluster, rule).unwrap();
            cluster.create(then).await.unwrap();
            let cached = "/api/v1/namespaces/default/configmaps?resourceVersion=0";
            let list = cluster.get(cached).await.unwrap();
            assert_eq!(list["items"].as_array().unwrap().len(), seen, "{view}");
            cluster.faults().remove(id);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_fault_has_its_form() {
        let cluster = DevCluster::new(Clock::system());
        for fault in [
            json!({"reject": "conflict"}),
            json!({"reject": "internalError"}),
            json!({"delay": "1s"}),
            json!({"delayUpTo": "100ms"}),
            json!("reset"),
            json!("loseAnswer"),
            json!("hang"),
            json!("hangAfterwards"),
        ] {
            add(&cluster, json!({"fault": fault})).unwrap();
        }
        for event in [
            json!({"delay": "1s"}),
            json!({"drop": "1s"}),
            json!({"coalesce": "1s"}),
            json!("close"),
            json!("expire"),
        ] {
            add(&cluster, json!({"event": event})).unwrap();
        }
        for view in [json!("now"), json!({"at": 3}), json!({"behind": 1})] {
            add(&cluster, json!({"view": view})).unwrap();
        }
        for wrong in [
            json!({}),
            json!({"fault": "reset", "event": "close"}),
            json!({"fault": "reset", "view": "now"}),
            json!({"view": "now", "times": 1}),
            json!({"view": "then"}),
            json!({"view": {"behind": -1}}),
            json!({"fault": "explode"}),
            json!({"fault": {"delay": "soon"}}),
            json!({"match": {"kind": "Pod"}, "fault": "reset"}),
        ] {
            assert!(add(&cluster, wrong.clone()).is_err(), "{wrong}");
        }
    }
}
