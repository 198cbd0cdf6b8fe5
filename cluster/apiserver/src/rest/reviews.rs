//! Reviews of tokens, access and rules: requests that are created and never stored.
//!
//! Upstream is `pkg/registry/authentication` and `pkg/registry/authorization`.

use serde_json::{Map, Value, json};

use super::managers::Tracking;
use super::{Call, Server, managers, metadata};
use crate::auth::{Attributes, ResourceRequest, Rule, User, Wanted, is_node};
use crate::fielderror::{FieldError, Problem};
use crate::managed_fields::Author;
use crate::status::{Qualified, Status};

/// The reason that the rules of a node are incomplete: those of the Node authorizer depend on objects.
const NO_RULES_OF_NODES: &str = "node authorizer does not support user rule resolution";

impl Server {
    /// The review with its answer in `status`.
    pub(super) async fn review(
        &self,
        call: &Call<'_>,
        mut review: Value,
        author: &Author,
    ) -> Result<Value, Status> {
        let resource = call.target.resource();
        let given = managers::take(&mut review);
        let status = match &*resource.kind {
            "TokenReview" => self.review_token(&review)?,
            "SelfSubjectReview" => {
                metadata::of(&mut review).insert(
                    "creationTimestamp".to_owned(),
                    metadata::time(self.clock.now()),
                );
                review["status"] = json!({"userInfo": call.user.to_value()});
                return Ok(review);
            }
            "SelfSubjectRulesReview" => self.review_rules(call.user, &review)?,
            "SelfSubjectAccessReview" => self.review_access(call, &review, call.user)?,
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                self.review_access(call, &review, &subject(&review["spec"]))?
            }
            _ => return Err(Status::no_such_resource()),
        };
        review["status"] = json!({});
        let tracking = Tracking::Update(author);
        self.manage_new(resource, &mut review, given, tracking)
            .await;
        review["status"] = status;
        Ok(review)
    }

    /// Status of a TokenReview. A wrong token is not an error of the request.
    fn review_token(&self, review: &Value) -> Result<Value, Status> {
        let token = review["spec"]["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let asked: Vec<&str> = texts(&review["spec"]["audiences"]).collect();
        let audiences = if asked.is_empty() {
            vec![self.users.audience()]
        } else {
            asked
        };
        Ok(match self.user_of_token(token, &audiences) {
            Ok(known) => {
                json!({"authenticated": true, "user": known.user.to_value(), "audiences": known.audiences})
            }
            Err(error) => json!({"user": {}, "error": error}),
        })
    }

    /// Status of a SelfSubjectRulesReview: the rules of the user in a namespace.
    fn review_rules(&self, user: &User, review: &Value) -> Result<Value, Status> {
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (rules, problem) = self.policy().rules_for(user, namespace);
        let shown = |wanted: fn(&Rule) -> bool| {
            rules
                .iter()
                .filter(|rule| wanted(rule))
                .map(Rule::to_value)
                .collect::<Vec<_>>()
        };
        let is_node = is_node(user);
        let mut status = json!({
            "resourceRules": shown(|rule| !rule.resources.is_empty()),
            "nonResourceRules": shown(|rule| !rule.urls.is_empty()),
            "incomplete": is_node,
        });
        let of_node = is_node.then(|| NO_RULES_OF_NODES.to_owned());
        let problems: Vec<String> = of_node.into_iter().chain(problem).collect();
        match &problems[..] {
            [] => {}
            [problem] => status["evaluationError"] = Value::from(problem.as_str()),
            _ => status["evaluationError"] = Value::from(format!("[{}]", problems.join(", "))),
        }
        Ok(status)
    }

    /// Status of an access review: whether `user` may perform the request in `spec`.
    fn review_access(&self, call: &Call<'_>, review: &Value, user: &User) -> Result<Value, Status> {
        let errors = access_errors(&call.target.resource().kind, review);
        if !errors.is_empty() {
            return Err(Status::invalid(
                Qualified {
                    group: "authorization.k8s.io",
                    name: "",
                },
                "",
                &errors,
            ));
        }
        if metadata::text(review, "namespace") != call.target.namespace {
            let namespace = &call.target.namespace;
            return Err(Status::bad_request(format!(
                "spec.resourceAttributes.namespace must match namespace: {namespace}"
            )));
        }
        let decision = self.decide(user, &wanted(&review["spec"]));
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = Value::from(decision.reason);
        }
        Ok(status)
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The user that an access review names.
fn subject(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]).map(str::to_owned).collect(),
        extra: extra
            .map(|(key, values)| (key.clone(), texts(values).map(str::to_owned).collect()))
            .collect(),
    }
}

