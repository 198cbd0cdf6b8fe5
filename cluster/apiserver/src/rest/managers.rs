//! Updates `metadata.managedFields` at each write.
//!
//! author from the request -> difference of old and new object -> entries
//!
//! Sets and merges are in `crate::managed_fields`. Upstream is `apimachinery/pkg/util/managedfields`.

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::query::invalid_options;
use super::{Call, Server, metadata};
use crate::fielderror::{FieldError, Problem};
use crate::kinds::Resource;
use crate::managed_fields::{
    self, Author, Convert, Converted, Managed, Operation, Versions, is_reset,
};
use crate::status::Status;

/// Most bytes of a manager's name, as upstream's.
const MAX_MANAGER: usize = 128;

/// The way in which a write changes the entries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tracking<'a> {
    /// Changed fields become owned by the author.
    Update(&'a Author),
    /// The new object has its final entries already, after an apply.
    Decided,
}

impl Call<'_> {
    /// The author of an update: `fieldManager`, or the user agent's product. `options` is the kind
    /// that an error names.
    pub(super) fn author(&self, options: &str) -> Result<Author, Status> {
        let manager = match self.query.text("fieldManager") {
            "" => from_user_agent(self.user_agent),
            manager => checked(manager, options)?.to_owned(),
        };
        Ok(Author {
            manager,
            operation: Operation::Update,
            api_version: self.target.resource().api_version(),
            subresource: self
                .target
                .subresource
                .map_or_else(Default::default, |part| part.name.into()),
        })
    }
}

/// The manager's name after a check; 422 names `options`.
pub(super) fn checked<'a>(manager: &'a str, options: &str) -> Result<&'a str, Status> {
    let bad = manager
        .chars()
        .enumerate()
        .find(|(_, letter)| letter.is_control());
    let problem = if manager.len() > MAX_MANAGER {
        Problem::TooLong(MAX_MANAGER)
    } else if let Some((at, letter)) = bad {
        let why = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(letter)
        );
        Problem::Invalid(manager.into(), why)
    } else {
        return Ok(manager);
    };
    Err(invalid_options(
        options,
        &[FieldError {
            field: "fieldManager".to_owned(),
            problem,
        }],
    ))
}

/// The product of a user agent: `kubectl` of `kubectl/v1.36.2 (linux/amd64)`.
fn from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_MANAGER)
        .collect();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// Converts objects of one resource for their managed fields. A webhook converts each object once for
/// each version, however many managers the version has.
pub(super) struct Conversions<'a> {
    server: &'a Server,
    resource: &'a Resource,
    by_webhook: Mutex<Vec<Known>>,
}

/// A conversion by a webhook.
struct Known {
    object: Value,
    api_version: String,
    converted: Converted,
}

impl<'a> Conversions<'a> {
    pub(super) fn new(server: &'a Server, resource: &'a Resource) -> Self {
        Self {
            server,
            resource,
            by_webhook: Mutex::default(),
        }
    }

    fn known(&self, object: &Value, api_version: &str) -> Option<Converted> {
        let known = self.by_webhook.lock();
        let same = |known: &&Known| known.api_version == api_version && known.object == *object;
        known.iter().find(same).map(|known| known.converted.clone())
    }

    async fn converted(&self, object: &Value, api_version: &str) -> Result<Converted, Status> {
        if let Some(converted) = self.known(object, api_version) {
            return Ok(converted);
        }
        let converted = self
            .server
            .in_other_version(self.resource, object, api_version)
            .await?;
        if self.resource.converter().is_some() {
            self.by_webhook.lock().push(Known {
                object: object.clone(),
                api_version: api_version.to_owned(),
                converted: converted.clone(),
            });
        }
        Ok(converted)
    }
}

impl Convert for Conversions<'_> {
    fn convert<'a>(
        &'a self,
        object: &'a Value,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Converted, Status>> {
        self.converted(object, api_version).boxed()
    }
}

