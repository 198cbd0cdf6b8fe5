//! Admission webhooks: programs that refuse or change requests.
//!
//! configurations -> match -> conditions -> [`Call`] -> answer -> refusal, warnings or patch
//!
//! Upstream: `pkg/admission/plugin/webhook` of `k8s.io/apiserver`.

mod review;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::matching::{Matched, is_exempt};
use super::policies::Inputs;
use super::request::{Operation, Request};
use super::rounds::Rounds;
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::calls::Call;
use crate::cel::policy::Conditions;
use crate::status::Status;
use review::{Answer, Kind};

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

    /// Identifies the webhook among those of its kind.
    fn id(&self) -> String {
        format!("{}/{}", self.configuration, self.name())
    }

    /// The version of reviews that the webhook prefers.
    fn review_version(&self) -> &'static str {
        let versions = list(&self.value, "admissionReviewVersions");
        let known = |version: &Value| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        versions.iter().find_map(known).unwrap_or("v1")
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
        let mut cached = self.webhooks.0.lock();
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
    pub(crate) async fn validate_by_webhooks(&self, request: &Request<'_>) -> Result<(), Status> {
        if is_exempt(request) {
            return Ok(());
        }
        for webhook in self.webhooks(Kind::Validating).iter() {
            if let Some(matched) = self.should_call(request, webhook).await? {
                self.ask(request, webhook, &matched, Kind::Validating)
                    .await?;
            }
        }
        Ok(())
    }

    pub(crate) fn has_mutating_webhooks(&self) -> bool {
        !self.webhooks(Kind::Mutating).is_empty()
    }

    /// Lets the mutating webhooks of this round change the new object, which `request` does not
    /// have yet.
    pub(super) async fn mutate_by_webhooks(
        &self,
        request: &Request<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        rounds.begin(object);
        for webhook in self.webhooks(Kind::Mutating).iter() {
            self.mutate(request, webhook, object, rounds).await?;
        }
        rounds.end(object);
        Ok(())
    }

    /// Calls a mutating webhook if it matches, and applies its patch.
    async fn mutate(
        &self,
        request: &Request<'_>,
        webhook: &Webhook,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let request = Request {
            object: (request.operation != Operation::Delete).then_some(&*object),
            ..*request
        };
        let Some(matched) = self.should_call(&request, webhook).await? else {
            return Ok(());
        };
        let id = webhook.id();
        if rounds.skips(&id) {
            return Ok(());
        }
        let answer = self
            .ask(&request, webhook, &matched, Kind::Mutating)
            .await?;
        if let Some(patch) = answer.and_then(|answer| answer.patch) {
            if request.object.is_none() {
                let why = format!(
                    "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                    webhook.name()
                );
                return Err(Status::internal(why));
            }
            let patched = review::patched(self, &request, &matched, &patch).await?;
            if patched != *object {
                *object = patched;
                rounds.change();
            }
        }
        if webhook.value["reinvocationPolicy"] == "IfNeeded" {
            rounds.wait(id);
        }
        Ok(())
    }

    /// The resource in which a webhook wants to see the request; `None` if it does not want to.
    async fn should_call(
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
        let inputs = Inputs::of(self, request, &matched).await?;
        match webhook.conditions.hold(&inputs) {
            Ok(holds) => Ok(holds.then_some(matched)),
            Err(_) if webhook.ignores_failures() => Ok(None),
            Err(why) => Err(request.forbidden(&why)),
        }
    }

    /// The answer of a webhook; `None` if the call failed and the webhook ignores that. The error
    /// is its refusal.
    async fn ask(
        &self,
        request: &Request<'_>,
        webhook: &Webhook,
        matched: &Matched,
        kind: Kind,
    ) -> Result<Option<Answer>, Status> {
        let name = webhook.name();
        if request.dry_run
            && !matches!(text(&webhook.value, "sideEffects"), "None" | "NoneOnDryRun")
        {
            let why = format!("admission webhook {name:?} does not support dry run");
            return Err(Status::bad_request(why));
        }
        let version = webhook.review_version();
        let request_of_review = review::request(self, request, matched, kind).await?;
        let call = Call {
            client: webhook.value["clientConfig"].clone(),
            seconds: webhook.value["timeoutSeconds"].as_u64().unwrap_or(10),
            review: serde_json::json!({
                "kind": "AdmissionReview",
                "apiVersion": format!("admission.k8s.io/{version}"),
                "request": request_of_review,
            }),
        };
        let answer = self.call(call).await;
        let answer = answer
            .body
            .map_err(|why| why.to_string())
            .and_then(|body| review::answer(&body, kind, version, &answer.uid));
        match answer {
            Ok(answer) => {
                for warning in &answer.warnings {
                    request.origin.warn(warning.clone());
                }
                if answer.allowed {
                    Ok(Some(answer))
                } else {
                    Err(review::refusal(name, &answer.status))
                }
            }
            Err(_) if webhook.ignores_failures() => Ok(None),
            Err(why) => Err(Status::internal(format!(
                "failed calling webhook {name:?}: {why}"
            ))),
        }
    }
}
