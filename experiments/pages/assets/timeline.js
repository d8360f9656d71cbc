"use strict";
// The interactive timeline: bar, keyboard, mouse and touch.

(globalThis.SCENES ??= {}).timeline = async (root, data) => {
  const [columns, path] = [await unpacked(data.columns), await unpacked(data.path)];
  const model = new SpanModel(data, columns, path);
  const bar = element(root, "div", "bar");
  const hint = element(root, "p", "note", HINT);
  const stage = element(root, "div", "stage");
  let view = null;
  const area = surface(stage, "timeline", () => { view.draw(); tell(); });
  view = new TimelineView(model, area);
  (globalThis.timelines ??= []).push(view);
  const words = tip(stage);
  hint.id = `hint-${Math.random().toString(36).slice(2)}`;
  area.canvas.setAttribute("aria-describedby", hint.id);
  const range = controls(bar, view, words);
  const tell = () => {
    const [begin, finish] = [view.begin, view.finish].map((time) => Math.min(time, data.makespan));
    range.textContent = `${seconds(begin)} to ${seconds(finish)} of ${seconds(data.makespan)}`;
  };
  mouse(view, words);
  keyboard(view, words);
  legend(root, model);
  remarks(root, data);
};

const HINT = "Drag to move, Ctrl + wheel or pinch to zoom; click a node to open it. Keys: + − zoom, arrows move, n p next and previous span, 0 shows all, Esc closes.";

/** The buttons and the search; returns the place of the words about the window. */
function controls(bar, view, words) {
  const { model } = view;
  button(bar, "+", "zoom in", () => view.zoom(0.5));
  button(bar, "−", "zoom out", () => view.zoom(2));
  button(bar, "all", "show all", () => { view.show(0, model.data.axis); });
  const critical = button(bar, "critical path", "draw the critical path", () => {
    view.showsPath = !view.showsPath;
    critical.setAttribute("aria-pressed", String(view.showsPath));
    view.area.redraw();
  });
  critical.setAttribute("aria-pressed", "false");
  if (model.groups.some((group) => group.named)) {
    const nodes = button(bar, "open all", "open or close all nodes", () => {
      const close = model.open.size > 0;
      model.open = new Set(close ? [] : model.groups);
      nodes.textContent = close ? "open all" : "close all";
      view.arrange();
    });
    if (model.open.size) nodes.textContent = "close all";
  }
  searching(bar, view, words);
  const csv = button(bar, "csv", "download the spans as a table", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([model.csv()], { type: "text/csv" }));
    link.download = "spans.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  csv.classList.add("quiet");
  return element(bar, "span", "count");
}

/** A field that highlights spans and jumps from one to the next. */
function searching(bar, view, words) {
  const field = element(bar, "input");
  field.type = "search";
  field.placeholder = "search spans";
  field.setAttribute("aria-label", "search spans");
  const count = element(bar, "span", "count");
  let place = -1;
  const jump = (by) => {
    const found = view.matches?.items;
    if (!found?.length) return;
    place = (place + by + found.length) % found.length;
    count.textContent = `${place + 1} of ${found.length}`;
    choose(view, words, found[place]);
  };
  const find = () => {
    const found = view.model.search(field.value);
    view.matches = found && { items: found, tracks: view.model.tracksOf(Int32Array.from(found)) };
    place = -1;
    count.textContent = found ? `${found.length} found` : "";
    previous.hidden = next.hidden = !found?.length;
    view.area.redraw();
  };
  field.addEventListener("input", find);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); jump(event.shiftKey ? -1 : 1); }
  });
  const previous = button(bar, "‹", "previous match", () => jump(-1));
  const next = button(bar, "›", "next match", () => jump(1));
  previous.hidden = next.hidden = true;
}

/** Brings a span into the window and tells about it. */
function choose(view, words, i) {
  view.reveal(i);
  words.show(view.model.words(i), ...view.middle(i));
}

