"""Sets the version of the next release in all files that state it, and dates its changes.

    python3 scripts/release/prepare.py VERSION [--date YYYY-MM-DD]

tests/chart.rs checks that all files state the same version. Commit the result, then renew the profile
(scripts/profile.sh): symbols contain the version.
"""

import argparse
import datetime
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.compile(r'(?<=^\[workspace\.package\]\nversion = ")[^"]+', re.MULTILINE)


def stated(root):
    """The version in Cargo.toml, which the other files repeat."""
    return VERSION.search((root / "Cargo.toml").read_text())[0]


def replace(path, old, new):
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path} does not contain {old!r}")
    path.write_text(text.replace(old, new))


def set_version(root, old, new):
    """Replaces the version in the manifests, the chart and the names of images."""
    path = root / "Cargo.toml"
    path.write_text(VERSION.sub(new, path.read_text(), count=1))
    chart = root / "charts/steersman/Chart.yaml"
    replace(chart, f"\nversion: {old}\n", f"\nversion: {new}\n")
    replace(chart, f"\nappVersion: {old}\n", f"\nappVersion: {new}\n")
    replace(root / "Dockerfile", f'ARG VERSION="{old}"', f'ARG VERSION="{new}"')
    # Names of images, and of the chart in its renderings.
    for mark in ":-":
        named = subprocess.run(
            ["git", "grep", "--name-only", "--fixed-strings", f"steersman{mark}{old}", "--", ":!CHANGELOG.md"],
            cwd=root, capture_output=True, text=True,
        ).stdout
        for name in named.splitlines():
            replace(root / name, f"steersman{mark}{old}", f"steersman{mark}{new}")
    # The renderings state it in labels and notes, too.
    alone = re.compile(rf"(?<![\d.]){re.escape(old)}(?![\d.])")
    for rendering in sorted((root / "tests/golden/chart").glob("*")):
        rendering.write_text(alone.sub(new, rendering.read_text()))


def date_changes(text, version, date):
    """Puts the unreleased changes under a heading of the version."""
    if f"\n## {version} - " in text:
        raise ValueError(f"CHANGELOG.md has a section of {version} already")
    if "\n## Unreleased\n" not in text:
        raise ValueError("CHANGELOG.md has no section `## Unreleased`")
    return text.replace("\n## Unreleased\n", f"\n## Unreleased\n\n## {version} - {date}\n", 1)


def main():
    arguments = argparse.ArgumentParser(description="Sets the version of the next release.")
    arguments.add_argument("version")
    arguments.add_argument("--date", default=datetime.date.today().isoformat())
    given = arguments.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+", given.version):
        arguments.error(f"{given.version!r} is not a version such as 0.2.0")
    changes = ROOT / "CHANGELOG.md"
    dated = date_changes(changes.read_text(), given.version, given.date)
    set_version(ROOT, stated(ROOT), given.version)
    changes.write_text(dated)
    subprocess.run(["cargo", "update", "--workspace", "--offline"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
