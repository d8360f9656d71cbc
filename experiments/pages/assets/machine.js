"use strict";
// The machine: boxes for devices, lines for links, coloured by their use over time.

const VIRIDIS = ["#440154", "#46307e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const MACHINE_HINT = "Move the slider or play to see when links are busy. Point at a link or a device, or step through links with n and p.";

(globalThis.SCENES ??= {}).machine = async (root, data) => {
  const columns = await unpacked(data.columns);
  const stage = element(root, "div", "stage");
  let drawn = null;
  const area = surface(stage, "machine", () => drawn.draw());
  drawn = new Machine(data, columns, area);
  const words = tip(stage);
  stage.before(machineBar(drawn, words), element(root, "p", "note", MACHINE_HINT));
  machinePointer(drawn, words);
  const list = element(root, "ul", "key");
  for (const share of [0, 0.25, 0.5, 0.75, 1])
    keyEntry(list, share ? `${100 * share}% busy` : "idle", (pen, { dark, rule }) => {
      pen.fillStyle = share ? shade(share, dark) : rule;
      pen.fillRect(0, 0, 22, 14);
    });
  remarks(root, data);
};

/** A colour between those of a map: 0 is the first, 1 the last. */
function shade(share, dark) {
  const colours = dark ? VIRIDIS : VIRIDIS.toReversed();
  const place = Math.max(0, Math.min(1, share)) * (colours.length - 1), k = Math.min(Math.floor(place), colours.length - 2);
  const [low, high] = [colours[k], colours[k + 1]].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  return `rgb(${low.map((value, n) => Math.round(value + (high[n] - value) * (place - k))).join(" ")})`;
}

class Machine {
  constructor(data, columns, area) {
    Object.assign(this, columns);
    this.data = data;
    this.area = area;
    this.part = -1;
    this.chosen = -1;
    this.links = this.source.length;
    const arcs = this.source.some((from, link) => this.y[from] === this.y[this.target[link]] && Math.abs(this.x[from] - this.x[this.target[link]]) > 1.3);
    const half = (k) => Math.max(0.5, this.width[k] / 2) + 0.3;
    this.low = [Math.min(...Array.from(this.x, (x, k) => x - half(k))), Math.min(...this.y) - (arcs ? 1.1 : 0.7)];
    this.high = [Math.max(...Array.from(this.x, (x, k) => x + half(k))), Math.max(...this.y) + (arcs ? 1.1 : 0.7)];
    this.totals = new Float64Array(this.links);
    this.means = new Float64Array(this.links);
    for (let link = 0; link < this.links; link++)
      for (let part = 0; part < data.parts; part++) {
        this.totals[link] += this.nbytes[link * data.parts + part];
        this.means[link] += this.busy[link * data.parts + part] / 1000 / data.parts;
      }
    area.resize(420);
  }

  /** The share of time that a link is busy, in the part that is shown or in the whole run. */
  use(link) { return this.part < 0 ? this.means[link] : this.busy[link * this.data.parts + this.part] / 1000; }

  /** Bytes that have crossed a link by the end of the part that is shown. */
  carried(link) {
    if (this.part < 0) return this.totals[link];
    const first = link * this.data.parts;
    return this.nbytes.subarray(first, first + this.part + 1).reduce((sum, value) => sum + value, 0);
  }

  /** Lays out the machine in the width that there is. */
  fit() {
    const { area } = this, [wide, high] = [this.high[0] - this.low[0], this.high[1] - this.low[1]];
    this.across = area.width / wide;
    this.up = Math.min(Math.max(this.across, 26), Math.max(11, 540 / high), 64);
    this.across = Math.min(this.across, 110);
    this.left = (area.width - wide * this.across) / 2;
    const height = Math.round(high * this.up);
    if (height !== area.height) area.resize(height);
  }

  at(device) { return [this.left + (this.x[device] - this.low[0]) * this.across, (this.high[1] - this.y[device]) * this.up]; }

  box(device) {
    const [x, y] = this.at(device);
    const width = Math.max(3, this.width[device] * this.across * 0.92), height = Math.min(0.56 * this.up, 34);
    return [x - width / 2, y - height / 2, width, height];
  }

  draw() {
    this.fit();
    const { context: pen, width, height, theme } = this.area;
    pen.fillStyle = theme.ground;
    pen.fillRect(0, 0, width, height);
    this.drawFrames(pen);
    this.lines = Array.from({ length: this.links }, (_, link) => this.line(link));
    const order = Array.from(this.lines.keys()).sort((a, b) => this.use(a) - this.use(b));
    for (const link of order) if (this.lines[link]) this.drawLink(pen, link);
    if (this.lines[this.chosen]) this.drawLink(pen, this.chosen);
    for (let device = 0; device < this.x.length; device++) this.drawDevice(pen, device);
  }

  /** A box round the devices of each node. */
  drawFrames(pen) {
    const nodes = new Set(this.node.filter((node) => node >= 0));
    pen.fillStyle = this.area.theme.panel;
    if (nodes.size < 2 || this.data.device_kinds.includes("node")) return;
    for (const node of nodes) {
      const boxes = Array.from(this.node.keys()).filter((device) => this.node[device] === node).map((device) => this.box(device));
      const [left, top] = [0, 1].map((k) => Math.min(...boxes.map((box) => box[k])) - 7);
      const [right, bottom] = [0, 1].map((k) => Math.max(...boxes.map((box) => box[k] + box[k + 2])) + 7);
      pen.beginPath();
      pen.roundRect(left, top, right - left, bottom - top, 8);
      pen.fill();
    }
  }

  /** The points of a link: its ends, and where a link within a row bends. None within a box. */
  line(link) {
    const [from, to] = [this.source[link], this.target[link]];
    if (from === to) return null;
    const [[x0, y0], [x1, y1]] = [this.end(from, to), this.end(to, from)];
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [((y1 - y0) / length) * 2.2, (-(x1 - x0) / length) * 2.2];
    const row = this.y[from] === this.y[to] && Math.abs(this.x[from] - this.x[to]) > 1.3;
    const bend = row ? Math.min(0.22 * Math.abs(x1 - x0), 0.55 * this.up) * (x1 > x0 ? -1 : 1) : 0;
    return [x0 + dx, y0 + dy, (x0 + x1) / 2 + dx, (y0 + y1) / 2 + dy + 2 * bend, x1 + dx, y1 + dy];
  }

  /** Where a line to a peer leaves a device: wide devices are bars. */
  end(device, peer) {
    const [x, y] = this.at(device), reach = Math.max(0, (this.width[device] - 0.9) / 2) * this.across;
    return [x + Math.max(-reach, Math.min(reach, this.at(peer)[0] - x)), y];
  }

  drawLink(pen, link) {
    const [x0, y0, bx, by, x1, y1] = this.lines[link], use = this.use(link), { theme } = this.area;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.quadraticCurveTo(bx, by, x1, y1);
    if (link === this.chosen) { pen.strokeStyle = theme.ink; pen.lineWidth = 8; pen.stroke(); }
    pen.strokeStyle = use > 0 ? shade(use, theme.dark) : theme.rule;
    pen.lineWidth = use > 0 ? 1.6 + 3 * use : 0.8;
    pen.stroke();
  }

  drawDevice(pen, device) {
    const [left, top, width, height] = this.box(device), { theme } = this.area;
    const inside = this.inside(device);
    const use = inside < 0 ? 0 : this.use(inside);
    pen.beginPath();
    pen.roundRect(left, top, width, height, Math.min(5, width / 3));
    pen.fillStyle = use > 0 ? shade(use, theme.dark) : theme.ground;
    pen.fill();
    pen.strokeStyle = inside >= 0 && inside === this.chosen ? theme.ink : theme.quiet;
    pen.lineWidth = inside >= 0 && inside === this.chosen ? 3 : 1;
    pen.stroke();
    const name = this.data.devices[device].replace(/^(node\d+\.|0000:|node )/, "");
    const size = Math.min(12, (width * 1.55) / Math.max(2, name.length));
    if (size < 6.5) return;
    pen.font = `${size}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = use > 0 && (use > 0.45) !== theme.dark ? "#ffffff" : use > 0 ? "#000000" : theme.ink;
    pen.fillText(name, left + width / 2, top + height / 2, width - 2);
  }

  /** The link that stands for all within a box; -1 for none. */
  inside(device) { return this.source.findIndex((from, link) => from === device && this.target[link] === device); }

  /** The link or device at a point. */
  hit(x, y) {
    for (let device = 0; device < this.x.length; device++) {
      const [left, top, width, height] = this.box(device);
      if (x >= left && x <= left + width && y >= top && y <= top + height) return { device };
    }
    let nearest = -1, distance = 7;
    this.lines.forEach((line, link) => {
      const away = line ? this.distance(line, x, y) : Infinity;
      if (away < distance) [nearest, distance] = [link, away];
    });
    return nearest < 0 ? {} : { link: nearest };
  }

  distance([x0, y0, bx, by, x1, y1], x, y) {
    let least = Infinity;
    for (let k = 0; k <= 24; k++) {
      const t = k / 24, [a, b, c] = [(1 - t) ** 2, 2 * t * (1 - t), t ** 2];
      least = Math.min(least, Math.hypot(a * x0 + b * bx + c * x1 - x, a * y0 + b * by + c * y1 - y));
    }
    return least;
  }

  words(link) {
    const { data } = this, [from, to] = [data.devices[this.source[link]], data.devices[this.target[link]]];
    const speed = this.bandwidth[link] > 0 ? `${Number((this.bandwidth[link] / 1e9).toPrecision(4))} GB/s` : "unlimited";
    const several = this.members[link] > 1 ? `${this.members[link]} links together: ` : "";
    if (!this.totals[link]) return [`${from} → ${to}`, `${data.kinds[this.kind[link]]}, ${several}${speed}, latency ${seconds(this.latency[link])}`, "no message crosses it"];
    const now = this.part < 0 ? "" : `busy ${this.percent(this.use(link))} of this part of the run`;
    return [
      from === to ? `links within ${from}` : `${from} → ${to}`,
      `${data.kinds[this.kind[link]]}, ${several}${speed}, latency ${seconds(this.latency[link])}`,
      ...(now ? [now] : []),
      `busy ${this.percent(this.means[link])} of the whole run`,
      `${bytes(Math.round(this.carried(link)))} ${this.part < 0 ? "in all" : `so far, of ${bytes(Math.round(this.totals[link]))}`}`,
    ];
  }

  percent(share) { return `${Number((100 * share).toPrecision(3))}%`; }

  /** What a device is, and what its links have carried. */
  deviceWords(device) {
    const inside = this.inside(device);
    if (inside >= 0) return this.words(inside);
    const sum = (ends) => bytes(Math.round(Array.from(ends.keys()).filter((k) => ends[k] === device).reduce((all, k) => all + this.carried(k), 0)));
    const { data } = this, kind = data.device_kinds[this.device_kind[device]];
    return [data.devices[device], kind + (this.node[device] >= 0 ? `, node ${this.node[device]}` : ""), `${sum(this.source)} out, ${sum(this.target)} in${this.part < 0 ? "" : " so far"}`];
  }
}

/** Play, slider and the words about the time that is shown. */
function machineBar(drawn, words) {
  const { data } = drawn, bar = document.createElement("div");
  bar.className = "bar";
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: data.parts - 1, value: 0, className: "time" });
  slider.setAttribute("aria-label", "time");
  let timer = 0;
  const show = (part) => {
    drawn.part = part;
    const part_s = data.makespan / data.parts, busiest = Math.max(0, ...drawn.source.keys().map((link) => drawn.use(link)));
    const when = part < 0 ? "the whole run" : `${seconds(part * part_s)} to ${seconds((part + 1) * part_s)} of ${seconds(data.makespan)}`;
    said.textContent = `${when}: the busiest link is in use ${drawn.percent(busiest)} of the time`;
    slider.setAttribute("aria-valuetext", when);
    whole.setAttribute("aria-pressed", String(part < 0));
    if (part >= 0) slider.value = part;
    words.hide();
    drawn.area.redraw();
  };
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "play"; };
  const play = button(bar, "play", "play or pause", () => {
    if (timer) { stop(); return; }
    play.textContent = "pause";
    if (drawn.part >= data.parts - 1) drawn.part = -1;
    timer = setInterval(() => { if (drawn.part >= data.parts - 1) stop(); else show(drawn.part + 1); }, 90);
  });
  bar.append(slider);
  const whole = button(bar, "whole run", "show the mean of the whole run", () => { stop(); show(-1); });
  const said = element(bar, "span", "count");
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  show(-1);
  return bar;
}

function machinePointer(drawn, words) {
  const { canvas } = drawn.area;
  const tell = (link, lines, x, y) => {
    drawn.chosen = link;
    if (lines) words.show(lines, x, y); else words.hide();
    drawn.area.redraw();
  };
  pointing(drawn.area, (x, y) => {
    const { link, device } = drawn.hit(x, y);
    if (device !== undefined) tell(drawn.inside(device), drawn.deviceWords(device), x, y);
    else tell(link ?? -1, link === undefined ? null : drawn.words(link), x, y);
  }, () => tell(-1, null));
  canvas.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") tell(-1, null);
    if ((key !== "n" && key !== "p") || !drawn.links) return;
    const link = (drawn.chosen + (key === "n" ? 1 : -1) + drawn.links) % drawn.links;
    const line = drawn.lines[link], [x, y] = line ? [line[2], line[3]] : drawn.at(drawn.source[link]);
    tell(link, drawn.words(link), x, y);
  });
}
