"use strict";
// A film: shapes with times. What they stand for, only the one who made them knows.

globalThis.SCENES = globalThis.SCENES || {};
SCENES.film = async (root, data) => {
  for (const act of data.acts) {
    act.shapes = await unpacked(act.shapes);
    for (const figure of act.figures) Object.assign(figure, await unpacked(figure.values));
  }
  for (const look of data.looks) look.stripes = look.stripes.map((number) => data.stripes[number]);
  for (const layout of data.layouts) layout.boxes = await unpacked(layout.boxes);
  const controls = player(root, data.acts, show);
  const facts = element(root, "dl", "readouts");
  const cells = data.acts[0].figures.map(({ name }) => {
    const pair = element(facts, "div");
    element(pair, "dt", "", name);
    return element(pair, "dd");
  });
  const title = element(root, "h3", "step");
  const sentence = element(root, "p", "sentence");
  const wrong = element(root, "p", "wrong");
  const legend = data.legend.length ? element(root, "p", "legend") : null;
  for (const { name, colour, sign } of data.legend) {
    const entry = element(legend, "span", "entry");
    const chip = element(entry, "span", "chip", sign);
    Object.assign(chip.style, { background: colour, color: inkOn(colour) });
    entry.append(name);
  }
  const picture = filmPicture(root, data);
  const list = element(root, "ul", "sentences");

  function show(act, moment) {
    let step = 0;
    while (step < act.marks.length - 1 && act.marks[step] < moment - act.end * 1e-9) step++;
    act.figures.forEach((figure, k) => {
      const value = inWords(figure, valueAt(figure, moment));
      cells[k].textContent = figure.total === null ? value : `${value} of ${inWords(figure, figure.total)}`;
    });
    title.textContent = act.titles[step];
    sentence.textContent = act.sentences[step];
    wrong.hidden = !act.wrong || moment < act.end;
    wrong.textContent = wrong.hidden ? "" : act.wrong;
    if (list.dataset.step !== `${act.name} ${step}`) {
      list.dataset.step = `${act.name} ${step}`;
      list.replaceChildren();
      for (const detail of act.details[step] ?? []) element(list, "li", "", detail);
    }
    picture.draw(act, moment);
  }

  controls.start();
};

/** The value of a figure at a moment. */
function valueAt({ moments, values, jumps }, moment) {
  let [low, high] = [0, moments.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (moments[middle] <= moment) low = middle;
    else high = middle - 1;
  }
  if (jumps || low === moments.length - 1) return values[low];
  const share = (moment - moments[low]) / (moments[low + 1] - moments[low]);
  return values[low] + (values[low + 1] - values[low]) * share;
}

/** A value with its unit. */
function inWords({ unit }, value) {
  if (unit === "rate") return value ? `${Number((value / 1e9).toPrecision(4))} GB/s` : "–";
  if (unit === "share") return `${(100 * value).toFixed(1)} %`;
  return { seconds, bytes }[unit]?.(value) ?? `${+value.toFixed(2)}`;
}

/** A canvas that draws an act at a moment. */
function filmPicture(root, data) {
  const still = document.createElement("canvas"), under = still.getContext("2d");
  let [layout, across, down, drawn, now] = [];
  const area = surface(root, "the animation", paint, "img");

  const box = (place) => {
    const { left, top, width, height } = layout.boxes;
    const x = left[place] * (left[place] < 0 ? down : across); // What is in the margin does not stretch.
    return [x, top[place] * down, width[place] * across, height[place] * down];
  };
  const middle = ([x, y, width, height]) => [x + width / 2, y + height / 2];
  const isLine = ({ style }) => style === "line" || style === "arrow";

  function shape(on, brush, { look, place, begin, goal, arrival, way }, k, moment) {
    const style = data.looks[look[k]];
    const first = box(place[k]);
    if (goal[k] < 0) return brush.box(on, style, first);
    const last = box(goal[k]);
    const between = way[k] < 0 ? [] : layout.ways[way[k]].map(([x, y]) => [x * across, y * down]);
    const points = [middle(first), ...between, middle(last)];
    if (isLine(style)) return brush.line(on, style, points);
    const share = moment < arrival[k] ? (moment - begin[k]) / (arrival[k] - begin[k]) : 1;
    const [width, height] = [2, 3].map((side) => first[side] + (last[side] - first[side]) * share);
    const [x, y] = onWay(points, share);
    brush.box(on, style, [x - width / 2, y - height / 2, width, height]);
  }

  function paint() {
    const { canvas, context, width } = area;
    if (!width || !now) return; // The window has no size yet.
    layout = data.layouts[width < 700 ? data.layouts.length - 1 : 0];
    down = layout.stretches ? layout.unit : Math.min(width / layout.width, layout.unit);
    across = layout.stretches ? (width - layout.margin) / layout.width : down;
    if (area.height !== layout.height * down) return area.resize(layout.height * down);
    const { act, moment } = now, { begin, end, place, goal, arrival, look } = act.shapes;
    const [resting, moving] = [[], []];
    for (let k = 0; k < begin.length; k++) {
      if (begin[k] > moment || moment >= end[k] || place[k] >= layout.boxes.left.length) continue;
      const moves = goal[k] >= 0 && moment < arrival[k] && !isLine(data.looks[look[k]]);
      (moves ? moving : resting).push(k);
    }
    const brush = brushOf(area.theme), extent = [canvas.width, canvas.height];
    const looks = [act.name, extent, area.theme.dark, resting].join();
    if (looks !== drawn) {
      [still.width, still.height] = extent;
      under.setTransform(context.getTransform());
      under.translate(layout.stretches ? layout.margin : (width - layout.width * across) / 2, 0);
      for (const k of resting) shape(under, brush, act.shapes, k, moment);
      drawn = looks;
    }
    context.save();
    context.resetTransform();
    context.drawImage(still, 0, 0);
    context.setTransform(under.getTransform());
    for (const k of moving) shape(context, brush, act.shapes, k, moment);
    context.restore();
  }

  return { draw(act, moment) { now = { act, moment }; area.redraw(); } };
}

