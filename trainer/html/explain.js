// The page of explain.format=html: what a training step holds, computes and sends.

const step = pageData.step;
const memory = pageData.memory;

function meshWords() {
  if (mesh.positions === 1) return "one position";
  const sizes = mesh.dimensions.map((dimension) => `${dimension.name} ${dimension.size}`).join(" × ");
  return `a mesh ${sizes} of ${countText(mesh.positions)} positions`;
}

function layoutWords() {
  const words = [["layout", "splits"], ["parameter_layout", "variables at rest also"], ["optimizer_layout", "optimizer slots also"]]
    .filter(([key]) => pageData.layout[key].length > 0)
    .map(([key, verb]) => `${verb} ${pageData.layout[key].map((rule) => `${rule.dimension} over ${rule.mesh_dimensions.join(", ")}`).join("; ")}`);
  if (mesh.positions === 1 || words.length === 0) return "";
  return ` The layout ${words.join(". It splits ")}.`;
}

function lead() {
  const parts = pageData.microbatches > 1 ? ` in ${countText(pageData.microbatches)} microbatches` : "";
  const processes = pageData.processes.count > 1
    ? `, in ${countText(pageData.processes.count)} processes of ${plural(pageData.processes.positions, "position")}` : "";
  return `A training step of ${plural(pageData.batch_size, "example")}${parts} on ${meshWords()}${processes}.${layoutWords()}`;
}

/// The limit of the memory of tensors: of the GPU, if there is one; null: not known.
const tensorLimit = memory.device ? memory.device_limit : memory.limit;

function verdict(fits) {
  return [fits ? "fits" : "does not fit", fits ? "verdict-good" : "verdict-bad"];
}

function drawTop() {
  const [word, look] = verdict(memory.position.fits);
  drawHead(pageData.model.name, lead(), [
    ["model", pageData.model.type || "–", `${countText(pageData.model.parameters)} weights`],
    ["work of a position", flopsText(step.flops), pageData.repeated_flops > 0
      ? `${shareText(pageData.repeated_flops, step.flops)} of it is done elsewhere too` : "no contraction is done twice"],
    ["sent by a position", bytesText(step.bytes_sent), plural(step.collectives, "collective")],
    ["memory of a position", bytesText(memory.position.bytes), tensorLimit ? `${word} into ${bytesText(tensorLimit.bytes)}` : "of a GPU that is not here", look],
  ]);
}

// ---- Tensors

function tensorRows() {
  const variables = pageData.variables.map((tensor) => ({ ...tensor, what: tensor.name, sort: tensor.kind, times: 1 }));
  const temporaries = (pageData.tensors || []).filter((tensor) => tensor.dimensions.length > 0)
    .map((tensor) => ({ ...tensor, what: `${tensor.layer || "-"}: ${tensor.operation}`, sort: tensor.phase }));
  return [...variables, ...temporaries];
}

function tensorTable() {
  const columns = [
    { title: "tensor", value: (t) => t.what, cell: (t) => h("span", { class: "code" }, t.what) },
    { title: "kind", value: (t) => t.sort, look: "nowrap" },
    { title: "shape", value: shapeText, cell: (t) => h("span", { class: "code" }, shapeText(t)) },
    { title: "split", value: splitText },
  ];
  if (mesh.positions > 1) {
    columns.push({ title: "one position's slice", value: (t) => t.local_shape.join(" × ") || "scalar", look: "nowrap" });
    columns.push({ title: "tiles", value: tilesText, cell: (t) => tilingButton(t, columns.length) });
  }
  columns.push({ title: "type", value: (t) => t.dtype, look: "nowrap" });
  columns.push({ title: "bytes", right: true, value: (t) => t.bytes, cell: (t) => (t.in_place ? `(${bytesText(t.bytes)})` : bytesText(t.bytes)) });
  const rows = tensorRows();
  if (rows.some((t) => t.count > 1)) columns.push({ title: "alike", right: true, value: (t) => t.count, cell: (t) => (t.count > 1 ? `× ${countText(t.count)}` : "") });
  return makeTable(columns, { rows, search: "find by name, shape, layout", filter: { title: "kind", value: (t) => t.sort }, shown: 40 });
}

