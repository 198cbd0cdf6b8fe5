//! Error answers: the `Status` object, with the texts of upstream's `apimachinery/pkg/api/errors`.

use serde_json::{Map, Value, json};

use crate::fielderror::FieldError;

/// An error answer. [`Status::to_value`] is its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// HTTP status code, repeated in the body.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`. The body has no reason if it is empty.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// `details`; the body omits the field when `None`.
    pub details: Option<Box<Value>>,
    /// `metadata.continue`, which only the error for an expired continue token has.
    pub continue_token: Option<Box<str>>,
}

/// A group and a resource or kind, in the form of messages: `pods`, `deployments.apps`,
/// `Deployment.apps`.
#[derive(Debug, Clone, Copy)]
pub struct Qualified<'a> {
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Plural resource or kind.
    pub name: &'a str,
}

impl std::fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.group)
        }
    }
}

impl Qualified<'_> {
    fn details(self, name: &str) -> Map<String, Value> {
        let mut details = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                details.insert(key.to_owned(), Value::from(value));
            }
        };
        put("name", name);
        put("group", self.group);
        put("kind", self.name);
        details
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Status {
    /// A status with code, reason and message only.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    /// The same with details that another program gave.
    pub(crate) fn detailed(self, details: Value) -> Self {
        self.with_details(details)
    }

    fn with_details(mut self, details: impl Into<Value>) -> Self {
        self.details = Some(Box::new(details.into()));
        self
    }

    /// 404 for an object.
    pub fn not_found(resource: Qualified<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found"))
            .with_details(resource.details(name))
    }

    /// 404 for a path that no resource serves.
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(Map::new())
    }

    /// 409 for a name in use.
    pub fn already_exists(resource: Qualified<'_>, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
        )
        .with_details(resource.details(name))
    }

    /// 409 after the server generated eight names that all exist.
    pub fn no_unique_name(resource: Qualified<'_>, name: &str) -> Self {
        let mut details = resource.details(name);
        details.insert("retryAfterSeconds".to_owned(), Value::from(1));
        let message = format!(
            "{resource} \"{name}\" already exists, the server was not able to generate a unique name for the object"
        );
        Self::new(409, "AlreadyExists", message).with_details(details)
    }

    /// 409 with the reason of a conflict.
    pub fn conflict(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(resource.details(name))
    }

    /// 409 for an outdated resource version.
    pub fn modified(resource: Qualified<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 422 with one cause per error. `kind` contains the kind, not the resource. The message lists
    /// equal texts once.
    pub fn invalid(kind: Qualified<'_>, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = if texts.len() == 1 {
            texts.remove(0)
        } else {
            format!("[{}]", texts.join(", "))
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({"reason": error.reason(), "message": error.detail(), "field": error.field}))
            .collect();
        let mut details = kind.details(name);
        details.insert("causes".to_owned(), Value::from(causes));
        Self::new(
            422,
            "Invalid",
            format!("{kind} \"{name}\" is invalid: {list}"),
        )
        .with_details(details)
    }

    /// 403 from admission. `name` may be empty.
    pub fn forbidden(resource: Qualified<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(resource.details(name))
    }

    /// The same with another code and reason, and with a cause for each message.
    pub(crate) fn refused<'a>(
        mut self,
        code: u16,
        reason: &'static str,
        causes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.code = code;
        self.reason = reason;
        if let Some(Value::Object(details)) = self.details.as_deref_mut() {
            let causes = causes.into_iter().map(|cause| json!({"message": cause}));
            details.insert("causes".to_owned(), causes.collect());
        }
        self
    }

    /// The same with a cause that has a type only.
    pub(crate) fn caused_by(mut self, kind: &str) -> Self {
        if let Some(Value::Object(details)) = self.details.as_deref_mut() {
            details.insert("causes".to_owned(), json!([{ "reason": kind }]));
        }
        self
    }

    /// 403 for a path that names no objects.
    pub fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).with_details(Map::new())
    }

    /// 403 for new objects in a terminating namespace.
    pub fn namespace_terminating(resource: Qualified<'_>, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut details = resource.details(name);
        details.insert(
            "causes".to_owned(),
            json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]),
        );
        Self::forbidden(resource, name, &why).with_details(details)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(Map::new())
    }

    /// 405 for a verb that a resource lacks: `NewMethodNotSupported`.
    pub fn method_not_supported(resource: Qualified<'_>, verb: &str) -> Self {
        let mut details = Map::new();
        if !resource.group.is_empty() {
            details.insert("group".to_owned(), Value::from(resource.group));
        }
        details.insert("kind".to_owned(), Value::from(resource.name));
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Self::new(405, "MethodNotAllowed", message).with_details(details)
    }

    /// 413 for a request body beyond `limit` bytes.
    pub fn body_too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// 415 for a request body.
    pub fn unsupported_body(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415 for an unknown kind of patch.
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            .with_details(Map::new())
    }

    /// 406.
    pub fn not_acceptable(available: &[&str]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        Self::new(406, "NotAcceptable", message).with_details(Map::new())
    }

    /// 410.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410 for a watch from before the history.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504 for a resource version in the future.
    pub fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message).with_details(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }))
    }

    /// 500 for an internal error.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
        .with_details(json!({"causes": [{"message": message}]}))
    }

    /// 500 without a reason. Upstream answers so for errors that are no API errors.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 429 with a cause, for example of an eviction.
    pub fn too_many_requests(
        message: impl Into<String>,
        retry_after_seconds: Option<u32>,
        causes: Value,
    ) -> Self {
        let mut details = Map::new();
        if !causes.is_null() {
            details.insert("causes".to_owned(), causes);
        }
        if let Some(seconds) = retry_after_seconds {
            details.insert("retryAfterSeconds".to_owned(), Value::from(seconds));
        }
        Self::new(429, "TooManyRequests", message).with_details(details)
    }

    /// Seconds of the `Retry-After` header; `None` without `retryAfterSeconds`.
    pub fn retry_after(&self) -> Option<u64> {
        self.details
            .as_ref()?
            .get("retryAfterSeconds")?
            .as_u64()
            .filter(|seconds| *seconds > 0)
    }

    /// The body of the answer.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), Value::from(&**token));
        }
        let mut body = Map::new();
        body.insert("kind".to_owned(), Value::from("Status"));
        body.insert("apiVersion".to_owned(), Value::from("v1"));
        body.insert("metadata".to_owned(), Value::from(metadata));
        body.insert("status".to_owned(), Value::from("Failure"));
        body.insert("message".to_owned(), Value::from(self.message.as_str()));
        if !self.reason.is_empty() {
            body.insert("reason".to_owned(), Value::from(self.reason));
        }
        if let Some(details) = &self.details {
            body.insert("details".to_owned(), Value::clone(details));
        }
        body.insert("code".to_owned(), Value::from(self.code));
        Value::from(body)
    }
}

/// The `Success` answer of a deletion. `details` names the deleted object.
pub fn deleted(resource: Qualified<'_>, name: &str, uid: &str, revision: Option<u64>) -> Value {
    let mut details = resource.details(name);
    details.insert("uid".to_owned(), Value::from(uid));
    let metadata = match revision {
        Some(revision) => json!({"resourceVersion": revision.to_string()}),
        None => json!({}),
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Success", "details": details})
}

/// The `Success` answer of a subresource that creates, such as `binding`.
pub fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
