#!/usr/bin/env python3
"""Compares the names that two managers show, and the texts that they write. Called by compare-names.sh, which tells its needs."""

import base64
import contextlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

KNOWN = pathlib.Path(__file__).with_suffix(".txt")
# A wait ends with an error after this time. Nodes count as lost after 50 s, and CronJobs run each minute.
PATIENCE = 180.0
# Gates of the pages: alpha in some releases.
GATES = "--feature-gates=ComponentFlagz=true,ComponentStatusz=true"
CONTEXT = ssl._create_unverified_context()


def ask(method, url, body=None, form="application/json", accept="*/*"):
    """The text of an answer. A refusal raises urllib.error.HTTPError."""
    headers = {"Authorization": "Bearer recorder", "Content-Type": form, "Accept": accept}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, context=CONTEXT, timeout=30) as answer:
        return answer.read().decode()


def until(state, holds):
    """Waits for a condition; returns its first true value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if found := holds():
                return found
        time.sleep(0.5)
    sys.exit(f"compare-names: still not {state}")


class Load:
    """Objects that give each controller something to do, in a namespace of their own."""

    def __init__(self, api, name):
        self.api = api
        self.name = name

    def path(self, plural, name="", group="api/v1", namespace=None):
        place = f"namespaces/{namespace or self.name}/" if namespace != "" else ""
        return f"{self.api}/{group}/{place}{plural}" + (f"/{name}" if name else "")

    def serves(self, group):
        groups = json.loads(ask("GET", f"{self.api}/apis"))["groups"]
        return group == "api/v1" or any(f"apis/{version['groupVersion']}" == group for one in groups for version in one["versions"])

    def create(self, plural, kind, name, group="api/v1", namespace=None, **fields):
        version = group.split("/", 1)[1]
        place = {} if namespace == "" else {"namespace": namespace or self.name}
        metadata = {"name": name, **place, **fields.pop("metadata", {})}
        return json.loads(ask("POST", self.path(plural, "", group, namespace), {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}))

    def get(self, plural, name="", group="api/v1", namespace=None):
        return json.loads(ask("GET", self.path(plural, name, group, namespace)))

    def patch(self, body, plural, name, group="api/v1", namespace=None):
        ask("PATCH", self.path(plural, name, group, namespace), body, "application/merge-patch+json")

    def pods(self, app):
        return [pod for pod in self.get("pods")["items"] if pod["metadata"].get("labels", {}).get("app") == app]

    def run(self):
        """Creates the objects, and waits for the results of the controllers."""
        self.create("namespaces", "Namespace", self.name, namespace="")
        self.create("namespaces", "Namespace", f"{self.name}-gone", namespace="")
        until("a ServiceAccount", lambda: self.get("serviceaccounts", "default"))
        self.workloads()
        self.services()
        self.volumes()
        self.others()
        self.node()
        self.finished()

    def workloads(self):
        def template(app, **spec):
            return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}

        def spec(app, **fields):
            return {"selector": {"matchLabels": {"app": app}}, "template": template(app), **fields}

        job = {"template": template("done", restartPolicy="Never"), "ttlSecondsAfterFinished": 1, "suspend": False}
        self.create("deployments", "Deployment", "web", "apis/apps/v1", spec=spec("web", replicas=3))
        self.create("statefulsets", "StatefulSet", "ordered", "apis/apps/v1", spec=spec("ordered", replicas=1, serviceName="web"))
        self.create("daemonsets", "DaemonSet", "agent", "apis/apps/v1", spec=spec("agent"))
        self.create("replicationcontrollers", "ReplicationController", "old", spec={"replicas": 1, "selector": {"app": "old"}, "template": template("old")})
        self.create("jobs", "Job", "done", "apis/batch/v1", spec=job)
        self.create("cronjobs", "CronJob", "minutely", "apis/batch/v1", spec={"schedule": "* * * * *", "jobTemplate": {"spec": {**job, "suspend": True}}})
        until("pods of a Deployment", lambda: len(self.pods("web")) == 3)
        self.patch({"spec": {"replicas": 1}}, "deployments", "web", "apis/apps/v1")
        until("a smaller Deployment", lambda: len(self.pods("web")) == 1)

    def services(self):
        ports = [{"name": "http", "port": 80}]
        self.create("services", "Service", "web", spec={"selector": {"app": "web"}, "ports": ports, "trafficDistribution": "PreferClose"})
        self.create("services", "Service", "external", spec={"ports": ports})
        self.create("endpoints", "Endpoints", "external", subsets=[{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}])
        pod = self.pods("web")[0]["metadata"]["name"]
        status = {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}
        ready = [{"type": "Ready", "status": "True"}]
        self.patch({"status": {**status, "conditions": ready}}, "pods", f"{pod}/status")
        slices = "apis/discovery.k8s.io/v1"
        until("EndpointSlices", lambda: len(self.get("endpointslices", group=slices)["items"]) == 2)

    def volumes(self):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        path = {"hostPath": {"path": "/tmp/names"}}
        self.create("persistentvolumes", "PersistentVolume", self.name, namespace="", spec={
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "manual", **path})
        volume = lambda: self.get("persistentvolumes", self.name, namespace="").get("status", {}).get("phase")
        until("an available volume", lambda: volume() == "Available")
        self.create("persistentvolumeclaims", "PersistentVolumeClaim", "bound", spec={**claim, "storageClassName": "manual"})
        self.create("persistentvolumeclaims", "PersistentVolumeClaim", "pending", spec={**claim, "storageClassName": "none"})
        until("a bound claim", lambda: self.get("persistentvolumeclaims", "bound").get("status", {}).get("phase") == "Bound")
        ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {**claim, "storageClassName": "none"}}}}
        bound = {"name": "data", "persistentVolumeClaim": {"claimName": "bound"}}
        container = {"name": "c", "image": "i"}
        self.create("pods", "Pod", "volumes", spec={"containers": [container], "volumes": [ephemeral, bound]})
        until("an ephemeral claim", lambda: self.get("persistentvolumeclaims", "volumes-scratch"))

    def others(self):
        """Autoscalers, budgets, quotas, requests for certificates, and claims for devices."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        utilization = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
        self.create("horizontalpodautoscalers", "HorizontalPodAutoscaler", "web", "apis/autoscaling/v2", spec={
            "scaleTargetRef": target, "maxReplicas": 2, "metrics": [utilization]})
        self.create("poddisruptionbudgets", "PodDisruptionBudget", "web", "apis/policy/v1", spec={
            "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})
        self.create("resourcequotas", "ResourceQuota", "quota", spec={"hard": {"pods": "100", "count/ingresses.networking.k8s.io": "1"}})
        self.device()
        self.certificate()
        ask("DELETE", self.path("namespaces", f"{self.name}-gone", namespace=""))
        gone = lambda: f"{self.name}-gone" not in [one["metadata"]["name"] for one in self.get("namespaces", namespace="")["items"]]
        until("the end of a namespace", gone)
        until("a quota", lambda: self.get("resourcequotas", "quota").get("status", {}).get("used"))

    def device(self):
        """A claim for a device, if the API server has version v1, as all since 1.34."""
        devices = "apis/resource.k8s.io/v1"
        if not self.serves(devices):
            return
        request = {"name": "one", "exactly": {"deviceClassName": "none"}}
        self.create("resourceclaimtemplates", "ResourceClaimTemplate", "device", devices, spec={"spec": {"devices": {"requests": [request]}}})
        container = {"name": "c", "image": "i"}
        self.create("pods", "Pod", "device", spec={"containers": [container], "resourceClaims": [{"name": "d", "resourceClaimTemplateName": "device"}]})
        until("a claim for a device", lambda: self.get("resourceclaims", group=devices)["items"])

    def certificate(self):
        group = "apis/certificates.k8s.io/v1"
        made = subprocess.run(["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", os.devnull, "-subj", "/CN=names"], capture_output=True, check=True)
        request = {"request": base64.b64encode(made.stdout).decode(), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
        name = "certificatesigningrequests"
        self.create(name, "CertificateSigningRequest", self.name, group, "", spec=request)
        approved = {"type": "Approved", "status": "True", "reason": "Wanted"}
        self.patch({"status": {"conditions": [approved]}}, name, f"{self.name}/approval", group, "")
        until("a certificate", lambda: self.get(name, self.name, group, "").get("status", {}).get("certificate"))

    def node(self):
        """A node that reports once, with a pod that is evicted from it. Another one goes on, since a cluster without any healthy node evicts nothing."""
        for name in self.name, f"{self.name}-healthy":
            self.create("nodes", "Node", name, namespace="", metadata={"labels": {"kubernetes.io/os": "linux"}})
            self.report(name)
        until("a pod of a DaemonSet", lambda: self.pods("agent"))
        container = {"name": "c", "image": "i"}
        toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        self.create("pods", "Pod", "evicted", spec={"containers": [container], "nodeName": self.name, "tolerations": [toleration]})

    def report(self, node):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        self.patch({"status": {"conditions": [ready]}}, "nodes", f"{node}/status", namespace="")

    def finished(self):
        """Waits for slow changes: a run of a CronJob, a lost node, and a finished Job."""
        pod = until("a pod of a Job", lambda: self.pods("done"))[0]["metadata"]["name"]
        self.patch({"status": {"phase": "Succeeded"}}, "pods", f"{pod}/status")
        group = "apis/batch/v1"
        jobs = lambda: [job["metadata"]["name"] for job in self.get("jobs", group=group)["items"]]
        until("a Job that is deleted after its time", lambda: "done" not in jobs())
        until("a Job of a CronJob", lambda: any(name.startswith("minutely-") for name in jobs()))

        def evicted():
            self.report(f"{self.name}-healthy")
            return self.get("pods", "evicted")["metadata"].get("deletionTimestamp")

        until("an eviction", evicted)


    def end(self):
        """Removes nodes and pods without a manager, so that the next load finds neither lost nodes nor pods to collect."""
        for name in self.name, f"{self.name}-healthy":
            ask("DELETE", self.path("nodes", name, namespace=""))
        ask("DELETE", self.path("daemonsets", "agent", "apis/apps/v1"))
        ask("DELETE", self.path("pods"), {"gracePeriodSeconds": 0})


def families(text):
    """Each family of metrics: its lines HELP and TYPE, the names of its labels, and its buckets."""
    found = {}
    for line in text.splitlines():
        if match := re.match(r"# (HELP|TYPE) (\S+) (.*)", line):
            found.setdefault(match[2], {"labels": set(), "bounds": set()})[match[1]] = match[3]
        elif match := re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line):
            base = re.sub(r"_(bucket|sum|count)$", "", match[1])
            family = found[match[1] if match[1] in found else base]
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            if (bound := labels.pop("le", None)) and bound != "+Inf":
                family["bounds"].add(float(bound))
            family["labels"].update(labels)
            if match[1] == "workqueue_adds_total":
                family.setdefault("named", {})[f"queue {labels['name']}"] = "yes"
            if match[1] == "kubernetes_feature_enabled":
                family.setdefault("named", {})[f"gate {labels['name']}"] = f"{labels['stage']} {match[3]}"
    return found


def metric_lines(page, text):
    shown = {}
    for name, family in families(text).items():
        if re.match(r"go_|process_|steersman_", name):
            continue
        stability, _, words = family.get("HELP", "").partition("]")
        bounds = ",".join(f"{bound:g}" for bound in sorted(family["bounds"]))
        shown[f"{page} {name}"] = f"{stability}] {family['TYPE']} {{{','.join(sorted(family['labels']))}}} {bounds}".strip()
        shown[f"{page} {name} words"] = words.strip()
        shown.update((f"{page} {named}", value) for named, value in family.get("named", {}).items())
    return shown


def leaves(document, path):
    """Each value of a document, by path."""
    if isinstance(document, dict):
        for field, value in document.items():
            yield from leaves(value, f"{path}.{field}")
    elif isinstance(document, list) and document and isinstance(document[0], dict):
        for at, value in enumerate(sorted(document, key=json.dumps)):
            yield from leaves(value, f"{path}[{at}]")
    else:
        yield path, json.dumps(document)


def help_lines(text):
    """Each flag in the output of --help: its section, and its type with the default."""
    shown = {}
    section = flag = ""
    for line in text.splitlines():
        if match := re.match(r"(\S.*) flags:$", line):
            section = match[1]
        elif match := re.match(r"\s+(?:-\w, )?--([\w-]+)(?: (\S+))?(?:\s{2,}|$)", line):
            flag = match[1]
            shown[f"--help {flag}"] = f"{section}: {match[2] or 'switch'}"
        if flag and (match := re.search(r"\(default (.*?)\)\s*$", line)):
            shown[f"--help {flag}"] += f", {match[1]}"
    return shown


def pages(url, program, release):
    """All that is compared of one manager: text by name."""
    get = lambda path: ask("GET", url + path, accept="text/plain")
    shown = {}
    for page in ("/metrics", "/metrics/slis"):
        shown |= metric_lines(page, get(page))
    shown |= leaves(json.loads(get("/configz")), "/configz ")
    for page in ("/flagz", "/statusz"):
        # The separator is a random one, and may be part of a value.
        lines = [re.split(r"[:= ]+", line, maxsplit=1) for line in get(page).splitlines() if "arning" not in line]
        lines = [(line[0], re.sub(r"[:= ]+", " ", line[1])) for line in lines if len(line) == 2]
        shown.update((f"{page} {name}", value) for name, value in lines if name not in ("Started", "Up"))
    for page in ("/healthz", "/livez", "/readyz"):
        try:
            checks = re.findall(r"^\[\+\](\S+) (.*)$", get(f"{page}?verbose"), re.M)
        except urllib.error.HTTPError as error:
            checks = [("status", str(error.code))]
        shown.update((f"{page} {name}", state) for name, state in checks)
    said = subprocess.run([program, f"--emulated-version={release}", "--help"], capture_output=True, text=True, check=True)
    return shown | help_lines(said.stdout)


# Kinds of the load: group and plurals.
KINDS = (
    ("api/v1", "pods services endpoints persistentvolumeclaims replicationcontrollers resourcequotas serviceaccounts configmaps"),
    ("apis/apps/v1", "deployments replicasets statefulsets daemonsets controllerrevisions"),
    ("apis/batch/v1", "jobs cronjobs"),
    ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("apis/policy/v1", "poddisruptionbudgets"),
    ("apis/discovery.k8s.io/v1", "endpointslices"),
    ("apis/resource.k8s.io/v1", "resourceclaims"),
)


def objects(load):
    """Events, conditions, fields and their managers of all objects of the load."""
    shown = {}
    for event in load.get("events")["items"]:
        about = event["involvedObject"]
        if "allocator" in event.get("reportingComponent", ""):
            continue  # Of the API server.
        name = plain(load, f"event {about['kind']} {about['name']} {event['type']} {event['reason']}: {event['message']}")
        shown[name] = f"{event['source'].get('component')} {event.get('reportingComponent')} {about.get('fieldPath')}"
    for group, plurals in KINDS:
        if not load.serves(group):
            continue
        for plural in plurals.split():
            for one in load.get(plural, group=group)["items"]:
                shown |= object_lines(load, plural, one)
    for name in load.name, f"{load.name}-healthy":
        shown |= object_lines(load, "nodes", load.get("nodes", name, namespace=""))
    return shown


def object_lines(load, plural, one):
    shown = {}
    for entry in one["metadata"].pop("managedFields", ()):
        if entry["manager"] == "kube-apiserver":
            continue
        shown[f"manager of {plural}: {entry['manager']} {entry['operation']} {entry.get('subresource', '')}"] = "yes"
    for condition in one.get("status", {}).get("conditions") or []:
        name = plain(load, f"condition {plural} {one['metadata']['name']} {condition['type']}")
        about = [condition.get(field) for field in ("status", "reason", "message")]
        shown[name] = plain(load, f"{about}")
    paths = (re.sub(r"\[\d+\]", "[]", path) for path, _ in leaves(one, ""))
    shown.update((f"field {plural}{path}", "yes") for path in paths)
    return shown


def plain(load, text):
    """A text without the parts that differ between two runs: names of the run, random and hashed parts, numbers of minutes."""
    text = re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b", "-X", text.replace(load.name, "RUN"))
    return re.sub(r"-\d{8,}\b", "-N", text)


@contextlib.contextmanager
def running(program, home, port):
    """A manager with the flags of kubeadm. It ends with the block."""
    kubeconfig = f"{home}/kubeconfig"
    credentials = [f"--{flag}={kubeconfig}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
    authority = [f"--{flag}={home}/ca.crt" for flag in ("client-ca-file", "requestheader-client-ca-file", "root-ca-file", "cluster-signing-cert-file")]
    keys = [f"--cluster-signing-key-file={home}/ca.key", f"--service-account-private-key-file={home}/sa.key"]
    names = ["--bind-address=127.0.0.1", "--leader-elect=true", "--use-service-account-credentials=true", "--controllers=*,bootstrapsigner,tokencleaner"]
    network = ["--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/16", "--cluster-name=kubernetes"]
    own = [f"--secure-port={port}", GATES]
    with open(f"{home}/manager.log", "wb") as log:
        process = subprocess.Popen([program, *credentials, *authority, *keys, *names, *network, *own], stdout=log, stderr=log)
        try:
            yield process
        except SystemExit:
            print(pathlib.Path(f"{home}/manager.log").read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait()


def seen(program, release, home, api_port, at):
    """The names and texts of a manager after a small load."""
    url = f"https://127.0.0.1:{api_port + 3}"
    api = f"https://127.0.0.1:{api_port}"
    with running(program, home, api_port + 3):
        lease = f"{api}/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
        until("leader", lambda: "leader_election_master_status{name=\"kube-controller-manager\"} 1" in ask("GET", f"{url}/metrics"))
        load = Load(api, f"names-{at}")
        load.run()
        # A renewal that meets a foreign change takes the slow path.
        ask("PATCH", lease, {"metadata": {"labels": {"touched": f"by-{at}"}}}, "application/merge-patch+json")
        until("renewed", lambda: "leader_election_slowpath_total{" in ask("GET", f"{url}/metrics"))
        found = pages(url, program, release) | objects(load)
    load.end()
    # The next manager must not wait for the Lease of one that does not release it.
    ask("DELETE", lease)
    return found


def known(release):
    """The known differences of a release, and the line of each."""
    found = {}
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            releases, pattern, _ = line.split(" | ", 2)
            if release in releases.split():
                found[pattern] = re.compile(pattern)
    return found


def main():
    home, port, *programs = sys.argv[1:]
    version = json.loads(ask("GET", f"https://127.0.0.1:{port}/version"))
    release = f"{version['major']}.{version['minor']}"
    theirs, ours = (seen(program, release, home, int(port), at) for at, program in enumerate(programs))
    if folder := os.environ.get("KEEP"):
        for name, shown in ("theirs", theirs), ("ours", ours):
            pathlib.Path(folder, f"{name}-{release}.json").write_text(json.dumps(shown, indent=1, sort_keys=True))
    lines = [
        f"{name}: {theirs.get(name, 'nothing')} | {ours.get(name, 'nothing')}"
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name)
    ]
    patterns = known(release)
    unknown = [line for line in lines if not any(pattern.search(line) for pattern in patterns.values())]
    gone = [text for text, pattern in patterns.items() if not any(map(pattern.search, lines))]
    print(f"{release}: {len(theirs)} names of kube-controller-manager, {len(lines)} differences, {len(unknown)} of them not known")
    for line in unknown:
        print("not known:", line)
    for text in gone:
        print("known, but not seen:", text)
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
