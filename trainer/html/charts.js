// Curves of several series over a common axis, with values at the pointer or, by arrow keys, at the keyboard's focus.

const kChart = { height: 210, left: 54, right: 12, top: 8, bottom: 24 };

/// Round numbers between two numbers, about `count` of them.
function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const stride = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) || rough;
  const ticks = [];
  for (let tick = Math.ceil(low / stride - 1e-9) * stride; tick <= high + stride * 1e-9 && ticks.length < 20; tick += stride)
    ticks.push(Math.abs(tick) < stride * 1e-9 ? 0 : tick);
  return ticks;
}

/// Powers of ten between two positive numbers, with 2 and 5 times these where there are few.
function logTicks(low, high) {
  const ticks = [];
  const few = Math.log10(high / low) < 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const factor of few ? [1, 2, 5] : [1]) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  const stride = Math.ceil(ticks.length / 7);
  return ticks.length > 1 ? ticks.filter((_, i) => i % stride === 0) : linearTicks(low, high, 4);
}

/// An exponential moving average; `keep` is the share of the average before. Values of null stay null.
function smoothed(values, keep) {
  let sum = 0, weight = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  });
}

/// The values at index `i` lie between low[i] and high[i] where points stand for several steps.
/// Returns the drawing of `series`: [{name, colour, dashes, x, mean, low, high, points}] with the options
/// {label, width, log, smoothing, xText, yText, xLabel}.
function curveChart(series, options) {
  const { height, left, right, top, bottom } = kChart, width = options.width;
  const shown = series.map((one) => ({ ...one, drawn: options.smoothing > 0 && !one.points ? smoothed(one.mean, options.smoothing) : one.mean }));
  const usable = (value) => value !== null && value !== undefined && (!options.log || value > 0);
  let xLow = Infinity, xHigh = -Infinity, low = Infinity, high = -Infinity;
  for (const one of shown) {
    one.x.forEach((x, i) => {
      if (!usable(one.mean[i])) return;
      xLow = Math.min(xLow, x);
      xHigh = Math.max(xHigh, x);
      for (const value of [one.mean[i], one.drawn[i]]) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    });
  }
  if (xLow === Infinity) return h("p", { class: "muted" }, options.log ? "no values above zero" : "no finite values");
  if (xLow === xHigh) [xLow, xHigh] = [xLow - 0.5, xHigh + 0.5];
  // Equal values may differ by rounding after smoothing.
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) [low, high] = options.log ? [low / 1.1, high * 1.1] : [low - (Math.abs(low) * 0.05 || 0.5), high + (Math.abs(high) * 0.05 || 0.5)];
  const scale = options.log ? Math.log : (value) => value;
  const pad = (scale(high) - scale(low)) * 0.04;
  const x = (value) => left + ((value - xLow) / (xHigh - xLow)) * (width - left - right);
  const y = (value) => top + ((scale(high) + pad - scale(value)) / (scale(high) - scale(low) + 2 * pad)) * (height - top - bottom);

  const parts = [];
  for (const tick of options.log ? logTicks(low, high) : linearTicks(low, high, 4)) {
    parts.push(s("line", { x1: left, x2: width - right, y1: y(tick).toFixed(1), y2: y(tick).toFixed(1), class: "axis" }));
    parts.push(s("text", { x: left - 7, y: (y(tick) + 4).toFixed(1), "text-anchor": "end", class: "faint" }, options.yText(tick)));
  }
  for (const tick of linearTicks(xLow, xHigh, width > 500 ? 8 : 4))
    parts.push(s("text", { x: Math.min(x(tick), width - 2).toFixed(1), y: height - 8, class: "faint",
      "text-anchor": x(tick) > width - 34 ? "end" : "middle" }, options.xText(tick)));
  const clip = `clip-${++curveChart.count}`;
  parts.push(s("clipPath", { id: clip }, s("rect", { x: left - 2, y: top - 4, width: width - left - right + 4, height: height - top - bottom + 8 })));
  const curves = s("g", { "clip-path": `url(#${clip})` });
  for (const one of shown) {
    if (one.low && !(options.smoothing > 0)) curves.append(s("path", { class: "band", d: bandPath(one, x, y, usable), style: { fill: one.colour } }));
    if (options.smoothing > 0 && !one.points) curves.append(s("path", { class: "curve raw", d: linePath(one.x, one.mean, x, y, usable), style: { stroke: one.colour } }));
    curves.append(s("path", { class: "curve", d: linePath(one.x, one.drawn, x, y, usable), style: { stroke: one.colour, strokeDasharray: one.dashes } }));
    if (one.points || one.x.length === 1) one.x.forEach((at, i) => {
      if (usable(one.mean[i])) curves.append(s("circle", { class: "dot", cx: x(at).toFixed(1), cy: y(one.mean[i]).toFixed(1), r: 3, style: { fill: one.colour } }));
    });
  }
  parts.push(curves);
  const chart = drawing(width, height, options.label, parts);
  addCursor(chart, shown, { ...options, x, y, usable, xLow, xHigh });
  return chart;
}
curveChart.count = 0;

