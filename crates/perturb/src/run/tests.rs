//! Controllers that are wrong, each in one way, and what a run says of them.

use std::future::Future;
use std::pin::Pin;

use serde_json::json;
use steersman_runtime::client::{ApiClient, Target};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::resource;

use super::story::{QUIET, STABLE};
use super::*;
use crate::scenario::{Churn, Step};

/// What a controller does until it is stopped.
type Work = fn(ApiClient) -> Pin<Box<dyn Future<Output = ()> + Send>>;

struct Only(Work, ApiClient);

impl Controller for Only {
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
    Ok(Box::new(Only(work, context.client(BASE.identity))))
}

const fn story(controllers: &'static [Descriptor], steps: fn() -> Vec<Step>) -> Scenario {
    Scenario {
        controller: "test",
        name: "story",
        controllers,
        configure: |context| context,
        nodes: 0,
        steps,
        churn: Churn::None,
        errors: &[],
        rules: &[],
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
    // A crash is one of the things that may come of it.
    let _ = client.create(target, &map).await;
}

fn made() -> Vec<Step> {
    vec![Step::until("made", |state| {
        state
            .all("configmaps")
            .any(|map| map["metadata"]["generateName"] == "made-")
    })]
}

fn told(violations: &[String], what: &str) {
    assert!(
        violations.iter().any(|violation| violation.contains(what)),
        "{what:?} is not in {violations:#?}"
    );
}

#[test]
fn a_controller_that_does_nothing_makes_no_progress() {
    static STORY: Scenario = story(&[BASE], made);
    told(&record(&STORY, 0).unwrap_err(), "progress: never made");
}

#[test]
fn a_controller_that_goes_on_writing_is_not_stable() {
    async fn every(client: ApiClient, pause: Duration) {
        loop {
            create_map(client.clone()).await;
            tokio::time::sleep(pause).await;
        }
    }
    // Seldom enough for the story to seem over.
    const SELDOM: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(every(c, STABLE / 2))),
        ..BASE
    };
    const OFTEN: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(every(c, QUIET / 2))),
        ..BASE
    };
    static CALM: Scenario = story(&[SELDOM], made);
    static HECTIC: Scenario = story(&[OFTEN], made);
    told(&record(&CALM, 0).unwrap_err(), "stability: after the end");
    told(&record(&HECTIC, 0).unwrap_err(), "progress: still writing");
}

#[test]
fn a_controller_that_goes_on_telling_the_same_is_not_stable() {
    async fn tell_seldom(client: ApiClient) {
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
            tokio::time::sleep(STABLE / 2).await;
        }
    }
    const TALKER: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(tell_seldom(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[TALKER], made);
    told(
        &record(&STORY, 0).unwrap_err(),
        "stability: after the end [\"create /api/v1/namespaces/default/events",
    );
}

#[test]
fn a_controller_that_never_pauses_is_held() {
    async fn hurry(client: ApiClient) {
        loop {
            create_map(client.clone()).await;
        }
    }
    const HURRIED: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(hurry(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[HURRIED], made);
    told(&record(&STORY, 0).unwrap_err(), "runaway: more than");
}

#[test]
fn a_controller_that_forgets_what_it_did_comes_to_another_end() {
    const FORGETFUL: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_map(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[FORGETFUL], made);
    let reference = record(&STORY, 0).unwrap();
    assert_eq!(reference.writes, 1);
    // (plan, what is wrong)
    let cases = [
        ("crash:before:1", None),
        ("crash:after:1", Some("progress: another end")),
        ("crash:after:1", Some("churn: configmaps created 2 times")),
        (
            "failover:after:1",
            Some("churn: configmaps created 2 times"),
        ),
        ("answer:1:500", Some("progress: never made")),
    ];
    for (plan, wrong) in cases {
        let outcome = run(&STORY, &plan.parse().unwrap(), &reference);
        assert!(outcome.met, "{plan}");
        match wrong {
            Some(wrong) => told(&outcome.violations, wrong),
            None => assert_eq!(outcome.violations, Vec::<String>::new(), "{plan}"),
        }
    }
}

#[test]
fn a_manager_whose_controller_ends_starts_anew_and_is_told_of() {
    /// Ends once there is one.
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
    static STORY: Scenario = story(&[ENDING], made);
    assert_eq!(
        record(&STORY, 0).unwrap_err(),
        ["ended by themselves: test"]
    );
}

#[test]
fn what_never_happens_is_not_met() {
    const CALM: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_map(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[CALM], made);
    let reference = record(&STORY, 0).unwrap();
    for plan in [
        "crash:before:2",
        "crash:before:1:before:2",
        "failover:after:9",
        "stale:9:1",
        "event:pods:1:drop",
        "answer:9:500",
    ] {
        let mut outcome = run(&STORY, &plan.parse().unwrap(), &reference);
        assert!(!outcome.met, "{plan}");
        assert_eq!(outcome.violations, Vec::<String>::new(), "{plan}");
        outcome.must_be_met();
        told(&outcome.violations, "not met");
    }
    assert!(
        run(
            &STORY,
            &"crash:before:1:before:1".parse().unwrap(),
            &reference
        )
        .met
    );
}

#[test]
fn a_controller_that_panics_is_noticed_twice() {
    async fn fall_over(client: ApiClient) {
        create_map(client).await;
        panic!("it fell over");
    }
    const CLUMSY: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(fall_over(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[CLUMSY], made);
    let violations = record(&STORY, 0).unwrap_err();
    told(&violations, "1 panics");
    told(&violations, "error in the log: task panicked");
}

#[test]
fn a_shuffle_draws_its_delays_from_its_own_number() {
    async fn create_many(client: ApiClient) {
        for _ in 0..20 {
            create_map(client.clone()).await;
        }
    }
    const BUSY: Descriptor = Descriptor {
        init: |context| build(context, |c| Box::pin(create_many(c))),
        ..BASE
    };
    static STORY: Scenario = story(&[BUSY], || {
        vec![Step::until("all made", |state| {
            state
                .all("configmaps")
                .filter(|map| map["metadata"]["generateName"] == "made-")
                .count()
                == 20
        })]
    });
    let reference = record(&STORY, 0).unwrap();
    let took = |seed| run(&STORY, &Plan::Shuffle(seed), &reference).virtual_time;
    assert_eq!(took(1), took(1));
    assert!(
        (2..6).any(|seed| took(seed) != took(1)),
        "every number gives the same delays"
    );
}
