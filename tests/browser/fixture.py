"""The files of the page with views of a large cluster, for the stories about speed and memory."""

import http.server
import json
import pathlib
import queue
import threading

FILES = pathlib.Path(__file__).resolve().parents[2] / "src/ui/page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ABOUT = {"version": "0", "kubernetes": "v1", "leads": True, "identity": "fixture", "simulates": False}


def rollouts(version):
    """500 roll-outs, one in ten of them under way, and as many failed as the version says."""
    states = ["failed" if number < version else "complete" if number % 10 else "progressing" for number in range(500)]
    items = [{
        "kind": "Deployment", "resource": "deployments", "namespace": "shop", "name": f"service-{number}", "state": state,
        "revision": "3", "images": ["registry.example.com/service:3"], "desired": 20, "new": 12, "newReady": 12, "newAvailable": (11 + version + number) % 13, "old": 9, "most": 25, "fewest": 15, "strategy": "",
    } for number, state in enumerate(states)]
    return {"items": items, "withheld": []}


def nodes(version):
    """10,000 pods on 100 nodes, and as many without a node as the version says."""
    states = ["ready"] * 8 + ["running", "pending", "ending", "done", "failed"]
    waiting = [{"namespace": "shop", "name": f"waiting-{pod}", "state": "pending"} for pod in range(version)]
    return {"unscheduled": waiting, "withheld": [], "nodes": [{
        "name": f"node-{number}", "zone": "abc"[number % 3], "ready": "True", "since": "2026-11-28T12:00:00Z", "message": "", "behaviour": "", "taints": [],
        "pods": [{"namespace": "shop", "name": f"pod-{number}-{pod}", "state": states[(pod * 7 + number + version) % len(states)]} for pod in range(100)],
    } for number in range(100)]}


VIEWS = {"/debug/ui/rollouts": rollouts, "/debug/ui/nodes": nodes}


def event(path, version):
    data = json.dumps(VIEWS[path](version) | {"about": ABOUT, "time": "2026-11-28T12:00:00Z"})
    return f"retry: 600000\ndata: {data}\n\n".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with a file, or with a stream of the versions of a view."""

    def do_GET(self):
        if self.path in VIEWS:
            return self.stream()
        name = self.path.removeprefix("/ui/") or "index.html"
        if not (FILES / name).is_file():
            return self.send_error(404)
        self.begin(TYPES[pathlib.Path(name).suffix])
        self.wfile.write((FILES / name).read_bytes())

    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def stream(self):
        """Sends the first version, and each that [`Server.show`] tells, until the browser has left."""
        versions = self.server.opened()
        self.begin("text/event-stream")
        try:
            while (version := versions.get()) is not None:
                self.wfile.write(event(self.path, version))
        except ConnectionError:
            pass

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves in a thread until `close`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.version, self.streams, self.lock = 0, [], threading.Lock()
        self.page = f"http://127.0.0.1:{self.server_port}/ui/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def opened(self):
        """The versions for a new stream; the present one is first."""
        versions = queue.SimpleQueue()
        with self.lock:
            self.streams.append(versions)
            versions.put(self.version)
        return versions

    def show(self, version):
        with self.lock:
            self.version = version
            for versions in self.streams:
                versions.put(version)

    def close(self):
        with self.lock:
            for versions in self.streams:
                versions.put(None)
        self.shutdown()
        self.server_close()
