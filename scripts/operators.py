#!/usr/bin/env python3
"""Measures the operator of examples/website-informers beside that of examples/website, which uses kube-runtime.

  cargo build --release --workspace --bins && scripts/operators.py [--programs target/release] [--websites 10000]

Each operator gets a new embedded API server with the Websites. The script waits until all of them have a status,
then rests, and prints resident memory and processor time of the operator.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import re
import ssl
import subprocess
import tempfile
import time
import urllib.request

# A page as long as that of a small site.
PAGE = "<html><body>" + "x" * 1000 + "</body></html>"
RESOURCE = "/apis/example.dev/v1/namespaces/default/websites"
SCHEMA = {"type": "object", "properties": {
    "spec": {"type": "object", "required": ["page", "replicas"], "properties": {"page": {"type": "string"}, "replicas": {"type": "integer"}}},
    "status": {"type": "object", "required": ["readyReplicas"], "properties": {"readyReplicas": {"type": "integer"}}}}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "websites.example.dev"},
    "spec": {"group": "example.dev", "scope": "Namespaced", "names": {"plural": "websites", "singular": "website", "kind": "Website"},
             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}, "subresources": {"status": {}}}]}}


class Cluster:
    """An embedded API server without controllers and nodes."""

    def __init__(self, program, folder):
        self.kubeconfig = f"{folder}/kubeconfig"
        self.process = subprocess.Popen([program, "apiserver", "--nodes=0", "--controllers=", f"--write-kubeconfig={self.kubeconfig}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(lambda: os.path.exists(self.kubeconfig), self.process)
        with open(self.kubeconfig) as file:
            text = file.read()
        self.url = re.search(r"""\bserver: *["']?([^\s"',}]+)""", text).group(1)
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        pair = [base64.b64decode(re.search(rf"""{key}: *["']?([^\s"',}}]+)""", text).group(1)) for key in ("client-certificate-data", "client-key-data")]
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"".join(pair))
            file.flush()
            self.context.load_cert_chain(file.name)

    def ask(self, path, body=None):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, context=self.context) as answer:
            return json.load(answer)

    def served(self):
        """The number of Websites with a status."""
        return sum("status" in website for website in self.ask(RESOURCE)["items"])

    def end(self):
        self.process.terminate()
        self.process.wait()


def wait(condition, process):
    while not condition():
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended with {process.returncode}")
        time.sleep(0.5)


def seconds(pid):
    """Processor time of all threads."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid, field="VmRSS"):
    """Resident memory in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"{field}:\s+(\d+)", file.read()).group(1)) / 1024


def measured(name, command, programs, count, rest):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(f"{programs}/steersman", folder)
        try:
            cluster.ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
            time.sleep(1)

            def create(at):
                cluster.ask(RESOURCE, {"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": f"site-{at}"},
                                       "spec": {"page": PAGE, "replicas": 1}})

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(create, range(count)))
            with open(f"{folder}/log", "w") as log:
                operator = subprocess.Popen([f"{programs}/{command[0]}", *(word.replace("FOLDER", folder) for word in command[1:])],
                                            env={**os.environ, "KUBECONFIG": cluster.kubeconfig}, stdout=log, stderr=log)
            try:
                began = time.monotonic()
                wait(lambda: cluster.served() == count, operator)
                work, wall = seconds(operator.pid), time.monotonic() - began
                time.sleep(rest)
                print(f"| {name} | {wall:.1f} | {work:.2f} | {memory(operator.pid):.1f} | {memory(operator.pid, 'VmHWM'):.1f} | {seconds(operator.pid) - work:.2f} |", flush=True)
            finally:
                operator.terminate()
                operator.wait()
        finally:
            cluster.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="target/release")
    parser.add_argument("--websites", type=int, default=10000)
    parser.add_argument("--rest", type=int, default=60, help="seconds at rest")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    informers = ["website-informers", "--kubeconfig=FOLDER/kubeconfig", "--secure-port=0", "--cert-dir=FOLDER", "--kube-api-qps=10000", "--kube-api-burst=10000"]
    print("| operator | wall s | CPU s | resident MiB | peak MiB | CPU s at rest |\n|---|---|---|---|---|---|")
    for _ in range(arguments.repeat):
        for name, command in (("Steersman's informers", informers), ("kube-runtime", ["website-operator"])):
            measured(name, command, arguments.programs, arguments.websites, arguments.rest)


if __name__ == "__main__":
    main()
