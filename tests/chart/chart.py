"""The chart as the real Helm renders it, for the tests beside this file."""

import json
import pathlib
import re

import helm_python as helm
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/steersman"
GOLDEN = ROOT / "tests/golden/chart"


EVERYTHING = {
    "mode": "replace",
    "kind": "Deployment",
    "featureGates": {"StorageVersionMigrator": True, "DRADeviceTaints": False},
    "replicaCount": 3,
    "fullnameOverride": "kcm",
    "useServiceAccountCredentials": False,
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["api.example.com"]}],
    "securePort": 10257,
    "extraVolumes": [{"name": "certificates", "secret": {"secretName": "signer"}}],
    "extraVolumeMounts": [{"name": "certificates", "mountPath": "/etc/signer", "readOnly": True}],
    "image": {"repository": "registry.example.com/steersman", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": ["registry"],
    "extraArgs": [
        "--concurrent-deployment-syncs=10", "--cluster-signing-cert-file=/etc/signer/tls.crt", "--cluster-signing-key-file=/etc/signer/tls.key",
    ],
    "serviceAccount": {"annotations": {"example.com/why": "because"}},
    "tls": {"secretName": "kcm-tls"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {"podAntiAffinity": {}},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "yes"},
    "networkPolicy": {
        "enabled": True,
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "apiServerCIDRs": ["10.0.0.0/24"],
        "extraEgress": [{"ports": [{"port": 4317}]}],
    },
    "serviceMonitor": {"enabled": True, "interval": "30s", "scrapeClass": "tokens", "scraper": "monitoring/prometheus"},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "runbooks": "https://example.com/runbooks/"},
}
KUBEADM = {
    "mode": "replace", "preset": "kubeadm", "hostNetwork": True,
    "extraArgs": ["--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"],
    "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True},
}
# All controllers that may run beside kube-controller-manager with the default kind, in kube-system.
MOST = ["*", "-daemonset", "-root-ca-cert-publisher"]


def files(values, namespace="steersman"):
    """Returns the rendered files by name."""
    with helm.Chart.load(CHART) as chart:
        return chart.render(values, name="steersman", namespace=namespace, is_install=True)


def notes(values, **named):
    """Returns the text that Helm shows after the installation."""
    return files(values, **named)["steersman/templates/NOTES.txt"]


def rendered(values, **named):
    """Returns the manifests as one text, in the order of their files."""
    texts = [text.strip("\n") for name, text in sorted(files(values, **named).items()) if text.strip() and not name.endswith("NOTES.txt")]
    return "\n---\n".join(texts) + "\n"


def objects(values, **named):
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(rendered(values, **named)) if o}


def workload(manifests):
    """Returns the DaemonSet or the Deployment."""
    (made,) = [o for (kind, _), o in manifests.items() if kind in ("DaemonSet", "Deployment")]
    return made


def arguments_of(made):
    """Returns the flags in the pod template of a workload."""
    container = made["spec"]["template"]["spec"]["containers"][0]
    return dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])


def arguments(manifests):
    return arguments_of(workload(manifests))


def others_arguments(text):
    """Returns the items of --controllers for kube-controller-manager in the notes."""
    return [item for line in re.findall(r"^  - --controllers=(.*)$", text, re.MULTILINE) for item in line.split(",")]


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
