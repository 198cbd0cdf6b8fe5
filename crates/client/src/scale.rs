//! The subresource `scale`: the size of any scalable object, and the selector of its pods.
//!
//! answer of the API server -> [`Scale`] -> [`Scale::with_replicas`] -> body of the PUT
//!
//! A write starts from the served object, so that fields unknown to this program and the resource
//! version survive. Upstream: `client-go/scale`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use steersman_objects::Uid;
use steersman_values::label_selector::LabelSelector;

use crate::{ApiClient, ApiError, Target};

/// API versions of `Scale` that upstream's scale client reads.
const VERSIONS: [&str; 4] = [
    "apps/v1beta1",
    "apps/v1beta2",
    "autoscaling/v1",
    "extensions/v1beta1",
];

/// A `Scale` of any version.
#[derive(Debug, Clone)]
pub struct Scale {
    /// UID of the scaled object.
    pub uid: Uid,
    /// `spec.replicas`: the wanted size.
    pub replicas: i32,
    /// `status.replicas`: the observed size.
    pub status_replicas: i32,
    /// `status.selector`; empty if unset.
    pub selector: LabelSelector,
    object: Map<String, Value>,
}

/// A `Scale` could not be read or written. The texts are in Events and conditions.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// A request failed, or its answer is malformed.
    #[error("{0}")]
    Request(#[from] ApiError),
    /// The API server answered with another kind of object.
    #[error("{0}: the answer has kind {1} of version {2}, which is no Scale")]
    NotAScale(String, String, String),
    /// The selector of the answer is malformed.
    #[error(
        "received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to parse target selector: {0}"
    )]
    Selector(String),
}

/// Whether upstream's scale client reads a `Scale` of this API version.
pub fn is_readable(api_version: &str) -> bool {
    VERSIONS.contains(&api_version)
}

impl Scale {
    /// GETs the `Scale` of `object`.
    pub async fn get(client: &ApiClient, object: Target<'_>) -> Result<Self, ScaleError> {
        let answer = client.get(scale_of(object)).await?;
        Self::decode(&answer, || {
            let name = object.name.unwrap_or_default();
            format!("GET {} {name}", object.resource)
        })
    }

    /// PUTs this `Scale` of `object` with another size. The API server refuses the write if the
    /// object has changed since the read.
    pub async fn resize(
        &self,
        client: &ApiClient,
        object: Target<'_>,
        replicas: i32,
    ) -> Result<(), ApiError> {
        let body = self.with_replicas(replicas);
        client.replace(scale_of(object), &body).await.map(drop)
    }

    /// The served object with another size.
    fn with_replicas(&self, replicas: i32) -> Map<String, Value> {
        let mut object = self.object.clone();
        match object.get_mut("spec") {
            Some(Value::Object(spec)) => drop(spec.insert("replicas".to_owned(), replicas.into())),
            _ => drop(object.insert("spec".to_owned(), json!({ "replicas": replicas }))),
        }
        object
    }

    fn decode(json: &[u8], request: impl Fn() -> String) -> Result<Self, ScaleError> {
        let malformed = |source: serde_json::Error| ApiError::Decode {
            request: request(),
            source: source.into(),
        };
        let object: Map<String, Value> = serde_json::from_slice(json).map_err(malformed)?;
        let wire: Wire = serde_json::from_slice(json).map_err(malformed)?;
        if wire.kind != "Scale" || !is_readable(&wire.api_version) {
            return Err(ScaleError::NotAScale(
                request(),
                wire.kind,
                wire.api_version,
            ));
        }
        Ok(Self {
            uid: Uid::new(&wire.metadata.uid),
            replicas: wire.spec.replicas,
            status_replicas: wire.status.replicas,
            selector: selector(&wire.status.selector)?,
            object,
        })
    }
}

fn scale_of(object: Target<'_>) -> Target<'_> {
    Target {
        subresource: Some("scale"),
        ..object
    }
}

/// Parses `status.selector`. Upstream: `ParseToLabelSelector`.
fn selector(text: &str) -> Result<LabelSelector, ScaleError> {
    let parsed = LabelSelector::parse(text).map_err(|error| {
        ScaleError::Selector(format!(
            "couldn't parse the selector string \"{text}\": {error}"
        ))
    })?;
    match parsed.comparison() {
        Some(operator) => Err(ScaleError::Selector(format!(
            "{operator:?} isn't supported in label selectors"
        ))),
        None => Ok(parsed),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: WireMeta,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireMeta {
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSpec {
    replicas: i32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    replicas: i32,
    selector: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(object: &Value) -> Result<Scale, ScaleError> {
        Scale::decode(object.to_string().as_bytes(), || "GET x".to_owned())
    }

    fn of(api_version: &str, kind: &str, selector: &str) -> Value {
        json!({
            "apiVersion": api_version, "kind": kind, "new": [1],
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3, "other": 1}, "status": {"replicas": 2, "selector": selector},
        })
    }

    #[test]
    fn a_resize_changes_only_the_replicas() {
        let served = of("autoscaling/v1", "Scale", "b=2,a=1");
        let scale = decode(&served).unwrap();
        assert_eq!((scale.replicas, scale.status_replicas), (3, 2));
        assert_eq!(scale.selector.to_string(), "a=1,b=2");
        let mut expected = served;
        expected["spec"]["replicas"] = json!(5);
        assert_eq!(Value::Object(scale.with_replicas(5)), expected);
        // The API server omits replicas of zero.
        let zero = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}});
        let scale = decode(&zero).unwrap();
        assert_eq!(scale.replicas, 0);
        let body = scale.with_replicas(1);
        assert_eq!(body["spec"], json!({"replicas": 1}));
    }

    #[test]
    fn other_answers_are_no_scales() {
        // (answer, error)
        let cases = [
            (
                of("apps/v1", "Deployment", ""),
                "GET x: the answer has kind Deployment of version apps/v1, which is no Scale",
            ),
            (
                of("autoscaling/v2", "Scale", ""),
                "GET x: the answer has kind Scale of version autoscaling/v2, which is no Scale",
            ),
            (
                of("autoscaling/v1", "Scale", "a>1"),
                "received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to parse target selector: \"gt\" isn't supported in label selectors",
            ),
            (
                json!({"kind": 1}),
                "GET x: invalid type: integer `1`, expected a string at line 1 column 9",
            ),
        ];
        for (answer, expected) in cases {
            assert_eq!(decode(&answer).unwrap_err().to_string(), expected);
        }
    }
}
