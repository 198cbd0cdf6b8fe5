//! `POST serviceaccounts/<name>/token`: issues a token for a ServiceAccount.
//!
//! Upstream is `pkg/registry/core/serviceaccount/storage/token.go`.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Answer, Call, Server, decode, metadata};
use crate::auth::Claims;
use crate::fielderror::{FieldError, Problem};
use crate::status::{Qualified, Status};
use crate::store::Object;

const KIND: Qualified<'_> = Qualified {
    group: "authentication.k8s.io",
    name: "TokenRequest",
};
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 60 * 60;
/// Expiry that kubelets request by default. Upstream extends such tokens to a year, for clients
/// that read the token file only once.
const EXTENDED_SECONDS: i64 = 3_607;
const EXTENSION: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The object that a token is bound to.
struct Bound {
    key: &'static str,
    object: Arc<Object>,
    node: Option<(String, String)>,
}

impl Server {
    /// Answers a TokenRequest with a signed token. The token is not stored.
    pub(super) fn request_token(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let target = call.target;
        let mut request = decode::parse("TokenRequest", call.content_type, &call.body)?;
        check_kind(&request)?;
        let account = self.existing(call.target)?;
        for (field, own) in [("name", &target.name), ("namespace", &target.namespace)] {
            let given = metadata::text(&request, field);
            if !given.is_empty() && given != own {
                let why = format!("must match the service account {field} if specified");
                return Err(invalid(
                    &target.name,
                    &format!("metadata.{field}"),
                    given.into(),
                    &why,
                ));
            }
        }
        let uid = metadata::text(&request, "uid");
        if !uid.is_empty() && *uid != *account.uid() {
            let own = account.uid();
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({own})"
            );
            return Err(Status::conflict(KIND, &target.name, &why));
        }
        let spec = &request["spec"];
        let mut audiences: Vec<String> = spec["audiences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            audiences.push(self.users.audience().to_owned());
        }
        let seconds = spec["expirationSeconds"]
            .as_i64()
            .unwrap_or(DEFAULT_SECONDS);
        let field = "spec.expirationSeconds";
        if seconds < MIN_SECONDS {
            return Err(invalid(
                "",
                field,
                seconds.into(),
                "may not specify a duration less than 10 minutes",
            ));
        }
        if seconds > MAX_SECONDS {
            return Err(invalid(
                "",
                field,
                seconds.into(),
                "may not specify a duration larger than 2^32 seconds",
            ));
        }
        let reference = spec["boundObjectRef"].clone();
        let bound = if reference.is_object() {
            Some(self.bound(call, &reference)?)
        } else {
            None
        };

        let now = self.clock.now();
        let asked = SignedDuration::from_secs(seconds);
        let for_us = audiences
            .iter()
            .all(|audience| audience == self.users.audience());
        let to_pod = bound.as_ref().is_some_and(|bound| bound.key == "pod");
        let extended = seconds == EXTENDED_SECONDS && for_us && to_pod;
        let claims = Claims {
            account: &account,
            bound: bound.as_ref().map(|bound| (bound.key, &*bound.object)),
            node: bound.as_ref().and_then(|bound| bound.node.clone()),
            audiences: &audiences,
            lifetime: if extended { EXTENSION } else { asked },
            warn_after: extended.then_some(asked),
        };
        let token = self
            .issue(&claims, now)
            .map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;

        let metadata = metadata::of(&mut request);
        metadata.insert("name".to_owned(), Value::from(target.name.as_str()));
        metadata.insert(
            "namespace".to_owned(),
            Value::from(target.namespace.as_str()),
        );
        metadata.insert("uid".to_owned(), Value::from(account.uid()));
        metadata.insert("creationTimestamp".to_owned(), metadata::time(now));
        let granted = json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": request["metadata"],
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {"token": token, "expirationTimestamp": metadata::time(now + asked)},
        });
        Ok(Answer::value(201, granted))
    }

    /// The object of a reference, after a check of its kind, UID and ServiceAccount.
    fn bound(&self, call: &Call<'_>, reference: &Value) -> Result<Bound, Status> {
        let target = call.target;
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let kind = text("kind");
        let name = text("name");
        let uid = text("uid");
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or(("", text("apiVersion")));
        let (key, plural) = match (group, kind) {
            ("", "Pod") => ("pod", "pods"),
            ("", "Node") => ("node", "nodes"),
            ("", "Secret") => ("secret", "secrets"),
            _ => {
                let named = format!("{group}/{version}, Kind={kind}");
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {named}"
                )));
            }
        };
        let path = if key == "node" {
            name.to_owned()
        } else {
            target.key_of(name)
        };
        let found = self.find_object(plural, &path);
        let object = found.ok_or_else(|| {
            Status::not_found(
                Qualified {
                    group: "",
                    name: plural,
                },
                name,
            )
        })?;
        let mut node = None;
        if key == "pod" {
            let pod = object.to_value();
            if pod["spec"]["serviceAccountName"]
                .as_str()
                .unwrap_or_default()
                != target.name
            {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    target.name
                )));
            }
            node = pod["spec"]["nodeName"]
                .as_str()
                .filter(|name| !name.is_empty())
                .map(|name| {
                    let uid = self
                        .find_object("nodes", name)
                        .map_or_else(String::new, |node| node.uid().to_owned());
                    (name.to_owned(), uid)
                });
        }
        if !uid.is_empty() && *uid != *object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and \
                 then recreated"
            );
            return Err(Status::conflict(
                Qualified { group, name: kind },
                name,
                &why,
            ));
        }
        Ok(Bound { key, object, node })
    }
}

fn check_kind(request: &Value) -> Result<(), Status> {
    match request["kind"].as_str() {
        None | Some("" | "TokenRequest") if request.is_object() => Ok(()),
        kind => {
            let kind = kind.unwrap_or_default();
            Err(Status::bad_request(format!(
                "{kind} cannot be handled as a TokenRequest"
            )))
        }
    }
}

fn invalid(name: &str, field: &str, value: Value, why: &str) -> Status {
    let error = FieldError {
        field: field.to_owned(),
        problem: Problem::Invalid(value, why.to_owned()),
    };
    Status::invalid(KIND, name, &[error])
}
