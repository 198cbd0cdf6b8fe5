//! Pods that the kubelet has evicted, in its words. Their replacement often waits for the node that lacks the resource,
//! and tells nothing about the pods before it.
//!
//! Upstream: the messages in `pkg/kubelet/eviction/helpers.go`.

use jiff::{SignedDuration, Timestamp};

use super::KUBELET;
use crate::{Code, Doc, Reason, World};

/// `status.reason` of an evicted pod.
const EVICTED: &str = "Evicted";
/// An older eviction says nothing about today.
const RECENT: SignedDuration = SignedDuration::from_hours(1);
/// The longest time from an eviction to the replacement of the pod.
const REPLACED: SignedDuration = SignedDuration::from_mins(5);

/// Whether the kubelet has evicted `pod`. The API of evictions deletes a pod, and leaves no such status.
pub(super) fn is_evicted(pod: &Doc) -> bool {
    pod.text("/status/reason") == EVICTED
}

/// The reason if the kubelet has evicted at least `least` of `pods`, the pods of one workload, within the last hour, and
/// if the replacement of the newest one is among `waiting`, the pods that are not available. Other pods wait for something
/// else.
pub fn evicted(world: &World, pods: &[Doc], waiting: &[Doc], least: usize) -> Option<Reason> {
    let pods = pods.iter().filter(|pod| is_evicted(pod));
    let mut found: Vec<(Timestamp, &Doc)> = pods
        .filter_map(|pod| Some((evicted_at(pod)?, pod)))
        .collect();
    found.retain(|(at, _)| world.now.duration_since(*at) < RECENT);
    found.sort_by_key(|(at, _)| *at);
    let (first, _) = *found.first()?;
    let (last, newest) = *found.last()?;
    let replaces = |pod: &Doc| {
        let made = pod.time("/metadata/creationTimestamp");
        made.is_some_and(|made| made >= last && made.duration_since(last) <= REPLACED)
    };
    if found.len() < least || !waiting.iter().any(replaces) {
        return None;
    }
    let name = newest.name();
    let head = match found.len() {
        1 => format!("pod {name} was evicted"),
        all => format!("{all} pods were evicted within the last hour, the newest one ({name})"),
    };
    let message = format!(
        "{head} from {}: {}",
        newest.text("/spec/nodeName"),
        newest.text("/status/message").trim()
    );
    let reason = Reason::new(Code::PodsEvicted, KUBELET, message).who(who(newest));
    Some(reason.since(Some(first)))
}

/// The time of the eviction. Evictions because of a limit of local storage have no condition: the end of the last container
/// is near then. Upstream: `emptyDirLimitEviction` in `pkg/kubelet/eviction/eviction_manager.go`.
fn evicted_at(pod: &Doc) -> Option<Timestamp> {
    let condition = pod.condition("DisruptionTarget");
    let told = condition.and_then(|condition| condition.time("/lastTransitionTime"));
    let ended = || {
        let containers = pod.items("/status/containerStatuses").iter();
        let times = containers.filter_map(|one| one["state"]["terminated"]["finishedAt"].as_str());
        times.filter_map(|time| time.parse().ok()).max()
    };
    told.or_else(ended)
        .or_else(|| pod.time("/status/startTime"))
}

/// The people that can act about the eviction of `pod`, by the kubelet's words.
pub(super) fn who(pod: &Doc) -> String {
    let message = pod.text("/status/message");
    let node = pod.text("/spec/nodeName");
    let limits = [
        "exceeded its local ephemeral storage limit",
        "exceeds the total limit of containers",
        "EmptyDir volume",
    ];
    if limits.iter().any(|limit| message.contains(limit)) {
        return "owner of the pod template (limits.ephemeral-storage, sizeLimit of the volume), or of the container's \
                program"
            .to_owned();
    }
    let above = above_request(message);
    let resource = scarce(message);
    if above.is_empty() || !matches!(resource, "memory" | "ephemeral-storage") {
        return format!("owner of the pod template, or administrator of node {node}");
    }
    format!(
        "owner of the pod template (requests and limits.{resource} of container {} that fit its use), or administrator \
         of node {node} (more {resource}, or fewer pods)",
        above.join(", ")
    )
}

/// The resource in `The node was low on resource: memory. `
fn scarce(message: &str) -> &str {
    let rest = message.split_once("low on resource: ");
    let resource = rest.and_then(|(_, rest)| rest.split(['.', ' ']).next());
    resource.unwrap_or_default()
}

