//! `--tracing-endpoint`: exports traces with OTLP over gRPC. Each sync is a span, with a child span
//! for each write.
//!
//! `tracing` spans -> spans of syncs and writes only -> sampler -> batches -> collector
//!
//! Spans cost nearly nothing while this flag is unset, because they have no subscriber then.
//! Upstream: `k8s.io/component-base/tracing`.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use steersman_runtime::workers;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::command_line::Options;
use crate::version;

/// Value of `--tracing-sampling-rate-per-million` that samples every trace.
pub(crate) const ALL: i64 = 1_000_000;
/// Time limit for exporting the remaining spans when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// The exporter of spans.
pub struct Spans {
    provider: SdkTracerProvider,
}

impl Spans {
    /// An exporter as the flags ask; `None` without a valid endpoint. Sends nothing yet. Must be
    /// called inside a Tokio runtime.
    pub(crate) fn from_options(
        options: &Options,
    ) -> Result<Option<Self>, opentelemetry_otlp::ExporterBuildError> {
        let Ok(Some(endpoint)) = endpoint(&options.text("tracing-endpoint")) else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()?;
        let rate = options.int("tracing-sampling-rate-per-million") as f64 / ALL as f64;
        let resource = Resource::builder()
            .with_service_name(version::COMPONENT)
            .with_attribute(KeyValue::new("service.version", version::STEERSMAN))
            .build();
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(rate)));
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_resource(resource)
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// A layer that receives spans of syncs and writes, independent of the log level.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("steersman"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_target(false);
        layer.with_filter(
            Targets::new()
                .with_target(workers::SPANS, LevelFilter::INFO)
                .with_target(steersman_client::SPANS, LevelFilter::INFO),
        )
    }

    /// Exports the remaining spans. Blocks for at most two seconds.
    pub(crate) fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "some spans were not sent");
        }
    }
}

/// The collector's URL in `--tracing-endpoint`: `host:port` as upstream, or a URL with `http://`.
/// `None` if the flag is empty.
pub(crate) fn endpoint(text: &str) -> Result<Option<String>, ()> {
    if text.is_empty() {
        return Ok(None);
    }
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: http::Uri = url.parse().map_err(drop)?;
    let is_good = uri.scheme_str() == Some("http") && uri.port_u16().is_some();
    if is_good { Ok(Some(url)) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_host_and_port_or_a_url() {
        for (text, url) in [
            ("", Ok(None)),
            ("localhost:4317", Ok(Some("http://localhost:4317"))),
            ("[::1]:4317", Ok(Some("http://[::1]:4317"))),
            ("http://collector:4317", Ok(Some("http://collector:4317"))),
            ("collector", Err(())),
            ("https://collector:4317", Err(())),
            ("a b:1", Err(())),
        ] {
            assert_eq!(
                endpoint(text),
                url.map(|url| url.map(str::to_owned)),
                "{text:?}"
            );
        }
    }
}
