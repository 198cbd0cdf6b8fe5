//! The Job of one scheduled time.
//!
//! The name follows from the scheduled time, so that a second Job for it is refused. Labels and
//! spec are the bytes of the template: fields unknown to this program reach the Job.
//!
//! Upstream: `getJobFromTemplate2` and `getJobName`.
//!
//! Nothing else of the CronJob reaches the Job: its own labels and annotations stay with it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use steersman_objects::CronJob;
use steersman_runtime::owner::ControllerReference;

/// Annotation with the scheduled time, in the time zone of the CronJob. Upstream:
/// `CronJobScheduledTimestampAnnotation`.
const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The name of the Job that the CronJob `cron_job` starts for `scheduled`: minutes since the epoch
/// make it unique.
///
/// Schedules have a resolution of one minute, except for `@every`. Two runs of `@every 30s` within a minute
/// share a name, so the second finds the Job of the first, as upstream.
pub(super) fn name(cron_job: &str, scheduled: Timestamp) -> String {
    // Rounded towards zero, as Go's division does.
    format!("{cron_job}-{}", scheduled.as_second() / 60)
}

/// `time` on the wall clock of `zone`, as Go's `time.RFC3339` prints it.
pub(super) fn rfc3339(time: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(time);
    let local = offset.to_datetime(time).strftime("%Y-%m-%dT%H:%M:%S");
    // RFC 3339 has no seconds in offsets. Historical zones with such offsets are cut, as Go does.
    let minutes = offset.seconds() / 60;
    if offset.is_zero() {
        return format!("{local}Z");
    }
    let sign = if minutes < 0 { '-' } else { '+' };
    let hours = minutes.abs() / 60;
    let minutes = minutes.abs() % 60;
    format!("{local}{sign}{hours:02}:{minutes:02}")
}

// The part of a CronJob's document that becomes a Job.

// Borrowed texts reach the request byte by byte.
#[derive(Deserialize)]
struct Served<'a> {
    #[serde(borrow)]
    spec: ServedSpec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServedSpec<'a> {
    #[serde(borrow)]
    job_template: Template<'a>,
}

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(borrow)]
    metadata: Option<TemplateMeta<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct TemplateMeta<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    annotations: Option<BTreeMap<String, String>>,
}

/// The body of the POST.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: BodyMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyMeta<'a> {
    name: String,
    // The server replaces it, as it does upstream's.
    creation_timestamp: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    annotations: BTreeMap<String, String>,
    owner_references: [ControllerReference<'a>; 1],
}

/// The Job that `cron_job` starts for `scheduled`; `zone` is that of its annotation.
///
/// Fails if the document of the CronJob has no usable template.
///
/// Upstream: `getJobFromTemplate2`. The annotation replaces one of that name in the template.
pub(super) fn body(
    cron_job: &CronJob,
    scheduled: Timestamp,
    zone: &TimeZone,
) -> Result<Box<RawValue>, serde_json::Error> {
    let text = cron_job.document.text();
    let served: Served<'_> = serde_json::from_str(&text)?;
    let Template { metadata, spec } = served.spec.job_template;
    let metadata = metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_TIMESTAMP.to_owned(), rfc3339(scheduled, zone));
    to_raw_value(&Body {
        kind: "Job",
        api_version: "batch/v1",
        metadata: BodyMeta {
            name: name(&cron_job.meta.name, scheduled),
            creation_timestamp: scheduled,
            labels: metadata.labels,
            annotations,
            owner_references: [ControllerReference::to::<CronJob>(&cron_job.meta)],
        },
        spec,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_helpers::cron::zone;

    use super::*;
    use crate::testing::batch::cron_job;

    /// Upstream: `TestGetJobFromTemplate2`.
    #[test]
    fn get_job_from_template() {
        let scheduled: Timestamp = "2016-05-19T10:00:00Z".parse().unwrap();
        // (why, time zone, annotations, annotation)
        let cases = [
            (
                "UTC timezone and one annotation",
                "UTC",
                json!({"x": "y"}),
                "2016-05-19T10:00:00Z",
            ),
            (
                "nil timezone and one annotation",
                "",
                json!({"x": "y"}),
                "2016-05-19T10:00:00Z",
            ),
            (
                "correct timezone and multiple annotation",
                "Europe/Rome",
                json!({"x": "y", "z": "x"}),
                "2016-05-19T12:00:00+02:00",
            ),
            ("no annotations", "", Value::Null, "2016-05-19T10:00:00Z"),
            (
                "an annotation of the template is replaced",
                "America/St_Johns",
                json!({ SCHEDULED_TIMESTAMP: "x" }),
                "2016-05-19T07:30:00-02:30",
            ),
        ];
        for (why, name, annotations, expected) in cases {
            let spec =
                json!({"activeDeadlineSeconds": 1, "manualSelector": false, "fromTheFuture": 1.50});
            let metadata = json!({
                "creationTimestamp": null, "labels": {"a": "b"}, "annotations": annotations,
                "finalizers": ["a/b"], "name": "ignored",
            });
            let template = json!({"metadata": metadata, "spec": spec});
            let cron_job = cron_job("mycronjob").spec("jobTemplate", template).build();
            let body = body(&cron_job, scheduled, &zone::load(name).unwrap()).unwrap();
            let mut all = annotations.as_object().cloned().unwrap_or_default();
            all.insert(SCHEDULED_TIMESTAMP.to_owned(), expected.into());
            let owner = json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "mycronjob",
                "uid": "uid-of-mycronjob", "controller": true, "blockOwnerDeletion": true,
            });
            let expected = json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "mycronjob-24394200", "creationTimestamp": "2016-05-19T10:00:00Z",
                    "labels": {"a": "b"}, "annotations": all, "ownerReferences": [owner],
                },
                "spec": spec,
            });
            let found: Value = serde_json::from_str(body.get()).unwrap();
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn a_template_may_lack_everything() {
        let metadata = json!({"labels": null, "annotations": null});
        for template in [
            json!({}),
            json!({"metadata": null}),
            json!({ "metadata": metadata }),
        ] {
            let cron_job = cron_job("c").spec("jobTemplate", template).build();
            let body = body(&cron_job, Timestamp::UNIX_EPOCH, &TimeZone::UTC).unwrap();
            let found: Value = serde_json::from_str(body.get()).unwrap();
            assert_eq!(found["metadata"]["name"], "c-0");
            assert_eq!(
                (found.get("spec"), found["metadata"].get("labels")),
                (None, None)
            );
        }
        let without = cron_job("c").spec("jobTemplate", Value::Null).build();
        assert!(body(&without, Timestamp::UNIX_EPOCH, &TimeZone::UTC).is_err());
    }
}