// ---- Memory

/// Colours stay with the names of parts.
function partColours() {
  const names = [...new Set([memory.position, memory.device, memory.process].filter((whole) => whole).flatMap((whole) => Object.keys(whole.parts)))];
  return new Map(names.map((name, i) => [name, seriesColour(i)]));
}

function memoryDrawing() {
  const colours = partColours();
  const process = mesh.positions === 1 ? "this process" : `this process with its ${plural(pageData.processes.positions, "position")}`;
  const bars = [["a position alone on its device", memory.position, tensorLimit],
    ...(memory.device ? [["the GPU of this process", memory.device, tensorLimit]] : []), [process, memory.process, memory.limit]];
  // Each bar has a scale of its own, which reaches to the limit where that is near.
  const near = (whole, limit) => limit && limit.bytes <= 4 * whole.bytes;
  const left = 250, parts = [];
  bars.forEach(([name, whole, limit], i) => {
    const y = 8 + i * 46;
    parts.push(s("text", { x: left - 12, y: y + 15, "text-anchor": "end" }, name));
    parts.push(s("text", { x: left - 12, y: y + 29, "text-anchor": "end", class: "faint" }, `${bytesText(whole.bytes)}, ${limit ? verdict(whole.fits)[0] : "limit not known"}`));
    const scale = 760 / (near(whole, limit) ? Math.max(whole.bytes, limit.bytes) : whole.bytes || 1);
    let x = left;
    for (const [part, bytes] of Object.entries(whole.parts)) {
      const rect = s("rect", { x, y, width: Math.max(0, bytes * scale - 0.6), height: 32, style: { fill: colours.get(part) } });
      parts.push(withTip(rect, () => `${part}: ${bytesText(bytes)}, ${shareText(bytes, whole.bytes)}`));
      x += bytes * scale;
    }
    if (near(whole, limit)) {
      const end = left + limit.bytes * scale;
      parts.push(s("line", { x1: end, x2: end, y1: y - 4, y2: y + 36, class: "limit" }));
    }
  });
  const rows = [...colours.keys()].map((part) => ({ part, of: bars.map(([, whole]) => whole.parts[part]) }));
  const limits = [...new Set([tensorLimit, memory.limit])].filter((limit) => limit);
  const cell = (bytes) => (bytes === undefined ? "–" : bytesText(bytes));
  return [h("div", { class: "scroll" }, drawing(left + 770, 4 + 46 * bars.length, "Memory by what it holds", parts)),
    h("p", { class: "small muted" }, limits.map((limit) => `Limit: ${bytesText(limit.bytes)}, ${limit.source}`).join(". ")
      + (tensorLimit ? `; a position alone takes ${shareText(memory.position.bytes, tensorLimit.bytes)} of ${memory.device ? "the first" : "it"}` : "")
      + `. Each bar has its own scale${bars.some(([, whole, limit]) => near(whole, limit)) ? "; a dashed line is the limit" : ""}.`),
    makeTable([
      { title: "part", value: (row) => row.part, cell: (row) => [swatch(colours.get(row.part)), " ", row.part] },
      ...bars.map(([name], i) => ({ title: name, right: true, value: (row) => row.of[i] ?? -1, cell: (row) => cell(row.of[i]) })),
    ], { rows })];
}

// ---- Collectives

/// The kinds of collectives, those that send the most first.
function collectiveKinds() {
  return pageData.collective_kinds.map((kind) => ({ ...kind, over: kind.over.join(", ") })).sort((a, b) => b.bytes - a.bytes);
}

