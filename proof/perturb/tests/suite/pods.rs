//! Scenarios of the owners of pods. ReplicaSets and ReplicationControllers have the same ones,
//! because one controller implements both.

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::{garbagecollector, replicaset, replicationcontroller};
use steersman_perturb::rules::{self, is_active, is_ready};
use steersman_perturb::{AllowedError, Churn, Rule, Scenario, State, Step};
use steersman_runtime::controller::Descriptor;
use steersman_runtime::owner::OWNER_DELETED;

use crate::objects::{BLANK, delete, patch, template, until_caches_are_current};

const RULES: &[Rule] = &[rules::NO_SURPLUS, rules::NO_SHORTAGE];

/// With a stale cache, a controller tries to adopt the pods of its deleted owner. A live read stops
/// it and logs this error, as upstream's `RecheckDeletionTimestamp` does. The one owner is retried
/// after 5 ms, 10 ms and so on, 14 times in 40 s.
const DELETED_OWNER: AllowedError = AllowedError::of(Category::Named(OWNER_DELETED), 16);

/// The scenarios of one kind.
macro_rules! scenarios_of {
    ($base:expr, $with_collector:expr, $kind:expr) => {
        [
            Scenario {
                name: "create",
                steps: || $kind.create(),
                ..$base
            },
            Scenario {
                name: "many",
                steps: || $kind.many(),
                ..$base
            },
            Scenario {
                name: "scale",
                steps: || $kind.scale(),
                ..$base
            },
            Scenario {
                name: "adopt",
                steps: || $kind.adopt(),
                ..$base
            },
            Scenario {
                name: "release",
                steps: || $kind.release(),
                ..$base
            },
            Scenario {
                name: "replace",
                steps: || $kind.replace(),
                ..$base
            },
            Scenario {
                name: "available-later",
                steps: || $kind.available_later(),
                ..$base
            },
            Scenario {
                name: "recreated",
                steps: || $kind.recreated(),
                ..$base
            },
            Scenario {
                name: "orphaned",
                controllers: $with_collector,
                errors: const { &[DELETED_OWNER.from($base.controllers[0].name)] },
                steps: || $kind.orphaned(),
                ..$base
            },
            // The user kills a pod and scales to zero. The replacement of the killed pod may
            // already exist then, which is one more pod to create and delete.
            Scenario {
                name: "namesake",
                churn: Churn::Within(&[("pods", 0..=1)]),
                steps: || $kind.namesake(),
                ..$base
            },
        ]
    };
}

const SETS: Scenario = Scenario {
    controller: "replicaset",
    controllers: &[replicaset::DESCRIPTOR],
    nodes: 2,
    rules: RULES,
    ..BLANK
};
const CONTROLLERS: Scenario = Scenario {
    controller: "replicationcontroller",
    controllers: &[replicationcontroller::DESCRIPTOR],
    ..SETS
};
const SETS_COLLECTED: &[Descriptor] = &[replicaset::DESCRIPTOR, garbagecollector::DESCRIPTOR];
const CONTROLLERS_COLLECTED: &[Descriptor] = &[
    replicationcontroller::DESCRIPTOR,
    garbagecollector::DESCRIPTOR,
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let sets = scenarios_of!(
        SETS,
        SETS_COLLECTED,
        Kind {
            kind: "ReplicaSet",
            api_version: "apps/v1",
            plural: "replicasets"
        }
    );
    let controllers = scenarios_of!(
        CONTROLLERS,
        CONTROLLERS_COLLECTED,
        Kind {
            kind: "ReplicationController",
            api_version: "v1",
            plural: "replicationcontrollers"
        }
    );
    sets.into_iter().chain(controllers).collect()
}

#[derive(Clone, Copy)]
struct Kind {
    kind: &'static str,
    api_version: &'static str,
    plural: &'static str,
}

