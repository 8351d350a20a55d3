"use strict";
// Draws the charts of a page with uPlot: `drawChart(element, chart)`, where `chart` is the JSON of
// charts.py. A chart shows its values where a reader points, and is zoomed by dragging; those of
// one group share their zoom. Colors are the page's variables, so they follow its light or dark
// mode.

const NO_BREAK = "\u00a0";

function threeDigits(number) {
  return number >= 999.5 ? whole(number) : String(Number(number.toPrecision(3)));
}

function whole(number) {
  return Math.round(number).toLocaleString("en-US");
}

// The same texts as units.py has in tables.
const FORMATS = {
  integer: whole,
  number(value) {
    if (value === 0 || Math.abs(value) >= 100) return whole(value);
    return Math.abs(value) >= 10 ? value.toFixed(1) : String(Number(value.toPrecision(2)));
  },
  ms(value) {
    if (value === 0) return "0";
    for (const [unit, factor] of [["h", 3_600_000], ["min", 60_000]]) {
      if (value >= 2 * factor) return threeDigits(value / factor) + NO_BREAK + unit;
    }
    for (const [unit, factor] of [["s", 1000], ["ms", 1]]) {
      if (value >= factor) return threeDigits(value / factor) + NO_BREAK + unit;
    }
    return threeDigits(value * 1000) + NO_BREAK + "\u00b5s";
  },
  share(value) {
    const percent = value * 100;
    if (percent === 0 || percent >= 10) return percent.toFixed(1) + NO_BREAK + "%";
    const text = percent >= 0.01 ? percent.toFixed(2) : String(Number(percent.toPrecision(1)));
    return text + NO_BREAK + "%";
  },
  bytes(value) {
    let [scale, unit] = [1, "B"];
    for (const larger of ["KiB", "MiB", "GiB", "TiB"]) {
      if (value < scale * 1024) break;
      [scale, unit] = [scale * 1024, larger];
    }
    return (scale === 1 ? value.toFixed(0) : (value / scale).toFixed(1)) + NO_BREAK + unit;
  },
};

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const DAY = 86_400_000;
const drawn = [];

// Times of the axis are UTC, with the date where it changes.
function timeLabels(_plot, times, _axis, _space, increment) {
  let day = "";
  return times.map((time) => {
    const [date, clock] = new Date(time).toISOString().split("T");
    if (increment >= DAY) return date;
    const length = increment >= 60_000 ? 5 : increment >= 1000 ? 8 : 12;
    const text = date === day ? clock.slice(0, length) : `${clock.slice(0, length)}\n${date}`;
    day = date;
    return text;
  });
}

// Distances of round numbers on an axis, by its unit.
const INCREMENTS = {
  integer: Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(),
  bytes: Array.from({ length: 50 }, (_, power) => 2 ** power),
};