impl Server {
    /// Sets the entries of a new object. `given` are the entries in the body.
    pub(super) async fn manage_new(
        &self,
        resource: &Resource,
        object: &mut Value,
        given: Option<Value>,
        tracking: Tracking<'_>,
    ) {
        let given = given.filter(|given| is_given(resource, given));
        let managed_fields = match tracking {
            Tracking::Decided => given,
            Tracking::Update(_) if given.as_ref().is_some_and(is_reset) => None,
            Tracking::Update(author) => {
                let managed = given.as_ref().and_then(Managed::parse).unwrap_or_default();
                if self.tracks_creations || !managed.is_empty() {
                    let zero = resource.zero(object);
                    let write = (&zero, &*object);
                    self.owned(resource, managed, write, author).await
                } else {
                    None
                }
            }
        };
        set(object, managed_fields);
    }

    /// The same for an object without the status that its author sent. Upstream drops it later.
    pub(super) async fn manage_sent(
        &self,
        resource: &Resource,
        object: &mut Value,
        status: Option<&Value>,
        (given, tracking): (Option<Value>, Tracking<'_>),
    ) {
        match status {
            Some(status) if !fits(resource, status) => {
                tracing::debug!("an object with a malformed status loses its managed fields");
            }
            // An older version shows parts of the status as annotations, which the author owns.
            Some(status) if resource.is_converted() => {
                let mut whole = object.clone();
                whole["status"] = status.clone();
                self.manage_new(resource, &mut whole, given, tracking).await;
                set(object, take(&mut whole));
            }
            _ => self.manage_new(resource, object, given, tracking).await,
        }
    }

    /// Sets the entries of `new`, which replaces `old`. An update adds entries only to objects
    /// that have some.
    pub(super) async fn manage_change(
        &self,
        resource: &Resource,
        new: &mut Value,
        old: &Value,
        given: Option<Value>,
        tracking: Tracking<'_>,
    ) {
        let given = given.filter(|given| is_given(resource, given));
        let before = old["metadata"].get("managedFields");
        let managed_fields = match tracking {
            Tracking::Decided => given,
            // Writes to subresources cannot change entries directly.
            Tracking::Update(author) => {
                let given =
                    given.filter(|given| author.subresource.is_empty() && before != Some(given));
                if given.as_ref().is_some_and(is_reset) {
                    None
                } else {
                    self.updated(resource, new, old, given.as_ref(), author)
                        .await
                }
            }
        };
        let managed_fields = match (managed_fields, before) {
            // Without other changes, new times alone would make a write of an unchanged object.
            (Some(now), Some(before))
                if same_but_entries(new, old) && same_but_times(&now, before) =>
            {
                Some(before.clone())
            }
            (now, _) => now,
        };
        set(new, managed_fields);
    }

    /// The entries after an update. An entry of the author owns the changed fields.
    async fn updated(
        &self,
        resource: &Resource,
        new: &Value,
        old: &Value,
        given: Option<&Value>,
        author: &Author,
    ) -> Option<Value> {
        let before = old["metadata"].get("managedFields");
        let given = given
            .and_then(Managed::parse)
            .filter(|managed| !managed.is_empty());
        let managed = given
            .or_else(|| Managed::parse(before?))
            .unwrap_or_default();
        if managed.is_empty() {
            return None;
        }
        self.owned(resource, managed, (old, new), author).await
    }

    /// The entries after a write of `author` from an old to a new object. Like upstream, an object
    /// loses all entries if they cannot be made.
    async fn owned(
        &self,
        resource: &Resource,
        managed: Managed,
        (old, new): (&Value, &Value),
        author: &Author,
    ) -> Option<Value> {
        let versions = Versions {
            resource,
            part: Some(&*author.subresource).filter(|part| !part.is_empty()),
            convert: &Conversions::new(self, resource),
        };
        let shown: (Value, Value);
        let (old, new) = if resource.is_converted() {
            shown = (
                resource.converted(old.clone()),
                resource.converted(new.clone()),
            );
            (&shown.0, &shown.1)
        } else {
            (old, new)
        };
        let new = &*resource.managed(new);
        let time = author.time(self.time());
        let updated =
            managed_fields::updated(managed, versions, old, new, author.clone(), time).await;
        match updated {
            Ok(managed) => managed.into_value(),
            Err(status) => {
                tracing::debug!(error = %status.message, "an object loses its managed fields");
                None
            }
        }
    }

    /// An object of the kind of `resource` in the version `api_version`; `None` if the kind does
    /// not have that version.
    async fn in_other_version(
        &self,
        resource: &Resource,
        object: &Value,
        api_version: &str,
    ) -> Result<Converted, Status> {
        let found = |version: &str| self.registry.find_kind(version, &resource.kind);
        let Some(entry) = found(api_version) else {
            return Ok(None);
        };
        let other = &entry.resource;
        if other.named_kind().group != resource.named_kind().group
            || other.custom.is_some() != resource.custom.is_some()
        {
            return Ok(None);
        }
        let own = resource.api_version();
        let from = object["apiVersion"].as_str().unwrap_or(&own);
        let mut converted = object.clone();
        if from != api_version {
            if other.custom.is_none() {
                let kept = match found(from) {
                    Some(from) => from.resource.to_kept(converted),
                    None => converted,
                };
                // Go's conversion goes through typed objects, which are read as an encoder writes them.
                let shown = other.converted(kept);
                converted = other.managed(&shown).into_owned();
            } else if other.converter().is_some() {
                converted["apiVersion"] = Value::from(from);
                converted = other.in_version(converted, self).await?;
            } else {
                converted["apiVersion"] = Value::from(api_version);
            }
        }
        Ok(Some((entry, converted)))
    }

    /// The present time in the form of entries.
    pub(super) fn time(&self) -> String {
        metadata::time(self.clock.now())
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Whether the fields of a status can have managers. The types of built-in kinds fit after decoding.
fn fits(resource: &Resource, status: &Value) -> bool {
    let object = json!({"status": status});
    let declare = || managed_fields::declared(resource.release, resource.shape(&object), &object);
    resource.custom.is_none() || declare().is_ok()
}

/// Whether entries in a body count. The metadata of a custom object loses an empty list.
fn is_given(resource: &Resource, given: &Value) -> bool {
    resource.custom.is_none() || given.as_array().is_some_and(|entries| !entries.is_empty())
}

/// Removes the entries from an object and returns them.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    metadata::of(object).remove("managedFields")
}

fn set(object: &mut Value, managed_fields: Option<Value>) {
    if let Some(value) = managed_fields {
        metadata::of(object).insert("managedFields".to_owned(), value);
    }
}

fn same_but_times(now: &Value, before: &Value) -> bool {
    now == before
        || match (Managed::parse(now), Managed::parse(before)) {
            (Some(now), Some(before)) => now.same_but_times(&before),
            _ => false,
        }
}

/// Whether `new`, which has no entries yet, equals `old` apart from entries and resource version.
fn same_but_entries(new: &Value, old: &Value) -> bool {
    let aside = |key: &str| matches!(key, "managedFields" | "resourceVersion");
    let same = |new: &Value, old: &Value, aside: &dyn Fn(&str) -> bool| match (
        new.as_object(),
        old.as_object(),
    ) {
        (Some(new), Some(old)) => {
            let counted =
                |map: &serde_json::Map<String, Value>| map.keys().filter(|key| !aside(key)).count();
            counted(new) == counted(old)
                && new
                    .iter()
                    .filter(|(key, _)| !aside(key))
                    .all(|(key, value)| old.get(key) == Some(value))
        }
        _ => new == old,
    };
    same(&new["metadata"], &old["metadata"], &aside) && same(new, old, &|key| key == "metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_manager_is_the_product_of_the_user_agent() {
        let cases = [
            ("kubectl/v1.36.2 (linux/amd64) kubernetes/abc", "kubectl"),
            ("curl", "curl"),
            ("", "unknown"),
            (&"x".repeat(200), &"x".repeat(128)),
        ];
        for (agent, manager) in cases {
            assert_eq!(from_user_agent(agent), manager);
        }
    }
}
