"use strict";
// The animation of a collective: ranks with slots, and messages on their way.

globalThis.SCENES = globalThis.SCENES || {};
SCENES.animation = async (root, data) => {
  const [operations, slots, memory] = await Promise.all(
    [data.operations, data.slots, data.memory].map(unpacked),
  );
  const acts = [];
  for (const act of data.acts) acts.push({ ...act, columns: await unpacked(act.columns) });
  const controls = player(root, acts, (act, moment) => show(act, moment));
  const facts = element(root, "dl", "readouts");
  const readout = (name) => {
    const pair = element(facts, "div");
    element(pair, "dt", "", name);
    return element(pair, "dd");
  };
  const [time, moved, busbw, redundant] = ["time", "bytes moved", "busbw so far", "redundant"].map(readout);
  const title = element(root, "h3", "step");
  const sentence = element(root, "p", "sentence");
  const wrong = element(root, "p", "wrong");
  const view = sharpCanvas(root, "ranks, their slots and the messages between them");
  const list = element(root, "ul", "sentences");
  const total = operations.nbytes.reduce((sum, nbytes) => sum + nbytes, 0);
  const picture = collectivePicture(data, operations, slots, view);

  function show(act, moment) {
    const place = along(act.marks, moment);
    const whole = Math.min(Math.floor(place), data.seconds.length - 2);
    const simulated = momentAt(data.seconds, whole + Math.min(1, (place - whole) / act.part));
    const sent = bytesSent(operations, act, moment);
    const step = moment > 0 ? stepAt(act, moment) : 0;
    time.textContent = `${seconds(simulated)} of ${seconds(data.makespan)}`;
    moved.textContent = `${bytes(sent)} of ${bytes(total)}`;
    const rate = simulated > 0 && total ? (data.busbw * data.makespan * sent) / total / simulated : 0;
    busbw.textContent = rate && !acts[0].wrong ? `${Number((rate / 1e9).toPrecision(4))} GB/s` : "–";
    redundant.textContent = bytes(levelAt(memory, simulated));
    title.textContent = act.titles[step];
    sentence.textContent = step ? act.steps[step] : "Each rank holds only its own data.";
    const failed = act.wrong && moment >= act.end;
    wrong.hidden = !failed;
    wrong.textContent = failed ? act.wrong.text : "";
    describe(act, step);
    picture(act, moment, failed);
  }

  function describe(act, step) {
    if (list.dataset.step === `${act.name} ${step}`) return;
    list.dataset.step = `${act.name} ${step}`;
    const chosen = [];
    for (let i = 0; step && act.sentences.length && i < operations.step.length; i++)
      if (operations.step[i] === step) chosen.push(i);
    list.replaceChildren();
    for (const i of chosen.slice(0, 8)) element(list, "li", "", act.sentences[i]);
    if (chosen.length > 8) element(list, "li", "", `and ${chosen.length - 8} more`);
  }

  whenChanged(root, () => {
    picture.reset();
    controls.redraw();
  });
  controls.start();
};

/** The step that is running at a moment. */
function stepAt(act, moment) {
  let k = 1;
  while (k < act.marks.length - 1 && act.marks[k] < moment - act.end * 1e-9) k++;
  return k;
}

/** Bytes that have been sent at a moment. */
function bytesSent(operations, { columns }, moment) {
  let sum = 0;
  for (let i = 0; i < operations.nbytes.length; i++) {
    const [start, finish] = [columns.start[i], columns.finish[i]];
    if (finish <= moment) sum += operations.nbytes[i];
    else if (start < moment) sum += (operations.nbytes[i] * (moment - start)) / (finish - start);
  }
  return sum;
}

/** The redundant memory at a moment. */
function levelAt({ time, redundant }, moment) {
  let level = 0;
  for (let k = 0; k < time.length && time[k] <= moment * (1 + 1e-9); k++) level = redundant[k];
  return level;
}

