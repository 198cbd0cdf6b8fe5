"""Tests of the chart with the real Helm. STEERSMAN is the program; UPDATE_CHART=1 renews the golden renderings.

    STEERSMAN=target/debug/steersman python stories.py -v [Renderings | Releases | Managers]
"""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import helm_python as helm
import yaml
from kubernetes import client, config

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/steersman"
GOLDEN = ROOT / "tests/golden/chart"
LIMIT = 90

EVERYTHING = {
    "mode": "replace",
    "replicaCount": 3,
    "fullnameOverride": "kcm",
    "useServiceAccountCredentials": True,
    "image": {"repository": "registry.example.com/steersman", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": ["registry"],
    "extraArgs": ["--concurrent-deployment-syncs=10"],
    "serviceAccount": {"annotations": {"example.com/why": "because"}},
    "tls": {"secretName": "kcm-tls"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "yes"},
    "networkPolicy": {
        "enabled": True,
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "apiServerCIDRs": ["10.0.0.0/24"],
        "extraEgress": [{"ports": [{"port": 4317}]}],
    },
    "serviceMonitor": {"enabled": True, "interval": "30s", "scraper": "monitoring/prometheus"},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
}


def rendered(values, namespace="steersman"):
    """Returns the manifests as one text, in the order of their files."""
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values, name="steersman", namespace=namespace, is_install=True)
    texts = [text.strip("\n") for name, text in sorted(files.items()) if text.strip() and not name.endswith("NOTES.txt")]
    return "\n---\n".join(texts) + "\n"


def objects(values, **named):
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(rendered(values, **named)) if o}


