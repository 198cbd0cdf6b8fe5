"""A typical test in Python: starts the server, uses the official client, waits for a rollout, and stops the server.

    python_client.py path/to/steersman
"""

import json
import subprocess
import sys
import time

from kubernetes import client, config, watch

LIMIT = 60


def deployment(replicas):
    container = client.V1Container(name="main", image="web:1", ports=[client.V1ContainerPort(container_port=80)])
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


def rolled_out(live):
    status, replicas = live.status, live.spec.replicas
    observed = status.observed_generation == live.metadata.generation
    return observed and (status.updated_replicas, status.available_replicas, status.replicas) == (replicas,) * 3


def wait_for_rollout(apps):
    """Lists, then watches from the listed version, until the rollout is complete."""
    listed = apps.list_namespaced_deployment("default", field_selector="metadata.name=web")
    if any(rolled_out(live) for live in listed.items):
        return
    stream = watch.Watch()
    for event in stream.stream(
        apps.list_namespaced_deployment,
        "default",
        field_selector="metadata.name=web",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=LIMIT,
    ):
        if event["type"] == "MODIFIED" and rolled_out(event["object"]):
            stream.stop()
            return
    raise AssertionError(f"not rolled out after {LIMIT} s: {apps.read_namespaced_deployment('web', 'default').status}")


def refused(call, *arguments, **named):
    """Returns status code and reason of a call that must fail."""
    try:
        answer = call(*arguments, **named)
    except client.ApiException as refusal:
        return refusal.status, json.loads(refusal.body)["reason"]
    raise AssertionError(f"not refused: {answer}")


def story():
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    assert {node.metadata.name for node in core.list_node().items} == {"node-0", "node-1", "node-2"}

    created = apps.create_namespaced_deployment("default", deployment(replicas=3))
    assert created.spec.strategy.rolling_update.max_surge == "25%", "the server sets defaults"
    assert refused(apps.create_namespaced_deployment, "default", deployment(1)) == (409, "AlreadyExists")
    wait_for_rollout(apps)

    patched = apps.patch_namespaced_deployment("web", "default", {"spec": {"replicas": 5}})
    assert (patched.spec.replicas, patched.metadata.generation) == (5, 2)
    wait_for_rollout(apps)
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:2"}]
    apps.patch_namespaced_deployment("web", "default", image)
    wait_for_rollout(apps)

    pods = core.list_namespaced_pod("default", label_selector="app=web", field_selector="status.phase=Running").items
    assert [pod.spec.containers[0].image for pod in pods if not pod.metadata.deletion_timestamp] == ["web:2"] * 5
    assert all(isinstance(pod.status.start_time.year, int) and pod.status.pod_ip for pod in pods)

    stale = apps.read_namespaced_deployment("web", "default")
    apps.patch_namespaced_deployment("web", "default", {"metadata": {"labels": {"seen": "true"}}})
    assert refused(apps.replace_namespaced_deployment, "web", "default", stale) == (409, "Conflict")
    assert refused(apps.patch_namespaced_deployment, "web", "default", {"spec": {"replicas": -1}}) == (422, "Invalid")

    listed = core.list_namespaced_pod("default")
    left = {pod.metadata.name for pod in listed.items}
    apps.delete_namespaced_deployment("web", "default", propagation_policy="Foreground")
    stream = watch.Watch()
    version = listed.metadata.resource_version
    for event in stream.stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=LIMIT):
        if event["type"] == "DELETED":
            left.discard(event["object"].metadata.name)
        if not left:
            stream.stop()
    assert not left, f"not deleted after {LIMIT} s: {left}"
    limit = time.monotonic() + LIMIT
    while exists(apps.read_namespaced_deployment, "web", "default"):
        assert time.monotonic() < limit, "the Deployment still exists after its pods are deleted"
        time.sleep(0.05)


def exists(read, *arguments):
    try:
        read(*arguments)
    except client.ApiException as refusal:
        if refusal.status != 404:
            raise
        return False
    return True


def main(steersman):
    with subprocess.Popen([steersman, "apiserver"], stdout=subprocess.PIPE, text=True) as server:
        try:
            ready = json.loads(server.stdout.readline())
            config.load_kube_config(ready["kubeconfig"])
            story()
        finally:
            server.terminate()
        assert server.wait(LIMIT) == 0, f"the server ended with {server.returncode}"


if __name__ == "__main__":
    main(sys.argv[1])
