"""A real control plane for one case: etcd, kube-apiserver and a manager, and a client that plays user and kubelet.

There are no nodes and no scheduler. A case binds its pods itself and writes their status, as a kubelet does.
"""

import json
import pathlib
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

TOKEN = "cases"
# Admission plugins that change objects behind the back of a case.
WITHOUT = "ServiceAccount,TaintNodesByCondition,Priority,DefaultTolerationSeconds,StorageObjectInUseProtection"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class World:
    """The processes of one case, and requests to its API server as a member of system:masters."""

    def __init__(self, assets, manager, folder, port):
        self.assets, self.manager_path = pathlib.Path(assets), manager
        self.folder, self.port = pathlib.Path(folder), port
        self.processes, self.manager = [], None
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def start(self):
        store = f"http://127.0.0.1:{self.port + 1}"
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "sa.key", "2048"], check=True, stderr=subprocess.DEVNULL)
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        (self.folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "clusters": [{"name": "real", "cluster": {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        }))
        self.spawn("etcd", self.assets / "etcd", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=error",
                   f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
                   f"--listen-peer-urls=http://127.0.0.1:{self.port + 2}")
        self.spawn("kube-apiserver", self.assets / "kube-apiserver", f"--etcd-servers={store}", f"--secure-port={self.port}",
                   "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/certificates", f"--token-auth-file={self.folder}/tokens.csv",
                   "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
                   f"--service-account-key-file={self.folder}/sa.key", f"--service-account-signing-key-file={self.folder}/sa.key",
                   "--service-account-issuer=https://kubernetes.default.svc", "--enable-priority-and-fairness=false",
                   "--enable-aggregator-routing=true",
                   f"--disable-admission-plugins={WITHOUT}")
        self.until("the API server is ready", 240, lambda: self.ask("GET", "/readyz", raw=True))

    def spawn(self, name, *command):
        log = open(self.folder / f"{name}.log", "a")
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def start_manager(self, controllers, *flags):
        """Starts the manager with these controllers only. It leads at once, so a restart costs no time."""
        self.manager = self.spawn(
            "manager", self.manager_path, f"--kubeconfig={self.folder}/kubeconfig", f"--authentication-kubeconfig={self.folder}/kubeconfig",
            f"--authorization-kubeconfig={self.folder}/kubeconfig", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={self.port + 3}", f"--cert-dir={self.folder}/manager", f"--controllers={controllers}",
            "--kube-api-qps=200", "--kube-api-burst=400", *flags)

    def kill_manager(self, how=signal.SIGKILL):
        self.manager.send_signal(how)
        self.manager.wait()
        self.processes.remove(self.manager)

    def stop(self):
        # The API server ends before its store.
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def ask(self, verb, path, body=None, kind="application/json", raw=False):
        """Sends one request. Returns the object of the answer, or None while there is no server."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=verb)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        data = None
        if body is not None:
            request.add_header("Content-Type", kind)
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, context=self.tls, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if raw:
                return None
            raise Refused(error.code, text) from None
        except urllib.error.URLError:
            if raw:
                return None
            raise
        return text if raw else json.loads(text)

    def get(self, path):
        """The object, or None if there is none, or if its type is just being set up."""
        try:
            return self.ask("GET", path)
        except Refused as refused:
            if refused.code in (404, 429):
                return None
            raise

    def all(self, path):
        return self.ask("GET", path)["items"]

    def create(self, path, body):
        return self.ask("POST", path, body)

    def patch(self, path, body, how="merge"):
        return self.ask("PATCH", path, body, PATCHES[how])

    def delete(self, path, **options):
        return self.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def until(self, state, seconds, holds):
        """Waits until `holds` returns something true, and returns it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds} s: {state}")

    def within(self, seconds, holds):
        """What `holds` returns, as soon as it is true within this time, else its last value."""
        end = time.monotonic() + seconds
        while True:
            found = holds()
            if found or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def pause(self, seconds):
        """Lets the manager finish syncs that follow its own writes, which no request can tell."""
        time.sleep(seconds)

    def namespace(self, name="shop"):
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return f"/api/v1/namespaces/{name}"

    def node(self, name, ready="True", **spec):
        self.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})
        conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}]
        room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        status = {"conditions": conditions, "capacity": room, "allocatable": room}
        self.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        return f"/api/v1/nodes/{name}"

    def run(self, pod, ready=True, ip="10.1.0.1", phase="Running"):
        """Writes the status of a pod as a kubelet does. `pod` is its path."""
        conditions = [{"type": kind, "status": str(ready), "lastTransitionTime": now()} for kind in ("Ready", "ContainersReady")]
        status = {"phase": phase, "conditions": conditions, "podIP": ip, "podIPs": [{"ip": ip}]}
        return self.patch(f"{pod}/status", {"status": status})

    def bind(self, pod, node):
        self.create(f"{pod}/binding", {"metadata": {"name": pod.rsplit("/", 1)[1]}, "target": {"kind": "Node", "name": node}})

    def refuse(self, name, groups, resources, operations, expression, message="refused for a while"):
        """A policy that refuses requests for which the expression is false, as an admission webhook that is down.
        Returns the call that takes it away."""
        kinds = "/apis/admissionregistration.k8s.io/v1"
        self.create(f"{kinds}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": resources}]},
            "validations": [{"expression": expression, "message": message}]}})
        self.create(f"{kinds}/validatingadmissionpolicybindings", {
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})

        def lift():
            self.delete(f"{kinds}/validatingadmissionpolicybindings/{name}")
            self.delete(f"{kinds}/validatingadmissionpolicies/{name}")

        return lift


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pod(name, node=None, labels=None, **spec):
    """A pod with one container."""
    containers = [{"name": "m", "image": "example.org/m:1"}]
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": containers, **spec}}


def path_of(found):
    """The path of a pod."""
    return f"/api/v1/namespaces/{found['metadata']['namespace']}/pods/{found['metadata']['name']}"
