//! The claims of a pod, and the other pods that use one of them.

use jiff::Timestamp;
use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};

use crate::demand::claim_names;
use crate::workload::controller;
use crate::{Code, Doc, Explanation, Reason, World, maker};

const SCHEDULER: &str = "kube-scheduler";

/// The field of a reason with the controller of the pod that uses the claim.
pub const USER_CONTROLLER: &str = "controllerOfUser";

/// The first pod on a node that uses `claim` of `pod` too. A pod that has ended uses none.
fn user<'w>(world: &'w World, pod: &Doc, claim: &str) -> Option<&'w Doc> {
    let all = world.within(&PODS, pod.namespace())?;
    let uses = |other: &&Doc| {
        let is_placed = !other.text("/spec/nodeName").is_empty();
        let is_other = other.name() != pod.name();
        is_other
            && is_placed
            && !other.has_ended()
            && claim_names(other).iter().any(|name| name == claim)
    };
    let users: Vec<&Doc> = all.into_iter().filter(uses).collect();
    // A pod that stays says more than one that goes.
    let stays = users.iter().find(|other| other.deleted().is_none());
    stays.or(users.first()).copied()
}

/// Adds the pods that use the claims of `doc` with the mode ReadWriteOncePod. `false` if there is none.
///
/// Upstream: `volumerestrictions` of kube-scheduler, which finds no node for a second pod.
pub(super) fn exclusive(
    world: &World,
    doc: &Doc,
    since: Option<Timestamp>,
    answer: &mut Explanation,
) -> bool {
    let mut is_taken = false;
    for claim in claim_names(doc) {
        let found = world.get(&PERSISTENT_VOLUME_CLAIMS, doc.namespace(), &claim);
        let modes = found.found().map(|claim| modes(&claim));
        let Some(modes) = modes.filter(|modes| modes.contains("ReadWriteOncePod")) else {
            continue;
        };
        let Some(user) = user(world, doc, &claim) else {
            continue;
        };
        is_taken = true;
        let uses = uses(user);
        let message = format!(
            "claim {claim} has the access mode ReadWriteOncePod, which one pod may use, and {uses}"
        );
        let code = match user.deleted() {
            None => Code::ClaimTaken,
            Some(_) => Code::OldPodsRunning,
        };
        let reason = Reason::new(code, SCHEDULER, message).since(since);
        answer.add(with_user(reason, doc, user, (&claim, &modes)));
        if user.deleted().is_some() {
            follow_end(world, user, answer);
        }
    }
    is_taken
}

/// Follows `user`, a pod that is being deleted, if it cannot end.
fn follow_end(world: &World, user: &Doc, answer: &mut Explanation) {
    let about = world.explain(&PODS, user);
    if about.is_stuck() {
        answer.follow(about);
    }
}

/// `pod web-0 of deployment shop/web on node-1 uses it`.
fn uses(user: &Doc) -> String {
    let of = match controller(user) {
        Some(_) => format!(" of {}", maker(user)),
        None => String::new(),
    };
    let end = match user.deleted() {
        None => "",
        Some(_) => " until it has ended, because it is being deleted",
    };
    format!(
        "pod {}{of} on {} uses it{end}",
        user.name(),
        user.text("/spec/nodeName")
    )
}

/// Names the pod on another node that uses `volume` of `pod`, in `reason` about its attachment there.
pub fn name_user(world: &World, pod: &Doc, volume: &str, reason: Reason) -> Reason {
    let named = claim_names(pod).into_iter().find_map(|claim| {
        let found = world.get(&PERSISTENT_VOLUME_CLAIMS, pod.namespace(), &claim);
        let found = found.found()?;
        (found.text("/spec/volumeName") == volume).then_some((claim, found))
    });
    let Some((claim, found)) = named else {
        return reason;
    };
    let user = user(world, pod, &claim);
    let node = pod.text("/spec/nodeName");
    let Some(user) = user.filter(|user| user.text("/spec/nodeName") != node) else {
        return reason;
    };
    let modes = modes(&found);
    let mut reason = with_user(reason, pod, user, (&claim, &modes));
    reason.message = format!(
        "{}; claim {claim} ({modes}) is for one node, and {}",
        reason.message.trim_end_matches('.'),
        uses(user)
    );
    reason
}

fn modes(claim: &Doc) -> String {
    claim.texts("/spec/accessModes").join(", ")
}

