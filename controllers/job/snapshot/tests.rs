use super::*;
use crate::job::testing::{job, pod_of_web};

#[test]
fn calculate_succeeded_indexes() {
    let all = |indexes: &[&str]| {
        indexes
            .iter()
            .map(|index| format!("{index}=Succeeded"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    // (upstream's case, completed indexes, pods, completions, completed before, succeeded)
    let cases: [(&str, &str, String, i32, &str, &str); 12] = [
        ("one index", "", all(&["1"]), 2, "", "1"),
        (
            "two separate",
            "",
            "2=Failed 5=Succeeded 5=Succeeded 10=Failed 10=Succeeded".to_owned(),
            11,
            "",
            "5,10",
        ),
        (
            "two intervals",
            "",
            format!("0=Running 1=Pending {}", all(&["2", "3", "5", "6", "7"])),
            8,
            "",
            "2,3,5-7",
        ),
        (
            "one index and one interval",
            "",
            format!("1=Failed {}", all(&["0", "2", "3", "4", "5", "", "-2"])),
            6,
            "",
            "0,2-5",
        ),
        (
            "out of range",
            "",
            format!("3=Failed {}", all(&["0", "1", "2", "4", "5", "", "-2"])),
            5,
            "",
            "0-2,4",
        ),
        (
            "prev interval out of range",
            "0-5,8-10",
            String::new(),
            8,
            "0-5",
            "0-5",
        ),
        (
            "prev interval partially out of range",
            "0-5,8-10",
            String::new(),
            10,
            "0-5,8,9",
            "0-5,8,9",
        ),
        (
            "prev and new separate",
            "0,4,5,10-12",
            all(&["2", "7", "8"]),
            13,
            "0,4,5,10-12",
            "0,2,4,5,7,8,10-12",
        ),
        (
            "prev between new",
            "3,4,6",
            all(&["2", "7", "8"]),
            9,
            "3,4,6",
            "2-4,6-8",
        ),
        (
            "new between prev",
            "2,7,8",
            all(&["3", "4", "6"]),
            9,
            "2,7,8",
            "2-4,6-8",
        ),
        (
            "new within prev",
            "2-7",
            all(&["0", "3", "5", "9"]),
            10,
            "2-7",
            "0,2-7,9",
        ),
        (
            "corrupted interval",
            "0,1-foo,bar",
            all(&["3"]),
            4,
            "0",
            "0,3",
        ),
    ];
    for (why, completed, pods, completions, before, succeeded) in cases {
        let pods = pods.split_whitespace().map(|state| {
            let (index, phase) = state.split_once('=').unwrap();
            pod_of_web("p").index(index).phase(phase).of_job()
        });
        let job = job("web")
            .indexed(completions)
            .status("completedIndexes", completed)
            .build();
        let indexed = Snapshot::new(&job, pods.collect()).indexed.unwrap();
        assert_eq!(indexed.completed_before.to_string(), before, "{why}");
        assert_eq!(indexed.succeeded.to_string(), succeeded, "{why}");
    }
}
