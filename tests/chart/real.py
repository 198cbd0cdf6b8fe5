"""The chart on a real API server, beside a real kube-controller-manager and in its place.

    STEERSMAN=target/debug/steersman KUBEBUILDER_ASSETS=FOLDER python real.py -v

FOLDER has etcd, kube-apiserver and kube-controller-manager. kube-scheduler binds pods if it is there; otherwise the simulated nodes do.
"""

import base64
import contextlib
import datetime
import ipaddress
import os
import pathlib
import re
import ssl
import subprocess
import unittest
import urllib.request

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes import client

from chart import CHART, EVERYTHING, ROOT, notes, others_arguments, rendered
from clusters import LIMIT, ManagersOfChart, ask, definition, deployment, free_port

PROGRAMS = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager")
# A standby of either manager takes a Lease sooner than by default.
ELECTION = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
TOKENS = {"admin": "system:masters", "system:kube-controller-manager": "", "system:kube-scheduler": ""}


def new_key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def certificate(name, key, issuer=None):
    """Returns a certificate: an authority, or one for 127.0.0.1 that `issuer`, a pair of certificate and key, signs."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.issuer_name(issuer[0].subject if issuer else subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=not issuer, path_length=None), critical=True)
    if issuer:
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "10.96.0.1")]
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256())


@unittest.skipUnless(all((PROGRAMS / name).is_file() for name in NEEDED), f"KUBEBUILDER_ASSETS is no folder with {', '.join(NEEDED)}")
class RealServer(ManagersOfChart):
    def setUp(self):
        super().setUp()
        self.write_files()
        self.running = {}
        self.addCleanup(self.stop_all)
        store, peers, port = free_port(), free_port(), free_port()
        self.run_program("etcd", [
            f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=error", f"--listen-client-urls=http://127.0.0.1:{store}",
            f"--advertise-client-urls=http://127.0.0.1:{store}", f"--listen-peer-urls=http://127.0.0.1:{peers}",
        ])
        self.run_program("kube-apiserver", [
            f"--etcd-servers=http://127.0.0.1:{store}", f"--secure-port={port}", "--bind-address=127.0.0.1", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc", "--allow-privileged=true",
            f"--service-account-signing-key-file={self.folder}/sa.key", f"--service-account-key-file={self.folder}/sa.key",
            f"--token-auth-file={self.folder}/tokens.csv", f"--client-ca-file={self.folder}/ca.crt", "--enable-bootstrap-token-auth",
            f"--tls-cert-file={self.folder}/server.crt", f"--tls-private-key-file={self.folder}/server.key",
        ])
        self.server_url = f"https://127.0.0.1:{port}"
        self.eventually("ready", self.api_server_is_ready)
        self.write_kubeconfigs()
        self.connect(str(self.folder / "admin.conf"))
        has_scheduler = (PROGRAMS / "kube-scheduler").is_file()
        if has_scheduler:
            self.run_program("kube-scheduler", [*self.credentials_of("system:kube-scheduler"), f"--secure-port={free_port()}", "--bind-address=127.0.0.1"])
        self.run_program("nodes", [
            "nodes", f"--kubeconfig={self.kubeconfig}", "--count=3", *([] if has_scheduler else ["--schedule"]),
        ], os.environ["STEERSMAN"])

    def write_files(self):
        """Writes the files of kubeadm's /etc/kubernetes/pki."""
        authority_key, server_key = new_key(), new_key()
        authority = certificate("kubernetes", authority_key)
        files = {
            "ca.key": pem(authority_key), "ca.crt": authority.public_bytes(serialization.Encoding.PEM), "sa.key": pem(new_key()),
            "server.key": pem(server_key),
            "server.crt": certificate("kube-apiserver", server_key, (authority, authority_key)).public_bytes(serialization.Encoding.PEM),
            "tokens.csv": "".join(f'{name}-token,{name},{name},"{group}"\n' for name, group in TOKENS.items()).encode(),
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)

    def write_kubeconfigs(self):
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        for name in TOKENS:
            (self.folder / f"{name}.conf").write_text(yaml.safe_dump({
                "apiVersion": "v1", "kind": "Config", "current-context": "real",
                "clusters": [{"name": "real", "cluster": {"server": self.server_url, "certificate-authority-data": authority}}],
                "users": [{"name": name, "user": {"token": f"{name}-token"}}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
            }))

    def credentials_of(self, name):
        flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [f"--{flag}={self.folder}/{name}.conf" for flag in flags]

    def run_program(self, name, arguments, program=None):
        with open(self.folder / f"{name}.log", "w") as log:
            started = subprocess.Popen([program or PROGRAMS / name, *arguments], stdout=log, stderr=log, cwd=self.folder)
        self.running[name] = started
        return started

    def stop(self, name):
        started = self.running.pop(name)
        started.terminate()
        started.wait(LIMIT)

    def stop_all(self):
        # etcd ends last, because kube-apiserver waits for it.
        for name in reversed(list(self.running)):
            self.stop(name)

    def api_server_is_ready(self):
        self.assertIsNone(self.running["kube-apiserver"].poll(), self.log_of("kube-apiserver"))
        request = urllib.request.Request(f"{self.server_url}/readyz", headers={"Authorization": "Bearer admin-token"})
        trusted = ssl.create_default_context(cafile=self.folder / "ca.crt")
        with contextlib.suppress(OSError), urllib.request.urlopen(request, context=trusted, timeout=LIMIT) as answer:
            return answer.status == 200
        return False

    def log_of(self, name):
        files = [file for file in (self.folder / name, self.folder / f"{name}.log") if file.is_file()]
        return "\n".join(line for file in files for line in file.read_text().splitlines()[-20:])

    def run_controller_manager(self, controllers):
        """Starts kube-controller-manager with kubeadm's flags, and these arguments of --controllers."""
        self.run_program("kube-controller-manager", [
            *self.credentials_of("system:kube-controller-manager"), *(f"--controllers={item}" for item in controllers),
            f"--cluster-signing-cert-file={self.folder}/ca.crt", f"--cluster-signing-key-file={self.folder}/ca.key",
            f"--root-ca-file={self.folder}/ca.crt", f"--service-account-private-key-file={self.folder}/sa.key",
            "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s",
            "--use-service-account-credentials=true", "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
        ])

    def holder(self, namespace, name):
        return client.CoordinationV1Api(self.api).read_namespaced_lease(name, namespace).spec.holder_identity or ""

    def deployed(self, name, replicas):
        """Whether this Deployment is complete."""
        live = self.apps.read_namespaced_deployment(name, "default")
        status = live.status
        seen = status.observed_generation == live.metadata.generation
        return seen and (status.updated_replicas, status.available_replicas, status.replicas) == (replicas,) * 3

    def shell(self, command, **named):
        """Runs a command of the documentation, and returns what it said on standard error."""
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig, "PATH": f"{ROOT}/.venv/bin:{PROGRAMS}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], env=environment, timeout=LIMIT, capture_output=True, text=True, **named)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def scraped(self, namespace, ports):
        """Returns the metrics of the managers, read with the Secret that the ServiceMonitor names."""
        secret = lambda: self.core.read_namespaced_secret("steersman-scraper", namespace).data or {}
        self.eventually("a token in the Secret", lambda: "token" in secret())
        token = base64.b64decode(secret()["token"]).decode()
        answers = [ask(port, "/metrics", token) for port in ports]
        self.assertEqual([status for status, _ in answers], [200] * len(ports))
        return [body for _, body in answers]

    def define_monitors(self):
        """Creates the definition of ServiceMonitors, for the account that the chart makes for Prometheus."""
        client.ApiextensionsV1Api(self.api).create_custom_resource_definition(definition("servicemonitors", "ServiceMonitor"))

    def managers_ready(self, ports):
        for port in ports:
            self.eventually("ready", lambda: self.answers(port), lambda: self.log_of("first") + self.log_of("second"))

    def answers(self, port):
        with contextlib.suppress(OSError):
            return ask(port, "/readyz")[0] == 200
        return False

    def test_the_api_server_takes_all_renderings(self):
        self.define_monitors()
        self.core.create_namespace({"metadata": {"name": "steersman", "labels": {"pod-security.kubernetes.io/warn": "restricted"}}})
        everything = {"serviceMonitor": {"enabled": True}, "grafanaDashboard": {"enabled": True}}
        cases = [
            ({"controllers": ["deployment", "replicaset"]}, ""),
            ({"controllers": ["cronjob"], "kind": "Deployment"}, ""),
            ({"mode": "replace"}, ""),
            ({"mode": "replace", "kind": "Deployment", "useServiceAccountCredentials": False}, ""),
            ({"mode": "replace", "preset": "kubeadm", "hostNetwork": True}, "host namespaces (hostNetwork=true)"),
            ({**EVERYTHING, "prometheusRule": {}}, ""),
        ]
        apply = "kubectl apply --server-side --dry-run=server --validate=strict --filename -"
        for values, warning in cases:
            with self.subTest(values):
                said = self.shell(apply, input=rendered({**everything, **values}))
                self.assertIn(warning, said)
                if not warning:
                    self.assertNotIn("Warning", said)

    def test_without_a_preset_the_publisher_has_the_authority_of_the_pod(self):
        self.helm = self.helm_in("kube-system")
        values = {"mode": "replace", "controllers": ["root-ca-cert-publisher"]}
        self.helm.install(CHART, "steersman", values)
        self.manager("kube-system")
        self.core.create_namespace({"metadata": {"name": "team"}})
        self.assert_publishes_the_authority()

    def test_beside_kube_controller_manager_and_back(self):
        values = {"controllers": ["deployment", "replicaset"], "serviceMonitor": {"enabled": True}, "leaderElection": ELECTION}
        self.run_controller_manager(others_arguments(notes(values)))
        self.make_control_plane(2)
        self.define_monitors()

        # kube-controller-manager makes the pods of the managers, and kube-scheduler binds them.
        self.helm.install(CHART, "steersman", values, create_namespace=True, wait="watcher", timeout=LIMIT)
        self.assertTrue(self.runs_on(2))
        label = "node-role.kubernetes.io/control-plane"
        nodes = sorted(node.metadata.name for node in self.core.list_node(label_selector=label).items)
        self.assertEqual(sorted(pod.spec.node_name for pod in self.managers()), nodes)
        off = re.findall(r'Warning: controller is disabled" controller="([a-z-]+)"', (self.folder / "kube-controller-manager.log").read_text())
        self.assertLessEqual({"deployment-controller", "replicaset-controller"}, set(off))

        # Each pod is a process here. One leads, and rolls a Deployment out.
        self.apps.create_namespaced_deployment("default", deployment("web", 3))
        started = [self.manager(name=name) for name in ("first", "second")]
        ports = [port for _, port in started]
        self.managers_ready(ports)
        self.eventually("complete", lambda: self.deployed("web", 3))
        self.assertTrue(self.holder("steersman", "steersman"))

        # The leader ends, and the other one continues. The garbage collector is kube-controller-manager's.
        metrics = self.scraped("steersman", ports)
        leads = ['leader_election_master_status{name="steersman"} 1' in text for text in metrics]
        self.assertEqual(sorted(leads), [False, True])
        leader, _ = started[leads.index(True)]
        leader.terminate()
        self.assertEqual(leader.wait(LIMIT), 0)
        self.apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 4}})
        self.eventually("complete", lambda: self.deployed("web", 4))
        standby = leads.index(False)
        (after,) = self.scraped("steersman", [ports[standby]])
        for text, name in ((metrics[leads.index(True)], ("first", "second")[leads.index(True)]), (after, ("first", "second")[standby])):
            self.assert_within_its_permissions(text, name)

        # And back: no object of the chart remains, and kube-controller-manager has the Deployment.
        self.helm.uninstall("steersman", wait="watcher", timeout=LIMIT)
        started[standby][0].terminate()
        self.stop("kube-controller-manager")
        self.run_controller_manager(["*", "bootstrapsigner", "tokencleaner"])
        self.apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 5}})
        self.eventually("complete", lambda: self.deployed("web", 5))
        self.eventually("gone", lambda: not self.core.list_namespaced_pod("steersman").items)

    def test_in_place_of_kube_controller_manager_with_the_files_of_kubeadm(self):
        self.helm = self.helm_in("kube-system")
        self.run_controller_manager(["*", "bootstrapsigner", "tokencleaner"])
        self.make_control_plane(2)
        self.define_monitors()
        values = {"mode": "replace", "preset": "kubeadm", "hostNetwork": True, "serviceMonitor": {"enabled": True}, "leaderElection": ELECTION}
        self.helm.install(CHART, "steersman", values, wait="watcher", timeout=LIMIT)
        self.assertTrue(self.runs_on(2, "kube-system"))
        started = [self.manager("kube-system", name) for name in ("first", "second")]
        self.managers_ready([port for _, port in started])
        lease = ("kube-system", "kube-controller-manager")
        upstreams = self.holder(*lease)

        # kube-controller-manager goes, and one of the standbys leads.
        self.stop("kube-controller-manager")
        self.eventually("led by Steersman", lambda: self.holder(*lease) not in ("", upstreams))
        self.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="team")))
        self.apps.create_namespaced_deployment("default", deployment("web", 3))
        self.eventually("complete", lambda: self.deployed("web", 3))
        self.assert_signs_certificates()
        self.assert_publishes_the_authority()
        metrics = self.scraped("kube-system", [port for _, port in started])
        leads = ['leader_election_master_status{name="kube-controller-manager"} 1' in text for text in metrics]
        self.assertEqual(sorted(leads), [False, True])
        self.assert_within_its_permissions(metrics[leads.index(True)], ("first", "second")[leads.index(True)])

        # The managers make their own pods, also for a new node of the control plane.
        self.make_control_plane(3)
        self.eventually("on three nodes", lambda: self.runs_on(3, "kube-system"))
        self.assert_starts_again_by_hand(started)

    def assert_signs_certificates(self):
        """Asserts that an approved request gets a certificate of the cluster's authority."""
        key = new_key()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        request = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
        spec = {"signerName": "kubernetes.io/kube-apiserver-client", "request": request, "usages": ["client auth"]}
        certificates = client.CertificatesV1Api(self.api)
        made = certificates.create_certificate_signing_request({"metadata": {"name": "jane"}, "spec": spec})
        made.status.conditions = [{"type": "Approved", "status": "True", "reason": "Test", "message": "of this test"}]
        certificates.replace_certificate_signing_request_approval("jane", made)
        issued = lambda: certificates.read_certificate_signing_request("jane").status.certificate
        self.eventually("signed", issued)
        leaf = x509.load_pem_x509_certificate(base64.b64decode(issued()))
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate((self.folder / "ca.crt").read_bytes()))

    def assert_publishes_the_authority(self):
        wanted = (self.folder / "ca.crt").read_text()

        def published():
            with contextlib.suppress(client.ApiException):
                return self.core.read_namespaced_config_map("kube-root-ca.crt", "team").data == {"ca.crt": wanted}
        self.eventually("published", published)

    def assert_starts_again_by_hand(self, started):
        """Asserts that the commands of the README start the managers when all their pods are gone."""
        for manager, _ in started:
            manager.terminate()
            manager.wait(LIMIT)
        self.core.delete_collection_namespaced_pod("kube-system", label_selector="app.kubernetes.io/instance=steersman")
        self.eventually("gone", lambda: not self.managers("kube-system"))

        readme = (CHART / "README.md").read_text()
        (section,) = re.findall(r"^### Cold start\n(.*?)^##", readme, re.MULTILINE | re.DOTALL)
        create, delete = re.findall(r"((?:^    .*\n)+)", section, re.MULTILINE)
        self.shell(create)
        first = lambda: self.core.read_namespaced_pod("steersman-start", "kube-system")
        self.eventually("running", lambda: first().status.phase == "Running")
        self.manager("kube-system", "third")
        # The pod on the same node waits for the port.
        self.eventually("on the others", lambda: len([pod for pod in self.managers("kube-system") if pod.metadata.owner_references]) >= 2)
        self.shell(delete)
        self.eventually("on three nodes", lambda: self.runs_on(3, "kube-system"))


if __name__ == "__main__":
    unittest.main()