/// `reason` with the person that can act about `user`, which uses `claim` of `pod`.
fn with_user(reason: Reason, pod: &Doc, user: &Doc, (claim, modes): (&str, &str)) -> Reason {
    let own = controller(pod).map(|owner| &owner["uid"]);
    let other = controller(user).map(|owner| &owner["uid"]);
    let who = if user.deleted().is_some() {
        String::new()
    } else if own.is_some() && own == other {
        format!(
            "owner of {} (one replica, or a claim for each pod)",
            maker(pod)
        )
    } else if own.is_some() && maker(pod) == maker(user) {
        format!(
            "owner of {} (strategy Recreate: the pod of the older revision must end first)",
            maker(pod)
        )
    } else {
        format!(
            "owner of {} (the pod that uses the claim), or of {} (another claim)",
            maker(user),
            maker(pod)
        )
    };
    let name = controller(user).and_then(|owner| owner["name"].as_str());
    reason
        .who(who)
        .field("claim", claim)
        .field("accessModes", modes)
        .field("user", user.name())
        .field(USER_CONTROLLER, name.unwrap_or_default())
}

/// The volume in `Multi-Attach error for volume "pvc-1" Volume is already ...`.
pub(super) fn multi_attached(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("Multi-Attach error for volume ")?;
    rest.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Loaded, Need};

    fn pod(name: &str, owner: (&str, &str), node: &str, phase: &str) -> Doc {
        Doc::new(json!({
            "metadata": {"namespace": "shop", "name": name, "labels": {"pod-template-hash": owner.1},
                "ownerReferences": [{"kind": "ReplicaSet", "name": format!("{}-{}", owner.0, owner.1),
                    "uid": format!("{owner:?}"), "controller": true}]},
            "spec": {"nodeName": node, "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": phase},
        }))
    }

    fn taken(mode: &str, others: Vec<Doc>) -> Option<(Code, String)> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let claim = Need::Object {
            of: PERSISTENT_VOLUME_CLAIMS.clone(),
            namespace: "shop".to_owned(),
            name: "data".to_owned(),
        };
        let doc = Doc::new(json!({"spec": {"accessModes": [mode]}}));
        world.load(claim, Loaded::Objects(vec![doc]));
        let all = Need::List {
            of: PODS.clone(),
            namespace: "shop".to_owned(),
            fields: String::new(),
        };
        world.load(all, Loaded::Objects(others));
        let waiting = pod("web-new", ("web", "b2"), "", "Pending");
        let mut answer = Explanation::new(waiting.subject(&PODS), "");
        let is_taken = exclusive(&world, &waiting, None, &mut answer);
        assert_eq!(is_taken, !answer.reasons.is_empty());
        let reason = answer.reasons.pop()?;
        Some((reason.code, reason.who))
    }

    #[test]
    fn the_pod_that_uses_an_exclusive_claim_decides_who_can_act() {
        let with =
            |owner, node, phase| taken("ReadWriteOncePod", vec![pod("other", owner, node, phase)]);
        let who = |found: Option<(Code, String)>| found.unwrap().1;
        assert!(who(with(("web", "a1"), "n", "Running")).contains("strategy Recreate"));
        assert!(who(with(("web", "b2"), "n", "Running")).contains("one replica"));
        assert!(
            who(with(("lab", "a1"), "n", "Running")).starts_with("owner of deployment shop/lab")
        );
        // A pod without a node, one that has ended, and a claim for many pods.
        assert_eq!(with(("web", "a1"), "", "Pending"), None);
        assert_eq!(with(("web", "a1"), "n", "Succeeded"), None);
        let other = pod("other", ("web", "a1"), "n", "Running");
        assert_eq!(taken("ReadWriteOnce", vec![other.clone()]), None);
        // A pod that ends frees the claim by itself.
        let mut ending = other.value().clone();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let found = taken("ReadWriteOncePod", vec![Doc::new(ending)]).unwrap();
        assert_eq!(found, (Code::OldPodsRunning, String::new()));
    }

    #[test]
    fn the_volume_of_a_multi_attach_error_is_read() {
        let text = "Multi-Attach error for volume \"pv1\" Volume is already used by pod(s) a";
        assert_eq!(multi_attached(text), Some("pv1"));
        assert_eq!(
            multi_attached("AttachVolume.Attach failed for volume \"pv1\""),
            None
        );
    }
}
