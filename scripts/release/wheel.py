"""The Python package: a wheel for each machine that puts the program `steersman` into an environment."""

import base64
import hashlib
import pathlib

import archives
from archives import Entry, program

SUMMARY = "Kubernetes API server with simulated nodes and the real controllers, for tests: steersman apiserver"

DESCRIPTION = """\
# Steersman

The program `steersman` for Linux, without further dependencies. `steersman apiserver` is a Kubernetes
API server in memory, with simulated nodes and all controllers, for tests of manifests, operators and
other clients:

    $ steersman apiserver
    {"url":"https://127.0.0.1:36689","kubeconfig":"/tmp/.../kubeconfig","pid":4711}

It ends with the process that started it. In Python:

    with steersman.Server(nodes=2) as server:
        kubernetes.config.load_kube_config(server.kubeconfig)

pytest has the fixtures `steersman_server`, `steersman_namespace` (a new namespace for each test) and
`steersman_cluster` (a fork of the server for each test). `Server` also injects faults, shows requests, and
takes snapshots. `steersman.path()` returns the path of the program.
"""

# The modules of the package.
MODULES = pathlib.Path(__file__).parent / "python"

# pytest finds the fixtures by this.
ENTRY_POINTS = "[pytest11]\nsteersman = steersman.pytest_plugin\n"


def tags(platform):
    """The static binary needs no C library, so it fits both kinds of Linux."""
    return [f"py3-none-manylinux_2_17_{platform.python}", f"py3-none-musllinux_1_1_{platform.python}"]


def name(platform, version):
    platforms = ".".join(tag.split("-")[2] for tag in tags(platform))
    return f"steersman-{version}-py3-none-{platforms}.whl"


def record(entries, path):
    lines = []
    for entry in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(entry.data).digest()).rstrip(b"=").decode()
        lines.append(f"{entry.path},sha256={digest},{len(entry.data)}")
    return "\n".join([*lines, f"{path},,"]) + "\n"


def build(platform, binary, licences, release):
    """The bytes of the wheel; `licences` are names and texts."""
    information = f"steersman-{release.version}.dist-info"
    metadata = [
        "Metadata-Version: 2.4",
        "Name: steersman",
        f"Version: {release.version}",
        f"Summary: {SUMMARY}",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name, _ in licences),
        *([f"Project-URL: Repository, {release.repository}"] if release.repository else []),
        "Classifier: Operating System :: POSIX :: Linux",
        "Requires-Python: >=3.10",
        "Description-Content-Type: text/markdown",
        "",
        DESCRIPTION,
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: steersman", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags(platform)), ""]
    entries = [
        *(Entry(f"steersman/{path.name}", path.read_bytes()) for path in sorted(MODULES.glob("steersman/*.py"))),
        program(f"steersman-{release.version}.data/scripts/steersman", binary),
        *(Entry(f"{information}/licenses/{name}", text) for name, text in licences),
        Entry(f"{information}/METADATA", "\n".join(metadata).encode()),
        Entry(f"{information}/WHEEL", "\n".join(wheel).encode()),
        Entry(f"{information}/entry_points.txt", ENTRY_POINTS.encode()),
    ]
    path = f"{information}/RECORD"
    return archives.zip_archive([*entries, Entry(path, record(entries, path).encode())], release.epoch)
