//! Where the reflector's bytes come from: the API server, or a script in tests.

use std::borrow::Cow;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_values::resource::ResourceType;

/// A watch: one frame per item. The reflector ends it at the first error.
pub(super) type Frames = BoxStream<'static, Result<Bytes, ApiError>>;

/// The two requests a reflector makes of one resource.
pub(super) trait ListWatch: Send + Sync + 'static {
    /// The body of one page.
    fn list<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Bytes, ApiError>>;
    /// Returns with the head of the answer; the frames follow.
    fn watch<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Frames, ApiError>>;
    /// Whether a watch may start with all objects, in place of a list.
    fn streams(&self) -> bool {
        true
    }
}

/// How much of each object is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// All objects of the resource, with all fields.
    Whole,
    /// Whole objects, only those in this namespace that this field selector matches.
    Selected(&'static str, Option<&'static str>),
    /// `PartialObjectMetadata`; a server that cannot cut objects down sends them whole, which reads
    /// the same.
    Metadata,
}

/// The API server's collection of one resource, over all namespaces or in one.
pub(super) struct Collection {
    client: ApiClient,
    resource: Cow<'static, ResourceType>,
    /// The field selector; empty for all objects.
    filter: Query,
    /// `None` for all namespaces, or for a resource without them.
    namespace: Option<&'static str>,
    streams: bool,
}

impl Collection {
    pub(super) fn new(
        client: ApiClient,
        resource: Cow<'static, ResourceType>,
        form: Form,
        streams: bool,
    ) -> Self {
        // Caches keep no managed fields.
        let client = client.without_managed_fields();
        let client = if form == Form::Metadata {
            client.metadata_only()
        } else {
            client
        };
        let (filter, namespace) = match form {
            Form::Selected(fields, namespace) => {
                // The selector is part of lists and watches, so both see the same objects.
                (Query::default().with("fieldSelector", fields), namespace)
            }
            Form::Whole | Form::Metadata => (Query::default(), None),
        };
        Self {
            client,
            resource,
            filter,
            namespace,
            streams,
        }
    }

    fn target(&self) -> Target<'_> {
        Target {
            resource: &self.resource,
            namespace: self.namespace,
            name: None,
            subresource: None,
        }
    }
}

impl ListWatch for Collection {
    fn list<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        let query = Query::from(query).and(&self.filter);
        Box::pin(async move { self.client.list(self.target(), &query).await })
    }

    fn watch<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Frames, ApiError>> {
        let query = Query::from(query).and(&self.filter);
        Box::pin(async move { self.client.watch(self.target(), &query).await })
    }

    fn streams(&self) -> bool {
        self.streams
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::StreamExt;
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use prometheus::Registry;

    use steersman_client::{ClientMetrics, ClientSettings};
    use steersman_objects::Node;
    use steersman_options::features::{FeatureGates, WATCH_LIST_CLIENT};
    use steersman_values::resource;

    use super::*;
    use crate::informer::InformerFactory;
    use crate::tasks::{CancellationToken, Tasks};

    /// A client that records path and media type of each request.
    fn recording(asked: &Arc<Mutex<Vec<String>>>) -> ApiClient {
        let log = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let accept = request.headers()["accept"]
                .to_str()
                .unwrap()
                .split(',')
                .next()
                .unwrap()
                .to_owned();
            log.lock().push(format!("{} {accept}", request.uri()));
            async { Ok::<_, std::io::Error>(Response::new(Body::from(b"one\ntwo\n".to_vec()))) }
        });
        let settings = ClientSettings {
            user_agent: "test".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(&Registry::new()).unwrap();
        ApiClient::new(kube::Client::new(service, "default"), settings, metrics)
    }

    #[tokio::test]
    async fn requests_go_to_the_collection_over_all_namespaces() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let client = recording(&asked);
        let source = Collection::new(
            client.clone(),
            Cow::Borrowed(&resource::REPLICA_SETS),
            Form::Whole,
            true,
        );

        assert_eq!(
            &source.list(&"limit=500".into()).await.unwrap()[..],
            b"one\ntwo\n"
        );
        let frames: Vec<_> = source
            .watch(&"resourceVersion=7".into())
            .await
            .unwrap()
            .map(|frame| frame.unwrap())
            .collect()
            .await;
        assert_eq!(frames, ["one", "two"]);
        let path = "/apis/apps/v1/replicasets";
        let list = format!("{path}?limit=500");
        let watch = format!("{path}?watch=true&resourceVersion=7");
        let json = "application/json;drop=metadata.managedFields";
        assert_eq!(
            *asked.lock(),
            [format!("{list} {json}"), format!("{watch} {json}")]
        );

        asked.lock().clear();
        let source = Collection::new(
            client.clone(),
            Cow::Borrowed(&resource::REPLICA_SETS),
            Form::Metadata,
            true,
        );
        source.list(&"limit=500".into()).await.unwrap();
        source
            .watch(&"resourceVersion=7".into())
            .await
            .map(drop)
            .unwrap();
        let partial = |kind: &str| {
            let form = format!("as=PartialObjectMetadata{kind};g=meta.k8s.io;v=v1");
            format!("application/json;{form};drop=metadata.managedFields")
        };
        assert_eq!(
            *asked.lock(),
            [
                format!("{list} {}", partial("List")),
                format!("{watch} {}", partial(""))
            ]
        );

        asked.lock().clear();
        let form = Form::Selected("type=example.com/a", None);
        let source = Collection::new(client, Cow::Borrowed(&resource::SECRETS), form, true);
        source.list(&"limit=500".into()).await.unwrap();
        source
            .watch(&"resourceVersion=7".into())
            .await
            .map(drop)
            .unwrap();
        let path = "/api/v1/secrets";
        let fields = "fieldSelector=type%3Dexample.com%2Fa";
        assert_eq!(
            *asked.lock(),
            [
                format!("{path}?limit=500&{fields} {json}"),
                format!("{path}?watch=true&resourceVersion=7&{fields} {json}")
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_decides_how_the_first_state_is_requested() {
        let streamed = "?watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true";
        for (is_on, expected) in [(true, streamed), (false, "?limit=500&resourceVersion=0")] {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let features = FeatureGates::new(|name| is_on || name != WATCH_LIST_CLIENT.name);
            let factory = InformerFactory::with_features(
                recording(&asked),
                Duration::ZERO,
                &Registry::new(),
                &features,
            );
            let factory = factory.unwrap();
            factory.shared::<Node>();
            let stop = CancellationToken::new();
            let tasks = Tasks::default();
            factory.start(&tasks, &stop);
            let first_request = async {
                while asked.lock().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), first_request)
                .await
                .unwrap();
            stop.cancel();
            let first = asked.lock()[0].clone();
            let expected = format!("/api/v1/nodes{expected}");
            assert!(first.starts_with(&expected), "{first}");
        }
    }

    #[tokio::test]
    async fn a_selection_is_requested_in_its_namespace() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = Collection::new(
            recording(&asked),
            Cow::Borrowed(&resource::CONFIG_MAPS),
            Form::Selected("metadata.name=a", Some("kube-public")),
            true,
        );
        source.list(&"limit=500".into()).await.unwrap();
        source
            .watch(&"resourceVersion=7".into())
            .await
            .map(drop)
            .unwrap();
        let path = "/api/v1/namespaces/kube-public/configmaps";
        let selector =
            "fieldSelector=metadata.name%3Da application/json;drop=metadata.managedFields";
        assert_eq!(
            *asked.lock(),
            [
                format!("{path}?limit=500&{selector}"),
                format!("{path}?watch=true&resourceVersion=7&{selector}"),
            ]
        );
    }
}
