//! Upstream's `TestConflictingData`: references that contradict each other or the object they mean,
//! told to the graph in every order. A proof of absence reaches the graph at once here, where
//! upstream queues it; a case that needs it late says so with `Absent`.

use super::stage::Node::{Heard, Known};
use super::stage::Step::{self, Absent, Looks, Lose, Remembered, Rest, See, Told, Unload, Work};
use super::stage::{Id, Stage};

const POD1: Id = Id("v1", "Pod", "ns1", "podname1", "poduid1");
const POD1_NOWHERE: Id = Id("v1", "Pod", "", "podname1", "poduid1");
const POD2: Id = Id("v1", "Pod", "ns1", "podname2", "poduid2");
const POD2_NS2: Id = Id("v1", "Pod", "ns2", "podname2", "poduid2");
const NODE: Id = Id("v1", "Node", "", "nodename", "nodeuid1");
const NODE_NS1: Id = Id("v1", "Node", "ns1", "nodename", "nodeuid1");
/// One object in two groups, in the place of upstream's role in two versions.
const EVENT: Id = Id("events.k8s.io/v1", "Event", "ns1", "event1", "eventuid1");
const EVENT_CORE: Id = Id("v1", "Event", "ns1", "event1", "eventuid1");
const DEPLOYMENT: Id = Id(
    "apps/v1",
    "Deployment",
    "ns1",
    "deployment1",
    "deploymentuid1",
);
const DEPLOYMENT_EXTENSIONS: Id = Id(
    "extensions/v1beta1",
    "Deployment",
    "ns1",
    "deployment1",
    "deploymentuid1",
);
const SECRET_WITH_ITS_UID: Id = Id("v1", "Secret", "ns1", "secretname", "deploymentuid1");
const BAD_CHILD: Id = Id("v1", "Pod", "ns1", "badpod", "badpoduid");
const GOOD_CHILD: Id = Id("v1", "Pod", "ns1", "goodpod", "goodpoduid");

type Case = (
    &'static str,
    &'static [(Id, &'static [Id])],
    &'static [Step],
);

async fn play(cases: &[Case]) {
    for (name, objects, steps) in cases {
        let stage = Stage::new(objects).await;
        for step in *steps {
            eprintln!("{name}: {step:?}");
            stage.take(*step).await;
        }
    }
}

const NOT_IN_NS1: &str = r#"ownerRef [v1/Pod, namespace: ns1, name: podname2, uid: poduid2] does not exist in namespace "ns1""#;
const NOT_NOWHERE: &str = r#"ownerRef [v1/Pod, namespace: , name: podname1, uid: poduid1] does not exist in namespace """#;

