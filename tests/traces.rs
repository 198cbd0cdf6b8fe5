//! Traces as a collector receives them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use steersman_devcluster::DevCluster;
use steersman_values::clock::Clock;
use tonic::{Request, Response, Status};

use crate::support::cluster::{deployment, wait_for_count};
use crate::support::free_port;
use crate::support::secured::Secured;

/// A collector that stores the spans it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Accepts connections until the test ends.
    fn listen(&self) -> SocketAddr {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(server.serve(address));
        address
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources
            .flat_map(|resource| &resource.scope_spans)
            .flat_map(|scope| scope.spans.clone())
            .collect()
    }

    fn services(&self) -> Vec<String> {
        let requests = self.0.lock();
        let resources = requests
            .iter()
            .flat_map(|request| &request.resource_spans)
            .filter_map(|spans| spans.resource.as_ref());
        let names = resources
            .flat_map(|resource| &resource.attributes)
            .filter(|attribute| attribute.key == "service.name");
        names
            .map(|name| text(name.value.as_ref().and_then(|value| value.value.as_ref())))
            .collect()
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let value =
        |value: &Option<AnyValue>| text(value.as_ref().and_then(|value| value.value.as_ref()));
    span.attributes
        .iter()
        .map(|attribute| (attribute.key.clone(), value(&attribute.value)))
        .collect()
}

/// Runs a manager with these flags through the rollout of a Deployment, up to its end.
async fn roll_out(flags: &[&str]) {
    let secured = Secured::start(DevCluster::new(Clock::system()), flags).await;
    secured.cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(&secured.cluster, "pods", 2).await;
    let Secured {
        mut program,
        home: _home,
        ..
    } = secured;
    program.signal("TERM");
    assert_eq!(
        tokio::task::spawn_blocking(move || program.end())
            .await
            .unwrap(),
        Some(0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_receives_a_span_per_sync_with_child_spans_of_its_writes() {
    let collector = Collector::default();
    let address = collector.listen();
    roll_out(&[&format!("--tracing-endpoint={address}")]).await;
    assert!(
        collector
            .services()
            .iter()
            .all(|name| name == "kube-controller-manager"),
        "{:?}",
        collector.services()
    );
    let spans = collector.spans();
    let creation = spans
        .iter()
        .find(|span| span.name == "POST replicasets")
        .unwrap_or_else(|| panic!("{spans:#?}"));
    let said = attributes(creation);
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.response.status_code", "201"),
        ("url.path", "/apis/apps/v1/namespaces/default/replicasets"),
    ] {
        assert_eq!(
            said.get(key).map(String::as_str),
            Some(value),
            "{key} in {said:?}"
        );
    }
    let sync = spans
        .iter()
        .find(|span| span.span_id == creation.parent_span_id)
        .unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(
        (sync.name.as_str(), &sync.trace_id),
        ("sync", &creation.trace_id)
    );
    assert!(sync.parent_span_id.is_empty(), "a sync starts a trace");
    let said = attributes(sync);
    assert_eq!(
        said.get("controller").map(String::as_str),
        Some("deployment-controller"),
        "{said:?}"
    );
    assert_eq!(
        said.get("key").map(String::as_str),
        Some("default/web"),
        "{said:?}"
    );
    let pods = spans.iter().filter(|span| span.name == "POST pods");
    assert_eq!(pods.count(), 2, "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsampled_spans_are_not_sent_and_an_unreachable_collector_does_no_harm() {
    let collector = Collector::default();
    let address = collector.listen();
    roll_out(&[
        &format!("--tracing-endpoint={address}"),
        "--tracing-sampling-rate-per-million=0",
    ])
    .await;
    assert_eq!(collector.spans(), []);
    roll_out(&[&format!("--tracing-endpoint=127.0.0.1:{}", free_port())]).await;
}
