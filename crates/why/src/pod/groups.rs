//! The pods of a workload that are not available, grouped by their reasons.

use std::collections::BTreeMap;

use steersman_objects::Pod;
use steersman_values::resource::PODS;

use super::{NAMES, ONLY_NODE, RESTARTED};
use crate::{Code, Doc, Explanation, Reason, World};

/// Groups of pods with the same reason in one answer.
const GROUPS: usize = 4;

/// The answers about those of `pods` that are not available, grouped by their reasons.
pub fn unavailable(world: &World, pods: &[Doc], min_ready: i32) -> Vec<Explanation> {
    let mut groups: BTreeMap<String, (Explanation, Vec<String>)> = BTreeMap::new();
    for doc in pods {
        let Some(pod) = doc.view::<Pod>() else {
            continue;
        };
        if pod.is_available(min_ready, world.now) && !pod.meta.is_terminating() {
            continue;
        }
        let mut about = world.explain(&PODS, doc);
        if about.reasons.is_empty() && pod.is_ready() && !pod.meta.is_terminating() {
            let next = pod.next_availability_check(min_ready, world.now);
            let next = next.and_then(|delay| world.now.checked_add(delay).ok());
            let message = format!(
                "the pod is ready, and counts as available after {min_ready} s (minReadySeconds)"
            );
            about.add(Reason::new(Code::MinReadySeconds, "", message).next(next));
        }
        let key: Vec<String> = about
            .reasons
            .iter()
            .map(|reason| {
                let mut message = &*reason.message;
                for own in [RESTARTED, ONLY_NODE] {
                    message = message.split(own).next().unwrap_or_default();
                }
                format!("{:?} {}", reason.code, message.replace(doc.name(), ""))
            })
            .chain(about.waits_for.iter().map(|other| other.state.clone()))
            .collect();
        let group = groups.entry(key.join("\n")).or_insert((about, Vec::new()));
        group.1.push(doc.name().to_owned());
    }
    let mut all: Vec<_> = groups.into_values().collect();
    all.sort_by_key(|(about, names)| (!about.is_stuck(), std::cmp::Reverse(names.len())));
    let left_out = all.len().saturating_sub(GROUPS);
    all.truncate(GROUPS);
    let mut found: Vec<Explanation> = all
        .into_iter()
        .map(|(about, names)| of_group(about, &names))
        .collect();
    if left_out > 0
        && let Some(last) = found.last_mut()
    {
        let message = format!("{left_out} further groups of pods with other reasons are left out");
        last.add(Reason::new(Code::SeveralCauses, "", message));
    }
    found
}

fn of_group(mut about: Explanation, names: &[String]) -> Explanation {
    if names.len() > 1 {
        let others = names.len() - 1;
        let shown: Vec<&str> = names[1..]
            .iter()
            .take(NAMES - 1)
            .map(String::as_str)
            .collect();
        let more = others - shown.len();
        let rest = if more == 0 {
            String::new()
        } else {
            format!(" and {more} more")
        };
        about.state = format!(
            "{}; the same holds for {}{rest}",
            about.state,
            shown.join(", ")
        );
    }
    about
}
