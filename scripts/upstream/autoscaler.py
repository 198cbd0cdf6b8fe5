"""A case of horizontal pod autoscalers, with a metrics API behind the API server."""

import http.server
import json
import socket
import ssl
import subprocess
import threading

from workloads import workload

CASES = {}
GROUP = "external.metrics.k8s.io"
VERSION = f"/apis/{GROUP}/v1beta1"


def case(name):
    return lambda run: CASES.setdefault(name, run)


class Metrics(http.server.BaseHTTPRequestHandler):
    """Serves one external metric with the value 50."""

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == VERSION:
            resource = {"name": "queue", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1", "resources": [resource]}
        elif path == f"{VERSION}/namespaces/shop/queue":
            item = {"metricName": "queue", "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": "50"}
            body = {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": [item]}
        else:
            return self.send_error(404)
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """The log of the case stays short."""


def own_address():
    """An address of this machine that is not the loopback one, which no endpoint may have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


def serve_metrics(world):
    key, certificate = world.folder / "metrics.key", world.folder / "metrics.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
                    "-subj", "/CN=metrics"], check=True, stderr=subprocess.DEVNULL)
    server = http.server.ThreadingHTTPServer((own_address(), 0), Metrics)
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address, port = server.server_address
    world.create("/api/v1/namespaces/shop/services", {"metadata": {"name": "metrics"}, "spec": {"ports": [{"port": 443, "targetPort": port}]}})
    world.create("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", {
        "metadata": {"name": "metrics", "labels": {"kubernetes.io/service-name": "metrics"}}, "addressType": "IPv4",
        "ports": [{"name": "", "port": port}], "endpoints": [{"addresses": [address], "conditions": {"ready": True}}]})
    world.create("/apis/apiregistration.k8s.io/v1/apiservices", {"metadata": {"name": f"v1beta1.{GROUP}"}, "spec": {
        "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
        "service": {"namespace": "shop", "name": "metrics", "port": 443}}})
    world.until("the metric is served", 60, lambda: world.ask("GET", f"{VERSION}/namespaces/shop/queue", raw=True))


@case("autoscaler-within-the-tolerance")
def within_the_tolerance(world):
    world.namespace()
    serve_metrics(world)
    apps = "/apis/apps/v1/namespaces/shop/deployments"
    world.create(apps, workload("Deployment", "web", replicas=4))
    # A rollout is under way, with one pod of surge.
    world.patch(f"{apps}/web/status", {"status": {"replicas": 5, "readyReplicas": 5, "availableReplicas": 4, "observedGeneration": 1}})
    scalers = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
    metric = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}
    world.create(scalers, {"metadata": {"name": "web"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 20, "metrics": [metric]}})
    world.start_manager("horizontal-pod-autoscaler-controller", "--horizontal-pod-autoscaler-sync-period=2s")
    world.until("the autoscaler has read the metric", 60, lambda: world.get(f"{scalers}/web").get("status", {}).get("currentMetrics"))
    size = world.within(15, lambda: (found := world.get(f"{apps}/web")["spec"]["replicas"]) != 4 and found) or 4
    return size != 4, f"spec.replicas was 4, with 5 pods during a rollout and a load of 10 for each of the 5; now it is {size}"
