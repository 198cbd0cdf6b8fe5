"""Packs a release from its binaries: scripts/release.sh builds them and runs this.

binaries of each machine -> licences, bill of materials -> archives, image, wheels, npm packages; chart -> sums

    python3 scripts/release/pack.py --binaries FOLDER --output dist --version 0.2.0 --epoch SECONDS --commit SHA

FOLDER has `steersman` (the whole program) and `kube-controller-manager` in a folder for each machine,
amd64 and arm64, and `toolchain.json`. The same arguments give the same bytes, wherever this runs.
"""

import argparse
import hashlib
import json
import pathlib
import platform as machine
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

import archives
import bill
import chart
import dockerfile
import krew
import npm
import oci
import parts
import platforms
import wheel
from archives import Entry, program

MANAGER = "kube-controller-manager"
SHELLS = {"bash": "steersman.bash", "fish": "steersman.fish", "zsh": "_steersman"}


@dataclass(frozen=True)
class Release:
    """What all packages state."""

    version: str
    # The Kubernetes release that the manager equals, such as v1.36.2.
    kubernetes: str
    commit: str
    # Seconds since 1970: the time of all files.
    epoch: int
    # The web page of the repository; empty if it has none.
    repository: str = ""


@dataclass(frozen=True)
class Built:
    """A binary with the texts that go with it."""

    name: str
    platform: platforms.Platform
    binary: bytes
    notices: bytes
    bill: bytes

    def papers(self, licence):
        return [
            ("LICENSE", licence),
            ("THIRD-PARTY-LICENSES.txt", self.notices),
            (f"{self.name}.cdx.json", self.bill),
        ]


