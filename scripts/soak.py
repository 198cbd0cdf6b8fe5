#!/usr/bin/env python3
"""Checks `steersman dev` for leaks: random actions of several users for ten minutes, with samples of memory and tasks.

  cargo build --profile dist && scripts/soak.py [--minutes 10] [--warm-up 3] [--seed 1] [--users 6] [--binary target/dist/steersman] [--log FILE]

First comes a warm-up, which opens connections and fills caches: the users act for some minutes, and
then the script deletes all objects. At the end it deletes all objects again, and the number of tasks
must be that after the warm-up, except for timers of queues.

The run fails if there are more tasks, if a task or a sync panicked, or if memory grows by 2 % or more
between minute 3 and the end. A run of less than ten minutes only reports the growth. The script needs
the package kubernetes; scripts/test.sh installs it for .venv/bin/python.
"""

import argparse
import itertools
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
# Many objects make the work of all minutes similar. With a dozen objects, a few more paused
# Deployments would reduce it by a tenth.
NAMES = [f"n{number}" for number in range(16)]
SAMPLES = 120
# Seconds between two deletions of a namespace.
ROUND = 20
# Memory growth that fails the run, and the duration in minutes from which it is checked.
ALLOWED_GROWTH = 0.02
JUDGED_MINUTES = 10
# Additional tasks at the end that do not fail the run: each queue with a delayed key has one, its
# timer. A key may wait for minutes, and outlive its object.
ALLOWED_TIMERS = 4
# Seconds between two actions of one user. The server keeps the changes of the last minutes, and
# most of its memory depends on their number.
PACE = 0.25
# With the default of an hour, the number of Events and thereby memory would grow for an hour. With
# this value, the number is steady from minute 3 on.
EVENT_TTL = "60s"
# Answers caused by other users: not found, already exists, conflict, or a terminating namespace.
EXPECTED = {403, 404, 409}


def template(app, image):
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}}


class Deck:
    """Draws cards in random order. Each round draws every card once, so that all minutes have equal work."""

    def __init__(self, chance, cards):
        self.chance, self.cards, self.left = chance, list(cards), []

    def draw(self):
        if not self.left:
            self.left = self.chance.sample(self.cards, len(self.cards))
        return self.left.pop()


class User:
    """Acts at random, at a steady pace. All users share few names, so that their actions collide. If the
    object to change was deleted, a user recreates it, so the number of objects stays about the same."""

    def __init__(self, kubeconfig, seed):
        self.api = config.new_client_from_config(kubeconfig)
        self.core, self.apps = client.CoreV1Api(self.api), client.AppsV1Api(self.api)
        self.random = random.Random(seed)

        def deck(cards):
            return Deck(self.random, cards)

        actions = {
            self.roll: 20, self.scale: 20, self.pause: 6, self.drop_deployment: 8, self.scale_set: 12, self.drop_set: 8,
            self.kill_pod: 20, self.make_map: 12, self.drop_map: 6, self.make_namespaces: 7,
        }
        self.actions = deck([action for action, times in actions.items() for _ in range(times)])
        self.places = deck([(namespace, name) for namespace in NAMESPACES for name in NAMES])
        self.sizes, self.images = deck(range(7)), deck(range(1, 5))
        self.policies, self.pauses = deck(["Background", "Foreground", "Orphan"]), deck([True, False, False])
        self.strategies = deck(["RollingUpdate", "RollingUpdate", "Recreate"])
        self.done = 0

    def act(self):
        self.attempt(self.actions.draw(), *self.places.draw())
        self.done += 1

    @staticmethod
    def attempt(action, *arguments):
        """Returns false if another user's action prevented this one."""
        try:
            action(*arguments)
        except ApiException as error:
            if error.status not in EXPECTED:
                raise
            return False
        return True

    def disconnect(self):
        """Closes the connections. The next request opens a new one."""
        self.api.rest_client.pool_manager.clear()

    def fill(self):
        self.attempt(self.make_namespaces)
        for namespace in NAMESPACES:
            for name in NAMES:
                for make in (self.deploy, self.make_set, self.make_map):
                    self.attempt(make, namespace, name)

    def policy(self):
        return {"propagationPolicy": self.policies.draw()}

    def deploy(self, namespace, name):
        spec = {"replicas": self.sizes.draw(), "selector": {"matchLabels": {"app": name}}}
        spec |= {"template": template(name, "web:1"), "strategy": {"type": self.strategies.draw()}}
        self.apps.create_namespaced_deployment(namespace, {"metadata": {"name": name}, "spec": spec})

    def change_deployment(self, namespace, name, spec):
        try:
            self.apps.patch_namespaced_deployment(name, namespace, {"spec": spec})
        except ApiException as error:
            if error.status != 404:
                raise
            self.deploy(namespace, name)

    def roll(self, namespace, name):
        self.change_deployment(namespace, name, {"template": template(name, f"web:{self.images.draw()}")})

    def scale(self, namespace, name):
        self.change_deployment(namespace, name, {"replicas": self.sizes.draw()})

    def pause(self, namespace, name):
        self.change_deployment(namespace, name, {"paused": self.pauses.draw()})

    def drop_deployment(self, namespace, name):
        self.apps.delete_namespaced_deployment(name, namespace, body=self.policy())

    def make_set(self, namespace, name):
        app = f"set-{name}"
        spec = {"replicas": self.sizes.draw(), "selector": {"app": app}, "template": template(app, "web:1")}
        self.core.create_namespaced_replication_controller(namespace, {"metadata": {"name": name}, "spec": spec})

    def scale_set(self, namespace, name):
        try:
            spec = {"replicas": self.sizes.draw()}
            self.core.patch_namespaced_replication_controller(name, namespace, {"spec": spec})
        except ApiException as error:
            if error.status != 404:
                raise
            self.make_set(namespace, name)

    def drop_set(self, namespace, name):
        self.core.delete_namespaced_replication_controller(name, namespace, body=self.policy())

    def kill_pod(self, namespace, _):
        pods = self.core.list_namespaced_pod(namespace).items
        if pods:
            self.core.delete_namespaced_pod(self.random.choice(pods).metadata.name, namespace)

    def make_map(self, namespace, name):
        owner = self.apps.read_namespaced_deployment(name, namespace)
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": owner.metadata.uid}
        metadata = {"name": name, "ownerReferences": [reference]}
        self.core.create_namespaced_config_map(namespace, {"metadata": metadata, "data": {"padding": "x" * 2000}})

    def drop_map(self, namespace, name):
        self.core.delete_namespaced_config_map(name, namespace)

    def make_namespaces(self, *_):
        for namespace in NAMESPACES[1:]:
            self.attempt(self.core.create_namespace, {"metadata": {"name": namespace}})

    def drop_namespace(self, namespace):
        self.core.delete_namespace(namespace)

    def drop_everything(self):
        for namespace in NAMESPACES[1:]:
            self.attempt(self.core.delete_namespace, namespace)
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
    """Returns true if the condition became true within `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(1)
    return False


def steady(value):
    """Returns the value once it has not changed for ten seconds."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < 10:
        time.sleep(1)
        if (now := value()) != last:
            last, since = now, time.monotonic()
    return last


