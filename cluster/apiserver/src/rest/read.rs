//! `GET` of objects and collections.
//!
//! Reads with a resource version come from the "cache" and can lag under a fault; all other reads
//! are current. Upstream is `apiserver/pkg/storage/cacher` and `apiserver/pkg/storage/continue.go`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::accept::View;
use super::query::{ListOptions, parse_revision};
use super::view::{self, RowObject};
use super::{Answer, Body, Call, Server, Verb};
use crate::faults::Seen;
use crate::kinds::Storage;
use crate::registry::Registered;
use crate::selectors::Selection;
use crate::status::Status;
use crate::store::{Compacted, Object, Snapshot};

/// Longest wait of a read for a future revision, as upstream's.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// The start of the next page, encoded in `metadata.continue`.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    /// The first key of the page below the prefix of the list. It may begin with a slash.
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    fn after(revision: u64, last: &str) -> String {
        // Byte 0 makes this the first key after `last`, because keys contain no such byte.
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        Self::encode(revision, format!("/{last}\0"))
    }

    fn encode(revision: i64, start: String) -> String {
        let token = Self {
            v: "meta.k8s.io/v1".to_owned(),
            rv: revision,
            start,
        };
        URL_SAFE_NO_PAD
            .encode(serde_json::to_vec(&token).expect("a token of texts and numbers serialises"))
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: String| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let json = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(error.to_string()))?;
        let mut token: Self =
            serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
        if token.v != "meta.k8s.io/v1" {
            return Err(invalid(format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            return Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if token.start.is_empty() {
            return Err(invalid(
                "encoded start key empty (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        // Upstream refuses paths that `path.Clean` changes.
        let key = token.start.strip_prefix('/').unwrap_or(&token.start);
        if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(token.start));
        }
        token.start = key.to_owned();
        Ok(token)
    }
}

/// A page of a collection.
pub(super) struct Page {
    pub(super) objects: Vec<Arc<Object>>,
    revision: u64,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

impl Page {
    /// Computed objects, which have no revision.
    pub(super) fn unstored(objects: Vec<Arc<Object>>) -> Self {
        Self {
            objects,
            revision: 0,
            continue_token: None,
            remaining: None,
        }
    }

    /// `metadata` of the list.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = Map::new();
        if self.revision > 0 {
            metadata.insert(
                "resourceVersion".to_owned(),
                Value::from(self.revision.to_string()),
            );
        }
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), Value::from(token.as_str()));
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), Value::from(remaining));
        }
        Value::from(metadata)
    }
}

impl Server {
    /// Waits until the client's view of the cache has reached `revision`. 504 after three seconds.
    pub(super) async fn wait_for(&self, seen: &Seen<'_>, revision: u64) -> Result<(), Status> {
        let shown = async {
            self.revisions.reached(revision).await;
            let mut faults = self.faults.watch_faults();
            loop {
                let current = self.revisions.current();
                if faults
                    .borrow_and_update()
                    .view(seen, current)
                    .is_none_or(|view| revision <= view)
                {
                    return;
                }
                tokio::select! {
                    // The server owns the sender, so the channel stays open.
                    _ = faults.changed() => {}
                    () = self.revisions.reached(current + 1) => {}
                }
            }
        };
        let waited = tokio::time::timeout(FUTURE_WAIT, shown).await;
        waited.map_err(|_| {
            Status::too_large(
                revision,
                self.shown(seen).unwrap_or_else(|| self.revisions.current()),
            )
        })
    }

    /// The revision of the client's view of the cache, if a fault makes it lag.
    fn shown(&self, seen: &Seen<'_>) -> Option<u64> {
        self.faults.view(seen, self.revisions.current())
    }

    /// The client's view of the objects with keys below `prefix`.
    pub(super) fn cached(&self, entry: &Registered, seen: &Seen<'_>, prefix: &str) -> Snapshot {
        let Some(revision) = self.shown(seen) else {
            return entry.store.list(&self.revisions, prefix);
        };
        let oldest = |Compacted { oldest }| entry.store.list_at(prefix, oldest);
        let snapshot = entry.store.list_at(prefix, revision).or_else(oldest);
        snapshot.unwrap_or_else(|_| entry.store.list(&self.revisions, prefix))
    }

