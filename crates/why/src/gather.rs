//! Reads the objects that an explanation asks for.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use serde_json::Value;
use steersman_client::discovery::{self, Discovery};
use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_values::resource::ResourceType;
use tokio::sync::OnceCell;

use crate::{Doc, Explain, Inside, Loaded, Need, PAGE, World};

/// Rounds of reads. A chain of objects is far shorter; the limit guards against an explanation that
/// asks for ever.
const ROUNDS: usize = 16;
/// Reads of one answer. A namespace with thousands of stuck objects must not cost the API server
/// thousands of requests.
const READS: usize = 200;

/// Does the reads of explanations.
pub trait Reader: Sync {
    /// The outcome of one read.
    fn read<'a>(&'a self, need: &'a Need) -> BoxFuture<'a, Loaded>;
}

/// Decides whether the caller may read objects.
pub trait Guard: Send + Sync {
    /// Whether the caller may get the object, or all objects of the namespace if `name` is empty.
    fn may_get<'a>(
        &'a self,
        of: &'a ResourceType,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, bool>;
}

/// Calls `explain` until the world has all objects that it asks for, and returns its last answer
/// with that world. `any` answers about the objects that it follows.
pub async fn gather<T>(
    reader: &impl Reader,
    now: Timestamp,
    inside: Option<Arc<dyn Inside>>,
    any: Explain,
    explain: impl Fn(&World) -> T,
) -> (T, World) {
    let mut world = World::new(now, inside, any);
    let mut left = READS;
    for _ in 0..ROUNDS {
        let answer = explain(&world);
        let mut asked = world.take_asked();
        if asked.is_empty() || left == 0 {
            return (answer, world);
        }
        asked.truncate(left);
        left -= asked.len();
        let outcomes = join_all(asked.iter().map(|need| reader.read(need))).await;
        for (need, outcome) in asked.into_iter().zip(outcomes) {
            world.load(need, outcome);
        }
    }
    (explain(&world), world)
}

/// Reads from the API server, as far as the guard permits.
pub struct ClientReader {
    client: ApiClient,
    guard: Option<Arc<dyn Guard>>,
    /// Whether one object is read as a list of one: the role of controller managers has the right to
    /// list all types, and not to get them.
    lists: bool,
    types: OnceCell<Option<Discovery>>,
}

impl ClientReader {
    /// A reader without a guard: the API server decides about the user of `client`.
    pub fn new(client: ApiClient) -> Self {
        Self {
            client,
            guard: None,
            lists: false,
            types: OnceCell::new(),
        }
    }

    /// The same for a caller with fewer rights than `client`, which is that of a controller manager.
    #[must_use]
    pub fn guarded(mut self, guard: Arc<dyn Guard>) -> Self {
        self.guard = Some(guard);
        self.lists = true;
        self
    }

    async fn object(&self, of: &ResourceType, namespace: &str, name: &str) -> Loaded {
        if !self.lists {
            return self
                .request(of, namespace, Some(name), Query::default())
                .await;
        }
        let fields = format!("metadata.name={name}");
        let query = Query::default().with_text("fieldSelector", &fields);
        match self.request(of, namespace, None, query).await {
            Loaded::Objects(found) if found.is_empty() => Loaded::Absent,
            outcome => outcome,
        }
    }

    async fn type_of(&self, group: &str, name: &str) -> Loaded {
        let discovered = self
            .types
            .get_or_init(async || discovery::discover(&self.client).await.ok());
        let Some(found) = discovered.await else {
            return Loaded::Failed("the API server does not tell its types".to_owned());
        };
        let wanted = name.to_lowercase();
        let all = found.preferred();
        let matching = all.into_iter().find(|served| {
            let of = &served.resource;
            let is_group = group == "*" || of.group == group;
            is_group && (*of.plural == *wanted || of.kind.to_lowercase() == wanted)
        });
        Loaded::Type(matching.map(|served| served.resource.clone()))
    }

    async fn request(
        &self,
        of: &ResourceType,
        namespace: &str,
        name: Option<&str>,
        query: Query,
    ) -> Loaded {
        let target = Target {
            resource: of,
            namespace: (!namespace.is_empty()).then_some(namespace),
            name,
            subresource: None,
        };
        let answer = match name {
            Some(_) => self.client.get(target).await,
            None => self.client.list(target, query).await,
        };
        match answer
            .map_err(Failed::Request)
            .and_then(|body| serde_json::from_slice::<Value>(&body).map_err(Failed::Decode))
        {
            Ok(value) if name.is_some() => Loaded::Objects(vec![Doc::new(value)]),
            Ok(mut value) => {
                let items = value.get_mut("items").map(Value::take);
                let items = items.and_then(|items| match items {
                    Value::Array(items) => Some(items),
                    _ => None,
                });
                Loaded::Objects(
                    items
                        .unwrap_or_default()
                        .into_iter()
                        .map(Doc::new)
                        .collect(),
                )
            }
            Err(Failed::Request(error)) if error.is_not_found() => Loaded::Absent,
            // With a guard, the caller has the right, and the account of the manager lacks it.
            Err(Failed::Request(error)) if error.is_forbidden() && self.guard.is_none() => {
                Loaded::Denied
            }
            Err(Failed::Request(error)) => Loaded::Failed(error.to_string()),
            Err(Failed::Decode(error)) => Loaded::Failed(error.to_string()),
        }
    }

    async fn may_get(&self, of: &ResourceType, namespace: &str, name: &str) -> bool {
        match &self.guard {
            Some(guard) => guard.may_get(of, namespace, name).await,
            None => true,
        }
    }
}

enum Failed {
    Request(ApiError),
    Decode(serde_json::Error),
}

impl Reader for ClientReader {
    fn read<'a>(&'a self, need: &'a Need) -> BoxFuture<'a, Loaded> {
        Box::pin(async move {
            match need {
                Need::Type { group, name } => self.type_of(group, name).await,
                Need::Object {
                    of,
                    namespace,
                    name,
                } => {
                    if self.may_get(of, namespace, name).await {
                        self.object(of, namespace, name).await
                    } else {
                        Loaded::Denied
                    }
                }
                Need::List {
                    of,
                    namespace,
                    fields,
                } => {
                    let query = match &**fields {
                        "" => Query::from("resourceVersion=0"),
                        fields => Query::default().with_text("fieldSelector", fields),
                    };
                    if self.may_get(of, namespace, "").await {
                        self.request(of, namespace, None, query).await
                    } else {
                        Loaded::Denied
                    }
                }
                Need::First { of, namespace } => {
                    // Without a version of 0, since some servers ignore the limit beside it.
                    let query = Query::default().with_text("limit", &PAGE.to_string());
                    if self.may_get(of, namespace, "").await {
                        self.request(of, namespace, None, query).await
                    } else {
                        Loaded::Denied
                    }
                }
                Need::Labelled { of, labels } => {
                    let query = Query::default().with_text("labelSelector", labels);
                    if self.may_get(of, "", "").await {
                        self.request(of, "", None, query).await
                    } else {
                        Loaded::Denied
                    }
                }
            }
        })
    }
}
