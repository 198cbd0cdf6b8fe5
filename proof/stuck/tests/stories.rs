//! Each story is told: `why` names the true cause, and never a wrong one.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use steersman_stuck::{
    QUESTIONS, Run, Stage, Story, Truth, Verdict, codes, outputs, stories, table, tell,
};

/// The stories whose output docs/why.md shows.
const SHOWN: [&str; 10] = [
    "a ResourceQuota allows one of three pods",
    "a pod still uses the claim",
    "an admission webhook cannot be reached",
    "a dependent with a finalizer blocks foreground deletion",
    "an object with a finalizer is left",
    "the claim of the first pod has a class that does not exist",
    "the previous Job still runs, and the policy is Forbid",
    "a label of the selector is misspelled",
    "the containers have no CPU request",
    "the controller lacks a right",
];

fn on_paused_time<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn told(story: &Story) -> Verdict {
    let verdict = on_paused_time(tell(story));
    verdict.unwrap_or_else(|error| panic!("{}: {}", story.title, error.0))
}

#[test]
fn why_names_the_cause_of_each_story() {
    let only = std::env::var("STORY").unwrap_or_default();
    let mut told_stories = Vec::new();
    let mut wrong = Vec::new();
    for story in stories::all() {
        if !story.title.contains(&only) {
            continue;
        }
        let verdict = told(story);
        if std::env::var("SHOW").is_ok() {
            println!("== {} {}\n{}", story.question, story.title, verdict.text);
        }
        let head = format!("{} {}", story.question, story.title);
        if let Err(difference) = &verdict.with_leader {
            wrong.push(format!("with leader: {head}: {difference}"));
        }
        if let Err(difference) = &verdict.without_leader
            && !matches!(story.truth, Truth::Inside(..))
        {
            wrong.push(format!("without leader: {head}: {difference}"));
        }
        if let Err(difference) = &verdict.listed {
            wrong.push(format!("in the list: {head}: {difference}"));
        }
        told_stories.push((story, verdict));
    }
    assert!(
        wrong.is_empty(),
        "{} answers are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    if only.is_empty() {
        keep_part("outputs", &outputs(&told_stories, &SHOWN));
        keep_part("stories", &table(&told_stories));
        keep_part("codes", &codes());
    }
}

/// Compares a generated part of docs/why.md; `UPDATE_DOCS=1` writes it.
fn keep_part(mark: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/why.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {mark}: begin -->\n");
    let end = format!("<!-- {mark}: end -->");
    let (before, rest) = text
        .split_once(&begin)
        .expect("docs/why.md has the marker of the part");
    let (found, after) = rest
        .split_once(&end)
        .expect("docs/why.md has the end of the part");
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            found, wanted,
            "run the test with UPDATE_DOCS=1 to renew docs/why.md"
        );
    }
}

#[test]
fn the_list_of_a_namespace_that_does_not_exist_tells_so() {
    let story = *stories::all()
        .into_iter()
        .find(|story| story.run == Run::All && matches!(story.truth, Truth::Fine))
        .unwrap();
    on_paused_time(async {
        let stage = Stage::of(&story).await.unwrap();
        for with_leader in [true, false] {
            let list = async |namespace: &str| {
                let report = stage.list(&story, namespace, with_leader).await;
                report.unwrap()
            };
            let absent = list("gone").await;
            assert!(absent.absent && !absent.stuck);
            let text = absent.text();
            assert!(
                text.starts_with("namespace gone does not exist\n"),
                "{text}"
            );
            let present = list("default").await;
            assert!(!present.absent && !present.stuck);
            assert!(
                present.text().starts_with("nothing is stuck\n"),
                "{}",
                present.text()
            );
        }
    });
}

#[test]
fn the_list_has_custom_resources_in_deletion_and_those_that_are_not_ready() {
    let cases = [
        (
            "a program cannot delete the bucket of a cloud behind its object",
            true,
        ),
        ("a custom resource is not ready", true),
        ("the hook of an application of Argo CD gets no pod", true),
        ("a custom resource is ready", false),
    ];
    for (title, expected) in cases {
        let all = stories::all();
        let story = all.into_iter().find(|story| story.title == title).unwrap();
        let listed = on_paused_time(async {
            let stage = Stage::of(story).await.unwrap();
            let list = stage.list(story, "", true).await.unwrap();
            let (_, name) = story.about;
            list.answers.iter().any(|answer| answer.object.name == name)
        });
        assert_eq!(listed, expected, "{title}");
    }
}

/// Stories with a cause for each question.
const CAUSES: usize = 4;

#[test]
fn each_question_has_four_stories_with_a_cause() {
    for question in 1..=u8::try_from(QUESTIONS.len()).unwrap() {
        let of_question: Vec<_> = stories::all()
            .into_iter()
            .filter(|story| story.question == question)
            .collect();
        let is_cause =
            |story: &&&Story| matches!(story.truth, Truth::Cause(..) | Truth::Inside(..));
        let causes = of_question.iter().filter(is_cause).count();
        assert!(causes >= CAUSES, "question {question} has {causes}");
    }
}
