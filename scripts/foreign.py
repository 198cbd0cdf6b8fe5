#!/usr/bin/env python3
"""Helps scripts/foreign.sh: selects specs, reads reports, and writes the table.

    foreign.py specs PROGRAM        names of the conformance specs of five special interest groups
    foreign.py ginkgo FILE          results of a report of e2e.test
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
LISTS = {
    "lost": "Tests that pass on the real cluster only:",
    "unrun": "Tests that did not run in a column:",
    "nowhere": "Tests that pass in no column:",
}
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
        for name, _ in selected(report.name):
            if name.startswith(GROUPS):
                print(name)


def selected(file):
    """The specs of a report that ran, with their state."""
    for spec in json.loads(pathlib.Path(file).read_text())[0]["SpecReports"]:
        # A spec outside of the focus has the state `skipped`, too, but no message.
        left_out = spec["State"] == "skipped" and not spec.get("Failure", {}).get("Message")
        if spec["LeafNodeType"] == "It" and spec["State"] != "pending" and not left_out:
            yield " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]]), spec["State"]


def ginkgo(file):
    for name, state in selected(file):
        result = {"passed": "pass", "skipped": "skip"}.get(state, "fail")
        print(f"{result}\t{name}")


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
    """The results of each suite: tests with their result on each server. A test that did not run has none."""
    suites = {}
    for suite in SUITES:
        tests = {}
        for server in SERVERS:
            names, results = (folder / server / suite / name for name in ("tests", "results"))
            for name in names.read_text().splitlines() if names.exists() else []:
                tests.setdefault(name, {})
            for line in results.read_text().splitlines() if results.exists() else []:
                result, name = line.split("\t", 1)
                tests.setdefault(name, {})[server] = result
        if any(tests.values()):
            suites[suite] = tests
    return suites


def row(suite, tests):
    """The row of a suite. A server without any result has an empty cell."""
    cells = []
    for server in SERVERS:
        results = [found.get(server) for found in tests.values()]
        unrun = results.count(None)
        cell = f"{results.count('pass')} of {len(results)}" + (f", {unrun} not run" if unrun else "")
        cells.append("" if unrun == len(results) else cell)
    return f"| {SUITES[suite]} | {len(tests)} | {' | '.join(cells)} |"


def lists(suite, tests):
    """The lines of each list of LISTS for a suite."""
    servers = [server for server in SERVERS if any(server in found for found in tests.values())]
    lines = {title: [] for title in LISTS.values()}
    for name, found in sorted(tests.items()):
        for key, listed in (
            ("lost", [server for server in servers if found.get("real") == "pass" != found.get(server, "pass")]),
            ("unrun", [server for server in servers if server not in found]),
            ("nowhere", [] if "pass" in found.values() else [server for server in servers if server in found]),
        ):
            if listed:
                columns = "" if listed == servers else f" ({', '.join(SERVERS[server] for server in listed)})"
                lines[LISTS[key]].append(f"- {SUITES[suite]}: {name}{columns}")
    return lines


def table(folder, file):
    suites = read(pathlib.Path(folder))
    document = pathlib.Path(file)
    before, rest = document.read_text().split(MARKS[0])
    old, after = rest.split(MARKS[1], 1)
    rows = []
    listed = {title: [] for title in LISTS.values()}
    for suite, label in SUITES.items():
        if suite in suites:
            rows.append(row(suite, suites[suite]))
            # A suite that ends early leaves out its further assertions.
            found = {} if suite == "test-cmd-assertions" else lists(suite, suites[suite])
        else:
            # Results of suites that ran with another folder stay.
            rows += [line for line in old.splitlines() if line.startswith(f"| {label} |")]
            found = {title: [line for line in under(title, old) if line.startswith(f"- {label}: ")] for title in listed}
        for title, lines in found.items():
            listed[title] += lines
    lines = [f"| suite | tests | {' | '.join(SERVERS.values())} |", "|---|---|---|---|---|", *rows]
    for title, items in listed.items():
        lines += ["", title, "", *items] if items else []
    text = "\n".join(lines)
    document.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


def under(title, text):
    """The lines of the list with this title."""
    _, _, rest = text.partition(f"\n{title}\n\n")
    return rest.split("\n\n")[0].splitlines()


def main():
    commands = {"specs": (specs, 1), "ginkgo": (ginkgo, 1), "junit": (junit, 1), "cargo": (cargo, 1), "assertions": (assertions, 1), "table": (table, 2)}
    command, number = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if not command or len(sys.argv) != number + 2:
        sys.exit(__doc__)
    command(*sys.argv[2:])


if __name__ == "__main__":
    main()
