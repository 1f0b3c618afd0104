// How a tensor lies on the mesh: a rectangle that is cut into the tiles of the positions.

const kMostBands = 16;  // tiles drawn along a side; more are drawn as if they were so many

/// The number of parts of dimension `i` of a tensor.
function partsOf(tensor, i) {
  return tensor.split[i].reduce((parts, name) => parts * meshSizes[meshNames.indexOf(name)], 1);
}

/// The part of dimension `i` that a position holds; the first mesh dimension of a split is the outermost.
function partHeld(tensor, i, coordinates) {
  return tensor.split[i].reduce((part, name) => {
    const axis = meshNames.indexOf(name);
    return part * meshSizes[axis] + coordinates[axis];
  }, 0);
}

/// The first position that holds part `parts[i]` of each dimension `dimensions[i]`.
function firstHolder(tensor, dimensions, parts) {
  const coordinates = meshSizes.map(() => 0);
  dimensions.forEach((i, k) => {
    if (i === null) return;
    let part = parts[k];
    for (const name of [...tensor.split[i]].reverse()) {
      const axis = meshNames.indexOf(name);
      coordinates[axis] = part % meshSizes[axis];
      part = Math.floor(part / meshSizes[axis]);
    }
  });
  return positionNumber(coordinates);
}

/// The two dimensions that become height and width: those that are split, then the largest.
function drawnDimensions(tensor) {
  const order = tensor.dimensions.map((_, i) => i).sort((a, b) =>
    (partsOf(tensor, b) > 1) - (partsOf(tensor, a) > 1) || tensor.shape[b] - tensor.shape[a]);
  return order.slice(0, 2).sort((a, b) => a - b);
}

/// "hidden: cols, batch: [pod, data]", "whole", "partial sum over rows"
function splitText(tensor) {
  const rules = tensor.dimensions.map((name, i) => [name, tensor.split[i]]).filter(([, over]) => over.length > 0)
    .map(([name, over]) => `${name}: ${over.length === 1 ? over[0] : `[${over.join(", ")}]`}`);
  if (tensor.partial_over.length > 0) rules.push(`partial sum over ${tensor.partial_over.join(", ")}`);
  return rules.join(", ") || "whole";
}

function shapeText(tensor) {
  return tensor.dimensions.map((name, i) => `${name}=${tensor.shape[i]}`).join(" ") || "scalar";
}

/// "4 tiles, each on 2 positions"
function tilesText(tensor) {
  const tiles = tensor.dimensions.reduce((count, _, i) => count * partsOf(tensor, i), 1);
  const partial = tensor.partial_over.reduce((count, name) => count * meshSizes[meshNames.indexOf(name)], 1);
  const copies = mesh.positions / tiles / partial;
  const holds = tiles === 1 ? "whole on every position" : `${plural(tiles, "tile")}, each on ${plural(copies * partial, "position")}`;
  return partial > 1 ? `${holds}; ${partial} terms of a sum` : holds;
}

/// Draws a tensor `width` times `height` large; a `detailed` drawing has words.
function tilingDrawing(tensor, width, height, detailed) {
  const [down, across] = tensor.dimensions.length === 0 ? [null, null]
    : tensor.dimensions.length === 1 ? [null, 0] : drawnDimensions(tensor);
  const left = detailed ? 130 : 1, top = detailed ? 30 : 1;
  const partsDown = down === null ? 1 : partsOf(tensor, down), partsAcross = across === null ? 1 : partsOf(tensor, across);
  const others = tensor.dimensions.map((_, i) => i).filter((i) => i !== down && i !== across && partsOf(tensor, i) > 1);
  const rows = Math.min(partsDown, kMostBands), columns = Math.min(partsAcross, kMostBands);
  const tileWidth = width / columns, tileHeight = height / rows;
  const area = s("g", {});
  const parts = [area];
  const tiles = [];
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const split = partsDown * partsAcross > 1;
      const tile = s("rect", { x: left + column * tileWidth, y: top + row * tileHeight, width: tileWidth, height: tileHeight,
        class: split ? "tile" : "whole" });
      // A tile has the colour of the first position that holds it.
      if (split) tile.style.fill = partColour(firstHolder(tensor, [down, across],
        [Math.floor((row * partsDown) / rows), Math.floor((column * partsAcross) / columns)]), mesh.positions);
      tiles.push([tile, row, column]);
      area.append(tile);
      if (detailed && split) withTip(tile, () => tileWords(tensor, down, across, row, column, rows, columns, partsDown, partsAcross));
    }
  }
  if (tensor.partial_over.length > 0) parts.push(s("rect", { x: left + 1.5, y: top + 1.5, width: width - 3, height: height - 3, class: "partial" }));
  if (detailed) parts.push(...tilingWords(tensor, down, across, left, top, width, height, others));
  const mark = () => {
    for (const [tile, row, column] of tiles) {
      const held = (partsDown === 1 || Math.floor((partHeld(tensor, down, chosenPosition) * rows) / partsDown) === row)
        && (partsAcross === 1 || Math.floor((partHeld(tensor, across, chosenPosition) * columns) / partsAcross) === column);
      tile.classList.toggle("held", held && partsDown * partsAcross > 1);
      if (held) area.append(tile);  // above the edges of its neighbours
    }
  };
  mark();
  const result = drawing(width + left + (detailed ? 20 : 1), height + top + (detailed ? 30 : 1),
    `Tiling of ${shapeText(tensor)}: ${splitText(tensor)}; ${tilesText(tensor)}`, parts);
  result.classList.add("tiles-of-tensor");
  result.mark = mark;
  return result;
}
choiceListeners.push(() => document.querySelectorAll(".tiles-of-tensor").forEach((tiling) => tiling.mark()));

