//! Validation of workloads, compared with answers of kube-apiserver 1.36 (`workload_cases.json`).
//!
//! A case has a patch of the base object of its kind, and at most one change: `update` of the
//! object, or `status` after the status `before`. `errors` are the causes of the answer.

use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::defaults;
use crate::patch::merge;

#[derive(Deserialize)]
struct Case {
    why: String,
    kind: String,
    object: Option<Value>,
    before: Option<Value>,
    update: Option<Value>,
    status: Option<Value>,
    errors: Vec<String>,
}

/// A minimal valid object of the kind.
pub(crate) fn base(kind: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "a"}]}});
    let mut labelled = template.clone();
    labelled["metadata"] = json!({"labels": {"app": "d"}});
    let mut once = template;
    once["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"spec": {"template": once}});
    let mut object = match kind {
        "Job" => job,
        "CronJob" => json!({"spec": {"schedule": "* * * * *", "jobTemplate": job}}),
        "ControllerRevision" => json!({"revision": 1, "data": {"a": 1}}),
        "PersistentVolumeClaim" => {
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        }
        _ => json!({"spec": {"selector": {"matchLabels": {"app": "d"}}, "template": labelled}}),
    };
    object["metadata"] = json!({"name": "x", "namespace": "default", "uid": "UID"});
    object
}

impl Case {
    fn errors(&self) -> Vec<FieldError> {
        let mut object = base(&self.kind);
        if let Some(patch) = &self.object {
            merge(&mut object, patch);
        }
        defaults::on_create(Release::DEFAULT, &self.kind, &mut object);
        let (part, change) = match (&self.update, &self.status) {
            (Some(update), _) => (None, update.clone()),
            (None, Some(status)) => (Some("status"), json!({"status": status})),
            (None, None) => return create(Release::DEFAULT, &self.kind, &object),
        };
        if let Some(before) = &self.before {
            merge(&mut object, &json!({"status": before}));
        }
        let mut new = object.clone();
        merge(&mut new, &change);
        defaults::apply(Release::DEFAULT, &self.kind, &mut new);
        update(Release::DEFAULT, &self.kind, part, &new, &object)
    }
}

#[test]
fn workloads_get_the_defaults_of_kube_apiserver() {
    #[derive(Deserialize)]
    struct Default {
        why: String,
        kind: String,
        object: Value,
        stored: Value,
    }
    let cases: Vec<Default> =
        serde_json::from_str(include_str!("../defaults/workload_cases.json")).unwrap();
    for Default {
        why,
        kind,
        object: given,
        stored,
    } in cases
    {
        let mut object = base(&kind);
        merge(&mut object, &given);
        defaults::on_create(Release::DEFAULT, &kind, &mut object);
        let metadata = ["labels", "annotations"].map(|field| {
            let found = object["metadata"].get(field).cloned();
            (found, stored["metadata"].get(field).cloned())
        });
        for (found, expected) in metadata {
            assert_eq!(found, expected, "metadata of {kind}, {why}");
        }
        for field in ["spec", "status", "data", "revision"] {
            assert_eq!(
                object.get(field),
                stored.get(field),
                "{field} of {kind}, {why}"
            );
        }
    }
}

#[test]
fn workloads_have_the_errors_of_kube_apiserver() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("workload_cases.json")).unwrap();
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let texts = |errors: Vec<FieldError>| -> Vec<String> {
                errors.iter().map(ToString::to_string).collect()
            };
            let found = texts(case.errors());
            (found != case.errors).then(|| {
                let Case {
                    kind, why, errors, ..
                } = case;
                format!("{kind}, {why}:\n  found    {found:#?}\n  expected {errors:#?}")
            })
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} cases differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}
