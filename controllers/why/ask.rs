//! Answers a question: resolves the type, reads the objects, and reports.

use std::sync::Arc;

use jiff::Timestamp;
use steersman_why::{Explanation, Inside, Known, Question, Reader, Report, gather};

use super::{about, explain, stuck};

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The API server does not serve the type.
    #[error("the API server has no resource type {0:?}")]
    Type(String),
    /// The caller may not read the object, or the read failed.
    #[error("cannot read {kind} {name}: {why}")]
    Withheld {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// The reason.
        why: String,
    },
}

/// The answer to `question`, from objects that `reader` reads and from the manager `inside`.
///
/// # Errors
/// If the type is unknown, or the object cannot be read.
pub async fn ask(
    reader: &impl Reader,
    now: Timestamp,
    inside: Option<Arc<dyn Inside>>,
    question: &Question,
) -> Result<Report, AskError> {
    let leader = inside.as_ref().map(|inside| inside.manager().identity);
    let leader = leader.unwrap_or_default();
    let report = |answers: Vec<Explanation>, is_list, withheld| Report {
        time: now,
        stuck: answers.iter().any(Explanation::is_stuck),
        absent: answers.iter().any(|answer| answer.is_absent),
        leader: leader.clone(),
        answers,
        is_list,
        withheld,
        unverified: String::new(),
    };
    let (group, kind, namespace, name) = match question {
        Question::All { namespace } => {
            let (answers, world) = gather(reader, now, inside, explain, |world| {
                stuck(world, namespace)
            })
            .await;
            let is_list = !answers.iter().any(|answer| answer.is_absent);
            let withheld = world.withheld_within(namespace);
            return Ok(report(answers, is_list, withheld));
        }
        Question::Object {
            group,
            kind,
            namespace,
            name,
        } => (group, kind, namespace, name),
    };
    let answer = |world: &steersman_why::World| match world.resource(group, kind) {
        Known::Yes(of) => {
            let namespace = if of.namespaced { namespace } else { "" };
            Ok(about(world, &of, namespace, name))
        }
        Known::Absent => Err(AskError::Type(kind.clone())),
        Known::Unknown => Ok(None),
    };
    let (answer, world) = gather(reader, now, inside, explain, answer).await;
    match answer? {
        Some(answer) => Ok(report(vec![answer], false, world.withheld())),
        None => Err(AskError::Withheld {
            kind: kind.clone(),
            name: name.clone(),
            why: world.withheld().join("; "),
        }),
    }
}
