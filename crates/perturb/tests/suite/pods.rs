//! The owners of pods: ReplicaSets and ReplicationControllers tell the same stories.

use serde_json::{Value, json};
use steersman_controllers::{replicaset, replicationcontroller};
use steersman_perturb::rules::{self, is_active, is_ready};
use steersman_perturb::{Churn, Rule, Scenario, State, Step};

use crate::objects::{BLANK, delete, patch, template};

const RULES: &[Rule] = &[rules::NO_SURPLUS, rules::NO_SHORTAGE];

/// The stories of one kind.
macro_rules! stories {
    ($base:expr, $kind:expr) => {
        [
            Scenario { name: "create", steps: || $kind.create(), ..$base },
            Scenario { name: "many", steps: || $kind.many(), ..$base },
            Scenario { name: "scale", steps: || $kind.scale(), ..$base },
            Scenario { name: "adopt", steps: || $kind.adopt(), ..$base },
            Scenario { name: "release", steps: || $kind.release(), ..$base },
            Scenario { name: "replace", steps: || $kind.replace(), ..$base },
            Scenario { name: "available-later", steps: || $kind.available_later(), ..$base },
            Scenario { name: "recreated", steps: || $kind.recreated(), ..$base },
            // Not that nothing is created above what is asked for: the last answer to what was asked before may still be under way.
            Scenario {
                name: "namesake",
                churn: Churn::UpTo(1),
                rules: &[rules::NO_SHORTAGE],
                steps: || $kind.namesake(),
                ..$base
            },
        ]
    };
}

const SETS: Scenario =
    Scenario { controller: "replicaset", controllers: &[replicaset::DESCRIPTOR], nodes: 2, rules: RULES, ..BLANK };
const CONTROLLERS: Scenario =
    Scenario { controller: "replicationcontroller", controllers: &[replicationcontroller::DESCRIPTOR], ..SETS };

pub(crate) fn scenarios() -> Vec<Scenario> {
    let sets = stories!(SETS, Kind { kind: "ReplicaSet", api_version: "apps/v1", plural: "replicasets" });
    let controllers =
        stories!(CONTROLLERS, Kind { kind: "ReplicationController", api_version: "v1", plural: "replicationcontrollers" });
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
        let selector = if self.kind == "ReplicaSet" { json!({"matchLabels": {"app": "web"}}) } else { json!({"app": "web"}) };
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
            let status = state.get(self.plural, "default/web").map(|web| web["status"].clone()).unwrap_or_default();
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
        let ready = Step::until("running", |state| pods(state).filter(|pod| is_ready(pod)).count() == 2);
        vec![Step::Create(loose("one")), Step::Create(loose("two")), ready, self.starts_at(4), self.settled(4)]
    }

    fn release(self) -> Vec<Step> {
        let relabel = patch("pods", "one", json!({"metadata": {"labels": {"app": "other"}}}));
        vec![Step::Create(loose("one")), self.starts_at(3), self.settled(3), relabel, self.settled(3)]
    }

    fn replace(self) -> Vec<Step> {
        let kill = |name| delete("pods", name, json!({"gracePeriodSeconds": 0}));
        let loose = ["one", "two"].map(|name| Step::Create(loose(name)));
        let [one, two] = loose;
        vec![one, two, self.starts_at(4), self.settled(4), kill("one"), kill("two"), self.settled(4)]
    }

    fn available_later(self) -> Vec<Step> {
        let mut web = self.object(3);
        web["spec"]["minReadySeconds"] = json!(20);
        vec![Step::Create(web), self.settled(3), self.to(5), self.settled(5)]
    }

    /// The same name, another object: the pods of the first are adopted by nobody while it goes, and by the second afterwards.
    fn recreated(self) -> Vec<Step> {
        let orphan = delete(self.plural, "web", json!({"propagationPolicy": "Background"}));
        vec![self.starts_at(2), self.settled(2), self.to(0), self.settled(0), orphan, self.starts_at(3), self.settled(3)]
    }

    /// A pod of ours goes, a stranger gets its name, and all of ours are to go: the stranger stays. Whether the first is replaced
    /// before is a matter of time.
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
    state.all("pods").filter(|pod| is_active(pod) && pod["metadata"]["labels"]["app"] == "web")
}

fn loose(name: &str) -> Value {
    let mut pod = template("web", "web:1");
    (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) = (json!("v1"), json!("Pod"), json!(name));
    pod
}
