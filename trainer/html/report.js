// The page of run.mode=report: what runs did, beside each other.

const runs = pageData.runs;

/// A run keeps its colour everywhere; from the ninth run on the curves are dashed.
const runColour = (i) => `var(--c${i % 8})`;
const runDashes = (i) => (i < 8 ? null : i < 16 ? "6 3" : "2 3");
const shownRuns = runs.map(() => true);

function runMark(i) {
  return [swatch(runColour(i)), " ", runs[i].name];
}

// ---- The head

function drawTop() {
  const one = runs.length === 1 ? runs[0] : null;
  const title = one ? one.name : `${countText(runs.length)} runs`;
  const facts = [];
  if (one) {
    facts.push(["steps", one.step === null ? "–" : countText(one.step), one.epoch === null ? "" : `${digits(one.epoch)} epochs`]);
    facts.push(["training", secondsText(one.training_seconds ?? NaN), one.evaluation_seconds > 0 ? `and ${secondsText(one.evaluation_seconds)} of evaluation` : ""]);
    const loss = lastValue(one.curves.metrics.loss);
    if (loss !== null) facts.push(["loss of training", digits(loss), "at the last logged step"]);
    for (const set of one.evaluations.slice(0, 2)) {
      const name = leadingMetric(set);
      if (name) facts.push([`${set.dataset} ${name}`, digits(set.last[name]), set.best[name] ? `best ${digits(set.best[name][0])} at step ${countText(set.best[name][1])}` : ""]);
    }
  }
  drawHead(title, one ? one.path : runs.map((run) => run.name).join(", "), facts);
}

function lastValue(curve) {
  const values = curve ? curve.mean.filter((value) => value !== null) : [];
  return values.length > 0 ? values[values.length - 1] : null;
}

/// The metric of a data set that says most: not the loss, if there is another.
function leadingMetric(set) {
  const names = evaluationMetrics(set).filter((name) => set.last[name] !== null);
  return names.find((name) => name !== "loss") || names[0];
}

function evaluationMetrics(set) {
  return Object.keys(set.last).filter((name) => name !== "seconds");
}

// ---- Curves

const view = { axis: "step", log: false, smoothing: 0 };
const kRunAxes = {
  step: { label: "step", text: countText },
  time: { label: "time", text: (seconds) => secondsText(Math.max(0, seconds)) },
  epoch: { label: "epoch", text: digits },
};

/// The curves to draw: by title, the runs' series. Losses come first, speeds and memory last.
function chartList() {
  const charts = new Map();
  const add = (title, run, curves, metric, points) => {
    if (!charts.has(title)) charts.set(title, []);
    charts.get(title).push({ run, curves, values: curves.metrics[metric], points });
  };
  runs.forEach((run, i) => {
    for (const metric of Object.keys(run.curves.metrics)) add(metric, i, run.curves, metric, false);
    for (const set of run.evaluations)
      for (const metric of evaluationMetrics(set)) add(`${set.dataset} ${metric}`, i, set.curves, metric, true);
  });
  const rank = (title) => {
    if (title === "loss") return 0;
    if (charts.get(title)[0].points) return 1;
    if (/_per_second$|_ms$|_bytes$|^mfu$/.test(title)) return 3;
    return 2;
  };
  return [...charts.entries()].sort(([a], [b]) => rank(a) - rank(b));
}

/// Places of evaluations along an axis: they know their step, and training knows the time of a step.
function axisValues(entry) {
  if (entry.curves[view.axis]) return entry.curves[view.axis];
  if (view.axis === "step" || !entry.curves.step) return entry.curves.step;
  const training = runs[entry.run].curves;
  if (!training.step || !training[view.axis] || training.step.length === 0) return null;
  return entry.curves.step.map((step) => interpolated(training.step, training[view.axis], step));
}

function interpolated(xs, ys, x) {
  let i = nearestIndex(xs, x);
  if (xs[i] > x && i > 0) --i;
  const next = Math.min(i + 1, xs.length - 1);
  if (next === i || xs[next] === xs[i]) return ys[i];
  return ys[i] + ((ys[next] - ys[i]) * (x - xs[i])) / (xs[next] - xs[i]);
}

