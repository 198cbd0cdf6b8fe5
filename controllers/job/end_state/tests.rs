use serde_json::json;

use super::*;
use crate::job::testing::{job, pod_of_web};
use crate::testing::pods::PodBuilder;
use crate::testing::time;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn the_deadline_counts_from_the_start_of_a_running_job() {
    let seconds = |count| Some(Duration::from_secs(count));
    // (why, deadline, suspended, start, now, time left)
    let cases = [
        ("no deadline", None, false, Some(0), 5, None),
        ("not started", Some(10), false, None, 5, None),
        ("suspended", Some(10), true, Some(0), 50, None),
        ("in time", Some(10), false, Some(0), 4, seconds(6)),
        ("at the end", Some(10), false, Some(0), 10, seconds(0)),
        ("late", Some(10), false, Some(0), 50, seconds(0)),
        (
            "huge",
            Some(i64::MAX),
            false,
            Some(0),
            0,
            Some(Duration::try_from(Timestamp::MAX.duration_since(at(0))).unwrap()),
        ),
    ];
    for (why, deadline, suspend, start, now, expected) in cases {
        let job = job("web")
            .spec("activeDeadlineSeconds", deadline)
            .spec("suspend", suspend);
        let found = deadline_in(&job.build(), start.map(at), at(now));
        assert_eq!(found, expected, "{why}");
    }
}

#[test]
fn an_announced_end_is_kept_and_failures_win_over_successes() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m"});
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let exit = json!([{"name": "c", "state": {"terminated": {"exitCode": 42}}}]);
    let failed = |index: &str| pod_of_web("f").index(index).phase("Failed");
    let succeeded = |index: &str| pod_of_web("s").index(index).phase("Succeeded");
    let base = || {
        job("web")
            .indexed(2)
            .spec("backoffLimit", 0)
            .spec("successPolicy", json!({"rules": [{"succeededCount": 1}]}))
    };
    // (why, Job, pods, whether it is complete, reason, whether it is announced)
    let cases = [
        (
            "success was announced",
            base().status(
                "conditions",
                json!([condition("SuccessCriteriaMet", "True")]),
            ),
            vec![failed("0")],
            Some((true, "R", true)),
        ),
        (
            "failure was announced",
            base().status("conditions", json!([condition("FailureTarget", "True")])),
            vec![succeeded("0")],
            Some((false, "R", true)),
        ),
        (
            "false conditions announce nothing",
            base().status(
                "conditions",
                json!([
                    condition("FailureTarget", "False"),
                    condition("SuccessCriteriaMet", "False")
                ]),
            ),
            vec![],
            None,
        ),
        (
            "the failure policy comes before the back-off limit",
            base().spec("podFailurePolicy", json!({"rules": [rule]})),
            vec![
                failed("0").status("containerStatuses", exit),
                succeeded("1"),
            ],
            Some((false, "PodFailurePolicy", false)),
        ),
        (
            "the back-off limit comes before the success policy",
            base(),
            vec![failed("0"), succeeded("1")],
            Some((false, "BackoffLimitExceeded", false)),
        ),
        (
            "the deadline comes before the success policy",
            base()
                .spec("activeDeadlineSeconds", 10)
                .status("startTime", time(0)),
            vec![succeeded("1")],
            Some((false, "DeadlineExceeded", false)),
        ),
        (
            "the success policy",
            base(),
            vec![succeeded("1")],
            Some((true, "SuccessPolicy", false)),
        ),
        ("no end", base(), vec![], None),
    ];
    for (why, job, pods, expected) in cases {
        let job = job.build();
        let pods = pods.into_iter().map(PodBuilder::of_job).collect();
        let finish = evaluate(&Snapshot::new(&job, pods), job.status.start_time, at(100));
        let found = finish
            .as_ref()
            .map(|finish| (finish.is_complete, &*finish.reason, finish.is_announced));
        assert_eq!(found, expected, "{why}");
    }
}

#[test]
fn restarts_of_all_containers_of_running_pods_count() {
    let restarted = |phase: &str| {
        pod_of_web("p").phase(phase).restarts(&[1, 2]).status(
            "initContainerStatuses",
            json!([{"name": "i", "restartCount": 3}]),
        )
    };
    // (why, phase, back-off limit, whether the Job fails)
    let cases = [
        ("all restarts together", "Running", 6, true),
        ("one restart less", "Running", 7, false),
        ("pending", "Pending", 6, true),
        ("no restart is allowed", "Running", 0, true),
        ("finished pods do not count", "Succeeded", 6, false),
    ];
    for (why, phase, limit, expected) in cases {
        let mut builder = job("web").spec("backoffLimit", limit);
        for (policy, fails) in [("OnFailure", expected), ("Never", false)] {
            builder.0["spec"]["template"]["spec"]["restartPolicy"] = json!(policy);
            let job = builder.clone().build();
            let pods = [restarted(phase).of_job()];
            assert_eq!(has_too_many_restarts(&job, &pods), fails, "{why}, {policy}");
        }
    }
}
