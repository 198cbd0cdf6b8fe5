"""Releases of the chart on embedded clusters, with the real Helm. STEERSMAN is the program.

    STEERSMAN=target/debug/steersman python releases.py -v [Releases | Managers]
"""

import base64
import pathlib
import re
import unittest

import helm_python as helm
import yaml
from kubernetes import client

from chart import CHART, ROOT, alerts, notes, objects, others_arguments, panels
from clusters import LIMIT, Cluster, ManagersOfChart, ask, definition, deployment, replica_set


class Releases(Cluster):
    def setUp(self):
        self.start_embedded("*")

    def test_install_upgrade_roll_back_uninstall(self):
        # The namespace enforces the restricted standard, so it admits only pods that satisfy it.
        restricted = client.V1ObjectMeta(name="steersman", labels={"pod-security.kubernetes.io/enforce": "restricted"})
        self.core.create_namespace(client.V1Namespace(metadata=restricted))
        with self.assertRaisesRegex(client.ApiException, "violates PodSecurity"):
            pod = {"metadata": {"name": "careless"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            self.core.create_namespaced_pod("steersman", pod)

        beside = {"controllers": ["deployment", "replicaset"]}
        release = self.helm.install(CHART, "steersman", beside, wait="watcher", timeout=LIMIT)
        self.assertEqual((release["revision"], release["status"]), (1, "deployed"))
        self.assertTrue(self.runs_on(2))
        control_plane = self.core.list_node(label_selector="node-role.kubernetes.io/control-plane").items
        nodes = sorted(pod.spec.node_name for pod in self.managers())
        self.assertEqual(nodes, sorted(node.metadata.name for node in control_plane))
        policies = client.NetworkingV1Api(self.api).list_namespaced_network_policy("steersman").items
        self.assertEqual([policy.metadata.name for policy in policies], ["steersman"])

        values = {"controllers": ["cronjob"], "kind": "Deployment", "replicaCount": 3, "verbosity": 2}
        release = self.helm.upgrade(CHART, "steersman", values, wait="watcher", timeout=LIMIT)
        self.assertEqual((release["revision"], release["status"]), (2, "deployed"))
        self.assertTrue(self.is_available())
        running = [pod for pod in self.managers() if pod.metadata.owner_references[0].kind == "ReplicaSet"]
        self.assertEqual(len(running), 3)
        self.assertTrue(all("--v=2" in pod.spec.containers[0].args for pod in running))

        self.helm.rollback("steersman", version=1, wait="watcher", timeout=LIMIT)
        self.assertTrue(self.runs_on(2))
        self.assertEqual(self.apps.list_deployment_for_all_namespaces().items, [])

        self.helm.uninstall("steersman", wait="watcher", timeout=LIMIT)
        self.assertEqual(self.helm.list(all_states=True), [])
        label = {"label_selector": "app.kubernetes.io/instance=steersman"}
        rbac, policy = client.RbacAuthorizationV1Api(self.api), client.PolicyV1Api(self.api)
        lists = [
            self.apps.list_daemon_set_for_all_namespaces, self.core.list_service_for_all_namespaces,
            self.core.list_service_account_for_all_namespaces, policy.list_pod_disruption_budget_for_all_namespaces,
            rbac.list_cluster_role, rbac.list_cluster_role_binding,
            rbac.list_role_for_all_namespaces, rbac.list_role_binding_for_all_namespaces,
        ]
        for listed in lists:
            self.assertEqual([o.metadata.name for o in listed(**label).items], [], listed.__name__)
        # The garbage collector deletes the pods.
        self.eventually("gone", lambda: not self.core.list_namespaced_pod("steersman", **label).items)

    def test_a_release_that_does_not_become_ready_is_an_error(self):
        values = {"controllers": ["cronjob"], "podAnnotations": {"simulate.steersman.dev/behaviour": "never-ready"}}
        with self.assertRaises(helm.HelmError):
            self.helm.install(CHART, "steersman", values, create_namespace=True, wait="watcher", timeout=3)
        self.assertEqual(self.helm.status("steersman")["status"], "failed")


class Managers(ManagersOfChart):
    """All controllers of the embedded cluster that the chart gives to Steersman run in a manager of its own."""

    def work(self, values):
        """Installs the chart, runs a manager with its objects, and returns the manager's metrics."""
        for plural, kind in (("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule")):
            client.ApiextensionsV1Api(self.api).create_custom_resource_definition(definition(plural, kind))
        toggles = ("serviceMonitor", "prometheusRule", "grafanaDashboard")
        values = {**values, **{toggle: {"enabled": True} for toggle in toggles}}
        self.helm.install(CHART, "steersman", values, create_namespace=True)
        manager, port = self.manager()
        self.eventually("available", lambda: self.runs_on(2))
        self.helm.upgrade(CHART, "steersman", {**values, "podLabels": {"second": "template"}}, wait="watcher", timeout=LIMIT)
        self.assertTrue(self.runs_on(2))
        # Make the accounts use their permissions to create and to delete pods.
        self.apps.create_namespaced_deployment("default", deployment("web", 2))
        self.eventually("there", lambda: len(self.core.list_namespaced_pod("default").items) == 2)
        self.apps.delete_namespaced_deployment("web", "default", propagation_policy="Background")
        self.eventually("collected", lambda: not self.core.list_namespaced_pod("default").items)
        # Request each probe once, because a health check has series only for requested paths.
        container = self.daemon_set().spec.template.spec.containers[0]
        for probe in (container.startup_probe, container.liveness_probe, container.readiness_probe):
            self.assertEqual(ask(port, probe.http_get.path), (200, "ok"))
        self.assertEqual(ask(port, "/metrics")[0], 403)
        _, token = self.credentials("steersman", "steersman-scraper")
        metrics = {path: ask(port, path, token)[1] for path in ("/metrics", "/metrics/slis")}
        self.assert_distinct_series(metrics, values)
        manager.terminate()
        self.assertEqual(manager.wait(LIMIT), 0)
        metrics = "".join(metrics.values())
        self.assert_answers(metrics, values)
        return metrics

    def test_in_place_with_one_account(self):
        self.start_embedded("")
        values = {"mode": "replace", "useServiceAccountCredentials": False}
        metrics = self.work(values)
        self.assert_within_its_permissions(metrics)
        lease = client.CoordinationV1Api(self.api).read_namespaced_lease("kube-controller-manager", "kube-system")
        self.assertEqual(lease.spec.holder_identity, "", "the Lease is released at the end")
        self.assertIn('leader_election_master_status{name="kube-controller-manager"} 1', metrics)

    def assert_distinct_series(self, metrics, values):
        """Asserts that each family has series from one path only, after the drop rules of the ServiceMonitor."""
        monitor = next(o for (kind, _), o in objects(values).items() if kind == "ServiceMonitor")
        seen = set()
        for endpoint in monitor["spec"]["endpoints"]:
            kept = set(re.findall(r"^# TYPE (\S+) ", metrics[endpoint["path"]], re.MULTILINE))
            for rule in endpoint.get("metricRelabelings", []):
                kept = {name for name in kept if not re.fullmatch(rule["regex"], name)}
            self.assertEqual(seen & kept, set())
            seen |= kept

    def assert_answers(self, metrics, values):
        """Asserts that the families, labels and values in alerts and dashboard are exported."""
        exported = {name: [] for name in re.findall(r"^# TYPE (\S+) ", metrics, re.MULTILINE)}
        for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? ", metrics, re.MULTILINE):
            exported.setdefault(name, []).append(dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        # Prometheus adds these labels itself.
        added = {"instance", "job"}
        asked = [rule["expr"] for rule in alerts(values)], panels()
        reference = (ROOT / "docs/reference.md").read_text()
        listed = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in re.findall(r"(?m)^\| `(\w+)` \| ([^|]*) \|", reference)}
        for expression in asked[0] + asked[1]:
            selectors = re.findall(r"([a-z_]+)\{([^}]*)\}", expression)
            self.assertTrue(selectors, expression)
            grouped = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(", *", labels)}
            for name, matchers in selectors:
                if name == "up":
                    continue
                with self.subTest(expression):
                    matchers = re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers)
                    labels = ({label for label, _, _ in matchers} | grouped) - added
                    equal = {label: value for label, operator, value in matchers if operator == "=" and label not in added}
                    series = exported.get(name, [])
                    if not series and not equal:
                        # A metric without a value yet is only in the reference.
                        self.assertIn(name, listed)
                        self.assertEqual(labels - listed[name], set(), f"labels of {name}")
                        continue
                    self.assertEqual(labels - {label for one in series for label in one}, set(), f"labels of {name}")
                    found = [one for one in series if equal.items() <= one.items()]
                    self.assertTrue(found or (name in exported and not equal), f"no {name} with {equal} among {series}")
        named = r"\b(?:steersman|workqueue|rest_client|leader_election)_[a-z_]+[a-z]"
        for page in (ROOT / "docs/runbooks").glob("*.md"):
            for name in re.findall(named, page.read_text()):
                # A metric without a value yet is only in the reference.
                family = re.sub("_(sum|count|bucket)$", "", name)
                self.assertTrue(family in exported or f"`{family}`" in reference, f"{name} of {page.name}")
        # Alerts and dashboard cover all counters of panics.
        for name in exported:
            if name.endswith("_panics_total"):
                for expressions in asked:
                    self.assertIn(f"{name}{{", "".join(expressions))

    def test_beside_with_an_account_for_each_controller(self):
        names = ["deployment", "replicaset", "garbagecollector"]
        self.start_embedded(",".join(others_arguments(notes({"controllers": names}))))
        metrics = self.work({"controllers": names})
        self.assert_within_its_permissions(metrics)
        accounts = {made.metadata.name for made in self.core.list_namespaced_service_account("kube-system").items}
        self.assertLessEqual({"deployment-controller", "replicaset-controller", "generic-garbage-collector"}, accounts)
        client.CoordinationV1Api(self.api).read_namespaced_lease("steersman", "steersman")

    def static_pod(self, manifest, lease):
        """Starts the static pod of docs/ as on a kubeadm node: as kubeadm's user, with kubeadm's files."""
        self.start_embedded("")
        pod = yaml.safe_load((ROOT / "docs/kubeadm" / manifest).read_text())
        (container,) = pod["spec"]["containers"]
        credentials = yaml.safe_load(pathlib.Path(self.kubeconfig).read_text())
        credentials["users"][0]["user"]["as"] = "system:kube-controller-manager"
        (self.folder / "controller-manager.conf").write_text(yaml.safe_dump(credentials))
        authority = base64.b64decode(credentials["clusters"][0]["cluster"]["certificate-authority-data"])
        (self.folder / "front-proxy-ca.crt").write_bytes(authority)
        keys = ROOT / "proof/perturb/tests/suite"
        for name, source in (("ca.crt", "testdata/ca.crt"), ("ca.key", "testdata/ca.key"), ("sa.key", "account_key.pem")):
            (self.folder / name).write_bytes((keys / source).read_bytes())
        files = re.compile("/etc/kubernetes/(pki/)?")
        arguments = [files.sub(f"{self.folder}/", argument) for argument in container["command"][1:]]
        _, port = self.start(arguments)
        self.apps.create_namespaced_replica_set("default", replica_set("web", 2))
        self.eventually("there", lambda: len(self.core.list_namespaced_pod("default").items) == 2)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                path = container[probe]["httpGet"]["path"]
                self.eventually("well", lambda: ask(port, path) == (200, "ok"))
        held = client.CoordinationV1Api(self.api).read_namespaced_lease(lease, "kube-system")
        self.assertTrue(held.spec.holder_identity)
        self.assertNotIn("forbidden", (self.folder / "log").read_text())

    def test_the_static_pod_beside(self):
        self.static_pod("steersman.yaml", "steersman")

    def test_the_static_pod_in_place(self):
        self.static_pod("kube-controller-manager.yaml", "kube-controller-manager")


if __name__ == "__main__":
    unittest.main()
