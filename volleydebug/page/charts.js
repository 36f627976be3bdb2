"use strict";

// Charts shows six graphs of the last minutes: of one connection, or of all.
// What they show is in series: for each point in time the values of SERIES.

const SERIES = ["rtt", "rttMin", "jitter", "network", "socket", "inbox", "lost", "send", "receive", "acked",
  "window", "inFlight", "sendQueue", "readQueue"];

const CHARTS = [
  { title: "round-trip time", unit: "ms", of: [["rtt", "smoothed"], ["rttMin", "least"]] },
  { title: "jitter", unit: "ms", of: [["jitter", "mean"]] },
  { title: "loss, by where", unit: "/s", of: [["network", "network"], ["socket", "own socket"], ["inbox", "full inbox"], ["lost", "of sent"]] },
  { title: "bandwidth", unit: "bit/s", of: [["send", "sent"], ["receive", "received"], ["acked", "acked"]] },
  { title: "window", unit: "", of: [["inFlight", "in flight"], ["window", "window"]] },
  { title: "queues", unit: "B", of: [["sendQueue", "to send"], ["readQueue", "to read"]] },
];

// short returns a number in at most four digits, with a prefix.
function short(v, unit) {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  const a = Math.abs(v);
  for (const [limit, prefix] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (a >= limit) return (v / (prefix === "k" ? 1e3 : limit)).toFixed(1).replace(/\.0$/, "") + " " + prefix + unit;
  }
  const digits = a === 0 || a >= 100 || Number.isInteger(v) ? 0 : a >= 10 ? 1 : 2;
  return v.toFixed(digits) + (unit ? " " + unit : "");
}

class Charts {
  constructor(root) {
    this.root = root;
    this.plots = [];
    this.build();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.build(); this.draw(); });
    new ResizeObserver(() => this.resize()).observe(root);
  }

  build() {
    const style = getComputedStyle(document.documentElement);
    const color = name => style.getPropertyValue(name).trim();
    for (const p of this.plots) p.plot.destroy();
    this.root.replaceChildren();
    this.plots = CHARTS.map(chart => {
      const box = document.createElement("div");
      box.className = "chart";
      const title = document.createElement("h3");
      title.textContent = chart.title + (chart.unit ? ", " + chart.unit : "");
      const keys = document.createElement("div");
      keys.className = "keys";
      const values = chart.of.map(([, name], i) => {
        const key = document.createElement("span");
        key.className = "s" + (i + 1);
        key.append(document.createElement("i"), name + " ");
        const value = document.createElement("b");
        key.append(value);
        keys.append(key);
        return value;
      });
      box.append(title, keys);
      this.root.append(box);
      const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      const plot = new uPlot({
        width: Math.max(100, box.clientWidth - 12), height: 120,
        legend: { show: false }, cursor: { show: false }, pxAlign: 0,
        scales: { x: { time: true }, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } },
        axes: [
          { ...axis, size: 22, space: 70, values: (u, at) => at.map(t => new Date(t * 1000).toTimeString().slice(0, 8)) },
          { ...axis, size: 48, space: 30, values: (u, at) => at.map(v => short(v, "")) },
        ],
        series: [{}, ...chart.of.map((_, i) => ({ stroke: color("--c" + (i + 1)), width: 1.5, points: { show: false }, spanGaps: false }))],
      }, [[], ...chart.of.map(() => [])], box);
      return { chart, plot, values, box };
    });
  }

  resize() {
    for (const p of this.plots) {
      const width = Math.max(100, p.box.clientWidth - 12);
      if (Math.abs(width - p.plot.width) > 1) p.plot.setSize({ width, height: 120 });
    }
  }

  // show draws times, in seconds, and a list of values for each of SERIES.
  show(times, series) {
    this.times = times;
    this.series = series;
    this.draw();
  }

  // draw has the graphs drawn, one a frame, beginning with the next but one: the
  // table may take the next.
  draw() {
    if (!this.times) return;
    this.due = this.plots.slice();
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.drawNext());
  }

  drawNext() {
    requestAnimationFrame(() => {
      const p = this.due.shift();
      if (p) this.drawOne(p);
      if (this.due.length > 0) this.drawNext();
      else this.asked = false;
    });
  }

  drawOne(p) {
    const lines = p.chart.of.map(([name]) => this.series[SERIES.indexOf(name)]);
    p.plot.setData([this.times, ...lines]);
    lines.forEach((line, i) => {
      const text = short(line[line.length - 1], "");
      if (p.values[i].textContent !== text) p.values[i].textContent = text;
    });
  }
}
