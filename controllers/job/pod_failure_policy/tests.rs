use serde_json::Value;

use super::*;
use crate::job::testing::job;
use crate::testing::pods::pod;

/// The cases of upstream's `TestMatchPodFailurePolicy`, except two with a locked gate off.
#[test]
fn match_pod_failure_policy() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../tests/cases/match_pod_failure_policy.json")).unwrap();
    assert_eq!(cases.len(), 22);
    for case in cases {
        let spec = job("web")
            .spec("podFailurePolicy", case["policy"].clone())
            .build()
            .spec;
        let mut pod = pod("mypod");
        pod.0["status"] = case["status"].clone();
        // Upstream's containers have no names in some cases; the API requires them.
        for list in ["containerStatuses", "initContainerStatuses"] {
            for status in pod.0["status"][list].as_array_mut().into_iter().flatten() {
                if status["name"].is_null() {
                    status["name"] = "c".into();
                }
            }
        }
        let pod = pod.build();
        let action = action(&spec, &pod);
        let name = action.as_ref().map(Action::name);
        assert_eq!(Value::from(name), case["action"], "{case}");
        assert_eq!(Value::from(counts(&spec, &pod)), case["counts"], "{case}");
        let message = match action {
            Some(Action::FailJob(message)) => Some(message),
            _ => None,
        };
        assert_eq!(Value::from(message), case["message"], "{case}");
    }
}
