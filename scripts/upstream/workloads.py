"""Cases of Deployments, DaemonSets, Jobs, budgets and autoscalers."""

from world import Refused, path_of, pod

CASES = {}
APPS = "/apis/apps/v1"


def case(name):
    return lambda run: CASES.setdefault(name, run)


def workload(kind, name, **spec):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("m")["spec"]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


def run_all(world, space, count, app):
    """Marks the pods of a workload as ready, as soon as there are so many."""
    found = world.until(f"{count} pods", 30, lambda: at_least(world.all(f"{space}/pods?labelSelector=app={app}"), count))
    for one in found:
        world.run(path_of(one))
    return found


def at_least(items, count):
    return items if len(items) >= count else None


@case("deployment-scaled-while-stuck")
def scaled_while_stuck(world):
    space = world.namespace()
    apps = f"{APPS}/namespaces/shop"
    world.start_manager("deployment-controller,replicaset-controller")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    world.create(f"{apps}/deployments", workload("Deployment", "web", replicas=3, strategy=strategy))
    run_all(world, space, 3, "web")
    web = f"{apps}/deployments/web"
    world.until("three available pods", 30, lambda: world.get(web)["status"].get("availableReplicas") == 3)
    lift = world.refuse("no-growth", ["apps"], ["replicasets"], ["UPDATE"], "object.spec.replicas <= oldObject.spec.replicas")
    template = {"metadata": {"annotations": {"version": "2"}}}
    # The policy takes effect a little later than its creation.
    world.until("refusals", 30, lambda: is_refused(world, apps))
    world.patch(web, {"spec": {"template": template}})

    def sizes():
        sets = world.all(f"{apps}/replicasets")
        return sorted(one["spec"]["replicas"] for one in sets)

    world.until("the old set has 2 pods, the new one none", 30, lambda: sizes() == [0, 2])
    world.patch(web, {"spec": {"replicas": 2}})
    world.until("the new size is seen", 30, lambda: observed(world.get(web)))
    lift()
    # Any event of the Deployment starts a sync.
    for round in range(6):
        world.within(10, lambda: sizes() != [0, 2])
        world.patch(web, {"metadata": {"annotations": {"round": str(round)}}})
        if sizes() != [0, 2]:
            break
    return sizes() == [0, 2], f"sizes of the old and new ReplicaSet after nothing is refused any more: {sizes()}"


def is_refused(world, apps):
    """Whether a resize is refused by now; a dry run changes nothing."""
    found = world.all(f"{apps}/replicasets")[0]
    try:
        world.patch(f"{apps}/replicasets/{found['metadata']['name']}?dryRun=All", {"spec": {"replicas": 99}})
    except Refused:
        return True
    return False


def observed(found):
    return found["status"].get("observedGeneration") == found["metadata"]["generation"]


