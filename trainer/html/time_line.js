// The time line of a step as the cost model predicts it (trainer/explain/prediction.h), for hardware that the reader may
// make faster or slower. Two queues work in order: the processor computes, the network sends one collective at a time; a
// wait holds the processor up.

const kLongestLoop = 64;  // iterations of a loop that are simulated one by one

/// How many times as fast as the hardware that the page was made for.
function givenSpeeds() {
  return { processor: { label: "processor, times as fast", value: 1 }, network: { label: "network, times as fast", value: 1 } };
}

/// `schedule` is that of explanation_json.h, where work is [number of its origin, seconds].
/// Returns {seconds, computing, waiting, sending, spans: [{network, from, to, of, wait}]}.
function predictStep(schedule, origins, speeds) {
  const step = pageData.prediction.step / speeds.processor.value;
  const result = { seconds: 0, computing: step, waiting: 0, sending: 0, spans: [] };
  const done = new Map();  // when each message is received
  let now = step, networkFree = 0;

  function compute(seconds, of) {
    if (seconds > 0) result.spans.push({ network: false, from: now, to: now + seconds, of });
    result.computing += seconds;
    now += seconds;
  }
  function run(items) {
    for (const item of items) {
      if (item.repeat !== undefined) {
        repeat(item);
      } else if (item.wait !== undefined) {
        const until = Math.max(now, ...item.wait.map((message) => done.get(message) ?? 0));
        if (until > now) result.spans.push({ network: false, wait: true, from: now, to: until, of: null });
        result.waiting += until - now;
        now = until;
      } else if (item.start !== undefined) {
        const from = Math.max(now, networkFree);
        const seconds = item.seconds / speeds.network.value;
        networkFree = from + seconds;
        done.set(item.start, networkFree);
        result.sending += seconds;
        result.spans.push({ network: true, from, to: networkFree, of: origins[item.of], bytes: item.bytes_sent });
        compute(item.processor / speeds.processor.value, origins[item.of]);
      } else {
        const [origin, seconds] = item;
        compute(seconds / speeds.processor.value, origins[origin]);
      }
    }
  }
  /// Simulates some iterations, and counts the last one for those that are left.
  function repeat(item) {
    const simulated = Math.min(item.repeat, kLongestLoop);
    let before = { ...result }, from = now;
    for (let i = 0; i < simulated; ++i) {
      before = { ...result };
      from = now;
      run(item.body);
    }
    const left = item.repeat - simulated;
    if (left <= 0) return;
    for (const key of ["computing", "waiting", "sending"]) result[key] += left * (result[key] - before[key]);
    const end = now + left * (now - from);
    result.spans.push({ network: false, from: now, to: end, of: null, more: left });
    networkFree = Math.max(networkFree, end);
    now = end;
  }
  run(schedule);
  result.seconds = Math.max(now, networkFree);
  return result;
}

const kPhaseColours = { forward: "var(--c0)", backward: "var(--c3)", update: "var(--c4)" };
const kCollectiveColours = { all_reduce: "var(--c1)", reduce_scatter: "var(--c5)", all_gather: "var(--c2)",
  all_to_all: "var(--c6)", exchange: "var(--c7)" };

function spanColour(span) {
  if (span.more) return "var(--raised)";
  return span.network ? kCollectiveColours[span.of.kind] : kPhaseColours[span.of.phase];
}

function spanWords(span) {
  const length = `${secondsText(span.to - span.from)}, from ${secondsText(span.from)}`;
  if (span.wait) return `waits for a collective\n${length}`;
  if (span.more) return `${plural(span.more, "more iteration")} of the loop\n${length}`;
  const layer = span.of.layer || "outside all layers";
  if (!span.network) return `${layer} (${span.of.phase})\n${length}`;
  return `${span.of.kind} over ${span.of.mesh_dimensions.join(", ")}, ${bytesText(span.bytes)}\n${layer} (${span.of.phase})\n${length}`;
}

