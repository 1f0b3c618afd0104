"use strict";
// What all pages share: elements, words for numbers, sections, tables, tips. Texts come from users (names of
// dimensions, decoded sentences): they only ever become text nodes and attribute values, never markup.

const pageData = JSON.parse(document.getElementById("data").textContent);

// ---- Failures: a page that fails says so in itself, and `data-state` on <html> tells a test.

document.documentElement.dataset.state = "drawing";
function showFailure(message) {
  document.documentElement.dataset.state = "failed";
  document.getElementById("main").prepend(h("p", { class: "note warning" }, `This page failed: ${message}`));
}
window.addEventListener("error", (event) => showFailure(event.message));

/// Runs what draws the page.
function drawPage(draw) {
  draw();
  drawContents();
  if (document.documentElement.dataset.state === "drawing") document.documentElement.dataset.state = "ready";
}

// ---- Elements

/// Sets attributes; `onclick` and its like are listeners, `style` is an object, and null sets nothing.
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function makeElement(element, attributes, children) {
  setAttributes(element, attributes || {});
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/// Makes an HTML element.
function h(tag, attributes, ...children) {
  return makeElement(document.createElement(tag), attributes, children);
}

/// Makes an SVG element.
function s(tag, attributes, ...children) {
  return makeElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/// Makes a drawing with the words that a screen reader says for it.
function drawing(width, height, label, ...children) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...children);
}

/// Eight colours, then lighter ones.
function seriesColour(index) {
  const colour = `var(--c${index % 8})`;
  return index % 16 < 8 ? colour : `color-mix(in srgb, ${colour} 48%, var(--surface))`;
}

// ---- Words for numbers

/// 1234567 with unit prefixes of powers of 1000: "1.235 M".
function withUnits(value, units) {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  while (Math.abs(value) >= 999.95 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${digits(value)} ${units[unit]}`.trim();
}

/// Four significant digits, without zeros at the end.
function digits(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

const bytesText = (value) => withUnits(value, ["B", "KB", "MB", "GB", "TB", "PB"]);
const flopsText = (value) => withUnits(value, ["FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"]);
const countText = (value) => value.toLocaleString("en");
const shareText = (part, all) => (all > 0 ? `${digits(Number(((100 * part) / all).toPrecision(3)))} %` : "–");
const plural = (count, word) => `${countText(count)} ${word}${count === 1 ? "" : "s"}`;

function secondsText(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 1e-3) return `${digits(Number((value * 1e6).toPrecision(3)))} µs`;
  if (value < 1) return `${digits(Number((value * 1e3).toPrecision(3)))} ms`;
  if (value < 60) return `${digits(Number(value.toPrecision(3)))} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/// Words in order, with numbers in them by their value: "block_2" before "block_10".
const inOrder = new Intl.Collator("en", { numeric: true });

// ---- The frame of a page

/// Fills the head of the page; `facts` are [name, value, remark].
function drawHead(title, lead, facts) {
  const shown = () => document.documentElement.dataset.theme
    || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const button = h("button", { class: "theme", type: "button", onclick: () => {
    document.documentElement.dataset.theme = shown() === "dark" ? "light" : "dark";
    name();
  } });
  const name = () => { button.textContent = shown() === "dark" ? "Light theme" : "Dark theme"; };
  name();
  document.getElementById("top").append(h("h1", {}, title), h("p", { class: "lead" }, lead), button,
    h("dl", { class: "tiles" }, facts.map(([word, value, remark, look]) =>
      h("div", {}, h("dt", {}, word), h("dd", { class: look }, value), remark ? h("dd", {}, remark) : null))));
}

/// Adds a section; without content there is none.
function addSection(id, title, words, ...content) {
  const parts = content.flat(Infinity).filter((part) => part);
  if (parts.length === 0) return;
  document.getElementById("main").append(
    h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title),
      words ? h("p", {}, words) : null, parts));
}

