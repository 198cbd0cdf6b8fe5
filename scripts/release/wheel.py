"""The Python package: a wheel for each machine that puts the program `steersman` into an environment."""

import base64
import hashlib

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

It ends with the process that started it. `steersman.path()` returns the path of the program.
"""

# The program is in the scripts folder of the environment or user, where pip puts it.
MODULE = '''\
"""Finds the program `steersman` that this package has installed."""

import os
import sysconfig


def path():
    """The path of the program."""
    schemes = [None, sysconfig.get_preferred_scheme("user")]
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    # `pip install --target` puts it beside the package.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        found = os.path.join(folder, "steersman")
        if os.path.isfile(found):
            return found
    raise FileNotFoundError(f"the program steersman is in none of {', '.join(folders)}; install the package again")
'''

MAIN = '''\
"""`python -m steersman` becomes the program."""

import os
import sys

from steersman import path

os.execv(path(), ["steersman", *sys.argv[1:]])
'''


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
        Entry("steersman/__init__.py", MODULE.encode()),
        Entry("steersman/__main__.py", MAIN.encode()),
        program(f"steersman-{release.version}.data/scripts/steersman", binary),
        *(Entry(f"{information}/licenses/{name}", text) for name, text in licences),
        Entry(f"{information}/METADATA", "\n".join(metadata).encode()),
        Entry(f"{information}/WHEEL", "\n".join(wheel).encode()),
    ]
    path = f"{information}/RECORD"
    return archives.zip_archive([*entries, Entry(path, record(entries, path).encode())], release.epoch)
