//! The ServiceAccount `default`, which a controller makes in each namespace.

use steersman_why::{Code, Explanation, Reason, Role, World, keys};

use crate::serviceaccount::DESCRIPTOR;

/// The name of the account.
pub(super) const DEFAULT: &str = "default";

/// The causes for which the account of `namespace` cannot be made. Empty outside the leader.
pub(super) fn failures(world: &World, namespace: &str) -> Vec<Reason> {
    let mut found = keys::of_key(world, DESCRIPTOR.name, namespace, namespace);
    found.retain(|reason| reason.code.role() == Role::Cause);
    found
}

/// Sends the reader of a refusal for want of the account to the controller that makes it, with its
/// failures.
pub(super) fn follow_default(world: &World, namespace: &str, answer: &mut Explanation) {
    let creator = format!("creator of ServiceAccount {namespace}/{DEFAULT},");
    let mut is_missing = false;
    for reason in &mut answer.reasons {
        if reason.code == Code::ServiceAccountMissing && reason.who.starts_with(&creator) {
            reason.who = format!("{} makes it; see namespace {namespace}", DESCRIPTOR.name);
            is_missing = true;
        }
    }
    if is_missing {
        answer.reasons.extend(failures(world, namespace));
    }
}
