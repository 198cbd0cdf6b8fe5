"""The npm packages: one for each machine with the program, and `steersman`, which depends on them.

npm installs only the package that fits the machine, because the others name another `cpu`.
"""

import json

import archives
from archives import Entry, program

# Without a script at installation, which many projects forbid. Signals go on to the program, so that a
# test runner can end it.
LAUNCHER = """\
#!/usr/bin/env node
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

const name = `@steersman/linux-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/steersman`);
} catch {
  console.error(
    `steersman: the package ${name} is not installed. There are packages for Linux on x64 and arm64; ` +
      "--omit=optional leaves them out.",
  );
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`steersman: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
"""

README = """\
# Steersman

`npx steersman apiserver` is a Kubernetes API server in memory, with simulated nodes and all
controllers, for tests of manifests, operators and other clients. When it is ready, it prints a line of
JSON with the URL and the path of a kubeconfig.
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
        bin={"steersman": "bin/steersman.js"}, engines={"node": ">=18"}, optionalDependencies=needs,
    )
    files = [
        Entry("package.json", package),
        program("bin/steersman.js", LAUNCHER.encode()),
        Entry("README.md", README.encode()),
        Entry("LICENSE", licence),
    ]
    return packed(files, release)
