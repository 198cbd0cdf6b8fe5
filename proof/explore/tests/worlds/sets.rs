//! A StatefulSet that is scaled, a DaemonSet whose template the user replaces, and a Job of which a
//! pod may fail.

use serde_json::{Value, json};
use steersman_controllers::{daemonset, job, statefulset};
use steersman_explore::{Act, Call, World, kubelets, path_of_pod};
use steersman_perturb::{FinalRule, Scenario, State, Step, key_of, rules};

use crate::{BLANK, blank, expect, node, template};

const SCALED: FinalRule = FinalRule {
    name: "the StatefulSet is scaled",
    check: |state| {
        let fields = ["replicas", "readyReplicas", "availableReplicas"];
        expect(state, "statefulsets", &fields.map(|field| (field, 1)))
    },
};

pub(super) fn stateful() -> World {
    let scenario = Scenario {
        controller: "statefulset",
        name: "scale",
        controllers: &[statefulset::DESCRIPTOR],
        before: || vec![node("node-a")],
        steps: || {
            let web = json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
                "spec": {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
                    "template": template("web:1")},
            });
            let path = "/apis/apps/v1/namespaces/default/statefulsets/web".to_owned();
            vec![
                Step::Create(web),
                Step::Patch(path, json!({"spec": {"replicas": 1}})),
            ]
        },
        rules: &[
            rules::ONE_POD_PER_ORDINAL,
            rules::ORDERED_CREATION,
            rules::ORDERED_DELETION,
            rules::CLAIMS_STAY,
        ],
        final_rules: &[SCALED],
        ..BLANK
    };
    World {
        lags: &["statefulsets", "pods"],
        ..blank(scenario)
    }
}

/// The number of old revisions depends on the time of the change. So the ends differ.
const ROLLED_OUT: FinalRule = FinalRule {
    name: "the DaemonSet is rolled out",
    check: |state| {
        let fields = [
            "desiredNumberScheduled",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        expect(state, "daemonsets", &fields.map(|field| (field, 2)))
    },
};

pub(super) fn daemon() -> World {
    let scenario = Scenario {
        controller: "daemonset",
        name: "roll",
        controllers: &[daemonset::DESCRIPTOR],
        before: || vec![node("node-a"), node("node-b")],
        steps: || {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
            let web = json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "updateStrategy": strategy, "template": template("web:1")},
            });
            let path = "/apis/apps/v1/namespaces/default/daemonsets/web".to_owned();
            let image = json!({"spec": {"template": template("web:2")}});
            vec![Step::Create(web), Step::Patch(path, image)]
        },
        rules: &[rules::ONE_PER_NODE],
        final_rules: &[ROLLED_OUT],
        ..BLANK
    };
    World {
        lags: &["daemonsets", "pods", "controllerrevisions"],
        folds_nodes: true,
        same_end: false,
        ..blank(scenario)
    }
}

/// The Job is complete, whether or not a pod failed.
const COMPLETE: FinalRule = FinalRule {
    name: "the Job is complete",
    check: |state| {
        let status = state
            .get("jobs", "default/web")
            .map_or(&Value::Null, |job| &job["status"]);
        if status["succeeded"] == 1 && status["completionTime"].is_string() {
            Ok(())
        } else {
            Err(status.to_string())
        }
    },
};

pub(super) fn job() -> World {
    let scenario = Scenario {
        controller: "job",
        name: "retry",
        controllers: &[job::DESCRIPTOR],
        before: || vec![node("node-a")],
        steps: || {
            let container = json!({"name": "main", "image": "web:1"});
            let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
            vec![Step::Create(json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
                "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 3, "template": template},
            }))]
        },
        rules: &[rules::JOB_PODS, rules::COUNTED_ONCE, rules::TRACKED],
        final_rules: &[COMPLETE],
        ..BLANK
    };
    World {
        acts: pods_that_end,
        lags: &["jobs", "pods"],
        same_end: false,
        ..blank(scenario)
    }
}

/// Running pods succeed, or fail as long as no pod has failed.
fn pods_that_end(state: &State) -> Vec<Act> {
    let mut acts = kubelets(state);
    let has = |phase: &str| {
        state
            .all("pods")
            .any(|pod| pod["status"]["phase"] == *phase)
    };
    let has_failed = has("Failed");
    for pod in state
        .all("pods")
        .filter(|pod| pod["status"]["phase"] == "Running")
    {
        let mut end = |verb: &str, phase: &str| {
            let status = json!({"status": {"phase": phase}});
            acts.push(Act {
                name: format!("{verb} {}", key_of(pod)),
                calls: vec![Call::patch(path_of_pod(pod) + "/status", status)],
            });
        };
        end("complete", "Succeeded");
        if !has_failed {
            end("fail", "Failed");
        }
    }
    acts
}