@case("daemonset-misscheduled")
def misscheduled(world):
    space = world.namespace()
    node = world.node("a")
    world.start_manager("daemonset-controller")
    world.create(f"{APPS}/namespaces/shop/daemonsets", workload("DaemonSet", "agent"))
    run_all(world, space, 1, "agent")
    agent = f"{APPS}/namespaces/shop/daemonsets/agent"
    # The simulated scheduler binds the pod.
    world.bind(path_of(world.all(f"{space}/pods")[0]), "a")
    world.until("one ready pod", 30, lambda: world.get(agent)["status"].get("numberReady") == 1)
    world.patch(node, {"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}})
    status = world.within(30, lambda: misplaced(world.get(agent))) or world.get(agent)["status"]
    return status["numberMisscheduled"] == 0, (
        f"30 s after the taint: desiredNumberScheduled {status['desiredNumberScheduled']}, numberMisscheduled {status['numberMisscheduled']}")


def misplaced(found):
    return found["status"] if found["status"]["numberMisscheduled"] else None


@case("daemonset-surge-of-failed-pods")
def surge_of_failed_pods(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("daemonset-controller")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world.create(f"{APPS}/namespaces/shop/daemonsets", workload("DaemonSet", "agent", updateStrategy=strategy))
    most = 0

    def fail():
        nonlocal most
        found = world.all(f"{space}/pods")
        most = max(most, len(found))
        # The kubelet refuses each pod, for example because a resource is missing.
        for one in found:
            if one["status"]["phase"] == "Pending":
                world.patch(f"{path_of(one)}/status", {"status": {"phase": "Failed", "reason": "OutOfcpu"}})
        return most > 40

    world.within(30, fail)
    return most > 3, f"pods of one DaemonSet on one node, all failed: up to {most} at once"


@case("job-status-during-back-off")
def status_during_back_off(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("job-controller")
    template = {"spec": {"restartPolicy": "Never", **pod("m")["spec"]}}
    world.create("/apis/batch/v1/namespaces/shop/jobs", {
        "metadata": {"name": "sum"}, "spec": {"completions": 2, "parallelism": 2, "backoffLimit": 6, "template": template}})
    found = world.until("two pods", 30, lambda: at_least(world.all(f"{space}/pods"), 2))
    for at, one in enumerate(found):
        world.bind(path_of(one), "a")
        world.run(path_of(one), ip=f"10.1.0.{at + 1}")
    job = "/apis/batch/v1/namespaces/shop/jobs/sum"
    world.until("two ready pods", 30, lambda: world.get(job)["status"].get("ready") == 2)
    world.run(path_of(found[0]), ready=False, phase="Failed")
    # The back-off after the first failure is ten seconds.
    failed = world.within(7, lambda: world.get(job)["status"].get("failed"))
    status = world.get(job)["status"]
    return not failed, f"7 s after the failure of a pod: failed {status.get('failed', 0)}, active {status.get('active', 0)}, ready {status['ready']}"


@case("job-loses-a-success")
def loses_a_success(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("job-controller")
    template = {"spec": {"restartPolicy": "Never", **pod("m")["spec"]}}
    jobs = "/apis/batch/v1/namespaces/shop/jobs"
    world.create(jobs, {"metadata": {"name": "sum"}, "spec": {"completions": 4, "parallelism": 4, "template": template}})
    found = world.until("four pods", 30, lambda: at_least(world.all(f"{space}/pods"), 4))
    for at, one in enumerate(found):
        world.bind(path_of(one), "a")
        world.run(path_of(one), ip=f"10.1.0.{at + 1}")
    job = f"{jobs}/sum"
    world.until("four ready pods", 30, lambda: world.get(job)["status"].get("ready") == 4)
    lift = world.refuse("no-deletion", [""], ["pods"], ["DELETE"], "false")
    world.until("refusals", 30, lambda: deletion_is_refused(world, path_of(found[0])))
    world.patch(job, {"spec": {"parallelism": 2}})

    def untracked():
        return [one for one in world.all(f"{space}/pods") if not one["metadata"].get("finalizers")]

    world.until("two pods without the finalizer", 30, lambda: at_least(untracked(), 2))
    world.patch(job, {"spec": {"parallelism": 4}})
    lift()
    world.until("the size is seen", 30, lambda: world.get(job)["status"].get("active") == 4)
    # A manager may give the finalizers back.
    world.within(15, lambda: not untracked())
    for one in found:
        world.run(path_of(one), ready=False, phase="Succeeded")
    world.within(15, lambda: world.get(job)["status"].get("succeeded") == 4)
    status = world.get(job)["status"]
    succeeded, made = status.get("succeeded", 0), len(world.all(f"{space}/pods"))
    return succeeded < 4, f"15 s after the success of 4 of 4 pods: succeeded {succeeded}, pods {made}"


def deletion_is_refused(world, path):
    """Whether a deletion is refused by now; a dry run changes nothing."""
    try:
        world.delete(path, dryRun=["All"])
    except Refused:
        return True
    return False


@case("namespace-with-an-indexed-job")
def namespace_with_an_indexed_job(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("job-controller,namespace-controller,garbage-collector-controller")
    template = {"spec": {"restartPolicy": "Never", **pod("m")["spec"]}}
    world.create("/apis/batch/v1/namespaces/shop/jobs", {"metadata": {"name": "sum"}, "spec": {
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "template": template}})
    found = world.until("two pods", 30, lambda: at_least(world.all(f"{space}/pods"), 2))
    for at, one in enumerate(found):
        world.bind(path_of(one), "a")
        world.run(path_of(one), ip=f"10.1.0.{at + 1}")
    world.delete(space)
    world.until("both pods are deleted", 60, lambda: all("deletionTimestamp" in one["metadata"] for one in world.all(f"{space}/pods")))
    for one in found:
        # The kubelet ends the containers, and confirms the deletion.
        world.run(path_of(one), ready=False, phase="Failed")
        world.delete(path_of(one), gracePeriodSeconds=0)
    # Without pods the namespace goes with the next try, which may come a minute later.
    world.within(90, lambda: world.get(space) is None or not world.all(f"{space}/pods"))
    left = world.all(f"{space}/pods") if world.get(space) else []
    kept = [one["metadata"].get("finalizers") for one in left]
    return bool(left), f"90 s after the deletion of the namespace: {len(left)} pods with the finalizers {kept}"


@case("budget-of-a-relabelled-pod")
def budget_of_a_relabelled_pod(world):
    space = world.namespace()
    world.start_manager("disruption-controller")
    for at in range(3):
        world.create(f"{space}/pods", pod(f"web-{at}", labels={"app": "web"}))
        world.run(f"{space}/pods/web-{at}", ip=f"10.1.0.{at + 1}")
    budgets = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
    world.create(budgets, {"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}})
    world.until("one disruption is allowed", 30, lambda: world.get(f"{budgets}/web").get("status", {}).get("disruptionsAllowed") == 1)
    world.patch(f"{space}/pods/web-2", {"metadata": {"labels": {"app": "debug"}}})
    world.within(30, lambda: world.get(f"{budgets}/web")["status"]["disruptionsAllowed"] == 0)
    status = world.get(f"{budgets}/web")["status"]
    try:
        world.create(f"{space}/pods/web-0/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}})
        answer = "accepted"
    except Refused as refused:
        answer = f"refused with {refused.code}"
    left = len(world.all(f"{space}/pods?labelSelector=app=web"))
    return left < 2, (f"30 s after a pod left the budget of two: currentHealthy {status['currentHealthy']}; "
                      f"an eviction is {answer}, and {left} pods are left")


@case("statefulset-waits-for-a-claim")
def waits_for_a_claim(world):
    space = world.namespace()
    world.node("a")
    world.start_manager("statefulset-controller,garbage-collector-controller")
    claim = {"metadata": {"name": "data", "finalizers": ["example.org/backup"]},
             "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    world.create(f"{APPS}/namespaces/shop/statefulsets", workload(
        "StatefulSet", "db", replicas=2, serviceName="db", podManagementPolicy="Parallel", volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Retain"}))
    run_all(world, space, 2, "db")
    db, last, data = f"{APPS}/namespaces/shop/statefulsets/db", f"{space}/pods/db-1", f"{space}/persistentvolumeclaims/data-db-1"
    world.until("two ready pods", 30, lambda: world.get(db)["status"].get("readyReplicas") == 2)
    world.patch(db, {"spec": {"replicas": 1}})
    world.until("the second pod is gone", 60, lambda: world.get(last) is None)
    world.until("its claim is being deleted", 60, lambda: "deletionTimestamp" in world.get(data)["metadata"])
    world.patch(db, {"spec": {"replicas": 2}})
    world.until("the new size is seen", 30, lambda: observed(world.get(db)))
    world.pause(5)
    world.patch(data, {"metadata": {"finalizers": None}})
    world.until("the claim is gone", 30, lambda: world.get(data) is None or "deletionTimestamp" not in world.get(data)["metadata"])
    found = world.within(90, lambda: world.get(last))
    return not found, f"the second pod, 90 s after its former claim is gone: {'there' if found else 'absent'}"


@case("deployment-below-its-minimum")
def below_its_minimum(world):
    """Sizes that a rollout has after a rollback, with the status of one ReplicaSet behind its last resize."""
    space = world.namespace()
    apps = f"{APPS}/namespaces/shop"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}
    web = world.create(f"{apps}/deployments", workload("Deployment", "web", replicas=6, strategy=strategy))
    # (hash of the template, size, pods in the status, available pods)
    for revision, (name, size, reported, available) in enumerate([("one", 4, 4, 2), ("two", 2, 5, 4)], 1):
        labels = {"app": "web", "pod-template-hash": name}
        template = {"metadata": {"labels": labels, "annotations": {"version": name}}, "spec": pod("m")["spec"]}
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": web["metadata"]["uid"], "controller": True}
        annotations = {"deployment.kubernetes.io/revision": str(revision), "deployment.kubernetes.io/desired-replicas": "6",
                       "deployment.kubernetes.io/max-replicas": "6"}
        world.create(f"{apps}/replicasets", {
            "metadata": {"name": f"web-{name}", "labels": labels, "ownerReferences": [owner], "annotations": annotations},
            "spec": {"replicas": size, "selector": {"matchLabels": labels}, "template": template}})
        world.patch(f"{apps}/replicasets/web-{name}/status", {"status": {
            "replicas": reported, "readyReplicas": available, "availableReplicas": available, "observedGeneration": 0}})
    before = {"one": 4, "two": 2}
    world.start_manager("deployment-controller")

    def sizes():
        return {one["metadata"]["labels"]["pod-template-hash"]: one["spec"]["replicas"] for one in world.all(f"{apps}/replicasets")}

    world.until("a ReplicaSet of the template", 30, lambda: len(sizes()) == 3)
    world.within(10, lambda: sum(sizes().get(name, 0) for name in before) < 4)
    old = {name: sizes()[name] for name in before}
    total = sum(old.values())
    return total < 4, f"sizes of the old ReplicaSets with 6 replicas and maxUnavailable 2: {old}, {total} in all"


@case("replicaset-deletes-a-namesake")
def namesake(world):
    space = world.namespace()
    sets = "/apis/apps/v1/namespaces/shop/replicasets"
    # The limit of requests makes the deletion of 100 pods last ten seconds, as upstream's default does with 200.
    world.start_manager("replicaset-controller", "--kube-api-qps=10", "--kube-api-burst=10")
    web = {"app": "web"}

    def count():
        return len(world.all(f"{space}/pods?labelSelector=app=web"))

    # The deletions have no order, so the pod with the name may be among the first.
    for at in range(4):
        name = f"one-{at}"
        world.create(f"{space}/pods", pod(name, labels=web))
        world.create(sets, {"metadata": {"name": "web"}, "spec": {
            "replicas": 100, "selector": {"matchLabels": web}, "template": {"metadata": {"labels": web}, "spec": pod("x")["spec"]}}})
        world.until("the ReplicaSet has 100 pods", 90, lambda: world.get(f"{sets}/web")["status"].get("replicas") == 100)
        world.patch(f"{sets}/web", {"spec": {"replicas": 0}})
        world.until("the deletion is under way", 30, lambda: count() < 95)
        other = None
        if world.get(f"{space}/pods/{name}") is not None:
            world.delete(f"{space}/pods/{name}", gracePeriodSeconds=0)
            other = world.create(f"{space}/pods", pod(name, labels={"app": "other"}))
        world.until("all pods of the ReplicaSet are gone", 60, lambda: count() == 0)
        world.pause(2)
        if other and world.get(f"{space}/pods/{name}") is None:
            return True, f"the other pod with the name is gone, in round {at + 1}"
        world.delete(f"{sets}/web")
    return False, "the other pod with the name is there, in four rounds"