function powersOfTen(_plot, values) {
  return values.map((value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null);
}

// Each value holds until the next place, and nothing is drawn over a gap.
function stepPaths({ filled, stacked }, outlined) {
  return (plot, number, from, to) => {
    const [places, values] = [plot.data[0], plot.data[number]];
    const { scale } = plot.series[number];
    const pixel = (value, name) => Math.round(plot.valToPos(value, name, true));
    const stroke = new Path2D();
    const fill = new Path2D();
    let isOpen = false;
    for (let index = Math.max(0, from - 1); index <= Math.min(to, places.length - 2); index += 1) {
      const value = values[index];
      if (value == null) {
        isOpen = false;
        continue;
      }
      const [left, right] = [pixel(places[index], "x"), pixel(places[index + 1], "x")];
      const top = pixel(value, scale);
      const base = pixel(stacked ? plot.data[number - 1][index] : plot.scales[scale].min, scale);
      if (isOpen) stroke.lineTo(left, top);
      else stroke.moveTo(left, top);
      stroke.lineTo(right, top);
      fill.rect(left, top, right - left, base - top);
      isOpen = true;
    }
    return { stroke: outlined ? stroke : new Path2D(), fill: filled ? fill : null };
  };
}

function tickLabels(axis) {
  return (_plot, values) => values.map((value) => {
    if (value === null) return null;
    if (value === axis.zero) return "0";
    return FORMATS[axis.unit](value).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
  });
}

function verticalAxis(axis, scale, side, stroke) {
  return {
    scale,
    side,
    size: 64,
    font: FONT,
    stroke: () => color(stroke),
    grid: { show: side === 3, stroke: () => color("grid"), width: 1, ...(axis.log ? { filter: powersOfTen } : {}) },
    ticks: { show: false },
    space: 28,
    values: tickLabels(axis),
    ...(axis.log || !INCREMENTS[axis.unit] ? {} : { incrs: INCREMENTS[axis.unit] }),
  };
}

function verticalScale(axis) {
  if (!axis.log) {
    const least = axis.unit === "integer" ? 1 : 0;
    return { range: (_plot, _low, high) => [0, Math.max(least, (high || 1) * 1.06)] };
  }
  return {
    distr: 3,
    range: (_plot, low, high) => {
      if (!(high > 0)) return [1, 10];
      const bottom = axis.zero ?? 10 ** Math.floor(Math.log10(low));
      return [bottom, Math.max(bottom * 10, high * 1.5)];
    },
  };
}

// Dashed lines, with their labels above the plot, one above the other where they are close.
function drawVerticals(plot, verticals, levels) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const ends = [];
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * ratio}px`);
  ctx.textBaseline = "bottom";
  ctx.textAlign = "left";
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  for (const { at, label, color: name } of [...verticals].sort((one, other) => one.at - other.at)) {
    const x = plot.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = color(name);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const text = label.length > 40 ? `${label.slice(0, 39)}\u2026` : label;
    const width = ctx.measureText(text).width;
    const left = Math.max(2, Math.min(x - width / 2, ctx.canvas.width - width - 2));
    let level = 0;
    while (ends[level] > left) level += 1;
    if (level >= levels) continue;
    ends[level] = left + width + 8 * ratio;
    ctx.fillText(text, left, bbox.top - (2 + 14 * level) * ratio);
  }
  ctx.restore();
}

function valuesOf(axis, values, below) {
  const placed = values.map((value) => value === 0 ? axis.zero ?? 0 : value);
  return below ? placed.map((value, number) => value + below[number]) : placed;
}

function drawChart(element, chart) {
  const { x, y, right, lines, verticals } = chart;
  const overTime = x.step !== undefined;
  const steps = lines[0].steps;
  const places = overTime
    ? Array.from({ length: x.count + 1 }, (_, number) => x.start + number * x.step)
    : x.values;
  // The last step ends where another would begin.
  const columns = lines.map(({ values }) => overTime ? [...values, values.at(-1)] : values);
  const data = [places];
  lines.forEach((line, number) => {
    const below = line.stacked ? data[number] : undefined;
    data.push(valuesOf(line.right ? right : y, columns[number], below));
  });
  const [first, last] = [places[0], places.at(-1)];
  const named = (index) => overTime
    ? new Date(places[index]).toISOString().replace("T", " ").slice(0, x.step < 1000 ? 23 : 19)
    : x.names[index];
  const levels = Math.min(verticals.length, 3);
  const reset = document.createElement("button");
  reset.type = "button";
  reset.className = "unzoom";
  reset.textContent = "Zoom out";
  reset.hidden = true;
  const options = {
    width: element.clientWidth,
    height: chart.height,
    ms: 1,
    tzDate: (time) => uPlot.tzDate(new Date(time), "Etc/UTC"),
    padding: [8 + 14 * levels, right ? 0 : 30, 0, 0],
    scales: {
      x: overTime
        ? { time: true, range: (_plot, low, high) => [low, high] }
        : {
            time: false,
            distr: 3,
            range: (_plot, low, high) => {
              const isWhole = low === first && high === last;
              return isWhole && !steps ? [low / 1.2, high * 1.2] : [low, high];
            },
          },
      y: verticalScale(y),
      ...(right ? { right: verticalScale(right) } : {}),
    },
    axes: [
      {
        font: FONT,
        stroke: () => color("soft"),
        grid: { stroke: () => color("grid"), width: 1, ...(overTime ? {} : { filter: powersOfTen }) },
        ticks: { show: false },
        size: overTime ? 42 : 28,
        space: overTime ? 84 : 56,
        values: overTime ? timeLabels : tickLabels({ unit: "ms" }),
      },
      verticalAxis(y, "y", 3, right ? lines[0].color : "soft"),
      ...(right ? [verticalAxis(right, "right", 1, lines.find((line) => line.right).color)] : []),
    ],
    series: [
      { label: overTime ? "time (UTC)" : "time", value: (_plot, _value, _series, index) => index === null ? "" : named(index) },
      ...lines.map((line, number) => {
        const axis = line.right ? right : y;
        return {
          label: line.label,
          scale: line.right ? "right" : "y",
          stroke: () => color(line.color),
          fill: line.filled ? () => color(line.color) + (overTime ? "2e" : "") : undefined,
          width: 1.5,
          dash: line.right ? [5, 4] : undefined,
          paths: line.steps ? stepPaths(line, overTime || !line.filled) : uPlot.paths.linear(),
          points: { show: !line.steps, size: 6 },
          value: (_plot, _value, _series, index) => {
            const value = index === null ? undefined : columns[number][index];
            if (value === undefined) return "";
            return value === null ? "none" : FORMATS[axis.unit](value);
          },
        };
      }),
    ],
    cursor: {
      y: false,
      drag: { x: true, y: false, dist: 6 },
      sync: chart.group ? { key: chart.group, scales: ["x", null], setSeries: false } : undefined,
      // A step holds from its place to the next one.
      dataIdx: (_plot, _series, nearest, at) =>
        steps && places[nearest] > at ? Math.max(0, nearest - 1) : nearest,
    },
    legend: { markers: { stroke: (_plot, number) => `var(--${lines[number - 1].color})`, fill: (_plot, number) => `var(--${lines[number - 1].color})` } },
    hooks: {
      draw: [(plot) => drawVerticals(plot, verticals, levels)],
      setScale: [(plot, scale) => {
        if (scale !== "x") return;
        const { min, max } = plot.scales.x;
        reset.hidden = min <= first && max >= last;
      }],
    },
  };
  const plot = new uPlot(options, data, element);
  drawn.push(plot);
  reset.addEventListener("click", () => {
    const together = chart.group ? uPlot.sync(chart.group).plots : [plot];
    for (const each of together) each.setScale("x", { min: first, max: last });
  });
  element.append(reset);
  new ResizeObserver(() => {
    if (element.clientWidth) plot.setSize({ width: element.clientWidth, height: chart.height });
  }).observe(element);
  return plot;
}

// Canvases keep their colors until they are drawn again.
for (const media of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(media).addEventListener("change", () => drawn.forEach((plot) => plot.redraw(false)));
}
for (const element of document.querySelectorAll("[data-chart]")) {
  drawChart(element, JSON.parse(element.dataset.chart));
}
