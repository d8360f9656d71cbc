"use strict";
// Draws a timeline: as much of it as there are pixels.

const AXIS = 24, DIM = 0.16;

class TimelineView {
  constructor(model, area) {
    this.model = model;
    this.area = area;
    this.begin = 0;
    this.finish = model.data.axis;
    this.top = 0;
    this.chosen = -1;
    this.showsPath = false;
    this.matches = null;
    this.labels = [];
    this.arrange();
  }

  /** Lays out the lines anew, after groups were opened or closed. */
  arrange() {
    Object.assign(this, { layout: this.model.lines() });
    const most = Math.max(260, Math.min(680, innerHeight * 0.72));
    this.area.resize(Math.round(Math.min(most, this.layout.height + AXIS + 14)));
    this.scroll(0);
  }

  get left() { return Math.min(this.gutter || 90, this.area.width * 0.4); }
  get width() { return Math.max(10, this.area.width - this.left - 8); }
  get seconds() { return this.finish - this.begin; }
  x(time) { return this.left + ((time - this.begin) / this.seconds) * this.width; }
  time(x) { return this.begin + ((x - this.left) / this.width) * this.seconds; }
  y(y) { return AXIS + y - this.top; }

  /** Shows another part of the time; the shortest is a ten-millionth of all. */
  show(begin, finish) {
    const { axis } = this.model.data;
    const length = Math.min(axis, Math.max(axis * 1e-7, finish - begin));
    this.begin = Math.max(0, Math.min(axis - length, begin));
    this.finish = this.begin + length;
    this.area.redraw();
  }

  zoom(factor, at = (this.begin + this.finish) / 2) {
    const length = this.seconds * factor, share = (at - this.begin) / this.seconds;
    this.show(at - share * length, at - share * length + length);
  }

  scroll(pixels) {
    const room = this.layout.height + AXIS + 14 - this.area.height;
    this.top = Math.max(0, Math.min(room, this.top + pixels));
    this.area.redraw();
  }

  /** The lines within the window. */
  visible() {
    const { top } = this, bottom = top + this.area.height - AXIS;
    return this.layout.lines.filter((line) => line.y + line.height >= top && line.y <= bottom);
  }

  draw() {
    const { context: pen, width, height } = this.area;
    this.colours();
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = this.theme.ground;
    pen.fillRect(0, 0, width, height);
    const lines = this.visible();
    pen.save();
    pen.beginPath();
    pen.rect(this.left, AXIS, this.width + 1, height - AXIS);
    pen.clip();
    this.drawGrid(pen, height);
    for (const line of lines) if (!line.group) this.drawLine(pen, line);
    this.drawSteps(pen, height);
    if (this.showsPath) this.drawPath(pen, height);
    this.drawChosen(pen);
    pen.restore();
    this.drawNames(pen, lines);
    this.drawAxis(pen);
    this.drawBars(pen);
  }

  /** Colours and stripes, made once for each theme. */
  colours() {
    if (this.theme === this.area.theme && this.size === this.area.width) return;
    this.size = this.area.width;
    this.theme = this.area.theme;
    const { data } = this.model, { context } = this.area, { dark, ground } = this.theme;
    this.fill = data.kinds.map((kind) => data.colours[kind] || "#888888");
    this.ink = this.fill.map((colour) => (isDark(colour) ? "#ffffff" : "#101418"));
    const hues = data.causes.map((cause) => data.cause_colours[cause]);
    this.idle = hues.map((hue) => `${hue}${dark ? "4d" : "40"}`);
    this.striped = hues.map((hue, k) => hatch(context, hue, this.idle[k], data.cause_stripes[data.causes[k]]));
    this.idle.push(dark ? "#ffffff22" : "#00000018");
    this.striped.push(this.idle.at(-1));
    this.hiddenStripes = hatch(context, `${ground}d0`, `${ground}70`, 0);
    context.font = "12px system-ui, sans-serif";
    const widest = Math.max(...data.rows.slice(0, 400).map((row) => context.measureText(row).width));
    context.font = "10px system-ui, sans-serif";
    const longest = Math.max(...data.lanes.map((lane) => context.measureText(lane).width));
    this.lanes = data.lanes.length > 1 ? Math.min(84, longest) + 8 : 0;
    this.gutter = Math.min(200, widest + this.lanes + 8);
  }

