#!/usr/bin/env python3
"""Opens a page of `ssmprobe report --html` in headless Chromium with the network off and does what a reader does.

    page.py PAGE.html CHROMIUM [FOLDER]

Needs nothing but Python: it speaks the DevTools protocol over a socket of its own. FOLDER gets screenshots in both themes, and
the page as printed. Exits with 1 and a line for whatever is not as it should be.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request


class Browser:
    """One tab of a browser, by the DevTools protocol."""

    def __init__(self, program, folder):
        self.events, self.number = [], 0
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
        command += [f"--user-data-dir={folder}", "--window-size=1440,1000", "--hide-scrollbars", "about:blank"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        port = pathlib.Path(folder, "DevToolsActivePort")
        until = time.monotonic() + 120
        while not (port.exists() and port.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the browser does not start")
            time.sleep(0.1)
        number = int(port.read_text().split()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/json", timeout=60) as answer:
            tab = next(tab for tab in json.load(answer) if tab["type"] == "page")
        path = "/" + tab["webSocketDebuggerUrl"].split("/", 3)[3]
        self.socket = socket.create_connection(("127.0.0.1", number), timeout=120)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{number}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1)
        assert b" 101 " in head, head

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "the browser has gone"
            data += part
        return data

    def receive(self):
        """A message; those in several frames are put together."""
        whole = b""
        while True:
            first, second = self.exactly(2)
            length = second & 127
            if length == 126:
                (length,) = struct.unpack(">H", self.exactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self.exactly(8))
            data = self.exactly(length)
            if first & 15 in (0, 1):
                whole += data
                if first & 128:
                    return json.loads(whole)

    def call(self, method, **parameters):
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        head = struct.pack(">BB", 0x81, 0x80 | 127) + struct.pack(">Q", len(data)) + mask
        self.socket.sendall(head + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.events.append(message)

    def js(self, text):
        result = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (text, result)
        return result["result"].get("value")

    def wait(self, text):
        until = time.monotonic() + 120
        while not self.js(text):
            if time.monotonic() > until:
                raise SystemExit(f"never so: {text}")
            time.sleep(0.1)

    def key(self, name):
        printed = {"text": name} if len(name) == 1 else {}
        code = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "End": 35}.get(name, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **printed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, file, whole=False):
        more = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))


failures = []


def check(so, what):
    print(("fine: " if so else "NOT SO: ") + what)
    if not so:
        failures.append(what)


def visit(browser, page, folder):
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(f"{domain}.enable")
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.call("Page.navigate", url=page.resolve().as_uri())
    browser.wait("document.documentElement?.dataset.ready === 'true'")

    shown = "[...document.querySelectorAll('.plot:not([hidden]) img')]"
    count = browser.js(f"{shown}.length")
    check(count > 0 and browser.js(f"{shown}.every(image => image.complete && image.naturalWidth > 0)"), f"all {count} figures are seen")
    check(browser.js(f"{shown}.every(image => image.alt.length > 30)"), "every figure has an alternative text")
    tops = browser.js("[...document.querySelectorAll('.probes')].every(row => [0, 1].every(n => new Set([...row.children].filter(a => a.offsetTop === row.children[0].offsetTop).map(a => a.querySelectorAll('figure')[n]?.offsetTop)).size === 1))")
    check(tops, "figures of one kind stand in one line")

    # A token that is pointed at is marked in every figure of its image that shows tokens, and in no other image.
    marked = "[...document.querySelectorAll('section.image')].map(s => [...s.querySelectorAll('.plot:not([hidden]) path.held')].map(p => p.getAttribute('d')))"
    grid = "document.querySelector('section.image .plot:not([hidden])')"
    browser.js(f"{grid}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = browser.js(f"(() => {{ const b = {grid}.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()")
    at = lambda u, v: (box[0] + u * box[2], box[1] + v * box[3])
    browser.mouse("mouseMoved", *at(0.3, 0.4))
    first = browser.js(marked)
    check(sum(map(bool, first[0])) >= 2, f"{sum(map(bool, first[0]))} of {len(first[0])} figures of the image mark the token that is pointed at")
    check(not any(any(image) for image in first[1:]), "other images mark nothing")
    words = browser.js("[...document.querySelectorAll('section.image')][0].querySelector('.readout').textContent")
    check("Token" in words and "row" in words, f"it is said in words: {words}")
    browser.mouse("mouseMoved", *at(0.6, 0.6))
    second = browser.js(marked)
    moved = [a != b for a, b in zip(first[0], second[0]) if a or b]
    check(all(moved) and moved, "all marks move with the pointer")
    browser.mouse("mousePressed", *at(0.6, 0.6), button="left", clickCount=1)
    browser.mouse("mouseReleased", *at(0.6, 0.6), button="left", clickCount=1)
    browser.mouse("mouseMoved", 3, 3)
    check(browser.js(marked) == second, "a click holds the token")
    if folder:
        browser.picture(folder / "light-held.png")
    browser.key("Escape")
    check(not any(map(any, browser.js(marked))), "Escape lets it go")

    # The reading.
    now = marked.replace("path.held", "path.now")
    veil = marked.replace("path.held", "path.veil")
    last = browser.js("Number(document.getElementById('step').max)")
    browser.js(f"(() => {{ const s = document.getElementById('step'); s.value = {last // 2}; s.dispatchEvent(new Event('input')); }})()")
    half, cover = browser.js(now), browser.js(veil)
    check(all(any(image) for image in half), "half-way every image marks what is read")
    check(any(map(any, cover)), "what is not read yet is veiled")
    browser.key(".")
    check(browser.js(now) != half and browser.js("Number(document.getElementById('step').value)") == last // 2 + 1, "a key reads on")
    browser.key(",")
    check(browser.js(now) == half, "a key goes back")
    if folder:
        browser.picture(folder / "light-reading.png")
    browser.key("p")
    check(browser.js("document.getElementById('play').textContent") == "Pause", "p plays")
    browser.wait(f"document.getElementById('play').textContent === 'Play' && Number(document.getElementById('step').value) === {last}")
    check(not any(map(any, browser.js(veil))), "in the end all is read")
    browser.js("(() => { const s = document.getElementById('step'); s.value = 0; s.dispatchEvent(new Event('input')); })()")

    # Keys in a figure.
    browser.js(f"{grid}.focus()")
    browser.key("ArrowRight")
    start = browser.js(marked)
    browser.key("ArrowDown")
    check(any(start[0]) and browser.js(marked) != start, "arrows move the token")
    browser.key("Enter")
    check(not browser.js("document.getElementById('release').disabled"), "Enter holds it")
    browser.key("Escape")

    # Classes.
    chooser = "[...document.querySelectorAll('.image select')].find(s => !s.disabled)"
    if browser.js(f"Boolean({chooser})"):
        source = f"{chooser}.closest('.image').querySelector('.plot:not([hidden]) img').src"
        before = browser.js(source)
        browser.js(f"(() => {{ const s = {chooser}; s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }})()")
        check(browser.js(source) != before, "another class shows other evidence")
        browser.js(f"(() => {{ const s = {chooser}; s.selectedIndex = 0; s.dispatchEvent(new Event('change')); }})()")
        check(browser.js(source) == before, "and back")

    # Tables.
    if browser.js("Boolean(document.querySelector('th.number button'))"):
        column = "(() => { const h = document.querySelector('th.number'); return [...h.closest('table').tBodies[0].rows].map(r => Number(r.cells[h.cellIndex].dataset.value)).filter(v => !isNaN(v)); })()"
        was = browser.js(column)
        press = "document.querySelector('th.number button').click()"
        browser.js(press)
        down = browser.js(column)
        check(down == sorted(was, reverse=True), "a column sorts its table")
        browser.js(press)
        check(browser.js(column) == sorted(was), "and the other way round")
        browser.js(press)
        check(browser.js(column) == was, "and is as it was")

    # What is shown is what the program wrote: the figures named in the page, put together by its own script.
    texts = browser.js(f"{shown}.map(image => decodeURIComponent(image.src.slice(image.src.indexOf(',') + 1)))")
    check(all(re.match(r"<svg xmlns=.*</svg>\n$", text, re.S) and "base64,@" not in text for text in texts), "every figure is a whole SVG")
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    if folder:
        (folder / "figures.json").write_text(json.dumps(digests))
        browser.js("scrollTo(0, 0)")
        browser.picture(folder / "light.png")
        browser.picture(folder / "light-whole.png", whole=True)

    # In the dark; printing is in the light again.
    light = browser.js(f"{shown}[0].src")
    browser.key("t")
    check(browser.js("document.documentElement.dataset.theme") == "dark" and browser.js(f"{shown}[0].src") != light, "t turns it dark, figures too")
    browser.js(f"Promise.all({shown}.map(image => image.decode()))")
    if folder:
        browser.picture(folder / "dark.png")
        browser.picture(folder / "dark-whole.png", whole=True)
        browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=2, mobile=True)
        browser.picture(folder / "narrow.png")
    wide = "document.documentElement.scrollWidth <= innerWidth"
    browser.call("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1, mobile=False)
    check(browser.js(wide), "it fits a narrow window")
    browser.call("Emulation.clearDeviceMetricsOverride")
    browser.js("dispatchEvent(new Event('beforeprint'))")
    check(browser.js(f"{shown}[0].src") == light, "paper is light")
    browser.js("dispatchEvent(new Event('afterprint'))")
    check(browser.js("document.documentElement.dataset.theme") == "dark", "and the window dark again")
    if folder:
        (folder / "printed.pdf").write_bytes(base64.b64decode(browser.call("Page.printToPDF", printBackground=False)["data"]))

    said = [event["params"] for event in browser.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    said += [event["params"] for event in browser.events if event["method"] == "Runtime.consoleAPICalled"]
    check(not said, f"the console is silent {said or ''}")
    urls = [event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    foreign = [url for url in urls if not url.startswith(("file:", "data:"))]
    check(not foreign, f"nothing is asked of the network {foreign or ''}")


def main():
    page, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            visit(browser, page, folder)
        finally:
            browser.process.terminate()
            browser.process.wait()
    sys.exit(1 if failures else 0)


main()