/// The containers in `Container main was using 2Gi, request is 1Gi, has larger consumption of memory. `
fn above_request(message: &str) -> Vec<&str> {
    let parts = message.split("Container ").skip(1);
    let names = parts.filter_map(|part| Some(part.split_once(" was using ")?.0));
    names.filter(|name| !name.contains(' ')).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::Explanation;

    const MEMORY: &str = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 61284Ki. Container main was using \
         14263508Ki, request is 512Mi, has larger consumption of memory. Container log was using 90Mi, request is 0, has \
         larger consumption of memory. ";

    fn pod(name: &str, reason: &str, at: &str, message: &str) -> Doc {
        Doc::new(json!({
            "metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": "node-5"},
            "status": {"phase": "Failed", "reason": reason, "message": message, "startTime": "2026-11-28T09:00:00Z",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at}]},
        }))
    }

    fn told_beside(waiting: &[&str], pods: &[Doc], least: usize) -> Option<Reason> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let now = "2026-11-28T12:00:00Z".parse().unwrap();
        let made = |at: &&str| Doc::new(json!({"metadata": {"creationTimestamp": at}}));
        let waiting: Vec<Doc> = waiting.iter().map(made).collect();
        evicted(&World::new(now, None, none), pods, &waiting, least)
    }

    fn told(pods: &[Doc], least: usize) -> Option<Reason> {
        told_beside(
            &["2026-11-28T11:50:01Z", "2026-11-28T11:00:01Z"],
            pods,
            least,
        )
    }

    #[test]
    fn an_eviction_is_a_cause_only_if_the_replacement_of_its_pod_waits() {
        let newest = [pod("newest", EVICTED, "2026-11-28T11:05:00Z", MEMORY)];
        for (made, expected) in [
            ("2026-11-28T11:05:00Z", true),
            ("2026-11-28T11:10:00Z", true),
            ("2026-11-28T11:10:01Z", false),
            ("2026-11-28T11:04:59Z", false),
        ] {
            let reason = told_beside(&[made], &newest, 1);
            assert_eq!(reason.is_some(), expected, "{made}");
        }
        assert_eq!(told_beside(&[], &newest, 1), None);
    }

    #[test]
    fn the_end_of_the_last_container_is_the_time_of_an_eviction_without_condition() {
        let ended = |at: &str| json!({"state": {"terminated": {"finishedAt": at}}});
        let first = ended("2026-11-28T11:40:00Z");
        let last = ended("2026-11-28T11:49:59Z");
        let status = json!({"reason": EVICTED, "startTime": "2026-11-28T09:00:00Z", "containerStatuses": [first, last]});
        let full = Doc::new(json!({"metadata": {"name": "full"}, "status": status}));
        let reason = told(&[full], 1).unwrap();
        assert_eq!(reason.since, "2026-11-28T11:49:59Z".parse().ok());
    }

    #[test]
    fn evictions_of_the_last_hour_are_told_in_the_words_about_the_newest_pod() {
        let old = pod("old", EVICTED, "2026-11-28T11:00:00Z", MEMORY);
        let first = pod("first", EVICTED, "2026-11-28T11:20:00Z", MEMORY);
        let newest = pod("newest", EVICTED, "2026-11-28T11:50:00Z", MEMORY);
        let failed = pod("failed", "", "2026-11-28T11:55:00Z", "");
        let all = [newest.clone(), old.clone(), first, failed.clone()];
        let reason = told(&all, 2).unwrap();
        let head = "2 pods were evicted within the last hour, the newest one (newest) from node-5: The node was low";
        assert!(reason.message.starts_with(head), "{}", reason.message);
        assert_eq!(reason.since, "2026-11-28T11:20:00Z".parse().ok());
        assert!(reason.who.starts_with(
            "owner of the pod template (requests and limits.memory of container main, log that"
        ));
        let one = told(std::slice::from_ref(&newest), 1).unwrap();
        assert!(
            one.message
                .starts_with("pod newest was evicted from node-5: ")
        );
        assert_eq!(told(&[newest], 2), None);
        assert_eq!(told(&[old, failed], 1), None);
    }

    #[test]
    fn the_words_of_an_eviction_tell_who_can_act() {
        let cases = [
            (
                "The node had condition: [DiskPressure]. ",
                "owner of the pod template, or administrator of node node-5",
            ),
            (
                "The node was low on resource: pids. Container main was using 9, request is 0, has larger consumption of pids. ",
                "owner of the pod template, or administrator of node node-5",
            ),
            (
                "Container main exceeded its local ephemeral storage limit \"1Gi\". ",
                "owner of the pod template (limits.ephemeral-storage",
            ),
            (
                "The node was low on resource: ephemeral-storage. Container main was using 9Gi, request is 0, has larger \
                 consumption of ephemeral-storage. ",
                "owner of the pod template (requests and limits.ephemeral-storage of container main that",
            ),
        ];
        for (message, expected) in cases {
            let found = who(&pod("a", EVICTED, "", message));
            assert!(found.starts_with(expected), "{message}: {found}");
        }
    }
}
