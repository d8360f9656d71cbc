"use strict";
// Starts the drawings of a page, and makes its raw data downloads.

/** The columns that `pack` made: a typed array for each name. */
async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.bytes), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const columns = {};
  let offset = 0;
  for (const { name, type, length } of packed.columns) {
    const array = new globalThis[type](buffer, offset, length);
    columns[name] = array;
    offset += Math.ceil(array.byteLength / 8) * 8;
  }
  return columns;
}

/** An element with a class, text and parent. */
function element(parent, tag, name = "", text = "") {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  parent.append(made);
  return made;
}

/** The colours of the page. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "panel", "ink", "quiet", "rule", "accent"];
  const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return { ...colours, dark: matchMedia("(prefers-color-scheme: dark)").matches };
}

/** Whether white letters are easier to read on a colour like #0072b2. */
function isDark(colour) {
  const [red, green, blue] = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

/** Seconds in words: 12.3 µs. */
function seconds(time) {
  const size = Math.abs(time);
  if (size === 0) return "0 s";
  for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]])
    if (size >= unit * 0.9995 || name === "ns") return `${Number((time / unit).toPrecision(4))} ${name}`;
}

/** Bytes in words: 1.5 MiB. */
function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let k = 0;
  for (; Math.abs(count) >= 1024 && k < names.length - 1; k++) count /= 1024;
  return `${Number(count.toPrecision(4))} ${names[k]}`;
}

for (const link of document.querySelectorAll("a.download")) {
  const text = link.nextElementSibling.textContent;
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
}

// A scene is a function of its element and its data: globalThis.SCENES.NAME, set by NAME.js.
for (const root of document.querySelectorAll("[data-scene]")) {
  const data = JSON.parse(root.nextElementSibling.textContent);
  globalThis.SCENES[root.dataset.scene](root, data);
}
