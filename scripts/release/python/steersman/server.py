"""`steersman apiserver` with its control interface: faults, the request log, snapshots and forks."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

# Seconds for the server to stop after its signal.
STOP = 10
# Seconds for an answer of the control interface. A jump of days takes minutes.
ANSWER = 600


class RequestError(Exception):
    """The control interface refused a request. The text names the reason."""


class Fault:
    """A rule that makes requests or watches fail, until it has applied often enough or is removed."""

    def __init__(self, control, number):
        self._control, self._number = control, number

    @property
    def hits(self):
        """The number of requests or events to which the rule has applied."""
        return self._control("GET", f"/faults/{self._number}")["hits"]

    def remove(self):
        """Ends the rule."""
        self._control("DELETE", f"/faults/{self._number}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class Cluster:
    """A cluster: `url`, and `kubeconfig`, the path of a file with the credentials of an administrator."""

    def __init__(self, control, number, url, kubeconfig):
        self._control, self._number = control, number
        self.url, self.kubeconfig = url, kubeconfig

    def _of(self, path):
        return f"{path}?cluster={self._number}"

    def namespace(self, prefix="test-"):
        """Creates a namespace with a name of its own, and returns the name."""
        return self._control("POST", self._of("/namespaces"), {"prefix": prefix})["namespace"]

    def fault(self, fault=None, *, event=None, view=None, times=None, **match):
        """Makes matching requests fail (`fault`), or matching events of open watches (`event`).

        `view` lets the watch cache lag behind for matching requests: "now", {"at": revision} or {"behind": 2}.
        `match` are verb, resource, subresource, namespace, name, client, writes, except_ and nth; an absent
        one matches all. `fault` is "reset", "loseAnswer", "hang", {"reject": "conflict"},
        {"reject": {"code": 429, "message": "..."}}, {"delay": "1s"}, and so on: docs/control.md.
        """
        if "except_" in match:
            match["except"] = match.pop("except_")
        rule = {"match": match, "times": times, "fault": fault, "event": event, "view": view}
        rule = {key: value for key, value in rule.items() if value is not None}
        return Fault(self._control, self._control("POST", self._of("/faults"), rule)["id"])

    def watches(self, plural, action):
        """Lets open watches of a resource `stall`, `resume`, or `break`."""
        self._control("POST", self._of(f"/watches/{urllib.parse.quote(plural)}/{action}"))

    def requests(self):
        """The latest requests, oldest first: dictionaries with verb, resource, path, userAgent, user, status."""
        return self._control("GET", self._of("/requests"))["requests"]

    def keep_bodies(self, kept=True):
        """Whether further requests are listed with their bodies: contentType, body and answer."""
        self._control("POST", self._of("/requests"), {"bodies": kept})

    def clear_requests(self):
        """Empties the list of requests."""
        self._control("DELETE", self._of("/requests"))

    def snapshot(self):
        """The objects as they are now, for `Server.fork` and `restore`."""
        return self._control("POST", self._of("/snapshots"))["snapshot"]

    def restore(self, snapshot):
        """Makes the objects those of a snapshot. Watches see each difference as a change."""
        self._control("POST", self._of(f"/snapshots/{snapshot}/restore"))

    def stop(self):
        """Ends a fork."""
        self._control("DELETE", f"/clusters/{self._number}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Server(Cluster):
    """A running `steersman apiserver`; a context manager that stops it.

    `nodes`, `controllers` and `kubernetes_version` (such as "1.34") are as the flags of that name; `apply` are
    manifests; `arguments` are further flags of `steersman apiserver`.
    """

    def __init__(
        self, *, nodes=3, controllers="*", kubernetes_version=None, apply=(), arguments=(), program=None
    ):
        from . import path

        command = [program or path(), "apiserver", "--control", f"--nodes={nodes}", f"--controllers={controllers}"]
        if kubernetes_version:
            command.append(f"--kubernetes-version={kubernetes_version}")
        for manifest in apply:
            command += ["--apply", str(manifest)]
        self._process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"steersman apiserver ended with exit code {code}; its reason is on standard error")
        ready = json.loads(line)
        self._access = ready["control"]
        super().__init__(self._ask, 0, ready["url"], ready["kubeconfig"])

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(self._access["url"] + path, method=method)
        request.add_header("Authorization", f"Bearer {self._access['token']}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                raise RequestError(f"{method} {path}: {json.load(refused)['error']}") from None

    def fork(self, snapshot=None, *, still=False):
        """A cluster of its own with the objects of `snapshot`, or of this cluster as it is now.

        `still` forks have no controllers and no nodes.
        """
        wanted = {"still": still} if snapshot is None else {"still": still, "snapshot": snapshot}
        made = self._ask("POST", "/clusters", wanted)
        return Cluster(self._ask, made["cluster"], made["url"], made["kubeconfig"])

    def now(self):
        """The time of all clusters, as text."""
        return self._ask("GET", "/time")["now"]

    def advance(self, by):
        """Moves the time by a duration such as "1h". All timers in between fire in their order."""
        self._ask("POST", "/time", {"advance": by})

    def stop_time(self):
        """Lets time stand still. `advance` still moves it."""
        self._ask("POST", "/time", {"stopped": True})

    def resume_time(self):
        """Ends `stop_time`."""
        self._ask("POST", "/time", {"stopped": False})

    def stop(self):
        """Stops the server."""
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
