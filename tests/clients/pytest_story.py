"""The fixtures of the Python package, as pytest offers them.

    STEERSMAN=path/to/steersman PYTHONPATH=scripts/release/python python -m pytest -p steersman.pytest_plugin pytest_story.py
"""

import kubernetes
import pytest
from kubernetes.client import CoreV1Api


@pytest.fixture(scope="session")
def steersman_options():
    return {"nodes": 0, "controllers": ""}


namespaces, urls = set(), set()


@pytest.mark.parametrize("_", range(2))
def test_each_test_has_a_namespace(steersman_server, steersman_namespace, _):
    core = CoreV1Api(kubernetes.config.new_client_from_config(steersman_server.kubeconfig))
    assert core.read_namespace(steersman_namespace).status.phase == "Active"
    assert steersman_namespace not in namespaces
    namespaces.add(steersman_namespace)


@pytest.mark.parametrize("_", range(2))
def test_each_test_has_a_cluster(steersman_cluster, _):
    core = CoreV1Api(kubernetes.config.new_client_from_config(steersman_cluster.kubeconfig))
    known = {found.metadata.name for found in core.list_namespace().items}
    assert "own" not in known
    core.create_namespace({"metadata": {"name": "own"}})
    assert steersman_cluster.url not in urls
    urls.add(steersman_cluster.url)