function tilingWords(tensor, down, across, left, top, width, height, others) {
  const words = [];
  const label = (i) => `${tensor.dimensions[i]} = ${countText(tensor.shape[i])}`;
  const over = (i) => (partsOf(tensor, i) > 1 ? `${partsOf(tensor, i)} parts over ${tensor.split[i].join(", ")}` : "whole");
  if (across !== null) words.push(s("text", { x: left, y: top - 10 }, `${label(across)}: ${over(across)}`));
  if (down !== null) {
    words.push(s("text", { x: left - 8, y: top + 14, "text-anchor": "end" }, label(down)));
    words.push(s("text", { x: left - 8, y: top + 28, "text-anchor": "end", class: "faint" }, over(down)));
  }
  const note = [tilesText(tensor)];
  if (others.length > 0) note.push(`also split, not drawn: ${others.map((i) => tensor.dimensions[i]).join(", ")}`);
  words.push(s("text", { x: left, y: top + height + 18, class: "faint" }, note.join("; ")));
  return words;
}

function tileWords(tensor, down, across, row, column, rows, columns, partsDown, partsAcross) {
  const range = (i, index, drawn, parts) => {
    const part = Math.floor((index * parts) / drawn), size = tensor.shape[i] / parts;
    return `${tensor.dimensions[i]} ${part * size} to ${(part + 1) * size - 1}`;
  };
  const words = [];
  if (down !== null) words.push(range(down, row, rows, partsDown));
  if (across !== null) words.push(range(across, column, columns, partsAcross));
  const holders = positionsThatHold(tensor, down, across, Math.floor((row * partsDown) / rows), Math.floor((column * partsAcross) / columns));
  return `${words.join(", ")}\non ${holders}`;
}

/// "position 3", "positions 0, 4 and 8", "positions 0, 1, 2 and 61 more"
function positionsThatHold(tensor, down, across, row, column) {
  const found = [];
  let count = 0;
  const coordinates = meshSizes.map(() => 0);
  for (let position = 0; position < Math.min(mesh.positions, 65536); ++position) {
    for (let axis = meshSizes.length - 1, rest = position; axis >= 0; --axis) {
      coordinates[axis] = rest % meshSizes[axis];
      rest = Math.floor(rest / meshSizes[axis]);
    }
    if ((down === null || partHeld(tensor, down, coordinates) === row)
        && (across === null || partHeld(tensor, across, coordinates) === column)) {
      ++count;
      if (found.length < 6) found.push(position);
    }
  }
  if (count === 1) return `position ${found[0]}`;
  return `positions ${found.join(", ")}${count > found.length ? ` and ${countText(count - found.length)} more` : ""}`;
}

/// A small tiling; pressed, it shows the large one below its row of a table.
function tilingButton(tensor, columns) {
  const button = h("button", { type: "button", class: "tiling", "aria-expanded": "false",
    "aria-label": `tiling: ${splitText(tensor)}; ${tilesText(tensor)}`, onclick: () => {
      const row = button.closest("tr"), open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) row.nextSibling.remove();
      else row.after(h("tr", { class: "detail" }, h("td", { colspan: columns },
        tilingDrawing(tensor, 420, tensor.dimensions.length < 2 ? 46 : 170, true))));
    } }, tilingDrawing(tensor, 84, tensor.dimensions.length < 2 ? 16 : 36, false));
  return button;
}
