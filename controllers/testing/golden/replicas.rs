//! Transcripts of the ReplicaSet and ReplicationController controllers.
//!
//! Both controllers run the same code, so their scenarios share one implementation.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::{Recording, Scenario, Steps, Suite, run, template};
use crate::{replicaset, replicationcontroller};

const REPLICA_SETS: Suite = Suite {
    folder: "replicaset",
    controllers: &[replicaset::DESCRIPTOR],
    client: "replicaset-controller",
};

const REPLICATION_CONTROLLERS: Suite = Suite {
    folder: "replicationcontroller",
    controllers: &[replicationcontroller::DESCRIPTOR],
    client: "replication-controller",
};

const REPLICA_SET_SCENARIOS: &[Scenario] = &[
    ("create", "a ReplicaSet of three pods is created", |s| {
        create(s, SET)
    }),
    ("scale", "a ReplicaSet is scaled", |s| scale(s, SET)),
    (
        "min-ready-seconds",
        "a pod becomes available minReadySeconds after it is ready",
        |s| min_ready_seconds(s, SET),
    ),
    ("adopt-release", "pods are adopted and released", |s| {
        adopt_release(s, SET)
    }),
    ("failed-create", "a quota refuses pods for some time", |s| {
        failed_create(s, SET)
    }),
    (
        "failed-delete",
        "a pod cannot be deleted for some time",
        |s| failed_delete(s, SET),
    ),
    ("replacement", "pods fail and are deleted", |s| {
        replacement(s, SET)
    }),
    (
        "status-conflict",
        "a status update fails with a conflict",
        |s| status_conflict(s, SET),
    ),
    (
        "foreground-deletion",
        "a ReplicaSet is deleted in the foreground",
        |s| foreground_deletion(s, SET),
    ),
];

const REPLICATION_CONTROLLER_SCENARIOS: &[Scenario] = &[
    (
        "create",
        "a ReplicationController of three pods is created",
        |s| create(s, CONTROLLER),
    ),
    ("scale", "a ReplicationController is scaled", |s| {
        scale(s, CONTROLLER)
    }),
    ("adopt-release", "pods are adopted and released", |s| {
        adopt_release(s, CONTROLLER)
    }),
    ("failed-create", "a quota refuses pods for some time", |s| {
        failed_create(s, CONTROLLER)
    }),
    (
        "status-conflict",
        "a status update fails with a conflict",
        |s| status_conflict(s, CONTROLLER),
    ),
];

#[tokio::test(start_paused = true)]
async fn requests_of_the_replica_set_controller_equal_the_golden_files() {
    run(&REPLICA_SETS, REPLICA_SET_SCENARIOS).await;
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_replication_controller_equal_the_golden_files() {
    run(&REPLICATION_CONTROLLERS, REPLICATION_CONTROLLER_SCENARIOS).await;
}

/// A kind that owns pods.
#[derive(Clone, Copy)]
struct Kind {
    plural: &'static str,
    new: fn(i32) -> Value,
}

const SET: Kind = Kind {
    plural: "replicasets",
    new: |replicas| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")},
        })
    },
};

const CONTROLLER: Kind = Kind {
    plural: "replicationcontrollers",
    new: |replicas| {
        json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"app": "web"}, "template": template("one")},
        })
    },
};

impl Recording {
    /// Creates the owner and makes its pods ready, without recording.
    async fn settled(&mut self, owner: Value) {
        self.create(owner).await;
        self.skip("web is created").await;
        self.ready_all("one").await;
    }

    async fn resize(&self, kind: Kind, replicas: i32) {
        self.patch(kind.plural, "web", json!({"spec": {"replicas": replicas}}))
            .await;
    }
}

fn create(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        let mut owner = (kind.new)(3);
        let template = &mut owner["spec"]["template"];
        template["metadata"]["annotations"] = json!({"a": "b"});
        template["metadata"]["finalizers"] = json!(["example.com/f"]);
        s.create(owner).await;
        s.then("web is created").await;
        s.ready_one("one").await;
        s.then("a pod is ready").await;
        s
    })
}

fn scale(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        s.settled((kind.new)(2)).await;
        s.resize(kind, 3).await;
        s.then("web is scaled from 2 to 3").await;
        s.resize(kind, 2).await;
        s.then("web is scaled from 3 to 2").await;
        s.resize(kind, 0).await;
        s.then("web is scaled to 0").await;
        s
    })
}

fn min_ready_seconds(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        let mut owner = (kind.new)(1);
        owner["spec"]["minReadySeconds"] = json!(5);
        s.create(owner).await;
        s.skip("web is created").await;
        s.ready_one("one").await;
        s.within(
            "the pod becomes ready, and a second passes",
            Duration::from_secs(1),
        )
        .await;
        s.within("five more seconds pass", Duration::from_secs(5))
            .await;
        s
    })
}

fn adopt_release(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        for name in ["a", "b"] {
            let mut pod = template("one");
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!(name);
            s.create(pod).await;
        }
        s.skip("two pods without an owner are created").await;
        s.create((kind.new)(2)).await;
        s.then("web is created").await;
        s.patch(
            "pods",
            "a",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
        s.then("a pod gets another label").await;
        s.patch("pods", "a", json!({"metadata": {"labels": {"app": "web"}}}))
            .await;
        s.then("the pod gets its label back").await;
        s
    })
}

fn quota() -> Status {
    let message = "pods \"web-abcde\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    Status::new(403, "Forbidden", message)
}

fn failed_create(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        let rule = s
            .world
            .cluster
            .faults()
            .reject(Matcher::new("create", "pods"), quota(), None);
        s.create((kind.new)(4)).await;
        s.within(
            "web is created, and a quota refuses every pod",
            Duration::from_millis(50),
        )
        .await;
        s.world.cluster.faults().remove(rule);
        s.then("the quota is removed").await;
        s
    })
}

fn failed_delete(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        s.settled((kind.new)(1)).await;
        let refusal = Status::new(500, "InternalError", "Internal error occurred: no");
        s.world
            .cluster
            .faults()
            .reject(Matcher::new("delete", "pods"), refusal, Some(2));
        s.resize(kind, 0).await;
        s.then("web is scaled to 0; the first two attempts fail")
            .await;
        s
    })
}

fn replacement(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        s.settled((kind.new)(2)).await;
        let names: Vec<_> = s
            .pods("one")
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        s.world
            .pod_status(&names[0], json!({"phase": "Failed"}))
            .await;
        s.then("a pod fails").await;
        s.world.bind(&names[1], "node").await;
        s.world.delete("pods", &names[1]).await;
        s.then("a pod is terminating").await;
        s.world.kill(&names[1]).await;
        s.then("the pod is removed").await;
        s
    })
}

fn status_conflict(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        s.settled((kind.new)(1)).await;
        let conflict = Status::new(409, "Conflict", "the object has been modified");
        s.world.cluster.faults().reject(
            Matcher::new("update", kind.plural).subresource("status"),
            conflict,
            Some(1),
        );
        s.resize(kind, 2).await;
        s.then("web is scaled from 1 to 2; the first status update fails with a conflict")
            .await;
        s
    })
}

fn foreground_deletion(mut s: Recording, kind: Kind) -> Steps {
    Box::pin(async move {
        let mut owner = (kind.new)(2);
        owner["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        s.settled(owner).await;
        s.world.delete(kind.plural, "web").await;
        s.then("web is terminating").await;
        let pod = s.pods("one")[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        s.world.kill(&pod).await;
        s.then("one of its pods is removed").await;
        s
    })
}
