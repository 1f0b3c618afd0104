// The mesh: its positions as a drawing, and the position that is chosen, whose tiles other drawings mark.

const mesh = pageData.mesh;
const meshNames = mesh.dimensions.map((dimension) => dimension.name);
const meshSizes = mesh.dimensions.map((dimension) => dimension.size);

/// The coordinates of the chosen position, and who wants to know of a choice.
const chosenPosition = meshSizes.map(() => 0);
const choiceListeners = [];
function choosePosition(coordinates) {
  coordinates.forEach((coordinate, axis) => { chosenPosition[axis] = coordinate; });
  for (const listener of choiceListeners) listener();
}

/// The number of a position in row-major order.
function positionNumber(coordinates) {
  return coordinates.reduce((number, coordinate, axis) => number * meshSizes[axis] + coordinate, 0);
}

function coordinatesText(coordinates) {
  return coordinates.map((coordinate, axis) => `${meshNames[axis]} ${coordinate}`).join(", ");
}

/// The indices of `size` that are drawn where there is room for `most`: the first ones, null for the gap, the last.
function abbreviated(size, most) {
  if (size <= most) return [...Array(size).keys()];
  return [...Array(most - 2).keys(), null, size - 1];
}

/// A colour for part `index` of `count`: neighbours differ, and equal parts have equal colours on all drawings.
function partColour(index, count) {
  const hue = (215 + (360 * index) / Math.max(count, 1)) % 360;
  const step = index % 2 === 0 ? 0 : 6;
  return `light-dark(hsl(${hue.toFixed(0)} 52% ${72 - step}%), hsl(${hue.toFixed(0)} 38% ${42 + step}%))`;
}

/// Draws the last two mesh dimensions as a grid, for each coordinate of those before them.
function meshDrawing() {
  if (mesh.positions === 1) return h("p", {}, "One position: nothing is split, nothing is sent.");
  const rank = meshSizes.length;
  const rowAxis = rank > 1 ? rank - 2 : null, columnAxis = rank - 1;
  const rows = rowAxis === null ? [0] : abbreviated(meshSizes[rowAxis], 12);
  const columns = abbreviated(meshSizes[columnAxis], 16);
  const size = columns.length > 8 || rows.length > 8 ? 38 : 46;
  const outer = outerCoordinates(meshSizes.slice(0, Math.max(0, rank - 2)));
  const grids = outer.map((before) => meshGrid(before, rowAxis, columnAxis, rows, columns, size));
  const grid = h("div", { style: { display: "flex", flexWrap: "wrap", gap: "20px 28px" } }, grids);
  return h("div", {}, grid, positionChoice());
}

/// All coordinates of the outer dimensions, at most 8 panels, null for those left out.
function outerCoordinates(sizes) {
  let all = [[]];
  for (const size of sizes) all = all.flatMap((before) => abbreviated(size, 6).map((i) => (before && i !== null ? [...before, i] : null)));
  const kept = all.filter((coordinates, i) => coordinates !== null || (i > 0 && all[i - 1] !== null));
  return kept.length <= 9 ? kept : [...kept.slice(0, 7), null, kept[kept.length - 1]];
}

function meshGrid(before, rowAxis, columnAxis, rows, columns, size) {
  if (before === null) return h("p", { class: "muted", "aria-label": "more of the same" }, "⋯");
  const left = rowAxis === null ? 4 : 64, top = 34;
  const width = left + columns.length * size + 4, height = top + rows.length * size + 4;
  const title = before.map((coordinate, axis) => `${meshNames[axis]} ${coordinate}`).join(", ");
  const cells = [];
  cells.push(s("text", { x: left, y: 12, class: "faint" }, `${meshNames[columnAxis]} →`));
  if (rowAxis !== null) cells.push(s("text", { x: 0, y: top - 8, class: "faint" }, `${meshNames[rowAxis]} ↓`));
  columns.forEach((column, x) => cells.push(s("text", { x: left + (x + 0.5) * size, y: top - 6, "text-anchor": "middle", class: "faint" },
    column === null ? "⋯" : column)));
  rows.forEach((row, y) => {
    if (rowAxis !== null) cells.push(s("text", { x: left - 8, y: top + (y + 0.5) * size + 4, "text-anchor": "end", class: "faint" },
      row === null ? "⋮" : row));
    columns.forEach((column, x) => {
      if (row === null || column === null) {
        cells.push(s("text", { x: left + (x + 0.5) * size, y: top + (y + 0.5) * size + 4, "text-anchor": "middle", class: "faint" },
          row === null && column === null ? "⋱" : row === null ? "⋮" : "⋯"));
        return;
      }
      cells.push(...meshCell(rowAxis === null ? [column] : [...before, row, column], left + x * size, top + y * size, size));
    });
  });
  return h("div", {}, title ? h("h3", {}, title) : null,
    drawing(width, height, `Mesh positions${title ? ` of ${title}` : ""}`, cells));
}

function meshCell(coordinates, x, y, size) {
  const number = positionNumber(coordinates);
  const cell = s("rect", { x: x + 1, y: y + 1, width: size - 2, height: size - 2, rx: 5, class: "cell", "data-position": number,
    onclick: () => choosePosition(coordinates), style: { fill: partColour(number, mesh.positions) } });
  const mark = () => cell.classList.toggle("chosen", coordinates.every((coordinate, axis) => coordinate === chosenPosition[axis]));
  choiceListeners.push(mark);
  mark();
  const perProcess = mesh.positions / pageData.processes.count;
  withTip(cell, () => `position ${number}: ${coordinatesText(coordinates)}${pageData.processes.count > 1
    ? `\nprocess ${Math.floor(number / perProcess)}` : ""}`);
  return [cell, s("text", { x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle", "pointer-events": "none",
    "aria-hidden": "true" }, number)];
}

/// Fields that choose a position by its coordinates, for the keyboard and for meshes that are drawn in part.
function positionChoice() {
  const words = h("span", { class: "muted" });
  const fields = meshSizes.map((size, axis) => h("input", { type: "number", min: 0, max: size - 1, value: 0,
    "aria-label": `coordinate along ${meshNames[axis]}`, oninput: (event) => {
      const value = Math.min(size - 1, Math.max(0, Math.floor(Number(event.target.value) || 0)));
      choosePosition(chosenPosition.map((old, i) => (i === axis ? value : old)));
    } }));
  choiceListeners.push(() => {
    fields.forEach((field, axis) => { if (document.activeElement !== field) field.value = chosenPosition[axis]; });
    words.textContent = `is position ${positionNumber(chosenPosition)}; the tiles that it holds are outlined below`;
  });
  choosePosition([...chosenPosition]);
  return h("div", { class: "controls", style: { margin: "14px 0 0" } },
    meshNames.map((name, axis) => h("label", {}, name, fields[axis])), words);
}
