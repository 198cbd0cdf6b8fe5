#!/usr/bin/env python3
"""Helps scripts/foreign.sh: selects specs, reads reports, and writes the table.

    foreign.py specs PROGRAM        names of the conformance specs of five special interest groups
    foreign.py junit FILE           results of a report in JUnit's form
    foreign.py cargo FILE           results in the output of cargo test
    foreign.py assertions FILE      results of the assertions in the output of test/cmd
    foreign.py table FOLDER FILE    renews the table of FILE from the results in FOLDER

A result is a line of `pass`, `fail` or `skip`, a tab and the name of a test.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

GROUPS = ("[sig-api-machinery]", "[sig-apps]", "[sig-auth]", "[sig-instrumentation]", "[sig-scheduling]")
MARKS = ("<!-- suites: written by scripts/foreign.sh -->", "<!-- end -->")
SERVERS = {"embedded": "embedded cluster", "real": "real cluster", "manager": "real cluster, Steersman as manager"}
SUITES = {
    "e2e": "conformance specs of Kubernetes, in five groups",
    "test-cmd": "`test/cmd` of Kubernetes",
    "test-cmd-assertions": "assertions of `test/cmd`",
    "kube-rs": "integration tests of kube-rs",
    "python": "end-to-end tests of the Python client",
    "kr8s": "tests of kr8s",
    "lightkube": "end-to-end tests of lightkube",
    "kopf": "end-to-end tests of kopf",
    "envtest-js": "tests of envtest-js",
}


def specs(program):
    """Lists with a dry run, because --list-tests is absent from some builds."""
    with tempfile.NamedTemporaryFile() as report:
        flags = ["--ginkgo.dry-run", r"--ginkgo.focus=\[Conformance\]", f"--ginkgo.json-report={report.name}"]
        subprocess.run([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        suite = json.load(report)[0]
    for spec in suite["SpecReports"]:
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["State"] == "passed" and spec["LeafNodeType"] == "It" and name.startswith(GROUPS):
            print(name)


def junit(file):
    for case in xml.etree.ElementTree.parse(file).iter("testcase"):
        found = {child.tag for child in case}
        result = "fail" if found & {"failure", "error"} else "skip" if "skipped" in found else "pass"
        print(f"{result}\t{case.get('classname')} {case.get('name')}")


def cargo(file):
    for name, result in re.findall(r"^test (.+?)(?: - should panic)? \.\.\. (?:.*?)(ok|FAILED)$", pathlib.Path(file).read_text(), re.MULTILINE):
        print(f"{'pass' if result == 'ok' else 'fail'}\t{name}")


def assertions(file):
    suite, number = "", 0
    for line in pathlib.Path(file).read_text(errors="replace").splitlines():
        if started := re.match(r"\+\+\+ Running case: test-cmd\.(\S+)", line):
            suite, number = started[1], 0
        elif ended := re.match(r"(?:\x1b\S*)?(?:\S+: )?(Successful|FAIL!?)(?=\s|:|$)", line):
            number += 1
            print(f"{'pass' if ended[1] == 'Successful' else 'fail'}\t{suite} {number}")


def read(folder):
    """The results of each suite: tests with their result on each server."""
    suites = {}
    for suite in SUITES:
        tests = {}
        for server in SERVERS:
            file = folder / server / suite / "results"
            for line in file.read_text().splitlines() if file.exists() else []:
                result, name = line.split("\t", 1)
                tests.setdefault(name, {})[server] = result
        if tests:
            suites[suite] = tests
    return suites


def table(folder, file):
    suites = read(pathlib.Path(folder))
    lines = [f"| suite | tests | {' | '.join(SERVERS.values())} |", "|---|---|---|---|---|"]
    differing = []
    for suite, tests in suites.items():
        cells = []
        for server in SERVERS:
            results = [found[server] for found in tests.values() if server in found]
            cells.append(f"{results.count('pass')} of {len(results)}" if results else "")
        lines.append(f"| {SUITES[suite]} | {len(tests)} | {' | '.join(cells)} |")
        for name, found in sorted(tests.items()):
            lost = [SERVERS[server] for server in SERVERS if found.get(server, "pass") != "pass"]
            # A suite that ends early leaves out its further assertions.
            if found.get("real") == "pass" and lost and suite != "test-cmd-assertions":
                differing.append(f"- {SUITES[suite]}: {name} ({', '.join(lost)})")
    if differing:
        lines += ["", "Tests that pass on the real cluster only:", "", *differing]
    document = pathlib.Path(file)
    before, rest = document.read_text().split(MARKS[0])
    after = rest.split(MARKS[1], 1)[1]
    text = "\n".join(lines)
    document.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


def main():
    commands = {"specs": (specs, 1), "junit": (junit, 1), "cargo": (cargo, 1), "assertions": (assertions, 1), "table": (table, 2)}
    command, number = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if not command or len(sys.argv) != number + 2:
        sys.exit(__doc__)
    command(*sys.argv[2:])


if __name__ == "__main__":
    main()
