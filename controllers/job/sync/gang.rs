//! Finds or makes the Workload and the PodGroup of a Job.
//!
//! A Job that has several of one kind, or another owner's, is scheduled without a group. Upstream:
//! `ensureWorkloadAndPodGroup`.

use std::sync::Arc;

use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Job, Object, ObjectKey, ObjectReference, PodGroup, Workload};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::{Index, IndexKey, SharedInformer};
use steersman_runtime::own_writes::WritesTo;

use crate::job::gang::{is_gang, is_new, pod_group, workload};

/// The Workload or the PodGroup could not be made.
#[derive(Debug, thiserror::Error)]
pub(in crate::job) enum GangError {
    /// The POST failed.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Makes Workloads and PodGroups, with the feature gate `WorkloadWithJob`.
pub(in crate::job) struct Gangs {
    pub(in crate::job) client: ApiClient,
    pub(in crate::job) recorder: EventRecorder,
    pub(in crate::job) workloads: Index<Workload>,
    pub(in crate::job) groups: Index<PodGroup>,
    pub(in crate::job) workloads_written: WritesTo,
    pub(in crate::job) groups_written: WritesTo,
}

/// The index of Workloads by the Job that they name. Upstream: `workloadByJobNameIndexFunc`.
pub(in crate::job) fn by_job(workloads: &SharedInformer<Workload>) -> Index<Workload> {
    workloads
        .store()
        .add_index("workloadByJobName", |workload| {
            let controller = &workload.spec.controller_ref;
            let is_job = *controller.api_group == *Job::RESOURCE.group
                && *controller.kind == *Job::RESOURCE.kind
                && !controller.name.is_empty();
            let key = || ObjectKey::new(&workload.meta.namespace, &controller.name);
            is_job
                .then(|| IndexKey::new(&key().to_string()))
                .into_iter()
                .collect()
        })
}

/// The index of PodGroups by the Workload that they name. Upstream:
/// `podGroupByWorkloadNameIndexFunc`.
pub(in crate::job) fn by_workload(groups: &SharedInformer<PodGroup>) -> Index<PodGroup> {
    groups.store().add_index("podGroupByWorkloadName", |group| {
        let name = &group.spec.pod_group_template_ref.workload.workload_name;
        let key = || ObjectKey::new(&group.meta.namespace, name);
        (!name.is_empty())
            .then(|| IndexKey::new(&key().to_string()))
            .into_iter()
            .collect()
    })
}

impl Gangs {
    /// The name of the PodGroup for new pods of `job`. `None` schedules each pod by itself.
    pub(super) async fn group_of(
        &self,
        key: &ObjectKey,
        job: &Job,
        has_pods: bool,
    ) -> Result<Option<String>, GangError> {
        if !is_gang(job) {
            return Ok(None);
        }
        let workload = match &self.workloads.get(&key.to_string())[..] {
            [] if !is_new(job, has_pods) => return Ok(None),
            [] => Arc::new(self.create_workload(key, job).await?),
            [one] => Arc::clone(one),
            several => {
                let found = several.len();
                tracing::error!(
                    found,
                    "Several Workloads reference the Job, falling back to default scheduling"
                );
                return Ok(None);
            }
        };
        let is_usable = workload.meta.is_controlled_by(&job.meta.uid)
            && workload.spec.pod_group_templates.len() == 1;
        if !is_usable {
            tracing::debug!(workload = %workload.meta.name, "Workload is of another owner or structure, falling back to default scheduling");
            return Ok(None);
        }
        match &self.groups.get(&workload.key().to_string())[..] {
            [] => {
                let body = pod_group(job, &workload);
                let group: PodGroup = self.create(key, &body, &self.groups_written).await?;
                Ok(Some(group.meta.name.to_string()))
            }
            [one] if one.meta.is_controlled_by(&job.meta.uid) => {
                Ok(Some(one.meta.name.to_string()))
            }
            [_] => {
                tracing::debug!("PodGroup is of another owner, falling back to default scheduling");
                Ok(None)
            }
            several => {
                let found = several.len();
                tracing::error!(
                    found,
                    "Several PodGroups reference the Workload, falling back to default scheduling"
                );
                Ok(None)
            }
        }
    }

    async fn create_workload(&self, key: &ObjectKey, job: &Job) -> Result<Workload, GangError> {
        let body = workload(job);
        let created: Workload = self.create(key, &body, &self.workloads_written).await?;
        let message = format!(
            "Created Workload {} for Job {}",
            created.meta.name, job.meta.name
        );
        let about = ObjectReference::of(job);
        self.recorder
            .event(about, EventType::Normal, "WorkloadCreated", message);
        Ok(created)
    }

    /// Creates an object. The next sync of the Job waits until the cache has it.
    async fn create<T: Object>(
        &self,
        key: &ObjectKey,
        body: &serde_json::Value,
        written: &WritesTo,
    ) -> Result<T, GangError> {
        let target = Target::collection::<T>(&key.namespace);
        let answer = self.client.create(target, body).await;
        let created = T::decode(&answer.map_err(GangError::Create)?).map_err(GangError::Answer)?;
        written.record(key, created.meta().resource_version);
        Ok(created)
    }
}
