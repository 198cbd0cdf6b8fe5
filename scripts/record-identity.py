#!/usr/bin/env python3
"""Records the answers of kube-apiserver to the requests of cluster/apiserver/tests/identity.

    KUBEBUILDER_ASSETS=FOLDER scripts/record-identity.py [SCENARIO...]

FOLDER contains kube-apiserver and etcd. Needs openssl. Each scenario gets a server of its own. A
request is repeated for some seconds until the caches of the server show earlier writes, as its
fields `eventually`, `until`, `until_error` and `until_warning` tell.
"""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).parent.parent / "cluster/apiserver/tests/identity"
SCENARIOS = ["certificates", "nodes", "tokens"]
PORT = int(os.environ.get("PORT", "16443"))
PATIENCE = 20.0


class Server:
    """A kube-apiserver with the Node authorizer, NodeRestriction and bootstrap tokens."""

    def __init__(self, assets, home):
        self.home = pathlib.Path(home)
        store = f"http://127.0.0.1:{PORT + 1}"
        self.processes = [
            self.start(
                "etcd",
                f"{assets}/etcd",
                f"--data-dir={home}/etcd",
                "--unsafe-no-fsync",
                "--log-level=error",
                f"--listen-client-urls={store}",
                f"--advertise-client-urls={store}",
                f"--listen-peer-urls=http://127.0.0.1:{PORT + 2}",
            )
        ]
        subprocess.run(["openssl", "genrsa", "-out", f"{home}/sa.key", "2048"], check=True, capture_output=True)
        (self.home / "tokens.csv").write_text('admin-token,admin,1,"system:masters"\n')
        self.processes.insert(
            0,
            self.start(
                "kube-apiserver",
                f"{assets}/kube-apiserver",
                f"--etcd-servers={store}",
                f"--secure-port={PORT}",
                "--bind-address=127.0.0.1",
                f"--cert-dir={home}/certificates",
                f"--token-auth-file={home}/tokens.csv",
                "--authorization-mode=Node,RBAC",
                "--enable-bootstrap-token-auth",
                "--service-cluster-ip-range=10.96.0.0/16",
                f"--service-account-key-file={home}/sa.key",
                f"--service-account-key-file={FOLDER}/token-key.pub.pem",
                f"--service-account-signing-key-file={home}/sa.key",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--enable-priority-and-fairness=false",
                "--enable-admission-plugins=NodeRestriction",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority,"
                "DefaultTolerationSeconds,StorageObjectInUseProtection",
            ),
        )
        self.wait_until_ready()

    def start(self, name, *command):
        log = open(self.home / f"{name}.log", "w")
        return subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.processes[0].poll() is None:
            try:
                if send("GET", "/readyz", [("Authorization", "Bearer admin-token")], None)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise SystemExit((self.home / "kube-apiserver.log").read_text()[-2000:])

    def stop(self):
        # kube-apiserver ends first, because it waits for its store.
        for process in self.processes:
            process.terminate()
            process.wait()


def send(method, path, headers, body):
    """Status, warnings and body of an answer. `headers` are pairs, because some repeat."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=context)
    data = b"" if body is None else json.dumps(body).encode()
    connection.putrequest(method, path)
    for name, value in [*headers, ("Content-Length", str(len(data)))]:
        connection.putheader(name, value)
    connection.endheaders(data)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    try:
        content = json.loads(text)
    except ValueError:
        content = text
    return answer.status, answer.headers.get_all("Warning") or [], content


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign(head, claims):
    """A token of the key token-key.pem."""
    public = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", FOLDER / "token-key.pub.pem", "-outform", "DER"],
        check=True, capture_output=True,
    ).stdout
    head = head or {"alg": "RS256", "kid": encoded(hashlib.sha256(public).digest())}
    text = ".".join(encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
    command = ["openssl", "dgst", "-sha256", "-sign", FOLDER / "token-key.pem"]
    signature = subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout
    return f"{text}.{encoded(signature)}"


def filled(value, variables):
    """Replaces ${name} in all texts."""
    text = json.dumps(value)
    for name, content in variables.items():
        text = text.replace("${%s}" % name, json.dumps(content)[1:-1])
    return json.loads(text)


def at(value, path):
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def without_managers(value):
    if isinstance(value, dict):
        return {key: without_managers(item) for key, item in value.items() if key != "managedFields"}
    return [without_managers(item) for item in value] if isinstance(value, list) else value


def ask(step):
    headers = [
        ("Content-Type", step.get("type", "application/json")),
        ("Accept", step.get("accept", "application/json")),
    ]
    user = step.get("as", {})
    if user != "anonymous":
        headers.append(("Authorization", f"Bearer {user.get('token', 'admin-token')}"))
        if "user" in user:
            headers.append(("Impersonate-User", user["user"]))
        headers += [("Impersonate-Group", group) for group in user.get("groups", [])]
    return send(step["method"], step["path"], headers, step.get("body"))


def is_shown(step, answer):
    """Whether the answer shows the earlier writes."""
    status, warnings, body = answer
    if "eventually" in step:
        return status == step["eventually"]
    if "until" in step:
        return bool(at(body, step["until"]))
    if "until_error" in step:
        error = at(body, "status.error") or ""
        stale = step["until_error"]
        return bool(error) and (stale == "none" or stale not in error)
    return bool(warnings) or not step.get("until_warning")


def record(name):
    variables = {f"pem:{key}": text for key, text in json.loads((FOLDER / "pem.json").read_text()).items()}
    answers = {}
    for step in json.loads((FOLDER / f"{name}.json").read_text()):
        if "sign" in step:
            content = filled(step["sign"], variables)
            variables[content["into"]] = sign(content.get("head"), content["claims"])
            continue
        if "legacy" in variables:
            head, claims, signature = variables["legacy"].split(".")
            other = "B" if signature[0] == "A" else "A"
            variables["forged:legacy"] = f"{head}.{claims}.{other}{signature[1:]}"
        request = filled(step, variables)
        deadline = time.monotonic() + PATIENCE
        answer = ask(request)
        while not is_shown(step, answer) and time.monotonic() < deadline:
            time.sleep(0.3)
            answer = ask(request)
        if not is_shown(step, answer):
            print(f"{name}: {step['name']}: {answer}")
        status, warnings, body = answer
        for variable, path in step.get("capture", {}).items():
            variables[variable] = at(body, path)
        if "part" in step and status < 300:
            body = {path: at(body, path) for path in step["part"].split()}
        text = json.dumps(without_managers(body))
        # Texts that differ between runs.
        for variable, content in variables.items():
            if content and len(content) > 20 and re.fullmatch(r"[\w.-]+", content) and content.count(".") == 2:
                text = text.replace(content, "<token>")
        answers[step["name"]] = {"status": status, "warnings": warnings, "body": json.loads(text)}
    lines = [f" {json.dumps(key)}: {json.dumps(answer)}" for key, answer in answers.items()]
    (FOLDER / f"{name}.answers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{name}: {len(answers)} answers")


def main():
    assets = os.environ["KUBEBUILDER_ASSETS"]
    for name in sys.argv[1:] or SCENARIOS:
        with tempfile.TemporaryDirectory() as home:
            server = Server(assets, home)
            try:
                record(name)
            finally:
                server.stop()


if __name__ == "__main__":
    main()
