#!/usr/bin/env python3
"""Searches for faults until a time is over, and adds the numbers of the night to docs/proof/index.html.

    scripts/nightly.py [--minutes 300] [--plans 40] [--suite PROGRAM] [--skip fuzz,soak,mutants]
                       [--compare FILE] [--ci FILE] [--binary FILE]

First the script replays the plans of docs/proof/failing.txt, which failed in earlier nights. Then it
runs the fuzzers, random users and injected bugs, and draws plans of the perturbation suite with one seed
after another until the time is over. A plan that fails is kept in docs/proof/failing.txt until it
passes. Exits with 1 if a plan, a fuzzer or the random users fail, or if an injected bug stays unseen.

--suite is a built suite; without it, cargo builds one with optimisation. --compare is the result of
`steersman-bench compare --json`, --ci the output of .ci/run, and --binary the manager of the image.
The page shows them beside the other numbers.
"""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/proof/index.html"
FAILING = ROOT / "docs/proof/failing.txt"
MARKS = ("/* nights: written by scripts/nightly.py */", "/* end */")
PYTHON = ROOT / ".venv/bin/python"


def output(*command, check=True):
    ended = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
    if check and ended.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode}")
    return ended.returncode, ended.stdout


def built_suite():
    """The path of the optimised suite."""
    build = ["cargo", "test", "--release", "--locked", "-p", "steersman-perturb", "--test", "suite"]
    _, text = output(*build, "--no-run", "--message-format=json")
    messages = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [message["executable"] for message in messages if message.get("executable")][-1]


def ratios(report):
    """Time, CPU and memory of the first manager by those of the second, for each row and phase."""
    rows = {}
    for line in report["lines"]:
        ours, theirs = line["samples"]
        rows[f"{line['row']} {line['phase']}"] = [
            round(statistics.median(sample[cost] for sample in ours) / statistics.median(sample[cost] for sample in theirs), 3)
            for cost in ("wall_seconds", "cpu_seconds", "resident_mib")
        ]
    return rows