class Renderings(unittest.TestCase):
    def test_lint_has_no_findings(self):
        for values in ({"controllers": ["*"]}, {"mode": "replace"}, EVERYTHING, {**EVERYTHING, "grafanaDashboard": {"enabled": True}}):
            report = helm.lint(CHART, values, strict=True)
            worse = [message for message in report["messages"] if message["severity"] > 1]
            self.assertEqual((worse, report["errors"]), ([], []), report)

    def test_renderings_equal_the_golden_files(self):
        cases = {
            "beside": {"controllers": ["deployment", "replicaset-controller"]},
            "replace": {"mode": "replace", "controllers": ["deployment", "replicaset", "garbagecollector"]},
            "everything": EVERYTHING,
        }
        for name, values in cases.items():
            with self.subTest(name):
                found, file = rendered(values), GOLDEN / f"{name}.yaml"
                if "UPDATE_CHART" in os.environ:
                    file.write_text(found)
                self.assertEqual(found, file.read_text(), "scripts/chart.sh renews it")

    def test_invalid_values_are_refused_with_the_reason(self):
        cases = [
            ({"mode": "instead"}, "'/mode': value must be one of 'beside', 'replace'"),
            ({"replicaCount": "two"}, "'/replicaCount': got string, want integer"),
            ({"replicaCount": 0}, "'/replicaCount': minimum: got 0, want 1"),
            ({"replicas": 3}, "additional properties 'replicas' not allowed"),
            ({"image": {"repo": "x"}}, "'/image': additional properties 'repo' not allowed"),
            ({"image": {"digest": "latest"}}, "'/image/digest': 'latest' does not match pattern"),
            ({"leaderElection": {"leaseDuration": 15}}, "'/leaderElection/leaseDuration': got number, want string"),
            ({"leaderElection": {"retryPeriod": "2"}}, "'/leaderElection/retryPeriod': '2' does not match pattern"),
            ({"controllers": "deployment"}, "'/controllers': got string, want array"),
            ({"verbosity": 11}, "'/verbosity': maximum: got 11, want 10"),
            ({"logFormat": "xml"}, "'/logFormat': value must be one of 'text', 'json'"),
            ({"extraArgs": ["v=2"]}, "'/extraArgs/0': 'v=2' does not match pattern"),
            ({"networkPolicy": {"apiServerPorts": []}}, "'/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
            ({"serviceMonitor": {"scraper": "prometheus"}}, "'/serviceMonitor/scraper': 'prometheus' does not match pattern"),
            ({"podLabels": {"tier": 1}}, "'/podLabels/tier': got number, want string"),
            ({"podLabels": {"app.kubernetes.io/name": "x"}}, "invalid propertyName 'app.kubernetes.io/name'"),
            ({"prometheusRule": {"labels": {"helm.sh/chart": "x"}}}, "invalid propertyName 'helm.sh/chart'"),
            ({"fullnameOverride": "Bad Name"}, "'/fullnameOverride': 'Bad Name' does not match pattern"),
            ({"leaderElection": {"leaseName": "a: b"}}, "'/leaderElection/leaseName': 'a: b' does not match pattern"),
            ({"leaderElection": {"leaseNamespace": "a.b"}}, "'/leaderElection/leaseNamespace': 'a.b' does not match pattern"),
            ({"tls": {"secretName": "a/b"}}, "'/tls/secretName': 'a/b' does not match pattern"),
            ({"imagePullSecrets": [""]}, "'/imagePullSecrets/0': '' does not match pattern"),
            ({"serviceAccount": {"name": "The Account"}}, "'/serviceAccount/name': 'The Account' does not match pattern"),
            ({"serviceMonitor": {"interval": "30"}}, "'/serviceMonitor/interval': '30' does not match pattern"),
        ]
        with helm.Chart.load(CHART) as chart:
            for values, message in cases:
                with self.subTest(message), self.assertRaises(helm.HelmValuesError) as refused:
                    chart.validate_schema({"controllers": ["*"], **values})
                self.assertIn(message, str(refused.exception))

    def test_names_that_look_like_other_types_stay_strings(self):
        values = {
            "controllers": ["*"], "fullnameOverride": "on", "imagePullSecrets": ["123"], "tls": {"secretName": "1e3"},
            "priorityClassName": "yes", "serviceAccount": {"name": "0"}, "leaderElection": {"leaseName": "1", "leaseNamespace": "2"},
            "image": {"repository": "12", "tag": "30"}, "serviceMonitor": {"enabled": True, "jobName": "a: 7", "scraper": "8/9"},
        }
        made = objects(values, namespace="456")
        pod = made[("Deployment", "on")]["spec"]["template"]["spec"]
        self.assertEqual({o["metadata"]["namespace"] for o in made.values() if not o["kind"].startswith("Cluster")}, {"456", "2", "kube-system"})
        self.assertEqual(pod["imagePullSecrets"], [{"name": "123"}])
        self.assertEqual(pod["volumes"][0]["secret"]["secretName"], "1e3")
        self.assertEqual((pod["priorityClassName"], pod["serviceAccountName"], pod["containers"][0]["image"]), ("yes", "0", "12:30"))
        self.assertIn(("ServiceAccount", "0"), made)
        self.assertIn(("RoleBinding", "on-leader-election"), made)
        self.assertEqual(made[("ClusterRoleBinding", "on-scraper")]["subjects"], [{"kind": "ServiceAccount", "name": "9", "namespace": "8"}])
        relabelings = made[("ServiceMonitor", "on")]["spec"]["endpoints"][0]["relabelings"]
        self.assertEqual(relabelings[0]["replacement"], "a: 7")

    def test_contradictory_election_durations_are_refused(self):
        cases = [
            (("15s", "15s", "2s"), "leaseDuration (15s) must be longer than renewDeadline (15s)"),
            (("5s", "10s", "2s"), "leaseDuration (5s) must be longer than renewDeadline (10s)"),
            (("1m", "0.5h", "2s"), "leaseDuration (1m) must be longer than renewDeadline (0.5h)"),
            (("15s", "12s", "10s"), "renewDeadline (12s) must be longer than 1.2 times retryPeriod (10s)"),
            (("15s", "1s1ms", "1500ms"), "renewDeadline (1s1ms) must be longer than 1.2 times retryPeriod (1500ms)"),
            (("15s", "10s", "0s"), "retryPeriod (0s) must be greater than zero"),
        ]
        names = ("leaseDuration", "renewDeadline", "retryPeriod")
        kubeconfig = self.enterContext(tempfile.NamedTemporaryFile("w"))
        kubeconfig.write("{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}")
        kubeconfig.flush()
        for durations, message in cases:
            with self.subTest(durations):
                values = {"controllers": ["*"], "leaderElection": dict(zip(names, durations))}
                # The program refuses the same durations.
                flags = [f"--leader-elect-{flag}={value}" for flag, value in zip(("lease-duration", "renew-deadline", "retry-period"), durations)]
                command = [os.environ["STEERSMAN"], f"--kubeconfig={kubeconfig.name}", "--secure-port=0", *flags]
                said = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
                self.assertIn(f"{message.split(' ')[0]} must be greater than", said.stderr)
                with self.assertRaises(helm.HelmError) as refused:
                    rendered(values)
                self.assertIn(f"leaderElection: {message}", str(refused.exception))
        rendered({"controllers": ["*"], "leaderElection": dict(zip(names, ("1m30s", "1m", "49s")))})
        rendered({"controllers": ["*"], "leaderElection": dict(zip(names, ("15s", "12.001s", "10s")))})

    def test_unknown_controllers_are_refused(self):
        cases = [
            ({}, "mode beside: name in `controllers` the ones that Steersman runs"),
            ({"controllers": ["deployment", "sandwich"]}, 'mode beside: "sandwich" in `controllers` is not one of *, '),
            ({"controllers": ["deployment", "route"]}, 'mode beside: "route" in `controllers` is not one of *, '),
            ({"controllers": ["-deployment"]}, "`controllers` selects no controller"),
            ({"mode": "replace", "controllers": ["nonsense"]}, 'mode replace: "nonsense" in `controllers` is not one of *, '),
            ({"mode": "replace", "controllers": ["*", "-sandwich"]}, 'mode replace: "-sandwich" in `controllers` is not one of *, '),
            ({"mode": "replace", "controllers": ["route"]}, "`controllers` selects no controller"),
        ]
        for values, message in cases:
            with self.subTest(message), self.assertRaises(helm.HelmError) as refused:
                rendered(values)
            self.assertIn(message, str(refused.exception))

    def test_the_first_item_that_names_a_controller_decides_for_it(self):
        known = yaml.safe_load((CHART / "files/controllers.yaml").read_text())
        every = [controller["name"] for controller in known if controller["enabledByDefault"]]
        cases = [
            (["*"], every),
            (["replicaset", "deployment"], ["deployment-controller", "replicaset-controller"]),
            (["*", "-garbagecollector"], [name for name in every if name != "garbage-collector-controller"]),
            (["deployment", "-deployment-controller"], ["deployment-controller"]),
            (["-podgc", "podgc", "namespace"], ["namespace-controller"]),
        ]
        # In mode replace, the list for kube-controller-manager is passed on unchanged.
        taken_over = ["*", "bootstrapsigner", "-nodeipam", "-ttl"]
        self.assertEqual(arguments(objects({"mode": "replace", "controllers": taken_over}))["controllers"], ",".join(taken_over))
        for items, names in cases:
            with self.subTest(items):
                flags = arguments(objects({"controllers": items}))
                self.assertEqual(flags["controllers"].split(","), names)

    def test_pods_satisfy_the_restricted_pod_security_standard(self):
        for values in ({"controllers": ["*"]}, EVERYTHING):
            pod = objects(values)[("Deployment", values.get("fullnameOverride", "steersman"))]["spec"]["template"]["spec"]
            self.assertLessEqual({"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items(), pod["securityContext"].items())
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & pod.keys())
            self.assertLessEqual({kind for volume in pod.get("volumes", []) for kind in volume}, {"name", "secret"})
            (container,) = pod["containers"]
            confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            self.assertEqual(container["securityContext"], confined)
            self.assertNotIn("hostPort", container["ports"][0])

    def test_a_missing_leader_is_critical_only_without_another_manager(self):
        for values, severity in (
            ({"controllers": ["*"]}, "critical"),
            ({"mode": "replace"}, "info"),
            ({"mode": "replace", "prometheusRule": {"noLeaderSeverity": "critical"}}, "critical"),
        ):
            (alert,) = [rule for rule in alerts(values) if rule["alert"] == "SteersmanNoLeader"]
            self.assertEqual(alert["labels"], {"severity": severity})
            explained = "as it should be for as long as kube-controller-manager holds it" in alert["annotations"]["description"]
            self.assertEqual(explained, "mode" in values)

    def test_both_scrape_endpoints_have_distinct_series(self):
        monitor = objects(EVERYTHING)[("ServiceMonitor", "kcm")]
        path = {"action": "replace", "sourceLabels": ["__metrics_path__"], "targetLabel": "metrics_path"}
        endpoints = {endpoint["path"]: endpoint for endpoint in monitor["spec"]["endpoints"]}
        self.assertEqual(endpoints.keys(), {"/metrics", "/metrics/slis"})
        for endpoint in endpoints.values():
            self.assertIn(path, endpoint["relabelings"])
        dropped = {"action": "drop", "sourceLabels": ["__name__"], "regex": "process_start_time_seconds"}
        self.assertEqual(endpoints["/metrics/slis"]["metricRelabelings"], [dropped])
        self.assertNotIn("metricRelabelings", endpoints["/metrics"])

    def test_the_dashboard_equals_its_file(self):
        values = {"controllers": ["*"], "grafanaDashboard": {"enabled": True}}
        made = objects(values)[("ConfigMap", "steersman-dashboard")]
        self.assertEqual(made["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(json.loads(made["data"]["steersman.json"]), json.loads((CHART / "files/dashboard.json").read_text()))

    @unittest.skipUnless(shutil.which("promtool"), "no promtool")
    def test_promtool_accepts_the_alerts(self):
        rule = objects(EVERYTHING)[("PrometheusRule", "kcm")]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": rule["spec"]["groups"]}, file)
            file.flush()
            checked = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_only_selected_controllers_have_permissions(self):
        def rules(**values):
            return objects(values)[("ClusterRole", "steersman")]["rules"]

        pods = [rule for rule in rules(controllers=["podgc"]) if rule["resources"] == ["pods"]]
        rule = {"apiGroups": [""], "resources": ["pods"]}
        self.assertEqual(pods, [{**rule, "verbs": ["list", "watch"]}, {**rule, "verbs": ["delete"]}])
        self.assertNotIn("*", json.dumps(rules(controllers=["deployment", "replicaset", "podgc"])))
        made = objects({"controllers": ["tokencleaner"]})
        role = made[("Role", "steersman-controllers")]
        rule = {"apiGroups": [""], "resources": ["secrets"]}
        self.assertEqual(role["rules"], [{**rule, "verbs": ["list", "watch"]}, {**rule, "verbs": ["delete"]}])
        self.assertEqual(role["metadata"]["namespace"], "kube-system")
        self.assertFalse(made[("ClusterRole", "steersman")]["rules"])
        # This controller makes tokens for the others, so it keeps the rights of the manager.
        others = ["*", "-serviceaccount-token-controller"]
        for rule in rules(controllers=others, useServiceAccountCredentials=True):
            self.assertEqual(rule["verbs"], ["list", "watch"])

    def test_the_program_accepts_the_flags_of_the_chart(self):
        for values in ({"controllers": ["*"]}, EVERYTHING):
            flags = [f"--{name}={value}" for name, value in arguments(objects(values)).items()]
            said = subprocess.run([os.environ["STEERSMAN"], *flags, "--version"], capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout), (0, "Kubernetes v1.36.2\n"), said.stderr)


def arguments(manifests):
    deployment = next(o for (kind, _), o in manifests.items() if kind == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])


class Cluster(unittest.TestCase):
    """An embedded cluster for each test."""

    controllers = "*"

    def setUp(self):
        command = [os.environ["STEERSMAN"], "apiserver", f"--controllers={self.controllers}"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_server)
        self.kubeconfig = json.loads(self.server.stdout.readline())["kubeconfig"]
        api = config.new_client_from_config(self.kubeconfig)
        self.api, self.core, self.apps = api, client.CoreV1Api(api), client.AppsV1Api(api)
        self.helm = helm.Config(kubeconfig_path=self.kubeconfig, namespace="steersman")
        self.addCleanup(self.helm.close)

    def stop_server(self):
        self.server.terminate()
        self.server.wait(LIMIT)
        self.server.stdout.close()

    def deployment(self):
        return self.apps.read_namespaced_deployment("steersman", "steersman")

    def eventually(self, what, is_so):
        limit = time.monotonic() + LIMIT
        while not is_so():
            self.assertLess(time.monotonic(), limit, f"still not {what}")
            time.sleep(0.1)

    def is_available(self):
        live = self.deployment()
        wanted = live.spec.replicas
        status = live.status
        seen = status.observed_generation == live.metadata.generation
        return seen and (status.updated_replicas, status.available_replicas, status.replicas) == (wanted,) * 3


class Releases(Cluster):
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
        self.assertTrue(self.is_available())
        self.assertEqual(self.deployment().status.available_replicas, 2)

        values = {"controllers": ["*"], "replicaCount": 3, "verbosity": 2}
        release = self.helm.upgrade(CHART, "steersman", values, wait="watcher", timeout=LIMIT)
        self.assertEqual((release["revision"], release["status"]), (2, "deployed"))
        self.assertTrue(self.is_available())
        running = self.core.list_namespaced_pod("steersman", field_selector="status.phase=Running").items
        running = [pod for pod in running if not pod.metadata.deletion_timestamp]
        self.assertEqual(len(running), 3)
        self.assertTrue(all("--v=2" in pod.spec.containers[0].args for pod in running))

        self.helm.rollback("steersman", version=1, wait="watcher", timeout=LIMIT)
        self.assertEqual(self.deployment().spec.replicas, 2)
        self.assertTrue(self.is_available())

        self.helm.uninstall("steersman", wait="watcher", timeout=LIMIT)
        self.assertEqual(self.helm.list(all_states=True), [])
        label = {"label_selector": "app.kubernetes.io/instance=steersman"}
        rbac, policy = client.RbacAuthorizationV1Api(self.api), client.PolicyV1Api(self.api)
        lists = [
            self.apps.list_deployment_for_all_namespaces, self.core.list_service_for_all_namespaces,
            self.core.list_service_account_for_all_namespaces, policy.list_pod_disruption_budget_for_all_namespaces,
            rbac.list_cluster_role, rbac.list_cluster_role_binding,
            rbac.list_role_for_all_namespaces, rbac.list_role_binding_for_all_namespaces,
        ]
        for listed in lists:
            self.assertEqual([o.metadata.name for o in listed(**label).items], [], listed.__name__)
        # The garbage collector deletes the pods.
        self.eventually("gone", lambda: not self.core.list_namespaced_pod("steersman", **label).items)

    def test_a_release_that_does_not_become_ready_is_an_error(self):
        values = {"controllers": ["*"], "podAnnotations": {"simulate.steersman.dev/behaviour": "never-ready"}}
        with self.assertRaises(helm.HelmError):
            self.helm.install(CHART, "steersman", values, create_namespace=True, wait="watcher", timeout=3)
        self.assertEqual(self.helm.status("steersman")["status"], "failed")


class Managers(Cluster):
    """The only controllers are those of a manager that runs as the chart says, with the chart's service account."""

    controllers = ""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def credentials(self, namespace, account):
        """Returns a kubeconfig with a token of this account only."""
        token = self.core.create_namespaced_service_account_token(
            account, namespace, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        ).status.token
        text = yaml.safe_load(pathlib.Path(self.kubeconfig).read_text())
        text["users"] = [{"name": text["users"][0]["name"], "user": {"token": token}}]
        file = self.folder / account
        file.write_text(yaml.safe_dump(text))
        return str(file), token

    def manager(self):
        """Starts the program with the arguments of the Deployment, and with credentials as in a pod."""
        container = self.deployment().spec.template.spec.containers[0]
        kubeconfig, _ = self.credentials("steersman", "steersman")
        credentials_flags = [f"--{flag}={kubeconfig}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
        return self.start([*container.args, *credentials_flags, "--bind-address=127.0.0.1"])

    def start(self, arguments):
        """Starts the program on a free port, and returns both."""
        port = free_port()
        with open(self.folder / "log", "w") as log:
            manager = subprocess.Popen([os.environ["STEERSMAN"], *arguments, f"--secure-port={port}"], stderr=log)
        self.addCleanup(manager.wait, LIMIT)
        self.addCleanup(manager.terminate)
        return manager, port

    def work(self, values):
        """Installs the chart, runs a manager with its objects, and returns the manager's metrics."""
        for plural, kind in (("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule")):
            client.ApiextensionsV1Api(self.api).create_custom_resource_definition(definition(plural, kind))
        toggles = ("serviceMonitor", "prometheusRule", "grafanaDashboard", "networkPolicy")
        values = {**values, **{toggle: {"enabled": True} for toggle in toggles}}
        values["serviceMonitor"]["scraper"] = "monitoring/prometheus"
        self.helm.install(CHART, "steersman", values, create_namespace=True)
        manager, port = self.manager()
        self.eventually("available", self.is_available)
        self.helm.upgrade(CHART, "steersman", {**values, "replicaCount": 3}, wait="watcher", timeout=LIMIT)
        self.assertTrue(self.is_available())
        # Make the account use its permission to delete pods.
        self.apps.create_namespaced_replica_set("default", replica_set("web", 2))
        self.eventually("there", lambda: len(self.core.list_namespaced_pod("default").items) == 2)
        self.apps.delete_namespaced_replica_set("web", "default", propagation_policy="Background")
        self.eventually("collected", lambda: not self.core.list_namespaced_pod("default").items)
        # Request each probe once, because a health check has series only for requested paths.
        container = self.deployment().spec.template.spec.containers[0]
        for probe in (container.startup_probe, container.liveness_probe, container.readiness_probe):
            self.assertEqual(ask(port, probe.http_get.path), (200, "ok"))
        self.assertEqual(ask(port, "/metrics")[0], 403)
        self.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="monitoring")))
        self.core.create_namespaced_service_account("monitoring", account("prometheus"))
        _, token = self.credentials("monitoring", "prometheus")
        metrics = {path: ask(port, path, token)[1] for path in ("/metrics", "/metrics/slis")}
        self.assert_distinct_series(metrics, values)
        manager.terminate()
        self.assertEqual(manager.wait(LIMIT), 0)
        metrics = "".join(metrics.values())
        self.assert_answers(metrics, values)
        return metrics

    def assert_within_its_permissions(self, metrics):
        refused = [line for line in metrics.splitlines() if re.match(r'rest_client_requests_total\{code="40[13]"', line)]
        log = (self.folder / "log").read_text()
        self.assertEqual(refused, [], log)
        self.assertIn('rest_client_requests_total{code="201"', metrics)
        self.assertNotIn("forbidden", log)
        self.assertIn('steersman_health_check_degraded{name="informer-sync"} 0', metrics)

    def test_in_place_with_one_account(self):
        values = {"mode": "replace"}
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
                    self.assertEqual(labels - {label for one in series for label in one}, set(), f"labels of {name}")
                    found = [one for one in series if equal.items() <= one.items()]
                    self.assertTrue(found or (name in exported and not equal), f"no {name} with {equal} among {series}")
        # Alerts and dashboard cover all counters of panics.
        for name in exported:
            if name.endswith("_panics_total"):
                for expressions in asked:
                    self.assertIn(f"{name}{{", "".join(expressions))

    def test_beside_with_an_account_for_each_controller(self):
        names = ["deployment", "replicaset", "garbagecollector"]
        metrics = self.work({"controllers": names, "useServiceAccountCredentials": True})
        self.assert_within_its_permissions(metrics)
        accounts = {made.metadata.name for made in self.core.list_namespaced_service_account("kube-system").items}
        self.assertLessEqual({"deployment-controller", "replicaset-controller", "generic-garbage-collector"}, accounts)
        client.CoordinationV1Api(self.api).read_namespaced_lease("steersman", "steersman")

    def static_pod(self, manifest, lease):
        """Starts the static pod of docs/ as on a kubeadm node: as kubeadm's user, with kubeadm's files."""
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


def alerts(values):
    """Returns the alerting rules with these values."""
    rule = {**values.get("prometheusRule", {}), "enabled": True}
    made = objects({**values, "prometheusRule": rule})
    (groups,) = [o["spec"]["groups"] for (kind, _), o in made.items() if kind == "PrometheusRule"]
    return [rule for group in groups for rule in group["rules"]]


def panels():
    """Returns the queries of the dashboard."""
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def replica_set(name, replicas):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


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


if __name__ == "__main__":
    unittest.main()