function drawContents() {
  const items = [...document.querySelectorAll("main > section")].map((section) =>
    h("li", {}, h("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)));
  document.getElementById("contents").append(h("ul", {}, items));
}

function swatch(colour) {
  return h("span", { class: "swatch", style: { background: colour } });
}

/// A bar whose whole width stands for `most`.
function bar(value, most, colour) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return h("div", { class: "bar", style: { width: `${(100 * share).toFixed(2)}%`, background: colour || "var(--c0)" } });
}

// ---- Tips: words beside the pointer

function showTip(text, x, y) {
  const tip = document.getElementById("tip");
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
}
function hideTip() {
  document.getElementById("tip").hidden = true;
}

/// Shows `words()` while the pointer is on the element or the keyboard's focus in it.
function withTip(element, words) {
  element.addEventListener("pointermove", (event) => showTip(words(), event.clientX, event.clientY));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    showTip(words(), box.left, box.bottom - 12);
  });
  element.addEventListener("blur", hideTip);
  return element;
}

// ---- Tables

/// A table whose rows can be searched and sorted.
///   columns  [{title, value(row), cell(row), right, look}]: value sorts and is searched, cell is what is shown (by
///            default the value)
///   options  {rows, caption, search: words for the field, filter: {title, value(row)}, shown: rows at first}
function makeTable(columns, options) {
  const first = options.shown || 60;
  let sorted = null, descending = false, words = "", kind = "", all = false;
  const body = h("tbody", {});
  const more = h("button", { type: "button", class: "more", onclick: () => { all = true; fill(); } });
  const count = h("span", { class: "muted small" });
  const text = (row) => columns.map((column) => String(column.value(row) ?? "")).join("\n").toLowerCase();
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : inOrder.compare(a ?? "", b ?? ""));

  function fill() {
    const wanted = words.toLowerCase().split(/\s+/).filter((word) => word);
    let rows = options.rows.filter((row) => (!kind || options.filter.value(row) === kind)
      && (wanted.length === 0 || ((found) => wanted.every((word) => found.includes(word)))(text(row))));
    if (sorted) {
      const sign = descending ? -1 : 1;
      rows = [...rows].sort((a, b) => sign * compare(sorted.value(a), sorted.value(b)));
    }
    const shown = all ? rows : rows.slice(0, first);
    body.replaceChildren(...shown.map((row) => h("tr", {}, columns.map((column) =>
      h("td", { class: [column.right ? "right" : "", column.look || ""].join(" ").trim() || null },
        column.cell ? column.cell(row) : column.value(row))))));
    more.hidden = shown.length === rows.length;
    more.textContent = `Show all ${countText(rows.length)}`;
    count.textContent = rows.length === options.rows.length ? plural(rows.length, "row")
      : `${countText(rows.length)} of ${plural(options.rows.length, "row")}`;
  }

  const heads = columns.map((column) => {
    const head = h("th", { scope: "col", class: column.right ? "right" : null });
    head.append(h("button", { type: "button", onclick: () => {
      descending = sorted === column ? !descending : Boolean(column.right);
      sorted = column;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      fill();
    } }, column.title));
    return head;
  });
  const kinds = options.filter ? [...new Set(options.rows.map(options.filter.value))] : [];
  fill();
  const controls = options.search ? h("div", { class: "controls" },
    h("input", { type: "search", placeholder: options.search, "aria-label": options.search,
      oninput: (event) => { words = event.target.value; fill(); } }),
    options.filter ? h("label", {}, options.filter.title, h("select", { onchange: (event) => { kind = event.target.value; fill(); } },
      h("option", { value: "" }, "all"), kinds.map((name) => h("option", { value: name }, name)))) : null, count) : null;
  return [controls, h("div", { class: "scroll" }, h("table", {},
    options.caption ? h("caption", {}, options.caption) : null, h("thead", {}, h("tr", {}, heads)), body)),
    h("p", {}, more)];
}
