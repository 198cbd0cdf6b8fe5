//! The Workload and the PodGroup of a Job whose pods have to start together.
//!
//! Job -> its Workload, with one template -> its PodGroup -> `spec.schedulingGroup` of its pods
//!
//! Only a Job that has never started gets them. A Job that ran without them keeps running so, for
//! example after the feature gate `WorkloadWithJob` was switched on.
//!
//! Upstream also means to give pods an owner reference to the PodGroup. Its `GetPodFromTemplate`
//! drops the reference, so real pods have none, and neither do they here.
//!
//! Upstream: `job_scheduling_manager.go`, and `IsGangSchedulingCandidate` in `util/utils.go`. Since 1.37, each Job has
//! a Workload: [`scheduling`] has these rules.
//!
//! `sync/gang.rs` reads live objects and creates missing ones; this module decides and builds the bodies.

mod scheduling;

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_objects::template::{fnv1a, safe_encoded};
use steersman_objects::{
    CompletionMode, Job, Object, ObjectKey, PodGroup, PodGroupTemplate, Workload,
    WorkloadControllerRef,
};
use steersman_releases::Release;
use steersman_runtime::informer::{Index, IndexKey, SharedInformer};
use steersman_runtime::owner::ControllerReference;

use super::conditions::SUSPENDED;

/// The longest name of an object, a DNS subdomain. Upstream: `DNS1123SubdomainMaxLength`.
const LONGEST_NAME: usize = 253;

/// The scheduling of the pods of one Job. With the first three variants, pods have no group.
#[derive(Debug)]
pub(super) enum Gang {
    /// One by one, because of the shape of the Job. Its pods start independently of each other, or its
    /// template has a group already.
    Apart,
    /// One by one, although the shape of the Job is that of a gang. Another party made these objects. A guess
    /// could mix two gangs, so the Job runs as without the gate.
    Prevented(Obstacle),
    /// One by one, since the Job had begun before it could get a Workload. A part of its pods may run, and a
    /// group of the rest would wait for them in vain.
    TooLate,
    /// Together, but the Workload is missing.
    NeedsWorkload,
    /// Together, but the PodGroup of this template is missing.
    NeedsGroup(Template),
    /// Together, in this PodGroup.
    Complete(Arc<PodGroup>),
}

/// The template of a missing PodGroup.
#[derive(Debug, Clone)]
pub(super) struct Template {
    /// The Workload of the Job, or of its owner.
    pub(super) workload: Arc<Workload>,
    /// Name of the template; `None` for the only one of the Job's own Workload.
    pub(super) delegated: Option<String>,
}

impl Template {
    /// The template of the Job's own Workload.
    pub(super) fn own(workload: Arc<Workload>) -> Self {
        Self {
            workload,
            delegated: None,
        }
    }

    fn find(&self) -> Option<&PodGroupTemplate> {
        let mut templates = self.workload.spec.pod_group_templates.iter();
        match &self.delegated {
            None => templates.next(),
            Some(name) => templates.find(|template| template.name == **name),
        }
    }
}

/// The Jobs that get a Workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Indexed Jobs whose pods all run at once. The rules of 1.36.
    Gangs,
    /// Each Job of its own, by its `spec.scheduling`. The rules since 1.37.
    EachJob,
}

impl Rules {
    /// The rules of `release`.
    pub(super) fn of(release: Release) -> Self {
        if release.gives_each_job_a_workload() {
            Self::EachJob
        } else {
            Self::Gangs
        }
    }

    /// Whether `job` may have a group. Upstream: `shouldManageWorkloadForJob`.
    pub(super) fn concern(self, job: &Job) -> bool {
        match self {
            Self::Gangs => is_candidate(job),
            Self::EachJob => scheduling::is_candidate(job),
        }
    }

    /// Whether a creation is told by an Event about the PodGroup as well, and a failure by one about the Workload.
    pub(super) fn tell_more(self) -> bool {
        self == Self::EachJob
    }
}

/// The reason why pods are not scheduled together, in the words of upstream's log. A later sync decides anew,
/// when the objects have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    /// Several Workloads name the Job.
    #[error("found {0} Workloads referencing the Job, falling back to default scheduling")]
    Workloads(usize),
    /// Several PodGroups name the Workload.
    #[error("found {0} PodGroups referencing the Workload, falling back to default scheduling")]
    PodGroups(usize),
    /// The Workload has another controller, or none.
    #[error("Workload not owned by this Job, skipping workload integration")]
    ForeignWorkload,
    /// The PodGroup has another controller, or none.
    #[error("PodGroup not owned by this Job, skipping workload integration")]
    ForeignGroup,
    /// The Workload has another shape than those that this controller makes. Upstream:
    /// `validateWorkloadStructure`.
    #[error(
        "Workload has {0} PodGroupTemplates instead of one, falling back to default scheduling"
    )]
    Templates(usize),
}