class Night:
    """The numbers of one night."""

    def __init__(self, arguments):
        self.began = time.monotonic()
        self.deadline = self.began + arguments.minutes * 60
        self.arguments = arguments
        self.suite = arguments.suite or built_suite()
        self.failing = []
        self.wrong = []
        now = datetime.datetime.now(datetime.timezone.utc)
        self.numbers = {
            "date": now.strftime("%Y-%m-%d"),
            "commit": output("git", "rev-parse", "--short=10", "HEAD")[1].strip(),
            "plans": 0,
            "unmet": 0,
            "violations": 0,
            "virtualHours": 0,
        }
        # Each day has seeds of its own.
        self.seed = int(now.strftime("%y%m%d")) * 1000

    def replay(self):
        """Runs the plans that failed earlier, and keeps those that still fail."""
        lines = FAILING.read_text().splitlines() if FAILING.exists() else []
        for line in lines:
            seed, scenario, plan = line.split(" ", 2)
            code, _ = output(self.suite, "--seed", seed, "--replay", scenario, plan, "--times", "3", check=False)
            if code:
                self.failing.append(line)
        self.numbers["replayed"] = len(lines)

    def search(self):
        """Draws plans with one seed after another."""
        first = self.seed
        while time.monotonic() < self.deadline or self.seed == first:
            code, text = output(self.suite, "--seed", str(self.seed), "--plans", str(self.arguments.plans), check=False)
            total = re.search(r"^\| all \| \d+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
            if not total:
                sys.exit(f"the suite printed no table for seed {self.seed}:\n{text}")
            derived, plans, met, violations, hours = map(int, total.groups())
            self.numbers["derived"] = derived
            self.numbers["plans"] += plans
            self.numbers["unmet"] += plans - met
            self.numbers["violations"] += violations
            self.numbers["virtualHours"] += hours
            for scenario, plan in re.findall(r"--replay (\S+) '([^']+)'", text):
                self.failing.append(f"{self.seed} {scenario} {plan}")
            if code and not violations:
                self.wrong.append(f"too many plans of seed {self.seed} were without their fault")
            self.seed += 1
        self.numbers["seeds"] = [first, self.seed - 1]

    def fuzz(self):
        code, text = output("scripts/fuzz.sh", "60", check=False)
        runs = [int(number) for number in re.findall(r"number_of_executed_units: (\d+)", text)]
        self.numbers["fuzzTargets"], self.numbers["fuzzRuns"] = len(runs), sum(runs)
        if code:
            self.wrong.append("a fuzzer found an input")

    def soak(self):
        code, text = output(PYTHON, "scripts/soak.py", "--seed", str(self.seed), check=False)
        summary = re.search(r"(\d+) actions; ([+-][\d.]+)% memory", text)
        memory = re.findall(r"^\| [\d.]+ \| ([\d.]+) \|", text, re.MULTILINE)
        if not summary or not memory:
            sys.exit(f"scripts/soak.py printed no result:\n{text}")
        self.numbers["soakActions"], self.numbers["soakGrowth"] = int(summary[1]), float(summary[2])
        self.numbers["soakMiB"] = float(memory[-1])
        if code:
            self.wrong.append("random users found a leak, a panic or growth")

    def mutants(self):
        code, text = output(sys.executable, "scripts/mutants.py", check=False)
        found = [line.startswith("detected") for line in text.splitlines() if line.startswith(("detected", "MISSED"))]
        if not found:
            sys.exit(f"scripts/mutants.py printed no result:\n{text}")
        self.numbers["mutants"] = [sum(found), len(found)]
        if code:
            self.wrong.append("an injected bug stayed unseen")

    def read(self):
        """Takes the numbers that other programs left in files."""
        if self.arguments.compare:
            self.numbers["compare"] = ratios(json.loads(self.arguments.compare.read_text()))
        if self.arguments.ci:
            steps = re.findall(r"^ci: (\d+) s for ", self.arguments.ci.read_text(), re.MULTILINE)
            self.numbers["ciSeconds"] = sum(map(int, steps))
        if self.arguments.binary:
            self.numbers["binaryBytes"] = self.arguments.binary.stat().st_size

    def write(self):
        FAILING.unlink(missing_ok=True)
        if self.failing:
            FAILING.write_text("".join(f"{line}\n" for line in self.failing))
        self.numbers["failing"] = len(self.failing)
        self.numbers["minutes"] = round((time.monotonic() - self.began) / 60)
        before, rest = PAGE.read_text().split(MARKS[0])
        nights, after = rest.split(MARKS[1])
        nights = json.loads(nights)
        nights.append(self.numbers)
        lines = ",\n".join(json.dumps(night) for night in nights)
        PAGE.write_text(f"{before}{MARKS[0]}\n[\n{lines}\n]\n{MARKS[1]}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=300)
    parser.add_argument("--plans", type=int, default=40, help="plans per scenario and seed")
    parser.add_argument("--suite", help="a built perturbation suite")
    parser.add_argument("--skip", default="", help="parts to leave out: fuzz,soak,mutants")
    for name in ["compare", "ci", "binary"]:
        parser.add_argument(f"--{name}", type=pathlib.Path)
    arguments = parser.parse_args()
    parts = ["fuzz", "soak", "mutants"]
    skipped = [part for part in arguments.skip.split(",") if part]
    if unknown := [part for part in skipped if part not in parts]:
        parser.error(f"--skip: {unknown[0]!r} is none of {', '.join(parts)}")
    night = Night(arguments)
    night.read()
    night.replay()
    for part in parts:
        if part not in skipped:
            getattr(night, part)()
    night.search()
    night.write()
    numbers = night.numbers
    print(f"{numbers['plans']} plans, {numbers['violations']} violations, {numbers['failing']} failing plans are kept.")
    if night.failing:
        night.wrong.append(f"{len(night.failing)} plans fail; see {FAILING.relative_to(ROOT)}")
    sys.exit("; ".join(night.wrong) or None)


if __name__ == "__main__":
    main()
