//! Pods as an owner creates them: the body, and the pace.

use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use steersman_runtime::owner::ControllerReference;

use super::owner::PodOwner;

/// Calls that slow start makes at once at first.
const FIRST_BATCH: usize = 1;

/// The longest name the API server generates from.
const LONGEST_PREFIX: usize = 253;

/// A template from which no pod can be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    /// A pod without labels belongs to nobody.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// The document has no usable template.
    #[error("unable to create pods: {0}")]
    Malformed(#[source] serde_json::Error),
}

#[derive(Deserialize)]
struct Served<'a> {
    #[serde(borrow)]
    spec: ServedSpec<'a>,
}

#[derive(Deserialize)]
struct ServedSpec<'a> {
    #[serde(borrow)]
    template: Template<'a>,
}

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: TemplateMeta<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Serialize, Default)]
struct TemplateMeta<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    finalizers: Option<&'a RawValue>,
}

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
    generate_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<&'a RawValue>,
    owner_references: [ControllerReference<'a>; 1],
}

/// The pod that `owner` wants more of. Labels, annotations, finalizers and spec are the template's
/// own bytes, so that fields unknown to us reach the pod; the rest of the template's metadata does
/// not count.
pub(super) fn body<O: PodOwner>(owner: &O) -> Result<Box<RawValue>, TemplateError> {
    if owner.template_labels().is_empty() {
        return Err(TemplateError::NoLabels);
    }
    let Served {
        spec: ServedSpec { template },
    } = serde_json::from_str(owner.document().as_str()).map_err(TemplateError::Malformed)?;
    let TemplateMeta {
        labels,
        annotations,
        finalizers,
    } = template.metadata;
    let metadata = BodyMeta {
        generate_name: &name_prefix(&owner.meta().name),
        labels,
        annotations,
        finalizers,
        owner_references: [ControllerReference::to::<O>(owner.meta())],
    };
    to_raw_value(&Body {
        kind: "Pod",
        api_version: "v1",
        metadata,
        spec: template.spec,
    })
    .map_err(TemplateError::Malformed)
}

/// The dash sets the generated part apart, where there is room for it.
fn name_prefix(owner: &str) -> String {
    if owner.len() < LONGEST_PREFIX {
        format!("{owner}-")
    } else {
        owner.to_owned()
    }
}

/// Makes `count` calls in batches of 1, 2, 4, ... and stops after the first batch with a failure,
/// so that a quota that admits nothing costs one request, not hundreds. Returns how many calls
/// succeeded, and the first failure.
pub(super) async fn slow_start<F, E>(count: usize, call: impl Fn() -> F) -> (usize, Option<E>)
where
    F: Future<Output = Result<(), E>>,
{
    let (mut successes, mut batch) = (0, FIRST_BATCH);
    let (mut remaining, mut failure) = (count, None);
    while remaining > 0 && failure.is_none() {
        batch = batch.min(remaining);
        let mut calls: FuturesUnordered<F> = (0..batch).map(|_| call()).collect();
        while let Some(result) = calls.next().await {
            match result {
                Ok(()) => successes += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        remaining -= batch;
        batch *= 2;
    }
    (successes, failure)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::replica_set;

    #[tokio::test]
    async fn slow_start_batch() {
        // (why, count, calls that succeed, successes, calls, failed)
        let cases = [
            ("callLimit = 0 (all fail)", 10, 0, 0, 1, true),
            ("callLimit = count (all succeed)", 10, 10, 10, 10, false),
            ("callLimit < count (some succeed)", 10, 5, 5, 7, true),
            ("nothing to do", 0, 0, 0, 0, false),
            ("a quota of 3 for 20 pods", 20, 3, 3, 7, true),
            // Upstream's TestSyncReplicaSetCreateFailures: 1 + 2 + 4 + 8 calls.
            ("a quota of 10 for 100 pods", 100, 10, 10, 15, true),
        ];
        for (why, count, limit, successes, calls, failed) in cases {
            let made = Cell::new(0);
            let (found, failure) = slow_start(count, || async {
                made.set(made.get() + 1);
                if made.get() > limit {
                    Err("fake error")
                } else {
                    Ok(())
                }
            })
            .await;
            assert_eq!(
                (found, made.get(), failure.is_some()),
                (successes, calls, failed),
                "{why}"
            );
        }
    }

    #[tokio::test]
    async fn batches_double_and_the_calls_of_one_run_together() {
        let (running, batches) = (Cell::new(0), RefCell::new(Vec::new()));
        let (successes, failure) = slow_start(500, || async {
            running.set(running.get() + 1);
            tokio::task::yield_now().await;
            let batch = running.replace(0);
            if batch > 0 {
                batches.borrow_mut().push(batch);
            }
            Ok::<(), ()>(())
        })
        .await;
        assert_eq!((successes, failure), (500, None));
        assert_eq!(batches.into_inner(), [1, 2, 4, 8, 16, 32, 64, 128, 245]);
    }

    #[test]
    fn a_pod_is_made_of_the_template_byte_for_byte() {
        let template = json!({
            "metadata": {
                "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "name": "ignored", "creationTimestamp": null, "ownerReferences": [],
            },
            "spec": {"containers": [{"name": "main", "image": "nginx", "fromTheFuture": {"x": [1]}}], "alsoNew": true},
        });
        let rs = replica_set("web").spec("template", template).build();
        let pod: Value = serde_json::from_str(body(&rs).unwrap().get()).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-", "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [{"name": "main", "image": "nginx", "fromTheFuture": {"x": [1]}}], "alsoNew": true},
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn a_template_without_labels_makes_no_pods() {
        let template = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": []}});
        let error = body(&replica_set("web").spec("template", template).build()).unwrap_err();
        assert_eq!(error.to_string(), "unable to create pods, no labels");
    }

    #[test]
    fn the_longest_names_leave_no_room_for_a_dash() {
        assert_eq!(name_prefix("web"), "web-");
        assert_eq!(name_prefix(&"w".repeat(252)).len(), 253);
        assert_eq!(name_prefix(&"w".repeat(253)).len(), 253);
    }
}