impl Gang {
    /// Whether the gang needs a further object. A creation acts on the caches, so it needs the same
    /// confirmation as pods.
    pub(super) fn is_incomplete(&self) -> bool {
        matches!(self, Self::NeedsWorkload | Self::NeedsGroup(_))
    }
}

/// The cached Workloads and PodGroups. Names of indexes are upstream's. An object is found by the reference
/// in its spec, rather than by its name.
pub(super) struct Gangs {
    /// Workloads by the Job that they name.
    workloads: Index<Workload>,
    /// PodGroups by the Workload that they name.
    groups: Index<PodGroup>,
    pub(super) rules: Rules,
}

impl Gangs {
    /// Reads from the caches of these informers.
    pub(super) fn new(
        workloads: &SharedInformer<Workload>,
        groups: &SharedInformer<PodGroup>,
        rules: Rules,
    ) -> Self {
        Self {
            rules,
            workloads: workloads.store().add_index("workloadByJobName", job_of),
            groups: groups
                .store()
                .add_index("podGroupByWorkloadName", workload_of),
        }
    }

    /// The resource versions of the caches of Workloads and PodGroups; 0 before the first list. The API may
    /// be absent for long, so a missing first list is an expected state.
    pub(super) fn versions(&self) -> [u64; 2] {
        [
            self.workloads.store().resource_version(),
            self.groups.store().resource_version(),
        ]
    }

    /// The gang of `job`, which has this number of pods.
    ///
    /// Upstream: `getOrCreateWorkload` and `getOrCreatePodGroup`. The order of checks is theirs: several
    /// objects, then their controller, then their shape.
    pub(super) fn of(&self, job: &Job, pods: usize) -> Gang {
        if self.rules == Rules::EachJob {
            return self.of_each(job, pods);
        }
        let mut workloads = self.workloads.get(&job.key().to_string());
        let workload = match workloads.len() {
            0 if is_new(job, pods) => return Gang::NeedsWorkload,
            0 => return Gang::TooLate,
            1 => workloads.remove(0),
            several => return Gang::Prevented(Obstacle::Workloads(several)),
        };
        if !workload.meta.is_controlled_by(&job.meta.uid) {
            return Gang::Prevented(Obstacle::ForeignWorkload);
        }
        let templates = workload.spec.pod_group_templates.len();
        if templates != 1 {
            return Gang::Prevented(Obstacle::Templates(templates));
        }
        let mut groups = self.groups.get(&workload.key().to_string());
        // The PodGroup must be the Job's as well, since a foreign one may have another policy.
        match groups.len() {
            0 => Gang::NeedsGroup(Template::own(workload)),
            1 if groups[0].meta.is_controlled_by(&job.meta.uid) => Gang::Complete(groups.remove(0)),
            1 => Gang::Prevented(Obstacle::ForeignGroup),
            several => Gang::Prevented(Obstacle::PodGroups(several)),
        }
    }
}

/// The key of the Job that a Workload names. Upstream: `workloadControllerRefJobName`. No version is
/// compared, since the reference has none.
fn job_of(workload: &Workload) -> Vec<IndexKey> {
    let WorkloadControllerRef {
        api_group,
        kind,
        name,
    } = &workload.spec.controller_ref;
    if *api_group != *Job::RESOURCE.group || *kind != *Job::RESOURCE.kind || name.is_empty() {
        return Vec::new();
    }
    vec![named(&workload.meta.namespace, name)]
}

/// The key of the Workload that a PodGroup names. Upstream: `podGroupWorkloadName`.
fn workload_of(group: &PodGroup) -> Vec<IndexKey> {
    let name = group.workload_name();
    if name.is_empty() {
        return Vec::new();
    }
    vec![named(&group.meta.namespace, name)]
}

fn named(namespace: &str, name: &str) -> IndexKey {
    IndexKey::new(&ObjectKey::new(namespace, name).to_string())
}

/// Whether all pods of `job` run at the same time, so that they can be scheduled together. A
/// template that names a group opts out. Upstream: `IsGangSchedulingCandidate`. With more completions than
/// parallelism, later pods would start without a gang.
pub(super) fn is_candidate(job: &Job) -> bool {
    let spec = &job.spec;
    spec.parallelism > 1
        && spec.completion_mode == CompletionMode::Indexed
        && spec.completions == Some(spec.parallelism)
        && !spec.has_scheduling_group
}