function chartCard(title, entries) {
  const text = /_bytes$/.test(title) ? bytesText : /per_second$/.test(title) ? (value) => withUnits(value, ["", "k", "M", "G", "T", "P"])
    : digits;
  const wide = title === "loss";
  const card = h("div", { class: wide ? "chart wide" : "chart", "data-metric": title }, h("h3", {}, title));
  const body = h("div", {});
  card.append(body);
  card.draw = () => {
    const series = entries.filter((entry) => shownRuns[entry.run]).map((entry) => ({
      name: runs[entry.run].name, colour: runColour(entry.run), dashes: runDashes(entry.run), x: axisValues(entry),
      mean: entry.values.mean, low: entry.values.low, high: entry.values.high, points: entry.points,
    })).filter((one) => one.x && one.x.length > 0);
    const axis = kRunAxes[view.axis];
    body.replaceChildren(series.length === 0 ? h("p", { class: "muted" }, "no run is switched on") : curveChart(series, {
      label: `${title} over ${axis.label}`, width: wide && innerWidth > 760 ? 724 : 340, log: view.log, smoothing: view.smoothing, xText: axis.text, yText: text, xLabel: axis.label }));
  };
  card.draw();
  return card;
}

function curves() {
  const cards = chartList().map(([title, entries]) => chartCard(title, entries));
  if (cards.length === 0) return [];
  const redraw = () => cards.forEach((card) => card.draw());
  const smoothing = h("span", {}, "none");
  const controls = h("div", { class: "controls" },
    h("label", {}, "over", h("select", { "aria-label": "axis", onchange: (event) => { view.axis = event.target.value; redraw(); } },
      Object.keys(kRunAxes).map((name) => h("option", { value: name }, kRunAxes[name].label)))),
    h("label", {}, h("input", { type: "checkbox", onchange: (event) => { view.log = event.target.checked; redraw(); } }), "logarithmic"),
    h("label", {}, "smoothing", h("input", { type: "range", min: 0, max: 99, value: 0, oninput: (event) => {
      view.smoothing = Number(event.target.value) / 100;
      smoothing.textContent = view.smoothing > 0 ? view.smoothing.toFixed(2) : "none";
      redraw();
    } }), smoothing));
  const toggles = runs.length < 2 ? null : h("div", { class: "controls toggles", role: "group", "aria-label": "runs" },
    runs.map((_, i) => h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => {
      shownRuns[i] = event.target.checked;
      redraw();
    } }), runMark(i))));
  return [controls, toggles, h("div", { class: "charts" }, cards)];
}

function curveRemarks() {
  return runs.flatMap((run) => Object.entries(run.curves.not_finite).map(([name, count]) =>
    h("p", { class: "note warning" }, `${run.name}: ${name} is not finite in ${plural(count, "line")} of metrics.jsonl`)));
}

// ---- Tables

function overview() {
  if (runs.length < 2 && !runs[0].last_message) return [];
  return makeTable([
    { title: "run", look: "nowrap", value: (row) => row.run.name, cell: (row) => runMark(row.i) },
    { title: "steps", right: true, value: (row) => row.run.step ?? -1, cell: (row) => (row.run.step === null ? "–" : countText(row.run.step)) },
    { title: "loss", right: true, value: (row) => lastValue(row.run.curves.metrics.loss) ?? Infinity,
      cell: (row) => digits(lastValue(row.run.curves.metrics.loss) ?? NaN) },
    { title: "training", right: true, value: (row) => row.run.training_seconds ?? -1, cell: (row) => secondsText(row.run.training_seconds ?? NaN) },
    { title: "last line of log.txt", value: (row) => row.run.last_message, cell: (row) => h("span", { class: "small muted" }, row.run.last_message) },
  ], { rows: runs.map((run, i) => ({ run, i })) });
}

function differenceTable() {
  if (runs.length < 2) return [];
  if (pageData.differences.length === 0) return h("p", {}, "No key differs.");
  const cell = (row, i) => h("span", { class: row.values[i] === row.values[0] ? "code" : "code differs" }, row.values[i]);
  return makeTable([
    { title: "key", look: "key", value: (row) => row.key, cell: (row) => h("span", { class: "code" }, row.key) },
    ...runs.map((run, i) => ({ title: run.name, value: (row) => row.values[i], cell: (row) => cell(row, i) })),
  ], { rows: pageData.differences, search: pageData.differences.length > 12 ? "find a key" : null });
}

