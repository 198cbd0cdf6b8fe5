//! Admission webhooks: programs that refuse or change requests.
//!
//! configurations -> match -> conditions -> [`Call`] -> answer -> refusal, warnings or patch
//!
//! Handlers of writes are not asynchronous, because they hold locks. A write that needs the answer
//! of a webhook therefore fails with [`Calls::pending`] set. Its caller then asks the webhook and
//! handles the write again, which finds the answer in [`Calls`]. Names, UIDs and answers stay the
//! same in every round.
//!
//! Upstream: `pkg/admission/plugin/webhook` of `k8s.io/apiserver`.

mod client;
mod review;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::calls::{Answer, Call, Calls, Key, Kind};
use super::matching::{Matched, is_exempt};
use super::policies::Inputs;
use super::request::{Operation, Request};
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::cel::policy::Conditions;
use crate::status::Status;

/// The webhooks of the latest revision, by the plural of their configurations.
#[derive(Debug, Default)]
pub(crate) struct Webhooks(Mutex<HashMap<&'static str, Revision>>);

/// A revision of the configurations, and their webhooks.
type Revision = (u64, Arc<Vec<Webhook>>);

/// A webhook with its configuration.
#[derive(Debug)]
struct Webhook {
    configuration: String,
    value: Value,
    conditions: Conditions,
}

impl Webhook {
    fn name(&self) -> &str {
        text(&self.value, "name")
    }

    fn ignores_failures(&self) -> bool {
        self.value["failurePolicy"] == "Ignore"
    }

    /// The webhooks of a configuration.
    fn all_of(configuration: &Value) -> Vec<Self> {
        let one = |webhook: &Value| Self {
            configuration: text(configuration, "metadata.name").to_owned(),
            conditions: Conditions::compile(list(webhook, "matchConditions"), false),
            value: webhook.clone(),
        };
        list(configuration, "webhooks").iter().map(one).collect()
    }
}

impl Server {
    /// The webhooks of a kind, by name of the configuration.
    fn webhooks(&self, kind: Kind) -> Arc<Vec<Webhook>> {
        let plural = kind.plural();
        let entry = self
            .registry
            .find("admissionregistration.k8s.io", "v1", plural);
        let store = &entry.expect("webhooks are built in").store;
        let mut cached = self
            .webhooks
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let latest = store.latest();
        if let Some((revision, webhooks)) = cached.get(plural)
            && *revision == latest
        {
            return webhooks.clone();
        }
        let configurations = store.list(&self.revisions, "").objects;
        let webhooks = configurations.iter();
        let webhooks =
            webhooks.flat_map(|configuration| Webhook::all_of(&configuration.to_value()));
        let webhooks = Arc::new(webhooks.collect::<Vec<_>>());
        cached.insert(plural, (latest, webhooks.clone()));
        webhooks
    }

    /// Asks all validating webhooks.
    pub(crate) fn validate_by_webhooks(&self, request: &Request<'_>) -> Result<(), Status> {
        if is_exempt(request) {
            return Ok(());
        }
        for webhook in self.webhooks(Kind::Validating).iter() {
            if let Some(matched) = self.should_call(request, webhook)? {
                self.ask(request, webhook, &matched, Kind::Validating, 0)?;
            }
        }
        Ok(())
    }

    /// Lets all mutating webhooks change the new object, which `request` does not have yet.
    /// Whether it changed.
    pub(crate) fn mutate_by_webhooks(
        &self,
        request: &Request<'_>,
        object: &mut Value,
    ) -> Result<bool, Status> {
        if is_exempt(request) {
            return Ok(false);
        }
        let webhooks = self.webhooks(Kind::Mutating);
        if webhooks.is_empty() {
            return Ok(false);
        }
        let before = object.clone();
        // The object after each call of a webhook that wants to see later changes.
        let mut seen: Vec<(usize, Value)> = Vec::new();
        for (index, webhook) in webhooks.iter().enumerate() {
            let called = self.mutate(request, webhook, object, 0)?;
            if called && webhook.value["reinvocationPolicy"] == "IfNeeded" {
                seen.push((index, object.clone()));
            }
        }
        for (index, then) in seen {
            if then != *object {
                self.mutate(request, &webhooks[index], object, 1)?;
            }
        }
        Ok(before != *object)
    }

    /// Calls a mutating webhook if it matches, and applies its patch. Whether it was called.
    fn mutate(
        &self,
        request: &Request<'_>,
        webhook: &Webhook,
        object: &mut Value,
        round: usize,
    ) -> Result<bool, Status> {
        let request = Request {
            object: (request.operation != Operation::Delete).then_some(&*object),
            ..*request
        };
        let Some(matched) = self.should_call(&request, webhook)? else {
            return Ok(false);
        };
        let answer = self.ask(&request, webhook, &matched, Kind::Mutating, round)?;
        let Some(patch) = answer.and_then(|answer| answer.patch) else {
            return Ok(true);
        };
        if request.object.is_none() {
            let why = format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name()
            );
            return Err(Status::internal(why));
        }
        let patched = review::patched(&request, &matched, &patch).map_err(Status::internal)?;
        *object = patched;
        Ok(true)
    }

    /// The resource in which a webhook wants to see the request; `None` if it does not want to.
    fn should_call(
        &self,
        request: &Request<'_>,
        webhook: &Webhook,
    ) -> Result<Option<Matched>, Status> {
        if list(&webhook.value, "rules").is_empty() {
            return Ok(None);
        }
        let matched = self.matched(request, &webhook.value, "rules");
        let Some(matched) = matched.map_err(Status::internal)? else {
            return Ok(None);
        };
        if webhook.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let inputs = Inputs::of(self, request, &matched);
        match webhook.conditions.hold(&inputs) {
            Ok(holds) => Ok(holds.then_some(matched)),
            Err(_) if webhook.ignores_failures() => Ok(None),
            Err(why) => Err(request.forbidden(&why)),
        }
    }

    /// The answer of a webhook; `None` if the call failed and the webhook ignores that. The error
    /// is its refusal, or only tells that the call is still to be made.
    fn ask(
        &self,
        request: &Request<'_>,
        webhook: &Webhook,
        matched: &Matched,
        kind: Kind,
        round: usize,
    ) -> Result<Option<Answer>, Status> {
        let name = webhook.name();
        if request.dry_run
            && !matches!(text(&webhook.value, "sideEffects"), "None" | "NoneOnDryRun")
        {
            let why = format!("admission webhook {name:?} does not support dry run");
            return Err(Status::bad_request(why));
        }
        let key = Key {
            webhook: format!("{}/{name}", webhook.configuration),
            round,
            operation: request.operation.as_str(),
            object: format!(
                "{}/{}",
                request.target.key_of(request.name),
                request.subresource()
            ),
            version: request
                .old
                .map_or("", |old| text(old, "metadata.resourceVersion"))
                .to_owned(),
        };
        let mut state = request.origin.calls.state();
        let Some(answer) = state.answers.get(&key).cloned() else {
            state.pending = Some(Call {
                key,
                kind,
                webhook: webhook.value.clone(),
                request: review::request(request, matched, kind),
            });
            return Err(Status::internal("the answer of a webhook is pending"));
        };
        drop(state);
        match answer {
            Ok(answer) => {
                for warning in &answer.warnings {
                    request.origin.warn(warning.clone());
                }
                match answer.allowed {
                    true => Ok(Some(answer)),
                    false => Err(review::refusal(name, &answer.status)),
                }
            }
            Err(_) if webhook.ignores_failures() => Ok(None),
            Err(why) => Err(Status::internal(format!(
                "failed calling webhook {name:?}: {why}"
            ))),
        }
    }

    /// Makes a call, and keeps its answer for the next attempt of the write.
    pub(crate) async fn call_webhook(&self, calls: &Calls, mut call: Call) {
        let uid = self.random.identities.uid();
        call.request["uid"] = Value::from(uid.as_str());
        let answer = self.answer_of(&call, &uid).await;
        calls.state().answers.insert(call.key, answer);
    }

    async fn answer_of(&self, call: &Call, uid: &str) -> Result<Answer, String> {
        let versions = list(&call.webhook, "admissionReviewVersions");
        let mut versions = versions.iter().filter_map(Value::as_str);
        let version = versions
            .find(|version| matches!(*version, "v1" | "v1beta1"))
            .unwrap_or("v1");
        let review = serde_json::json!({
            "kind": "AdmissionReview",
            "apiVersion": format!("admission.k8s.io/{version}"),
            "request": call.request,
        });
        let seconds = call.webhook["timeoutSeconds"].as_u64().unwrap_or(10);
        let body = self
            .post_to(&call.webhook["clientConfig"], seconds, &review)
            .await?;
        review::answer(&body, call.kind, version, uid)
    }
}
