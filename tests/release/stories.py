"""Tests of the release: packages of given binaries, read back and installed as users do.

    python stories.py -v [Packages | Images | Wheels | NpmPackages | NpmRunners | Scripts]

The binaries are short scripts. scripts/release.sh builds the real ones, and starts each of them.
"""

import base64
import csv
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest
import zipfile

import helm_python as helm

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = ROOT / "scripts/release"
sys.path.insert(0, str(RELEASE))

import chart  # noqa: E402
import dockerfile  # noqa: E402
import krew  # noqa: E402
import npm  # noqa: E402
import pack  # noqa: E402
import parts  # noqa: E402
import platforms  # noqa: E402
import prepare  # noqa: E402

VERSION = prepare.stated(ROOT)
EPOCH = 1_764_374_400
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MANAGER = '#!/bin/sh\necho "Kubernetes v1.36.2"\n'
STEERSMAN = """\
#!/bin/sh
case $1 in
  manual) for page in steersman kube-controller-manager; do echo ".TH $page" >"$2/$page.1"; done ;;
  completion) echo "complete $2" ;;
  help) [ "$2" = "$WITH_COMMAND" ] ;;
  wait) trap 'echo ended; exit 3' TERM; echo ready; while :; do read -r line || sleep 1; done ;;
  *) echo "arguments: $*" ;;
esac
"""


def write_binaries(folder):
    """The folder that scripts/release.sh gives to pack.py, with scripts in place of binaries."""
    for platform in platforms.ALL:
        (folder / platform.go).mkdir(parents=True)
        for name, text in (("kube-controller-manager", MANAGER), ("steersman", STEERSMAN)):
            path = folder / platform.go / name
            # Each binary differs, so that a mix-up shows.
            path.write_text(f"{text}# {platform.go}\n")
            path.chmod(0o755)
    toolchain = {"rustc": "1.95.0", "glibc": {platform.go: "2.36" for platform in platforms.ALL}}
    (folder / "toolchain.json").write_text(json.dumps(toolchain))


