//! Documents of the server itself: health, version, metrics, discovery, OpenAPI and token issuer.

use http::Response;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HOST, HeaderValue, IF_NONE_MATCH, VARY};
use http::request::Parts;
use serde_json::Value;

use super::accept::{Form, View, Views};
use super::query::Query;
use super::{Body, Server, discovery, header, health, respond, text};
use crate::metrics;
use crate::openapi;
use crate::route::Route;
use crate::status::Status;

impl Server {
    /// The index of OpenAPI version 3, with the documents of other programs.
    fn openapi_index(&self) -> Value {
        let mut index = openapi::index(&self.registry);
        self.add_remote_documents(&mut index);
        index
    }

    /// The metrics, in the text format.
    fn metrics_page(&self) -> Result<Response<Body>, Status> {
        let stored = self.registry.stored();
        let counts = stored
            .iter()
            .map(|entry| (&entry.resource, entry.store.len()));
        let text = self.metrics.text(counts);
        let text = text.map_err(|error| Status::internal(error.to_string()))?;
        Ok(respond(200, metrics::MEDIA_TYPE, Body::whole(text)))
    }

    /// Answers requests without objects: health, version, discovery, OpenAPI and token issuer.
    pub(super) fn server_document(
        &self,
        route: &Route,
        parts: &Parts,
        query: &Query,
    ) -> Result<Response<Body>, Status> {
        match route {
            Route::Health { probe, check } => Ok(health::answer(probe, check.as_deref(), query)
                .unwrap_or_else(|| text(404, "404 page not found\n"))),
            Route::Root => Ok(respond(
                200,
                "application/json",
                Body::whole(self.paths().to_string()),
            )),
            Route::Issuer => {
                let host = parts
                    .uri
                    .authority()
                    .map_or_else(|| header(parts, &HOST), |authority| authority.as_str());
                Ok(respond(
                    200,
                    "application/json",
                    Body::whole(self.users.issuer(host).to_string()),
                ))
            }
            Route::KeySet => Ok(respond(
                200,
                "application/jwk-set+json",
                Body::whole(self.users.key_set().to_string()),
            )),
            Route::MetricValues(path) => self.metric_values(path, query),
            Route::Metrics => self.metrics_page(),
            Route::Version => Ok(respond(
                200,
                "application/json",
                Body::whole(discovery::version(self.release()).to_string()),
            )),
            Route::OpenApiV2 => Ok(self.older_openapi(parts)),
            Route::OpenApi(path) if path.is_empty() => Ok(respond(
                200,
                "application/json",
                Body::whole(self.openapi_index().to_string()),
            )),
            Route::OpenApi(path) => self.openapi(path, parts, query),
            _ => {
                let accept = header(parts, &ACCEPT);
                // Lists of groups have their own negotiation, without the check of media ranges.
                let form = match route {
                    Route::Groups | Route::Group(_) => {
                        Form::negotiate_unversioned(accept, Views::Document)
                    }
                    _ => Form::negotiate(accept, Views::Document),
                }?;
                let aggregated = form.view == View::Discovery;
                let document = self.discovery(route, aggregated)?.to_string();
                let tag = format!("\"{:X}\"", discovery::fingerprint(document.as_bytes()));
                let unchanged = header(parts, &IF_NONE_MATCH) == tag;
                let kind = if aggregated {
                    discovery::AGGREGATED
                } else {
                    "application/json"
                };
                let mut response = if aggregated && unchanged {
                    respond(304, kind, Body::Whole(None))
                } else {
                    respond(200, kind, Body::whole(document))
                };
                if aggregated {
                    let headers = response.headers_mut();
                    headers.insert(
                        ETAG,
                        HeaderValue::try_from(tag).expect("a quoted number is a header value"),
                    );
                    headers.insert(VARY, HeaderValue::from_static("Accept"));
                    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                }
                Ok(response)
            }
        }
    }
}
