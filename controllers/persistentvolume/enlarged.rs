//! Why a bound claim has not the size that it asks for: the storage driver has to enlarge the volume, and
//! then a kubelet has to enlarge the file system, which it does for a pod that mounts it.
//!
//! This manager takes no part in it, beyond the Event of the volume expander; so all comes from
//! conditions, Events and pods.

use jiff::Timestamp;
use serde_json::Value;
use steersman_objects::{PersistentVolumeClaim, Pod};
use steersman_values::quantity::Quantity;
use steersman_values::resource::{PODS, STATEFUL_SETS};
use steersman_why::{Code, Doc, Explanation, Reason, Workload, World, count, warning, workloads};

/// The component that the reasons name. It runs beside the driver.
const RESIZER: &str = "external-resizer";
/// The component of the second step.
const KUBELET: &str = "kubelet";
/// The condition of a claim whose volume is enlarged, and whose file system is not.
const FILE_SYSTEM: &str = "FileSystemResizePending";
/// Time for the kubelet of a pod, after which a person has to look.
///
/// In seconds. A kubelet needs its next sync of the pod, and the time for a large file system.
const LATE: i64 = 300;
/// Workloads in one sentence, and workloads that one answer looks into.
const SHOWN: usize = 3;

/// Adds the reasons why `claim`, the bound object `doc`, has less than it asks for.
///
/// Both steps may be open at once: the user has asked for more before the first growth has ended.
pub(super) fn explain(
    world: &World,
    doc: &Doc,
    claim: &PersistentVolumeClaim,
    answer: &mut Explanation,
) {
    steps(doc, answer);
    let file_system = holding(doc, FILE_SYSTEM);
    if let Some(condition) = &file_system {
        mounted(world, doc, claim, condition, answer);
    }
    // A later request starts with the driver again.
    let allocated = doc.text("/status/allocatedResources/storage");
    let allocated = Quantity::parse(allocated);
    let wanted = Quantity::parse(doc.text("/spec/resources/requests/storage"));
    let is_further = allocated
        .zip(wanted)
        .is_some_and(|(has, wants)| has < wants);
    if file_system.is_none() || is_further {
        driver(world, doc, answer);
    }
}

/// The condition `kind` of `doc`, if it is true.
fn holding(doc: &Doc, kind: &str) -> Option<Doc> {
    let condition = doc.condition(kind)?;
    (condition.text("/status") == "True").then_some(condition)
}

/// The steps and errors that the conditions of `doc` tell.
fn steps(doc: &Doc, answer: &mut Explanation) {
    for kind in ["Resizing", "ControllerResizeError", "NodeResizeError"] {
        let Some(condition) = holding(doc, kind) else {
            continue;
        };
        let code = if kind.ends_with("Error") {
            Code::RequestFailed
        } else {
            Code::SyncQueued
        };
        let message = format!("{kind}: {}", condition.text("/message"));
        let reason = Reason::new(code, RESIZER, message).who("operator of the storage driver");
        answer.add(reason.since(condition.time("/lastTransitionTime")));
    }
}

/// Adds the pods that mount the enlarged volume of `doc`, or the workload that would.
///
/// A pod on a node comes before one without: its kubelet can act. Without the right to list pods, only
/// the step is told.
fn mounted(
    world: &World,
    doc: &Doc,
    claim: &PersistentVolumeClaim,
    condition: &Doc,
    answer: &mut Explanation,
) {
    let since = condition.time("/lastTransitionTime");
    let step = format!(
        "asks for {} and has {}: the volume is enlarged, and its file system follows when a pod mounts it",
        doc.text("/spec/resources/requests/storage"),
        doc.text("/status/capacity/storage")
    );
    let Some(pods) = world.list(&PODS, doc.namespace()) else {
        let message = format!("{step} ({FILE_SYSTEM})");
        let reason = Reason::new(Code::SyncQueued, KUBELET, message)
            .who("owner of the pods that use the claim (start one)");
        answer.add(reason.since(since));
        return;
    };
    let uses = |pod: &&Doc| {
        pod.view::<Pod>().is_some_and(|pod| {
            let mut claims = steersman_helpers::pods_by_claim::claims_of(&pod);
            !pod.is_finished() && claims.any(|name| *name == *claim.meta.name)
        })
    };
    let users: Vec<&Doc> = pods.iter().filter(uses).collect();
    let placed = users
        .iter()
        .find(|pod| !pod.text("/spec/nodeName").is_empty());
    match (placed, users.first()) {
        (Some(pod), _) => by_kubelet(world, pod, &step, since, answer),
        (None, Some(pod)) => {
            let message = format!("{step}; pod {} uses the claim, and has no node", pod.name());
            let reason = Reason::new(Code::SyncQueued, KUBELET, message);
            answer.add(reason.since(since));
            answer.follow(world.explain(&PODS, pod));
        }
        (None, None) => unused(world, doc, &step, since, answer),
    }
}

