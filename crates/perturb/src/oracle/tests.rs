//! Each oracle over a whole run, against a run that it must not let pass.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::film::{Frame, Happened};
use crate::plan::{EventPlan, Point, When};
use crate::scenario::Rule;

fn frame(name: &str, happened: Happened) -> Frame {
    Frame {
        revision: 7,
        at: Timestamp::UNIX_EPOCH,
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
    let reference = film([
        frame("a", Created),
        frame("b", Created),
        frame("b", Deleted),
    ])
    .counts();
    let same = [
        frame("c", Created),
        frame("c", Changed),
        frame("d", Created),
        frame("d", Deleted),
    ];
    let one_more = [
        frame("a", Created),
        frame("b", Created),
        frame("b", Deleted),
        frame("c", Created),
        frame("c", Deleted),
    ];
    let two_more = one_more
        .iter()
        .cloned()
        .chain([frame("d", Created), frame("d", Deleted)]);
    let one_less = [frame("a", Created)];
    let config_map = |happened| Frame {
        plural: Arc::from("configmaps"),
        ..frame("m", happened)
    };
    let other = one_more
        .iter()
        .cloned()
        .chain([config_map(Created), config_map(Deleted)]);
    // (why, film, no churn allowed, one pod more or fewer allowed)
    let cases = [
        ("the same", film(same), 0, 0),
        ("one more", film(one_more.clone()), 1, 0),
        ("two more", film(two_more), 1, 1),
        ("one fewer", film(one_less), 1, 0),
        ("two fewer", film([]), 1, 1),
        ("another resource", film(other), 2, 1),
    ];
    for (why, film, strict, lenient) in cases {
        let found = film.counts();
        assert_eq!(
            churn(&scenario(Churn::None, &[], &[]), &reference, &found).len(),
            strict,
            "{why}"
        );
        let within = Churn::Within(&[("pods", -1..=1)]);
        assert_eq!(
            churn(&scenario(within, &[], &[]), &reference, &found).len(),
            lenient,
            "{why}"
        );
    }
}

#[test]
fn a_rule_sees_the_state_after_each_change() {
    const ALONE: Rule = Rule {
        name: "alone",
        check: |state, _| {
            if state.all("pods").count() > 1 {
                Err("two".to_owned())
            } else {
                Ok(())
            }
        },
    };
    use Happened::{Created, Deleted};
    let told = |frames: &[Frame]| {
        unsafe_instants(
            &scenario(Churn::None, &[], &[ALONE]),
            &film(frames.iter().cloned()),
        )
    };
    assert_eq!(
        told(&[
            frame("a", Created),
            frame("a", Deleted),
            frame("b", Created)
        ]),
        Vec::<String>::new()
    );
    assert_eq!(
        told(&[
            frame("a", Created),
            frame("b", Created),
            frame("a", Deleted)
        ]),
        ["alone at revision 7: two"]
    );
}

#[test]
fn a_write_of_a_manager_after_the_first_of_the_next_one_is_noticed() {
    let request = |verb: &str, resource: &str, instance: usize| RequestRecord {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        path: format!("/{resource}"),
        user_agent: format!(
            "kube-controller-manager/v1.36.2 {AGENT}{instance}) kubernetes/0000000/test"
        ),
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
        (
            "an Event, which upstream does not fence either",
            request("create", "events", 1),
            0,
        ),
        ("its own", request("delete", "pods", 2), 0),
    ];
    for (why, last, broken) in cases {
        let requests = [
            request("create", "pods", 1),
            request("create", "pods", 2),
            last,
        ];
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
        Plan::Hidden("apps".into(), 1),
    ];
    // (line, the plans that explain it)
    let cases: [(&str, &[usize]); 9] = [
        (
            "sync failed error=PUT pods: Operation cannot be fulfilled: it was modified",
            &[6],
        ),
        (
            "sync failed error=PUT pods: etcdserver: leader changed",
            &[7],
        ),
        ("sync failed error=PUT pods: no answer within 30s", &[8]),
        (
            "sync failed error=PUT pods: not sent, leadership has ended",
            &[1, 2, 3, 4],
        ),
        (
            "pod not removed error=DELETE pods: pods \"a\" not found",
            &[3, 4],
        ),
        ("sync failed error=DELETE pods: pods \"a\" not found", &[]),
        (
            "sync failed error=unable to retrieve the complete list of server APIs: apps/v1",
            &[10],
        ),
        ("unable to get any supported resources from server", &[]),
        (
            "this is part of the story",
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        ),
    ];
    let scenario = scenario(Churn::None, &["part of the story"], &[]);
    for (line, explained) in cases {
        for (at, plan) in plans.iter().enumerate() {
            let wrong = unexpected(
                &scenario,
                plan,
                &["update pods one".to_owned()],
                vec![line.to_owned()],
            );
            assert_eq!(
                wrong.is_empty(),
                explained.contains(&at),
                "{plan}: {wrong:?}"
            );
        }
    }
}

#[test]
fn a_process_may_end_where_it_could_not_discover_anything() {
    let scenario = scenario(Churn::None, &[], &[]);
    let (look, other) = (["get /apis".to_owned()], ["get nodes one".to_owned()]);
    let (refused, hidden) = (Plan::Answer(1.into(), Answer::Internal), |group: &str| {
        Plan::Hidden(group.into(), 1)
    });
    let (one, another) = (NEEDS_RESOURCES, "podgc");
    // (why, plan, what it hit, which controllers ended, wrong)
    let cases = [
        (
            "once, as one request was refused",
            refused.clone(),
            &look,
            vec![one],
            false,
        ),
        ("twice", refused.clone(), &look, vec![one; 2], true),
        (
            "for another request",
            refused.clone(),
            &other,
            vec![one],
            true,
        ),
        (
            "one that needs none",
            refused.clone(),
            &look,
            vec![another],
            true,
        ),
        (
            "as long as nothing is shown",
            hidden("*"),
            &look,
            vec![one; 4],
            false,
        ),
        ("over and over", hidden("*"), &look, vec![one; 6], true),
        (
            "though most is shown",
            hidden("apps"),
            &look,
            vec![one],
            true,
        ),
        ("for nothing", Plan::Nothing, &other, vec![one], true),
        ("never", Plan::Nothing, &other, vec![], false),
    ];
    for (why, plan, hit, controllers, wrong) in cases {
        assert_eq!(ended(&plan, hit, &controllers).is_some(), wrong, "{why}");
    }
    let nothing = [
        "sync failed error=service unavailable",
        "unable to get any supported resources from server",
    ]
    .map(str::to_owned);
    let left = |group| unexpected(&scenario, &hidden(group), &look, nothing.to_vec()).len();
    assert_eq!((left("*"), left("apps")), (0, 2));
    let told = [
        "not everything could be discovered error=etcdserver: leader changed",
        "unable to get any supported resources from server",
    ];
    let left = |hit| unexpected(&scenario, &refused, hit, told.map(str::to_owned).to_vec()).len();
    assert_eq!((left(&look), left(&other)), (0, 1));
}

#[test]
fn one_fault_explains_one_error_and_not_the_next_of_the_same_kind() {
    let scenario = scenario(Churn::None, &[], &[]);
    let lines = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let conflict = "sync failed error=PUT pods: Operation cannot be fulfilled: it was modified";
    let (late, looking) = (
        "sync failed error=LIST pods: no answer within 30s",
        "timed out waiting for dependency graph builder sync",
    );
    let (refused, gone) = (
        "sync failed error=PUT pods: not sent, leadership has ended",
        "pod not removed error=\"a\" not found",
    );
    let unheard = "server rejected event (will not retry!) error=namespaces \"shop\" not found";
    // (plan, lines, those that are left)
    let cases = [
        (
            Plan::Answer(1.into(), Answer::Conflict),
            lines(&[conflict]),
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Conflict),
            lines(&[conflict, conflict]),
            1,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            lines(&[late, looking]),
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            lines(&[late, looking, late]),
            1,
        ),
        (
            Plan::Answer(Point::of("create", "events", 1), Answer::Timeout),
            lines(&[unheard, unheard, unheard]),
            0,
        ),
        (
            Plan::Answer(Point::of("create", "events", 1), Answer::Timeout),
            lines(&[unheard, unheard, unheard, unheard]),
            1,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            lines(&[unheard]),
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Internal),
            lines(&[unheard]),
            1,
        ),
        // Each of its tasks, and each pod that it still sees, once.
        (
            Plan::Crash(vec![(When::After, 1.into())]),
            lines(&[refused, refused, refused]),
            0,
        ),
        (Plan::Stale(1.into(), 1), lines(&[gone, gone, gone]), 0),
        (
            Plan::Stale(1.into(), 1),
            lines(&[gone, gone, gone, gone]),
            1,
        ),
    ];
    for (plan, lines, left) in cases {
        assert_eq!(
            unexpected(&scenario, &plan, &[], lines.clone()).len(),
            left,
            "{plan}: {lines:?}"
        );
    }
}
