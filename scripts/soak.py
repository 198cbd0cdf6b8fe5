#!/usr/bin/env python3
"""Ten minutes of `steersman dev` under the random actions of several users, with its memory and tasks sampled.

  cargo build --release && scripts/soak.py [--minutes 10] [--seed 1] [--users 2] [--binary target/release/steersman] [--log FILE]

Fails when memory grows by 2 % or more between minute 3 (or three tenths of the run) and the end, when a task is left over once everything
has been deleted, or when a sync panicked. Needs the kubernetes package: PYTHON=.venv/bin/python after scripts/test.sh.
"""

import argparse
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

NAMESPACES = ["default", "one", "two"]
NAMES = ["a", "b", "c", "d"]
SAMPLE_EVERY = 5
ALLOWED_GROWTH = 0.02
# Seconds from action to action of one user. Steady, as the server keeps the changes of two minutes: their number is its memory.
PACE = 0.25
# Of the Events of an hour, as by default, memory grows for an hour. With a term this short their number is steady from minute 3 on.
EVENT_TTL = "60s"
# What others did meanwhile: gone, there already, changed, or in a namespace that ends.
EXPECTED = {403, 404, 409}


def template(app, image):
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}}


class User:
    """Does something at random, at a steady pace. All users share few names, so that they meet."""

    def __init__(self, kubeconfig, seed):
        api = config.new_client_from_config(kubeconfig)
        self.random, self.core, self.apps = random.Random(seed), client.CoreV1Api(api), client.AppsV1Api(api)
        self.done = 0

    def act(self):
        actions = [
            (10, self.deploy), (10, self.roll), (10, self.scale), (3, self.pause), (4, self.drop_deployment),
            (6, self.make_set), (6, self.scale_set), (4, self.drop_set), (10, self.kill_pod), (6, self.make_map),
            (6, self.drop_map), (1, self.make_namespace), (0.3, self.drop_namespace),
        ]
        weights, functions = zip(*actions)
        action = self.random.choices(functions, weights)[0]
        try:
            action(self.random.choice(NAMESPACES), self.random.choice(NAMES))
        except ApiException as error:
            if error.status not in EXPECTED:
                raise
        self.done += 1

    def policy(self):
        return {"propagationPolicy": self.random.choice(["Background", "Foreground", "Orphan"])}

    def deploy(self, namespace, name):
        spec = {"replicas": self.random.randint(0, 5), "selector": {"matchLabels": {"app": name}}, "template": template(name, "web:1")}
        spec["strategy"] = {"type": self.random.choice(["RollingUpdate", "RollingUpdate", "Recreate"])}
        self.apps.create_namespaced_deployment(namespace, {"metadata": {"name": name}, "spec": spec})

    def patch_deployment(self, namespace, name, spec):
        self.apps.patch_namespaced_deployment(name, namespace, {"spec": spec})

    def roll(self, namespace, name):
        self.patch_deployment(namespace, name, {"template": template(name, f"web:{self.random.randint(1, 4)}")})

    def scale(self, namespace, name):
        self.patch_deployment(namespace, name, {"replicas": self.random.randint(0, 6)})

    def pause(self, namespace, name):
        self.patch_deployment(namespace, name, {"paused": self.random.random() < 0.3})

    def drop_deployment(self, namespace, name):
        self.apps.delete_namespaced_deployment(name, namespace, body=self.policy())

    def make_set(self, namespace, name):
        app = f"set-{name}"
        spec = {"replicas": self.random.randint(0, 4), "selector": {"app": app}, "template": template(app, "web:1")}
        self.core.create_namespaced_replication_controller(namespace, {"metadata": {"name": name}, "spec": spec})

    def scale_set(self, namespace, name):
        spec = {"replicas": self.random.randint(0, 4)}
        self.core.patch_namespaced_replication_controller(name, namespace, {"spec": spec})

    def drop_set(self, namespace, name):
        self.core.delete_namespaced_replication_controller(name, namespace, body=self.policy())

    def kill_pod(self, namespace, _):
        pods = self.core.list_namespaced_pod(namespace).items
        if pods:
            self.core.delete_namespaced_pod(self.random.choice(pods).metadata.name, namespace)

    def make_map(self, namespace, name):
        owner = self.random.choice(NAMES)
        uid = self.apps.read_namespaced_deployment(owner, namespace).metadata.uid
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": uid}
        metadata = {"name": name, "ownerReferences": [reference]}
        self.core.create_namespaced_config_map(namespace, {"metadata": metadata, "data": {"padding": "x" * 2000}})

    def drop_map(self, namespace, name):
        self.core.delete_namespaced_config_map(name, namespace)

    def make_namespace(self, *_):
        for namespace in NAMESPACES[1:]:
            self.core.create_namespace({"metadata": {"name": namespace}})

    def drop_namespace(self, *_):
        self.core.delete_namespace(self.random.choice(NAMESPACES[1:]))

    def drop_everything(self):
        for namespace in NAMESPACES[1:]:
            try:
                self.core.delete_namespace(namespace)
            except ApiException as error:
                if error.status not in EXPECTED:
                    raise
        for delete in [
            self.apps.delete_collection_namespaced_deployment, self.apps.delete_collection_namespaced_replica_set,
            self.core.delete_collection_namespaced_replication_controller, self.core.delete_collection_namespaced_pod,
            self.core.delete_collection_namespaced_config_map, self.core.delete_collection_namespaced_event,
        ]:
            delete("default")

    def left(self):
        pods, spaces = self.core.list_pod_for_all_namespaces().items, self.core.list_namespace().items
        sets = self.apps.list_replica_set_for_all_namespaces().items
        return len(pods) + len(sets) + sum(space.metadata.name in NAMESPACES[1:] for space in spaces)