/// Joins spans of one colour that are too narrow to be seen.
function visibleSpans(spans, narrow) {
  const result = [];
  for (const span of spans) {
    const last = result[result.length - 1];
    if (last && !last.wait === !span.wait && !last.more && !span.more && span.to - last.from < narrow
        && (span.wait || spanColour(last) === spanColour(span))) {
      last.to = span.to;
      last.bytes = (last.bytes || 0) + (span.bytes || 0);
    } else {
      result.push({ ...span });
    }
  }
  return result;
}

function timeLineDrawing(prediction) {
  const left = 82, width = 1050, rowHeight = 34, top = 6;
  const scale = width / (prediction.seconds || 1);
  const parts = [];
  const row = (y, name, spans) => {
    parts.push(s("text", { x: left - 10, y: y + 21, "text-anchor": "end" }, name));
    parts.push(s("rect", { x: left, y, width, height: rowHeight - 4, fill: "none", class: "axis" }));
    for (const span of visibleSpans(spans, prediction.seconds / 1400)) {
      if (span.wait) continue;
      const rect = s("rect", { x: (left + span.from * scale).toFixed(2), y, width: Math.max(0.4, (span.to - span.from) * scale).toFixed(2),
        height: rowHeight - 4, style: { fill: spanColour(span) } });
      parts.push(withTip(rect, () => spanWords(span)));
    }
  };
  row(top, "processor", prediction.spans.filter((span) => !span.network));
  const sends = prediction.sending > 0;
  if (sends) row(top + rowHeight + 6, "network", prediction.spans.filter((span) => span.network));
  const bottom = top + (sends ? 2 * rowHeight + 6 : rowHeight) + 4;
  for (let i = 0; i <= 5; ++i) {
    const x = left + (width * i) / 5;
    parts.push(s("line", { x1: x, x2: x, y1: bottom - 4, y2: bottom + 3, class: "axis" }));
    parts.push(s("text", { x, y: bottom + 17, class: "faint", "text-anchor": i === 0 ? "start" : i === 5 ? "end" : "middle" },
      secondsText((prediction.seconds * i) / 5)));
  }
  return drawing(left + width + 2, bottom + 24, "Time line of a step", parts);
}

function timeLine() {
  const speeds = givenSpeeds();
  const view = h("div", { class: "scroll" });
  const words = h("p", { id: "prediction" });
  function draw() {
    const prediction = predictStep(pageData.schedule, pageData.origins, speeds);
    const kinds = new Set(prediction.spans.filter((span) => span.network).map((span) => span.of.kind));
    const phases = new Set(prediction.spans.filter((span) => !span.network && span.of).map((span) => span.of.phase));
    view.replaceChildren(timeLineDrawing(prediction), h("ul", { class: "legend" },
      [...phases].map((phase) => h("li", {}, swatch(kPhaseColours[phase]), phase)),
      [...kinds].map((kind) => h("li", {}, swatch(kCollectiveColours[kind]), kind))));
    words.replaceChildren(h("strong", {}, `${secondsText(prediction.seconds)} for a step`),
      `: ${secondsText(prediction.computing)} of computing (${shareText(prediction.computing, prediction.seconds)})`,
      prediction.sending > 0 ? `, ${secondsText(prediction.waiting)} of waiting for collectives (${shareText(prediction.waiting, prediction.seconds)})`
        + `; of ${secondsText(prediction.sending)} in which the network is busy, `
        + `${shareText(Math.max(0, prediction.sending - prediction.waiting), prediction.sending)} are hidden behind computing` : "", ".");
  }
  const field = (of) => h("label", {}, of.label, h("input", { type: "number", min: 0, step: "any", value: of.value, oninput: (event) => {
    const value = Number(event.target.value);
    if (!(value > 0)) return;
    of.value = value;
    draw();
  } }));
  const fields = [field(speeds.processor)];
  if (pageData.prediction.sending > 0) fields.push(field(speeds.network));
  const { hardware } = pageData;
  const about = hardware.given ? `On ${hardware.name || "the hardware given"}.`
    : "On no machine in particular: key hardware names one, and run.mode=calibrate measures this one.";
  draw();
  return [h("p", { class: "faint" }, about), h("div", { class: "controls" }, fields), words, view];
}
