//! Transcripts of the Deployment controller.
//!
//! The ReplicaSet controller runs too, so that pods exist; `replicas.rs` records its requests.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::{Recording, Scenario, Steps, Suite, run, template};
use crate::{deployment, replicaset};

const SUITE: Suite = Suite {
    folder: "deployment",
    controllers: &[deployment::DESCRIPTOR, replicaset::DESCRIPTOR],
    client: "deployment-controller",
};

const SCENARIOS: &[Scenario] = &[
    ("create", "a Deployment of two pods is created", create),
    (
        "rolling-update",
        "a Deployment of three pods gets another image",
        rolling_update,
    ),
    (
        "recreate",
        "a Deployment of strategy Recreate gets another image",
        recreate,
    ),
    ("scale", "a Deployment is scaled", scale),
    (
        "scale-mid-roll",
        "a Deployment is scaled in the middle of a rollout",
        scale_mid_roll,
    ),
    ("undo", "a rollout is undone, as with kubectl", undo),
    (
        "rollback-annotation",
        "a rollback is requested by annotation",
        rollback_annotation,
    ),
    (
        "pause-resume",
        "a Deployment is paused, changed, and resumed",
        pause_resume,
    ),
    (
        "adopt-release",
        "a ReplicaSet is adopted and released",
        adopt_release,
    ),
    (
        "failed-create",
        "ReplicaSets cannot be created for some time",
        failed_create,
    ),
    (
        "hash-collision",
        "another ReplicaSet has the name of the new one",
        hash_collision,
    ),
    (
        "deadline",
        "a rollout misses its progress deadline and recovers",
        deadline,
    ),
    ("failing-pods", "pods cannot be created", failing_pods),
    (
        "history",
        "there are more old ReplicaSets than the history limit",
        history,
    ),
    (
        "annotations",
        "annotations and minReadySeconds change",
        annotations,
    ),
    (
        "foreground-deletion",
        "a Deployment is deleted in the foreground",
        foreground_deletion,
    ),
];

#[tokio::test(start_paused = true)]
async fn requests_of_the_deployment_controller_equal_the_golden_files() {
    run(&SUITE, SCENARIOS).await;
}

fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")},
    })
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"][field] = value;
    object
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

impl Recording {
    /// Creates the Deployment and waits for its rollout, without recording.
    async fn rolled_out(&mut self, deployment: Value) {
        self.create(deployment).await;
        self.skip("web is created").await;
        self.ready_all("one").await;
    }

    async fn edit(&self, changes: Value) {
        self.patch("deployments", "web", changes).await;
    }

    /// Makes the new pods ready one by one, and records each step.
    async fn roll(&mut self, image: &str, replicas: usize) {
        for _ in 0..replicas {
            self.ready_one(image).await;
            self.then("a new pod is ready").await;
        }
    }
}

fn create(mut s: Recording) -> Steps {
    Box::pin(async move {
        let mut d = web(2);
        d["metadata"]["annotations"] =
            json!({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
        s.create(d).await;
        s.then("web is created").await;
        s.roll("one", 2).await;
        s
    })
}

fn rolling_update(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(web(3)).await;
        s.edit(image("two")).await;
        s.then("the image is changed").await;
        s.roll("two", 3).await;
        s
    })
}

fn recreate(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.create(with(web(2), "strategy", json!({"type": "Recreate"})))
            .await;
        s.skip("web is created").await;
        for pod in s.pods("one") {
            s.world
                .bind(pod["metadata"]["name"].as_str().unwrap(), "node")
                .await;
        }
        s.ready_all("one").await;
        let old = s.pods("one");
        s.edit(image("two")).await;
        s.then("the image is changed").await;
        for pod in old {
            s.world
                .kill(pod["metadata"]["name"].as_str().unwrap())
                .await;
            s.then("an old pod is removed").await;
        }
        s.roll("two", 2).await;
        s
    })
}

fn scale(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(web(1)).await;
        s.edit(json!({"spec": {"replicas": 2}})).await;
        s.then("web is scaled from 1 to 2").await;
        s.roll("one", 1).await;
        s.edit(json!({"spec": {"replicas": 1}})).await;
        s.then("web is scaled from 2 to 1").await;
        s.edit(json!({"spec": {"replicas": 0}})).await;
        s.then("web is scaled to 0").await;
        s.edit(json!({"spec": {"replicas": 1}})).await;
        s.then("web is scaled to 1").await;
        s
    })
}

fn scale_mid_roll(mut s: Recording) -> Steps {
    Box::pin(async move {
        let limits =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
        s.rolled_out(with(web(4), "strategy", limits)).await;
        s.edit(image("two")).await;
        s.skip("the image is changed, and no new pod becomes ready")
            .await;
        s.edit(json!({"spec": {"replicas": 8}})).await;
        s.then("web is scaled from 4 to 8").await;
        s.edit(json!({"spec": {"replicas": 3}})).await;
        s.then("web is scaled from 8 to 3").await;
        s
    })
}