/// The kubelet of `pod`, which uses the claim, has not enlarged the file system.
///
/// A restart of the pod makes the kubelet mount the volume anew, which enlarges the file system.
fn by_kubelet(
    world: &World,
    pod: &Doc,
    step: &str,
    since: Option<Timestamp>,
    answer: &mut Explanation,
) {
    let node = pod.text("/spec/nodeName");
    let name = pod.name();
    let message = format!("{step}; pod {name} uses the claim, and the kubelet of {node} does it");
    let is_late = since.is_some_and(|at| world.now.duration_since(at).as_secs() > LATE);
    let reason = if is_late {
        let who = format!("owner of pod {name} (restart it), or administrator of node {node}");
        Reason::new(Code::ResizePending, KUBELET, message).who(who)
    } else {
        Reason::new(Code::SyncQueued, KUBELET, message)
    };
    answer.add(reason.since(since));
}

/// No pod uses the claim: its workload has no replicas, cannot make its pods, or does not exist.
fn unused(
    world: &World,
    doc: &Doc,
    step: &str,
    since: Option<Timestamp>,
    answer: &mut Explanation,
) {
    let makers = workloads(world, doc.namespace(), |workload| {
        mounts(workload, doc.name())
    });
    // A workload with replicas but without a pod is stuck itself, and its own reason follows.
    let makers = makers.unwrap_or_default();
    let (idle, wanting): (Vec<Workload<'_>>, Vec<Workload<'_>>) = makers
        .into_iter()
        .partition(|maker| is_idle(maker, doc.name()));
    let mut message = format!("{step}; no pod uses the claim");
    let mut who = "owner of the claim (a pod that mounts it)".to_owned();
    if wanting.is_empty() && !idle.is_empty() {
        let texts = idle.iter().take(SHOWN).map(|maker| {
            let replicas = usize::try_from(maker.replicas().unwrap_or_default());
            let replicas = count(replicas.unwrap_or_default(), "replica");
            format!("{} mounts it, and has {replicas}", maker.short())
        });
        message = format!("{message}; {}", texts.collect::<Vec<_>>().join("; "));
        let names: Vec<String> = idle.iter().take(SHOWN).map(Workload::long).collect();
        who = format!("owner of {} (spec.replicas)", names.join(", "));
    }
    let reason = Reason::new(Code::ClaimUnused, KUBELET, message).who(who);
    answer.add(reason.since(since));
    for maker in wanting.iter().take(SHOWN) {
        let about = world.explain(maker.of, maker.doc);
        if about.is_stuck() {
            answer.follow(about);
        }
    }
}

/// Whether pods of `workload` mount the claim `name`.
fn mounts(workload: &Doc, name: &str) -> bool {
    let is_volume = |volume: &Value| {
        let claim = volume.pointer("/persistentVolumeClaim/claimName");
        claim.and_then(Value::as_str) == Some(name)
    };
    let volumes = workload.items("/spec/template/spec/volumes");
    volumes.iter().any(is_volume) || ordinal(workload, name).is_some()
}