    /// Answers a GET of one object. Only a request with a resource version can see a lagging cache.
    pub(super) async fn get(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let revision =
            parse_revision(call.query.text("resourceVersion")).map_err(Status::unclassified)?;
        let seen = call.seen(Verb::Get);
        if let Some(revision) = revision {
            self.wait_for(&seen, revision).await?;
        }
        if call.form.view == View::Table {
            RowObject::parse(call.query.text("includeObject"))?;
        }
        let target = call.target;
        let key = target.key();
        let found = match revision.and_then(|_| self.shown(&seen)) {
            Some(_) => self
                .cached(&target.entry, &seen, &key)
                .objects
                .into_iter()
                .find(|object| *object.key == *key),
            None => target.entry.store.get(&key),
        };
        let object =
            found.ok_or_else(|| Status::not_found(target.resource().named(), &target.name))?;
        Ok(Answer::object(200, object))
    }

    pub(super) async fn list(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let options = ListOptions::parse(call.query, false)?;
        let selection = Selection::parse(
            call.target.resource(),
            &options.label_selector,
            &options.field_selector,
        )?;
        let page = self.page(call, &options, &selection).await?;
        self.show_page(call, page)
    }

    /// A page in the view that the client requested.
    pub(super) fn show_page(&self, call: &Call<'_>, mut page: Page) -> Result<Answer, Status> {
        let resource = call.target.resource();
        let metadata = page.metadata();
        for object in &mut page.objects {
            *object = call.form.trimmed(object);
        }
        match call.form.view {
            View::Table => {
                let include = RowObject::parse(call.query.text("includeObject"))?;
                Ok(Answer::value(
                    200,
                    self.table(resource, metadata, &page.objects, include, true),
                ))
            }
            View::Metadata => {
                let items: Vec<Value> = page
                    .objects
                    .iter()
                    .map(|object| {
                        serde_json::from_slice(&view::metadata_only(object))
                            .expect("metadata is cut from JSON that we wrote")
                    })
                    .collect();
                // Upstream's empty list of metadata has `items: null`, unlike its typed lists.
                let items = if items.is_empty() {
                    Value::Null
                } else {
                    Value::from(items)
                };
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
                });
                Ok(Answer::value(200, list))
            }
            View::Full | View::Discovery => {
                let kind = resource.list_kind();
                let version = resource.api_version();
                let mut metadata = metadata;
                if resource.custom.is_some() && metadata.get("continue").is_none() {
                    // Upstream's lists of custom resources always have the field `continue`.
                    metadata["continue"] = Value::from("");
                }
                let head = format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
                );
                let objects = match resource.storage {
                    Storage::Own => page.objects,
                    Storage::Converted(_) | Storage::OtherVersion => page
                        .objects
                        .iter()
                        .map(|object| in_view(call, object))
                        .collect(),
                };
                let typed = resource.custom.is_none();
                Ok(Answer::body(Body::list(head, objects, typed)))
            }
        }
    }

    /// The objects of a list request.
    pub(super) async fn page(
        &self,
        call: &Call<'_>,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<Page, Status> {
        let prefix = call.target.prefix();
        if !options.continue_token.is_empty() {
            return self.next_page(call, options, selection, &prefix).await;
        }
        let revision = parse_revision(&options.resource_version)
            .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        let mut limit = options.limit;
        let snapshot = match revision {
            None => self.now(call, &prefix),
            Some(0) => {
                // Upstream answers this from its cache, without pages.
                limit = 0;
                self.cached(&call.target.entry, &call.seen(Verb::List), &prefix)
            }
            Some(revision) => {
                self.wait_for(&call.seen(Verb::List), revision).await?;
                // Without a match, a limit means `Exact`, as in upstream.
                let exact = options.version_match == "Exact"
                    || (options.version_match.is_empty() && limit > 0);
                if exact {
                    let too_old = |_| {
                        Status::expired("The resourceVersion for the provided list is too old.")
                    };
                    self.list_at(call, &prefix, revision).map_err(too_old)?
                } else {
                    self.cached(&call.target.entry, &call.seen(Verb::List), &prefix)
                }
            }
        };
        let snapshot = self.converted(call, snapshot).await?;
        Ok(cut(snapshot, &prefix, "", limit, selection))
    }

    /// All selected objects at the current revision.
    pub(super) fn whole(&self, call: &Call<'_>, selection: &Selection) -> Page {
        cut(self.now(call, &call.target.prefix()), "", "", 0, selection)
    }

    /// The objects in the version of the request, which selectors read.
    async fn converted(&self, call: &Call<'_>, snapshot: Snapshot) -> Result<Snapshot, Status> {
        let resource = call.target.resource();
        let objects = self.all_in_version(resource, snapshot.objects).await?;
        Ok(Snapshot {
            objects,
            ..snapshot
        })
    }

    fn now(&self, call: &Call<'_>, prefix: &str) -> Snapshot {
        call.target.entry.store.list(&self.revisions, prefix)
    }

    /// The list as it was at `revision`, unless that is compacted.
    fn list_at(&self, call: &Call<'_>, prefix: &str, revision: u64) -> Result<Snapshot, Compacted> {
        self.revisions.check(revision)?;
        call.target.entry.store.list_at(prefix, revision)
    }

    /// The page of a continue token. An expired token gets a 410 with a token that continues at the
    /// current revision.
    async fn next_page(
        &self,
        call: &Call<'_>,
        options: &ListOptions,
        selection: &Selection,
        prefix: &str,
    ) -> Result<Page, Status> {
        let token = ContinueToken::decode(&options.continue_token)?;
        if !options.resource_version.is_empty() && options.resource_version != "0" {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let start = format!("{prefix}{}", token.start);
        if let Ok(revision) = u64::try_from(token.rv)
            && revision > self.revisions.current()
        {
            self.wait_for(&call.seen(Verb::List), revision).await?;
        }
        let snapshot = match u64::try_from(token.rv) {
            Ok(revision) => self.list_at(call, prefix, revision).map_err(|Compacted { .. }| {
                let mut expired = Status::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                     without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
                     results. Continuing with the provided token results in an inconsistent list - objects that were created, \
                     modified, or deleted between the time the first chunk was returned and now may show up in the list.",
                );
                // As upstream's `handleCompactedErrorForPaging`: a negative revision means the present one.
                expired.continue_token = Some(ContinueToken::encode(-1, token.start).into());
                expired
            })?,
            Err(_) => self.now(call, prefix),
        };
        // As for a list from "0", upstream returns all remaining objects.
        let limit = if options.resource_version == "0" {
            0
        } else {
            options.limit
        };
        let snapshot = self.converted(call, snapshot).await?;
        Ok(cut(snapshot, prefix, &start, limit, selection))
    }
}