/** Functions that draw boxes and lines with the colours of the page. Lengths are pixels. */
function brushOf(colours) {
  const colour = (name) => colours[name] ?? name;

  function rectangle(on, [x, y, width, height], fill, edge, size = 1, radius = 0) {
    on.beginPath();
    on.roundRect(x, y, width, height, Math.min(radius, height / 2));
    on.fillStyle = colour(fill);
    if (fill) on.fill();
    on.strokeStyle = colour(edge);
    on.lineWidth = size;
    if (edge) on.stroke();
  }

  /** A text in the middle of a box, or its first word, as large as it fits. */
  function fitting(on, text, [x, y, width, height], ink) {
    const sizes = [text, text.split(" ")[0]].map((words) => [letters(height, (width / words.length) * 1.3), words]);
    const [size, words] = sizes.find(([size]) => size >= LEAST) ?? [0];
    if (size) write(on, words, x + width / 2, y + height / 2 + 0.5, size, ink);
  }

  /** The size of letters in a box: they fill a small box. */
  const letters = (height, most = 15) => Math.min(Math.max(height * 0.75, Math.min(height, LEAST)), most, 15);

  function box(on, look, place) {
    const { fill = "", text = "", edge = "", width: size = 1, ink, style, stripes, parts = 1 } = look;
    const [x, y, width, height] = place;
    const round = style === "round" ? 8 : 0;
    for (let k = (look.copies ?? 1) - 1; k > 0; k--)
      rectangle(on, [x + 3 * k, y - 3 * k, width, height], "panel", edge, size);
    rectangle(on, place, fill, round ? edge : "", size, round);
    const part = width / parts;
    for (const [k, shade, name] of stripes) {
      rectangle(on, [x + k * part, y, part, height], shade, "");
      fitting(on, name, [x + k * part, y, part, height], inkOn(shade));
    }
    for (let k = 1; k < parts && part >= 4; k++) rectangle(on, [x + k * part - 0.5, y, 1, height], "ground", "");
    if (style === "dashed") on.setLineDash([3, 3]);
    if (!round) rectangle(on, place, "", edge, size);
    on.setLineDash([]);
    const readable = colour(ink ?? (fill ? inkOn(colour(fill)) : "ink"));
    if (style === "left") write(on, text, x, y + height / 2, letters(height), readable, "left");
    else if (text) fitting(on, text, place, readable);
    const beside = letters(height);
    if (look.before) write(on, look.before, x - 0.55 * height, y + height / 2, beside, colours.quiet);
    if (look.after) write(on, look.after, x + width + 0.6 * height, y + height / 2, Math.max(LEAST, beside * 1.2), colour(ink ?? "ink"));
  }

  function line(on, { edge, width, style }, points) {
    on.strokeStyle = on.fillStyle = colour(edge);
    on.lineWidth = width;
    on.globalAlpha = style === "arrow" ? 0.6 : 1;
    on.beginPath();
    for (const point of points) on.lineTo(...point);
    on.stroke();
    on.globalAlpha = 1;
    if (style !== "arrow") return;
    const [[x, y], [a, b]] = [onWay(points, 0.5), onWay(points, 0.49)];
    const angle = Math.atan2(y - b, x - a);
    on.beginPath();
    for (const turn of [0, 2.5, -2.5]) on.lineTo(x + 7 * Math.cos(angle + turn), y + 7 * Math.sin(angle + turn));
    on.fill();
  }

  return { box, line };
}

/** The point at a share of a way. */
function onWay(points, share) {
  const lengths = points.slice(1).map(([x, y], k) => Math.hypot(x - points[k][0], y - points[k][1]));
  let rest = share * lengths.reduce((sum, length) => sum + length, 0);
  for (let k = 0; k < lengths.length; k++) {
    if (rest <= lengths[k] || k === lengths.length - 1) {
      const part = lengths[k] ? rest / lengths[k] : 0;
      return [0, 1].map((axis) => points[k][axis] + (points[k + 1][axis] - points[k][axis]) * part);
    }
    rest -= lengths[k];
  }
}
