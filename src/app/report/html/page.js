"use strict";
// Shows the figures, and marks one token in all figures of its image. All data is in the file.
(async () => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const make = (name, parent, className) => {
    const svg = name === "svg" || name === "path";
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    if (className) made.setAttribute("class", className);
    return parent.appendChild(made);
  };

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  let data;
  try {
    data = await unpack(byId("data").textContent);
  } catch (error) {
    byId("failed").textContent = `The figures cannot be shown: ${error.message}. The file is damaged, or the browser is older than 2023.`;
    byId("failed").hidden = false;
    return;
  }

  // The SVG file of a figure, byte for byte as the program wrote it.
  function svg(number, theme) {
    const parts = data.figures[number].svg;
    const dark = theme === "dark" ? 1 : 0;
    const text = parts.length === 2 ? parts[dark] : parts[0].split("\n").filter((_, at) => at % 2 === dark).join("\n");
    return text.replace(/(href="data:image\/png;base64,)@(\d+),(\d+)"/g, (_, before, one, two) => `${before}${data.pixels[one]}${data.pixels[two]}"`);
  }
  const links = new Map();
  function link(number, theme) {
    const key = `${number} ${theme}`;
    if (!links.has(key)) links.set(key, "data:image/svg+xml," + encodeURIComponent(svg(number, theme)));
    return links.get(key);
  }

  // The state of the page, and its images, probes and figures.
  let theme = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  let step = 0;
  let held = null; // { section, at: { token | position } }
  let pointed = null;

  const sections = all("section.image").map((element) => {
    const section = { element, select: element.querySelector("select"), columns: [] };
    section.columns = all("article", element).map((article) => {
      article.style.gridRow = `span ${article.children.length}`;
      const column = { section, traces: article.dataset.traces.split(","), readout: article.querySelector(".readout") };
      column.plots = all("figure", article).map((figure) => {
        const [numbers, texts, whys] = ["figures", "texts", "whys"].map((name) => JSON.parse(figure.dataset[name]));
        const frame = make("div", figure, "plot");
        const image = make("img", frame);
        image.draggable = false;
        const marks = make("svg", frame);
        marks.setAttribute("aria-hidden", "true");
        const paths = Object.fromEntries(["veil", "halo", "now", "held"].map((name) => [name, make("path", marks, name)]));
        const why = make("p", figure, "why");
        const plot = { column, numbers, texts, whys, frame, image, marks, paths, why };
        listen(plot);
        return plot;
      });
      return column;
    });
    section.select.addEventListener("change", () => show(section));
    return section;
  });

  const choice = (section) => Number(section.select.value);
  const trace = (column) => data.traces[column.traces[choice(column.section)]];
  const drawn = (plot) => data.figures[plot.numbers[choice(plot.column.section)]];

  function show(section) {
    const at = choice(section);
    for (const column of section.columns) {
      for (const plot of column.plots) {
        const exists = plot.numbers[at] !== "";
        plot.frame.hidden = !exists;
        plot.why.hidden = exists;
        plot.why.textContent = plot.whys[at];
        if (!exists) continue;
        const { size, places } = drawn(plot);
        plot.image.src = link(plot.numbers[at], theme);
        plot.image.alt = plot.texts[at];
        plot.image.width = Math.round(size[0]);
        plot.image.height = Math.round(size[1]);
        plot.marks.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
        if (places.length) {
          plot.frame.tabIndex = 0;
          plot.frame.setAttribute("role", "application");
          plot.frame.setAttribute("aria-label", `${plot.texts[at]}. Arrow keys move, Enter holds`);
        }
      }
    }
    mark(section);
  }

  // The tokens and positions of a trace that a token or a position belongs to.
  function resolve(known, at) {
    if (!known || !at) return null;
    const { token, position } = at;
    // Columns of other backbones may have fewer tokens.
    if ((token ?? position) >= known.rows * known.cols) return null;
    const tokens = token !== undefined ? [token] : known.orders.map((order) => order[position]).filter((i) => i !== undefined);
    const positions = position !== undefined ? [position] : known.orders.map((order) => order.indexOf(token)).filter((k) => k >= 0);
    return { tokens: [...new Set(tokens)], positions: [...new Set(positions)] };
  }

  const cell = ([x, y, w, h], row, rows, column, columns) => [x + (column * w) / columns, y + (row * h) / rows, w / columns, h / rows];

  // The boxes of these tokens and positions in a figure.
  function boxes(places, { tokens, positions }) {
    const found = [];
    for (const place of places) {
      const [kind, [box, a, b]] = Object.entries(place)[0];
      if (kind === "grid") for (const i of tokens) if (i < a * b) found.push(cell(box, Math.floor(i / b), a, i % b, b));
      if (kind === "token" && tokens.includes(a)) found.push(box);
      if (kind === "position" && positions.includes(a)) found.push(box);
      if (kind === "plan") {
        for (const i of tokens) if (a.includes(i)) found.push(cell(box, a.indexOf(i), a.length, 0, 1));
        for (const k of positions) if (k < b) found.push(cell(box, 0, 1, k, b));
      }
    }
    return found;
  }

  // The token or position at a point of a figure.
  function hitTest(places, x, y) {
    for (let at = places.length - 1; at >= 0; at--) {
      const [kind, [box, a, b]] = Object.entries(places[at])[0];
      const [left, top, w, h] = box;
      const u = (x - left) / w, v = (y - top) / h;
      if (!(u >= 0 && u < 1 && v >= 0 && v < 1)) continue;
      if (kind === "grid") return { token: Math.floor(v * a) * b + Math.floor(u * b) };
      if (kind === "token") return { token: a };
      if (kind === "position") return { position: a };
      return { token: a[Math.floor(v * a.length)], position: Math.floor(u * b) };
    }
    return null;
  }

  const path = (list) => list.map(([x, y, w, h]) => `M${x.toFixed(2)} ${y.toFixed(2)}h${w.toFixed(2)}v${h.toFixed(2)}h${(-w).toFixed(2)}z`).join("");
  // JSON has no infinity: null stands for a value that is not finite.
  const number = (value) => (value === null ? "not finite" : Math.abs(value) < 0.001 && value !== 0 ? value.toExponential(1) : String(Number(value.toPrecision(3)))).replaceAll("-", "−");
  const signed = (value) => (value > 0 ? "+" : "") + number(value);

  // A token or a position in words.
  function describe(known, at, resolved) {
    const { tokens, positions } = resolved;
    const parts = [];
    if (at.token !== undefined) {
      const i = at.token;
      parts.push([`Token ${i}`, `row ${Math.floor(i / known.cols)}, column ${i % known.cols}`]);
      const order = known.orders.length > 1 ? "steps" : "step";
      if (at.position === undefined && positions.length) parts.push(["", `${order} ${positions.join(", ")}`]);
      if (at.position !== undefined) parts.push(["", `at position ${at.position}`]);
    } else {
      parts.push([`Position ${at.position}`, tokens.length ? `reads token ${tokens.join(", ")}` : "this head reads no order"]);
      if (known.position) parts.push(["", `adding ${signed(known.position[at.position])}`]);
    }
    const [i] = tokens;
    if (tokens.length === 1) {
      if (known.evidence) parts.push(["", `evidence ${signed(known.evidence[i])}`]);
      if (known.weight) parts.push(["", `weight ${number(known.weight[i])}`]);
      if (known.scores) parts.push(["", `score ${signed(known.scores[i])}`]);
    }
    return parts;
  }

  function mark(section) {
    const at = pointed?.section === section ? pointed.at : held?.section === section ? held.at : null;
    const reading = step > 0 ? { position: step - 1 } : null;
    for (const column of section.columns) {
      const known = trace(column);
      const [resolved, now] = [resolve(known, at), resolve(known, reading)];
      const unread = known && step > 0 && known.orders.length === 1 ? known.orders[0].slice(step) : [];
      for (const plot of column.plots) {
        if (plot.frame.hidden) continue;
        const { places } = drawn(plot);
        const grids = places.filter((place) => place.grid);
        const [selectedBoxes, nowBoxes] = [resolved, now].map((what) => (what ? boxes(places, what) : []));
        plot.paths.veil.setAttribute("d", path(boxes(grids, { tokens: unread, positions: [] })));
        plot.paths.held.setAttribute("d", path(selectedBoxes));
        plot.paths.now.setAttribute("d", path(nowBoxes));
        plot.paths.halo.setAttribute("d", path([...selectedBoxes, ...nowBoxes]));
      }
      const shown = at ? resolved : now;
      const description = shown ? describe(known, at ?? reading, shown) : [];
      column.readout.replaceChildren();
      if (!description.length && column === section.columns[0]) make("span", column.readout, "hint").textContent = "Point at a patch or a bar to mark it in every figure; click to hold it.";
      description.forEach(([name, text], index) => {
        if (index) column.readout.append(", ");
        if (name) make("b", column.readout).textContent = name;
        column.readout.append(name ? ` ${text}` : text);
      });
    }
  }

  const markAll = () => sections.forEach(mark);

  function point(section, at) {
    const before = pointed?.section;
    pointed = at ? { section, at } : null;
    if (before && before !== section) mark(before);
    mark(section);
  }

  function hold(section, at) {
    const before = held?.section;
    const same = at && held && before === section && JSON.stringify(held.at) === JSON.stringify(at);
    held = at && !same ? { section, at } : null;
    byId("release").disabled = !held;
    if (before) mark(before);
    if (section) mark(section);
  }

  function listen(plot) {
    const { frame, column: { section } } = plot;
    const at = (event) => {
      const box = frame.getBoundingClientRect();
      const { size, places } = drawn(plot);
      return hitTest(places, ((event.clientX - box.left) / box.width) * size[0], ((event.clientY - box.top) / box.height) * size[1]);
    };
    frame.addEventListener("pointermove", (event) => point(section, at(event)));
    frame.addEventListener("pointerleave", () => point(section, null));
    frame.addEventListener("click", (event) => hold(section, at(event)));
    frame.addEventListener("blur", () => point(section, null));
    frame.addEventListener("keydown", (event) => {
      const { places } = drawn(plot);
      const known = trace(plot.column);
      const onGrid = places.some((place) => place.grid || place.token);
      const count = known.rows * known.cols;
      const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: onGrid ? -known.cols : -10, ArrowDown: onGrid ? known.cols : 10 }[event.key];
      const current = (pointed?.section === section && pointed.at) || (held?.section === section && held.at) || null;
      if (by !== undefined) {
        const name = onGrid ? "token" : "position";
        const from = current?.[name] ?? resolve(known, current)?.[`${name}s`][0];
        const to = from === undefined ? 0 : from + by;
        point(section, { [name]: Math.min(count - 1, Math.max(0, to)) });
      } else if (event.key === "Enter" || event.key === " ") {
        hold(section, current);
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  // The reading order, step by step.
  const range = byId("step");
  const last = Number(range.max);
  let playing = null;
  function setStep(to) {
    step = Math.min(last, Math.max(0, to));
    range.value = step;
    byId("read").textContent = `${step} of ${last}`;
    markAll();
  }
  function play(on) {
    cancelAnimationFrame(playing?.frame);
    playing = null;
    byId("play").textContent = on ? "Pause" : "Play";
    if (!on) return;
    const from = step < last ? step : 0;
    const begun = performance.now();
    playing = { frame: 0 };
    const tick = (now) => {
      setStep(from + Math.floor(Math.max(0, now - begun) / Math.max(40, 9000 / last)));
      if (step >= last) play(false);
      else playing.frame = requestAnimationFrame(tick);
    };
    playing.frame = requestAnimationFrame(tick);
  }
  range.addEventListener("input", () => {
    play(false);
    setStep(Number(range.value));
  });
  byId("play").addEventListener("click", () => play(!playing));
  byId("release").addEventListener("click", () => hold(held?.section, null));

  // Light and dark theme; printed pages are light.
  function setTheme(to) {
    theme = to;
    root.dataset.theme = to;
    byId("theme").textContent = to === "dark" ? "Light" : "Dark";
    sections.forEach(show);
  }
  const decoded = () => Promise.all(all(".plot:not([hidden]) img").map((image) => image.decode().catch(() => {})));
  byId("theme").addEventListener("click", () => setTheme(theme === "dark" ? "light" : "dark"));
  let themeBeforePrint = null;
  const beforePrint = () => {
    if (themeBeforePrint) return;
    themeBeforePrint = theme;
    if (theme === "dark") setTheme("light");
  };
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", () => {
    const previous = themeBeforePrint;
    themeBeforePrint = null;
    if (previous && previous !== theme) setTheme(previous);
  });
  byId("print").addEventListener("click", async () => {
    beforePrint();
    await decoded();
    print();
  });

  // Sorts tables by a column: in one direction, the other, and back to the original order.
  for (const table of all("table")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = all("th", table);
    const value = (row, at) => {
      const { dataset, textContent } = row.cells[at];
      return dataset.value !== undefined ? Number(dataset.value) : textContent === "–" ? null : textContent;
    };
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    heads.forEach((head, at) =>
      head.querySelector("button").addEventListener("click", () => {
        const numbers = head.classList.contains("number");
        const turns = numbers ? ["none", "descending", "ascending"] : ["none", "ascending", "descending"];
        const next = turns[(turns.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
        heads.forEach((other) => other.setAttribute("aria-sort", other === head ? next : "none"));
        table.classList.toggle("sorted", next !== "none");
        const sorted = [...rows];
        if (next !== "none") {
          sorted.sort((one, other) => {
            const [a, b] = [value(one, at), value(other, at)];
            if (a === null || b === null) return (a === null) - (b === null);
            return (next === "ascending" ? 1 : -1) * compare(a, b);
          });
        }
        body.append(...sorted);
      }),
    );
  }

  // Keyboard shortcuts of the page.
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("select, input:not([type=range])")) return;
    const jump = (by) => {
      const tops = sections.map(({ element }) => element.getBoundingClientRect().top);
      const here = tops.findLastIndex((top) => top < 60);
      const to = sections[Math.min(sections.length - 1, Math.max(0, by > 0 ? here + 1 : tops[here] < -60 ? here : here - 1))];
      to?.element.scrollIntoView();
      to?.element.focus({ preventScroll: true });
    };
    const keys = {
      Escape: () => {
        if (pointed) point(pointed.section, null);
        hold(held?.section, null);
        byId("keys").open = false;
      },
      ",": () => (play(false), setStep(step - 1)),
      ".": () => (play(false), setStep(step + 1)),
      p: () => play(!playing),
      t: () => setTheme(theme === "dark" ? "light" : "dark"),
      j: () => jump(1),
      k: () => jump(-1),
      "?": () => (byId("keys").open = !byId("keys").open),
    };
    keys[event.key]?.();
  });

  setTheme(theme);
  await decoded();
  root.dataset.ready = "true";
})();