/// The request that an access review asks about.
fn wanted(spec: &Value) -> Attributes {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    if !resource.is_object() {
        return Attributes {
            verb: text(path, "verb"),
            object: Wanted::Path(text(path, "path")),
        };
    }
    Attributes::resource(
        &text(resource, "verb"),
        ResourceRequest {
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            node: selected_node(&resource["fieldSelector"]),
        },
    )
}

/// The node that a field selector requires; empty if it requires none.
fn selected_node(selector: &Value) -> String {
    let mut terms = selector["requirements"].as_array().into_iter().flatten();
    let required = terms.find_map(|term| {
        let is_node = term["key"] == "spec.nodeName" && term["operator"] == "In";
        match texts(&term["values"]).collect::<Vec<_>>()[..] {
            [node] if is_node => Some(node.to_owned()),
            _ => None,
        }
    });
    required.unwrap_or_default()
}

/// Validation errors of an access review.
fn access_errors(kind: &str, review: &Value) -> Vec<FieldError> {
    let invalid = |field: &str, value: Value, why: &str| FieldError {
        field: field.to_owned(),
        problem: Problem::Invalid(value, why.to_owned()),
    };
    let spec = &review["spec"];
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let shown = |path: &Value| json!({"Path": path["path"].as_str().unwrap_or(""), "Verb": path["verb"].as_str().unwrap_or("")});
    let mut errors = Vec::new();
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.push(invalid("spec.nonResourceAttributes", shown(path), why));
        }
        (false, false) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(invalid("spec.resourceAttributes", Value::Null, why));
        }
        _ => {}
    }
    let has_no_subject = spec["user"].as_str().unwrap_or_default().is_empty()
        && texts(&spec["groups"]).next().is_none();
    if kind != "SelfSubjectAccessReview" && has_no_subject {
        errors.push(invalid(
            "spec.user",
            Value::from(""),
            "at least one of user or group must be specified",
        ));
    }
    for selector in ["fieldSelector", "labelSelector"] {
        errors.extend(selector_error(
            &resource[selector],
            &format!("spec.resourceAttributes.{selector}"),
        ));
    }
    let local = kind == "LocalSubjectAccessReview";
    let disallowed: Map<String, Value> = review["metadata"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !(local && *key == "namespace"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !disallowed.is_empty() {
        let why = if local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        errors.push(invalid("metadata", Value::from(disallowed), why));
    }
    if local
        && resource.is_object()
        && resource["namespace"].as_str().unwrap_or_default() != metadata::text(review, "namespace")
    {
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        errors.push(invalid(
            "spec.resourceAttributes.namespace",
            Value::from(namespace),
            "must match metadata.namespace",
        ));
    }
    if local && path.is_object() {
        errors.push(invalid(
            "spec.nonResourceAttributes",
            shown(path),
            "disallowed on this kind of request",
        ));
    }
    errors
}

fn selector_error(selector: &Value, field: &str) -> Option<FieldError> {
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let some = selector["requirements"]
        .as_array()
        .is_some_and(|requirements| !requirements.is_empty());
    let (part, problem) = match (raw, some) {
        _ if !selector.is_object() => return None,
        ("", false) => {
            let why = format!("when {field} is specified, requirements or rawSelector is required");
            ("requirements", Problem::Required(why))
        }
        ("", true) => return None,
        (_, false) => return None,
        (raw, true) => (
            "rawSelector",
            Problem::Invalid(
                raw.into(),
                "may not specified at the same time as requirements".to_owned(),
            ),
        ),
    };
    Some(FieldError {
        field: format!("{field}.{part}"),
        problem,
    })
}
