//! The bodies of new pods.
//!
//! A pod is the template of the Job with the tracking finalizer. A pod of an Indexed Job also gets
//! its index as annotation, label, host name and environment variable. Upstream: `manageJob` and
//! the functions that it calls in `indexed_job_utils.go`.
//!
//! Pods start from the served JSON of the template, so that fields unknown to this program survive.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use steersman_objects::{JOB_TRACKING, Job, PodGroup};
use steersman_runtime::pod_control::{TemplateError, from_template};

use super::per_index::Failures;

/// Annotation and label of the completion index. Upstream: `JobCompletionIndexAnnotation`, which serves as
/// the label, too.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation of the counted failures of an index before a pod. Upstream: `JobIndexFailureCountAnnotation`.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation of the ignored failures of an index before a pod. Upstream:
/// `JobIndexIgnoredFailureCountAnnotation`. It is absent for 0.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Environment variable of the completion index. Upstream: `completionIndexEnvName`.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix of a generated name. The server appends five characters to it. Upstream:
/// `MaxGeneratedNameLength` of `apiserver/pkg/storage/names`, which is 63 minus 5.
const LONGEST_PREFIX: usize = 58;

/// The template of the pods of one Job. One value serves all pods of a sync; only indexed pods get a copy of
/// their own.
pub(super) struct Template {
    job: String,
    pod: Value,
}

impl Template {
    /// The template of `job`, as served.
    ///
    /// Upstream: `appendJobCompletionFinalizerIfNotFound`. A template with the finalizer keeps its order.
    pub(super) fn of(job: &Job) -> Result<Self, TemplateError> {
        let body = from_template::<Job>(&job.meta, &job.spec.template_labels, &job.document)?;
        let mut pod: Value = serde_json::from_str(body.get()).map_err(TemplateError::Malformed)?;
        let finalizers = &mut pod["metadata"]["finalizers"];
        match finalizers.as_array_mut() {
            Some(list) if list.iter().any(|name| name == JOB_TRACKING) => {}
            Some(list) => list.push(json!(JOB_TRACKING)),
            None => *finalizers = json!([JOB_TRACKING]),
        }
        Ok(Self {
            job: job.meta.name.to_string(),
            pod,
        })
    }

    /// The template of pods that are scheduled together with those of `group`. Upstream also adds an owner
    /// reference, which never reaches the pod: see `gang/`.
    pub(super) fn in_group(mut self, group: Option<&PodGroup>) -> Self {
        if let Some(group) = group {
            let name = &group.meta.name;
            self.pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
        }
        self
    }

    /// The body of a pod without an index.
    pub(super) fn body(&self) -> Box<RawValue> {
        raw(&self.pod)
    }

    /// The template of an Indexed Job: containers get the variable with their index. Upstream:
    /// `addCompletionIndexEnvVariables`.
    pub(super) fn indexed(mut self) -> Self {
        for field in ["initContainers", "containers"] {
            let containers = self.pod["spec"].get_mut(field);
            for container in containers
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                add_variable(container);
            }
        }
        self
    }

    /// The body of the pod for `index`. `failures` is set if the Job limits the failures of each
    /// index.
    ///
    /// A host name in the template is replaced, as upstream: pods of an Indexed Job find each other by
    /// `JOB-INDEX`.
    pub(super) fn body_of(&self, index: i64, failures: Option<Failures>) -> Box<RawValue> {
        let mut pod = self.pod.clone();
        let text = Value::String(index.to_string());
        pod["metadata"]["generateName"] = Value::String(name_prefix(&self.job, index));
        object_at(&mut pod["metadata"]["labels"]).insert(INDEX.to_owned(), text.clone());
        let annotations = object_at(&mut pod["metadata"]["annotations"]);
        annotations.insert(INDEX.to_owned(), text);
        if let Some(Failures { counted, ignored }) = failures {
            let mut annotate = |key: &str, count: i32| {
                annotations.insert(key.to_owned(), Value::String(count.to_string()));
            };
            annotate(FAILURES, counted);
            if ignored > 0 {
                annotate(IGNORED_FAILURES, ignored);
            }
        }
        pod["spec"]["hostname"] = Value::String(format!("{}-{index}", self.job));
        raw(&pod)
    }
}

fn raw(pod: &Value) -> Box<RawValue> {
    to_raw_value(pod).expect("a JSON value has string keys only")
}

