/**
 * One series over a day as a small chart.
 */
import { dayHour } from "./format.js";

/** A colour of the style sheet, in the present scheme. */
export function colourOf(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

/** Draws `data` into `parent`, or into the chart that is there. Undefined while it has no width. `words` are for its values. */
export function drawPlot(parent, plot, data, { words, colour }) {
  const [width, height] = [Math.floor(parent.clientWidth), Math.floor(parent.clientHeight)];
  if (width === 0) return plot;
  if (plot !== undefined) {
    if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
    plot.setData(data);
    return plot;
  }
  const axis = {
    stroke: colourOf(parent, "--soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colourOf(parent, "--line"), width: 1 },
    ticks: { show: false },
  };
  const options = {
    width,
    height,
    padding: [8, 28, 0, 0],
    cursor: { show: false },
    legend: { show: false },
    select: { show: false },
    scales: {
      x: { time: false },
      y: { range: (_plot, _low, high) => [0, (high ?? 0) > 0 ? high * 1.1 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 24,
        space: 72,
        incrs: [3_600, 10_800, 21_600, 43_200],
        values: (_plot, ticks) => ticks.map(dayHour),
      },
      { ...axis, size: 62, space: 32, values: (_plot, ticks) => ticks.map((tick) => words(tick)) },
    ],
    series: [{}, { stroke: colour, width: 2, points: { show: false }, spanGaps: false }],
  };
  return new window.uPlot(options, data, parent);
}