#[tokio::test(start_paused = true)]
async fn owners_elsewhere() {
    play(&[
        (
            "good child in ns1 -> cluster-scoped owner",
            &[(NODE, &[]), (POD1, &[NODE])],
            &[
                See(POD1, &[NODE]),
                Looks(&[Known(POD1), Heard(NODE_NS1)]),
                Work(NODE_NS1, &["get nodes/nodename 200"]),
                Looks(&[Known(POD1), Heard(NODE_NS1)]),
                See(NODE, &[]),
                Looks(&[Known(POD1), Known(NODE)]),
                Work(NODE_NS1, &[]),
                Rest(&[]),
            ],
        ),
        (
            "bad child in ns1 -> owner in ns2 (child first)",
            &[(POD1, &[POD2]), (POD2_NS2, &[])],
            &[
                See(POD1, &[POD2_NS2]),
                Looks(&[Known(POD1), Heard(POD2)]),
                See(POD2_NS2, &[]),
                Looks(&[Known(POD1), Known(POD2_NS2)]),
                Told(POD1, &[NOT_IN_NS1]),
                Work(POD2, &[]),
                Work(
                    POD1,
                    &[
                        "get pods/podname1 200",
                        "get pods/podname2 404",
                        "delete pods/podname1 200",
                    ],
                ),
                Remembered(&[POD2]),
                Lose(POD1, &[POD2]),
                Looks(&[Known(POD2_NS2)]),
                Rest(&[]),
            ],
        ),
        (
            "bad child in ns1 -> owner in ns2 (owner first)",
            &[(POD1, &[POD2]), (POD2_NS2, &[])],
            &[
                See(POD2_NS2, &[]),
                See(POD1, &[POD2]),
                Looks(&[Known(POD1), Known(POD2_NS2)]),
                Told(POD1, &[NOT_IN_NS1]),
                Work(
                    POD1,
                    &[
                        "get pods/podname1 200",
                        "get pods/podname2 404",
                        "delete pods/podname1 200",
                    ],
                ),
                Remembered(&[POD2]),
                Lose(POD1, &[POD2]),
                Looks(&[Known(POD2_NS2)]),
                Rest(&[]),
            ],
        ),
        (
            "bad cluster-scoped child -> owner in ns1 (child first)",
            &[(NODE, &[POD1]), (POD1, &[])],
            &[
                See(NODE, &[POD1]),
                Looks(&[Known(NODE), Heard(POD1_NOWHERE)]),
                Work(POD1_NOWHERE, &[]),
                See(POD1, &[]),
                Looks(&[Known(NODE), Known(POD1)]),
                Told(NODE, &[NOT_NOWHERE]),
                Work(NODE, &["get nodes/nodename 200"]),
                Looks(&[Known(NODE), Known(POD1)]),
                Rest(&[]),
            ],
        ),
        (
            "bad cluster-scoped child -> owner in ns1 (owner first)",
            &[(NODE, &[POD1]), (POD1, &[])],
            &[
                See(POD1, &[]),
                See(NODE, &[POD1]),
                Looks(&[Known(NODE), Known(POD1)]),
                Told(NODE, &[NOT_NOWHERE]),
                Work(NODE, &["get nodes/nodename 200"]),
                Rest(&[]),
            ],
        ),
        (
            "cluster-scoped bad child, namespaced good child, missing parent",
            &[(POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                See(NODE, &[POD1_NOWHERE]),
                See(POD2, &[POD1]),
                Looks(&[Known(NODE), Known(POD2), Heard(POD1_NOWHERE)]),
                Work(POD1_NOWHERE, &[]),
                Work(
                    POD2,
                    &[
                        "get pods/podname2 200",
                        "get pods/podname1 404",
                        "delete pods/podname2 200",
                    ],
                ),
                Remembered(&[POD1]),
                Lose(POD2, &[POD1]),
                Looks(&[Known(NODE), Heard(POD1_NOWHERE)]),
                Rest(&[]),
            ],
        ),
        (
            "cluster-scoped bad child, namespaced good child, late observed parent",
            &[(POD1, &[]), (POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                See(NODE, &[POD1_NOWHERE]),
                See(POD2, &[POD1]),
                Work(POD1_NOWHERE, &[]),
                Work(POD2, &["get pods/podname2 200", "get pods/podname1 200"]),
                Looks(&[Known(NODE), Known(POD2), Heard(POD1_NOWHERE)]),
                See(POD1, &[]),
                Looks(&[Known(NODE), Known(POD2), Known(POD1)]),
                Told(NODE, &[NOT_NOWHERE]),
                Work(NODE, &["get nodes/nodename 200"]),
                Looks(&[Known(NODE), Known(POD2), Known(POD1)]),
                Rest(&[]),
            ],
        ),
        (
            "namespaced good child, cluster-scoped bad child, missing parent",
            &[(POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                See(POD2, &[POD1]),
                See(NODE, &[POD1_NOWHERE]),
                Looks(&[Known(NODE), Known(POD2), Heard(POD1)]),
                Work(POD1, &["get pods/podname1 404"]),
                Looks(&[Known(NODE), Known(POD2), Heard(POD1_NOWHERE)]),
                Remembered(&[POD1]),
                Work(NODE, &["get nodes/nodename 200"]),
                Work(POD2, &["get pods/podname2 200", "delete pods/podname2 200"]),
                Lose(POD2, &[POD1]),
                Work(POD1_NOWHERE, &[]),
                Looks(&[Known(NODE), Heard(POD1_NOWHERE)]),
                Rest(&[]),
            ],
        ),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn owners_in_other_versions() {
    play(&[
        (
            "good child -> existing owner with non-preferred accessible API version",
            &[(EVENT_CORE, &[]), (POD1, &[EVENT_CORE])],
            &[
                See(POD1, &[EVENT_CORE]),
                Work(EVENT_CORE, &["get events/event1 200"]),
                Looks(&[Known(POD1), Heard(EVENT_CORE)]),
                See(EVENT, &[]),
                Looks(&[Known(POD1), Known(EVENT)]),
                Work(POD1, &["get pods/podname1 200", "get events/event1 200"]),
                Work(EVENT_CORE, &[]),
                Unload("events", EVENT_CORE),
                Lose(EVENT, &[]),
                Looks(&[Known(POD1)]),
                Remembered(&[EVENT]),
                Work(POD1, &["get pods/podname1 200", "get events/event1 404", "delete pods/podname1 200"]),
                Remembered(&[EVENT, EVENT_CORE]),
                Lose(POD1, &[EVENT_CORE]),
                Looks(&[]),
                Rest(&[]),
            ],
        ),
        (
            "child -> existing owner with inaccessible API version (child first)",
            &[(DEPLOYMENT, &[]), (POD1, &[DEPLOYMENT_EXTENSIONS])],
            &[
                See(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Work(DEPLOYMENT_EXTENSIONS, &[]),
                Looks(&[Known(POD1), Heard(DEPLOYMENT_EXTENSIONS)]),
                See(DEPLOYMENT, &[]),
                Looks(&[Known(POD1), Known(DEPLOYMENT)]),
                Work(POD1, &["get pods/podname1 200"]),
                Rest(&[POD1, DEPLOYMENT_EXTENSIONS]),
                Unload("deployments", DEPLOYMENT),
                Lose(DEPLOYMENT, &[]),
                Looks(&[Known(POD1)]),
                Remembered(&[DEPLOYMENT]),
                Rest(&[POD1]),
            ],
        ),
        (
            "child -> existing owner with inaccessible API version (owner first)",
            &[(DEPLOYMENT, &[]), (POD1, &[DEPLOYMENT_EXTENSIONS])],
            &[
                See(DEPLOYMENT, &[]),
                See(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Looks(&[Known(POD1), Known(DEPLOYMENT)]),
                Work(POD1, &["get pods/podname1 200"]),
                Unload("deployments", DEPLOYMENT),
                Lose(DEPLOYMENT, &[]),
                Looks(&[Known(POD1)]),
                Remembered(&[DEPLOYMENT]),
                Work(POD1, &["get pods/podname1 200"]),
                Rest(&[POD1]),
            ],
        ),
        (
            "child -> non-existent owner with inaccessible API version (inaccessible parent apiVersion first)",
            &[(POD1, &[DEPLOYMENT_EXTENSIONS]), (POD2, &[DEPLOYMENT])],
            &[
                See(POD1, &[DEPLOYMENT_EXTENSIONS]),
                See(POD2, &[DEPLOYMENT]),
                Looks(&[Known(POD1), Known(POD2), Heard(DEPLOYMENT_EXTENSIONS)]),
                Work(DEPLOYMENT_EXTENSIONS, &[]),
                Work(POD2, &["get pods/podname2 200", "get deployments/deployment1 404", "delete pods/podname2 200"]),
                Remembered(&[DEPLOYMENT]),
                Lose(POD2, &[DEPLOYMENT]),
                Looks(&[Known(POD1), Heard(DEPLOYMENT_EXTENSIONS)]),
                Rest(&[DEPLOYMENT_EXTENSIONS]),
            ],
        ),
        (
            "child -> non-existent owner with inaccessible API version (accessible parent apiVersion first)",
            &[(POD1, &[DEPLOYMENT_EXTENSIONS]), (POD2, &[DEPLOYMENT])],
            &[
                See(POD2, &[DEPLOYMENT]),
                See(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Looks(&[Known(POD1), Known(POD2), Heard(DEPLOYMENT)]),
                Work(DEPLOYMENT, &["get deployments/deployment1 404"]),
                Looks(&[Known(POD1), Known(POD2), Heard(DEPLOYMENT_EXTENSIONS)]),
                Remembered(&[DEPLOYMENT]),
                Work(POD1, &["get pods/podname1 200"]),
                Work(POD2, &["get pods/podname2 200", "delete pods/podname2 200"]),
                Work(DEPLOYMENT_EXTENSIONS, &[]),
                Lose(POD2, &[DEPLOYMENT]),
                Looks(&[Known(POD1), Heard(DEPLOYMENT_EXTENSIONS)]),
                Rest(&[POD1, DEPLOYMENT_EXTENSIONS]),
            ],
        ),
    ])
    .await;
}

const WRONG_KIND: &[(Id, &[Id])] = &[
    (DEPLOYMENT, &[]),
    (BAD_CHILD, &[SECRET_WITH_ITS_UID]),
    (GOOD_CHILD, &[DEPLOYMENT]),
];

#[tokio::test(start_paused = true)]
async fn owners_of_another_kind() {
    play(&[
        (
            "bad child -> existing owner with incorrect API version (bad child, good child, bad parent delete, good parent)",
            WRONG_KIND,
            &[
                See(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                See(GOOD_CHILD, &[DEPLOYMENT]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Heard(SECRET_WITH_ITS_UID)]),
                Work(SECRET_WITH_ITS_UID, &["get secrets/secretname 404"]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Heard(DEPLOYMENT)]),
                Remembered(&[SECRET_WITH_ITS_UID]),
                Work(GOOD_CHILD, &["get pods/goodpod 200", "get deployments/deployment1 200"]),
                Work(BAD_CHILD, &["get pods/badpod 200", "delete pods/badpod 200"]),
                Work(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Heard(DEPLOYMENT)]),
                See(DEPLOYMENT, &[]),
                Lose(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Looks(&[Known(GOOD_CHILD), Known(DEPLOYMENT)]),
                Work(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Rest(&[]),
            ],
        ),
        (
            "bad child -> existing owner with incorrect API version (bad child, good child, good parent, bad parent delete)",
            WRONG_KIND,
            &[
                See(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                See(GOOD_CHILD, &[DEPLOYMENT]),
                See(DEPLOYMENT, &[]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Known(DEPLOYMENT)]),
                Absent(SECRET_WITH_ITS_UID),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Known(DEPLOYMENT)]),
                Remembered(&[SECRET_WITH_ITS_UID]),
                Work(SECRET_WITH_ITS_UID, &[]),
                Work(GOOD_CHILD, &["get pods/goodpod 200", "get deployments/deployment1 200"]),
                Work(BAD_CHILD, &["get pods/badpod 200", "delete pods/badpod 200"]),
                Lose(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Looks(&[Known(GOOD_CHILD), Known(DEPLOYMENT)]),
                Rest(&[]),
            ],
        ),
        (
            "bad child -> existing owner with incorrect API version (good child, bad child, good parent)",
            WRONG_KIND,
            &[
                See(GOOD_CHILD, &[DEPLOYMENT]),
                See(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Heard(DEPLOYMENT)]),
                Work(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Work(BAD_CHILD, &["get pods/badpod 200", "get secrets/secretname 404", "delete pods/badpod 200"]),
                Remembered(&[SECRET_WITH_ITS_UID]),
                See(DEPLOYMENT, &[]),
                Looks(&[Known(GOOD_CHILD), Known(BAD_CHILD), Known(DEPLOYMENT)]),
                Lose(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Work(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Looks(&[Known(GOOD_CHILD), Known(DEPLOYMENT)]),
                Rest(&[]),
            ],
        ),
    ])
    .await;
}
