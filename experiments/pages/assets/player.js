"use strict";
// Buttons, keys and a slider that move a moment through an animation.

const SECONDS_A_STEP = 1.6;
const LEAST = 7; // Pixels of letters that people can read.

/** Where a moment is among marks: 2.5 is in the middle of step 3. */
function along(marks, moment) {
  let k = 1;
  while (k < marks.length - 1 && marks[k] <= moment) k++;
  const length = marks[k] - marks[k - 1];
  return k - 1 + (length > 0 ? Math.min(1, Math.max(0, (moment - marks[k - 1]) / length)) : 1);
}

/** The moment at a place among marks. */
function momentAt(marks, place) {
  const k = Math.min(Math.floor(place), marks.length - 2);
  return marks[k] + (marks[k + 1] - marks[k]) * (place - k);
}

/** Controls for acts, each with a name, marks and an end; `show(act, moment)` draws. */
function player(root, acts, show) {
  const bar = element(root, "div", "bar");
  const choice = (label, options, action) => {
    const made = element(element(bar, "label", "choice", label), "select");
    for (const option of options) element(made, "option", "", option);
    made.addEventListener("change", () => action(made.selectedIndex));
    return made;
  };
  const speeds = [0.25, 0.5, 1, 2, 4];
  let [act, moment, goal, speed, last] = [acts[0], 0, null, 1, 0];

  const stops = () => [...act.marks.filter((mark) => mark < act.end * (1 - 1e-9)), act.end];
  const later = () => stops().find((stop) => stop > moment + act.end * 1e-9) ?? act.end;
  const earlier = () => stops().findLast((stop) => stop < moment - act.end * 1e-9) ?? 0;
  const seconds = () => Math.min(120, Math.max(4, SECONDS_A_STEP * (act.marks.length - 1)));

  const move = (to) => {
    moment = Math.min(act.end, Math.max(0, to));
    slider.value = String(act.end ? (moment / act.end) * 1000 : 0);
    play.textContent = goal === null ? "Play" : "Pause";
    root.dataset.playing = String(goal !== null);
    show(act, moment);
  };
  const frame = (now) => {
    if (goal === null) return;
    const next = moment + (((now - last) / 1000) * speed * act.end) / seconds();
    last = now;
    const [reached, stop] = [next >= goal, goal];
    if (reached) goal = null;
    move(reached ? stop : next);
    requestAnimationFrame(frame);
  };
  const run = (to) => {
    const starts = goal === null;
    goal = to;
    last = performance.now();
    move(moment);
    if (starts) requestAnimationFrame(frame);
  };
  const halt = (to) => {
    goal = null;
    move(to);
  };
  const toggle = () => {
    if (goal !== null) return halt(moment);
    if (moment >= act.end) moment = 0;
    run(act.end);
  };
  const step = () => {
    if (goal === act.end) return halt(later());
    if (goal !== null) moment = goal; // quick presses all count
    if (moment < act.end) run(later());
  };

  button(bar, "Start", "Start: Home", () => halt(0));
  button(bar, "Back", "Back: left arrow", () => halt(earlier()));
  const play = button(bar, "Play", "Play or pause: space", toggle);
  button(bar, "Step", "Step: right arrow", step);
  button(bar, "End", "End: End", () => halt(act.end));
  const names = speeds.map((each) => `${each}×`);
  choice("speed ", names, (k) => (speed = speeds[k])).selectedIndex = 2;
  if (acts.length > 1)
    choice("clock ", acts.map((each) => each.name), (k) => {
      const place = along(act.marks, moment);
      act = acts[k];
      goal = null;
      marked();
      move(momentAt(act.marks, Math.min(place, act.marks.length - 1)));
    });

  const slider = element(root, "input", "slider");
  slider.type = "range";
  Object.assign(slider, { min: "0", max: "1000", step: "1", value: "0" });
  slider.setAttribute("aria-label", "moment of the animation");
  slider.addEventListener("input", () => halt((Number(slider.value) / 1000) * act.end));
  const ticks = element(root, "div", "ticks");
  const marked = () => {
    ticks.replaceChildren();
    if (act.marks.length > 130) return;
    for (const mark of act.marks)
      if (mark <= act.end) element(ticks, "span").style.left = `${(mark / (act.end || 1)) * 100}%`;
  };
  marked();

  const keys = {
    " ": toggle,
    ArrowRight: step,
    ArrowLeft: () => halt(earlier()),
    Home: () => halt(0),
    End: () => halt(act.end),
  };
  document.addEventListener("keydown", (event) => {
    const tag = event.target.tagName;
    if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    if (tag === "SELECT" || tag === "TEXTAREA" || event.target.type === "search") return;
    if (tag === "BUTTON" && event.key === " ") return;
    event.preventDefault();
    keys[event.key]();
  });
  return { start: () => move(0) };
}

/** Black or white: what is easier to read on a colour. */
const inkOn = (colour) => (isDark(colour) ? "#ffffff" : "#000000");

/** Text in the middle of a place, if its letters are large enough to read. */
function write(context, text, x, y, size, colour, align = "center") {
  if (size < LEAST) return;
  context.font = `${size}px system-ui, "Noto Sans", sans-serif`;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillStyle = colour;
  context.fillText(text, x, y);
}
