//! Each oracle over a whole run, against a run that it must not let pass.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::film::Frame;
use crate::plan::When;
use crate::scenario::Rule;

fn frame(name: &str, happened: Happened) -> Frame {
    Frame {
        revision: 7,
        plural: Arc::from("pods"),
        key: Arc::from(name),
        happened,
        before: None,
        object: Arc::new(json!({"metadata": {"name": name}})),
        by: String::new(),
    }
}

fn film(frames: impl IntoIterator<Item = Frame>) -> Film {
    let mut film = Film::default();
    film.frames.extend(frames);
    film
}

fn scenario(churn: Churn, errors: &'static [&'static str], rules: &'static [Rule]) -> Scenario {
    Scenario {
        controller: "test",
        name: "story",
        controllers: &[],
        configure: |context| context,
        nodes: 0,
        steps: Vec::new,
        churn,
        errors,
        rules,
    }
}

#[test]
fn one_object_more_or_fewer_is_churn() {
    use Happened::{Changed, Created, Deleted};
    let reference = counts(&film([frame("a", Created), frame("b", Created), frame("b", Deleted)]));
    let same = [frame("c", Created), frame("c", Changed), frame("d", Created), frame("d", Deleted)];
    let one_more = [frame("a", Created), frame("b", Created), frame("b", Deleted), frame("c", Created), frame("c", Deleted)];
    let two_more = one_more.iter().cloned().chain([frame("d", Created), frame("d", Deleted)]);
    // (why, film, no churn allowed, one allowed)
    let cases = [
        ("the same", film(same), 0, 0),
        ("one more", film(one_more.clone()), 1, 0),
        ("two more", film(two_more), 1, 1),
        ("one fewer", film([frame("a", Created)]), 1, 0),
        ("nothing at all", film([]), 1, 0),
    ];
    for (why, film, strict, lenient) in cases {
        let found = counts(&film);
        assert_eq!(churn(&scenario(Churn::None, &[], &[]), &reference, &found).len(), strict, "{why}");
        assert_eq!(churn(&scenario(Churn::UpTo(1), &[], &[]), &reference, &found).len(), lenient, "{why}");
    }
}

#[test]
fn a_rule_is_asked_about_every_instant_unless_nobody_was_told_what_is_asked() {
    const ALWAYS: Rule = Rule { name: "always", asked_by: "", check: |_, _| Err("broken".to_owned()) };
    const ASKED: Rule = Rule { name: "asked", asked_by: "deployments", ..ALWAYS };
    let told = |plan: &str| {
        let film = film([frame("a", Happened::Created), frame("a", Happened::Deleted)]);
        unsafe_instants(&scenario(Churn::None, &[], &[ALWAYS, ASKED]), &plan.parse().unwrap(), &film).len()
    };
    for (plan, broken) in
        [("nothing", 4), ("event:deployments:1:stall", 4), ("event:pods:1:drop", 4), ("event:deployments:1:drop", 2)]
    {
        assert_eq!(told(plan), broken, "{plan}");
    }
}

#[test]
fn a_rule_sees_the_state_after_each_change() {
    const ALONE: Rule = Rule {
        name: "alone",
        asked_by: "",
        check: |state, _| if state.all("pods").count() > 1 { Err("two".to_owned()) } else { Ok(()) },
    };
    use Happened::{Created, Deleted};
    let told =
        |frames: &[Frame]| unsafe_instants(&scenario(Churn::None, &[], &[ALONE]), &Plan::Nothing, &film(frames.iter().cloned()));
    assert_eq!(told(&[frame("a", Created), frame("a", Deleted), frame("b", Created)]), Vec::<String>::new());
    assert_eq!(told(&[frame("a", Created), frame("b", Created), frame("a", Deleted)]), ["alone at revision 7: two"]);
}

#[test]
fn a_write_of_a_manager_after_the_first_of_the_next_one_is_noticed() {
    let request = |verb: &str, resource: &str, instance: usize| RequestRecord {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        path: format!("/{resource}"),
        user_agent: format!("kube-controller-manager/v1.36.2 {AGENT}{instance}) kubernetes/0000000/test"),
        user: "admin".to_owned(),
        status: 200,
        denied: false,
        door: None,
        content: None,
        revision: 1,
    };
    // (why, the last request of the first manager, broken)
    let cases = [
        ("a write", request("update", "pods", 1), 1),
        ("a read", request("list", "pods", 1), 0),
        ("an Event, which upstream does not fence either", request("create", "events", 1), 0),
        ("its own", request("delete", "pods", 2), 0),
    ];
    for (why, last, broken) in cases {
        let requests = [request("create", "pods", 1), request("create", "pods", 2), last];
        assert_eq!(two_leaders(&requests).len(), broken, "{why}");
    }
}

#[test]
fn an_error_is_expected_from_the_fault_that_explains_it_and_from_no_other() {
    let plans = [
        Plan::Nothing,
        Plan::Crash(vec![(When::After, 1.into())]),
        Plan::Failover(When::After, 1.into()),
        Plan::Stale(1.into(), 1),
        Plan::StaleEvent("pods".to_owned(), 1.into(), 1),
        Plan::Event("pods".to_owned(), 1.into(), EventPlan::Drop),
        Plan::Answer(1.into(), Answer::Conflict),
        Plan::Answer(1.into(), Answer::Internal),
        Plan::Answer(1.into(), Answer::LateTimeout),
        Plan::Shuffle(1),
    ];
    // (line, the plans that explain it)
    let cases: [(&str, &[usize]); 7] = [
        ("sync failed error=PUT pods: Operation cannot be fulfilled: it was modified", &[6]),
        ("sync failed error=PUT pods: etcdserver: leader changed", &[7]),
        ("sync failed error=PUT pods: no answer within 30s", &[8]),
        ("sync failed error=PUT pods: not sent, leadership has ended", &[1, 2, 3, 4]),
        ("pod not removed error=DELETE pods: pods \"a\" not found", &[3, 4]),
        ("sync failed error=DELETE pods: pods \"a\" not found", &[]),
        ("this is part of the story", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ];
    let scenario = scenario(Churn::None, &["part of the story"], &[]);
    for (line, explained) in cases {
        for (at, plan) in plans.iter().enumerate() {
            let wrong = unexpected(&scenario, plan, vec![line.to_owned()]);
            assert_eq!(wrong.is_empty(), explained.contains(&at), "{plan}: {wrong:?}");
        }
    }
}
