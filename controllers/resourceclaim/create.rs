//! The body of a claim that a template describes. Upstream: `handleClaim`.
//!
//! The API server completes the name. The holder controls the claim, so the garbage collector deletes
//! it after the holder.

use serde_json::{Map, Value, json};
use steersman_objects::{Object, ResourceClaim, ResourceClaimTemplate};
use steersman_releases::Release;
use steersman_values::resource::ResourceType;

use super::holder::Holder;

/// The annotation with the name of the claim within the pod.
///
/// Upstream: `PodResourceClaimAnnotation`. A claim of a PodGroup has it as well. A later sync finds its
/// own claim by this annotation.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";

/// The longest prefix of a generated name. A dash and 5 random characters make 63 of it.
///
/// Upstream: `maxBaseLen`.
const LONGEST_PREFIX: usize = 57;

/// The claim for the claim called `pod_claim` of `holder`. It has the labels, the annotations and the
/// spec of the template.
///
/// `owner` is the type of the holder in the version that the API server has.
///
/// The spec passes through as JSON, so fields of later releases reach the API server. Upstream copies
/// the fields that it knows.
pub(super) fn from_template(
    holder: Holder<'_>,
    owner: &ResourceType,
    pod_claim: &str,
    template: &ResourceClaimTemplate,
    release: Release,
) -> Map<String, Value> {
    let mut document = template.document.to_object();
    let mut spec = match document.remove("spec") {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    let mut metadata = match spec.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    // Upstream takes over nothing but these two.
    metadata
        .retain(|field, value| (field == "labels" || field == "annotations") && value.is_object());
    let mut metadata = Value::Object(metadata);
    metadata["annotations"][POD_CLAIM] = json!(pod_claim);
    let of_holder = holder.meta();
    metadata["generateName"] = json!(name_prefix(&of_holder.name, pod_claim));
    let mut reference = json!({
        "apiVersion": owner.api_version(), "kind": owner.kind,
        "name": of_holder.name, "uid": of_holder.uid, "controller": true,
    });
    // Without this field, a foreground deletion of the pod does not wait for the claim.
    if release.generated_claims_block_deletion() {
        reference["blockOwnerDeletion"] = json!(true);
    }
    metadata["ownerReferences"] = json!([reference]);
    let claim = [
        ("apiVersion", json!(ResourceClaim::RESOURCE.api_version())),
        ("kind", json!(ResourceClaim::RESOURCE.kind)),
        ("metadata", metadata),
        // The `spec` of a template has the claim's metadata beside the claim's own `spec`.
        ("spec", spec.remove("spec").unwrap_or_else(|| json!({}))),
    ];
    claim
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value))
        .collect()
}

/// `<holder>-<claim>-`. If it is too long, both names are cut in proportion to their lengths, and the
/// last dash is absent, as upstream.
///
/// The API server would cut at the end, and lose the name of the claim.
fn name_prefix(holder: &str, claim: &str) -> String {
    let whole = format!("{holder}-{claim}-");
    if whole.len() <= LONGEST_PREFIX {
        return whole;
    }
    // Names of pods and claims are ASCII.
    let cut = |name: &'_ str| name[..name.len() * LONGEST_PREFIX / whole.len()].to_owned();
    format!("{}-{}", cut(holder), cut(claim))
}

#[cfg(test)]
mod tests {
    use steersman_objects::Pod;

    use super::*;

    #[test]
    fn long_names_are_cut_in_proportion() {
        let [a, b] = ["a", "b"].map(|letter| move |count| letter.repeat(count));
        // (pod, claim, prefix), from the reference
        let cases = [
            (
                "web-0".to_owned(),
                "gpu".to_owned(),
                "web-0-gpu-".to_owned(),
            ),
            (
                "my-very-long-statefulset-pod-name-with-suffix-0".to_owned(),
                "accelerator-claim".to_owned(),
                "my-very-long-statefulset-pod-name-with-s-accelerator-cl".to_owned(),
            ),
            (a(40), b(30), format!("{}-{}", a(31), b(23))),
            (a(63), b(63), format!("{}-{}", a(28), b(28))),
            (a(30), b(25), format!("{}-{}-", a(30), b(25))),
        ];
        for (pod, claim, prefix) in cases {
            assert_eq!(name_prefix(&pod, &claim), prefix);
        }
    }

    #[test]
    fn a_claim_has_the_metadata_and_the_spec_of_its_template() {
        let template = json!({
            "metadata": {"name": "t", "namespace": "shop", "labels": {"of": "template"}},
            "spec": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "ignored"},
                "spec": {"devices": {"requests": [{"name": "r"}], "fromTheFuture": 1}},
            },
        });
        let bare = json!({"metadata": {"name": "t", "namespace": "shop"}, "spec": {"metadata": {"labels": null}}});
        let decode =
            |json: Value| ResourceClaimTemplate::decode(json.to_string().as_bytes()).unwrap();
        let pod = json!({"metadata": {"name": "web-0", "namespace": "shop", "uid": "u"}});
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u", "controller": true}]);
        let expected = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "generateName": "web-0-gpu-", "ownerReferences": owner, "labels": {"app": "web"},
                "annotations": {"a": "b", "resource.kubernetes.io/pod-claim-name": "gpu"},
            },
            "spec": {"devices": {"requests": [{"name": "r"}], "fromTheFuture": 1}},
        });
        let holder = Holder::Pod(&pod);
        let claim = from_template(
            holder,
            Pod::RESOURCE,
            "gpu",
            &decode(template),
            Release::DEFAULT,
        );
        assert_eq!(Value::Object(claim), expected);
        let of = |minor| {
            let release = Release::of_minor(minor);
            let template = decode(bare.clone());
            Value::Object(from_template(
                holder,
                Pod::RESOURCE,
                "gpu",
                &template,
                release,
            ))
        };
        let blocks =
            |claim: &Value| claim["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] == true;
        assert_eq!([34, 35].map(|minor| blocks(&of(minor))), [true, false]);
        let claim = of(36);
        assert_eq!(
            claim["metadata"]["annotations"],
            json!({"resource.kubernetes.io/pod-claim-name": "gpu"})
        );
        assert_eq!(
            (&claim["metadata"]["labels"], &claim["spec"]),
            (&Value::Null, &json!({}))
        );
    }
}
