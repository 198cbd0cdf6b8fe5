use serde_json::Value;

use super::*;
use crate::job::testing::job;

/// The cases of upstream's `TestMatchSuccessPolicy`, except one with a locked gate off.
#[test]
fn match_success_policy() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../tests/cases/match_success_policy.json")).unwrap();
    assert_eq!(cases.len(), 31);
    for case in cases {
        let job = job("web")
            .spec("successPolicy", case["policy"].clone())
            .build();
        let completions = case["completions"].as_i64().unwrap();
        let intervals: Vec<(i64, i64)> = serde_json::from_value(case["succeeded"].clone()).unwrap();
        let succeeded = Indexes::of(intervals.into_iter().flat_map(|(first, last)| first..=last));
        let policy = job.spec.success_policy.as_deref();
        let rule = policy.and_then(|policy| matching_rule(policy, completions, &succeeded));
        let message = rule.map_or(String::new(), |rule| {
            format!("Matched rules at index {rule}")
        });
        assert_eq!(Value::from(message), case["message"], "{case}");
    }
}

#[test]
fn rules_match_as_upstream_computed() {
    let mut file: Value = serde_json::from_str(include_str!("../job-indexes.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_value(file["successRule"].take()).unwrap();
    for case in cases {
        let rule = serde_json::json!({"succeededIndexes": case["rule"], "succeededCount": case["succeededCount"]});
        let policy = serde_json::json!({"rules": [rule]});
        let job = job("web").spec("successPolicy", policy).build();
        let policy = job.spec.success_policy.as_deref().unwrap();
        let succeeded = Indexes::parse(case["succeeded"].as_str().unwrap(), i64::MAX);
        let found = matching_rule(policy, i64::MAX, &succeeded) == Some(0);
        assert_eq!(Value::from(found), case["match"], "{case}");
    }
}