/// Whether the Job has never started. Each sign alone has gaps: pods may be collected, and a
/// suspension removes the start time. Upstream: `isNewJob`.
fn is_new(job: &Job, pods: usize) -> bool {
    let status = &job.status;
    let was_suspended = || status.conditions.iter().any(|one| one.kind == SUSPENDED);
    pods == 0
        && status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && !was_suspended()
}

/// The body of the Workload of `job`. Upstream: `createWorkloadForJob` and `buildPodGroupTemplates`. All pods of a gang
/// are the minimum, so a part of them never starts.
pub(super) fn workload(job: &Job, rules: Rules) -> Value {
    let mut template = match rules {
        Rules::Gangs => json!({"schedulingPolicy": {"gang": {"minCount": job.spec.parallelism}}}),
        Rules::EachJob => scheduling::template(job),
    };
    template["name"] = json!(template_name(&job.meta.name));
    json!({
        "apiVersion": Workload::RESOURCE.api_version(), "kind": Workload::RESOURCE.kind,
        "metadata": {
            "name": workload_name(job),
            "namespace": *job.meta.namespace,
            "ownerReferences": [ControllerReference::to::<Job>(&job.meta)],
        },
        "spec": {
            "controllerRef": {
                "apiGroup": Job::RESOURCE.group, "kind": Job::RESOURCE.kind, "name": job.meta.name,
            },
            "podGroupTemplates": [template],
        },
    })
}

/// The body of the PodGroup of `job` after `template`. `None` if the Workload lacks the template. Upstream:
/// `createPodGroupForWorkload`. The policy is that of the Workload, which a user may have changed.
///
/// `version` is the one in which the API server has both types. It has both in the same versions.
pub(super) fn pod_group(job: &Job, template: &Template, version: &str) -> Option<Value> {
    let found = template.find()?;
    let workload = &template.workload.meta;
    let mut owners = vec![json!(ControllerReference::to::<Job>(&job.meta))];
    // The Workload of an owner belongs to that owner alone.
    if template.delegated.is_none() {
        // The reference does not block the deletion of the Workload. In another version than the API server has,
        // the garbage collector could not find it.
        owners.push(json!({
            "apiVersion": format!("{}/{version}", Workload::RESOURCE.group),
            "kind": Workload::RESOURCE.kind, "name": workload.name, "uid": workload.uid,
        }));
    }
    let (field, reference) = PodGroup::template_reference(version, &workload.name, &found.name);
    let mut spec = json!({field: reference, "schedulingPolicy": found.scheduling_policy});
    for field in scheduling::COPIED {
        if let Some(value) = found.others.get(field).filter(|value| !value.is_null()) {
            spec[field] = value.clone();
        }
    }
    Some(json!({
        "apiVersion": PodGroup::RESOURCE.api_version(), "kind": PodGroup::RESOURCE.kind,
        "metadata": {
            "name": pod_group_name(&workload.name, &found.name),
            "namespace": *job.meta.namespace,
            "ownerReferences": owners,
        },
        "spec": spec,
    }))
}

/// The name of the only template in the Workload of `job`. Upstream numbers the templates, and makes one.
fn template_name(job: &str) -> String {
    format!("{job}-pgt-0")
}

/// The name of the Workload of `job`, which ends with a hash of its UID. So a Job of the same name
/// has another one. Upstream: `computeWorkloadName`.
pub(super) fn workload_name(job: &Job) -> String {
    // Upstream hashes Go's dump of the UID, which begins with its type.
    let dump = format!("(types.UID){}", job.meta.uid);
    let hash = safe_encoded(fnv1a(&[dump.as_bytes()]));
    let name = cut(&job.meta.name, LONGEST_NAME - hash.len() - 1);
    format!("{name}-{hash}")
}

/// The name of the PodGroup after `template` of `workload`. Each of the two names may fill the
/// space that the other one leaves, and half of the space in any case. Upstream: `computePodGroupName`.
fn pod_group_name(workload: &str, template: &str) -> String {
    let hash = safe_encoded(fnv1a(&[workload.as_bytes(), template.as_bytes()]));
    // Two dashes join the three parts.
    let space = LONGEST_NAME - hash.len() - 2;
    let half = space / 2;
    let of_template = template
        .len()
        .min(half.max(space.saturating_sub(workload.len())));
    let workload = cut(workload, space - of_template);
    let template = cut(template, of_template);
    format!("{workload}-{template}-{hash}")
}

/// The first `length` bytes of a name. Names are ASCII, so each byte is a character boundary.
fn cut(name: &str, length: usize) -> &str {
    name.get(..length).unwrap_or(name)
}

#[cfg(test)]
mod tests;