def said(*command):
    """The standard output of a program that has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def own_binary(folder, name):
    """The path of the binary that runs on this machine."""
    here = next((each for each in platforms.ALL if each.uname == machine.machine()), None)
    if here is None or not (folder / here.go / name).exists():
        raise RuntimeError(f"{folder} has no {name} for this machine ({machine.machine()}), which tells its version and manual")
    return folder / here.go / name


def kubernetes(folder):
    """The Kubernetes version in the code, from the manager that runs here."""
    text = said(own_binary(folder, MANAGER), "--version")
    found = re.fullmatch(r"Kubernetes (v\d+\.\d+\.\d+)\n", text)
    if not found:
        raise RuntimeError(f"{MANAGER} --version printed {text!r} instead of a version of Kubernetes")
    return found[1]


def manual(folder):
    """Manual pages and completion scripts, by their names."""
    steersman = own_binary(folder, "steersman")
    with tempfile.TemporaryDirectory() as pages:
        said(steersman, "manual", pages)
        found = {f"man/{page.name}": page.read_bytes() for page in pathlib.Path(pages).iterdir()}
    for shell, name in SHELLS.items():
        found[f"completions/{name}"] = said(steersman, "completion", shell).encode()
    return found


def built(folder, name, platform, release, toolchain):
    path = folder / platform.go / name
    binary = path.read_bytes()
    inside = parts.of_binary(platform.target, name == "steersman", toolchain["rustc"], toolchain["glibc"][platform.go])
    return Built(
        name=name,
        platform=platform,
        binary=binary,
        notices=parts.notices(f"{name} {release.version}", inside).encode(),
        bill=bill.cyclonedx(name, binary, inside, release, platform),
    )


def program_archive(each, licence, pages, release):
    """The archive of one program: name and bytes."""
    files = [program(each.name, each.binary)]
    files += [Entry(name, text) for name, text in each.papers(licence)]
    files += [Entry(name, text) for name, text in pages.items()]
    return f"{each.name}-{release.version}-linux-{each.platform.go}.tar.gz", archives.tar_gz(files, release.epoch)


def layer(each, settings, licence):
    """The files of the image of one machine."""
    entries = []
    for source, destination in settings.copies:
        inside = destination.strip("/")
        if source == "/out/":
            # As scripts/build-static.sh names them.
            entries.append(program(f"{inside}/steersman", each.binary))
            entries.append(Entry(f"{inside}/{MANAGER}", link="steersman"))
        elif source == "LICENSE":
            folder = inside.rpartition("/")[0]
            entries += [Entry(f"{folder}/{name}", text) for name, text in each.papers(licence)]
        else:
            raise ValueError(f"the Dockerfile copies {source}, which the release does not know")
    return entries


def packages(folder, release, downloads):
    """All files of the release: path below the folder of the release -> bytes."""
    toolchain = json.loads((folder / "toolchain.json").read_text())
    licence = (parts.ROOT / "LICENSE").read_bytes()
    pages = manual(folder)
    page_of_manager = f"man/{MANAGER}.1"
    files, for_krew, images = {}, [], []
    for platform in platforms.ALL:
        manager = built(folder, MANAGER, platform, release, toolchain)
        whole = built(folder, "steersman", platform, release, toolchain)
        name, archive = program_archive(manager, licence, {page_of_manager: pages[page_of_manager]}, release)
        files[name] = archive
        name, archive = program_archive(whole, licence, pages, release)
        files[name] = archive
        for_krew.append((platform, name, archive))
        for each in (manager, whole):
            files[f"{each.name}-{release.version}-linux-{platform.go}.cdx.json"] = each.bill
        images.append((platform, manager))
        papers = whole.papers(licence)
        files[f"python/{wheel.name(platform, release.version)}"] = wheel.build(platform, whole.binary, papers, release)
        files[f"npm/steersman-linux-{platform.npm}-{release.version}.tgz"] = npm.of_platform(platform, whole.binary, papers, release)
    files[f"npm/steersman-{release.version}.tgz"] = npm.main(platforms.ALL, licence, release)
    values = {"STEERSMAN_COMMIT": release.commit, "VERSION": release.version}
    settings = dockerfile.last_stage((parts.ROOT / "Dockerfile").read_text(), values)
    layers = [(platform, layer(manager, settings, licence)) for platform, manager in images]
    files[f"steersman-{release.version}-image.tar"] = oci.archive(layers, settings, [release.version, release.kubernetes], release)
    files[f"chart/steersman-{release.version}.tgz"] = chart.package(parts.ROOT / "charts/steersman", release)
    if has_why(folder):
        if downloads and release.repository:
            files["why.yaml"] = krew.manifest(for_krew, downloads, release)
        else:
            print("release: without why.yaml, because krew's manifest needs the page of the repository: --downloads and --repository")
    return files


def has_why(folder):
    """Whether the program has the command of the kubectl plugin."""
    return subprocess.run([own_binary(folder, "steersman"), "help", "why"], capture_output=True).returncode == 0


def sums(files):
    """The page that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def write(files, output):
    """Replaces the folder of the release."""
    shutil.rmtree(output, ignore_errors=True)
    for name, data in files.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main():
    arguments = argparse.ArgumentParser(description="Packs a release from its binaries.")
    arguments.add_argument("--binaries", type=pathlib.Path, required=True, help="folder with amd64, arm64 and toolchain.json")
    arguments.add_argument("--output", type=pathlib.Path, required=True, help="folder of the release, which this replaces")
    arguments.add_argument("--version", required=True)
    arguments.add_argument("--epoch", type=int, required=True, help="the time of all files, in seconds since 1970")
    arguments.add_argument("--commit", required=True)
    arguments.add_argument("--repository", default="", help="web page of the repository, for the metadata of packages")
    arguments.add_argument("--downloads", default="", help="URL of the folder with the archives, for the krew manifest")
    given = arguments.parse_args()
    release = Release(given.version, kubernetes(given.binaries), given.commit, given.epoch, given.repository)
    files = packages(given.binaries, release, given.downloads)
    files["SHA256SUMS"] = sums(files)
    write(files, given.output)
    print(f"release: {len(files)} files of {release.version} (Kubernetes {release.kubernetes}) are in {given.output}")


if __name__ == "__main__":
    main()
