//! Why a claim is not bound, by the step of its sync, and why a volume is not free.
//!
//! The claim's own step decides here as well, on the objects that the user may read. So the answer
//! never contradicts the controller.

use std::sync::Arc;

use jiff::SignedDuration;
use steersman_objects::{ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use steersman_options::features::VOLUME_ATTRIBUTES_CLASS;
use steersman_runtime::informer::Store;
use steersman_values::quantity::Quantity;
use steersman_values::resource::{
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES,
};
use steersman_why::{Code, Doc, Explanation, Reason, World, existing, warning};

use super::claim::{DecideError, Step, step};
use super::known::Volumes;
use super::matching::{AttributesClasses, MatchError};
use super::unclassified::{names, unclassified};
use super::{NAME, enlarged, source};

/// Volumes that nearly fit, in one answer.
///
/// More would hide the cause.
const NEAREST: usize = 2;
/// Time after which a released volume that is to be deleted is worth a look.
///
/// A driver deletes most volumes within seconds.
const DELETED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Adds the reasons why `doc`, a claim, is not bound.
///
/// The lists of volumes and classes are needed: the step would otherwise be a guess.
pub(crate) fn claim(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(claim) = doc.view::<PersistentVolumeClaim>() else {
        return;
    };
    let phase = doc.text("/status/phase");
    answer.state = format!("is {phase}");
    // Its deletion is the matter then.
    if doc.deleted().is_some() {
        return;
    }
    if phase == "Bound" {
        enlarged::explain(world, doc, &claim, answer);
        return;
    }
    answer.since = doc.time("/metadata/creationTimestamp");
    if let Some(reason) = source::missing(world, doc) {
        answer.add(reason);
        return;
    }
    let volumes = world.list(&PERSISTENT_VOLUMES, "");
    let classes = world.list(&STORAGE_CLASSES, "");
    let (Some(volumes), Some(classes)) = (volumes, classes) else {
        return;
    };
    let known = {
        let mut known = Volumes::default();
        for volume in volumes.iter().filter_map(Doc::view::<PersistentVolume>) {
            known.store(&volume);
        }
        known
    };
    let stored: Store<StorageClass> = classes
        .iter()
        .filter_map(Doc::view::<StorageClass>)
        .collect();
    let is_off = world.has_gate_off(VOLUME_ATTRIBUTES_CLASS.name);
    let attributes = AttributesClasses::with_gate(!is_off);
    let users = || users(world, doc, &claim);
    match step(&claim, &known, &stored, attributes, users) {
        Err(error) => answer.add(undecided(&error)),
        // The claim is new, or its sync waits behind others.
        Ok(Step::Bind(volume) | Step::Complete(volume)) => {
            let message = format!("volume {} fits, and is bound next", volume.meta.name);
            answer.add(Reason::new(Code::SyncQueued, NAME, message));
        }
        Ok(Step::Classify(class)) => {
            let message = format!("the claim gets the default class {class} next");
            answer.add(Reason::new(Code::SyncQueued, NAME, message));
        }
        Ok(Step::Provision) => provision(world, doc, &claim, &stored, volumes, answer),
        Ok(Step::Wait(notice)) => {
            let message = notice.map(|notice| notice.message);
            match volumes.iter().find(|volume| is_taken(volume, doc)) {
                Some(volume) => taken(doc, volume, message.unwrap_or_default(), answer),
                None => match bypassed(world, doc, &claim) {
                    Some(reason) if is_for_consumer(message.as_deref()) => answer.add(reason),
                    _ => waits(doc, &claim, &stored, volumes, message, answer),
                },
            }
        }
        Ok(Step::Lose(notice)) => {
            let who = "owner of the data: restore the volume, or delete the claim";
            answer.add(Reason::new(Code::VolumeLost, NAME, notice.message).who(who));
        }
        Ok(Step::Refuse(notice, _)) => {
            answer.add(
                Reason::new(Code::NoMatchingVolume, NAME, notice.message).who("owner of the claim"),
            );
        }
    }
}

/// The reason for a claim whose step is unknown.
fn undecided(error: &DecideError) -> Reason {
    let reason = |code| Reason::new(code, NAME, error.to_string());
    match error {
        DecideError::Match {
            source: MatchError::AttributesClass { .. },
            ..
        } => reason(Code::NoMatchingVolume).who(
            "administrator of the controller manager (feature gate VolumeAttributesClass), or owner of the claim",
        ),
        _ => reason(Code::SelectorInvalid).who("owner of the claim or its class"),
    }
}

/// Whether `claim` asks for `volume`, which belongs to another claim.
fn is_taken(volume: &Doc, claim: &Doc) -> bool {
    let owner = volume.text("/spec/claimRef/uid");
    volume.name() == claim.text("/spec/volumeName") && !owner.is_empty() && owner != claim.uid()
}

/// Adds the claim to which `volume` belongs.
///
/// A recreated claim is a frequent case: the volume still names its predecessor by UID, and waits for
/// an administrator.
fn taken(doc: &Doc, volume: &Doc, message: String, answer: &mut Explanation) {
    let name = volume.name();
    let namespace = volume.text("/spec/claimRef/namespace");
    let claim = volume.text("/spec/claimRef/name");
    let is_former = namespace == doc.namespace() && claim == doc.name();
    let (message, who) = if is_former {
        (
            format!(
                "{message} spec.claimRef of the volume has the UID of an earlier claim of this name, which is gone"
            ),
            format!("administrator of volume {name} (remove spec.claimRef)"),
        )
    } else {
        (
            format!("{message} It belongs to claim {namespace}/{claim}"),
            format!(
                "owner of the claim (another volumeName), or of PersistentVolumeClaim {namespace}/{claim}"
            ),
        )
    };
    answer.add(
        Reason::new(Code::NoMatchingVolume, NAME, message.trim_start())
            .who(who)
            .since(doc.time("/metadata/creationTimestamp")),
    );
}

/// The pods that use the claim, as far as the user may list them.
fn users(world: &World, doc: &Doc, claim: &PersistentVolumeClaim) -> Vec<Arc<Pod>> {
    let pods = world
        .list(&PODS, doc.namespace())
        .unwrap_or_default()
        .iter();
    let uses = |pod: &Arc<Pod>| {
        let names = steersman_helpers::pods_by_claim::claims_of(pod);
        names.into_iter().any(|name| *name == *claim.meta.name)
    };
    pods.filter_map(Doc::view::<Pod>).filter(uses).collect()
}

/// Whether the claim waits for the node of a pod.
///
/// Both Events of `awaited_pods` begin so.
fn is_for_consumer(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.starts_with("waiting for"))
}

