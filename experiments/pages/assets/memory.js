"use strict";
// Memory over time: the least, mean and most of all ranks, a chosen rank, and duplicate data.

const GAP = 34, BOTTOM = 22;

(globalThis.SCENES ??= {}).memory = async (root, data) => {
  const columns = await unpacked(data.columns);
  const bar = element(root, "div", "bar");
  const stage = element(root, "div", "stage");
  const curves = { ...columns, data, parts: columns.least.length, rank: 0, part: -1 };
  const area = surface(stage, "memory", () => drawMemory(curves, area));
  const words = tip(stage);
  const label = element(bar, "label", "", "rank ");
  const choice = element(label, "select");
  data.rows.forEach((name, number) => { element(choice, "option", "", name).value = number; });
  choice.setAttribute("aria-label", "rank");
  choice.addEventListener("change", () => { curves.rank = Number(choice.value); area.redraw(); });
  element(bar, "span", "count", `fullest rank: ${bytes(Math.max(...curves.most))}; redundant: ${bytes(Math.max(...curves.redundant))} over all ranks`);
  memoryPointer(curves, area, words);
  const list = element(root, "ul", "key");
  keyEntry(list, "the chosen rank", (pen, { ink }) => bar2d(pen, ink, 1, 6, 2));
  keyEntry(list, "mean of all ranks", (pen, { accent }) => {
    for (const x of [0, 9, 18]) bar2d(pen, accent, 1, 6, 2, x, 5);
  });
  keyEntry(list, "least to most of all ranks", (pen, { accent }) => bar2d(pen, accent, 0.3));
  keyEntry(list, "redundant: duplicate data", (pen) => bar2d(pen, "#c2570c", 0.6));
  remarks(root, data);
  area.resize(340);
};

/** A box of a sample of the legend. */
function bar2d(pen, colour, alpha, top = 0, height = 14, left = 0, width = 22) {
  pen.globalAlpha = alpha;
  pen.fillStyle = colour;
  pen.fillRect(left, top, width, height);
}

/** Where a panel is, and its scale. */
function panel(curves, area, top, height, values) {
  const left = 74, width = area.width - left - 10, most = Math.max(...values) || 1;
  return { left, top, width, height, most, x: (part) => left + (part / curves.parts) * width, y: (value) => top + height * (1 - value / (most * 1.06)) };
}

function drawMemory(curves, area) {
  const { context: pen, theme: colours } = area;
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, area.width, area.height);
  const room = area.height - GAP - BOTTOM - 18;
  const held = panel(curves, area, 18, room * 0.66, curves.most);
  const redundant = panel(curves, area, 18 + room * 0.66 + GAP, room * 0.34, curves.redundant);
  const accent = colours.dark ? "#ffb454" : "#c2570c";
  for (const [each, title] of [[held, "held by a rank"], [redundant, "redundant, all ranks together"]]) frame(pen, each, title, colours);
  area2d(pen, curves, held, curves.least, curves.most, `${colours.accent}38`);
  line2d(pen, curves, held, curves.mean, colours.accent, 1.4, [5, 4]);
  line2d(pen, curves, held, curves.held.subarray(curves.rank * curves.parts, (curves.rank + 1) * curves.parts), colours.ink, 1.8);
  area2d(pen, curves, redundant, new Float32Array(curves.parts), curves.redundant, `${accent}50`);
  line2d(pen, curves, redundant, curves.redundant, accent, 1.4);
  times(pen, curves, redundant, area, colours);
  if (curves.part < 0) return;
  pen.fillStyle = colours.quiet;
  pen.fillRect(held.x(curves.part + 0.5), 18, 1, area.height - BOTTOM - 18);
}

/** A panel with its title and lines at round sizes. */
function frame(pen, { left, top, width, height, most, y }, title, colours) {
  pen.fillStyle = colours.panel;
  pen.fillRect(left, top, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(most) / Math.log(1024)));
  const { times: sizes } = ticks(0, most / unit, height, 44);
  for (const size of sizes) {
    const level = Math.round(y(size * unit)) + 0.5;
    if (level < top) continue;
    pen.fillStyle = colours.rule;
    pen.fillRect(left, level, width, 0.5);
    pen.fillStyle = colours.quiet;
    pen.textAlign = "right";
    pen.fillText(bytes(size * unit), left - 6, level);
  }
  pen.textAlign = "left";
  pen.fillStyle = colours.ink;
  pen.fillText(title, left, top - 9);
}

/** A step curve: each part has one level. */
function steps(curves, panel, values, into, back = false) {
  for (let n = 0; n < curves.parts; n++) {
    const part = back ? curves.parts - 1 - n : n;
    const y = panel.y(values[part]), ends = [panel.x(part), panel.x(part + 1)];
    for (const x of back ? ends.toReversed() : ends) into.lineTo(x, y);
  }
}

function area2d(pen, curves, panel, low, high, colour) {
  const shape = new Path2D();
  steps(curves, panel, high, shape);
  steps(curves, panel, low, shape, true);
  pen.fillStyle = colour;
  pen.fill(shape);
}

function line2d(pen, curves, panel, values, colour, width, dashes = []) {
  const shape = new Path2D();
  steps(curves, panel, values, shape);
  pen.setLineDash(dashes);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke(shape);
  pen.setLineDash([]);
}

function times(pen, curves, { left, width }, area, colours) {
  const { makespan } = curves.data, { step, times: marks } = ticks(0, makespan, width);
  pen.fillStyle = colours.quiet;
  pen.textAlign = "center";
  for (const time of marks) {
    const text = tickLabel(time, step, makespan), half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(left + (time / makespan) * width, area.width - half - 2), area.height - BOTTOM / 2);
  }
}

function memoryPointer(curves, area, words) {
  const tell = (part, y) => {
    curves.part = Math.max(-1, Math.min(curves.parts - 1, part));
    area.redraw();
    if (curves.part < 0) { words.hide(); return; }
    const { data, rank, parts } = curves, k = curves.part, size = (values) => bytes(Math.round(values[k]));
    words.show([
      seconds((k * data.makespan) / parts),
      `${data.rows[rank] ?? "rank"} holds ${bytes(Math.round(curves.held[rank * parts + k] ?? 0))}`,
      `all ranks: ${size(curves.least)} to ${size(curves.most)}, mean ${size(curves.mean)}`,
      `redundant: ${size(curves.redundant)}`,
    ], 74 + ((k + 0.5) / parts) * (area.width - 84), y);
  };
  const part = (x) => Math.floor(((x - 74) / (area.width - 84)) * curves.parts);
  pointing(area, (x, y) => tell(part(x), y), () => tell(-1));
  area.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (event.key === "Escape") tell(-1);
    if (!by) return;
    event.preventDefault();
    tell(Math.max(0, curves.part + by), 60);
  });
}