/// The ordinal of the pod of the StatefulSet `set` to which the claim `name` of a claim template belongs.
fn ordinal(set: &Doc, name: &str) -> Option<i64> {
    let mut templates = set.items("/spec/volumeClaimTemplates").iter();
    templates.find_map(|template| {
        let template = template["metadata"]["name"].as_str()?;
        let ordinal = name.strip_prefix(&format!("{template}-{}-", set.name()))?;
        ordinal.parse().ok()
    })
}

/// Whether `maker` wants no pod that mounts the claim `name`.
///
/// A StatefulSet may have replicas, and yet none with the ordinal of this claim.
fn is_idle(maker: &Workload<'_>, name: &str) -> bool {
    let Some(replicas) = maker.replicas() else {
        return false;
    };
    let ordinal = ordinal(maker.doc, name).filter(|_| maker.of == &STATEFUL_SETS);
    let start = maker.doc.number("/spec/ordinals/start");
    replicas == 0 || ordinal.is_some_and(|ordinal| !(start..start + replicas).contains(&ordinal))
}

/// Adds the reason if the claim asks for more than it has, and no condition or Event tells the cause.
fn driver(world: &World, doc: &Doc, answer: &mut Explanation) {
    let wanted = doc.text("/spec/resources/requests/storage");
    let has = doc.text("/status/capacity/storage");
    let sizes = (Quantity::parse(wanted), Quantity::parse(has));
    let (Some(more), Some(less)) = sizes else {
        return;
    };
    if more <= less || answer.is_stuck() {
        return;
    }
    // An in-tree source has its CSI driver there.
    let driver = doc.text("/metadata/annotations/volume.kubernetes.io~1storage-provisioner");
    let failed = warning(world, doc, &["VolumeResizeFailed"]);
    let message = match &failed {
        Some(event) => format!("asks for {wanted} and has {has}: {}", event.message.trim()),
        None => format!("asks for {wanted} and has {has}; the storage driver resizes the volume"),
    };
    let since = failed
        .as_ref()
        .and_then(|event| event.first)
        .or(doc.changed());
    // The external resizer begins at the event of the claim; a minute without it is a fault.
    let is_late = since.is_some_and(|at| world.now.duration_since(at).as_secs() > 60);
    let code = if failed.is_some() || is_late {
        Code::ResizePending
    } else {
        Code::SyncQueued
    };
    let who = match driver {
        "" => "operator of the storage driver".to_owned(),
        driver => format!("operator of the storage driver {driver}"),
    };
    let mut reason = Reason::new(code, RESIZER, message).who(who).since(since);
    if let Some(event) = failed {
        reason.last_try = event.at;
        reason.attempts = event.count;
    }
    answer.add(reason);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::resource::DEPLOYMENTS;

    use super::*;

    #[test]
    fn a_workload_is_idle_without_a_pod_that_mounts_the_claim() {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        let deployment = |replicas: i64| {
            json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
                "template": {"spec": {"volumes": volumes}}}})
        };
        let set = |replicas: i64, start: i64| {
            json!({"metadata": {"name": "db"}, "spec": {"replicas": replicas, "ordinals": {"start": start},
                "volumeClaimTemplates": [{"metadata": {"name": "log"}}, {"metadata": {"name": "data"}}]}})
        };
        // (type, object, claim, mounts, idle)
        let cases = [
            (&DEPLOYMENTS, deployment(0), "data", true, true),
            (&DEPLOYMENTS, deployment(2), "data", true, false),
            (&DEPLOYMENTS, deployment(0), "data-db-0", false, true),
            (&STATEFUL_SETS, set(0, 0), "data-db-0", true, true),
            (&STATEFUL_SETS, set(1, 0), "data-db-0", true, false),
            (&STATEFUL_SETS, set(1, 0), "log-db-1", true, true),
            (&STATEFUL_SETS, set(1, 1), "log-db-1", true, false),
            (&STATEFUL_SETS, set(1, 0), "data-db-x", false, false),
        ];
        for (of, object, claim, is_mounted, idle) in cases {
            let doc = Doc::new(object);
            assert_eq!(mounts(&doc, claim), is_mounted, "{claim} {doc:?}");
            let maker = Workload { of, doc: &doc };
            assert_eq!(is_idle(&maker, claim), idle, "{claim} {doc:?}");
        }
    }
}