/// The object at `value`. An absent or malformed one becomes an empty object.
fn object_at(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// Appends the variable, unless the container has one of that name. The value comes from the label by the
/// downward API, so the template is the same for all indexes.
fn add_variable(container: &mut Value) {
    let path = format!("metadata.labels['{INDEX}']");
    let variable = json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let variables = &mut container["env"];
    match variables.as_array_mut() {
        Some(list) if list.iter().any(|known| known["name"] == INDEX_VARIABLE) => {}
        Some(list) => list.push(variable),
        None => *variables = Value::Array(vec![variable]),
    }
}

/// The prefix `<job>-<index>-` of the name of a pod. The name of the Job is cut where the prefix is
/// too long, so the index stays readable. Upstream: `podGenerateNameWithIndex`.
fn name_prefix(job: &str, index: i64) -> String {
    let suffix = format!("-{index}-");
    let length = job.len().min(LONGEST_PREFIX - suffix.len());
    // Names of Jobs are ASCII, so each byte is a character boundary.
    format!("{}{suffix}", job.get(..length).unwrap_or(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::job;

    fn body(body: &RawValue) -> Value {
        serde_json::from_str(body.get()).unwrap()
    }

    #[test]
    fn pod_generate_name_with_index() {
        let mut file: Value = serde_json::from_str(include_str!("job-indexes.json")).unwrap();
        let cases: Vec<Value> = serde_json::from_value(file["generateName"].take()).unwrap();
        for case in cases {
            let prefix = name_prefix(
                case["job"].as_str().unwrap(),
                case["index"].as_i64().unwrap(),
            );
            assert_eq!(Value::from(prefix), case["generateName"], "{case}");
        }
    }

    #[test]
    fn a_pod_has_the_tracking_finalizer_once() {
        // (why, finalizers of the template, expected)
        let cases = [
            ("none", json!(null), json!([JOB_TRACKING])),
            ("another", json!(["a/b"]), json!(["a/b", JOB_TRACKING])),
            ("the same", json!([JOB_TRACKING]), json!([JOB_TRACKING])),
        ];
        for (why, finalizers, expected) in cases {
            let mut job = job("web");
            job.0["spec"]["template"]["metadata"]["finalizers"] = finalizers;
            let pod = body(&Template::of(&job.build()).unwrap().body());
            assert_eq!(pod["metadata"]["finalizers"], expected, "{why}");
            assert_eq!(pod["metadata"]["generateName"], "web-", "{why}");
            assert_eq!(pod["metadata"]["annotations"], json!(null), "{why}");
            assert_eq!(pod["spec"].get("hostname"), None, "{why}");
        }
    }

    #[test]
    fn a_pod_of_an_indexed_job_knows_its_index() {
        let mut job = job("web").indexed(3);
        let own = json!([{"name": "JOB_COMPLETION_INDEX", "value": "x"}]);
        job.0["spec"]["template"]["spec"] = json!({
            "hostname": "replaced", "containers": [{"name": "a", "env": [{"name": "A"}]}, {"name": "b", "env": own}],
            "initContainers": [{"name": "i"}], "fromTheFuture": 1,
        });
        let template = Template::of(&job.build()).unwrap().indexed();
        let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
            {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}});
        let counted = 2;
        let ignored = 1;
        // (failures, annotations)
        let cases = [
            (None, json!({INDEX: "1"})),
            (
                Some(Failures::default()),
                json!({INDEX: "1", FAILURES: "0"}),
            ),
            (
                Some(Failures { counted, ignored }),
                json!({INDEX: "1", FAILURES: "2", IGNORED_FAILURES: "1"}),
            ),
        ];
        for (failures, annotations) in cases {
            let pod = body(&template.body_of(1, failures));
            assert_eq!(pod["metadata"]["annotations"], annotations);
            assert_eq!(pod["metadata"]["labels"][INDEX], "1");
            assert_eq!(pod["metadata"]["generateName"], "web-1-");
            let expected = json!({
                "hostname": "web-1", "initContainers": [{"name": "i", "env": [variable]}], "fromTheFuture": 1,
                "containers": [{"name": "a", "env": [{"name": "A"}, variable]}, {"name": "b", "env": own}],
            });
            assert_eq!(pod["spec"], expected);
        }
    }
}