function evaluationTable() {
  const rows = new Map();
  runs.forEach((run, i) => {
    for (const set of run.evaluations)
      for (const metric of evaluationMetrics(set)) {
        const key = JSON.stringify([set.dataset, metric]);
        if (!rows.has(key)) rows.set(key, { dataset: set.dataset, metric, values: runs.map(() => null) });
        rows.get(key).values[i] = { last: set.last[metric], step: set.step, best: set.best[metric] };
      }
  });
  if (rows.size === 0) return [];
  const cell = (value) => (value === null ? "–" : [h("strong", {}, digits(value.last ?? NaN)),
    h("span", { class: "muted small" }, ` at ${countText(value.step)}`), value.best && value.best[1] !== value.step
      ? h("div", { class: "muted small" }, `best ${digits(value.best[0])} at ${countText(value.best[1])}`) : null]);
  return makeTable([
    { title: "data set", value: (row) => row.dataset },
    { title: "metric", value: (row) => row.metric },
    ...runs.map((run, i) => ({ title: run.name, right: true, value: (row) => row.values[i]?.last ?? -Infinity, cell: (row) => cell(row.values[i]) })),
  ], { rows: [...rows.values()] });
}

// ---- Where time went

const kTimeColours = { training: "var(--c0)", evaluation: "var(--c4)", compute: "var(--c0)", communication: "var(--c1)", data: "var(--c2)",
  checkpoint: "var(--c5)", step: "var(--c7)", other: "var(--c7)" };
const kTimeWords = { step: "between instructions" };

/// Bars of {name: seconds}; all begin at the left and are as long as their share of the longest.
function timeBars(rows, label) {
  const left = 200, width = 820, parts = [], height = 34;
  const total = (row) => Object.values(row.parts).reduce((a, b) => a + b, 0);
  const longest = Math.max(...rows.map(total)) || 1;
  const names = new Set();
  rows.forEach((row, i) => {
    const y = 4 + i * height;
    parts.push(s("text", { x: left - 10, y: y + 16, "text-anchor": "end" }, row.name.length > 30 ? `…${row.name.slice(-29)}` : row.name));
    let x = left;
    for (const [name, seconds] of Object.entries(row.parts).sort(([, a], [, b]) => b - a)) {
      names.add(name);
      const long = (seconds / longest) * width;
      const rect = s("rect", { x: x.toFixed(1), y, width: Math.max(0.5, long - 0.6).toFixed(1), height: 24, style: { fill: kTimeColours[name] || kTimeColours.other } });
      parts.push(withTip(rect, () => `${kTimeWords[name] || name}: ${secondsText(seconds)}, ${shareText(seconds, total(row))}`));
      x += long;
    }
    parts.push(s("text", { x: Math.min(x + 6, left + width + 4), y: y + 16, class: "faint" }, secondsText(total(row))));
  });
  return [h("div", { class: "scroll" }, drawing(left + width + 70, 8 + rows.length * height, label, parts)),
    h("ul", { class: "legend" }, [...names].map((name) => h("li", {}, swatch(kTimeColours[name] || kTimeColours.other), kTimeWords[name] || name)))];
}

