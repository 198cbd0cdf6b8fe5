"""Cases of the garbage collectors and of the endpoints of Services."""

import concurrent.futures

from world import pod

CASES = {}
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


def case(name):
    return lambda run: CASES.setdefault(name, run)


@case("garbage-collector-retired-version")
def retired_version(world):
    space = world.namespace()
    kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v1beta1")]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    world.create(kinds, {"metadata": {"name": "widgets.example.org"}, "spec": {
        "group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}})
    widgets = "/apis/example.org/v1/namespaces/shop/widgets"
    world.until("the kind is served", 30, lambda: world.get(widgets))
    widget = world.create(widgets, {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}})

    def owned(name, *owners):
        references = [{"apiVersion": version, "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
                      for version, kind, owner in owners]
        return world.create(f"{space}/configmaps", {"metadata": {"name": name, "ownerReferences": references}})

    world.start_manager("garbage-collector-controller")
    first, second = owned("first"), owned("second")
    owned("probe", ("v1", "ConfigMap", first))
    owned("child", ("example.org/v1beta1", "Widget", widget), ("v1", "ConfigMap", second))
    world.delete(f"{space}/configmaps/first")
    world.until("the garbage collector works", 60, lambda: world.get(f"{space}/configmaps/probe") is None)
    versions[1]["served"] = False
    world.patch(f"{kinds}/widgets.example.org", {"spec": {"versions": versions}})
    world.until("the old version is not served", 30, lambda: world.get(widgets.replace("/v1/", "/v1beta1/")) is None)
    world.delete(f"{space}/configmaps/second")
    gone = world.within(45, lambda: world.get(f"{space}/configmaps/child") is None)
    there = world.get(f"{widgets}/w") is not None
    return gone and there, f"the ConfigMap is {'gone' if gone else 'there'}, and the Widget that owns it is {'there' if there else 'gone'}"


@case("podgc-terminating-pods")
def terminating_pods(world):
    space = world.namespace()
    for name in ("done-0", "done-1", "done-2", "stuck-0", "stuck-1"):
        created = pod(name)
        if name.startswith("stuck"):
            # Another component keeps the pod, for example to read its result.
            created["metadata"]["finalizers"] = ["example.org/result"]
        world.create(f"{space}/pods", created)
        world.run(f"{space}/pods/{name}", ready=False, phase="Succeeded")
    for name in ("stuck-0", "stuck-1"):
        world.delete(f"{space}/pods/{name}")
    world.start_manager("pod-garbage-collector-controller", "--terminated-pod-gc-threshold=3")

    def done():
        return sum("deletionTimestamp" not in one["metadata"] for one in world.all(f"{space}/pods"))

    world.within(50, lambda: done() < 3)
    return done() < 3, f"finished pods that stay with a threshold of 3, beside two that are deleted already: {done()}"


def service(world, **spec):
    world.create("/api/v1/namespaces/shop/services", {
        "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}})


def slices(world, of="web"):
    return world.all(f"{SLICES}?labelSelector=kubernetes.io/service-name={of}")


def addresses(world):
    return [address for one in slices(world) for endpoint in one["endpoints"] or [] for address in endpoint["addresses"]]


@case("endpointslice-finished-pod")
def finished_pod(world):
    space = world.namespace()
    world.start_manager("endpointslice-controller")
    service(world, publishNotReadyAddresses=True)
    world.create(f"{space}/pods", pod("web", "a", {"app": "web"}, restartPolicy="Never"))
    world.run(f"{space}/pods/web", ready=False)
    world.until("the slice has the pod", 30, lambda: addresses(world))
    world.pause(5)
    world.run(f"{space}/pods/web", ready=False, phase="Failed")
    world.within(60, lambda: not addresses(world))
    return bool(addresses(world)), f"endpoints of the Service a minute after its only pod has failed: {addresses(world)}"


@case("endpointslice-relabelled")
def relabelled(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("endpointslice-controller")
    service(world)
    world.create(f"{space}/pods", pod("web", "a", {"app": "web"}))
    world.run(f"{space}/pods/web")
    world.until("the slice has the pod", 30, lambda: addresses(world))
    lost = slices(world)[0]["metadata"]["name"]
    world.patch(f"{SLICES}/{lost}", {"metadata": {"labels": {"kubernetes.io/service-name": "other"}}})
    world.within(30, lambda: addresses(world))
    # Even a new pod gets no endpoint.
    world.create(f"{space}/pods", pod("late", "a", {"app": "web"}))
    world.run(f"{space}/pods/late", ip="10.1.0.2")
    world.within(30, lambda: "10.1.0.2" in addresses(world))
    return not addresses(world), f"endpoints of the Service with two ready pods, a minute after its slice got the label of another: {addresses(world)}"


@case("endpoints-beyond-the-limit")
def beyond_the_limit(world):
    space = world.namespace()
    service(world, ports=[{"port": 80, "targetPort": "web"}])

    def run(at):
        created = pod(f"web-{at}", "a", {"app": "web"})
        created["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 80 if at else 81}]
        world.create(f"{space}/pods", created)
        world.run(f"{space}/pods/web-{at}", ip=f"10.1.{at // 250}.{at % 250 + 1}")

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(1002)))
    world.start_manager("endpoints-controller")
    world.within(60, lambda: world.get(f"{space}/endpoints/web"))
    found = world.get(f"{space}/endpoints/web") or {}
    count = sum(len(subset.get("addresses", [])) for subset in found.get("subsets", []))
    return count == 0, f"addresses in the Endpoints of a Service with 1002 ready pods: {count}"
