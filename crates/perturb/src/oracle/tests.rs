//! Each oracle with records of a run that it must accept, and of a run that it must reject.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::history::{Change, ChangeKind};
use crate::plan::{EventPlan, Point, When};
use crate::scenario::Rule;

fn change(name: &str, kind: ChangeKind) -> Change {
    Change {
        revision: 7,
        at: Timestamp::UNIX_EPOCH,
        plural: Arc::from("pods"),
        key: Arc::from(name),
        kind,
        before: None,
        object: Arc::new(json!({"metadata": {"name": name}})),
        by: String::new(),
    }
}

fn history(changes: impl IntoIterator<Item = Change>) -> History {
    let mut history = History::default();
    history.changes.extend(changes);
    history
}

fn scenario(churn: Churn, errors: &'static [&'static str], rules: &'static [Rule]) -> Scenario {
    Scenario {
        controller: "test",
        name: "scenario",
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
fn more_or_fewer_objects_than_allowed_are_churn() {
    use ChangeKind::{Created, Deleted, Updated};
    let reference = history([
        change("a", Created),
        change("b", Created),
        change("b", Deleted),
    ])
    .counts();
    let same = [
        change("c", Created),
        change("c", Updated),
        change("d", Created),
        change("d", Deleted),
    ];
    let one_more = [
        change("a", Created),
        change("b", Created),
        change("b", Deleted),
        change("c", Created),
        change("c", Deleted),
    ];
    let two_more = one_more
        .iter()
        .cloned()
        .chain([change("d", Created), change("d", Deleted)]);
    let one_less = [change("a", Created)];
    let config_map = |kind| Change {
        plural: Arc::from("configmaps"),
        ..change("m", kind)
    };
    let other = one_more
        .iter()
        .cloned()
        .chain([config_map(Created), config_map(Deleted)]);
    // (why, history, violations without tolerance, violations with a tolerance of one pod)
    let cases = [
        ("the same", history(same), 0, 0),
        ("one more", history(one_more.clone()), 1, 0),
        ("two more", history(two_more), 1, 1),
        ("one fewer", history(one_less), 1, 0),
        ("two fewer", history([]), 1, 1),
        ("another resource", history(other), 2, 1),
    ];
    for (why, history, strict, lenient) in cases {
        let found = history.counts();
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
    use ChangeKind::{Created, Deleted};
    let violations = |changes: &[Change]| {
        broken_rules(
            &scenario(Churn::None, &[], &[ALONE]),
            &history(changes.iter().cloned()),
        )
    };
    assert_eq!(
        violations(&[
            change("a", Created),
            change("a", Deleted),
            change("b", Created)
        ]),
        Vec::<String>::new()
    );
    assert_eq!(
        violations(&[
            change("a", Created),
            change("b", Created),
            change("a", Deleted)
        ]),
        ["alone at revision 7: two"]
    );
}

#[test]
fn a_write_after_the_first_write_of_the_successor_is_detected() {
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
    // (why, the last request, number of violations)
    let cases = [
        ("a write", request("update", "pods", 1), 1),
        ("a read", request("list", "pods", 1), 0),
        (
            "an Event, which upstream does not fence either",
            request("create", "events", 1),
            0,
        ),
        ("a write of the successor", request("delete", "pods", 2), 0),
    ];
    for (why, last, violations) in cases {
        let requests = [
            request("create", "pods", 1),
            request("create", "pods", 2),
            last,
        ];
        assert_eq!(two_leaders(&requests).len(), violations, "{why}");
    }
}

#[test]
fn an_error_line_is_expected_only_under_the_fault_that_causes_it() {
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
    // (line, indexes of the plans that explain it)
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
            "this is part of the scenario",
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        ),
    ];
    let scenario = scenario(Churn::None, &["part of the scenario"], &[]);
    for (line, explained) in cases {
        for (at, plan) in plans.iter().enumerate() {
            let left = unexpected(
                &scenario,
                plan,
                &["update pods one".to_owned()],
                vec![line.to_owned()],
            );
            assert_eq!(left.is_empty(), explained.contains(&at), "{plan}: {left:?}");
        }
    }
}

#[test]
fn a_process_may_end_only_after_failed_discovery() {
    let scenario = scenario(Churn::None, &[], &[]);
    let (discovery, other) = (["get /apis".to_owned()], ["get nodes one".to_owned()]);
    let (refused, hidden) = (Plan::Answer(1.into(), Answer::Internal), |group: &str| {
        Plan::Hidden(group.into(), 1)
    });
    let (one, another) = (NEEDS_DISCOVERY, "podgc");
    // (why, plan, hit request, controllers that ended, violation)
    let cases = [
        (
            "once, after one rejected discovery request",
            refused.clone(),
            &discovery,
            vec![one],
            false,
        ),
        ("twice", refused.clone(), &discovery, vec![one; 2], true),
        (
            "after another rejected request",
            refused.clone(),
            &other,
            vec![one],
            true,
        ),
        (
            "a controller that needs no discovery",
            refused.clone(),
            &discovery,
            vec![another],
            true,
        ),
        (
            "four times while all groups are hidden",
            hidden("*"),
            &discovery,
            vec![one; 4],
            false,
        ),
        (
            "six times while all groups are hidden",
            hidden("*"),
            &discovery,
            vec![one; 6],
            true,
        ),
        (
            "while one group is hidden",
            hidden("apps"),
            &discovery,
            vec![one],
            true,
        ),
        ("without a fault", Plan::Nothing, &other, vec![one], true),
        ("never", Plan::Nothing, &other, vec![], false),
    ];
    for (why, plan, hit, controllers, violation) in cases {
        assert_eq!(
            ended(&plan, hit, &controllers).is_some(),
            violation,
            "{why}"
        );
    }
    let nothing = [
        "sync failed error=service unavailable",
        "unable to get any supported resources from server",
    ]
    .map(str::to_owned);
    let left = |group| unexpected(&scenario, &hidden(group), &discovery, nothing.to_vec()).len();
    assert_eq!((left("*"), left("apps")), (0, 2));
    let lines = [
        "not everything could be discovered error=etcdserver: leader changed",
        "unable to get any supported resources from server",
    ];
    let left = |hit| unexpected(&scenario, &refused, hit, lines.map(str::to_owned).to_vec()).len();
    assert_eq!((left(&discovery), left(&other)), (0, 1));
}

#[test]
fn a_fault_explains_a_limited_number_of_error_lines() {
    let scenario = scenario(Churn::None, &[], &[]);
    let lines = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let conflict = "sync failed error=PUT pods: Operation cannot be fulfilled: it was modified";
    let (late, graph) = (
        "sync failed error=LIST pods: no answer within 30s",
        "timed out waiting for dependency graph builder sync",
    );
    let (refused, gone) = (
        "sync failed error=PUT pods: not sent, leadership has ended",
        "pod not removed error=\"a\" not found",
    );
    let late_event = "server rejected event (will not retry!) error=namespaces \"shop\" not found";
    // (plan, lines, number of unexplained lines)
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
            lines(&[late, graph]),
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            lines(&[late, graph, late]),
            1,
        ),
        (
            Plan::Answer(Point::of("create", "events", 1), Answer::Timeout),
            lines(&[late_event, late_event, late_event]),
            0,
        ),
        (
            Plan::Answer(Point::of("create", "events", 1), Answer::Timeout),
            lines(&[late_event, late_event, late_event, late_event]),
            1,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            lines(&[late_event]),
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Internal),
            lines(&[late_event]),
            1,
        ),
        // Once for each task, and once for each pod in the stale view.
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
