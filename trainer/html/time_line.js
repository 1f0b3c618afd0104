// The time line of a step as the cost model predicts it (trainer/costs/prediction.h), for hardware that the reader may
// make faster or slower. Two queues work in order: the processor computes, the network sends one collective at a time; a
// wait holds the processor up. The stages of a pipeline in several processes are lanes with queues of their own; sums are the
// means over them.

const kLongestLoop = 64;  // iterations of a loop that are simulated one by one, as in prediction.h

/// How many times as fast as the hardware that the page was made for.
function givenSpeeds() {
  return { processor: { label: "processor, times as fast", value: 1 }, network: { label: "network, times as fast", value: 1 } };
}

/// `schedule` is that of explanation_json.h, where work is [number of its origin, seconds, lane]; without a lane all do it.
/// Returns {seconds, computing, waiting, sending, spans: [{lane, network, from, to, of, wait}]}.
function predictStep(schedule, origins, speeds) {
  const step = pageData.prediction.step / speeds.processor.value;
  const result = { seconds: 0, computing: step, waiting: 0, sending: 0, spans: [] };
  const count = pageData.lanes, all = [...Array(count).keys()];
  const lanes = all.map(() => ({ now: step, networkFree: 0, done: new Map() }));  // done: when each message is received
  const lanesOf = (lane) => lane === undefined ? all : [lane];

  function compute(lane, seconds, of) {
    const { now } = lanes[lane];
    if (seconds > 0) result.spans.push({ lane, network: false, from: now, to: now + seconds, of });
    result.computing += seconds / count;
    lanes[lane].now += seconds;
  }
  function wait(lane, messages) {
    const { now, done } = lanes[lane];
    const until = Math.max(now, ...messages.map((message) => done.get(message) ?? 0));
    if (until > now) result.spans.push({ lane, network: false, wait: true, from: now, to: until, of: null });
    result.waiting += (until - now) / count;
    lanes[lane].now = until;
  }
  /// A message needs the networks of the lane and of those to which it is sent.
  function send(own, item) {
    const members = [own, ...(item.to ?? [])];
    const from = Math.max(...members.map((lane) => Math.max(lanes[lane].now, lanes[lane].networkFree)));
    const seconds = item.seconds / speeds.network.value, to = from + seconds;
    for (const lane of members) {
      lanes[lane].networkFree = to;
      lanes[lane].done.set(item.start, to);
      result.sending += seconds / count;
      result.spans.push({ lane, network: true, from, to, of: origins[item.of], bytes: item.bytes_sent });
      compute(lane, item.processor / speeds.processor.value, origins[item.of]);
    }
  }
  function run(items) {
    for (const item of items) {
      if (item.repeat !== undefined) {
        repeat(item);
      } else if (item.wait !== undefined) {
        for (const lane of all) wait(lane, item.wait);
      } else if (item.start !== undefined) {
        for (const lane of lanesOf(item.lane)) send(lane, item);
      } else {
        const [origin, seconds, of] = item;
        for (const lane of lanesOf(of)) compute(lane, seconds / speeds.processor.value, origins[origin]);
      }
    }
  }
  /// Simulates some iterations, and counts the last one for those that are left.
  function repeat(item) {
    const simulated = Math.min(item.repeat, kLongestLoop);
    let before = { ...result }, from = lanes.map((lane) => lane.now);
    for (let i = 0; i < simulated; ++i) {
      before = { ...result };
      from = lanes.map((lane) => lane.now);
      run(item.body);
    }
    const left = item.repeat - simulated;
    if (left <= 0) return;
    for (const key of ["computing", "waiting", "sending"]) result[key] += left * (result[key] - before[key]);
    for (const lane of all) {
      const { now } = lanes[lane], end = now + left * (now - from[lane]);
      result.spans.push({ lane, network: false, from: now, to: end, of: null, more: left });
      lanes[lane].networkFree = Math.max(lanes[lane].networkFree, end);
      lanes[lane].now = end;
    }
  }
  run(schedule);
  result.seconds = Math.max(...lanes.map((lane) => Math.max(lane.now, lane.networkFree)));
  if (count > 1) result.waiting += lanes.reduce((sum, lane) => sum + result.seconds - lane.now, 0) / count;
  return result;
}

const kPhaseColours = { forward: "var(--c0)", backward: "var(--c3)", update: "var(--c4)" };
const kCollectiveColours = { all_reduce: "var(--c1)", reduce_scatter: "var(--c5)", all_gather: "var(--c2)",
  all_to_all: "var(--c6)", exchange: "var(--c7)", send: "var(--c6)" };

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
  const sends = prediction.sending > 0, count = pageData.lanes;
  const laneHeight = sends ? 2 * rowHeight + 6 : rowHeight;
  for (let lane = 0; lane < count; ++lane) {
    const spans = prediction.spans.filter((span) => span.lane === lane), y = top + lane * (laneHeight + 6);
    row(y, count > 1 ? `stage ${lane}` : "processor", spans.filter((span) => !span.network));
    if (sends) row(y + rowHeight + 6, "network", spans.filter((span) => span.network));
  }
  const bottom = top + count * (laneHeight + 6) - 2;
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
