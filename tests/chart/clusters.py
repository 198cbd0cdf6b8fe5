"""Clusters for the tests beside this file, and managers that run as the chart says. STEERSMAN is the program."""

import base64
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import helm_python as helm
import yaml
from kubernetes import client, config

LIMIT = 90


class Cluster(unittest.TestCase):
    """Helpers for the tests of one cluster each."""

    def start_embedded(self, controllers):
        """Starts an embedded cluster, in which two of the three nodes are of the control plane."""
        command = [os.environ["STEERSMAN"], "apiserver", f"--controllers={controllers}"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_server)
        self.connect(json.loads(self.server.stdout.readline())["kubeconfig"])
        self.make_control_plane(2)

    def connect(self, kubeconfig):
        self.kubeconfig = kubeconfig
        api = config.new_client_from_config(self.kubeconfig)
        self.api, self.core, self.apps = api, client.CoreV1Api(api), client.AppsV1Api(api)
        self.helm = self.helm_in("steersman")

    def helm_in(self, namespace):
        made = helm.Config(kubeconfig_path=self.kubeconfig, namespace=namespace)
        self.addCleanup(made.close)
        return made

    def make_control_plane(self, count):
        """Labels nodes as those of the control plane, until there are so many."""
        label = "node-role.kubernetes.io/control-plane"
        self.eventually("registered", lambda: len(self.core.list_node().items) >= count)
        for node in sorted(self.core.list_node().items, key=lambda node: node.metadata.name)[:count]:
            self.core.patch_node(node.metadata.name, {"metadata": {"labels": {label: ""}}})

    def stop_server(self):
        self.server.terminate()
        self.server.wait(LIMIT)
        self.server.stdout.close()

    def deployment(self):
        return self.apps.read_namespaced_deployment("steersman", "steersman")

    def daemon_set(self, namespace="steersman"):
        return self.apps.read_namespaced_daemon_set("steersman", namespace)

    def managers(self, namespace="steersman"):
        """Returns the running pods of the release, which are not being deleted."""
        label = "app.kubernetes.io/instance=steersman"
        pods = self.core.list_namespaced_pod(namespace, label_selector=label, field_selector="status.phase=Running").items
        return [pod for pod in pods if not pod.metadata.deletion_timestamp]

    def eventually(self, what, is_so, explanation=lambda: ""):
        limit = time.monotonic() + LIMIT
        while not is_so():
            if time.monotonic() > limit:
                self.fail(f"still not {what}\n{explanation()}")
            time.sleep(0.1)

    def is_available(self):
        """Whether all replicas of the Deployment are of its present template, and available."""
        live = self.deployment()
        wanted = live.spec.replicas
        status = live.status
        seen = status.observed_generation == live.metadata.generation
        return seen and (status.updated_replicas, status.available_replicas, status.replicas) == (wanted,) * 3

    def runs_on(self, count, namespace="steersman"):
        """Whether the DaemonSet has available pods of its present template on so many nodes, and no others."""
        live = self.daemon_set(namespace)
        status = live.status
        seen = status.observed_generation == live.metadata.generation
        found = (status.desired_number_scheduled, status.updated_number_scheduled, status.number_available)
        return seen and found == (count,) * 3


class ManagersOfChart(Cluster):
    """Helpers that run managers as the chart says, with the chart's service account."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def credentials(self, namespace, account):
        """Returns a kubeconfig with a token of this account only and, as in a pod, with the authority in a file."""
        token = self.core.create_namespaced_service_account_token(
            account, namespace, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        ).status.token
        text = yaml.safe_load(pathlib.Path(self.kubeconfig).read_text())
        text["users"] = [{"name": text["users"][0]["name"], "user": {"token": token}}]
        cluster = text["clusters"][0]["cluster"]
        # A manager that already runs may be reading these files.
        authority = self.folder / "ca.crt"
        if not authority.exists():
            authority.write_bytes(base64.b64decode(cluster.pop("certificate-authority-data")))
        cluster.pop("certificate-authority-data", None)
        cluster["certificate-authority"] = str(authority)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=f"{account}-", delete=False) as file:
            yaml.safe_dump(text, file)
        return file.name, token

    def manager(self, namespace="steersman", name="log"):
        """Starts the program with the arguments of the DaemonSet, and with credentials and files as in a pod."""
        container = self.daemon_set(namespace).spec.template.spec.containers[0]
        kubeconfig, _ = self.credentials(namespace, "steersman")
        credentials_flags = [f"--{flag}={kubeconfig}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
        # Folders of the pod and of the node are this test's.
        inside = re.compile("=(/etc/kubernetes/pki|/var/run/secrets/kubernetes.io/serviceaccount)/")
        arguments = [inside.sub(f"={self.folder}/", argument) for argument in container.args if not argument.startswith("--secure-port")]
        return self.start([*arguments, *credentials_flags, "--bind-address=127.0.0.1"], name)

    def start(self, arguments, name="log"):
        """Starts the program on a free port, and returns both."""
        port = free_port()
        with open(self.folder / name, "w") as log:
            manager = subprocess.Popen([os.environ["STEERSMAN"], *arguments, f"--secure-port={port}"], stderr=log)
        self.addCleanup(manager.wait, LIMIT)
        self.addCleanup(manager.terminate)
        return manager, port

    def assert_within_its_permissions(self, metrics, name="log"):
        refused = [line for line in metrics.splitlines() if re.match(r'rest_client_requests_total\{code="40[13]"', line)]
        log = (self.folder / name).read_text()
        self.assertEqual(refused, [], log)
        self.assertIn('rest_client_requests_total{code="201"', metrics)
        self.assertNotIn("forbidden", log)
        self.assertIn('steersman_health_check_degraded{name="informer-sync"} 0', metrics)


def replica_set(name, replicas):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def deployment(name, replicas):
    """Returns a Deployment whose pods are those of the ReplicaSet."""
    return replica_set(name, replicas)


def definition(plural, kind):
    """Returns a permissive definition of a kind of the Prometheus Operator."""
    group, schema = "monitoring.coreos.com", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def account(name):
    return client.V1ServiceAccount(metadata=client.V1ObjectMeta(name=name))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def ask(port, path, token=None):
    """Returns status and body of a response of the manager."""
    connection = http.client.HTTPSConnection("127.0.0.1", int(port), timeout=LIMIT, context=ssl._create_unverified_context())
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body
