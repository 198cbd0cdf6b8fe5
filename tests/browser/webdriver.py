"""A small client of chromedriver, by the W3C WebDriver protocol, for the stories beside this file."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request

LIMIT = 90
STARTS = 5
#: Chrome's own console lines, which no page causes.
HARMLESS = ("favicon",)


def missing():
    """The reason why there is no browser; None if there is one."""
    for names in (("chromedriver",), ("chromium", "google-chrome", "chrome")):
        if not any(map(shutil.which, names)):
            return f"no {names[0]} on the PATH; on Debian: apt-get install chromium chromium-driver"
    return None


def start_driver():
    """A chromedriver and its port.

    Chromedriver takes the same port of IPv4 and IPv6, and ends if another program holds one of them.
    """
    said = []
    for _ in range(STARTS):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in driver.stdout:
            if "started successfully on port" in line:
                return driver, int(line.split("port")[1].strip(" .\n"))
            said.append(line)
        driver.stdout.close()
        driver.wait(LIMIT)
    raise AssertionError(f"chromedriver ended {STARTS} times:\n{''.join(said)}")


class Browser:
    """A browser without a window. Use it in a `with` statement."""

    def __enter__(self):
        self.driver, self.port = start_driver()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
        # Managers sign their own certificates.
        wanted = {"acceptInsecureCerts": True, "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        # On a busy machine, the check of a view's accessibility takes longer than the default of 30 seconds.
        wanted["timeouts"] = {"script": LIMIT * 1000}
        self.session = None
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = made["sessionId"]
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(LIMIT)
            self.driver.stdout.close()

    def call(self, method, path, body=None):
        base = f"/session/{self.session}" if self.session else ""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{base}{path}", method=method, data=data)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:500]}") from None

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """The value that `script` returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script):
        """The value with which `script` calls `done`."""
        return self.call("POST", "/execute/async", {"script": f"const done = arguments[0]; {script}", "args": []})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, height, mode):
        """Sets the size of the window, and light or dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])

    def text(self):
        """What a person reads in the view."""
        return self.run("return document.getElementById('main').innerText")

    def wait(self, what, condition):
        """Waits until `condition` is true, and returns its value."""
        end = time.monotonic() + LIMIT
        while not (found := condition()):
            assert time.monotonic() < end, f"not {what} within {LIMIT} s:\n{self.text()}\n{self.console()}"
            time.sleep(0.1)
        return found

    def wait_for(self, *parts):
        self.wait(f"all of {parts} in the view", lambda: all(part in self.text() for part in parts))

    def click(self, text):
        """Clicks the link or button with this text."""
        script = """const all = [...document.querySelectorAll('a, button')];
            const found = all.find((one) => (one.getAttribute('aria-label') ?? one.innerText).trim() === arguments[0]);
            found?.click(); return Boolean(found)"""
        self.wait(f"a link or button {text!r}", lambda: self.run(script, text))

    def press(self, *keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def picture(self):
        return base64.b64decode(self.call("GET", "/screenshot"))

    def difference(self, one, other):
        """The mean difference of two pictures, of 255, in squares of 20 pixels. Fonts and times hardly count."""
        encoded = json.dumps([base64.b64encode(picture).decode() for picture in (one, other)])
        return self.run_async(f"""
            Promise.all({encoded}.map(async (data) => {{
                const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (one) => one.charCodeAt(0))]));
                const canvas = new OffscreenCanvas(Math.round(picture.width / 20), Math.round(picture.height / 20));
                const context = canvas.getContext("2d");
                context.imageSmoothingQuality = "high";
                context.drawImage(picture, 0, 0, canvas.width, canvas.height);
                return context.getImageData(0, 0, canvas.width, canvas.height).data;
            }})).then(([a, b]) => done(a.length === b.length ? a.reduce((sum, value, at) => sum + Math.abs(value - b[at]), 0) / a.length : 255),
                (error) => done(String(error)))""")

    def console(self):
        """Errors and warnings since the last call."""
        lines = self.call("POST", "/se/log", {"type": "browser"})
        bad = [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]
        return [line for line in bad if not any(part in line for part in HARMLESS)]