function collectiveTables() {
  const groups = collectiveKinds();
  if (groups.length === 0) return [];
  const most = groups[0].bytes;
  const messages = makeTable([
    { title: "kind", value: (g) => g.kind, cell: (g) => [swatch(kCollectiveColours[g.kind]), " ", h("span", { class: "code" }, g.kind)] },
    { title: "over", value: (g) => g.over },
    { title: "in a step", right: true, value: (g) => g.count, cell: (g) => countText(g.count) },
    { title: "sent", right: true, value: (g) => g.bytes, cell: (g) => bytesText(g.bytes) },
    { title: "", look: "barcell", value: () => "", cell: (g) => withTip(bar(g.bytes, most, kCollectiveColours[g.kind]),
      () => Object.entries(g.phases).map(([phase, bytes]) => `${phase}: ${bytesText(bytes)}`).join("\n")) },
  ], { rows: groups });
  const tensors = makeTable([
    { title: "collective", value: (c) => c.kind, cell: (c) => h("span", { class: "code" }, c.kind) },
    { title: "over", value: (c) => c.mesh_dimensions.join(", ") },
    { title: "of", value: (c) => `${c.operation} (${c.phase})` },
    { title: "layer", value: (c) => c.layer || "-", cell: (c) => h("span", { class: "code" }, c.layer || "-") },
    { title: "variable", value: (c) => c.variable || "", cell: (c) => h("span", { class: "code" }, c.variable || "") },
    { title: "sent", right: true, value: (c) => c.bytes_sent * c.times * c.count,
      cell: (c) => `${bytesText(c.bytes_sent)}${c.times * c.count > 1 ? ` × ${countText(c.times * c.count)}` : ""}` },
  ], { rows: pageData.collectives, search: "find by layer, variable, kind", shown: 20 });
  return [messages, h("h3", { style: { marginTop: "14px" } }, "Each tensor that is sent"), tensors];
}

// ---- Work

function workTable() {
  const total = (layer) => layer.flops.forward + layer.flops.backward + layer.flops.update;
  const rows = pageData.layers.filter((layer) => total(layer) > 0 || layer.parameters > 0 || layer.bytes_sent > 0);
  const most = Math.max(...rows.map(total), 0);
  const stack = (layer) => h("div", { class: "stack", style: { width: `${most > 0 ? (100 * total(layer)) / most : 0}%` } },
    ["forward", "backward", "update"].map((phase) => h("div", { style: { background: kPhaseColours[phase], flexGrow: layer.flops[phase] / (total(layer) || 1) } })));
  return [makeTable([
    { title: "layer", value: (l) => l.layer || "-", cell: (l) => h("span", { class: "code" }, (l.layer || "-") + (l.count > 1 ? `  × ${l.count}` : "")) },
    { title: "weights", right: true, value: (l) => l.parameters, cell: (l) => (l.parameters ? countText(l.parameters) : "") },
    { title: "forward", right: true, value: (l) => l.flops.forward, cell: (l) => (l.flops.forward ? flopsText(l.flops.forward) : "") },
    { title: "backward", right: true, value: (l) => l.flops.backward, cell: (l) => (l.flops.backward ? flopsText(l.flops.backward) : "") },
    { title: "", look: "barcell", value: () => "", cell: (l) => withTip(stack(l), () => ["forward", "backward", "update"]
      .map((phase) => `${phase}: ${flopsText(l.flops[phase])}`).join("\n")) },
    { title: "sent", right: true, value: (l) => l.bytes_sent, cell: (l) => (l.bytes_sent ? bytesText(l.bytes_sent) : "") },
  ], { rows, shown: 30 }), h("ul", { class: "legend" }, Object.entries(kPhaseColours).map(([phase, colour]) => h("li", {}, swatch(colour), phase)))];
}