fn undo(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(web(1)).await;
        s.edit(image("two")).await;
        s.skip("the image is changed").await;
        s.ready_all("two").await;
        s.edit(image("one")).await;
        s.then("the image is changed back").await;
        s.roll("one", 1).await;
        s
    })
}

fn rollback_annotation(mut s: Recording) -> Steps {
    Box::pin(async move {
        let mut d = web(1);
        d["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "create"});
        s.rolled_out(d).await;
        s.edit(json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "edit"}}}))
            .await;
        s.edit(image("two")).await;
        s.skip("the image is changed").await;
        s.ready_all("two").await;
        for (revision, target) in [
            ("0", "the previous revision"),
            ("77", "a missing revision"),
            ("3", "the current revision"),
        ] {
            s.edit(json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision}}})).await;
            s.then(&format!("a rollback to {target} is requested"))
                .await;
        }
        s
    })
}

fn pause_resume(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(web(1)).await;
        s.edit(json!({"spec": {"paused": true}})).await;
        s.then("web is paused").await;
        s.edit(image("two")).await;
        s.then("the image is changed").await;
        s.edit(json!({"spec": {"replicas": 2}})).await;
        s.then("web is scaled from 1 to 2").await;
        s.edit(json!({"spec": {"paused": false}})).await;
        s.then("web is resumed").await;
        s
    })
}

fn adopt_release(mut s: Recording) -> Steps {
    Box::pin(async move {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "orphan", "labels": {"app": "web"}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")},
        });
        s.create(set).await;
        s.skip("a ReplicaSet without an owner is created").await;
        s.create(web(1)).await;
        s.then("web is created").await;
        s.patch(
            "replicasets",
            "orphan",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
        s.then("the ReplicaSet gets another label").await;
        s
    })
}

fn failed_create(mut s: Recording) -> Steps {
    Box::pin(async move {
        let message = "replicasets.apps \"web-6c9d5f7b8\" is forbidden: exceeded quota: q, requested: count/replicasets.apps=1, \
                       used: count/replicasets.apps=0, limited: count/replicasets.apps=0";
        let quota = Status::new(403, "Forbidden", message);
        s.world
            .cluster
            .faults()
            .reject(Matcher::new("create", "replicasets"), quota, Some(2));
        s.create(web(1)).await;
        s.then("web is created; a quota refuses the first two attempts")
            .await;
        s
    })
}

fn hash_collision(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.create(web(1)).await;
        s.skip("web is created").await;
        let name = s.world.state().replica_sets[0]["metadata"]["name"].clone();
        s.world.delete("deployments", "web").await;
        s.world.delete("replicasets", name.as_str().unwrap()).await;
        s.create(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": {
                "metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "main", "image": "other"}]},
            }},
        }))
        .await;
        s.skip("web is deleted, and another ReplicaSet has the name of its ReplicaSet")
            .await;
        s.create(web(1)).await;
        s.then("web is created").await;
        s
    })
}

fn deadline(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(with(web(1), "progressDeadlineSeconds", json!(60)))
            .await;
        s.edit(image("two")).await;
        s.skip("the image is changed, and the new pod does not become ready")
            .await;
        s.within("a minute passes", Duration::from_secs(60)).await;
        s.roll("two", 1).await;
        s
    })
}

fn failing_pods(mut s: Recording) -> Steps {
    Box::pin(async move {
        let message = "pods \"web-abcde\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
        let quota = Status::new(403, "Forbidden", message);
        let rule = s
            .world
            .cluster
            .faults()
            .reject(Matcher::new("create", "pods"), quota, None);
        s.create(web(1)).await;
        s.within(
            "web is created, and a quota refuses its pod",
            Duration::from_secs(5),
        )
        .await;
        s.world.cluster.faults().remove(rule);
        s.then("the quota is removed").await;
        s
    })
}

fn history(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(with(web(1), "revisionHistoryLimit", json!(1)))
            .await;
        s.edit(image("two")).await;
        s.skip("the image is changed").await;
        s.ready_all("two").await;
        s.edit(image("three")).await;
        s.skip("the image is changed").await;
        s.roll("three", 1).await;
        s
    })
}

fn annotations(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.rolled_out(web(1)).await;
        s.edit(json!({"metadata": {"annotations": {"team": "a"}}}))
            .await;
        s.then("web gets an annotation").await;
        s.edit(json!({"metadata": {"annotations": {"team": null}}}))
            .await;
        s.then("the annotation of web is removed").await;
        s.edit(json!({"spec": {"minReadySeconds": 5}})).await;
        s.then("web gets minReadySeconds").await;
        s
    })
}

fn foreground_deletion(mut s: Recording) -> Steps {
    Box::pin(async move {
        let mut d = web(1);
        d["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        s.rolled_out(d).await;
        s.world.delete("deployments", "web").await;
        s.then("web is terminating").await;
        let set = s.world.state().replica_sets[0]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        s.world.delete("replicasets", &set).await;
        s.then("its ReplicaSet is removed").await;
        s
    })
}
