#!/usr/bin/env python3
"""Opens a page of `ssmprobe report --html` in headless Chromium with the network off and does what a reader does.

    page.py PAGE.html CHROMIUM [FOLDER]

Needs nothing but Python: it speaks the DevTools protocol over a socket of its own. FOLDER gets screenshots in both themes, and
the page as printed. Exits with 1 and a line for whatever is not as it should be.
"""

import base64
import gzip
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


def handed(page):
    """What the script of a page is handed."""
    return json.loads(gzip.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', page.read_text()).group(1))))


def drawn(data, number, dark):
    """A figure as the program wrote it, put together as `page.js` says it is taken apart."""
    parts = data["figures"][number]["svg"]
    text = parts[dark] if len(parts) == 2 else "\n".join(parts[0].split("\n")[dark::2])
    return re.sub(r'base64,@(\d+),(\d+)"', lambda at: f'base64,{data["pixels"][int(at[1])]}{data["pixels"][int(at[2])]}"', text)


# Of every figure that is seen: what is asked for, by the class that is chosen, and what is there.
SHOWN = """[...document.querySelectorAll('.plot')].map(plot => {
    const at = plot.closest('.image').querySelector('select').selectedIndex;
    const [figures, texts, whys] = ['figures', 'texts', 'whys'].map(name => JSON.parse(plot.closest('figure').dataset[name])[at]);
    const [image, why] = [plot.querySelector('img'), plot.parentElement.querySelector('.why')];
    return [figures, texts, whys, plot.hidden, image.alt, decodeURIComponent(image.src.slice(image.src.indexOf(',') + 1)), why.hidden, why.textContent];
})"""


def check_figures(browser, data, dark, when):
    right = True
    for number, text, why, hidden, alt, svg, quiet, said in browser.js(SHOWN):
        there = number != ""
        right &= hidden != there and quiet == there and said == why
        right &= not there or (alt == text and svg == drawn(data, int(number), dark))
    check(right, f"every figure is that of its probe and class, as the program wrote it, and the others say why there is none ({when})")


# Of every probe of the first image: its traces, the one that is chosen, what is said, and every figure's number and marks.
PROBES = """[...document.querySelector('section.image').querySelectorAll('article')].map(article => {
    const at = article.closest('.image').querySelector('select').selectedIndex;
    const plots = [...article.querySelectorAll('.plot:not([hidden])')].map(plot => [
        JSON.parse(plot.closest('figure').dataset.figures)[at],
        ...['held', 'now', 'veil'].map(name => plot.querySelector(`path.${name}`).getAttribute('d') ?? '')]);
    return [article.dataset.traces.split(',')[at], article.querySelector('.readout').textContent, plots];
})"""


def corners(path):
    return [tuple(map(float, at)) for at in re.findall(r"M(\S+) (\S+?)h", path)]


def cells(figure, tokens):
    """Where these tokens lie in the grids of a figure."""
    grids = [place["grid"] for place in figure["places"] if "grid" in place]
    return [(x + i % cols * w / cols, y + i // cols * h / rows) for (x, y, w, h), rows, cols in grids for i in tokens]


def same(found, expected):
    """Whether these corners are those, each in its turn."""
    near = lambda a, b: abs(a[0] - b[0]) < 0.02 and abs(a[1] - b[1]) < 0.02
    found, expected = sorted(found), sorted(expected)
    return len(found) == len(expected) and all(any(near(a, b) for b in expected) for a in found)


def told(words, name):
    found = re.search(name + r" ([+−]?[\d.]+(?:e[+−]?\d+)?)", words)
    return found and float(found[1].replace("−", "-"))


def check_token(browser, data, token, when):
    """What is marked and said of a token that is pointed at, beside what is known of it."""
    marked, said = True, True
    for trace, words, plots in browser.js(PROBES):
        known = data["traces"][int(trace)]
        said &= f"Token {token} row {token // known['cols']}, column {token % known['cols']}" in words
        steps = list(dict.fromkeys(order.index(token) for order in known["orders"]))
        listed = re.search(r"steps? ([\d, ]*\d)", words)
        said &= (listed[1] if listed else "") == ", ".join(map(str, steps))
        for name, key in (("evidence", "evidence"), ("weight", "weight"), ("score", "scores")):
            expected = known[key] and known[key][token]
            value = told(words, name)
            said &= (value is None) == (expected is None) and (value is None or abs(value - expected) <= 6e-3 * abs(expected))
            said &= name == "weight" or expected is None or (f"{name} +" in words) == (value > 0)
        for number, held, _, _ in plots:
            expected = cells(data["figures"][int(number)], [token])
            marked &= not expected or all(any(same([corner], [cell]) for corner in corners(held)) for cell in expected)
    check(marked, f"the token lies where it is marked ({when})")
    check(said, f"its row, column, steps, evidence, weight and score are those of the probe and class ({when})")


def check_reading(browser, data, step):
    """What is marked as read now, and veiled as not read yet."""
    now, veiled = True, True
    for trace, _, plots in browser.js(PROBES):
        orders = data["traces"][int(trace)]["orders"]
        for number, _, read, veil in plots:
            figure = data["figures"][int(number)]
            tokens = list(dict.fromkeys(order[step - 1] for order in orders))
            now &= all(any(same([corner], [cell]) for corner in corners(read)) for cell in cells(figure, tokens))
            veiled &= same(corners(veil), cells(figure, orders[0][step:] if len(orders) == 1 else []))
    check(now, f"what is read in step {step} is marked where it lies")
    check(veiled, f"what is read after step {step} is veiled, and nothing else")


def check_tables(browser):
    """Every column of every table: up, down, as it was, what is missing last; its head says which."""
    state = """[...document.querySelectorAll('table')].map(table => [[...table.querySelectorAll('th')].map(head => head.getAttribute('aria-sort')),
        [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => [cell.dataset.value ?? null, cell.textContent]))])"""
    right = True
    for number, (heads, rows) in enumerate(browser.js(state)):
        for at in range(len(heads)):
            numbers = browser.js(f"document.querySelectorAll('table')[{number}].querySelectorAll('th')[{at}].classList.contains('number')")
            known = [row for row in rows if row[at][1] != "–"]
            missing = [row for row in rows if row[at][1] == "–"]
            value = (lambda row: float(row[at][0])) if numbers and all(row[at][0] for row in known) else None
            turns = (("descending", True), ("ascending", False)) if numbers else (("ascending", False), ("descending", True))
            for name, back in turns + (("none", None),):
                browser.js(f"document.querySelectorAll('table')[{number}].querySelectorAll('th button')[{at}].click()")
                said, found = browser.js(state)[number]
                right &= said == [name if other == at else "none" for other in range(len(heads))]
                if back is None:
                    right &= found == rows
                elif value:
                    right &= found == sorted(known, key=value, reverse=back) + missing
                elif known and not numbers:
                    words = [row[at][1].casefold() for row in found[: len(known)]]
                    right &= words == sorted(words, reverse=back) and found[len(known) :] == missing
    check(right, "every column sorts its table up and down by what is not rounded, what is missing last, and then it is as it was")


def visit(browser, page, folder):
    data = handed(page)
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
    check_figures(browser, data, 0, "light")
    tops = "[...document.querySelectorAll('.probes')].every(row => [0, 1].every(n => new Set([...row.children].filter(a => a.offsetTop === row.children[0].offsetTop).map(a => a.querySelectorAll('figure')[n]?.offsetTop)).size === 1))"
    check(browser.js(tops), "figures of one kind stand in one line")

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
    browser.key(".")
    check(not any(any(image) for image in browser.js(marked)[1:]), "nor as the reading goes on")
    browser.key(",")
    words = browser.js("[...document.querySelectorAll('section.image')][0].querySelector('.readout').textContent")
    check("Token" in words and "row" in words, f"it is said in words: {words}")
    first_figure = data["figures"][int(browser.js(f"JSON.parse({grid}.closest('figure').dataset.figures)[0]"))]

    def pointed(u, v):
        """The token at a share of the first figure's width and height: of the last of its grids there."""
        x, y = u * first_figure["size"][0], v * first_figure["size"][1]
        grids = [place["grid"] for place in first_figure["places"] if "grid" in place]
        (left, top, w, h), rows, cols = [grid for grid in grids if 0 <= x - grid[0][0] < grid[0][2] and 0 <= y - grid[0][1] < grid[0][3]][-1]
        return int((y - top) / h * rows) * cols + int((x - left) / w * cols)

    check_token(browser, data, pointed(0.3, 0.4), "first")
    browser.mouse("mouseMoved", *at(0.6, 0.6))
    second = browser.js(marked)
    check_token(browser, data, pointed(0.6, 0.6), "another")
    moved = [a != b for a, b in zip(first[0], second[0]) if a or b]
    check(all(moved) and moved, "all marks move with the pointer")
    browser.mouse("mousePressed", *at(0.6, 0.6), button="left", clickCount=1)
    browser.mouse("mouseReleased", *at(0.6, 0.6), button="left", clickCount=1)
    browser.mouse("mouseMoved", 3, 3)
    check(browser.js(marked) == second, "a click holds the token")
    browser.key(".")
    check(not any(any(image) for image in browser.js(marked)[1:]), "other images hold nothing, nor as the reading goes on")
    browser.key(",")
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
    check_reading(browser, data, last // 2)
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
    check_token(browser, data, 0, "the first arrow")
    browser.key("ArrowDown")
    check(any(start[0]) and browser.js(marked) != start, "arrows move the token")
    browser.key("ArrowRight")
    grids = [place["grid"] for place in first_figure["places"] if "grid" in place]
    check_token(browser, data, grids[-1][2] + 1, "a row down and one to the right")
    browser.key("Enter")
    check(not browser.js("document.getElementById('release').disabled"), "Enter holds it")
    browser.key("Escape")

    # From image to image.
    jumps = []
    for name in ("j", "j", "k"):
        browser.key(name)
        jumps.append(browser.js("document.activeElement.id"))
    sections = browser.js("document.querySelectorAll('section.image').length")
    last_jump = min(2, sections - 1)
    check(jumps[1:] == [f"image-{last_jump}", f"image-{max(0, last_jump - 1)}"], f"j and k go to the next image and back: {jumps}")

    # Classes.
    chooser = "[...document.querySelectorAll('.image select')].find(s => !s.disabled)"
    if browser.js(f"Boolean({chooser})"):
        source = f"{chooser}.closest('.image').querySelector('.plot:not([hidden]) img').src"
        before = browser.js(source)
        browser.js(f"(() => {{ const s = {chooser}; s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }})()")
        check(browser.js(source) != before, "another class shows other evidence")
        check_figures(browser, data, 0, "another class")
        browser.js(f"{grid}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = browser.js(f"(() => {{ const b = {grid}.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()")
        browser.mouse("mouseMoved", *at(0.6, 0.6))
        check_token(browser, data, pointed(0.6, 0.6), "another class")
        browser.mouse("mouseMoved", 3, 3)
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
        check_tables(browser)

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
    check_figures(browser, data, 1, "dark")
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
    browser.call("Emulation.setEmulatedMedia", media="print")
    check(browser.js(tops), "figures of one kind stand in one line on paper, too")
    browser.call("Emulation.setEmulatedMedia", media="")
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

    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.call("Page.reload")
    browser.wait("document.querySelector('noscript p')?.offsetHeight > 0")
    apart = "[...document.querySelectorAll('article')].every(a => [...a.children].every((part, n) => !n || part.offsetTop > a.children[n - 1].offsetTop + a.children[n - 1].offsetHeight / 2))"
    check(browser.js(apart), "without the script nothing covers what is said of a probe")


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
