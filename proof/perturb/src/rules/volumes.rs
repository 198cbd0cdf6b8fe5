//! Rules of the PersistentVolume binder.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State, key_of};
use crate::scenario::{FinalRule, Rule};

/// No two claims are bound to one volume.
pub const BOUND_ONCE: Rule = Rule {
    name: "a volume is bound to one claim",
    check: bound_once,
};
/// No controller and no provisioner releases or deletes a volume while its claim exists. A user may
/// delete one: the rule is for scenarios in which no user does.
pub const KEPT_FOR_CLAIM: Rule = Rule {
    name: "the volume of a claim stays",
    check: kept_for_claim,
};

/// The comparison of final states leaves volumes out, because provisioned ones have random names.
pub const POINTERS_AGREE: FinalRule = FinalRule {
    name: "bound claims and volumes point at each other",
    check: pointers_agree,
};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";

/// Whether `claim` is bound to the volume with this name.
fn is_bound_to(claim: &Value, volume: &str) -> bool {
    claim["status"]["phase"] == "Bound" && claim["spec"]["volumeName"] == *volume
}

fn bound_once(state: &State, change: &Change) -> Result<(), String> {
    let volume = change.object["spec"]["volumeName"].as_str();
    let is_claim = &*change.plural == CLAIMS && change.kind != ChangeKind::Deleted;
    let Some(volume) = volume.filter(|volume| is_claim && is_bound_to(&change.object, volume))
    else {
        return Ok(());
    };
    let mut others = state
        .all(CLAIMS)
        .filter(|claim| key_of(claim) != *change.key);
    match others.find(|claim| is_bound_to(claim, volume)) {
        Some(other) => Err(format!(
            "{} and {} are bound to {volume}",
            change.key,
            key_of(other)
        )),
        None => Ok(()),
    }
}

fn kept_for_claim(state: &State, change: &Change) -> Result<(), String> {
    let is_released = |volume: &Value| volume["status"]["phase"] == "Released";
    let before = change.before.as_deref().is_some_and(is_released);
    let ends = change.begins_deletion() || (is_released(&change.object) && !before);
    if &*change.plural != VOLUMES || !ends {
        return Ok(());
    }
    let reference = &change.object["spec"]["claimRef"]["uid"];
    let mut claims = state.all(CLAIMS);
    let uses = |claim: &&Value| {
        let volume = &claim["spec"]["volumeName"];
        let is_elsewhere = volume.as_str().is_some_and(|volume| *volume != *change.key);
        claim["metadata"]["uid"] == *reference && !is_elsewhere
    };
    match claims.find(uses) {
        Some(claim) => Err(format!("{} ends under {}", change.key, key_of(claim))),
        None => Ok(()),
    }
}

fn pointers_agree(state: &State) -> Result<(), String> {
    let is_bound = |object: &&Value| object["status"]["phase"] == "Bound";
    for claim in state.all(CLAIMS).filter(is_bound) {
        let name = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let volume = state.get(VOLUMES, name);
        let points = |volume: &Value| {
            volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
                && volume["status"]["phase"] == "Bound"
        };
        if !volume.is_some_and(points) {
            return Err(format!("the claim of {name} has no volume"));
        }
    }
    let claims = state.all(CLAIMS).filter(is_bound).count();
    let volumes = state.all(VOLUMES).filter(is_bound).count();
    if claims == volumes {
        Ok(())
    } else {
        Err(format!("{claims} claims and {volumes} volumes are bound"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check;
    use super::*;

    const BINDER: &str = "persistent-volume-binder";

    fn claim(name: &str, volume: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": name, "uid": name}, "spec": {"volumeName": volume},
            "status": {"phase": phase},
        })
    }

    fn volume(claim: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "pv", "uid": "pv"}, "spec": {"claimRef": {"uid": claim}},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn a_second_claim_of_a_volume_breaks_the_rule() {
        let case = |why, first: Value, second: Value, breaks| {
            let world = vec![(CLAIMS, first)];
            (
                why,
                world,
                BINDER,
                CLAIMS,
                ChangeKind::Updated,
                second,
                breaks,
            )
        };
        let bound = |name, volume| claim(name, volume, "Bound");
        check(
            BOUND_ONCE,
            [
                case("the same volume", bound("a", "pv"), bound("b", "pv"), true),
                case(
                    "another volume",
                    bound("a", "other"),
                    bound("b", "pv"),
                    false,
                ),
                case("the same claim", bound("a", "pv"), bound("a", "pv"), false),
                case(
                    "not yet bound",
                    bound("a", "pv"),
                    claim("b", "pv", "Pending"),
                    false,
                ),
                case("lost", claim("a", "pv", "Lost"), bound("b", "pv"), false),
            ],
        );
    }

    #[test]
    fn the_end_of_a_used_volume_breaks_the_rule() {
        let case = |why, of: Value, kind, volume: Value, breaks| {
            let world = vec![(CLAIMS, of), ("persistentvolumes", bound_volume())];
            (
                why,
                world,
                BINDER,
                "persistentvolumes",
                kind,
                volume,
                breaks,
            )
        };
        let own = || claim("a", "pv", "Bound");
        let released = || volume("a", "Released");
        let updated = ChangeKind::Updated;
        let deleted = ChangeKind::Deleted;
        check(
            KEPT_FOR_CLAIM,
            [
                case("released", own(), updated, released(), true),
                case("deleted", own(), deleted, bound_volume(), true),
                case(
                    "of a gone claim",
                    claim("b", "pv", "Bound"),
                    updated,
                    released(),
                    false,
                ),
                case(
                    "elsewhere",
                    claim("a", "other", "Bound"),
                    updated,
                    released(),
                    false,
                ),
                case("still bound", own(), updated, bound_volume(), false),
            ],
        );
    }

    fn bound_volume() -> Value {
        volume("a", "Bound")
    }
}
