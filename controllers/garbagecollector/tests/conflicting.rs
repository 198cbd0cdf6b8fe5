//! Upstream's `TestConflictingData`: references that contradict each other or their owner, applied
//! to the graph in every order.
//!
//! Here a proof of absence reaches the graph at once. Upstream queues it; a case that needs the
//! delay uses the step `Absent`.

use super::stage::Node::{Observed, Virtual};
use super::stage::Step::{
    self, Absent, Delete, Events, KnownAbsent, Nodes, Observe, OnlyRetries, Process, Remove,
};
use super::stage::{Id, Stage};

const POD1: Id = Id("v1", "Pod", "ns1", "podname1", "poduid1");
const POD1_NOWHERE: Id = Id("v1", "Pod", "", "podname1", "poduid1");
const POD2: Id = Id("v1", "Pod", "ns1", "podname2", "poduid2");
const POD2_NS2: Id = Id("v1", "Pod", "ns2", "podname2", "poduid2");
const NODE: Id = Id("v1", "Node", "", "nodename", "nodeuid1");
const NODE_NS1: Id = Id("v1", "Node", "ns1", "nodename", "nodeuid1");
/// One object in two API groups. Upstream's case uses a Role in two versions.
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
                Observe(POD1, &[NODE]),
                Nodes(&[Observed(POD1), Virtual(NODE_NS1)]),
                Process(NODE_NS1, &["get nodes/nodename 200"]),
                Nodes(&[Observed(POD1), Virtual(NODE_NS1)]),
                Observe(NODE, &[]),
                Nodes(&[Observed(POD1), Observed(NODE)]),
                Process(NODE_NS1, &[]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad child in ns1 -> owner in ns2 (child first)",
            &[(POD1, &[POD2]), (POD2_NS2, &[])],
            &[
                Observe(POD1, &[POD2_NS2]),
                Nodes(&[Observed(POD1), Virtual(POD2)]),
                Observe(POD2_NS2, &[]),
                Nodes(&[Observed(POD1), Observed(POD2_NS2)]),
                Events(POD1, &[NOT_IN_NS1]),
                Process(POD2, &[]),
                Process(
                    POD1,
                    &[
                        "get pods/podname1 200",
                        "get pods/podname2 404",
                        "delete pods/podname1 200",
                    ],
                ),
                KnownAbsent(&[POD2]),
                Remove(POD1, &[POD2]),
                Nodes(&[Observed(POD2_NS2)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad child in ns1 -> owner in ns2 (owner first)",
            &[(POD1, &[POD2]), (POD2_NS2, &[])],
            &[
                Observe(POD2_NS2, &[]),
                Observe(POD1, &[POD2]),
                Nodes(&[Observed(POD1), Observed(POD2_NS2)]),
                Events(POD1, &[NOT_IN_NS1]),
                Process(
                    POD1,
                    &[
                        "get pods/podname1 200",
                        "get pods/podname2 404",
                        "delete pods/podname1 200",
                    ],
                ),
                KnownAbsent(&[POD2]),
                Remove(POD1, &[POD2]),
                Nodes(&[Observed(POD2_NS2)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad cluster-scoped child -> owner in ns1 (child first)",
            &[(NODE, &[POD1]), (POD1, &[])],
            &[
                Observe(NODE, &[POD1]),
                Nodes(&[Observed(NODE), Virtual(POD1_NOWHERE)]),
                Process(POD1_NOWHERE, &[]),
                Observe(POD1, &[]),
                Nodes(&[Observed(NODE), Observed(POD1)]),
                Events(NODE, &[NOT_NOWHERE]),
                Process(NODE, &["get nodes/nodename 200"]),
                Nodes(&[Observed(NODE), Observed(POD1)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad cluster-scoped child -> owner in ns1 (owner first)",
            &[(NODE, &[POD1]), (POD1, &[])],
            &[
                Observe(POD1, &[]),
                Observe(NODE, &[POD1]),
                Nodes(&[Observed(NODE), Observed(POD1)]),
                Events(NODE, &[NOT_NOWHERE]),
                Process(NODE, &["get nodes/nodename 200"]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "cluster-scoped bad child, namespaced good child, missing parent",
            &[(POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                Observe(NODE, &[POD1_NOWHERE]),
                Observe(POD2, &[POD1]),
                Nodes(&[Observed(NODE), Observed(POD2), Virtual(POD1_NOWHERE)]),
                Process(POD1_NOWHERE, &[]),
                Process(
                    POD2,
                    &[
                        "get pods/podname2 200",
                        "get pods/podname1 404",
                        "delete pods/podname2 200",
                    ],
                ),
                KnownAbsent(&[POD1]),
                Remove(POD2, &[POD1]),
                Nodes(&[Observed(NODE), Virtual(POD1_NOWHERE)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "cluster-scoped bad child, namespaced good child, late observed parent",
            &[(POD1, &[]), (POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                Observe(NODE, &[POD1_NOWHERE]),
                Observe(POD2, &[POD1]),
                Process(POD1_NOWHERE, &[]),
                Process(POD2, &["get pods/podname2 200", "get pods/podname1 200"]),
                Nodes(&[Observed(NODE), Observed(POD2), Virtual(POD1_NOWHERE)]),
                Observe(POD1, &[]),
                Nodes(&[Observed(NODE), Observed(POD2), Observed(POD1)]),
                Events(NODE, &[NOT_NOWHERE]),
                Process(NODE, &["get nodes/nodename 200"]),
                Nodes(&[Observed(NODE), Observed(POD2), Observed(POD1)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "namespaced good child, cluster-scoped bad child, missing parent",
            &[(POD2, &[POD1]), (NODE, &[POD1_NOWHERE])],
            &[
                Observe(POD2, &[POD1]),
                Observe(NODE, &[POD1_NOWHERE]),
                Nodes(&[Observed(NODE), Observed(POD2), Virtual(POD1)]),
                Process(POD1, &["get pods/podname1 404"]),
                Nodes(&[Observed(NODE), Observed(POD2), Virtual(POD1_NOWHERE)]),
                KnownAbsent(&[POD1]),
                Process(NODE, &["get nodes/nodename 200"]),
                Process(POD2, &["get pods/podname2 200", "delete pods/podname2 200"]),
                Remove(POD2, &[POD1]),
                Process(POD1_NOWHERE, &[]),
                Nodes(&[Observed(NODE), Virtual(POD1_NOWHERE)]),
                OnlyRetries(&[]),
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
                Observe(POD1, &[EVENT_CORE]),
                Process(EVENT_CORE, &["get events/event1 200"]),
                Nodes(&[Observed(POD1), Virtual(EVENT_CORE)]),
                Observe(EVENT, &[]),
                Nodes(&[Observed(POD1), Observed(EVENT)]),
                Process(POD1, &["get pods/podname1 200", "get events/event1 200"]),
                Process(EVENT_CORE, &[]),
                Delete("events", EVENT_CORE),
                Remove(EVENT, &[]),
                Nodes(&[Observed(POD1)]),
                KnownAbsent(&[EVENT]),
                Process(POD1, &["get pods/podname1 200", "get events/event1 404", "delete pods/podname1 200"]),
                KnownAbsent(&[EVENT, EVENT_CORE]),
                Remove(POD1, &[EVENT_CORE]),
                Nodes(&[]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "child -> existing owner with inaccessible API version (child first)",
            &[(DEPLOYMENT, &[]), (POD1, &[DEPLOYMENT_EXTENSIONS])],
            &[
                Observe(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Process(DEPLOYMENT_EXTENSIONS, &[]),
                Nodes(&[Observed(POD1), Virtual(DEPLOYMENT_EXTENSIONS)]),
                Observe(DEPLOYMENT, &[]),
                Nodes(&[Observed(POD1), Observed(DEPLOYMENT)]),
                Process(POD1, &["get pods/podname1 200"]),
                OnlyRetries(&[POD1, DEPLOYMENT_EXTENSIONS]),
                Delete("deployments", DEPLOYMENT),
                Remove(DEPLOYMENT, &[]),
                Nodes(&[Observed(POD1)]),
                KnownAbsent(&[DEPLOYMENT]),
                OnlyRetries(&[POD1]),
            ],
        ),
        (
            "child -> existing owner with inaccessible API version (owner first)",
            &[(DEPLOYMENT, &[]), (POD1, &[DEPLOYMENT_EXTENSIONS])],
            &[
                Observe(DEPLOYMENT, &[]),
                Observe(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Nodes(&[Observed(POD1), Observed(DEPLOYMENT)]),
                Process(POD1, &["get pods/podname1 200"]),
                Delete("deployments", DEPLOYMENT),
                Remove(DEPLOYMENT, &[]),
                Nodes(&[Observed(POD1)]),
                KnownAbsent(&[DEPLOYMENT]),
                Process(POD1, &["get pods/podname1 200"]),
                OnlyRetries(&[POD1]),
            ],
        ),
        (
            "child -> non-existent owner with inaccessible API version (inaccessible parent apiVersion first)",
            &[(POD1, &[DEPLOYMENT_EXTENSIONS]), (POD2, &[DEPLOYMENT])],
            &[
                Observe(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Observe(POD2, &[DEPLOYMENT]),
                Nodes(&[Observed(POD1), Observed(POD2), Virtual(DEPLOYMENT_EXTENSIONS)]),
                Process(DEPLOYMENT_EXTENSIONS, &[]),
                Process(POD2, &["get pods/podname2 200", "get deployments/deployment1 404", "delete pods/podname2 200"]),
                KnownAbsent(&[DEPLOYMENT]),
                Remove(POD2, &[DEPLOYMENT]),
                Nodes(&[Observed(POD1), Virtual(DEPLOYMENT_EXTENSIONS)]),
                OnlyRetries(&[DEPLOYMENT_EXTENSIONS]),
            ],
        ),
        (
            "child -> non-existent owner with inaccessible API version (accessible parent apiVersion first)",
            &[(POD1, &[DEPLOYMENT_EXTENSIONS]), (POD2, &[DEPLOYMENT])],
            &[
                Observe(POD2, &[DEPLOYMENT]),
                Observe(POD1, &[DEPLOYMENT_EXTENSIONS]),
                Nodes(&[Observed(POD1), Observed(POD2), Virtual(DEPLOYMENT)]),
                Process(DEPLOYMENT, &["get deployments/deployment1 404"]),
                Nodes(&[Observed(POD1), Observed(POD2), Virtual(DEPLOYMENT_EXTENSIONS)]),
                KnownAbsent(&[DEPLOYMENT]),
                Process(POD1, &["get pods/podname1 200"]),
                Process(POD2, &["get pods/podname2 200", "delete pods/podname2 200"]),
                Process(DEPLOYMENT_EXTENSIONS, &[]),
                Remove(POD2, &[DEPLOYMENT]),
                Nodes(&[Observed(POD1), Virtual(DEPLOYMENT_EXTENSIONS)]),
                OnlyRetries(&[POD1, DEPLOYMENT_EXTENSIONS]),
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
                Observe(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Observe(GOOD_CHILD, &[DEPLOYMENT]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Virtual(SECRET_WITH_ITS_UID)]),
                Process(SECRET_WITH_ITS_UID, &["get secrets/secretname 404"]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Virtual(DEPLOYMENT)]),
                KnownAbsent(&[SECRET_WITH_ITS_UID]),
                Process(GOOD_CHILD, &["get pods/goodpod 200", "get deployments/deployment1 200"]),
                Process(BAD_CHILD, &["get pods/badpod 200", "delete pods/badpod 200"]),
                Process(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Virtual(DEPLOYMENT)]),
                Observe(DEPLOYMENT, &[]),
                Remove(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Nodes(&[Observed(GOOD_CHILD), Observed(DEPLOYMENT)]),
                Process(DEPLOYMENT, &["get deployments/deployment1 200"]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad child -> existing owner with incorrect API version (bad child, good child, good parent, bad parent delete)",
            WRONG_KIND,
            &[
                Observe(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Observe(GOOD_CHILD, &[DEPLOYMENT]),
                Observe(DEPLOYMENT, &[]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Observed(DEPLOYMENT)]),
                Absent(SECRET_WITH_ITS_UID),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Observed(DEPLOYMENT)]),
                KnownAbsent(&[SECRET_WITH_ITS_UID]),
                Process(SECRET_WITH_ITS_UID, &[]),
                Process(GOOD_CHILD, &["get pods/goodpod 200", "get deployments/deployment1 200"]),
                Process(BAD_CHILD, &["get pods/badpod 200", "delete pods/badpod 200"]),
                Remove(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Nodes(&[Observed(GOOD_CHILD), Observed(DEPLOYMENT)]),
                OnlyRetries(&[]),
            ],
        ),
        (
            "bad child -> existing owner with incorrect API version (good child, bad child, good parent)",
            WRONG_KIND,
            &[
                Observe(GOOD_CHILD, &[DEPLOYMENT]),
                Observe(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Virtual(DEPLOYMENT)]),
                Process(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Process(BAD_CHILD, &["get pods/badpod 200", "get secrets/secretname 404", "delete pods/badpod 200"]),
                KnownAbsent(&[SECRET_WITH_ITS_UID]),
                Observe(DEPLOYMENT, &[]),
                Nodes(&[Observed(GOOD_CHILD), Observed(BAD_CHILD), Observed(DEPLOYMENT)]),
                Remove(BAD_CHILD, &[SECRET_WITH_ITS_UID]),
                Process(DEPLOYMENT, &["get deployments/deployment1 200"]),
                Nodes(&[Observed(GOOD_CHILD), Observed(DEPLOYMENT)]),
                OnlyRetries(&[]),
            ],
        ),
    ])
    .await;
}
