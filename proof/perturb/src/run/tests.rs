//! Faulty controllers, each with one bug, and the violations that a run must report for them.

use std::future::Future;
use std::pin::Pin;

use serde_json::json;
use steersman_client::{ApiClient, Category, Target};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_values::resource;

use super::*;
use crate::scenario::{Churn, Step};

/// The work of a test controller.
type Work = fn(ApiClient) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller that does its work once and then waits until it is stopped.
struct Worker(Work, ApiClient);

impl Controller for Worker {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            stop.run_until_cancelled((self.0)(self.1)).await;
            stop.cancelled().await;
        })
    }
}

const BASE: Descriptor = Descriptor {
    name: "test",
    aliases: &[],
    enabled_by_default: true,
    summary: "",
    identity: "test",
    rules: &[],
    reads: &[],
    init: |context| build(context, |_| Box::pin(std::future::ready(()))),
};

fn build(context: &ControllerContext, work: Work) -> Result<Box<dyn Controller>, InitError> {
    Ok(Box::new(Worker(work, context.client(BASE.identity))))
}

const fn scenario(controllers: &'static [Descriptor], steps: fn() -> Vec<Step>) -> Scenario {
    Scenario {
        controller: "test",
        name: "scenario",
        controllers,
        configure: |context| context,
        nodes: 0,
        before: Vec::new,
        steps,
        churn: Churn::None,
        errors: &[],
        rules: &[],
        final_rules: &[],
        gauges: &[],
    }
}

async fn create_map(client: ApiClient) {
    let target = Target {
        resource: &resource::CONFIG_MAPS,
        namespace: Some("default"),
        name: None,
        subresource: None,
    };
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    // Faults may make it fail, and no controller here retries.
    let _ = client.create(target, &map).await;
}

fn made() -> Vec<Step> {
    vec![Step::until("made", |state| {
        state
            .all("configmaps")
            .any(|map| map["metadata"]["generateName"] == "made-")
    })]
}

fn assert_violation(violations: &[String], text: &str) {
    assert!(
        violations.iter().any(|violation| violation.contains(text)),
        "{text:?} is not in {violations:#?}"
    );
}

#[test]
fn an_idle_controller_makes_no_progress() {
    static SCENARIO: Scenario = scenario(&[BASE], made);
    assert_violation(
        &record(&SCENARIO, 0, &Subject::InProcess).unwrap_err(),
        "progress: state \"made\" not reached",
    );
}

#[test]
fn a_controller_that_keeps_writing_is_not_stable() {
    async fn every(client: ApiClient, pause: Duration) {
        loop {
            create_map(client.clone()).await;
            tokio::time::sleep(pause).await;
        }
    }
    // Longer than the quiet time, so that the run seems to be in its final state.
    const SELDOM: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(every(c, Pace::PAUSED.stable / 2))),
        ..BASE
    };
    const OFTEN: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(every(c, Pace::PAUSED.quiet / 2))),
        ..BASE
    };
    static RARE_WRITES: Scenario = scenario(&[SELDOM], made);
    static FREQUENT_WRITES: Scenario = scenario(&[OFTEN], made);
    assert_violation(
        &record(&RARE_WRITES, 0, &Subject::InProcess).unwrap_err(),
        "stability: changes after the final state",
    );
    assert_violation(
        &record(&FREQUENT_WRITES, 0, &Subject::InProcess).unwrap_err(),
        "progress: still writing",
    );
}

#[test]
fn a_controller_that_keeps_sending_events_is_not_stable() {
    async fn send_events(client: ApiClient) {
        create_map(client.clone()).await;
        let target = Target {
            resource: &resource::EVENTS,
            namespace: Some("default"),
            name: None,
            subresource: None,
        };
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "made-", "namespace": "default"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "made"}, "reason": "Made",
        });
        loop {
            client.create(target, &event).await.unwrap();
            tokio::time::sleep(Pace::PAUSED.stable / 2).await;
        }
    }
    const SENDER: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(send_events(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[SENDER], made);
    assert_violation(
        &record(&SCENARIO, 0, &Subject::InProcess).unwrap_err(),
        "stability: changes after the final state [\"create /api/v1/namespaces/default/events",
    );
}

