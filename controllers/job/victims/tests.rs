use super::*;
use crate::job::testing::pod_of_web;
use crate::testing::pods::PodBuilder;

/// Index and phase of each pod, in order.
fn states(pods: &[JobPod]) -> Vec<(Option<i64>, Phase)> {
    pods.iter().map(|pod| (pod.index(), pod.phase)).collect()
}

#[test]
fn append_duplicated_index_pods_for_removal() {
    use Phase::{Pending, Running};
    let pod = |(index, phase): (&str, &str)| {
        let pod = pod_of_web("p").phase(phase);
        if index.is_empty() {
            pod
        } else {
            pod.index(index)
        }
        .of_job()
    };
    // (upstream's case, pods, completions, victims, rest); the order of victims differs, and all
    // are deleted at once
    let cases: [(
        &str,
        &[(&str, &str)],
        i64,
        &[(Option<i64>, Phase)],
        &[(Option<i64>, Phase)],
    ); 3] = [
        (
            "all unique",
            &[
                ("", "Pending"),
                ("2", "Pending"),
                ("5", "Running"),
                ("6", "Running"),
            ],
            6,
            &[(None, Pending), (Some(6), Running)],
            &[(Some(2), Pending), (Some(5), Running)],
        ),
        (
            "all with index",
            &[
                ("5", "Pending"),
                ("0", "Running"),
                ("3", "Pending"),
                ("0", "Running"),
                ("3", "Running"),
                ("0", "Pending"),
                ("6", "Running"),
                ("6", "Pending"),
            ],
            6,
            &[
                (Some(0), Pending),
                (Some(0), Running),
                (Some(3), Pending),
                (Some(6), Pending),
                (Some(6), Running),
            ],
            &[(Some(0), Running), (Some(3), Running), (Some(5), Pending)],
        ),
        (
            "mixed",
            &[
                ("", "Pending"),
                ("invalid", "Running"),
                ("-2", "Running"),
                ("0", "Pending"),
                ("1", "Pending"),
                ("1", "Pending"),
                ("1", "Running"),
            ],
            7,
            &[
                (None, Pending),
                (None, Running),
                (None, Running),
                (Some(1), Pending),
                (Some(1), Pending),
            ],
            &[(Some(0), Pending), (Some(1), Running)],
        ),
    ];
    for (why, pods, completions, victims, rest) in cases {
        let pods: Vec<JobPod> = pods.iter().copied().map(pod).collect();
        let (found, left) = split_duplicates(&pods, completions);
        assert_eq!(states(&found), victims, "{why}");
        assert_eq!(states(&left), rest, "{why}");
    }
}

#[test]
fn pods_that_have_done_least_are_deleted_first() {
    let pod = |name: &str| pod_of_web(name).node("n");
    // From the first to the last that is deleted.
    let order = [
        pod("ready, without the finalizer")
            .metadata("finalizers", serde_json::Value::Null)
            .ready_since(1),
        pod("unscheduled").node("").ready_since(1),
        pod("pending").phase("Pending"),
        pod("unknown").phase("Unknown"),
        pod("running, restarted twice").restarts(&[2]),
        pod("running, restarted once").restarts(&[1]),
        pod("running, unknown age").not_created(),
        pod("running, younger").created(2),
        pod("running, older").created(1),
        pod("ready, unknown time").ready_without_time(),
        pod("ready, later").ready_since(2),
        pod("ready, earlier").ready_since(1),
    ];
    let names: Vec<_> = order
        .iter()
        .map(|pod| pod.0["metadata"]["name"].clone())
        .collect();
    let mut pods: Vec<JobPod> = order.into_iter().map(PodBuilder::of_job).collect();
    pods.reverse();
    for count in 0..=pods.len() {
        let victims = choose(&pods, None, count);
        let found: Vec<_> = victims.iter().map(|pod| &*pod.meta.name).collect();
        assert_eq!(found, names[..count], "{count}");
    }
}
