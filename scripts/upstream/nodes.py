"""Cases of nodes: their taints, their address ranges, and the pods on them."""

from world import Refused, now, pod

CASES = {}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def case(name):
    return lambda run: CASES.setdefault(name, run)


@case("taint-eviction-refused-once")
def refused_once(world):
    space = world.namespace()
    node = world.node("a")
    # The taint eviction controller uses an index of pods that the node lifecycle controller adds.
    world.start_manager("taint-eviction-controller,node-lifecycle-controller", "--node-monitor-grace-period=600s")
    world.create(f"{space}/pods", pod("web", "a"))
    world.run(f"{space}/pods/web")
    lift = world.refuse("no-deletion", [""], ["pods"], ["DELETE"], "false")
    world.until("refusals", 30, lambda: is_refused(world, f"{space}/pods/web"))
    world.patch(node, {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
    world.until("an eviction", 30, lambda: world.all(f"{space}/events?fieldSelector=reason=TaintManagerEviction"))
    lift()
    evicted = world.within(90, lambda: deleted(world.get(f"{space}/pods/web")))
    return not evicted, f"a pod without a toleration, 90 s after its deletion was refused for a moment: {'evicted' if evicted else 'still runs'}"


def is_refused(world, path):
    try:
        world.ask("DELETE", f"{path}?dryRun=All")
    except Refused:
        return True
    return False


def deleted(found):
    return found is None or "deletionTimestamp" in found["metadata"]


@case("node-lifecycle-taints-at-a-restart")
def taints_at_a_restart(world):
    node = world.node("a", ready="False")
    world.node("b")
    world.until("the namespace of Leases", 30, lambda: world.get("/api/v1/namespaces/kube-node-lease"))
    world.create(LEASES, {"metadata": {"name": "b"}, "spec": {"holderIdentity": "b"}})
    flags = ["--node-monitor-grace-period=600s"]
    world.start_manager("node-lifecycle-controller", *flags)

    def taint():
        """The time of the taint, after a sign of life of the other node."""
        world.patch(f"{LEASES}/b", {"spec": {"renewTime": now().replace("Z", ".000000Z")}})
        return added(world.get(node))

    first = world.until("a taint", 90, taint)
    world.pause(5)
    world.kill_manager()
    world.start_manager("node-lifecycle-controller", *flags)
    world.within(45, lambda: taint() not in (None, first))
    last = world.within(30, taint)
    return last != first, f"time of the NoExecute taint before and after a restart of the manager: {first}, {last}"


@case("node-lifecycle-rate-of-one")
def rate_of_one(world):
    for name in ("a", "b", "c"):
        world.node(name, ready="False")
    world.start_manager("node-lifecycle-controller", "--node-monitor-grace-period=600s", "--node-eviction-rate=1")
    events = "/api/v1/events?fieldSelector=reason=RegisteredNode"
    world.until("the manager has seen the nodes", 60, lambda: len(world.all(events)) == 3)
    world.pause(10)
    # One node recovers, which ends the stop of all evictions.
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}]
    world.patch("/api/v1/nodes/b/status", {"status": {"conditions": ready}}, "strategic")
    world.until("the namespace of Leases", 30, lambda: world.get("/api/v1/namespaces/kube-node-lease"))
    world.create(LEASES, {"metadata": {"name": "b"}, "spec": {"holderIdentity": "b"}})

    def tainted():
        world.patch(f"{LEASES}/b", {"spec": {"renewTime": now().replace("Z", ".000000Z")}})
        return [name for name in ("a", "c") if added(world.get(f"/api/v1/nodes/{name}"))]

    world.within(90, lambda: len(tainted()) == 2)
    return len(tainted()) < 2, f"lost nodes with a NoExecute taint, of a and c, 90 s after b is ready again: {tainted()}"


def added(node):
    """The time of the NoExecute taint of a node that is not ready."""
    taints = [taint for taint in node["spec"].get("taints", []) if taint["effect"] == "NoExecute"]
    return taints[0]["timeAdded"] if taints else None