impl Kind {
    fn object(self, replicas: usize) -> Value {
        let selector = if self.kind == "ReplicaSet" {
            json!({"matchLabels": {"app": "web"}})
        } else {
            json!({"app": "web"})
        };
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"replicas": replicas, "selector": selector, "template": template("web", "web:1")},
        })
    }

    fn create_with(self, replicas: usize) -> Step {
        Step::Create(self.object(replicas))
    }

    fn scale_to(self, replicas: usize) -> Step {
        patch(self.plural, "web", json!({"spec": {"replicas": replicas}}))
    }

    /// Waits until there are this many pods, all available, and the status shows it.
    fn settled(self, replicas: usize) -> Step {
        Step::until("settled", move |state| {
            let status = state
                .get(self.plural, "default/web")
                .map(|web| web["status"].clone())
                .unwrap_or_default();
            let number = |field: &str| status[field].as_u64().unwrap_or(0) == replicas as u64;
            pods(state).count() == replicas && number("replicas") && number("availableReplicas")
        })
    }

    fn create(self) -> Vec<Step> {
        vec![self.create_with(5), self.settled(5)]
    }

    /// Slow start needs several batches for 25 pods.
    fn many(self) -> Vec<Step> {
        vec![self.create_with(25), self.settled(25)]
    }

    fn scale(self) -> Vec<Step> {
        vec![
            self.create_with(3),
            self.settled(3),
            self.scale_to(7),
            self.settled(7),
            self.scale_to(2),
            self.settled(2),
            self.scale_to(0),
            self.settled(0),
        ]
    }

    /// The owner adopts two existing pods and creates only the missing two.
    fn adopt(self) -> Vec<Step> {
        let ready = Step::until("running", |state| {
            pods(state).filter(|pod| is_ready(pod)).count() == 2
        });
        vec![
            Step::Create(loose("one")),
            Step::Create(loose("two")),
            ready,
            self.create_with(4),
            self.settled(4),
        ]
    }

    /// A pod loses the label of the selector: its owner releases and replaces it.
    fn release(self) -> Vec<Step> {
        let relabel = patch(
            "pods",
            "one",
            json!({"metadata": {"labels": {"app": "other"}}}),
        );
        vec![
            Step::Create(loose("one")),
            self.create_with(3),
            self.settled(3),
            relabel,
            self.settled(3),
        ]
    }

    /// The user kills two pods, and the owner replaces each once.
    fn replace(self) -> Vec<Step> {
        let kill = |name| delete("pods", name, json!({"gracePeriodSeconds": 0}));
        let loose = ["one", "two"].map(|name| Step::Create(loose(name)));
        let [one, two] = loose;
        vec![
            one,
            two,
            self.create_with(4),
            self.settled(4),
            kill("one"),
            kill("two"),
            self.settled(4),
        ]
    }

    /// With `minReadySeconds`, pods become available later, without any event.
    fn available_later(self) -> Vec<Step> {
        let mut web = self.object(3);
        web["spec"]["minReadySeconds"] = json!(20);
        vec![
            Step::Create(web),
            self.settled(3),
            self.scale_to(5),
            self.settled(5),
        ]
    }

    /// A second owner gets the name of a deleted one. Expectations and own writes of the first must
    /// not apply to the second.
    fn recreated(self) -> Vec<Step> {
        let delete_owner = delete(
            self.plural,
            "web",
            json!({"propagationPolicy": "Background"}),
        );
        vec![
            self.create_with(2),
            self.settled(2),
            self.scale_to(0),
            self.settled(0),
            delete_owner,
            self.create_with(3),
            self.settled(3),
        ]
    }

    /// The owner is deleted and orphans its pods. The next owner of its name adopts them, and
    /// creates and deletes none. The user waits until all caches show the orphans: with a stale
    /// cache, upstream's controller also creates others.
    fn orphaned(self) -> Vec<Step> {
        let orphan = delete(self.plural, "web", json!({"propagationPolicy": "Orphan"}));
        let orphaned = Step::until("orphaned", move |state| {
            state.get(self.plural, "default/web").is_none()
                && pods(state).all(|pod| owners(pod) == 0)
                && pods(state).count() == 3
        });
        let adopted = Step::until("adopted", |state| {
            pods(state).filter(|pod| owners(pod) == 1).count() == 3
        });
        let begin = [
            self.create_with(3),
            self.settled(3),
            until_caches_are_current(),
            orphan,
            orphaned,
            until_caches_are_current(),
        ];
        begin
            .into_iter()
            .chain([self.create_with(3), adopted, self.settled(3)])
            .collect()
    }

    /// The user kills a pod, creates another pod with the same name and other labels, and scales to
    /// zero. The other pod stays. The controller may replace the killed pod before or not.
    fn namesake(self) -> Vec<Step> {
        let mut namesake = loose("one");
        namesake["metadata"]["labels"]["app"] = json!("other");
        let kill = delete("pods", "one", json!({"gracePeriodSeconds": 0}));
        vec![
            Step::Create(loose("one")),
            self.create_with(3),
            self.settled(3),
            kill,
            Step::Create(namesake),
            self.scale_to(0),
            self.settled(0),
        ]
    }
}

/// The active pods with the label `app: web`.
fn pods(state: &State) -> impl Iterator<Item = &Value> {
    state
        .all("pods")
        .filter(|pod| is_active(pod) && pod["metadata"]["labels"]["app"] == "web")
}

fn owners(pod: &Value) -> usize {
    pod["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, Vec::len)
}

/// A pod without an owner, with the labels of the selector.
fn loose(name: &str) -> Value {
    let mut pod = template("web", "web:1");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}