/// The selected objects from key `start` on, at most `limit` of them. 0 means no limit.
fn cut(snapshot: Snapshot, prefix: &str, start: &str, limit: usize, selection: &Selection) -> Page {
    let revision = snapshot.revision;
    let mut objects = snapshot.objects;
    if !start.is_empty() {
        let first = objects.partition_point(|object| &*object.key < start);
        objects.drain(..first);
    }
    objects.retain(|object| selection.matches(object));
    let mut page = Page {
        objects,
        revision,
        continue_token: None,
        remaining: None,
    };
    if limit > 0 && page.objects.len() > limit {
        let remaining = page.objects.len() - limit;
        page.objects.truncate(limit);
        let last = page
            .objects
            .last()
            .map_or("", |object| &object.key[prefix.len()..]);
        page.continue_token = Some(ContinueToken::after(revision, last));
        page.remaining = selection.is_everything().then_some(remaining);
    }
    page
}

/// The object in the version of the request's resource.
fn in_view(call: &Call<'_>, object: &Arc<Object>) -> Arc<Object> {
    let value = serde_json::from_slice(&view::full(call.target.resource(), object))
        .expect("a view is JSON that we wrote");
    Arc::new(Object::unstored(
        call.target.resource(),
        &object.key,
        &value,
    ))
}