#[test]
fn a_controller_that_writes_without_pause_is_stopped() {
    async fn write_forever(client: ApiClient) {
        loop {
            create_map(client.clone()).await;
        }
    }
    const WRITER: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(write_forever(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[WRITER], made);
    assert_violation(
        &record(&SCENARIO, 0, &Subject::InProcess).unwrap_err(),
        "runaway: more than",
    );
}

#[test]
fn a_controller_without_memory_reaches_another_final_state_after_a_crash() {
    const STATELESS: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_map(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[STATELESS], made);
    let reference = record(&SCENARIO, 0, &Subject::InProcess).unwrap();
    assert_eq!(reference.writes, 1);
    // (plan, expected violation)
    let cases = [
        ("crash:before:1", None),
        ("crash:after:1", Some("progress: another final state")),
        ("crash:after:1", Some("churn: configmaps created 2 times")),
        (
            "failover:after:1",
            Some("churn: configmaps created 2 times"),
        ),
        ("answer:1:500", Some("progress: state \"made\" not reached")),
    ];
    for (plan, violation) in cases {
        let outcome = run(&SCENARIO, &plan.parse().unwrap(), &reference);
        assert!(outcome.met, "{plan}");
        match violation {
            Some(violation) => assert_violation(&outcome.violations, violation),
            None => assert_eq!(outcome.violations, Vec::<String>::new(), "{plan}"),
        }
    }
}

#[test]
fn a_controller_that_returns_restarts_its_manager_and_is_reported() {
    /// Creates the object and returns; after the restart, finds it and waits.
    struct Ending(ApiClient);

    impl Controller for Ending {
        fn run(
            self: Box<Self>,
            stop: CancellationToken,
        ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                let name = Some("made");
                let target = Target {
                    resource: &resource::CONFIG_MAPS,
                    namespace: Some("default"),
                    name,
                    subresource: None,
                };
                if self.0.get(target).await.is_ok() {
                    return stop.cancelled().await;
                }
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "generateName": "made-"}});
                self.0
                    .create(
                        Target {
                            name: None,
                            ..target
                        },
                        &map,
                    )
                    .await
                    .unwrap();
            })
        }
    }
    const ENDING: Descriptor = Descriptor {
        init: |context| Ok(Box::new(Ending(context.client(BASE.identity)))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[ENDING], made);
    assert_eq!(
        record(&SCENARIO, 0, &Subject::InProcess).unwrap_err(),
        ["controllers ended by themselves: test"]
    );
}

#[test]
fn a_plan_with_an_unreached_point_is_not_met() {
    const ONE_WRITE: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_map(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[ONE_WRITE], made);
    let reference = record(&SCENARIO, 0, &Subject::InProcess).unwrap();
    for plan in [
        "crash:before:2",
        "crash:before:1:before:2",
        "failover:after:9",
        "stale:9:1",
        "event:pods:1:drop",
        "answer:9:500",
    ] {
        let mut outcome = run(&SCENARIO, &plan.parse().unwrap(), &reference);
        assert!(!outcome.met, "{plan}");
        assert_eq!(outcome.violations, Vec::<String>::new(), "{plan}");
        outcome.must_be_met();
        assert_violation(&outcome.violations, "not met");
    }
    assert!(
        run(
            &SCENARIO,
            &"crash:before:1:before:1".parse().unwrap(),
            &reference
        )
        .met
    );
}

#[test]
fn a_panic_is_counted_and_logged() {
    async fn panic(client: ApiClient) {
        create_map(client).await;
        panic!("injected panic");
    }
    const PANICKING: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(panic(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[PANICKING], made);
    let violations = record(&SCENARIO, 0, &Subject::InProcess).unwrap_err();
    assert_violation(&violations, "1 panics");
    assert_violation(&violations, "error in the log: task panicked");
}

#[test]
fn a_fault_explains_one_log_error_of_its_category() {
    /// Creates a ConfigMap at the second attempt at the latest, and logs `times` errors before it.
    async fn create_after_errors(client: ApiClient, times: usize) {
        let target = Target {
            resource: &resource::CONFIG_MAPS,
            namespace: Some("default"),
            name: None,
            subresource: None,
        };
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
        while let Err(error) = client.create(target, &map).await {
            for _ in 0..times {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "not created");
            }
        }
    }
    const ONE_ERROR: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_after_errors(c, 1))),
        ..BASE
    };
    const TWO_ERRORS: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_after_errors(c, 2))),
        ..BASE
    };
    static EXPLAINED: Scenario = scenario(&[ONE_ERROR], made);
    static UNEXPLAINED: Scenario = scenario(&[TWO_ERRORS], made);
    let plan = "answer:1:500".parse().unwrap();
    let violations = |scenario: &'static Scenario| {
        run(
            scenario,
            &plan,
            &record(scenario, 0, &Subject::InProcess).unwrap(),
        )
        .violations
    };
    assert_eq!(violations(&EXPLAINED), Vec::<String>::new());
    let left = violations(&UNEXPLAINED);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_violation(&left, "error in the log: not created error=");
    assert_violation(&left, "(server in test ");
}

#[test]
fn each_shuffle_has_its_own_delays() {
    async fn create_many(client: ApiClient) {
        for _ in 0..20 {
            create_map(client.clone()).await;
        }
    }
    const BUSY: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_many(c))),
        ..BASE
    };
    static SCENARIO: Scenario = scenario(&[BUSY], || {
        vec![Step::until("all made", |state| {
            state
                .all("configmaps")
                .filter(|map| map["metadata"]["generateName"] == "made-")
                .count()
                == 20
        })]
    });
    let reference = record(&SCENARIO, 0, &Subject::InProcess).unwrap();
    let took = |seed| run(&SCENARIO, &Plan::Shuffle(seed), &reference).virtual_time;
    assert_eq!(took(1), took(1));
    assert!(
        (2..6).any(|seed| took(seed) != took(1)),
        "every seed gives the same delays"
    );
}
