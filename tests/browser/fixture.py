"""The files of the page with views of a large cluster, for the story about speed."""

import http.server
import json
import pathlib
import threading

FILES = pathlib.Path(__file__).resolve().parents[2] / "src/ui/page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ABOUT = {"version": "0", "kubernetes": "v1", "leads": True, "identity": "fixture", "simulates": False}


def rollouts():
    """500 roll-outs, one in ten of them under way."""
    items = [{
        "kind": "Deployment", "resource": "deployments", "namespace": "shop", "name": f"service-{number}", "state": "complete" if number % 10 else "progressing",
        "revision": "3", "images": ["registry.example.com/service:3"], "desired": 20, "new": 12, "newReady": 12, "newAvailable": 11, "old": 9, "most": 25, "fewest": 15, "strategy": "",
    } for number in range(500)]
    return {"items": items, "withheld": []}


def nodes():
    """10,000 pods on 100 nodes."""
    states = ["ready"] * 8 + ["running", "pending", "ending", "done", "failed"]
    return {"unscheduled": [], "withheld": [], "nodes": [{
        "name": f"node-{number}", "zone": "abc"[number % 3], "ready": "True", "since": "2026-11-28T12:00:00Z", "message": "", "behaviour": "", "taints": [],
        "pods": [{"namespace": "shop", "name": f"pod-{number}-{pod}", "state": states[(pod * 7 + number) % len(states)]} for pod in range(100)],
    } for number in range(100)]}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with a file, or with a stream that has one event."""

    def do_GET(self):
        name = self.path.removeprefix("/ui/") or "index.html"
        views = {"/debug/ui/rollouts": rollouts, "/debug/ui/nodes": nodes}
        if self.path in views:
            data = json.dumps(views[self.path]() | {"about": ABOUT, "time": "2026-11-28T12:00:00Z"})
            kind, content = "text/event-stream", f"retry: 600000\ndata: {data}\n\n".encode()
        elif (FILES / name).is_file():
            kind, content = TYPES[pathlib.Path(name).suffix], (FILES / name).read_bytes()
        else:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def serve():
    """A server, which the caller shuts down; its address is the second value."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/ui/"
