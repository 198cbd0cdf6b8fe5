//! Each oracle with records of a run that it must accept, and of a run that it must reject.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use steersman_client::Decision;
use steersman_values::version::GIT_VERSION;
use tokio::time::Instant;

use super::*;
use crate::history::{Change, ChangeKind};
use crate::plan::{EventPlan, Point, When};
use crate::scenario::{FinalRule, Rule};

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

fn scenario(churn: Churn, errors: &'static [AllowedError], rules: &'static [Rule]) -> Scenario {
    Scenario {
        controller: "test",
        name: "scenario",
        controllers: &[],
        configure: |context| context,
        nodes: 0,
        before: Vec::new,
        steps: Vec::new,
        churn,
        errors,
        rules,
        final_rules: &[],
        gauges: &[],
    }
}

/// A log error of `source`; a `category` of `decision` is that of log calls without one.
fn error(source: &str, category: &str, message: &str) -> LoggedError {
    LoggedError {
        source: source.to_owned(),
        key: "default/web".to_owned(),
        category: category.to_owned(),
        message: message.to_owned(),
        fields: String::new(),
    }
}

/// A failed sync of `source`.
fn failed(source: &str, category: &str) -> LoggedError {
    error(source, category, "sync failed")
}

const REPLICA_SETS: &str = "replicaset-controller";

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
fn a_final_rule_sees_the_final_state() {
    const ALONE: FinalRule = FinalRule {
        name: "alone",
        check: |state| match state.all("pods").count() {
            1 => Ok(()),
            count => Err(count.to_string()),
        },
    };
    let scenario = Scenario {
        final_rules: &[ALONE],
        ..scenario(Churn::None, &[], &[])
    };
    let mut state = State::default();
    state.apply(&change("a", ChangeKind::Created));
    assert_eq!(broken_in_the_end(&scenario, &state), [""; 0]);
    state.apply(&change("b", ChangeKind::Created));
    let violations = broken_in_the_end(&scenario, &state);
    assert_eq!(violations, ["alone in the final state: 2"]);
}

#[test]
fn a_write_after_the_first_write_of_the_successor_is_detected() {
    let request = |verb: &str, resource: &str, instance: usize| RequestRecord {
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        path: format!("/{resource}"),
        user_agent: format!(
            "kube-controller-manager/{GIT_VERSION} {AGENT}{instance}) kubernetes/0000000/test"
        ),
        user: "admin".to_owned(),
        status: 200,
        denied: false,
        door: None,
        content: None,
        revision: 1,
        answered: Instant::now(),
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
fn an_error_is_expected_only_under_the_fault_that_causes_it() {
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
        Plan::Answer(1.into(), Answer::Expired),
        Plan::Answer(1.into(), Answer::Throttled),
        Plan::Answer(1.into(), Answer::Lost),
    ];
    let all: Vec<usize> = (0..plans.len()).collect();
    // (error, indexes of the plans that explain it)
    let cases: [(LoggedError, &[usize]); 17] = [
        (failed(REPLICA_SETS, "conflict"), &[6]),
        (failed(REPLICA_SETS, "server"), &[7]),
        (failed(REPLICA_SETS, "timeout"), &[8]),
        (failed(REPLICA_SETS, "status"), &[11]),
        (failed(REPLICA_SETS, "too_many_requests"), &[12]),
        (failed(REPLICA_SETS, "transport"), &[13]),
        (failed(REPLICA_SETS, "fenced"), &[1, 2, 3, 4]),
        (error(PODGC, "not_found", "pod not removed"), &[3, 4]),
        (failed(REPLICA_SETS, "not_found"), &[]),
        (failed(NAMESPACES, "discovery_incomplete"), &[10]),
        (failed(REPLICA_SETS, "discovery_incomplete"), &[]),
        (error(GARBAGE_COLLECTOR, "decision", GRAPH_NOT_SYNCED), &[8]),
        (error(REPLICA_SETS, "decision", GRAPH_NOT_SYNCED), &[]),
        (failed(GARBAGE_COLLECTOR, "decision"), &[]),
        (error(NAMESPACES, "decision", NO_RESOURCES), &[]),
        (failed(REPLICA_SETS, "as_the_scenario_says"), &all),
        (failed(PODGC, "as_the_scenario_says"), &[]),
    ];
    const SCENARIO: AllowedError =
        AllowedError::of(Category::Named(Decision("as_the_scenario_says")), 1).from(REPLICA_SETS);
    let scenario = scenario(Churn::None, &[SCENARIO], &[]);
    for (error, explained) in cases {
        for (at, plan) in plans.iter().enumerate() {
            let hit = ["update pods one".to_owned()];
            let left = unexpected(&scenario, plan, &hit, vec![error.clone()]);
            assert_eq!(left.is_empty(), explained.contains(&at), "{plan}: {left:?}");
        }
    }
}

#[test]
fn a_message_explains_no_error_of_a_failed_request_and_no_similar_message() {
    let allowed = AllowedError::with_message("lost", 1);
    assert!(allowed.allows(&error(PODGC, "decision", "lost")));
    for other in [
        error(PODGC, "server", "lost"),
        error(PODGC, "decision", "lost again"),
    ] {
        assert!(!allowed.allows(&other), "{other}");
    }
}

#[test]
fn a_process_may_end_only_after_failed_discovery() {
    let scenario = scenario(Churn::None, &[], &[]);
    let discovery = ["get /apis".to_owned()];
    let other = ["get nodes one".to_owned()];
    let refused = Plan::Answer(1.into(), Answer::Internal);
    let hidden = |group: &str| Plan::Hidden(group.into(), 1);
    let one = NEEDS_DISCOVERY;
    let another = "podgc";
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
        failed(NAMESPACES, "server"),
        error(NAMESPACES, "decision", NO_RESOURCES),
    ];
    let left = |group| unexpected(&scenario, &hidden(group), &discovery, nothing.to_vec()).len();
    assert_eq!((left("*"), left("apps")), (0, 2));
    let left = |hit| unexpected(&scenario, &refused, hit, nothing.to_vec()).len();
    assert_eq!((left(&discovery), left(&other)), (0, 1));
}

