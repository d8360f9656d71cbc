"use strict";
// The animation of a training step: devices as rows, and items that move between them.

globalThis.SCENES = globalThis.SCENES || {};
SCENES.step_animation = async (root, data) => {
  const [boxes, changes, flights] = await Promise.all(
    [data.boxes, data.changes, data.flights].map(unpacked),
  );
  const act = { name: "simulated time", end: data.end, marks: data.marks };
  const controls = player(root, [act], (_, moment) => show(moment));
  const facts = element(root, "dl", "readouts");
  const readout = (name) => {
    const pair = element(facts, "div");
    element(pair, "dt", "", name);
    return element(pair, "dd");
  };
  const time = readout("time");
  const figures = data.figures.map((figure) => ({ ...figure, cell: readout(figure.name) }));
  const title = element(root, "h3", "step");
  const sentence = element(root, "p", "sentence");
  const legend = element(root, "p", "legend");
  const used = [new Set([0, ...changes.state]), new Set(boxes.look)];
  const looks = [data.states, data.kinds].map((every, k) => every.filter((_, place) => used[k].has(place)));
  for (const look of [...looks[0], ...looks[1]])
    if (looks[0].every((state) => state === look || state.name !== look.name)) {
      const entry = element(legend, "span", "entry");
      const chip = element(entry, "span", "chip", look.sign);
      chip.style.background = look.colour;
      chip.style.color = inkOn(look.colour);
      entry.append(look.name);
    }
  const view = sharpCanvas(root, `rows of devices, their ${data.items} states and timelines`);
  const draw = stepPicture(data, { boxes, changes, flights }, view);

  function show(moment) {
    let k = 0;
    while (k < data.titles.length - 1 && data.marks[k + 1] < moment - data.end * 1e-9) k++;
    time.textContent = `${seconds(moment)} of ${seconds(data.end)}`;
    for (const { cell, unit, values } of figures) {
      const place = data.end ? (moment / data.end) * (values.length - 1) : 0;
      const value = values[Math.floor(place + 1e-6)];
      const shown = { seconds, bytes, share: (v) => `${(100 * v).toFixed(1)} %`, count: (v) => `${+v.toFixed(2)}` };
      cell.textContent = shown[unit](value);
    }
    title.textContent = moment > 0 ? data.titles[k] : "before the first event";
    sentence.textContent = moment > 0 ? data.sentences[k] : "";
    draw(moment);
  }

  whenChanged(root, controls.redraw);
  controls.start();
};

/** A function that draws a step at a moment. */
function stepPicture(data, { boxes, changes, flights }, view) {
  return (moment) => {
    const width = view.canvas.parentElement.clientWidth;
    if (!width) return; // The window has no size yet.
    const many = data.rows.length > 8;
    const [strip, lane, gap] = many ? [16, 8, 8] : [24, 14, 14];
    const row = strip + data.lanes.length * lane + 6 + gap;
    const left = width < 700 ? 58 : 88;
    const head = 4;
    const height = head + row * data.rows.length + 22;
    const context = view.fit(height);
    const colours = pageColours();
    const cell = Math.min(64, (width - left) / data.count);
    const x = (time) => left + ((width - left - 1) * time) / (data.end || 1);
    const top = (k) => head + k * row;

    const states = new Int32Array(data.rows.length * data.count);
    for (let k = 0; k < changes.time.length && changes.time[k] <= moment; k++)
      states[changes.row[k] * data.count + changes.item[k]] = changes.state[k];
    const item = (number, look, place, y) => {
      context.fillStyle = look.colour;
      context.fillRect(place + 1, y, cell - 2, strip);
      const ink = inkOn(look.colour);
      const letters = Math.min(strip * 0.58, 13, cell * 0.6);
      const sign = cell >= 30 ? `${number} ${look.sign}` : `${number}`;
      write(context, sign, place + cell / 2, y + strip / 2 + 1, letters, ink);
    };
    data.rows.forEach((name, k) => {
      write(context, name, 0, top(k) + strip / 2, many ? 11 : 13, colours.ink, "left");
      for (let number = 0; number < data.count; number++)
        item(number, data.states[states[k * data.count + number]], left + number * cell, top(k));
      context.fillStyle = colours.panel;
      context.fillRect(left, top(k) + strip + 4, width - left, data.lanes.length * lane);
    });
    for (let k = 0; k < boxes.start.length; k++) {
      if (boxes.start[k] >= moment) continue;
      const [from, to] = [x(boxes.start[k]), x(Math.min(moment, boxes.end[k]))];
      const look = data.kinds[boxes.look[k]];
      const y = top(boxes.row[k]) + strip + 4 + boxes.lane[k] * lane;
      context.fillStyle = look.colour;
      context.fillRect(from, y + 0.5, Math.max(0.7, to - from - 0.5), lane - 1);
      if (to - from > 9 && boxes.item[k] >= 0)
        write(context, `${boxes.item[k]}`, (from + to) / 2, y + lane / 2 + 0.5, Math.min(10, lane - 1), inkOn(look.colour));
    }
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    data.rows.forEach((_, k) => {
      context.moveTo(x(moment), top(k) + strip + 2);
      context.lineTo(x(moment), top(k) + row - gap);
    });
    context.stroke();
    const edge = Math.min(width - 30, Math.max(left + 30, x(moment)));
    write(context, seconds(moment), edge, height - 9, 11, colours.quiet);

    for (let k = 0; k < flights.start.length; k++) {
      const [start, end] = [flights.start[k], flights.end[k]];
      if (moment <= start || moment >= end) continue;
      const share = (moment - start) / (end - start);
      const y = top(flights.row[k]) + (top(flights.peer[k]) - top(flights.row[k])) * share;
      const place = left + flights.item[k] * cell;
      context.fillStyle = colours.ground;
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.fillRect(place + 2, y + 1, cell - 4, strip - 2);
      context.strokeRect(place + 2, y + 1, cell - 4, strip - 2);
      const arrow = flights.peer[k] > flights.row[k] ? "↓" : "↑";
      const text = cell >= 30 ? `${flights.item[k]} ${arrow}` : `${flights.item[k]}`;
      write(context, text, place + cell / 2, y + strip / 2 + 1, Math.min(strip * 0.58, 13, cell * 0.6), colours.accent);
    }
  };
}
