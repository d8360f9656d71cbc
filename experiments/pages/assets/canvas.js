"use strict";
// What drawings on a canvas share: sharp pixels, the colours of the page, words at the pointer.

/** A canvas as wide as its parent. `draw(area)` runs again when the size or the colours change. */
function surface(parent, label, draw, role = "application") {
  const canvas = element(parent, "canvas");
  if (role === "application") canvas.tabIndex = 0;
  canvas.setAttribute("role", role);
  canvas.setAttribute("aria-label", label);
  const area = { canvas, context: canvas.getContext("2d"), width: 0, height: 0, theme: theme() };
  let waiting = false;
  const paint = () => {
    waiting = false;
    const begin = performance.now();
    const ratio = globalThis.devicePixelRatio || 1;
    area.width = canvas.clientWidth;
    canvas.width = Math.round(area.width * ratio);
    canvas.height = Math.round(area.height * ratio);
    area.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(area);
    performance.measure(`${label} drawn`, { start: begin, end: performance.now() });
  };
  area.redraw = () => {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };
  area.resize = (height) => {
    area.height = height;
    canvas.style.height = `${height}px`;
    area.redraw();
  };
  new ResizeObserver(area.redraw).observe(parent);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    area.theme = theme();
    area.redraw();
  });
  return area;
}

/** A box of words over a drawing. Screen readers read it when it changes. */
function tip(parent) {
  const box = element(parent, "div", "tip");
  box.setAttribute("role", "status");
  box.hidden = true;
  return {
    hide() { box.hidden = true; },
    /** Shows lines of text near a point of the parent. */
    show(lines, x, y) {
      box.replaceChildren();
      lines.forEach((line, number) => element(box, number ? "div" : "strong", "", line));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const left = Math.min(Math.max(4, x + 14), parent.clientWidth - width - 4);
      const top = y + 18 + height < parent.clientHeight ? y + 18 : Math.max(0, y - height - 12);
      box.style.left = `${Math.max(0, left)}px`;
      box.style.top = `${top}px`;
    },
  };
}

/** Calls `ask(x, y)` where the pointer is on a canvas, and `leave()` when a mouse leaves it. */
function pointing({ canvas }, ask, leave) {
  const point = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    ask(clientX - box.left, clientY - box.top);
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") leave();
  });
}

/** The remarks of a scene below its drawing. */
function remarks(root, data) {
  for (const remark of data.remarks) element(root, "p", "note", remark);
}

/** An entry of a legend: a sample, painted by `paint(pen, width, height)`, and a text. */
function keyEntry(list, text, paint) {
  const item = element(list, "li"), sample = element(item, "canvas", "sample");
  [sample.width, sample.height] = [44, 28];
  const pen = sample.getContext("2d"), colour = matchMedia("(prefers-color-scheme: dark)");
  pen.scale(2, 2);
  const again = () => { pen.clearRect(0, 0, 22, 14); paint(pen, theme()); };
  again();
  colour.addEventListener("change", again);
  item.append(text);
}

/** A button in a bar. */
function button(bar, text, label, press) {
  const made = element(bar, "button", "", text);
  made.type = "button";
  made.title = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", press);
  return made;
}

/** Stripes of a colour on a ground: ///, \\\, ---, |||, xxx, dots or none, by number. */
function hatch(context, colour, ground, direction = 0) {
  const size = 7;
  const tile = new OffscreenCanvas(size, size);
  const pen = tile.getContext("2d");
  if (ground) { pen.fillStyle = ground; pen.fillRect(0, 0, size, size); }
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  const rising = [[-1, size + 1, size + 1, -1], [-1, 1, 1, -1], [size - 1, size + 1, size + 1, size - 1]];
  const falling = rising.map(([x0, y0, x1, y1]) => [x0, size - y0, x1, size - y1]);
  const lines = [rising, falling, [[0, 2, size, 2]], [[2, 0, 2, size]], [...rising, ...falling], [[2, 2, 3.5, 2]], []][direction];
  for (const [x0, y0, x1, y1] of lines) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }
  return context.createPattern(tile, "repeat");
}

/** The first place at or behind `from` whose value in a sorted column is above `limit`. */
function firstAbove(values, limit, from = 0) {
  let low = from, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

/** Round times from `begin` to `end`, about one each `pixels`. */
function ticks(begin, end, width, pixels = 90) {
  const rough = ((end - begin) / Math.max(width, 1)) * pixels;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rough) || power * 10;
  const first = Math.ceil(begin / step - 1e-9);
  const count = Math.min(200, Math.floor(end / step + 1e-9) - first + 1);
  return { step, times: Array.from({ length: Math.max(0, count) }, (_, k) => (first + k) * step) };
}

/** A time on an axis whose ticks are `step` apart. */
function tickLabel(time, step, largest) {
  if (time === 0) return "0";
  const [unit, name] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([size]) => largest >= size) || [1e-9, "ns"];
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / unit) + 1e-9)));
  return `${(time / unit).toFixed(digits)} ${name}`;
}