/** Moves, zooms and asks with the mouse, a pen or fingers. */
function mouse(view, words) {
  const { canvas } = view.area, pointers = new Map();
  let moved = 0;
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const ask = (event) => {
    const hit = view.at(...point(event));
    canvas.style.cursor = hit.group ? "pointer" : hit.span >= 0 ? "default" : "grab";
    if (hit.span === undefined) words.hide();
    else words.show(view.model.words(hit.span), ...point(event));
    const chosen = hit.span ?? -1;
    if (chosen !== view.chosen) { view.chosen = chosen; view.area.redraw(); }
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, point(event));
    if (pointers.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId), now = point(event);
    if (!before) { ask(event); return; }
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (others.length) pinch(view, before, now, others[0]);
    else if (moved > 3) drag(view, before, now);
    if (moved > 3) words.hide();
    pointers.set(event.pointerId, now);
  });
  const lift = (event) => {
    if (!pointers.delete(event.pointerId) || moved > 3 || event.type !== "pointerup") return;
    const { group } = view.at(...point(event));
    if (group) toggle(view, group);
    else ask(event);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "mouse" || pointers.size) return;
    words.hide();
    view.chosen = -1;
    view.area.redraw();
  });
  canvas.addEventListener("dblclick", (event) => view.zoom(0.4, view.time(point(event)[0])));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
    event.preventDefault();
    words.hide();
    const by = event.deltaY || event.deltaX;
    if (event.shiftKey) view.show(view.begin + (by / view.width) * view.seconds, view.finish + (by / view.width) * view.seconds);
    else view.zoom(Math.exp(Math.max(-60, Math.min(60, by)) * 0.008), view.time(point(event)[0]));
  }, { passive: false });
}

function toggle(view, group) {
  const { open } = view.model;
  if (!open.delete(group)) open.add(group);
  view.arrange();
}

function drag(view, before, now) {
  const time = ((before[0] - now[0]) / view.width) * view.seconds;
  view.show(view.begin + time, view.finish + time);
  view.scroll(before[1] - now[1]);
}

/** Two fingers: what was under each stays under it. */
function pinch(view, before, now, other) {
  const [far, near] = [Math.abs(before[0] - other[0]), Math.abs(now[0] - other[0])];
  view.zoom(Math.max(0.5, Math.min(2, (far + 8) / (near + 8))), view.time((now[0] + other[0]) / 2));
}

function keyboard(view, words) {
  const part = (share) => view.show(view.begin + share * view.seconds, view.finish + share * view.seconds);
  const keys = {
    "+": () => view.zoom(0.5, centre(view)),
    "=": () => view.zoom(0.5, centre(view)),
    "-": () => view.zoom(2, centre(view)),
    0: () => view.show(0, view.model.data.axis),
    ArrowLeft: () => part(-0.15),
    ArrowRight: () => part(0.15),
    ArrowUp: () => view.scroll(-60),
    ArrowDown: () => view.scroll(60),
    n: () => step(view, words, 1),
    p: () => step(view, words, -1),
    Escape: () => { view.chosen = -1; words.hide(); view.area.redraw(); },
  };
  view.area.canvas.addEventListener("keydown", (event) => {
    const press = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!press) return;
    event.preventDefault();
    if (!"np".includes(event.key)) words.hide();
    press();
  });
}

/** The middle of the chosen span, or of the window. */
function centre(view) {
  const i = view.chosen;
  return i < 0 ? (view.begin + view.finish) / 2 : (view.model.start[i] + view.model.end[i]) / 2;
}

/** Chooses the next span in order of rank, lane and time; the first time, the first in the window. */
function step(view, words, by) {
  const { model } = view, { order } = model;
  const first = view.chosen >= 0 ? order.indexOf(view.chosen) + by : order.findIndex((i) => model.end[i] > view.begin);
  if (order.length) choose(view, words, order[(first + order.length) % order.length]);
}

/** The colours and stripes, with their words. */
function legend(root, model) {
  const { data } = model, list = element(root, "ul", "key");
  const entry = (text, colour, stripes = -1, ground = "") => keyEntry(list, text, (pen) => {
    pen.fillStyle = ground || colour;
    pen.fillRect(0, 0, 22, 14);
    if (stripes >= 0) {
      pen.fillStyle = hatch(pen, colour, "", stripes);
      pen.fillRect(0, 0, 22, 14);
    }
  });
  for (const kind of data.kinds) if (kind !== "idle") entry(kind, data.colours[kind]);
  for (const cause of data.causes) entry(`idle: ${cause}`, data.cause_colours[cause], data.cause_stripes[cause], `${data.cause_colours[cause]}40`);
  const talks = data.kinds.find((kind, k) => model.kind.some((each, i) => each === k && model.communicates(i)));
  if (talks) entry("striped: communication hidden behind computing", "#ffffffd0", 0, `${data.colours[talks]}90`);
}
