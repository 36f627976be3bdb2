"use strict";

// Charts shows six graphs of the last minutes: of one connection, or of several.
// What they show is in series: for each point in time the values of SERIES.

const SERIES = ["rtt", "rttMin", "jitter", "network", "socket", "inbox", "lost", "send", "receive", "acked",
  "used", "sendQueue", "readQueue"];

// Of several connections there is also the worst of each of these, in a series
// behind those of SERIES, since medians hide the one that is in trouble.
const WORST = ["rtt", "jitter", "used"];
const SEVERAL = [...SERIES, ...WORST.map(name => name + "Worst")];

const CHARTS = [
  { title: "round-trip time", unit: "ms", of: [["rtt", "smoothed"], ["rttMin", "least"]], several: [["rttWorst", "worst"], ["rtt", "median"]] },
  { title: "jitter", unit: "ms", of: [["jitter", "mean"]], several: [["jitterWorst", "worst"], ["jitter", "median"]] },
  { title: "loss, by where", unit: "/s", of: [["network", "network"], ["socket", "socket"], ["inbox", "inbox"], ["lost", "of sent"]] },
  { title: "bandwidth", unit: "B/s", of: [["send", "sent"], ["receive", "received"], ["acked", "acked"]] },
  { title: "in flight", unit: "% of the window", of: [["used", "in flight"]], several: [["usedWorst", "worst"], ["used", "median"]] },
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

// timesOf returns labels for the moments at which an axis has lines, without those
// that the edge would cut.
function timesOf(u, at) {
  const { min, max } = u.scales.x, room = u.over.clientWidth;
  return at.map(t => t < 1e6 || (max - t) / (max - min) * room < 18 ? "" : new Date(t * 1000).toTimeString().slice(0, 8));
}

class Charts {
  constructor(root) {
    this.root = root;
    this.plots = [];
    this.single = false;
    this.build();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.build(); this.draw(); });
    new ResizeObserver(() => this.resize()).observe(root);
  }

  build() {
    const style = getComputedStyle(document.documentElement);
    const color = name => style.getPropertyValue(name).trim();
    for (const p of this.plots) p.plot.destroy();
    this.due = []; // those that wait to be drawn
    this.root.replaceChildren();
    this.plots = CHARTS.map(chart => {
      const of = !this.single && chart.several || chart.of;
      const box = document.createElement("div");
      box.className = "chart";
      const title = document.createElement("h3");
      title.textContent = chart.title + (chart.unit ? ", " + chart.unit : "");
      const keys = document.createElement("div");
      keys.className = "keys";
      const values = of.map(([, name], i) => {
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
        ...this.size(box, keys), padding: [8, 8, 0, 0],
        legend: { show: false }, cursor: { show: false }, pxAlign: 0,
        scales: { x: { time: true }, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } },
        axes: [
          { ...axis, size: 22, space: 70, values: timesOf },
          { ...axis, size: (u, at) => 12 + 6.5 * Math.max(1, ...(at || []).map(text => text.length)), space: 26, values: (u, at) => at.map(v => short(v, "")) },
        ],
        series: [{}, ...of.map((_, i) => ({ stroke: color("--c" + (i + 1)), width: 1.5, points: { show: false }, spanGaps: false }))],
      }, [[], ...of.map(() => [])], box);
      return { of, plot, values, box, keys };
    });
  }

  // size returns what a box has room for below its keys.
  size(box, keys) {
    return { width: Math.max(100, box.clientWidth - 8), height: Math.max(60, box.clientHeight - 4 - keys.offsetTop - keys.offsetHeight) };
  }

  resize() { for (const p of this.plots) this.fit(p); }

  fit(p) {
    const { width, height } = this.size(p.box, p.keys);
    if (Math.abs(width - p.plot.width) > 1 || Math.abs(height - p.plot.height) > 1) p.plot.setSize({ width, height });
  }

  // show draws times, in seconds, and a list of values for each of SERIES, if it is
  // of a single connection, and else of SEVERAL.
  show(times, series, single) {
    this.times = times;
    this.series = series;
    if (single !== this.single) {
      this.single = single;
      this.build();
      for (const p of this.plots) this.drawOne(p);
    }
    this.draw();
  }

  // draw has the graphs drawn, one a frame, beginning with the next but one: the
  // table may take the next. Those that wait already keep their turn, so that a slow
  // browser comes to all of them.
  draw() {
    if (!this.times) return;
    for (const p of this.plots) if (!this.due.includes(p)) this.due.push(p);
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
    const lines = p.of.map(([name]) => this.series[SEVERAL.indexOf(name)]);
    lines.forEach((line, i) => {
      const text = short(line[line.length - 1], "");
      if (p.values[i].textContent !== text) p.values[i].textContent = text;
    });
    this.fit(p); // the keys may have come to need another line
    p.plot.setData([this.times, ...lines]);
  }
}
