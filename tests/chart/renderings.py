"""Renderings of the chart with the real Helm. STEERSMAN is the program; UPDATE_CHART=1 renews the golden files.

    STEERSMAN=target/debug/steersman python renderings.py -v
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import helm_python as helm
import yaml

from chart import (
    CHART, EVERYTHING, GOLDEN, KUBEADM, MOST, ROOT, alerts, arguments, arguments_of, notes, objects, others_arguments, panels, rendered, workload,
)

LIMIT = 90


class Renderings(unittest.TestCase):
    def test_lint_has_no_findings(self):
        for values in ({"controllers": MOST}, {"mode": "replace"}, KUBEADM, EVERYTHING, {**EVERYTHING, "grafanaDashboard": {"enabled": True}}):
            report = helm.lint(CHART, values, strict=True)
            worse = [message for message in report["messages"] if message["severity"] > 1]
            self.assertEqual((worse, report["errors"]), ([], []), report)

    def test_renderings_equal_the_golden_files(self):
        cases = {
            "beside": {"controllers": ["deployment", "replicaset-controller"]},
            "replace": {"mode": "replace", "controllers": ["deployment", "replicaset", "garbagecollector"]},
            "everything": EVERYTHING,
            "kubeadm": KUBEADM,
        }
        for name, values in cases.items():
            namespace = "kube-system" if name == "kubeadm" else "steersman"
            for suffix, found in ((".yaml", rendered(values, namespace=namespace)), (".notes.txt", notes(values, namespace=namespace))):
                file = GOLDEN / f"{name}{suffix}"
                with self.subTest(file.name):
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
            ({"kind": "StatefulSet"}, "'/kind': value must be one of 'DaemonSet', 'Deployment'"),
            ({"preset": "rke2"}, "'/preset': value must be one of 'none', 'kubeadm'"),
            ({"featureGates": {"StorageVersionMigrator": "yes"}}, "'/featureGates/StorageVersionMigrator': got string, want boolean"),
            ({"featureGates": ["AllAlpha=true"]}, "'/featureGates': got array, want object"),
            ({"hostAliases": [{"ip": "10.0.0.1"}]}, "'/hostAliases/0': missing property 'hostnames'"),
            ({"extraVolumes": [{"hostPath": {"path": "/"}}]}, "'/extraVolumes/0': missing property 'name'"),
            ({"extraVolumeMounts": [{"name": "x"}]}, "'/extraVolumeMounts/0': missing property 'mountPath'"),
            ({"securePort": 0}, "'/securePort': minimum: got 0, want 1"),
            ({"prometheusRule": {"managers": -1}}, "'/prometheusRule/managers': minimum: got -1, want 0"),
            ({"serviceMonitor": {"interval": "30"}}, "'/serviceMonitor/interval': '30' does not match pattern"),
        ]
        with helm.Chart.load(CHART) as chart:
            for values, message in cases:
                with self.subTest(message), self.assertRaises(helm.HelmValuesError) as refused:
                    chart.validate_schema({"controllers": ["cronjob"], **values})
                self.assertIn(message, str(refused.exception))

    def test_names_that_look_like_other_types_stay_strings(self):
        values = {
            "controllers": ["cronjob"], "fullnameOverride": "on", "imagePullSecrets": ["123"], "tls": {"secretName": "1e3"},
            "priorityClassName": "yes", "serviceAccount": {"name": "0"}, "leaderElection": {"leaseName": "1", "leaseNamespace": "2"},
            "image": {"repository": "12", "tag": "30"},
            "serviceMonitor": {"enabled": True, "jobName": "a: 7", "scrapeClass": "no", "scraper": "8/9"},
        }
        made = objects(values, namespace="456")
        pod = made[("DaemonSet", "on")]["spec"]["template"]["spec"]
        self.assertEqual({o["metadata"]["namespace"] for o in made.values() if not o["kind"].startswith("Cluster")}, {"456", "2", "kube-system"})
        self.assertEqual(pod["imagePullSecrets"], [{"name": "123"}])
        self.assertEqual(pod["volumes"][0]["secret"]["secretName"], "1e3")
        self.assertEqual((pod["priorityClassName"], pod["serviceAccountName"], pod["containers"][0]["image"]), ("yes", "0", "12:30"))
        self.assertIn(("ServiceAccount", "0"), made)
        self.assertIn(("RoleBinding", "on-leader-election"), made)
        self.assertEqual(made[("ClusterRoleBinding", "on-scraper")]["subjects"], [{"kind": "ServiceAccount", "name": "9", "namespace": "8"}])
        monitor = made[("ServiceMonitor", "on")]["spec"]
        self.assertEqual((monitor["scrapeClass"], monitor["endpoints"][0]["relabelings"][0]["replacement"]), ("no", "a: 7"))

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
                values = {"controllers": ["cronjob"], "leaderElection": dict(zip(names, durations))}
                # The program refuses the same durations.
                flags = [f"--leader-elect-{flag}={value}" for flag, value in zip(("lease-duration", "renew-deadline", "retry-period"), durations)]
                command = [os.environ["STEERSMAN"], f"--kubeconfig={kubeconfig.name}", "--secure-port=0", *flags]
                said = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
                self.assertIn(f"{message.split(' ')[0]} must be greater than", said.stderr)
                with self.assertRaises(helm.HelmError) as refused:
                    rendered(values)
                self.assertIn(f"leaderElection: {message}", str(refused.exception))
        rendered({"controllers": ["cronjob"], "leaderElection": dict(zip(names, ("1m30s", "1m", "49s")))})
        rendered({"controllers": ["cronjob"], "leaderElection": dict(zip(names, ("15s", "12.001s", "10s")))})

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
        runs = lambda controller: controller["enabledByDefault"] and controller.get("gate", {}).get("default", True)
        every = [controller["name"] for controller in known if runs(controller) and controller["name"] != "daemonset-controller"]
        cases = [
            (["*", "-daemonset"], every),
            (["replicaset", "deployment"], ["deployment-controller", "replicaset-controller"]),
            (["*", "-garbagecollector", "-daemonset"], [name for name in every if name != "garbage-collector-controller"]),
            (["deployment", "-deployment-controller"], ["deployment-controller"]),
            (["-podgc", "podgc", "namespace"], ["namespace-controller"]),
        ]
        # In mode replace, the list for kube-controller-manager is passed on unchanged.
        taken_over = ["*", "bootstrapsigner", "-nodeipam", "-ttl"]
        self.assertEqual(arguments(objects({"mode": "replace", "controllers": taken_over}))["controllers"], ",".join(taken_over))
        for items, names in cases:
            with self.subTest(items):
                flags = arguments(objects({"controllers": items}, namespace="kube-system"))
                self.assertEqual(flags["controllers"].split(","), names)

    def test_controllers_that_make_their_own_pods_are_refused(self):
        cases = [
            ({"controllers": ["daemonset"]}, "mode beside, kind DaemonSet: daemonset-controller in `controllers` would have to make the pod"),
            ({"controllers": ["*"]}, "mode beside, kind DaemonSet: daemonset-controller"),
            ({"controllers": ["deployment"], "kind": "Deployment"}, "mode beside, kind Deployment: deployment-controller in `controllers`"),
            ({"controllers": ["replicaset"], "kind": "Deployment"}, "mode beside, kind Deployment: replicaset-controller in `controllers`"),
            ({"controllers": ["root-ca-cert-publisher"]}, "mode beside: root-ca-certificate-publisher-controller in `controllers` needs --namespace kube-system"),
        ]
        for values, message in cases:
            with self.subTest(message):
                with self.assertRaises(helm.HelmError) as refused:
                    rendered(values)
                self.assertIn(message, str(refused.exception))
                # In place of kube-controller-manager, that one makes the pods first.
                rendered({**values, "mode": "replace"})
        rendered({"controllers": ["daemonset"], "kind": "Deployment"})
        rendered({"controllers": ["deployment", "replicaset"]})
        rendered({"controllers": ["root-ca-cert-publisher"]}, namespace="kube-system")

    def test_contradictory_values_are_refused(self):
        cases = [
            ({"extraArgs": ["--controllers=*"]}, "--controllers in `extraArgs`: use the value controllers"),
            ({"extraArgs": ["--leader-elect-resource-name=x"]}, "use the value leaderElection.leaseName"),
            ({"extraArgs": ["--feature-gates=AllAlpha=true"]}, "use the value featureGates"),
            ({"affinity": {"nodeAffinity": {"x": []}}}, "affinity.nodeAffinity needs controlPlaneNodes=false"),
            ({"serviceMonitor": {"enabled": True, "scraper": "a/b"}}, "serviceMonitor.scraper needs serviceMonitor.scrapeClass"),
            ({"controllers": ["svm"]}, "storage-version-migrator-controller in `controllers` needs featureGates.StorageVersionMigrator=true"),
        ]
        for values, message in cases:
            with self.subTest(message), self.assertRaises(helm.HelmError) as refused:
                rendered({"controllers": ["cronjob"], **values})
            self.assertIn(message, str(refused.exception))

    def test_pods_satisfy_the_restricted_pod_security_standard(self):
        for values in ({"controllers": MOST}, EVERYTHING):
            pod = workload(objects(values))["spec"]["template"]["spec"]
            self.assertLessEqual({"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items(), pod["securityContext"].items())
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & pod.keys())
            self.assertLessEqual({kind for volume in pod.get("volumes", []) for kind in volume}, {"name", "secret"})
            (container,) = pod["containers"]
            confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            self.assertEqual(container["securityContext"], confined)
            self.assertNotIn("hostPort", container["ports"][0])

    def test_managers_run_on_nodes_of_the_control_plane(self):
        exists = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
        for kind, tolerations in (("DaemonSet", [{"operator": "Exists"}]), ("Deployment", [{**exists, "effect": "NoSchedule"}])):
            values = {"controllers": ["cronjob"], "kind": kind}
            pod = workload(objects(values))["spec"]["template"]["spec"]
            (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            self.assertEqual((term, pod["tolerations"]), ({"matchExpressions": [exists]}, tolerations))
            self.assertEqual("topologySpreadConstraints" in pod, kind == "Deployment")
            anywhere = workload(objects({**values, "controlPlaneNodes": False, "affinity": {"nodeAffinity": {"x": []}}}))
            self.assertEqual(anywhere["spec"]["template"]["spec"]["affinity"], {"nodeAffinity": {"x": []}})

    def test_a_deployment_on_the_network_of_nodes_waits_for_the_port_of_an_old_pod(self):
        values = {"controllers": ["cronjob"], "kind": "Deployment"}
        self.assertNotIn("strategy", workload(objects(values))["spec"])
        made = objects({**values, "hostNetwork": True})
        self.assertEqual(workload(made)["spec"]["strategy"], {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
        self.assertNotIn(("NetworkPolicy", "steersman"), made, "it has no effect on such pods")
        self.assertIn(("NetworkPolicy", "steersman"), objects(values))

    def test_the_preset_gives_controllers_their_own_files_only(self):
        pki = "/etc/kubernetes/pki"
        signing = {"cluster-signing-cert-file": f"{pki}/ca.crt", "cluster-signing-key-file": f"{pki}/ca.key"}
        root, key = {"root-ca-file": f"{pki}/ca.crt"}, {"service-account-private-key-file": f"{pki}/sa.key"}
        own = {"root-ca-file": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"}
        cases = [
            (["cronjob"], {}, {}),
            (["csrsigning"], signing, {}),
            (["root-ca-cert-publisher"], root, own),
            (["serviceaccount-token"], root | key, own),
            (["*"], signing | root | key, own),
        ]
        for names, preset, none in cases:
            for value, wanted in (("kubeadm", preset), ("none", none)):
                with self.subTest(names=names, preset=value):
                    made = workload(objects({"mode": "replace", "controllers": names, "preset": value}))
                    pod = made["spec"]["template"]["spec"]
                    flags = {flag: file for flag, file in arguments_of(made).items() if flag.endswith("-file")}
                    self.assertEqual(flags, wanted)
                    paths = sorted(set(wanted.values()) - set(own.values()))
                    self.assertEqual(sorted(volume["hostPath"]["path"] for volume in pod.get("volumes", [])), paths)
                    self.assertEqual(sorted(mount["mountPath"] for mount in pod["containers"][0].get("volumeMounts", [])), paths)
                    self.assertEqual(pod["securityContext"]["runAsUser"], 0 if value == "kubeadm" else 65532)
        # Flags of the user come first.
        own = {"extraArgs": ["--root-ca-file=/x", "--cluster-signing-kubelet-serving-cert-file=/y", "--service-account-private-key-file=/z"]}
        made = workload(objects({"mode": "replace", "preset": "kubeadm", **own}))
        self.assertNotIn("volumes", made["spec"]["template"]["spec"])
        self.assertEqual(arguments_of(made)["root-ca-file"], "/x")
        self.assertEqual(arguments_of(made)["controllers"], "*,bootstrapsigner,tokencleaner")

    def test_rights_come_with_the_feature_gate(self):
        migrator = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "create", "patch"]}
        cases = [
            ({}, False), ({"StorageVersionMigrator": True}, True), ({"AllBeta": True}, True), ({"AllAlpha": True}, False),
            ({"AllBeta": True, "StorageVersionMigrator": False}, False),
        ]
        for gates, has_right in cases:
            with self.subTest(gates):
                values = {"mode": "replace", "useServiceAccountCredentials": False, "featureGates": gates}
                made = objects(values)
                self.assertEqual(migrator in made[("ClusterRole", "steersman")]["rules"], has_right)
                flags = arguments(made)
                self.assertEqual(flags.get("feature-gates"), ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items())) or None)
                made = objects({**values, "useServiceAccountCredentials": True})
                accounts = made[("Role", "steersman-controller-accounts")]["rules"][1]["resourceNames"]
                self.assertEqual("storage-version-migrator-controller" in accounts, has_right)
                self.assertEqual("storage-version-migrator-controller:" in notes(values), not has_right)
        groups = {group for rule in objects({"mode": "replace"})[("ClusterRole", "steersman")]["rules"] for group in rule["apiGroups"]}
        self.assertFalse({"storagemigration.k8s.io", "internal.apiserver.k8s.io", "scheduling.k8s.io"} & groups, groups)

    def test_further_rights_of_a_controller_come_with_the_feature_gate(self):
        def rule(group, resource, *verbs):
            return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}

        scheduling, devices = "scheduling.k8s.io", "resource.k8s.io"
        cases = [
            ("WorkloadWithJob", "AllAlpha", rule(scheduling, "workloads", "list", "watch"), rule(scheduling, "workloads", "get", "create")),
            ("DRAWorkloadResourceClaims", "AllAlpha", rule(scheduling, "podgroups", "list", "watch"), rule(scheduling, "podgroups/status", "patch")),
            ("DRADeviceTaintRules", "AllBeta", rule(devices, "devicetaintrules", "list", "watch"), rule(devices, "devicetaintrules/status", "patch")),
        ]
        for gate, stage, of_informers, own in cases:
            for gates, has_rights in (({}, False), ({gate: True}, True), ({stage: True}, True), ({stage: True, gate: False}, gate == "DRAWorkloadResourceClaims")):
                with self.subTest(gates):
                    values = {"mode": "replace", "useServiceAccountCredentials": False, "featureGates": gates}
                    rules = objects(values)[("ClusterRole", "steersman")]["rules"]
                    self.assertEqual(of_informers in rules, has_rights)
                    self.assertEqual(own in rules, has_rights and (gates.get(gate, True)))
                    self.assertNotIn("gate", set().union(*rules))
                    rules = objects({**values, "useServiceAccountCredentials": True})[("ClusterRole", "steersman")]["rules"]
                    self.assertEqual(of_informers in rules, has_rights)
                    self.assertNotIn(own, rules)

    def test_candidates_of_a_coordinated_election_have_their_right(self):
        key = ("Role", "steersman-lease-candidates")
        self.assertNotIn(key, objects({"mode": "replace"}))
        role = objects({"mode": "replace", "featureGates": {"CoordinatedLeaderElection": True}})[key]
        self.assertEqual(role["metadata"]["namespace"], "kube-system")
        self.assertEqual(role["rules"][0]["resources"], ["leasecandidates"])

    def test_notes_have_short_lines_and_tell_what_is_missing(self):
        for values in ({"mode": "replace"}, {"controllers": MOST}, {"controllers": ["*", "-daemonset"]}, KUBEADM, EVERYTHING):
            for line in notes(values, namespace="kube-system").splitlines():
                self.assertLessEqual(len(line), 104, line)
        missing = ("certificatesigningrequest-signing-controller", "serviceaccount-token-controller", "node-ipam-controller")
        for name in missing:
            self.assertIn(f"\n  {name}:\n", notes({"mode": "replace"}))
            self.assertNotIn(f"\n  {name}:\n", notes(KUBEADM))
        self.assertNotIn("do not run without", notes({"controllers": ["cronjob"]}))
        self.assertIn("--service-account-private-key-file", notes({"controllers": ["serviceaccount-token"]}))
        self.assertIn("do not run daemonset-controller", notes({"mode": "replace", "controllers": ["cronjob"]}))

    def test_each_controller_runs_in_one_of_the_two_managers(self):
        known = yaml.safe_load((CHART / "files/controllers.yaml").read_text())
        kubeadm = ["*", "bootstrapsigner", "tokencleaner"]

        def selected(items):
            first = {}
            for item in items:
                first.setdefault(item.removeprefix("-"), not item.startswith("-"))
            named = lambda one: next((first[name] for name in [one["name"], *one["aliases"]] if name in first), None)
            return {one["name"] for one in known if (named(one) if named(one) is not None else one["enabledByDefault"] and "*" in first)}

        for controllers in (["deployment", "replicaset"], ["*", "-daemonset"], MOST, ["bootstrapsigner", "cronjob"]):
            with self.subTest(controllers):
                values = {"controllers": controllers}
                ours = set(arguments(objects(values, namespace="kube-system"))["controllers"].split(","))
                theirs = selected(others_arguments(notes(values, namespace="kube-system")))
                self.assertEqual((ours & theirs, ours | theirs), (set(), selected(kubeadm)))

    def test_a_missing_leader_is_critical_only_without_another_manager(self):
        for values, severity in (
            ({"controllers": ["cronjob"]}, "critical"),
            ({"mode": "replace"}, "info"),
            ({"mode": "replace", "prometheusRule": {"noLeaderSeverity": "critical"}}, "critical"),
        ):
            (alert,) = [rule for rule in alerts(values) if rule["alert"] == "SteersmanNoLeader"]
            self.assertEqual(alert["labels"], {"severity": severity})
            explained = "as it should be for as long as kube-controller-manager holds it" in alert["annotations"]["description"]
            self.assertEqual(explained, "mode" in values)

    def test_each_alert_has_a_runbook_whose_flags_and_values_exist(self):
        said = subprocess.run([os.environ["STEERSMAN"], "--help"], capture_output=True, text=True, check=True).stdout
        flags = set(re.findall(r"^ +(--[a-z0-9-]+)", said, re.MULTILINE)) | {"--v"}
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        pages = {page.stem for page in (ROOT / "docs/runbooks").glob("*.md")} - {"README"}
        self.assertEqual({rule["alert"] for rule in alerts(EVERYTHING)}, pages)
        for rule in alerts(EVERYTHING):
            with self.subTest(rule["alert"]):
                self.assertEqual(rule["annotations"]["runbook_url"], f"https://example.com/runbooks/{rule['alert']}.md")
                page = (ROOT / "docs/runbooks" / f"{rule['alert']}.md").read_text()
                for heading in ("## Meaning", "## Look", "## Act"):
                    self.assertIn(f"\n{heading}\n", page)
                # Options of other programs stand in indented commands.
                prose = "\n".join(line for line in page.splitlines() if not line.startswith("    "))
                self.assertLessEqual(set(re.findall(r"`(--[a-z0-9-]+)", prose)), flags)
                for group, key in re.findall(r"`([a-zA-Z]+)\.([a-zA-Z]+)(?:=[^`]*)?`", page):
                    self.assertIn(key, values.get(group, {}), f"{group}.{key} is no value of the chart")

    def test_the_dashboard_equals_its_file(self):
        values = {"controllers": ["cronjob"], "grafanaDashboard": {"enabled": True}}
        made = objects(values)[("ConfigMap", "steersman-dashboard")]
        self.assertEqual(made["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(json.loads(made["data"]["steersman.json"]), json.loads((CHART / "files/dashboard.json").read_text()))

    def test_panels_link_to_views_of_the_page(self):
        dashboard = json.loads((CHART / "files/dashboard.json").read_text())
        page = next(one for one in dashboard["templating"]["list"] if one["name"] == "page")
        self.assertEqual(page["current"]["value"], page["query"])
        self.assertIn(page["query"].split(":")[2], (ROOT / "docs/page.md").read_text(), "the docs tell how to serve the page there")
        views = re.findall(r"^  (\w+): \[\"", (ROOT / "src/ui/page/main.js").read_text(), re.MULTILINE)
        linked = set()
        for link in (link for panel in dashboard["panels"] for link in panel.get("links", [])):
            start, view = link["url"].rsplit("/", 1)
            self.assertEqual(start, "${page:raw}/ui/#")
            self.assertIn(view, views)
            linked.add(view)
        self.assertEqual(linked, {"stuck", "flow", "leadership"})

    def test_the_service_monitor_has_no_deprecated_fields(self):
        for values in ({"controllers": ["cronjob"], "serviceMonitor": {"enabled": True}}, EVERYTHING):
            made = objects(values)
            (monitor,) = [o["spec"] for (kind, _), o in made.items() if kind == "ServiceMonitor"]
            for endpoint in monitor["endpoints"]:
                self.assertFalse({"bearerTokenFile", "bearerTokenSecret", "targetPort"} & endpoint.keys())
                self.assertEqual("authorization" in endpoint, values is not EVERYTHING)
                self.assertEqual("scrapeClass" in monitor, values is EVERYTHING)
        made = objects({"controllers": ["cronjob"], "serviceMonitor": {"enabled": True}})
        account = {"kind": "ServiceAccount", "name": "steersman-scraper", "namespace": "steersman"}
        self.assertEqual(made[("ClusterRoleBinding", "steersman-scraper")]["subjects"], [account])
        self.assertEqual(made[("Secret", "steersman-scraper")]["metadata"]["annotations"], {"kubernetes.io/service-account.name": "steersman-scraper"})

    @unittest.skipUnless(shutil.which("promtool"), "no promtool")
    def test_promtool_accepts_the_alerts(self):
        for values in ({"controllers": ["cronjob"]}, {"mode": "replace"}, EVERYTHING, {**EVERYTHING, "replicaCount": 1}):
            with tempfile.TemporaryDirectory() as folder:
                self.promtool("check", rules_file(folder, values))

    @unittest.skipUnless(shutil.which("promtool"), "no promtool")
    def test_an_alert_fires_when_one_of_two_managers_is_down(self):
        rule = {"exp_alerts": [{"exp_labels": {"severity": "warning"}}], "alertname": "SteersmanManagerDown"}
        (alert,) = [one for one in alerts({"controllers": ["cronjob"]}) if one["alert"] == rule["alertname"]]
        rule["exp_alerts"][0]["exp_annotations"] = alert["annotations"]
        quiet = {**rule, "exp_alerts": []}
        up = 'up{job="steersman", namespace="steersman", service="steersman", instance="%s", metrics_path="%s"}'
        paths = ("/metrics", "/metrics/slis")
        # Each node's manager up or down or gone, and whether the alert fires.
        cases = [(("1", "1"), quiet), (("1", "0"), rule), (("1", None), rule), (("1", "1", "0"), rule), (("1", "1", "1"), quiet)]
        with tempfile.TemporaryDirectory() as folder:
            tests = []
            for nodes, wanted in cases:
                series = [
                    {"series": up % (node, path), "values": f"1 1 {value}x30" if value == "1" else f"1 1 {value}+0x30" if value else "1 1 stale"}
                    for node, value in enumerate(nodes) for path in paths
                ]
                # Another program with the same labels but for the Service.
                series.append({"series": (up % ("other", "/metrics")).replace('service="steersman"', 'service="other"'), "values": "0x40"})
                tests.append({"interval": "1m", "input_series": series, "alert_rule_test": [{"eval_time": "20m", **wanted}]})
            file = pathlib.Path(folder, "tests.yaml")
            rules = rules_file(folder, {"controllers": ["cronjob"]})
            file.write_text(yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}))
            self.promtool("test", str(file))

    @unittest.skipUnless(shutil.which("promtool"), "no promtool")
    def test_an_alert_fires_at_the_first_violation_of_an_invariant(self):
        labels = {"client": "deployment-controller", "invariant": "rollout_surge"}
        alert = {
            "exp_labels": {"severity": "warning", **labels},
            "exp_annotations": {
                "runbook_url": "docs/runbooks/SteersmanInvariantViolation.md",
                "summary": "The invariant rollout_surge refused writes of deployment-controller.",
                "description": "The decision was wrong, so nothing was written. The log of the manager shows the decision. Please report it.",
            },
        }
        series = 'steersman_invariant_violations_total{job="steersman", instance="a", %s}' % ", ".join(f'{name}="{value}"' for name, value in labels.items())
        # The time of the look, and the alerts then. The violation happens at 10 minutes.
        cases = [("9m", []), ("11m", [alert]), ("20m", [alert]), ("30m", [])]
        looks = [{"eval_time": time, "alertname": "SteersmanInvariantViolation", "exp_alerts": wanted} for time, wanted in cases]
        one = {"interval": "1m", "input_series": [{"series": series, "values": "0x9 1x30"}], "alert_rule_test": looks}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tests.yaml")
            rules = rules_file(folder, {"controllers": ["cronjob"]})
            file.write_text(yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": [one]}))
            self.promtool("test", str(file))

    def test_stuck_objects_ring_by_controller_and_reason(self):
        for values, job in (({"controllers": ["cronjob"]}, "steersman"), ({"mode": "replace"}, "kube-controller-manager")):
            (alert,) = [one for one in alerts(values) if one["alert"] == "SteersmanStuckObjects"]
            self.assertEqual(alert["expr"], f'sum by (controller, reason) (steersman_stuck_objects{{job="{job}"}}) > 0')
        self.assertIn('sum by (controller, reason) (steersman_stuck_objects{job=~"$job"})', panels())

    def test_people_get_rights_only_by_a_binding(self):
        made = objects({"controllers": ["cronjob"]})
        for name, path in (("steersman-why", "/debug/why/*"), ("steersman-debug", "/debug/*")):
            (rule,) = made[("ClusterRole", name)]["rules"]
            self.assertEqual((path in rule["nonResourceURLs"], rule["verbs"], set(rule)), (True, ["get"], {"nonResourceURLs", "verbs"}))
            bound = [o for o in made.values() if o["kind"].endswith("Binding") and o["roleRef"]["name"] == name]
            self.assertEqual(bound, [])
        self.assertNotIn("/debug/*", made[("ClusterRole", "steersman-why")]["rules"][0]["nonResourceURLs"])

    def promtool(self, action, file):
        checked = subprocess.run(["promtool", action, "rules", file], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_only_selected_controllers_have_permissions(self):
        def rules(**values):
            one_account = {"useServiceAccountCredentials": False}
            return objects({**one_account, **values}, namespace="kube-system")[("ClusterRole", "steersman")]["rules"]

        pods = [rule for rule in rules(controllers=["podgc"]) if rule["resources"] == ["pods"]]
        rule = {"apiGroups": [""], "resources": ["pods"]}
        self.assertEqual(pods, [{**rule, "verbs": ["list", "watch"]}, {**rule, "verbs": ["delete"]}])
        self.assertNotIn("*", json.dumps(rules(controllers=["deployment", "replicaset", "podgc"])))
        made = objects({"controllers": ["tokencleaner"], "useServiceAccountCredentials": False})
        role = made[("Role", "steersman-controllers")]
        rule = {"apiGroups": [""], "resources": ["secrets"]}
        self.assertEqual(role["rules"], [{**rule, "verbs": ["list", "watch"]}, {**rule, "verbs": ["delete"]}])
        self.assertEqual(role["metadata"]["namespace"], "kube-system")
        self.assertFalse(made[("ClusterRole", "steersman")]["rules"])
        # This controller makes tokens for the others, so it keeps the rights of the manager.
        others = ["*", "-serviceaccount-token-controller", "-daemonset"]
        for rule in rules(controllers=others, useServiceAccountCredentials=True):
            self.assertEqual(rule["verbs"], ["list", "watch"])

    def test_the_program_accepts_the_flags_of_the_chart(self):
        for values in ({"controllers": MOST}, KUBEADM, EVERYTHING):
            flags = [f"--{name}={value}" for name, value in arguments(objects(values)).items()]
            said = subprocess.run([os.environ["STEERSMAN"], *flags, "--version"], capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout), (0, "Kubernetes v1.36.2\n"), said.stderr)


def rules_file(folder, values):
    """Writes the alerts as a file of rules."""
    file = pathlib.Path(folder, "rules.yaml")
    file.write_text(yaml.safe_dump({"groups": [{"name": "steersman", "rules": alerts(values)}]}))
    return str(file)


if __name__ == "__main__":
    unittest.main()
