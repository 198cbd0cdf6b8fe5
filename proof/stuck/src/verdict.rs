//! Whether an answer names the true cause, and the table of all stories.

use std::fmt::Write as _;

use steersman_controllers::why::KINDS;
use steersman_why::{Code, Report, Role};

use crate::{QUESTIONS, Stage, StageError, Story, Truth};

/// The answers to one story.
#[derive(Debug)]
pub struct Verdict {
    /// Whether `kubectl describe` of the object names the cause, with its Events. `None` if nothing is
    /// wrong.
    pub describe: Option<bool>,
    /// Whether the leader names it.
    pub with_leader: Result<(), String>,
    /// Whether an answer from API objects alone names it.
    pub without_leader: Result<(), String>,
    /// Whether the list of all that stands still has the object, or rightly lacks it.
    pub listed: Result<(), String>,
    /// The leader's answer as text.
    pub text: String,
}

/// Stages a story and judges the answers.
pub async fn tell(story: &Story) -> Result<Verdict, StageError> {
    let stage = Stage::of(story).await?;
    let with_leader = stage.ask(story, true).await?;
    let without_leader = stage.ask(story, false).await?;
    let list = stage.list(story, "", true).await?;
    let described = stage.described(story, &with_leader);
    let describe = match story.truth {
        Truth::Cause(_, message, _) | Truth::Inside(_, message, _) => {
            Some(described.contains(message))
        }
        Truth::Moves(_) | Truth::Fine => None,
    };
    Ok(Verdict {
        describe,
        with_leader: judge(story, &with_leader),
        without_leader: judge(story, &without_leader),
        listed: judge_list(story, &with_leader, &list),
        text: with_leader.text(),
    })
}

/// Whether `report` tells the truth, else the difference.
fn judge(story: &Story, report: &Report) -> Result<(), String> {
    let causes: Vec<_> = report
        .answers
        .iter()
        .flat_map(|answer| answer.causes())
        .map(|(_, cause)| cause)
        .collect();
    let has = |code: Code| report.answers.iter().any(|answer| answer.has(code));
    let told = || report.text();
    match story.truth {
        Truth::Cause(code, message, who) | Truth::Inside(code, message, who) => {
            let cause = causes
                .iter()
                .find(|cause| cause.code == code && cause.message.contains(message));
            match cause {
                None => Err(format!("no cause {code:?} with {message:?}:\n{}", told())),
                Some(cause) if !cause.who.contains(who) => {
                    Err(format!("who can act is not {who:?}:\n{}", told()))
                }
                Some(_) => Ok(()),
            }
        }
        Truth::Moves(_) | Truth::Fine if !causes.is_empty() => {
            Err(format!("nothing is wrong, but:\n{}", told()))
        }
        Truth::Moves(code) if !has(code) => Err(format!("no {code:?}:\n{}", told())),
        Truth::Moves(_) | Truth::Fine => Ok(()),
    }
}

/// Whether `list` has the object of `story` exactly if it stands still. Kinds that no list searches,
/// objects that a person has suspended, and budgets that allow no disruption are in no list.
fn judge_list(story: &Story, about: &Report, list: &Report) -> Result<(), String> {
    let Some(object) = about.answers.first().map(|answer| &answer.object) else {
        return Ok(());
    };
    let is_listed = list.answers.iter().any(|answer| answer.object == *object);
    let is_searched = KINDS.iter().any(|of| *of.kind == *object.kind);
    let is_wrong = matches!(story.truth, Truth::Cause(..) | Truth::Inside(..));
    // The list has some custom resources; a test of its own tells which.
    if !is_searched && is_wrong {
        return Ok(());
    }
    let should_be = match story.truth {
        Truth::Cause(code, ..) | Truth::Inside(code, ..) => {
            let is_budget = object.kind == "PodDisruptionBudget";
            // A missing pod has an entry of its own.
            let is_full =
                matches!(code, Code::DisruptionBlocked | Code::PodUnscheduled) && is_budget;
            is_searched && !is_full && code != Code::Suspended
        }
        Truth::Moves(_) | Truth::Fine => false,
    };
    if is_listed == should_be {
        return Ok(());
    }
    Err(format!(
        "{} in the list should be {should_be}, and is {is_listed}:\n{}",
        object.long(),
        list.text()
    ))
}

/// The table of the documentation.
pub fn table(stories: &[(&Story, Verdict)]) -> String {
    let mut text = String::from(
        "| question | state | who can act | describe | why | why without leader |\n|---|---|---|---|---|---|\n",
    );
    let mark = |is_right: bool| if is_right { "yes" } else { "-" };
    for (story, verdict) in stories {
        let who = match story.truth {
            Truth::Cause(_, _, who) | Truth::Inside(_, _, who) => who,
            Truth::Moves(_) | Truth::Fine => "nothing is wrong",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {who} | {} | {} | {} |",
            QUESTIONS[usize::from(story.question) - 1],
            story.title,
            verdict.describe.map_or("", mark),
            mark(verdict.with_leader.is_ok()),
            mark(verdict.without_leader.is_ok()),
        );
    }
    let (wrong, fine): (Vec<_>, Vec<_>) = stories
        .iter()
        .partition(|(_, verdict)| verdict.describe.is_some());
    let count = |of: &[&(&Story, Verdict)], is_right: &dyn Fn(&Verdict) -> bool| {
        of.iter().filter(|(_, verdict)| is_right(verdict)).count()
    };
    let _ = writeln!(
        text,
        "\nOf {} stories with a cause, `kubectl describe` of the object names {}, `why` {}, and `why` without \
         the leader {}. In {} stories nothing is wrong; `why` names no cause in {} of them.",
        wrong.len(),
        count(&wrong, &|verdict| verdict.describe == Some(true)),
        count(&wrong, &|verdict| verdict.with_leader.is_ok()),
        count(&wrong, &|verdict| verdict.without_leader.is_ok()),
        fine.len(),
        count(&fine, &|verdict| verdict.with_leader.is_ok()
            && verdict.without_leader.is_ok()),
    );
    text
}

/// The table of all codes, for the documentation.
pub fn codes() -> String {
    let mut text = String::from("| code | role | meaning |\n|---|---|---|\n");
    for code in Code::ALL {
        let role = match code.role() {
            Role::Cause => "cause",
            Role::Wait => "wait",
            Role::Fact => "fact",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{}` | {role} | {} |", code.name(), code.meaning());
    }
    text
}

/// The leader's answers to some stories, for the documentation.
pub fn outputs(stories: &[(&Story, Verdict)], titles: &[&str]) -> String {
    let mut text = String::new();
    for (story, verdict) in stories
        .iter()
        .filter(|(story, _)| titles.contains(&story.title))
    {
        let (kind, name) = story.about;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "The state: {}.\n\n    $ steersman why {kind}/{name}",
            story.title
        );
        for line in verdict.text.lines() {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
    text
}