def emptied(users):
    """Deletes all objects and closes all connections. Returns true if no object remained."""

    def empty():
        users[0].drop_everything()
        return users[0].left() == 0

    is_empty = until(empty, 120)
    # The server has tasks for each connection, and closes an idle one after a while. So connections
    # of users would change the number of tasks at some time of its own.
    for user in users:
        user.disconnect()
    return is_empty


def act(users, seconds, sample):
    """Lets all users act for `seconds`, and takes samples meanwhile."""
    begun, stop, failures = time.monotonic(), threading.Event(), []

    def work(user):
        try:
            due = time.monotonic()
            while not stop.wait(max(0, due - time.monotonic())):
                user.act()
                due += PACE
        except Exception as error:  # noqa: BLE001 - any failure ends the run
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=[user]) for user in users]
    for thread in threads:
        thread.start()
    # A namespace holds a third of all objects, so namespaces are deleted at regular intervals.
    rounds = zip(itertools.count(ROUND, ROUND), itertools.cycle(NAMESPACES[1:]))
    due, doomed = next(rounds)
    while not stop.is_set() and (at := time.monotonic() - begun) < seconds:
        sample(at)
        if at >= due:
            users[0].attempt(users[0].drop_namespace, doomed)
            due, doomed = next(rounds)
        stop.wait(seconds / SAMPLES)
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def soak(dev, arguments):
    users = [User(dev.kubeconfig, f"{arguments.seed}-{number}") for number in range(arguments.users)]
    users[0].fill()
    act(users, arguments.warm_up * 60, lambda _: None)
    if not emptied(users):
        sys.exit("the objects of the warm-up could not be deleted")
    tasks_before = steady(lambda: dev.metrics()["go_goroutines"])

    samples = []

    def sample(at):
        values = dev.metrics()
        samples.append((at, values["process_resident_memory_bytes"], values["go_goroutines"]))

    users[0].fill()
    done = sum(user.done for user in users)
    act(users, arguments.minutes * 60, sample)
    done = sum(user.done for user in users) - done
    empty = emptied(users)
    settled = empty and until(lambda: dev.metrics()["go_goroutines"] <= tasks_before + ALLOWED_TIMERS, 120)
    return samples, tasks_before, empty, settled, done, dev.metrics()


def report(arguments, samples, tasks_before, empty, settled, actions, last):
    minute = arguments.minutes * 60 / 10

    def median_of(number, column):
        inside = [sample[column] for sample in samples if (number - 1) * minute <= sample[0] < number * minute]
        return statistics.median(inside)

    print("| minute | memory, MiB | tasks |\n|---|---|---|")
    for number in range(1, 11):
        print(f"| {number * arguments.minutes / 10:g} | {median_of(number, 1) / 2**20:.1f} | {median_of(number, 2):.0f} |")
    # Use the slope of a line through all samples since minute 3, because single minutes vary with
    # the users' actions.
    late = [sample for sample in samples if sample[0] >= 3 * minute]
    slope, at_start = statistics.linear_regression([sample[0] - 3 * minute for sample in late], [sample[1] for sample in late])
    growth = slope * 7 * minute / at_start
    tasks, panics = last["go_goroutines"], last["steersman_sync_panics_total"] + last["steersman_task_panics_total"]
    print(f"\n{actions} actions; {growth:+.1%} memory after minute {3 * arguments.minutes / 10:g}; {tasks:.0f} tasks at the end, {tasks_before:.0f} before.")
    wrong = {
        f"memory grew by {growth:.1%}": growth >= ALLOWED_GROWTH and arguments.minutes >= JUDGED_MINUTES,
        "objects remained after the deletion of all": not empty,
        f"{tasks:.0f} tasks at the end are more than the {tasks_before:.0f} before and {ALLOWED_TIMERS} timers": not settled,
        f"{panics:.0f} panics": panics > 0,
    }
    return [failure for failure, is_so in wrong.items() if is_so]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--warm-up", type=float, default=3, help="minutes of the warm-up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--binary", default="target/dist/steersman")
    parser.add_argument("--log", type=argparse.FileType("w"), default=subprocess.DEVNULL, help="file for the output of steersman dev")
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
