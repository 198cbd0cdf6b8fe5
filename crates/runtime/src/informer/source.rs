//! Where the reflector's bytes come from: the API server, or a script in tests.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::client::{ApiClient, ApiError, Target};
use crate::resource::ResourceType;

/// A watch: one frame per item.
pub(super) type Frames = BoxStream<'static, Result<Bytes, ApiError>>;

/// The two requests a reflector makes of one resource.
pub(super) trait ListWatch: Send + Sync + 'static {
    fn list<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>>;
    fn watch<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Frames, ApiError>>;
}

/// The API server's collection of one resource, over all namespaces.
pub(super) struct Collection {
    pub(super) client: ApiClient,
    pub(super) resource: &'static ResourceType,
}

impl Collection {
    fn target(&self) -> Target<'_> {
        Target { resource: self.resource, namespace: None, name: None, subresource: None }
    }
}

impl ListWatch for Collection {
    fn list<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        Box::pin(self.client.list(self.target(), query))
    }

    fn watch<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Result<Frames, ApiError>> {
        Box::pin(self.client.watch(self.target(), query))
    }
}
