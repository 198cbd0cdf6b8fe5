//! The owners of pods: ReplicaSets and ReplicationControllers tell the same stories.

use serde_json::{Value, json};
use steersman_controllers::{garbagecollector, replicaset, replicationcontroller};
use steersman_perturb::rules::{self, is_active, is_ready};
use steersman_perturb::{Churn, Rule, Scenario, State, Step};
use steersman_runtime::controller::Descriptor;

use crate::objects::{BLANK, delete, patch, template, time_to_hear};

const RULES: &[Rule] = &[rules::NO_SURPLUS, rules::NO_SHORTAGE];

/// Who has not heard yet that the owner goes takes its pods for free ones, asks the API server
/// before it adopts them, and says so, as upstream's `RecheckDeletionTimestamp` does.
const GOING: &[&str] = &["has just been deleted"];

/// The stories of one kind.
macro_rules! stories {
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
                errors: GOING,
                steps: || $kind.orphaned(),
                ..$base
            },
            // The pod that replaces the one the user killed may be under way when none is wanted
            // any more, and is one more to remove.
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
    let sets = stories!(
        SETS,
        SETS_COLLECTED,
        Kind {
            kind: "ReplicaSet",
            api_version: "apps/v1",
            plural: "replicasets"
        }
    );
    let controllers = stories!(
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

    fn starts_at(self, replicas: usize) -> Step {
        Step::Create(self.object(replicas))
    }

    fn to(self, replicas: usize) -> Step {
        patch(self.plural, "web", json!({"spec": {"replicas": replicas}}))
    }

    /// So many pods, all of them available, and the status says so.
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
        vec![self.starts_at(5), self.settled(5)]
    }

    fn many(self) -> Vec<Step> {
        vec![self.starts_at(25), self.settled(25)]
    }

    fn scale(self) -> Vec<Step> {
        vec![
            self.starts_at(3),
            self.settled(3),
            self.to(7),
            self.settled(7),
            self.to(2),
            self.settled(2),
            self.to(0),
            self.settled(0),
        ]
    }

    fn adopt(self) -> Vec<Step> {
        let ready = Step::until("running", |state| {
            pods(state).filter(|pod| is_ready(pod)).count() == 2
        });
        vec![
            Step::Create(loose("one")),
            Step::Create(loose("two")),
            ready,
            self.starts_at(4),
            self.settled(4),
        ]
    }

    fn release(self) -> Vec<Step> {
        let relabel = patch(
            "pods",
            "one",
            json!({"metadata": {"labels": {"app": "other"}}}),
        );
        vec![
            Step::Create(loose("one")),
            self.starts_at(3),
            self.settled(3),
            relabel,
            self.settled(3),
        ]
    }

    fn replace(self) -> Vec<Step> {
        let kill = |name| delete("pods", name, json!({"gracePeriodSeconds": 0}));
        let loose = ["one", "two"].map(|name| Step::Create(loose(name)));
        let [one, two] = loose;
        vec![
            one,
            two,
            self.starts_at(4),
            self.settled(4),
            kill("one"),
            kill("two"),
            self.settled(4),
        ]
    }

    fn available_later(self) -> Vec<Step> {
        let mut web = self.object(3);
        web["spec"]["minReadySeconds"] = json!(20);
        vec![
            Step::Create(web),
            self.settled(3),
            self.to(5),
            self.settled(5),
        ]
    }

    /// The same name, another object: what is known of the first says nothing of the second.
    fn recreated(self) -> Vec<Step> {
        let end = delete(
            self.plural,
            "web",
            json!({"propagationPolicy": "Background"}),
        );
        vec![
            self.starts_at(2),
            self.settled(2),
            self.to(0),
            self.settled(0),
            end,
            self.starts_at(3),
            self.settled(3),
        ]
    }

    /// The owner goes and leaves its pods behind; the next one of its name adopts them, and neither
    /// makes new ones nor removes any. The user lets everybody hear that they are free: who has not
    /// makes others, in upstream, too.
    fn orphaned(self) -> Vec<Step> {
        let orphan = delete(self.plural, "web", json!({"propagationPolicy": "Orphan"}));
        let free = Step::until("free", move |state| {
            state.get(self.plural, "default/web").is_none()
                && pods(state).all(|pod| owners(pod) == 0)
                && pods(state).count() == 3
        });
        let adopted = Step::until("adopted", |state| {
            pods(state).filter(|pod| owners(pod) == 1).count() == 3
        });
        let begin = [
            self.starts_at(3),
            self.settled(3),
            time_to_hear(),
            orphan,
            free,
            time_to_hear(),
        ];
        begin
            .into_iter()
            .chain([self.starts_at(3), adopted, self.settled(3)])
            .collect()
    }

    /// A pod of ours goes, a stranger gets its name, and all of ours are to go: the stranger stays.
    /// Whether the first is replaced before is a matter of time.
    fn namesake(self) -> Vec<Step> {
        let mut stranger = loose("one");
        stranger["metadata"]["labels"]["app"] = json!("other");
        let kill = delete("pods", "one", json!({"gracePeriodSeconds": 0}));
        vec![
            Step::Create(loose("one")),
            self.starts_at(3),
            self.settled(3),
            kill,
            Step::Create(stranger),
            self.to(0),
            self.settled(0),
        ]
    }
}

/// The active pods of the application.
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

fn loose(name: &str) -> Value {
    let mut pod = template("web", "web:1");
    (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
        (json!("v1"), json!("Pod"), json!(name));
    pod
}