/** A function that draws an act at a moment. */
function collectivePicture(data, operations, slots, view) {
  let [context, colours, stage, scale, layer, shown] = [];
  const corner = (rank) => {
    const [x, y] = stage.ranks[rank];
    return [x - stage.card.width / 2, y - stage.card.height / 2];
  };
  const box = (slot) => {
    const { card } = stage;
    const [left, top] = corner(slots.rank[slot]);
    const [width, height] = [card.width / card.columns, (card.height - card.head) / card.rows];
    const [column, row] = [Math.floor(slots.place[slot] / card.rows), slots.place[slot] % card.rows];
    const side = card.columns === 1 ? 0.36 : 0.03;
    return [left + column * width + side, top + card.head + row * height + 0.03, width - 2 * side, height - 0.06].map(
      (length) => length * scale,
    );
  };

  function prepare() {
    const width = view.canvas.parentElement.clientWidth;
    stage = data.stages[width < 700 ? 1 : 0];
    scale = Math.min(width / stage.width, 76, stage.links.length ? 760 / stage.height : 76);
    colours = pageColours();
    context = view.fit(stage.height * scale);
    context.translate((width - stage.width * scale) / 2, 0);
    layer = document.createElement("canvas");
    layer.width = view.canvas.width;
    layer.height = view.canvas.height;
    const under = layer.getContext("2d");
    under.setTransform(context.getTransform());
    scenery(under);
    shown = new Int32Array(slots.rank.length).fill(-2);
    return under;
  }

  function scenery(under) {
    under.strokeStyle = colours.rule;
    under.lineWidth = 2;
    for (const [first, second] of stage.links) line(under, [first, second]);
    for (const [name, x, y, width] of stage.devices) {
      under.fillStyle = colours.panel;
      under.strokeStyle = colours.quiet;
      under.lineWidth = 1;
      under.beginPath();
      under.roundRect((x - width / 2) * scale, (y - 0.25) * scale, width * scale, 0.5 * scale, 0.1 * scale);
      under.fill();
      under.stroke();
      const letters = Math.min(0.26 * scale, (1.6 * width * scale) / name.length);
      write(under, name, x * scale, y * scale, letters, colours.ink);
    }
    const { card } = stage;
    data.names.forEach((name, rank) => {
      const [left, top] = corner(rank);
      under.fillStyle = colours.ground;
      under.strokeStyle = colours.rule;
      under.lineWidth = 1;
      under.beginPath();
      under.roundRect(
        (left - 0.08) * scale, top * scale, (card.width + 0.16) * scale, (card.height + 0.08) * scale, 0.1 * scale,
      );
      under.fill();
      under.stroke();
      if (rank < data.workers) {
        under.fillStyle = data.colours[rank];
        under.fillRect((left + 0.06) * scale, (top + 0.12) * scale, 0.26 * scale, 0.26 * scale);
      }
      const letters = Math.min(0.3 * scale, 16);
      write(under, name, (left + 0.42) * scale, (top + 0.26) * scale, letters, colours.ink, "left");
    });
  }

  const line = (on, points) => {
    on.beginPath();
    points.forEach(([x, y], k) => on[k ? "lineTo" : "moveTo"](x * scale, y * scale));
    on.stroke();
  };

  /** What a value holds, in a bar. */
  function fill(on, columns, value, [x, y, width, height], own) {
    on.fillStyle = colours.panel;
    on.fillRect(x, y, width, height);
    const [mask, count] = value < 0 ? [0, 0] : [columns.ranks[value], columns.count[value]];
    const parts = data.sums || count > 1 ? data.workers : 1;
    for (let rank = 0; rank < data.workers; rank++) {
      if (!((mask >>> rank) & 1)) continue;
      const left = parts === 1 ? x : x + (width * rank) / parts;
      on.fillStyle = data.colours[rank];
      on.fillRect(left, y, width / parts, height);
      const origin = columns.origin[value];
      const name = parts > 1 || origin < 0 || origin === own ? `${rank}` : `${rank}.${origin}`;
      const letters = Math.min(height * 0.75, 13, (width / parts / name.length) * 1.3);
      write(on, name, left + width / parts / 2, y + height / 2 + 0.5, letters, inkOn(data.colours[rank]));
    }
    if (parts === 1 || width / parts < 4) return;
    on.strokeStyle = colours.ground;
    on.lineWidth = 1;
    for (let rank = 1; rank < parts; rank++) {
      on.beginPath();
      on.moveTo(x + (width * rank) / parts, y);
      on.lineTo(x + (width * rank) / parts, y + height);
      on.stroke();
    }
  }

  function slot(under, columns, k, value) {
    const [x, y, width, height] = box(k);
    const room = stage.card.columns === 1;
    under.fillStyle = colours.ground;
    under.fillRect(x - (room ? 0.3 * scale : 1), y - 1.5, width + (room ? 0.6 * scale : 2), height + 3);
    fill(under, columns, value, [x, y, width, height], slots.label[k]);
    const complete = value === columns.promised[k];
    under.setLineDash(slots.scratch[k] ? [3, 3] : []);
    under.strokeStyle = complete ? colours.ink : colours.quiet;
    under.lineWidth = complete ? 2 : 0.8;
    under.strokeRect(x, y, width, height);
    under.setLineDash([]);
    if (!room) return;
    const letters = Math.min(0.26 * scale, 13, height);
    write(under, `${slots.label[k]}`, x - 0.16 * scale, y + height / 2, letters, colours.quiet);
    if (complete) write(under, "✓", x + width + 0.17 * scale, y + height / 2, letters * 1.1, colours.ink);
  }

  function message(columns, i, share) {
    const [source, target] = [operations.source[i], operations.target[i]];
    const [from, to] = [place(source, operations.rank[i]), place(target, operations.peer[i])];
    const local = operations.rank[i] === operations.peer[i];
    const points = [from, ...(local ? [] : stage.ways[operations.way[i]]), to];
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.globalAlpha = 0.55;
    line(context, points);
    arrow(points);
    context.globalAlpha = 1;
    if (target >= 0) {
      const [left, top, width, height] = box(target);
      context.lineWidth = 2.5;
      context.strokeRect(left, top, width, height);
      const sign = operations.reduces[i] ? "+" : "←";
      if (stage.card.columns === 1)
        write(context, sign, left + width + 0.17 * scale, top + height / 2, Math.min(0.34 * scale, 18), colours.accent);
    }
    const [x, y] = onWay(points, share).map((length) => length * scale);
    if (source < 0) {
      context.fillStyle = colours.accent;
      context.beginPath();
      context.arc(x, y, Math.max(3, 0.1 * scale), 0, 7);
      context.fill();
      return;
    }
    const [, , width, height] = box(source);
    const [w, h] = [width * 0.92, Math.max(height, 5)];
    for (let k = Math.min(operations.count[i], 3) - 1; k >= 0; k--) {
      const [left, top] = [x - w / 2 + 3 * k, y - h / 2 - 3 * k];
      if (k) {
        context.fillStyle = colours.panel;
        context.fillRect(left, top, w, h);
      } else fill(context, columns, columns.carried[i], [left, top, w, h], slots.label[source]);
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(left, top, w, h);
    }
  }

  const place = (k, rank) => {
    if (k < 0) return stage.ranks[rank];
    const [x, y, width, height] = box(k);
    return [(x + width / 2) / scale, (y + height / 2) / scale];
  };

  function arrow(points) {
    const [x, y] = onWay(points, 0.5);
    const [a, b] = onWay(points, 0.49);
    const angle = Math.atan2(y - b, x - a);
    const size = Math.min(9, 0.22 * scale);
    context.fillStyle = colours.accent;
    context.beginPath();
    for (const turn of [0, 2.5, -2.5])
      context.lineTo(x * scale + size * Math.cos(angle + turn), y * scale + size * Math.sin(angle + turn));
    context.fill();
  }

  const draw = (act, moment, failed) => {
    if (!view.canvas.parentElement.clientWidth) return; // The window has no size yet.
    const under = context === undefined ? prepare() : layer.getContext("2d");
    const { columns } = act;
    const values = Int32Array.from(columns.first);
    for (let k = 0; k < columns.slot.length; k++) {
      if (columns.finish[columns.operation[k]] > moment) break;
      values[columns.slot[k]] = columns.value[k];
    }
    const name = acts(act);
    for (let k = 0; k < values.length; k++) {
      if (shown[k] === values[k] && shown.act === name) continue;
      slot(under, columns, k, values[k]);
      shown[k] = values[k];
    }
    shown.act = name;
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, layer.width, layer.height);
    context.drawImage(layer, 0, 0);
    context.restore();
    if (failed) {
      const [x, y, width, height] = box(act.wrong.slot);
      context.strokeStyle = "#d1242f";
      context.lineWidth = 4;
      context.strokeRect(x - 3, y - 3, width + 6, height + 6);
      write(context, "✗", x + width + 0.17 * scale, y + height / 2, Math.max(14, 0.3 * scale), "#d1242f");
    } else
      for (let i = 0; i < columns.start.length; i++) {
        const [start, finish] = [columns.start[i], columns.finish[i]];
        if (start < moment && moment < finish && operations.peer[i] >= 0)
          message(columns, i, (moment - start) / (finish - start));
      }
  };
  const acts = (act) => act.name;
  draw.reset = () => (context = undefined);
  return draw;
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
  return points[0];
}
