"""The npm packages: one for each machine with the program, and `steersman`, which depends on them.

npm installs only the package that fits the machine, because the others name another `cpu`.
"""

import json
import pathlib

import archives
from archives import Entry, program

# The modules of the package.
MODULES = pathlib.Path(__file__).parent / "npm"

README = """\
# Steersman

`npx steersman apiserver` is a Kubernetes API server in memory, with simulated nodes and all
controllers, for tests of manifests, operators and other clients. When it is ready, it prints a line of
JSON with the URL and the path of a kubeconfig.

    const { start } = require("steersman");
    const server = await start({ nodes: 2 });
    config.loadFromFile(server.kubeconfig);

`forks()` or `namespaces()` at the top of a file of vitest, jest or node:test gives each test a fork or a namespace
of one server. Servers also inject faults, show requests, take snapshots and return to them.
"""


def described(name, release, **more):
    package = {
        "name": name,
        "version": release.version,
        "description": "Kubernetes API server with simulated nodes and the real controllers, for tests",
        "license": "Apache-2.0",
        **({"repository": {"type": "git", "url": f"git+{release.repository}.git"}} if release.repository else {}),
        **more,
    }
    return (json.dumps(package, indent=2) + "\n").encode()


def packed(entries, release):
    """The archive that `npm install` takes: every path is below `package`."""
    inside = [Entry(f"package/{entry.path}", entry.data, entry.mode) for entry in entries]
    return archives.tar_gz(inside, release.epoch)


def of_platform(platform, binary, licences, release):
    package = described(f"@steersman/linux-{platform.npm}", release, os=["linux"], cpu=[platform.npm], preferUnplugged=True)
    files = [Entry("package.json", package), program("bin/steersman", binary)]
    return packed(files + [Entry(name, text) for name, text in licences], release)


def main(platforms, licence, release):
    needs = {f"@steersman/linux-{platform.npm}": release.version for platform in platforms}
    package = described(
        "steersman", release,
        bin={"steersman": "bin/steersman.js"}, main="index.js", types="index.d.ts", engines={"node": ">=18"}, optionalDependencies=needs,
    )
    files = [
        Entry("package.json", package),
        program("bin/steersman.js", (MODULES / "launcher.js").read_bytes()),
        *(Entry(name, (MODULES / name).read_bytes()) for name in ("index.d.ts", "index.js", "program.js")),
        Entry("README.md", README.encode()),
        Entry("LICENSE", licence),
    ]
    return packed(files, release)