function repeatedWork() {
  const repeated = pageData.contractions.filter((c) => c.repeated_over.length > 0);
  if (repeated.length === 0) return [];
  const parts = makeTable([
    { title: "contraction", value: (c) => `${c.operation} (${c.phase})` },
    { title: "layer", value: (c) => c.layer || "-", cell: (c) => h("span", { class: "code" }, c.layer || "-") },
    { title: "all do the same over", value: (c) => c.repeated_over.join(", ") },
    { title: "FLOPs", right: true, value: (c) => c.flops * c.count, cell: (c) => flopsText(c.flops * c.count) },
  ], { rows: repeated, shown: 10 });
  if (pageData.splits.length === 0) return parts;
  return [parts, h("h3", {}, "Rules that would share it out, each tried alone"), makeTable([
    { title: "rule", value: (t) => t.rule, cell: (t) => h("span", { class: "code" }, t.rule) },
    { title: "FLOPs", right: true, value: (t) => t.flops, cell: (t) => flopsText(t.flops) },
    { title: "sent", right: true, value: (t) => t.bytes_sent, cell: (t) => bytesText(t.bytes_sent) },
  ], { rows: [{ rule: "now", flops: step.flops, bytes_sent: step.bytes_sent },
    ...pageData.splits.map((t) => ({ ...t, rule: `layout.${t.dimension}=${t.mesh_dimensions.length === 1 ? t.mesh_dimensions[0] : `[${t.mesh_dimensions.join(", ")}]`}` }))] })];
}

/// The simulated run, if there is one, as configured and with other intervals between checkpoints.
function longRun() {
  const run = pageData.simulation;
  if (!run) return [];
  const share = (trial, part) => shareText(part, trial.seconds.mean);
  const trials = run.around.length > 0 ? run.around : [run];
  const note = (trial) => [run.best && trial.interval === run.best.interval ? "best" : "",
    trial.interval === run.interval ? "checkpoint.every" : "", trial.complete ? "" : "given up"].filter((word) => word).join(", ");
  return makeTable([
    { title: "steps between checkpoints", right: true, value: (t) => t.interval, cell: (t) => countText(t.interval) },
    { title: "time", right: true, value: (t) => t.interval, cell: (t) => secondsText(t.interval * run.step.seconds) },
    { title: "goodput", right: true, value: (t) => t.goodput.mean, cell: (t) => shareText(t.goodput.mean, 1) },
    { title: "5 to 95 %", right: true, value: (t) => t.goodput.low, cell: (t) => `${shareText(t.goodput.low, 1)} to ${shareText(t.goodput.high, 1)}` },
    { title: "lost", right: true, value: (t) => t.lost, cell: (t) => share(t, t.lost) },
    { title: "saving", right: true, value: (t) => t.saving, cell: (t) => share(t, t.saving) },
    { title: "restarts", right: true, value: (t) => t.restarting, cell: (t) => share(t, t.restarting) },
    { title: "wall time", right: true, value: (t) => t.seconds.mean, cell: (t) => secondsText(t.seconds.mean) },
    { title: "", value: note },
  ], { rows: trials });
}

drawPage(() => {
  drawTop();
  const remarks = [...pageData.warnings.map((text) => h("p", { class: "note warning" }, text)),
    ...pageData.notes.map((text) => h("p", { class: "note" }, text))];
  addSection("remarks", "Remarks", "", remarks);
  addSection("mesh", "Mesh", "Each square is a position. Choose one to see its tiles.", meshDrawing());
  addSection("memory", "Memory", "What one position holds if it is alone on its device, and what this process holds.", memoryDrawing());
  addSection("time", "Time line", "A prediction, not a measurement, of a step in one process: operations and collectives take what the cost model says of "
    + "the hardware that key hardware names. Enter how many times as fast it is to be.", timeLine());
  addSection("run", "Long run", "What section simulate makes of the run: goodput is the share of the wall time that is spent on steps that last.", longRun());
  addSection("work", "Work by layer", "FLOPs of contractions on one position.", workTable());
  addSection("collectives", "Collectives of a step", "Bytes are those that one position sends.", collectiveTables());
  addSection("repeated", "Repeated work", "Several positions compute the same here.", repeatedWork());
  addSection("tensors", "Tensors", pageData.mesh.positions > 1
    ? "Press a tiling to enlarge it. A tile has the colour of the first position that holds it. Grey: every position holds all. A dashed edge: terms of a sum that is still to be reduced. "
      + "Bytes are those of one position's slice; (bytes) lie in the memory of an operand."
    : "Bytes in brackets lie in the memory of an operand.", tensorTable());
  document.getElementById("bottom").append("Made by mtf-train, run.mode=explain explain.format=html. Nothing was run.");
});