/// The reason if a pod that uses the claim is on a node that no scheduler chose. The scheduler names its node in
/// the claim before it binds the pod, so such a claim waits for ever.
fn bypassed(world: &World, doc: &Doc, claim: &PersistentVolumeClaim) -> Option<Reason> {
    if !doc
        .text("/metadata/annotations/volume.kubernetes.io~1selected-node")
        .is_empty()
    {
        return None;
    }
    let users = users(world, doc, claim);
    let is_placed =
        |pod: &&Arc<Pod>| pod.node.is_some() && !pod.is_finished() && !pod.meta.is_terminating();
    let pod = users.iter().find(is_placed)?;
    let message = format!(
        "class {} waits for the scheduler to choose a node, and pod {} was put on node {} past the scheduler (spec.nodeName)",
        claim.class(),
        pod.meta.name,
        pod.node.as_deref().unwrap_or_default()
    );
    let who = "owner of the pod template (a nodeSelector in place of nodeName), or administrator of the class \
               (volumeBindingMode)";
    let reason = Reason::new(Code::SchedulerBypassed, NAME, message).who(who);
    Some(reason.since(doc.time("/metadata/creationTimestamp")))
}

/// The free volumes that fit `claim` in all but one point, in words.
///
/// A volume with several points against it would only distract. Selectors are not compared.
///
/// A released volume has the reference to its former claim against it. With it comes the person that can free it.
fn nearest(claim: &Doc, volumes: &[Doc]) -> (String, Option<String>) {
    let size = |doc: &Doc, pointer: &str| Quantity::parse(doc.text(pointer));
    let mode = |doc: &Doc| match doc.text("/spec/volumeMode") {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    let wanted = size(claim, "/spec/resources/requests/storage");
    let is_released = |volume: &Doc| volume.text("/status/phase") == "Released";
    // The data of another claim, or a volume that will be deleted, are none for this claim.
    let was_own = |volume: &Doc| {
        volume.text("/spec/claimRef/namespace") == claim.namespace()
            && volume.text("/spec/claimRef/name") == claim.name()
            && volume.text("/spec/persistentVolumeReclaimPolicy") != "Delete"
    };
    let is_free = |volume: &&Doc| {
        volume.at("/spec/claimRef").is_none() || (is_released(volume) && was_own(volume))
    };
    let near = volumes.iter().filter(is_free).filter_map(|volume| {
        let mut problems = Vec::new();
        let class = volume.text("/spec/storageClassName");
        if class != claim.text("/spec/storageClassName") {
            let asked = claim.text("/spec/storageClassName");
            problems.push(format!(
                "is of class {class:?}, and the claim asks for {asked:?}"
            ));
        }
        let modes = volume.texts("/spec/accessModes");
        for lacking in claim.texts("/spec/accessModes") {
            if !modes.contains(&lacking) {
                problems.push(format!("has no access mode {lacking}"));
            }
        }
        if size(volume, "/spec/capacity/storage") < wanted {
            problems.push(format!("has {}", volume.text("/spec/capacity/storage")));
        }
        if mode(volume) != mode(claim) {
            problems.push(format!("has volumeMode {}", mode(volume)));
        }
        if is_released(volume) {
            problems.push(format!(
                "is Released, since spec.claimRef still has the UID of its former claim {}/{}",
                volume.text("/spec/claimRef/namespace"),
                volume.text("/spec/claimRef/name")
            ));
        }
        let owner = format!(
            "administrator of volume {} (remove spec.claimRef)",
            volume.name()
        );
        match &problems[..] {
            [only] => Some((
                format!("volume {} {only}", volume.name()),
                is_released(volume).then_some(owner),
            )),
            _ => None,
        }
    });
    let (near, owners): (Vec<String>, Vec<Option<String>>) = near.take(NEAREST).unzip();
    let text = match &near[..] {
        [] => String::new(),
        near => format!("; nearest: {}", near.join(", ")),
    };
    (text, owners.into_iter().flatten().next())
}

/// `who`, after the person that can free a released volume.
fn or_owner(owner: Option<String>, who: &str) -> String {
    match owner {
        Some(owner) => format!("{owner}, or {who}"),
        None => who.to_owned(),
    }
}

/// Adds the reason of a claim without a volume that fits.
fn waits(
    doc: &Doc,
    claim: &PersistentVolumeClaim,
    classes: &Store<StorageClass>,
    volumes: &[Doc],
    message: Option<String>,
    answer: &mut Explanation,
) {
    let message = message.unwrap_or_else(|| {
        format!(
            "volume {} of the claim does not exist",
            claim.spec.volume_name
        )
    });
    if is_for_consumer(Some(&message)) {
        answer.add(Reason::new(Code::WaitsForConsumer, NAME, message));
    } else {
        let who =
            "creator of a PersistentVolume that fits, or owner of the claim (storageClassName)";
        let (near, owner) = nearest(doc, volumes);
        let who = or_owner(owner, who);
        let (default, who) = match unclassified(claim, classes) {
            Some((default, marks)) => (default, format!("{marks}, {who}")),
            None => (String::new(), who),
        };
        let message = format!("{message}{default}{near}");
        answer.add(Reason::new(Code::NoMatchingVolume, NAME, message).who(who));
    }
}

/// The claim waits for the provisioner of its class.
///
/// Causes of the class come first: a missing class, then a class without a provisioner. The
/// provisioner's own Event comes last.
fn provision(
    world: &World,
    doc: &Doc,
    claim: &PersistentVolumeClaim,
    classes: &Store<StorageClass>,
    volumes: &[Doc],
    answer: &mut Explanation,
) {
    let name = claim.class();
    let Some(class) = classes.get(&ObjectKey::new("", name)) else {
        let known = names(classes);
        let (near, owner) = nearest(doc, volumes);
        let message = format!(
            "StorageClass {name} does not exist ({}), and no volume of that class fits{near}",
            existing(known.iter().map(|name| &**name))
        );
        let who =
            format!("creator of StorageClass {name}, or owner of the claim (storageClassName)");
        let who = or_owner(owner, &who);
        answer.add(Reason::new(Code::ClassMissing, NAME, message).who(who));
        return;
    };
    let provisioner = &class.provisioner;
    if &**provisioner == "kubernetes.io/no-provisioner" {
        let (near, owner) = nearest(doc, volumes);
        let message =
            format!("class {name} provisions no volumes, and no PersistentVolume of it fits{near}");
        let who = or_owner(
            owner,
            "creator of a PersistentVolume that fits, or owner of the claim",
        );
        answer.add(Reason::new(Code::NoMatchingVolume, NAME, message).who(who));
        return;
    }
    let failed = warning(world, doc, &["ProvisioningFailed"]);
    let since = failed
        .as_ref()
        .and_then(|event| event.first)
        .or(doc.time("/metadata/creationTimestamp"));
    let message = match &failed {
        Some(event) => event.message.clone(),
        None => format!(
            "waits for provisioner {provisioner}, which is another component, to make a volume of class {name}"
        ),
    };
    let mut reason = Reason::new(Code::ProvisionerPending, &**provisioner, message)
        .who(format!("operator of the provisioner {provisioner}"))
        .since(since);
    if let Some(event) = failed {
        reason.last_try = event.at;
        reason.attempts = event.count;
    }
    answer.add(reason);
}

/// Adds the reasons about `doc`, a volume.
///
/// Phases other than `Failed` and `Released` are no problem.
pub(crate) fn volume(world: &World, doc: &Doc, answer: &mut Explanation) {
    let phase = doc.text("/status/phase");
    answer.state = format!("is {phase}");
    if phase == "Failed" {
        let message = match doc.text("/status/message") {
            "" => warning(world, doc, &["VolumeFailedDelete", "VolumeFailedRecycle"])
                .map(|event| event.message),
            message => Some(message.to_owned()),
        };
        let message = message.unwrap_or_else(|| "the volume could not be reclaimed".to_owned());
        answer.add(
            Reason::new(Code::RequestFailed, NAME, message).who("administrator of the storage"),
        );
    } else if phase == "Released" && doc.text("/spec/persistentVolumeReclaimPolicy") == "Retain" {
        let message =
            "the claim is gone and the policy is Retain, so nothing binds the volume again";
        let who = "owner of the data (delete the volume, or remove spec.claimRef)";
        answer.add(
            Reason::new(Code::NoMatchingVolume, NAME, message)
                .who(who)
                .since(doc.time("/status/lastPhaseTransitionTime")),
        );
    } else if phase == "Released" && doc.text("/spec/persistentVolumeReclaimPolicy") == "Delete" {
        reclaim(world, doc, answer);
    }
}

/// Adds the reason why `doc`, a released volume with the policy Delete, is still there.
///
/// The driver is named by the annotation of its provisioner; a volume of an administrator has its CSI
/// source only.
fn reclaim(world: &World, doc: &Doc, answer: &mut Explanation) {
    let driver = match doc.text("/metadata/annotations/pv.kubernetes.io~1provisioned-by") {
        "" => doc.text("/spec/csi/driver"),
        driver => driver,
    };
    let by = if driver.is_empty() { NAME } else { driver };
    let since = doc.time("/status/lastPhaseTransitionTime");
    let who = format!("operator of the storage driver {driver}");
    if let Some(event) = warning(world, doc, &["VolumeFailedDelete"]) {
        let message = format!("the driver cannot delete the volume: {}", event.message);
        let mut reason = Reason::new(Code::ReclaimPending, by, message)
            .who(who)
            .since(since.or(event.first));
        reason.last_try = event.at;
        reason.attempts = event.count;
        answer.add(reason);
        return;
    }
    let message = "the claim is gone and the policy is Delete, so the driver deletes the volume";
    let is_new = since.is_none_or(|at| world.now.duration_since(at) < DELETED_AFTER);
    let reason = if is_new {
        Reason::new(Code::SyncQueued, by, message)
    } else {
        Reason::new(Code::ReclaimPending, by, message).who(who)
    };
    answer.add(reason.since(since));
}

/// Adds the claim that keeps `doc`, a volume that is being deleted.
///
/// The volume goes after its claim, so the answer goes on with a deleted claim.
pub(crate) fn volume_in_use(world: &World, doc: &Doc, answer: &mut Explanation) {
    let namespace = doc.text("/spec/claimRef/namespace");
    let name = doc.text("/spec/claimRef/name");
    let claim = world.get(&PERSISTENT_VOLUME_CLAIMS, namespace, name);
    let message = format!(
        "finalizer kubernetes.io/pv-protection: the volume is bound to claim {namespace}/{name}"
    );
    let reason = Reason::new(
        Code::VolumeBound,
        "persistentvolume-protection-controller",
        message,
    )
    .who(format!("owner of PersistentVolumeClaim {namespace}/{name}"));
    answer.add(reason.since(doc.deleted()));
    if let Some(claim) = claim.found().filter(|claim| claim.deleted().is_some()) {
        answer.follow(world.explain(&PERSISTENT_VOLUME_CLAIMS, &claim));
    }
}