#[test]
fn a_fault_explains_a_limited_number_of_errors() {
    let conflict = || failed(REPLICA_SETS, "conflict");
    let late = || failed(GARBAGE_COLLECTOR, "timeout");
    let graph = || error(GARBAGE_COLLECTOR, "decision", GRAPH_NOT_SYNCED);
    let late_event = || {
        let message = "server rejected event (will not retry!)";
        error(EVENT_SENDER, "not_found", message)
    };
    let fenced = || failed(REPLICA_SETS, "fenced");
    let gone = || error(PODGC, "not_found", "pod not removed");
    let remains = || failed(NAMESPACES, "content_remains");
    let at_events = || Point::of("create", "events", 1);
    // (plan, errors, number of unexplained errors)
    let cases = [
        (
            Plan::Answer(1.into(), Answer::Conflict),
            vec![conflict()],
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Conflict),
            vec![conflict(); 2],
            1,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            vec![late(), graph()],
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            vec![late(), graph(), late()],
            1,
        ),
        (
            Plan::Answer(at_events(), Answer::Timeout),
            vec![late_event(); 3],
            0,
        ),
        (
            Plan::Answer(at_events(), Answer::Timeout),
            vec![late_event(); 4],
            1,
        ),
        (
            Plan::Answer(1.into(), Answer::Timeout),
            vec![late_event()],
            0,
        ),
        (
            Plan::Answer(1.into(), Answer::Internal),
            vec![late_event()],
            1,
        ),
        // Once for each task, and once for each pod in the stale view.
        (
            Plan::Crash(vec![(When::After, 1.into())]),
            vec![fenced(); 32],
            0,
        ),
        (
            Plan::Crash(vec![(When::After, 1.into())]),
            vec![fenced(); 33],
            1,
        ),
        (Plan::Stale(1.into(), 1), vec![gone(); 3], 0),
        (Plan::Stale(1.into(), 1), vec![gone(); 4], 1),
        // The scenario allows two errors, with and without a fault.
        (Plan::Nothing, vec![remains(); 2], 0),
        (Plan::Nothing, vec![remains(); 3], 1),
        (Plan::Stale(1.into(), 1), vec![remains(); 3], 1),
    ];
    const REMAINS: AllowedError =
        AllowedError::of(Category::Named(Decision("content_remains")), 2).from(NAMESPACES);
    let scenario = scenario(Churn::None, &[REMAINS], &[]);
    for (plan, errors, left) in cases {
        assert_eq!(
            unexpected(&scenario, &plan, &[], errors.clone()).len(),
            left,
            "{plan}: {errors:?}"
        );
    }
}

#[test]
fn other_samples_of_a_gauge_are_a_violation() {
    let samples = ["conflict{pod=\"a\"} 1".to_owned()].to_vec();
    assert_eq!(other_gauges([&samples, &samples]), None);
    for pair in [[&samples, &Vec::new()], [&Vec::new(), &samples]] {
        assert!(other_gauges(pair).is_some());
    }
}
