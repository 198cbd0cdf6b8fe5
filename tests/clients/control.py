"""The Python package with a real server: namespaces, faults, the request log, snapshots and forks.

    STEERSMAN=path/to/steersman PYTHONPATH=scripts/release/python python control.py
"""

import json
import pathlib

import kubernetes
import steersman
from kubernetes.client import CoreV1Api, V1ConfigMap, V1ObjectMeta
from kubernetes.client.exceptions import ApiException


def api(cluster):
    return CoreV1Api(kubernetes.config.new_client_from_config(cluster.kubeconfig))


def config_map(name):
    return V1ConfigMap(metadata=V1ObjectMeta(name=name))


def names(cluster, namespace):
    return {found.metadata.name for found in api(cluster).list_namespaced_config_map(namespace).items}


with steersman.Server(nodes=1) as server:
    namespace = server.namespace("story-")
    assert namespace.startswith("story-"), namespace
    core = api(server)

    # The first creation of this client is refused as by a busy server.
    rule = server.fault({"reject": {"code": 429, "message": "slowly"}}, times=1, verb="create", resource="configmaps")
    try:
        core.create_namespaced_config_map(namespace, config_map("a"))
        raise AssertionError("the creation was not refused")
    except ApiException as refused:
        assert (refused.status, json.loads(refused.body)["reason"]) == (429, "TooManyRequests"), refused
    core.create_namespaced_config_map(namespace, config_map("a"))
    assert rule.hits == 1, rule.hits

    creations = [found for found in server.requests() if (found["verb"], found["resource"]) == ("create", "configmaps")]
    own = [found["status"] for found in creations if found["path"].startswith(f"/api/v1/namespaces/{namespace}/")]
    assert {429, 201} <= set(own), own
    server.keep_bodies()
    core.create_namespaced_config_map(namespace, config_map("written"))
    server.keep_bodies(False)
    core.read_namespaced_config_map("written", namespace)
    [written, read] = [found for found in server.requests() if found["path"].endswith(("/configmaps", "/written"))][-2:]
    assert written["body"]["metadata"]["name"] == "written" and written["answer"]["metadata"]["uid"], written
    assert "body" not in read, read
    server.clear_requests()

    # A cache that lags behind shows the state before.
    with server.fault(view="now", resource="configmaps", client="OpenAPI-Generator"):
        core.delete_namespaced_config_map("written", namespace)
        cached = core.list_namespaced_config_map(namespace, resource_version="0").items
        assert "written" in {found.metadata.name for found in cached}
        assert "written" not in names(server, namespace)

    # The server returns to a snapshot while it is watched.
    prepared = server.snapshot()
    uid = core.read_namespaced_config_map("a", namespace).metadata.uid
    core.delete_namespaced_config_map("a", namespace)
    listed = core.list_namespaced_config_map(namespace)
    server.restore(prepared)
    watch = kubernetes.watch.Watch()
    since = listed.metadata.resource_version
    for event in watch.stream(core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=60):
        assert (event["type"], event["object"].metadata.uid) == ("ADDED", uid), event
        watch.stop()
        break
    else:
        raise AssertionError("the watch saw no return")

    # A fork has the objects of the snapshot, and changes of either side stay there.
    prepared = server.snapshot()
    with server.fork(prepared) as fork, server.fork(prepared, still=True) as still:
        api(fork).create_namespaced_config_map(namespace, config_map("of-fork"))
        core.create_namespaced_config_map(namespace, config_map("of-server"))
        assert "of-server" not in names(fork, namespace) and "of-fork" not in names(server, namespace)
        assert names(still, namespace) >= {"a"} and "of-fork" not in names(still, namespace)
        # Controllers run in the fork: a new namespace gets its default account.
        fresh = fork.namespace()
        watch = kubernetes.watch.Watch()
        for event in watch.stream(api(fork).list_namespaced_service_account, fresh, timeout_seconds=60):
            if event["object"].metadata.name == "default":
                watch.stop()
                break
        else:
            raise AssertionError("the fork has no controllers")
        kubeconfig = pathlib.Path(fork.kubeconfig)
        assert kubeconfig.exists()
    assert not kubeconfig.exists(), "the kubeconfig of an ended fork stayed"

    server.stop_time()
    before = server.now()
    server.advance("1h")
    assert server.now()[:13] > before[:13], (before, server.now())
    server.resume_time()

    try:
        server.fault("explode")
        raise AssertionError("an unknown fault was accepted")
    except steersman.RequestError as refused:
        assert "explode" in str(refused), refused
print("done")