def packed(binaries, output, more=(), **environment):
    command = [
        sys.executable, RELEASE / "pack.py", "--binaries", binaries, "--output", output, "--version", VERSION,
        "--epoch", str(EPOCH), "--commit", COMMIT, *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def members(data):
    """The files of a tar archive: name -> (member, content)."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: (member, archive.extractfile(member).read() if member.isfile() else b"") for member in archive}


def own_platform():
    return next(platform for platform in platforms.ALL if platform.uname == os.uname().machine)


class Packed(unittest.TestCase):
    """Packs once for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.binaries = cls.scratch / "binaries"
        write_binaries(cls.binaries)
        cls.dist = cls.scratch / "dist"
        packed(cls.binaries, cls.dist)
        cls.files = files_below(cls.dist)


class Packages(Packed):
    def test_the_same_binaries_give_the_same_bytes(self):
        other = self.scratch / "somewhere/else"
        copy = self.scratch / "copy"
        shutil.copytree(self.binaries, copy)
        # Another time, order of folders, umask and locale must not show.
        for path in copy.rglob("*"):
            os.utime(path, (1, 1))
        before = os.umask(0o077)
        try:
            packed(copy, other, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
        finally:
            os.umask(before)
        again = files_below(other)
        self.assertEqual(sorted(again), sorted(self.files))
        for name, data in self.files.items():
            self.assertEqual(hashlib.sha256(again[name]).hexdigest(), hashlib.sha256(data).hexdigest(), name)

    def test_other_binaries_give_other_bytes(self):
        """Otherwise the test above could not fail."""
        copy = self.scratch / "changed"
        shutil.copytree(self.binaries, copy)
        with open(copy / "amd64/steersman", "a") as binary:
            binary.write("# changed\n")
        packed(copy, self.scratch / "dist-changed")
        again = files_below(self.scratch / "dist-changed")
        changed = {name for name in self.files if again.get(name) != self.files[name]}
        self.assertEqual(changed, {
            "SHA256SUMS",
            f"npm/steersman-linux-x64-{VERSION}.tgz",
            f"python/steersman-{VERSION}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
            f"steersman-{VERSION}-linux-amd64.cdx.json",
            f"steersman-{VERSION}-linux-amd64.tar.gz",
        })

    def test_sums_cover_all_files(self):
        lines = dict(reversed(line.split("  ")) for line in self.files["SHA256SUMS"].decode().splitlines())
        self.assertEqual(sorted([*lines, "SHA256SUMS"]), sorted(self.files))
        for name, digest in lines.items():
            self.assertEqual(digest, hashlib.sha256(self.files[name]).hexdigest(), name)

    def test_archives_have_the_program_with_its_papers_and_manual(self):
        papers = {"LICENSE", "THIRD-PARTY-LICENSES.txt"}
        cases = {
            "steersman": {"man/steersman.1", "man/kube-controller-manager.1", "completions/steersman.bash",
                          "completions/steersman.fish", "completions/_steersman"},
            "kube-controller-manager": {"man/kube-controller-manager.1"},
        }
        for name, pages in cases.items():
            for platform in platforms.ALL:
                found = members(self.files[f"{name}-{VERSION}-linux-{platform.go}.tar.gz"])
                self.assertEqual(set(found), {name, f"{name}.cdx.json", *papers, *pages})
                member, content = found[name]
                self.assertEqual((member.mode, member.mtime, member.uid), (0o755, EPOCH, 0))
                self.assertIn(f"# {platform.go}".encode(), content)

    def test_bills_name_all_parts_and_their_needs(self):
        for name in ("steersman", "kube-controller-manager"):
            binary = self.files[f"{name}-{VERSION}-linux-arm64.tar.gz"]
            bill = json.loads(self.files[f"{name}-{VERSION}-linux-arm64.cdx.json"])
            self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.6"))
            about = bill["metadata"]["component"]
            self.assertEqual((about["name"], about["version"]), (name, VERSION))
            self.assertEqual(about["hashes"][0]["content"], hashlib.sha256(members(binary)[name][1]).hexdigest())
            self.assertEqual(bill["metadata"]["timestamp"], datetime.datetime.fromtimestamp(EPOCH, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            known = {about["bom-ref"]} | {part["bom-ref"] for part in bill["components"]}
            self.assertEqual(known, {entry["ref"] for entry in bill["dependencies"]})
            for entry in bill["dependencies"]:
                self.assertLessEqual(set(entry["dependsOn"]), known, entry["ref"])
            parts_by_name = {part["name"]: part for part in bill["components"]}
            self.assertEqual(parts_by_name["tokio"]["scope"], "required")
            self.assertEqual(parts_by_name["tokio"]["purl"], f"pkg:cargo/tokio@{parts_by_name['tokio']['version']}")
            self.assertEqual(len(parts_by_name["tokio"]["hashes"][0]["content"]), 64)
            # A derive macro runs at build time only.
            self.assertEqual(parts_by_name["serde_derive"]["scope"], "excluded")
            self.assertEqual(parts_by_name["glibc"]["version"], "2.36")
            # The development cluster is in the whole program only.
            self.assertEqual("steersman-devcluster" in parts_by_name, name == "steersman")

    def test_notices_name_each_foreign_part_of_the_binary(self):
        found = members(self.files[f"kube-controller-manager-{VERSION}-linux-amd64.tar.gz"])
        notices = found["THIRD-PARTY-LICENSES.txt"][1].decode()
        bill = json.loads(found["kube-controller-manager.cdx.json"][1])
        foreign = [part for part in bill["components"] if part["scope"] == "required" and "purl" in part]
        self.assertGreater(len(foreign), 100)
        for part in foreign:
            self.assertRegex(notices, rf"(?m)^{re.escape(part['name'])} {re.escape(part['version'])}: ")
            self.assertRegex(notices, rf"Of (?:.*, )?{re.escape(part['name'])} {re.escape(part['version'])} \(")
        self.assertIn("GNU LESSER GENERAL PUBLIC LICENSE", notices)

    def test_a_part_without_the_text_of_its_licence_is_an_error(self):
        part = parts.Part("bare", "1.0.0", "MIT", "https://example.com/bare")
        with self.assertRaisesRegex(parts.LicenceError, r"bare@1.0.0 \(MIT\) .* scripts/release/licences/bare.txt"):
            parts.texts(part)

    def test_the_chart_is_a_package_that_helm_takes(self):
        path = self.dist / f"chart/steersman-{VERSION}.tgz"
        unpacked = self.scratch / "chart"
        with tarfile.open(path) as archive:
            archive.extractall(unpacked, filter="data")
        whole = files_below(ROOT / "charts/steersman")
        self.assertEqual(set(files_below(unpacked / "steersman")), set(whole))
        values = {"controllers": ["deployment", "replicaset"]}
        report = helm.lint(path, values, strict=True)
        self.assertEqual(report["errors"], [], report)
        with helm.Chart.load(path) as loaded:
            files = loaded.render(values, name="steersman", namespace="steersman", is_install=True)
        self.assertTrue(any(f"steersman:{VERSION}" in text for text in files.values()))

    def test_a_chart_of_another_version_is_refused(self):
        release = pack.Release("9.9.9", "v1.36.2", COMMIT, EPOCH)
        with self.assertRaisesRegex(ValueError, f"has version {re.escape(VERSION)} instead of 9.9.9"):
            chart.package(ROOT / "charts/steersman", release)

    def test_the_krew_manifest_comes_with_the_command(self):
        self.assertNotIn("why.yaml", self.files)
        page = "https://example.com/steersman"
        packed(self.binaries, self.scratch / "dist-why", ["--repository", page, "--downloads", f"{page}/v{VERSION}"], WITH_COMMAND="why")
        manifest = json.loads((self.scratch / "dist-why/why.yaml").read_text())
        self.assertEqual((manifest["kind"], manifest["metadata"]["name"], manifest["spec"]["version"]), ("Plugin", "why", f"v{VERSION}"))
        for platform in manifest["spec"]["platforms"]:
            arch = platform["selector"]["matchLabels"]["arch"]
            name = f"steersman-{VERSION}-linux-{arch}.tar.gz"
            self.assertEqual(platform["uri"], f"{page}/v{VERSION}/{name}")
            data = (self.scratch / "dist-why" / name).read_bytes()
            self.assertEqual(platform["sha256"], hashlib.sha256(data).hexdigest())
            self.assertLessEqual({file["from"] for file in platform["files"]}, set(members(data)))

    def test_without_a_repository_the_krew_manifest_is_left_out_with_a_message(self):
        told = packed(self.binaries, self.scratch / "dist-no-page", WITH_COMMAND="why")
        self.assertIn("release: without why.yaml, because krew's manifest needs the page of the repository", told)
        self.assertFalse((self.scratch / "dist-no-page/why.yaml").exists())
        self.assertTrue((self.scratch / "dist-no-page/SHA256SUMS").exists())


class Images(Packed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.content = {name: data for name, (member, data) in members(cls.files[f"steersman-{VERSION}-image.tar"]).items() if member.isfile()}

    def blob(self, descriptor):
        """The blob of a descriptor, whose size and digest have to fit."""
        algorithm, digest = descriptor["digest"].split(":")
        data = self.content[f"blobs/{algorithm}/{digest}"]
        self.assertEqual((len(data), hashlib.sha256(data).hexdigest()), (descriptor["size"], digest))
        return data

    def images(self):
        """Configuration and layer of each machine, by the way from the tag."""
        index = json.loads(self.blob(json.loads(self.content["index.json"])["manifests"][0]))
        for descriptor in index["manifests"]:
            manifest = json.loads(self.blob(descriptor))
            [layer] = manifest["layers"]
            yield descriptor["platform"], json.loads(self.blob(manifest["config"])), self.blob(layer)

    def test_the_layout_has_both_tags_and_no_blob_too_many(self):
        self.assertEqual(json.loads(self.content["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        tagged = json.loads(self.content["index.json"])["manifests"]
        self.assertEqual([entry["annotations"]["org.opencontainers.image.ref.name"] for entry in tagged], [VERSION, "v1.36.2"])
        self.assertEqual(tagged[0]["digest"], tagged[1]["digest"])
        # The index, and manifest, configuration and layer of each machine.
        self.assertEqual(len([name for name in self.content if name.startswith("blobs/")]), 1 + 3 * 2)

    def test_each_machine_has_its_binary_under_both_names(self):
        seen = []
        for platform, configuration, layer in self.images():
            self.assertEqual(platform, {"architecture": configuration["architecture"], "os": configuration["os"]})
            seen.append(platform["architecture"])
            self.assertEqual(configuration["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(gzip.decompress(layer)).hexdigest()])
            found = members(layer)
            member, binary = found["usr/local/bin/steersman"]
            self.assertEqual((member.mode, member.uid, member.mtime), (0o755, 0, EPOCH))
            self.assertEqual(binary.decode(), f"{MANAGER}# {platform['architecture']}\n")
            self.assertEqual(found["usr/local/bin/kube-controller-manager"][0].linkname, "steersman")
            papers = {name for name in found if name.startswith("usr/share/doc/steersman/")}
            self.assertEqual(papers, {f"usr/share/doc/steersman/{name}" for name in (
                "LICENSE", "THIRD-PARTY-LICENSES.txt", "kube-controller-manager.cdx.json")})
            self.assertTrue(found["usr/share"][0].isdir())
        self.assertEqual(seen, ["amd64", "arm64"])

    def test_the_configuration_is_that_of_the_dockerfile(self):
        for _, configuration, _ in self.images():
            settings = configuration["config"]
            self.assertEqual(settings["User"], "65532:65532")
            self.assertEqual(settings["Env"], ["PATH=/usr/local/bin"])
            self.assertEqual(settings["Entrypoint"], ["/usr/local/bin/steersman"])
            self.assertEqual(settings["ExposedPorts"], {"10257/tcp": {}})
            self.assertEqual(settings["Labels"]["org.opencontainers.image.version"], VERSION)
            self.assertEqual(settings["Labels"]["org.opencontainers.image.revision"], COMMIT)

    def test_a_dockerfile_that_needs_an_engine_is_refused(self):
        with self.assertRaisesRegex(ValueError, "last stage of the Dockerfile has RUN"):
            dockerfile.last_stage("FROM a AS build\nRUN make\nFROM scratch\nRUN strip /bin/x\n", {})

    def test_skopeo_reads_the_image_of_each_machine(self):
        if not shutil.which("skopeo"):
            self.skipTest("no skopeo; Debian has a package of this name")
        image = f"oci-archive:{self.dist}/steersman-{VERSION}-image.tar"
        for tag in (VERSION, "v1.36.2"):
            for machine in ("amd64", "arm64"):
                said = subprocess.run(
                    ["skopeo", "--override-arch", machine, "--override-os", "linux", "inspect", "--config", f"{image}:{tag}"],
                    check=True, capture_output=True, text=True,
                ).stdout
                self.assertEqual(json.loads(said)["architecture"], machine)


class Wheels(Packed):
    def test_wheels_have_valid_records_and_tags(self):
        for platform in platforms.ALL:
            name = f"steersman-{VERSION}-py3-none-manylinux_2_17_{platform.python}.musllinux_1_1_{platform.python}.whl"
            with zipfile.ZipFile(self.dist / "python" / name) as wheel:
                self.assertIsNone(wheel.testzip())
                information = f"steersman-{VERSION}.dist-info"
                rows = list(csv.reader(io.StringIO(wheel.read(f"{information}/RECORD").decode())))
                self.assertEqual([row[0] for row in rows], wheel.namelist())
                for path, digest, size in rows[:-1]:
                    data = wheel.read(path)
                    expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={expected}", str(len(data))), path)
                self.assertEqual(rows[-1], [f"{information}/RECORD", "", ""])
                self.assertEqual(wheel.getinfo(f"steersman-{VERSION}.data/scripts/steersman").external_attr >> 16, 0o100755)
                tags = re.findall(r"(?m)^Tag: (.+)$", wheel.read(f"{information}/WHEEL").decode())
                self.assertEqual(tags, [f"py3-none-manylinux_2_17_{platform.python}", f"py3-none-musllinux_1_1_{platform.python}"])

    def test_pip_installs_the_wheel_and_both_commands_run(self):
        environment = self.scratch / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        python = environment / "bin/python"
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "install", "--no-index", "--find-links", self.dist / "python", f"steersman=={VERSION}"],
            check=True,
        )
        for command in ([environment / "bin/steersman"], [python, "-m", "steersman"]):
            said = subprocess.run([*command, "apiserver", "--nodes=1"], check=True, capture_output=True, text=True).stdout
            self.assertEqual(said, "arguments: apiserver --nodes=1\n")
        path = subprocess.run([python, "-c", "import steersman; print(steersman.path())"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(pathlib.Path(path.strip()), environment / "bin/steersman")
        subprocess.run([*pip, "uninstall", "--yes", "steersman"], check=True)
        self.assertFalse((environment / "bin/steersman").exists())


class NpmPackages(Packed):
    def npm(self, folder, *arguments):
        """Runs npm without a registry."""
        done = subprocess.run(
            ["npm", *arguments, "--offline", "--no-audit", "--no-fund", "--cache", self.scratch / "npm-cache"],
            cwd=folder, capture_output=True, text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def installed(self):
        """A project with the packages of this machine."""
        if not shutil.which("npm"):
            self.skipTest("no npm")
        project = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (project / "package.json").write_text('{"name": "project", "version": "1.0.0"}')
        archives = [self.dist / f"npm/steersman-linux-{own_platform().npm}-{VERSION}.tgz", self.dist / f"npm/steersman-{VERSION}.tgz"]
        self.npm(project, "install", *archives)
        return project / "node_modules/.bin/steersman"

    def test_npm_installs_the_packages_and_the_command_runs(self):
        program = self.installed()
        said = subprocess.run([program, "apiserver", "--nodes=1"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said, "arguments: apiserver --nodes=1\n")

    def test_the_launcher_passes_signals_and_exit_codes_on(self):
        program = self.installed()
        self.assertEqual(subprocess.run([program, "help", "nothing"]).returncode, 1)
        with subprocess.Popen([program, "wait"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            running.terminate()
            self.assertEqual(running.stdout.read(), "ended\n")
            self.assertEqual(running.wait(timeout=30), 3)

    def test_a_signal_at_the_start_of_the_program_ends_both(self):
        program = self.installed()
        signals = self.scratch / "signals.js"
        signals.write_text(
            'const processes = require("node:child_process");\n'
            "const { spawn } = processes;\n"
            "processes.spawn = (...given) => {\n"
            "  const child = spawn(...given);\n"
            '  process.kill(process.pid, "SIGTERM");\n'
            "  return child;\n"
            "};\n"
        )
        with subprocess.Popen(
            [program, "wait"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**os.environ, "NODE_OPTIONS": f"--require={signals}"},
        ) as running:
            try:
                # The program ends by its handler, or by the signal if that came first.
                self.assertIn(running.wait(timeout=30), (3, 128 + signal.SIGTERM))
            except AssertionError:
                os.killpg(running.pid, signal.SIGKILL)
                raise
            # The pipe ends with the program.
            running.stdout.read()

    def test_npm_packs_the_packages_without_a_change(self):
        if not shutil.which("npm"):
            self.skipTest("no npm")
        for path in sorted((self.dist / "npm").iterdir()):
            # npm reads the archive, checks its package.json and packs it again.
            [packed_again] = json.loads(self.npm(self.scratch, "pack", "--json", path))
            self.assertEqual(sorted(f"package/{file['path']}" for file in packed_again["files"]), sorted(members(path.read_bytes())))

    def test_packages_of_other_machines_are_not_installed(self):
        for platform in platforms.ALL:
            package = json.loads(members(self.files[f"npm/steersman-linux-{platform.npm}-{VERSION}.tgz"])["package/package.json"][1])
            self.assertEqual((package["os"], package["cpu"]), (["linux"], [platform.npm]))
            self.assertIn(package["name"], json.loads(members(self.files[f"npm/steersman-{VERSION}.tgz"])["package/package.json"][1])["optionalDependencies"])

    def test_a_missing_package_of_the_machine_is_named(self):
        if not shutil.which("node"):
            self.skipTest("no node")
        launcher = self.scratch / "alone/bin/steersman.js"
        launcher.parent.mkdir(parents=True)
        launcher.write_bytes((npm.MODULES / "launcher.js").read_bytes())
        (launcher.parent.parent / "program.js").write_bytes((npm.MODULES / "program.js").read_bytes())
        done = subprocess.run(["node", launcher], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the package @steersman/linux-{own_platform().npm} is not installed", done.stderr)


class NpmRunners(unittest.TestCase):
    """The helpers of the npm package in real test runners. STORIES_PROGRAM is the program.

    node has a runner; NODE_RUNNERS is a folder with vitest and jest in its node_modules.
    """

    def setUp(self):
        if not shutil.which("node"):
            self.skipTest("no node")
        self.project = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        release = types.SimpleNamespace(version=VERSION, repository="", epoch=EPOCH)
        package = npm.main(platforms.ALL, b"", release)
        with tarfile.open(fileobj=io.BytesIO(package)) as archive:
            archive.extractall(self.project, filter="data")
        (self.project / "node_modules").mkdir()
        (self.project / "package").rename(self.project / "node_modules/steersman")
        (self.project / "package.json").write_text('{"private": true}')
        for file in (ROOT / "tests/clients/runners").iterdir():
            shutil.copy(file, self.project)

    def assert_passes(self, command):
        environment = {**os.environ, "STEERSMAN": os.environ["STORIES_PROGRAM"]}
        done = subprocess.run(command, cwd=self.project, capture_output=True, text=True, env=environment)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        # In the words of node, vitest and jest.
        self.assertRegex(said, r"# pass 4\b|\bpass 4\b|4 passed")

    def runner(self, name):
        """The command of a runner, which the project then has."""
        folder = pathlib.Path(os.environ.get("NODE_RUNNERS", "/nonexistent")) / "node_modules"
        if not (folder / name).exists():
            self.skipTest(f"no {name} in the folder NODE_RUNNERS")
        (self.project / "node_modules" / name).symlink_to(folder / name)
        return folder / ".bin" / name

    def test_node(self):
        self.assert_passes(["node", "--test", "node.test.cjs"])

    def test_vitest(self):
        self.assert_passes([self.runner("vitest"), "run", "vitest.test.mjs"])

    def test_jest(self):
        self.assert_passes([self.runner("jest"), "--testMatch", "**/jest.test.cjs"])


class Scripts(unittest.TestCase):
    def setUp(self):
        """A repository with the scripts, in the state of a release, without a profile of its sources."""
        self.repository = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("scripts/release.sh", "scripts/profile-sources.sh"):
            path = self.repository / name
            path.parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, path)
        build = self.repository / "scripts/build-static.sh"
        build.write_text('#!/bin/sh\necho "built $*" >&2\nexit 1\n')
        build.chmod(0o755)
        self.write("Cargo.toml", '[workspace.package]\nversion = "0.2.0"\nedition = "2024"\n\n[package]\nversion = "7.7.7"\n')
        self.write("Cargo.lock", "")
        self.write("src/main.rs", "fn main() {}\n")
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-28\n")
        self.write(".gitignore", "/target\n/dist\n")
        self.git("init", "--quiet")
        self.commit()

    def write(self, name, text):
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments], cwd=self.repository, check=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "state")

    def release(self, *arguments):
        done = subprocess.run(["scripts/release.sh", *arguments], cwd=self.repository, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def sources(self):
        return subprocess.run(["scripts/profile-sources.sh"], cwd=self.repository, check=True, capture_output=True, text=True).stdout

    def test_a_release_is_refused_before_the_builds(self):
        self.assertIn("which version?", self.release())
        self.assertIn("Cargo.toml has version 0.2.0; run: scripts/release/prepare.py 0.3.0", self.release("0.3.0"))
        self.assertIn("--fast is none of", self.release("0.2.0", "--fast"))
        self.write("notes.txt", "not committed")
        self.assertIn("there are changes that are not committed", self.release("0.2.0"))
        self.assertIn("the profile in profile/ is of other sources", self.release("0.2.0", "--unclean"))
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n")
        self.assertIn("CHANGELOG.md has no dated section of 0.2.0", self.release("0.2.0", "--unclean"))

    def test_a_profile_of_other_sources_is_refused(self):
        stale = "the profile in profile/ is of other sources"
        self.assertIn(stale, self.release("0.2.0"))
        # Without the profile, the release goes on to the build.
        self.assertIn("built --without-profile", self.release("0.2.0", "--without-profile"))
        self.write("profile/sources", self.sources())
        self.commit()
        self.assertIn("built --target", self.release("0.2.0"))
        self.write("src/main.rs", "fn main() { changed() }\n")
        self.commit()
        self.assertIn(stale, self.release("0.2.0"))

    def test_tests_and_documents_leave_the_profile_current(self):
        before = self.sources()
        self.write("docs/page.md", "text")
        self.write("src/tests.rs", "text")
        self.write("controllers/job/tests/story.rs", "text")
        self.commit()
        self.assertEqual(self.sources(), before)
        self.write("controllers/job/sync.rs", "text")
        self.commit()
        self.assertNotEqual(self.sources(), before)

    def test_the_version_is_set_everywhere(self):
        self.write("charts/steersman/Chart.yaml", "name: steersman\nversion: 0.2.0\nappVersion: 0.2.0\nkubeVersion: 0.2.0\n")
        self.write("Dockerfile", 'ARG VERSION="0.2.0"\n')
        self.write("docs/page.md", "image: registry.example.com/steersman:0.2.0\nhelm.sh/chart: steersman-0.2.0\n")
        self.write("tests/golden/chart/notes.txt", "Steersman 0.2.0 at 10.0.2.0\n")
        self.commit()
        prepare.set_version(self.repository, "0.2.0", "0.3.0")
        self.assertEqual((self.repository / "tests/golden/chart/notes.txt").read_text(), "Steersman 0.3.0 at 10.0.2.0\n")
        self.assertEqual(prepare.stated(self.repository), "0.3.0")
        self.assertIn('\nversion = "7.7.7"', (self.repository / "Cargo.toml").read_text())
        self.assertEqual((self.repository / "charts/steersman/Chart.yaml").read_text(), "name: steersman\nversion: 0.3.0\nappVersion: 0.3.0\nkubeVersion: 0.2.0\n")
        self.assertEqual((self.repository / "docs/page.md").read_text(), "image: registry.example.com/steersman:0.3.0\nhelm.sh/chart: steersman-0.3.0\n")
        with self.assertRaisesRegex(ValueError, "Chart.yaml does not contain"):
            prepare.set_version(self.repository, "0.2.0", "0.4.0")

    def test_changes_are_dated_once(self):
        text = "# Changelog\n\n## Unreleased\n\n### Added\n"
        dated = prepare.date_changes(text, "0.2.0", "2026-11-28")
        self.assertEqual(dated, "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-28\n\n### Added\n")
        with self.assertRaisesRegex(ValueError, "a section of 0.2.0 already"):
            prepare.date_changes(dated, "0.2.0", "2026-11-29")

    def test_the_krew_manifest_has_the_sums_of_the_archives(self):
        release = pack.Release("0.2.0", "v1.36.2", COMMIT, EPOCH, "https://example.com")
        manifest = json.loads(krew.manifest([(platforms.ALL[0], "a.tar.gz", b"x")], "https://example.com/d", release))
        [platform] = manifest["spec"]["platforms"]
        self.assertEqual((platform["uri"], platform["sha256"]), ("https://example.com/d/a.tar.gz", hashlib.sha256(b"x").hexdigest()))


if __name__ == "__main__":
    unittest.main()