function timeSection() {
  const whole = runs.filter((run) => run.training_seconds !== null).map((run) => ({ name: run.name,
    parts: { training: run.training_seconds, evaluation: run.evaluation_seconds } }));
  if (whole.length === 0) return [];
  const parts = [timeBars(whole, "Time of training and evaluation")];
  const profiled = runs.filter((run) => run.time_use);
  if (profiled.length > 0) {
    parts.push(h("h3", { style: { marginTop: "18px" } }, "The profiled steps, on the main thread of the first process"));
    parts.push(timeBars(profiled.map((run) => ({ name: `${run.name}, ${plural(run.time_use.steps, "step")}`, parts: run.time_use.categories })),
      "Time of the profiled steps"));
    for (const run of profiled) {
      const most = Math.max(...run.time_use.longest.map((span) => span.seconds));
      parts.push(h("div", { style: { marginTop: "14px" } }, makeTable([
        { title: "what took longest", value: (span) => span.name, cell: (span) => h("span", { class: "code" }, kTimeWords[span.name] || span.name) },
        { title: "times", right: true, value: (span) => span.count, cell: (span) => countText(span.count) },
        { title: "time", right: true, value: (span) => span.seconds, cell: (span) => secondsText(span.seconds) },
        { title: "", look: "barcell", value: () => "", cell: (span) => bar(span.seconds, most, kTimeColours[span.category] || kTimeColours.other) },
      ], { rows: run.time_use.longest, caption: run.name })));
    }
  } else {
    parts.push(h("p", { class: "small muted", style: { marginTop: "10px" } }, "With profile.steps=5 a run also says where the time of its steps goes."));
  }
  return parts;
}

// ---- Samples

function runHeading(i, one) {
  return runs.length > 1 ? h("h3", {}, runMark(i)) : one;
}

function placeWords(sample) {
  return [sample.dataset || sample.file, sample.step !== undefined ? `step ${countText(sample.step)}` : null,
    sample.example !== undefined ? `example ${countText(sample.example)}` : null,
    sample.score !== undefined ? `score ${digits(sample.score)}` : null].filter((word) => word).join(", ");
}

function textSamples() {
  return runs.flatMap((run, i) => (run.samples.texts.length === 0 ? [] : [runHeading(i, null),
    h("div", { class: "samples" }, run.samples.texts.map((sample) => h("div", { class: "sample" }, h("dl", {},
      ["input", "target", "prediction"].filter((key) => sample[key] !== undefined).flatMap((key) =>
        [h("dt", {}, key), h("dd", { lang: "" }, sample[key])])),
      h("div", { class: "muted small" }, placeWords(sample)))))]));
}

function imageSamples() {
  return runs.flatMap((run, i) => (run.samples.images.length === 0 ? [] : [runHeading(i, null),
    h("ul", { class: "pictures" }, run.samples.images.map((sample) => {
      const wrong = sample.label !== undefined && String(sample.label) !== String(sample.prediction);
      return h("li", {}, h("img", { src: sample.image, loading: "lazy", alt: `example of ${sample.label ?? "no label"}, taken for ${sample.prediction ?? "nothing"}` }),
        h("div", { class: wrong ? "wrong" : null }, `${sample.prediction ?? "–"}${sample.probability !== undefined ? ` (${shareText(sample.probability, 1)})` : ""}`),
        sample.label !== undefined ? h("div", { class: "muted" }, wrong ? `is ${sample.label}` : "right") : null,
        h("div", { class: "muted small" }, placeWords(sample)));
    }))]));
}

function sampleRemark() {
  const left = runs.reduce((sum, run) => sum + run.samples.left_out, 0);
  return left > 0 ? h("p", { class: "small muted", style: { marginTop: "10px" } }, `${plural(left, "further record")} not shown.`) : null;
}

drawPage(() => {
  drawTop();
  addSection("remarks", "Remarks", "", pageData.notes.map((text) => h("p", { class: "note warning" }, text)), curveRemarks());
  addSection("runs", runs.length > 1 ? "Runs" : "State", "", overview());
  addSection("curves", "Curves", "Point at a curve for its values; arrow keys do the same. Where a point stands for several lines of "
    + "metrics.jsonl, the curve is their mean and the band their range.", curves());
  addSection("evaluations", "Evaluation", "The newest value of each metric, and the best one.", evaluationTable());
  addSection("differences", "Differences of configuration", "Keys whose values are not the same in all runs.", differenceTable());
  addSection("time", "Where time went", "", timeSection());
  const texts = textSamples(), images = imageSamples();
  addSection("texts", "Texts", "What the model wrote.", texts, texts.length > 0 && images.length === 0 ? sampleRemark() : null);
  addSection("images", "Images", "What the model took them for.", images, images.length > 0 ? sampleRemark() : null);
  document.getElementById("bottom").append("Made by mtf-train, run.mode=report.");
});
