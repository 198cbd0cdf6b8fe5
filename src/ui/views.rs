//! The views, by their name in the path.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_controllers::why::{AskError, ask};
use steersman_why::{Explanation, Question, Report, Role};

use super::asked::{Asked, Refusal, asked};
use super::{Ui, garbage, leadership, nodes, rollouts, steps};
use crate::access::Caller;

/// One view, with the part that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    About,
    Stuck { question: Question },
    Rollouts { namespace: String },
    Steps { of: Asked },
    Flow,
    Leadership,
    Garbage { of: Option<Asked> },
    Timeline,
    Nodes,
}

impl View {
    /// The view at `path` below `/debug/ui/`.
    pub(super) fn named(path: &str, query: &str) -> Option<Self> {
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let namespace = form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "namespace").then(|| value.into_owned()));
        let namespace = namespace.unwrap_or_default();
        match (name, rest) {
            ("", "") => Some(Self::About),
            ("stuck", rest) => {
                let query = format!("namespace={namespace}");
                let question = Question::of_page(rest, &query)?;
                Some(Self::Stuck { question })
            }
            ("rollouts", "") => Some(Self::Rollouts { namespace }),
            ("rollouts", rest) => Some(Self::Steps { of: asked(rest)? }),
            ("flow", "") => Some(Self::Flow),
            ("leadership", "") => Some(Self::Leadership),
            ("garbage", "") => Some(Self::Garbage { of: None }),
            ("garbage", rest) => Some(Self::Garbage {
                of: Some(asked(rest)?),
            }),
            ("timeline", "") => Some(Self::Timeline),
            ("nodes", "") => Some(Self::Nodes),
            _ => None,
        }
    }

    /// The shortest time between two answers of a stream.
    pub(super) fn period(&self) -> Duration {
        Duration::from_secs(match self {
            Self::Flow => super::flow::PERIOD.as_secs(),
            Self::Stuck { .. } | Self::Garbage { .. } => 3,
            Self::Leadership | Self::Timeline | Self::Nodes => 2,
            Self::Rollouts { .. } | Self::Steps { .. } => 1,
            Self::About => 30,
        })
    }

    /// The data for `caller`.
    pub(super) async fn data(&self, ui: &Ui, caller: &Caller) -> Result<Value, Refusal> {
        let inner = &ui.0;
        let now = inner.why.now();
        let reader = || inner.why.reader(caller.clone());
        let mut data = match self {
            Self::About => json!({}),
            Self::Stuck { question } => {
                let asked = ask(&reader(), now, inner.why.inside(), question).await;
                report(asked)?
            }
            Self::Rollouts { namespace } => rollouts::view(&reader(), namespace).await,
            Self::Steps { of } => steps::view(&reader(), of).await?,
            Self::Flow => inner.flow.view(now),
            Self::Leadership => {
                let caches = inner.informers.get().map(leadership::caches);
                let leads = Some(inner.why.inside().is_some());
                let caches = caches.unwrap_or_default();
                leadership::view(&reader(), inner.why.lease(), leads, caches).await
            }
            Self::Garbage { of } => {
                garbage::view(&reader(), caller, &inner.debug, of.as_ref()).await?
            }
            Self::Timeline => inner.timeline.view(caller).await,
            Self::Nodes => nodes::view(&reader()).await?,
        };
        data["time"] = json!(now);
        Ok(data)
    }
}

/// A report with the role of each reason.
pub(super) fn report(asked: Result<Report, AskError>) -> Result<Value, Refusal> {
    let report = asked.map_err(|error| (StatusCode::NOT_FOUND, error.to_string()))?;
    let answers: Vec<Value> = report.answers.iter().map(told).collect();
    let mut data = serde_json::to_value(&report)
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    data["answers"] = answers.into();
    Ok(data)
}

/// An answer whose reasons have their role, which decides about form and place.
fn told(answer: &Explanation) -> Value {
    let reasons: Vec<Value> = answer
        .reasons
        .iter()
        .map(|reason| {
            let mut told = json!(reason);
            told["role"] = match reason.code.role() {
                Role::Cause => "cause",
                Role::Wait => "wait",
                Role::Fact => "fact",
            }
            .into();
            told
        })
        .collect();
    let waits_for: Vec<Value> = answer.waits_for.iter().map(told).collect();
    json!({
        "object": answer.object, "state": answer.state, "since": answer.since,
        "reasons": reasons, "waitsFor": waits_for,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_role() {
        use steersman_why::{Code, Reason, Subject};
        let subject = |name: &str| Subject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "a".to_owned(),
            name: name.to_owned(),
        };
        let mut answer = Explanation::new(subject("a"), "waits");
        let mut below = Explanation::new(subject("b"), "is Pending");
        below.add(Reason::new(Code::ImagePull, "kubelet", "no such image"));
        answer.add(Reason::new(Code::PodStarting, "kubelet", "starts"));
        answer.follow(below);
        let told = told(&answer);
        assert_eq!(told["reasons"][0]["role"], "wait");
        assert_eq!(told["waitsFor"][0]["reasons"][0]["role"], "cause");
        assert_eq!(told["waitsFor"][0]["reasons"][0]["code"], "ImagePull");
    }

    #[test]
    fn paths_name_views_and_objects() {
        let object = |kind: &str, namespace: &str, name: &str| Asked {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let namespace = || "team a".to_owned();
        let cases = [
            ("", "", Some(View::About)),
            ("flow", "", Some(View::Flow)),
            (
                "rollouts",
                "namespace=team+a",
                Some(View::Rollouts {
                    namespace: namespace(),
                }),
            ),
            (
                "stuck",
                "namespace=team+a",
                Some(View::Stuck {
                    question: Question::All {
                        namespace: namespace(),
                    },
                }),
            ),
            (
                "stuck/pods/a/b",
                "",
                Some(View::Stuck {
                    question: Question::object("pods", "a", "b"),
                }),
            ),
            (
                "rollouts/deployments/a/b",
                "",
                Some(View::Steps {
                    of: object("deployments", "a", "b"),
                }),
            ),
            (
                "garbage/nodes/n",
                "",
                Some(View::Garbage {
                    of: Some(object("nodes", "", "n")),
                }),
            ),
            ("garbage/nodes/", "", None),
            ("flow/x", "", None),
            ("secrets", "", None),
        ];
        for (path, query, expected) in cases {
            assert_eq!(View::named(path, query), expected, "{path}?{query}");
        }
    }
}