class Dev:
    """A running `steersman dev`."""

    def __init__(self, binary, log):
        arguments = [binary, "dev", "--latency", "200ms", "--event-ttl", EVENT_TTL]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        self.metrics_url = self.kubeconfig = None
        while not self.kubeconfig:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("steersman dev did not start")
            if found := re.search(r"manager at (http://\S+?):? /", line):
                self.metrics_url = found[1] + "/metrics"
            if found := re.search(r"KUBECONFIG=(\S+)", line):
                self.kubeconfig = found[1]
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def metrics(self):
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            text = answer.read().decode()
        values = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                series, value = line.rsplit(" ", 1)
                family = series.split("{")[0]
                values[family] = values.get(family, 0) + float(value)
        return values

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def until(holds, limit):
    """Whether it came to hold within so many seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(1)
    return False


def soak(dev, arguments):
    users = [User(dev.kubeconfig, f"{arguments.seed}-{number}") for number in range(arguments.users)]
    users[0].make_namespace()
    begun, stop, failures = time.monotonic(), threading.Event(), []

    def work(user):
        try:
            due = time.monotonic()
            while not stop.wait(max(0, due - time.monotonic())):
                user.act()
                due += PACE
        except Exception as error:  # noqa: BLE001 - whatever it is ends the run
            failures.append(error)
            stop.set()

    tasks_before = dev.metrics()["go_goroutines"]
    threads = [threading.Thread(target=work, args=[user]) for user in users]
    for thread in threads:
        thread.start()
    samples = []
    while not stop.is_set() and time.monotonic() - begun < arguments.minutes * 60:
        time.sleep(SAMPLE_EVERY)
        values = dev.metrics()
        samples.append((time.monotonic() - begun, values["process_resident_memory_bytes"], values["go_goroutines"]))
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]

    def emptied():
        users[0].drop_everything()
        return users[0].left() == 0

    empty = until(emptied, 120)
    # Connections of the users stay open, one task or two for each.
    allowed = tasks_before + 2 * len(users)
    settled = empty and until(lambda: dev.metrics()["go_goroutines"] <= allowed, 120)
    return samples, tasks_before, empty, settled, sum(user.done for user in users), dev.metrics()


def report(arguments, samples, tasks_before, empty, settled, actions, last):
    minute = arguments.minutes * 60 / 10

    def median_of(number, column):
        inside = [sample[column] for sample in samples if (number - 1) * minute <= sample[0] < number * minute]
        return statistics.median(inside)

    print("| minute | memory, MiB | tasks |\n|---|---|---|")
    for number in range(1, 11):
        print(f"| {number * arguments.minutes / 10:g} | {median_of(number, 1) / 2**20:.1f} | {median_of(number, 2):.0f} |")
    # What a line through all samples since minute 3 says, as single minutes differ by what the users happen to do.
    late = [sample for sample in samples if sample[0] >= 3 * minute]
    slope, at_start = statistics.linear_regression([sample[0] - 3 * minute for sample in late], [sample[1] for sample in late])
    growth = slope * 7 * minute / at_start
    tasks, panics = last["go_goroutines"], last["steersman_sync_panics_total"] + last["steersman_task_panics_total"]
    print(f"\n{actions} actions; {growth:+.1%} memory between minute 3 and 10; {tasks:.0f} tasks at the end, {tasks_before:.0f} before.")
    wrong = {
        f"memory grew by {growth:.1%}": growth >= ALLOWED_GROWTH,
        "not everything could be deleted": not empty,
        f"{tasks:.0f} tasks are left": not settled,
        f"{panics:.0f} panics": panics > 0,
    }
    return [what for what, is_so in wrong.items() if is_so]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=2)
    parser.add_argument("--binary", default="target/release/steersman")
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="what steersman dev says meanwhile")
    arguments = parser.parse_args()
    dev = Dev(arguments.binary, arguments.log)
    try:
        wrong = report(arguments, *soak(dev, arguments))
    finally:
        code = dev.stop()
    if code != 0:
        wrong.append(f"steersman dev ended with {code}")
    sys.exit("; ".join(wrong) or None)


if __name__ == "__main__":
    main()