function linePath(xs, values, x, y, usable) {
  let path = "", pen = "M";
  values.forEach((value, i) => {
    if (!usable(value)) {
      pen = "M";
      return;
    }
    path += `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function bandPath(one, x, y, usable) {
  const above = [], below = [];
  one.x.forEach((at, i) => {
    if (!usable(one.low[i]) || !usable(one.high[i])) return;
    above.push(`${x(at).toFixed(1)} ${y(one.high[i]).toFixed(1)}`);
    below.push(`${x(at).toFixed(1)} ${y(one.low[i]).toFixed(1)}`);
  });
  return above.length > 1 ? `M${above.join("L")}L${below.reverse().join("L")}Z` : "";
}

/// The index of the value of an ascending list that is nearest to `wanted`.
function nearestIndex(list, wanted) {
  let begin = 0, end = list.length - 1;
  while (end - begin > 1) {
    const middle = (begin + end) >> 1;
    if (list[middle] <= wanted) begin = middle;
    else end = middle;
  }
  return Math.abs(list[begin] - wanted) <= Math.abs(list[end] - wanted) ? begin : end;
}

/// A vertical line with the values of all series, which follows the pointer and the arrow keys.
function addCursor(chart, series, view) {
  const line = s("line", { class: "cross", y1: kChart.top, y2: kChart.height - kChart.bottom, visibility: "hidden" });
  chart.append(line);
  chart.setAttribute("tabindex", "0");
  const longest = series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
  let at = -1;
  const show = (wanted, px, py) => {
    at = nearestIndex(longest.x, wanted);
    const here = longest.x[at];
    line.setAttribute("x1", view.x(here));
    line.setAttribute("x2", view.x(here));
    line.setAttribute("visibility", "visible");
    const words = series.map((one) => {
      const i = nearestIndex(one.x, here), value = one.drawn[i];
      if (!view.usable(value)) return null;
      const range = one.low && one.low[i] !== one.high[i] ? `  (${digits(one.low[i])} to ${digits(one.high[i])})` : "";
      return `${one.name}: ${view.yText(value)}${range}`;
    }).filter((text) => text);
    showTip(`${view.xLabel} ${view.xText(here)}\n${words.join("\n")}`, px, py);
  };
  const hide = () => {
    line.setAttribute("visibility", "hidden");
    hideTip();
  };
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * view.width;
    const share = (px - kChart.left) / (view.width - kChart.left - kChart.right);
    show(view.xLow + share * (view.xHigh - view.xLow), event.clientX, event.clientY);
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const stride = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
    if (!stride) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(longest.x.length - 1, at + stride));
    const box = chart.getBoundingClientRect();
    show(longest.x[next], box.left + (view.x(longest.x[next]) / view.width) * box.width, box.top + 20);
  });
}
