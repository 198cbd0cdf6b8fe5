//! The rules since 1.37: each Job of its own has a Workload, and `spec.scheduling` tells its form. The pods are scheduled
//! one by one unless it asks for a gang.
//!
//! The Job of an owner such as a JobSet has none. With an annotation, the owner delegates the PodGroup of a template in
//! its own Workload.
//!
//! Upstream: `job_scheduling_manager.go` on the branch of kubernetes#140188, and KEP-5547. The merged file was not at
//! hand, so changes of `minCount` have no effect on existing objects yet.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_objects::{Job, Object, Workload};

use super::{Gang, Gangs, Obstacle, Template, is_new};

/// Names a template in the Workload of the owner. Upstream: `GroupTemplateNameAnnotation`.
const DELEGATED: &str = "scheduling.k8s.io/group-template-name";

/// The fields of a template that a PodGroup has, too, besides its policy. Templates of 1.36 have none of them.
/// Upstream: `newPodGroup` of `workloadbuilder`.
pub(super) const COPIED: [&str; 5] = [
    "schedulingConstraints",
    "disruptionMode",
    "resourceClaims",
    "priorityClassName",
    "priority",
];

/// Whether `job` has a group. Upstream: `shouldManageWorkloadForJob`.
pub(super) fn is_candidate(job: &Job) -> bool {
    let is_its_own = || job.meta.controller().is_none();
    !job.spec.has_scheduling_group && (is_its_own() || delegated(job).is_some())
}

/// Name of the template whose PodGroup the owner delegates to `job`.
fn delegated(job: &Job) -> Option<String> {
    let document = job.document.to_object();
    let annotations = document.get("metadata")?.get("annotations")?;
    annotations.get(DELEGATED)?.as_str().map(str::to_owned)
}

/// The template in the Workload of `job`, without its name. Upstream: `buildWorkloadItem`, and the defaults of
/// KEP-5547.
pub(super) fn template(job: &Job) -> Value {
    let scheduling = &job.spec.scheduling;
    let mut template = Map::new();
    let mut policy = match &scheduling["schedulingPolicy"] {
        Value::Null => json!({"basic": {}}),
        policy => policy.clone(),
    };
    if policy["gang"].is_object() && policy["gang"]["minCount"].is_null() {
        // A suspended Job may have no parallelism, and a gang has at least one pod.
        policy["gang"]["minCount"] = json!(job.spec.parallelism.max(1));
    }
    template.insert("schedulingPolicy".to_owned(), policy);
    for field in &COPIED[..3] {
        let value = &scheduling[*field];
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        if !value.is_null() && !is_empty {
            template.insert((*field).to_owned(), value.clone());
        }
    }
    Value::Object(template)
}

impl Gangs {
    /// The gang of `job`, which has this number of pods. Objects of other parties do not count.
    ///
    /// Upstream: `ensureWorkloadAndPodGroup`.
    pub(super) fn of_each(&self, job: &Job, pods: usize) -> Gang {
        let is_new = is_new(job, pods);
        let template = if job.meta.controller().is_some() {
            self.delegated(job)
        } else {
            let mut own = self.workloads.get(&job.key().to_string());
            own.retain(|workload| workload.meta.is_controlled_by(&job.meta.uid));
            match own.len() {
                0 if is_new => return Gang::NeedsWorkload,
                0 => return Gang::TooLate,
                1 => match own[0].spec.pod_group_templates.len() {
                    1 => Some(Template::own(own.remove(0))),
                    templates => return Gang::Prevented(Obstacle::Templates(templates)),
                },
                several => return Gang::Prevented(Obstacle::Workloads(several)),
            }
        };
        let Some(template) = template else {
            return Gang::Apart;
        };
        let mut groups = self.groups.get(&template.workload.key().to_string());
        groups.retain(|group| group.meta.is_controlled_by(&job.meta.uid));
        match groups.len() {
            0 if is_new => Gang::NeedsGroup(template),
            0 => Gang::TooLate,
            1 => Gang::Complete(groups.remove(0)),
            // Of a template of the owner, any group of the Job serves.
            _ if template.delegated.is_some() => Gang::Complete(groups.remove(0)),
            several => Gang::Prevented(Obstacle::PodGroups(several)),
        }
    }

    /// The template that the owner of `job` delegates to it. `None` while the owner has no such Workload.
    ///
    /// Upstream: `findParentWorkload` and `getPodGroupTemplateByName`.
    fn delegated(&self, job: &Job) -> Option<Template> {
        let owner = job.meta.controller()?;
        let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
        let is_of_owner = |workload: &Arc<Workload>| {
            let of = &workload.spec.controller_ref;
            workload.meta.namespace == job.meta.namespace
                && (&*of.api_group, &*of.kind, &*of.name) == (group, &*owner.kind, &*owner.name)
        };
        let workload = self
            .workloads
            .store()
            .list()
            .into_iter()
            .find(is_of_owner)?;
        let template = Template {
            workload,
            delegated: delegated(job),
        };
        template.find().is_some().then_some(template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::{JobBuilder, job};

    fn owned(kind: &str) -> JobBuilder {
        let owner = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": kind, "name": "js", "uid": "u", "controller": true});
        job("web").metadata("ownerReferences", json!([owner]))
    }

    /// Upstream: `TestShouldManageWorkloadForJob`.
    #[test]
    fn should_manage_workload_for_job() {
        let mut own_group = job("web");
        own_group.0["spec"]["template"]["spec"]["schedulingGroup"] =
            json!({"podGroupName": "existing-pg"});
        let annotations = json!({DELEGATED: "workers"});
        let cases = [
            ("standalone Job", job("web").spec("parallelism", 4), true),
            (
                "basic single-pod Job",
                job("web").spec("parallelism", 1),
                true,
            ),
            ("BYO PodGroup via pod template", own_group, false),
            ("parent-owned, without delegation", owned("JobSet"), false),
            (
                "parent-owned, with delegation annotation",
                owned("JobSet").metadata("annotations", annotations),
                true,
            ),
            ("CronJob-owned", owned("CronJob"), false),
        ];
        for (case, job, expected) in cases {
            assert_eq!(is_candidate(&job.build()), expected, "{case}");
        }
    }

    /// Upstream: `TestGenerateWorkload`.
    #[test]
    fn generate_workload() {
        let basic = json!({"basic": {}});
        let gang = |count: i32| json!({"gang": {"minCount": count}});
        let full = json!({
            "schedulingPolicy": gang(4),
            "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "my-claim"}],
        });
        let only = |policy: Value| json!({"schedulingPolicy": policy});
        // (case, scheduling, parallelism, template)
        let cases = [
            (
                "nil scheduling defaults to Basic",
                Value::Null,
                4,
                only(basic.clone()),
            ),
            (
                "policy nil defaults to Basic",
                json!({}),
                4,
                only(basic.clone()),
            ),
            ("explicit basic policy", only(basic.clone()), 4, only(basic)),
            (
                "gang with explicit minCount",
                only(gang(3)),
                4,
                only(gang(3)),
            ),
            (
                "gang without minCount",
                only(json!({"gang": {}})),
                4,
                only(gang(4)),
            ),
            (
                "a suspended gang without pods",
                only(json!({"gang": {}})),
                0,
                only(gang(1)),
            ),
            ("everything is passed through", full.clone(), 4, full),
        ];
        for (case, scheduling, parallelism, expected) in cases {
            let job = job("web")
                .spec("parallelism", parallelism)
                .spec("scheduling", scheduling);
            assert_eq!(template(&job.build()), expected, "{case}");
        }
    }
}