  drawGrid(pen, height) {
    pen.fillStyle = this.theme.panel;
    for (const line of this.visible())
      if (!line.group) pen.fillRect(this.left, this.y(line.y), this.width, line.height);
    pen.strokeStyle = this.theme.rule;
    pen.lineWidth = 0.5;
    pen.beginPath();
    for (const time of ticks(this.begin, this.finish, this.width).times) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.moveTo(x, AXIS);
      pen.lineTo(x, height);
    }
    pen.stroke();
  }

  drawLine(pen, line) {
    const { model, matches } = this;
    pen.globalAlpha = matches ? DIM : 1;
    for (const track of model.layers(line)) this.drawTrack(pen, line, track);
    pen.globalAlpha = 1;
    if (matches) this.labels.length = 0;
    if (matches) for (const track of model.layers(line, matches.tracks)) this.drawTrack(pen, line, track);
    const talks = line.lane >= 0 && line.lane !== model.data.main && model.data.lanes[line.lane] !== "messages";
    if (talks && model.data.main >= 0) this.drawHidden(pen, line);
    for (const words of this.labels.splice(0)) this.drawLabel(pen, ...words);
  }

  /** Boxes of a track. Those in one pixel are one box, of the longest of the first ones. */
  drawTrack(pen, line, track) {
    const { model, begin, finish } = this, { items, starts, ends } = track;
    const [y, height] = model.place(line, track.band), top = this.y(y), least = line.lane < 0 ? 1.5 : 1;
    const scale = this.width / this.seconds, origin = this.left - begin * scale, pixel = least / scale;
    for (let k = firstAbove(ends, begin); k < items.length && starts[k] < finish;) {
      const i = items[k];
      const from = starts[k] * scale + origin, to = model.end[i] * scale + origin;
      if (to - from >= least) {
        this.drawBox(pen, line, i, from, to, top, height);
        k++;
        continue;
      }
      let next = starts[k + 1] < starts[k] + pixel ? firstAbove(starts, starts[k] + pixel, k + 1) : k + 1;
      // Spans do not overlap: only the last one in a pixel can be longer than the pixel.
      if (next > k + 1 && model.duration[items[next - 1]] >= pixel) next--;
      let longest = i;
      for (let n = k + 1; n < Math.min(next, k + 8); n++)
        if (model.duration[items[n]] > model.duration[longest]) longest = items[n];
      this.drawBox(pen, line, longest, from, from + least, top, height);
      k = Math.max(next, k + 1);
    }
  }

  drawBox(pen, line, i, from, to, top, height) {
    const { model } = this;
    const x = Math.max(from, this.left - 4), width = Math.min(to, this.left + this.width + 4) - x;
    if (model.isIdle(i)) {
      const cause = model.cause[i] >= 0 ? model.cause[i] : this.idle.length - 1;
      pen.fillStyle = width > 3 && height > 6 ? this.striped[cause] : this.idle[cause];
      pen.fillRect(x, top, width, height);
      if (width > 60 && height >= 12) this.labels.push([[model.title(i).slice(6)], this.theme.ink, this.theme.ground, x, width, top + height / 2]);
      return;
    }
    pen.fillStyle = this.fill[model.kind[i]];
    pen.fillRect(x, top, width > 4 ? width - 0.7 : width, height > 5 ? height - 0.7 : height);
    if (width > 26 && height >= 12) this.labels.push([model.label(i), this.ink[model.kind[i]], this.fill[model.kind[i]], x, width, top + height / 2]);
  }

  /** The first of some texts that fits into a box, with a rim that covers stripes. */
  drawLabel(pen, texts, colour, rim, x, width, middle) {
    pen.font = "11px system-ui, sans-serif";
    const fitting = texts.find((word) => word && pen.measureText(word).width < width - 6);
    if (!fitting) return;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 4;
    pen.strokeStyle = rim;
    pen.strokeText(fitting, x + width / 2, middle + 0.5);
    pen.fillStyle = colour;
    pen.fillText(fitting, x + width / 2, middle + 0.5);
  }

  /** Stripes where a communication is hidden: the main lane computes meanwhile. */
  drawHidden(pen, line) {
    const { model } = this, idle = model.idleOf(line.row);
    pen.fillStyle = this.hiddenStripes;
    for (const track of model.layers(line)) {
      if (SpanModel.isIdle(track)) continue;
      const [y, height] = model.place(line, track.band);
      for (let k = firstAbove(track.ends, this.begin), n = 0; k < track.items.length && track.starts[k] < this.finish && n < 2000; k++, n++) {
        const from = Math.max(track.starts[k], this.begin), to = Math.min(model.end[track.items[k]], this.finish);
        if (((to - from) / this.seconds) * this.width < 3) continue;
        for (const [start, end] of this.computing(idle, from, to)) pen.fillRect(this.x(start), this.y(y), this.x(end) - this.x(start), height);
      }
    }
  }

  /** The parts of a time in which the main lane computes; those below a pixel are left out. */
  computing(idle, from, to) {
    const parts = [], pixel = this.seconds / this.width;
    let free = from;
    const first = idle ? firstAbove(idle.ends, from) : 0;
    for (let k = first; idle && k < idle.items.length && idle.starts[k] < to && k < first + 500; k++) {
      if (idle.starts[k] - free > pixel) parts.push([free, idle.starts[k]]);
      free = Math.max(free, idle.ends[k]);
    }
    if (to - free > pixel) parts.push([free, to]);
    return parts;
  }

  drawSteps(pen, height) {
    pen.strokeStyle = this.theme.quiet;
    pen.lineWidth = 1;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    let last = -9;
    for (const time of this.model.data.steps.slice(0, -1)) {
      const x = Math.round(this.x(time)) + 0.5;
      if (x < last + 4 || time < this.begin || time > this.finish) continue;
      pen.moveTo(x, AXIS);
      pen.lineTo(x, height);
      last = x;
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  /** The middle of a lane of a row, or of its strip. */
  middles() {
    const places = new Map();
    for (const line of this.layout.lines) {
      if (line.group) continue;
      const lanes = line.lane < 0 ? this.model.data.lanes.keys() : [line.lane];
      for (const lane of lanes) places.set(line.row * 64 + lane, line.y + line.height / 2);
    }
    return places;
  }

  drawPath(pen, height) {
    const { path } = this.model, places = this.middles();
    const line = new Path2D();
    let last = null;
    for (let k = firstAbove(path.end, this.begin); k < path.start.length && path.start[k] <= this.finish; k++) {
      const [from, to] = [this.x(path.start[k]), this.x(path.end[k])];
      const middle = path.row[k] < 0 ? undefined : places.get(path.row[k] * 64 + path.lane[k]);
      if (middle === undefined || (last && to - last[0] < 0.7)) continue;
      const y = this.y(middle);
      if (last) line.lineTo(from, y); else line.moveTo(from, y);
      line.lineTo(to, y);
      last = [to, y];
    }
    pen.lineJoin = "round";
    for (const [colour, width] of [[this.theme.ground, 5], [this.theme.dark ? "#ff7b9c" : "#c2185b", 2.4]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke(line);
    }
  }

  /** The line of a span, if its group is open. */
  lineOf(i) {
    const { row, lane } = this.model;
    return this.layout.lines.find((line) => line.row === row[i] && (line.lane === lane[i] || line.lane < 0));
  }

  drawChosen(pen) {
    const i = this.chosen;
    const line = i < 0 ? null : this.lineOf(i);
    if (!line) return;
    const [y, height] = this.model.place(line, this.model.band[i]);
    const from = Math.max(this.x(this.model.start[i]), this.left - 9);
    const to = Math.min(this.x(this.model.end[i]), this.left + this.width + 9);
    pen.strokeStyle = this.theme.ink;
    pen.lineWidth = 2;
    pen.strokeRect(from - 1, this.y(y) - 1, Math.max(3, to - from) + 2, height + 1);
  }

  drawNames(pen, lines) {
    pen.fillStyle = this.theme.ground;
    pen.fillRect(0, 0, this.left, this.area.height);
    pen.textBaseline = "middle";
    let below = AXIS - 4;
    for (const line of lines) {
      const y = this.y(line.y) + line.height / 2;
      if (y < AXIS - 4) continue;
      if (line.group) {
        pen.font = "600 12px system-ui, sans-serif";
        pen.fillStyle = this.theme.ink;
        pen.textAlign = "left";
        pen.fillText(`${this.model.open.has(line.group) ? "▾" : "▸"} ${line.group.name}`, 2, y);
        continue;
      }
      if (line.lane < 0) continue;
      pen.font = "12px system-ui, sans-serif";
      if (line.first && y > below + 11) {
        pen.textAlign = "left";
        pen.fillStyle = this.theme.ink;
        pen.fillText(this.model.data.rows[line.row], 2, y, this.left - this.lanes - 6);
        below = y;
      }
      if (!this.lanes) continue;
      pen.font = "10px system-ui, sans-serif";
      pen.textAlign = "right";
      pen.fillStyle = this.theme.quiet;
      pen.fillText(this.model.data.lanes[line.lane], this.left - 6, y, 84);
    }
  }

  drawAxis(pen) {
    pen.fillStyle = this.theme.ground;
    pen.fillRect(this.left, 0, this.area.width, AXIS);
    pen.fillStyle = this.theme.quiet;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const { step, times } = ticks(this.begin, this.finish, this.width);
    for (const time of times) {
      const text = tickLabel(time, step, this.finish), half = pen.measureText(text).width / 2;
      const x = Math.min(Math.max(this.x(time), this.left + half), this.area.width - half - 2);
      pen.textAlign = "center";
      pen.fillText(text, x, AXIS / 2);
    }
  }

  /** Where the window is in the whole timeline: at the bottom and at the right. */
  drawBars(pen) {
    const { axis } = this.model.data, { width, height } = this.area, all = this.layout.height;
    const shown = height - AXIS - 14;
    pen.fillStyle = this.theme.rule;
    if (this.seconds < axis * 0.9999)
      pen.fillRect(this.left + (this.begin / axis) * this.width, height - 5, Math.max(12, (this.seconds / axis) * this.width), 4);
    if (all > shown + 1) pen.fillRect(width - 5, AXIS + (this.top / all) * shown, 4, Math.max(16, (shown / all) * shown));
  }

  /** The span at a point, or a group whose header it is. */
  at(x, y) {
    const depth = y - AXIS + this.top;
    const line = y < AXIS ? null : this.layout.lines.find((each) => depth >= each.y && depth <= each.y + each.height);
    if (!line) return {};
    if (line.group) return { group: line.group };
    if (x < this.left) return {};
    const time = this.time(x), slack = (3 / this.width) * this.seconds;
    let nearest = -1, distance = slack;
    for (const track of this.model.layers(line).toReversed()) {
      const [top, height] = this.model.place(line, track.band);
      if (line.lane >= 0 && (depth < top - 1 || depth > top + height)) continue;
      for (let k = firstAbove(track.ends, time - slack), n = 0; k < track.items.length && track.starts[k] <= time + slack && n < 50; k++, n++) {
        const i = track.items[k];
        const away = Math.max(0, this.model.start[i] - time, time - this.model.end[i]);
        if (away === 0) return { span: i };
        if (away < distance) [nearest, distance] = [i, away];
      }
    }
    return nearest < 0 ? {} : { span: nearest };
  }

  /** Brings a span into the window, its group open. */
  reveal(i) {
    const { model } = this, [start, end] = [model.start[i], model.end[i]];
    const group = model.groups.find((each) => each.rows.includes(model.row[i]));
    if (group.named && !model.open.has(group)) { model.open.add(group); this.arrange(); }
    const pixels = ((end - start) / this.seconds) * this.width;
    if (pixels < 24 || pixels > this.width) {
      const length = Math.max((end - start) * 12, model.data.axis * 1e-7);
      this.show((start + end - length) / 2, (start + end + length) / 2);
    } else if (start < this.begin || end > this.finish) {
      this.show((start + end - this.seconds) / 2, (start + end + this.seconds) / 2);
    }
    const line = this.lineOf(i), room = this.area.height - AXIS - 20;
    if (line && (line.y < this.top || line.y + line.height > this.top + room)) this.scroll(line.y - this.top - room / 2);
    this.chosen = i;
    this.area.redraw();
  }

  /** Where a span is on the canvas. */
  middle(i) {
    const line = this.lineOf(i);
    if (!line) return [this.left, AXIS];
    const [y, height] = this.model.place(line, this.model.band[i]);
    const x = this.x((Math.max(this.model.start[i], this.begin) + Math.min(this.model.end[i], this.finish)) / 2);
    return [Math.max(this.left, Math.min(this.area.width - 8, x)), this.y(y) + height / 2];
  }
}
