//! AdmissionReviews: the request for a webhook, and its answer.
//!
//! Upstream: `pkg/admission/plugin/webhook/request` and `.../errors` of `k8s.io/apiserver`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::matching::Matched;
use super::super::request::Request;
use super::super::versions;
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::patch;
use crate::status::Status;

/// The two kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// A valid answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// A `Status` that explains a refusal; null without one.
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
    /// A JSON patch.
    pub(super) patch: Option<Value>,
}

/// Reads an answer to the request with this UID.
pub(super) fn answer(body: &Value, kind: Kind, version: &str, uid: &str) -> Result<Answer, String> {
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    let found = text(body, "kind");
    let group_version = text(body, "apiVersion");
    if found != "AdmissionReview" || !group_version.starts_with("admission.k8s.io/") {
        return Err(format!(
            "failed to call webhook: no kind {found:?} is registered for version {group_version:?} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
        ));
    }
    let response = &body["response"];
    if !response.is_object() {
        return invalid("webhook response was absent".to_owned());
    }
    let encoded = text(response, "patch");
    let patch_type = response["patchType"].as_str();
    if version == "v1" {
        let echoed = text(response, "uid");
        if echoed != uid {
            return invalid(format!("expected response.uid={uid:?}, got {echoed:?}"));
        }
        let problem = match (kind, encoded.is_empty(), patch_type) {
            (Kind::Validating, false, _) => "validating webhook may not return response.patch",
            (Kind::Validating, true, Some(_)) => {
                "validating webhook may not return response.patchType"
            }
            (Kind::Mutating, false, None) => {
                "webhook returned response.patch but not response.patchType"
            }
            (Kind::Mutating, true, Some(_)) => {
                "webhook returned response.patchType but not response.patch"
            }
            _ => "",
        };
        if !problem.is_empty() {
            return invalid(problem.to_owned());
        }
    }
    let warnings = list(response, "warnings").iter().filter_map(Value::as_str);
    let allowed = response["allowed"] == true;
    let patch = if encoded.is_empty() || !allowed {
        None
    } else {
        Some(decoded(encoded, patch_type.unwrap_or("JSONPatch"))?)
    };
    Ok(Answer {
        allowed,
        status: response["status"].clone(),
        warnings: warnings.map(str::to_owned).collect(),
        patch,
    })
}

fn decoded(encoded: &str, patch_type: &str) -> Result<Value, String> {
    if patch_type != "JSONPatch" {
        return Err(format!("unsupported patch type {patch_type:?}"));
    }
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|why| undecodable(why.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|why| undecodable(why.to_string()))
}

/// The refusal of a webhook, with code and reason of its own.
pub(super) fn refusal(webhook: &str, status: &Value) -> Status {
    const REASONS: [&str; 20] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
        "Unknown",
    ];
    let reason = text(status, "reason");
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text(status, "message"), reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"]
        .as_u64()
        .and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let known = REASONS.into_iter().find(|known| *known == reason);
    let refusal = Status::new(code, known.unwrap_or_default(), message);
    match &status["details"] {
        Value::Null => refusal,
        details => refusal.detailed(details.clone()),
    }
}

/// The `request` of an AdmissionReview, without its UID.
pub(super) async fn request(
    server: &Server,
    request: &Request<'_>,
    matched: &Matched,
    kind: Kind,
) -> Result<Value, Status> {
    let mut value = request.to_value(&matched.resource);
    if request.subresource().is_empty()
        && let Some(fields) = value.as_object_mut()
    {
        fields.retain(|field, _| !matches!(&**field, "subResource" | "requestSubResource"));
    }
    value["object"] = match request.object {
        Some(object) if kind == Kind::Mutating => {
            versions::unfinished(server, request, matched, object).await?
        }
        Some(object) => versions::shown(server, matched, object).await?,
        None => Value::Null,
    };
    value["oldObject"] = match request.old {
        Some(old) => versions::shown(server, matched, old).await?,
        None => Value::Null,
    };
    Ok(value)
}

/// The new object after a patch of a mutating webhook, in the kept version of the request.
pub(super) async fn patched(
    server: &Server,
    request: &Request<'_>,
    matched: &Matched,
    operations: &Value,
) -> Result<Value, Status> {
    let before = request
        .object
        .ok_or_else(|| Status::internal("the request has no object"))?;
    let mut object = versions::unfinished(server, request, matched, before).await?;
    let operations = operations
        .as_array()
        .ok_or_else(|| Status::internal("invalid patch"))?;
    patch::explained(&mut object, operations).map_err(|why| Status::internal(why.into_text()))?;
    versions::finished(server, request, matched, before, object).await
}
