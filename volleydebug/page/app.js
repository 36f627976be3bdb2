"use strict";

// The page hears of all connections by server-sent events: of everything in the
// first one, and then of what has changed. It keeps the last POINTS looks.

const POINTS = 180;
const MAX_HISTORIES = 2000; // connections whose history is kept before they are selected

const $ = id => document.getElementById(id);
const conns = new Map();
let columns = [], place = {};
let column = {}; // the places of those columns that are reckoned with
let ticks = 0, lastT = 0, paused = false;
const times = [];
const noHistory = () => SEVERAL.map(() => []);
const all = noHistory(); // of all connections
let filtered = null; // of those that the filter lets through; null without one

class Conn {
  constructor(fresh) {
    Object.assign(this, fresh);
    this.text = [this.protocol, this.over, this.role, this.label, this.remote, this.local, this.network].join(" ").toLowerCase();
    this.since = ticks;
    this.before = null;
    this.missed = this.send = this.receive = this.queued = null;
  }

  get(name) { return this.at(place[name]); }

  // at returns the figure of a column, null if there is none.
  at(i) {
    const v = this.v[i];
    return v === undefined ? null : v;
  }

  // per returns how fast the counter of a column grows.
  per(i, dt) {
    const now = this.at(i), before = this.before ? this.before[i] : null;
    return now === null || before === null || dt <= 0 ? null : Math.max(0, now - before) / dt;
  }

  // rate returns a rate, or how fast a counter of bytes grows.
  rate(rate, counter, dt) {
    const v = this.at(rate);
    return v !== null ? v : this.per(counter, dt);
  }

  // used returns how much of its window is in flight, in percent.
  used() {
    const window = this.at(column.window), flight = this.at(column.in_flight);
    return window === null || flight === null || window <= 0 ? null : 100 * flight / window;
  }

  // step reckons what follows from this look and the one before.
  step(dt, keep) {
    const network = this.per(column.missed_network, dt), socket = this.per(column.missed_socket, dt), inbox = this.per(column.missed_inbox, dt);
    this.missed = network === null && socket === null && inbox === null ? null : network + socket + inbox;
    this.send = this.rate(column.send_rate, column.bytes_sent, dt);
    this.receive = this.rate(column.receive_rate, column.bytes_received, dt);
    const sendQueue = this.at(column.send_queue_bytes), readQueue = this.at(column.read_queue_bytes);
    this.queued = sendQueue === null && readQueue === null ? null : sendQueue + readQueue;
    this.now = [this.at(column.rtt_ms), this.at(column.rtt_min_ms), this.at(column.jitter_ms), network, socket, inbox, this.per(column.messages_lost, dt),
      this.send, this.receive, this.at(column.acked_rate), this.used(), sendQueue, readQueue];
    if (!this.before) this.before = this.v.slice();
    else for (let i = 0; i < this.v.length; i++) this.before[i] = this.v[i];
    if (!keep) {
      this.past = null;
      return;
    }
    if (!this.past) this.past = new Float32Array(SERIES.length * POINTS).fill(NaN);
    const point = ticks % POINTS;
    for (let i = 0; i < SERIES.length; i++) this.past[i * POINTS + point] = this.now[i] === null ? NaN : this.now[i];
  }

  // series returns the history of each figure, as long as times is.
  series() {
    const n = times.length, begin = ticks - n + 1;
    return SERIES.map((_, i) => {
      const line = new Array(n);
      for (let k = 0; k < n; k++) {
        const v = this.past ? this.past[i * POINTS + (begin + k + POINTS) % POINTS] : NaN;
        line[k] = begin + k < this.since || Number.isNaN(v) ? null : v;
      }
      return line;
    });
  }
}

const MEDIANS = ["rtt", "rttMin", "jitter", "used"];

// overall returns what stands for several connections, of which value returns the
// figure of a place in SERIES: the median and the worst of some, the sum of
// everything else.
function overall(list, value) {
  const known = new Float64Array(list.length); // whose sort needs no function
  const worst = [];
  const sums = SERIES.map((name, i) => {
    let n = 0, sum = 0, most = null;
    for (const c of list) {
      const v = value(c, i);
      if (v === null || Number.isNaN(v)) continue;
      known[n++] = v;
      sum += v;
      if (most === null || v > most) most = v;
    }
    if (WORST.includes(name)) worst.push(most);
    if (n === 0) return null;
    return MEDIANS.includes(name) ? known.subarray(0, n).sort()[n >> 1] : sum;
  });
  return [...sums, ...worst];
}

// note adds a look to a history.
function note(history, list) {
  overall(list, (c, i) => c.now[i]).forEach((v, i) => {
    history[i].push(v);
    if (history[i].length > POINTS) history[i].shift();
  });
}

// historyOf returns what is known of the past of some connections.
function historyOf(list) {
  const history = noHistory();
  for (let k = 0; k < times.length; k++) {
    const at = ticks - times.length + 1 + k, point = (at + POINTS) % POINTS;
    const then = list.filter(c => c.past && at >= c.since);
    overall(then, (c, i) => c.past[i * POINTS + point]).forEach((v, i) => history[i].push(v));
  }
  return history;
}

const charts = new Charts($("charts"));
const table = new Table(select);
table.conns = conns;

function receive(e) {
  if (e.full) {
    conns.clear();
    columns = e.columns;
    place = Object.fromEntries(columns.map((name, i) => [name, i]));
    column = {
      rtt_ms: place.rtt_ms, rtt_min_ms: place.rtt_min_ms, jitter_ms: place.jitter_ms, messages_lost: place.messages_lost,
      missed_network: place.missed_network, missed_socket: place.missed_socket, missed_inbox: place.missed_inbox,
      send_rate: place.send_bytes_per_second, receive_rate: place.receive_bytes_per_second, acked_rate: place.acked_bytes_per_second,
      bytes_sent: place.bytes_sent, bytes_received: place.bytes_received, window: place.window, in_flight: place.in_flight,
      send_queue_bytes: place.send_queue_bytes, read_queue_bytes: place.read_queue_bytes,
    };
    $("program").textContent = `${e.program}, process ${e.pid}`;
    document.title = `volley: ${e.program}`;
  }
  ticks++;
  for (const fresh of e.new) conns.set(fresh.id, new Conn(fresh));
  for (const id of e.gone || []) conns.delete(id);
  for (const d of e.d || []) {
    const c = conns.get(d[0]);
    if (c) for (let i = 1; i < d.length; i += 2) c.v[d[i]] = d[i + 1];
  }
  for (const [id, ok, text] of e.x || []) {
    const c = conns.get(id);
    if (c) [c.ok, c.explain] = [ok, text];
  }
  const dt = lastT ? (e.t - lastT) / 1000 : 0;
  lastT = e.t;
  times.push(e.t / 1000);
  if (times.length > POINTS) times.shift();
  const keep = conns.size <= MAX_HISTORIES;
  for (const c of conns.values()) c.step(dt, keep || c.id === table.selected);
  const list = [...conns.values()];
  note(all, list);
  if (filtered) note(filtered, list.filter(c => table.matches(c)));
  explained = e.explained;
  if (e.ended) ended = e.ended.map(past);
  head = e;
  showSoon();
  document.body.dataset.conns = conns.size;
  document.body.dataset.ticks = ticks;
}

let head = null, explained = true, showing = false;
let ended = []; // the last connections that have, the newest first

// past prepares one of them, whose words may be the peer's.
function past(c) {
  const at = Date.parse(c.ended);
  const what = c.protocol + (c.over ? " over " + c.over : "") + ", " + c.role + (c.label ? ", " + c.label : "");
  return { at, words: [c.remote || "–", what, "after " + span((at - Date.parse(c.born)) / 1000), c.reason], text: [c.remote, what, c.reason].join(" ").toLowerCase() };
}

// span returns a time in seconds in words.
function span(s) {
  if (s < 9.95) return `${Math.max(0, s).toFixed(1)} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  if (s < 5970) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

function showEnded() {
  const list = ended.filter(c => table.words.every(w => c.text.includes(w)));
  $("past").hidden = ended.length === 0;
  const box = $("ended");
  while (box.children.length > list.length) box.lastChild.remove();
  while (box.children.length < list.length) {
    const row = document.createElement("tr");
    for (let i = 0; i < 5; i++) row.append(document.createElement("td"));
    box.append(row);
  }
  list.forEach((c, i) => {
    [span(Math.floor((head.t - c.at) / 1000)).replace(".0", "") + " ago", ...c.words].forEach((text, k) => {
      const cell = box.children[i].children[k];
      if (cell.textContent !== text) cell.textContent = text;
    });
  });
}

// showSoon has show called in a frame of its own, apart from what was reckoned. While
// the page is hidden there is none.
function showSoon() {
  if (showing) return;
  showing = true;
  requestAnimationFrame(() => {
    showing = false;
    if (!paused) show();
  });
}

// show draws everything that has changed.
function show() {
  if (!head) return;
  showNodes(head.nodes);
  showListeners(head.listeners);
  table.sort();
  showTotals();
  showSelected();
  showEnded();
}

const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function showTotals() {
  const hidden = head.total - conns.size;
  let text = plural(head.total, "connection") + (hidden > 0 ? `, of which the worst ${conns.size} are shown` : "");
  if (filtered) text = `${table.list.length} of ` + text;
  const sick = table.list.reduce((n, c) => n + (c.explain && !c.ok), 0);
  $("totals").textContent = text + (sick ? `, ${sick} with trouble` : "");
}

// showHeads shows the names and the texts of what is above the graphs.
function showHeads(box, list) {
  while (box.children.length > list.length) box.lastChild.remove();
  list.forEach(([name, text], i) => {
    let el = box.children[i];
    if (!el) {
      el = document.createElement("div");
      el.className = "listener";
      el.append(document.createElement("b"), " ", document.createElement("span"));
      box.append(el);
    }
    if (el.firstChild.textContent !== name) el.firstChild.textContent = name;
    if (el.lastChild.textContent !== text) el.lastChild.textContent = text;
  });
}

function showNodes(list) {
  const load = n => (n.load === null ? "takes none" : n.load !== n.sessions ? `load ${n.load}` : "") + (n.drains ? " drains" : "");
  showHeads($("nodes"), list.map(n => [`node ${n.name}`, [
    plural(n.sessions, "session"), load(n).trim(), `${n.spared} with a way to another node`, `${n.came} came`, `${n.left} left`,
    n.yielded ? `${n.yielded} yielded` : "", n.bad ? `${n.bad} bad messages` : "", n.missed ? `${n.missed} times messages missed` : "",
    ...n.peers.map(p => `${p.name}: ` + (p.alive ? [p.sessions, load(p).trim()].filter(t => t !== "").join(", ") : `silent for ${span(p.heard_ms / 1000)}`)),
  ].filter(t => t).join(", ")]));
}

function showListeners(list) {
  showHeads($("listeners"), list.map(l => [`${l.protocol} ${l.kind} ${l.addr}`,
    `${l.conns} now, ${l.accepted} accepted` + (l.refused ? `, ${l.refused} refused` : "") +
    (l.socket_drops ? `, ${l.socket_drops} dropped by the socket` : "") + (l.invalid ? `, ${l.invalid} invalid` : "") +
    (l.max_memory_bytes ? `, ${short(l.memory_bytes, "B")} of ${short(l.max_memory_bytes, "B")}` : "")]));
}

function select() {
  show();
}

function showSelected() {
  const c = conns.get(table.selected);
  $("detail").hidden = !c;
  $("subject").textContent = c ? `${c.protocol}${c.over ? " over " + c.over : ""}, ${c.remote}, ${c.role}${c.label ? ", " + c.label : ""}` :
    (filtered ? "the connections that the filter lets through" : "all connections") + ": the worst and the median, or the sum";
  charts.show(times.slice(), c ? c.series() : (filtered || all).map(line => line.slice()), !!c);
  if (!c) return;
  $("explain").textContent = c.explain || (explained ? "The protocol explains nothing." : "");
  if (!explained) ask(c);
  const list = $("figures");
  if (list.childElementCount !== columns.length) {
    list.replaceChildren(...columns.map(name => {
      const pair = document.createElement("div");
      const dt = document.createElement("dt");
      dt.textContent = labelOf(name);
      pair.append(dt, document.createElement("dd"));
      return pair;
    }));
  }
  columns.forEach((name, i) => {
    const text = figure(name, c.v[i], c.unit);
    const dd = list.children[i].lastChild;
    if (dd.textContent !== text) dd.textContent = text;
  });
}

// labelOf returns what a column is called where its values have their units.
const labelOf = name => name.replace(/_(ms|bytes)$/, "").replace(/_bytes_per_second$/, "_rate").replaceAll("_", " ").replace(/^rtt/, "RTT");

// figure returns a value of a column in words.
function figure(name, v, unit) {
  if (v === null || v === undefined) return "–";
  if (name.endsWith("_ms")) return ms(v) + " ms";
  if (name.endsWith("_per_second")) return short(v, "B/s");
  if (name === "loss") return percent(v);
  if (name === "window" || name === "in_flight") return unit === "bytes" ? short(v, "B") : `${v.toLocaleString("en-US")} ${unit}`;
  return name.includes("bytes") ? short(v, "B") : v.toLocaleString("en-US");
}

// ask fetches what explains a connection where there are too many for all.
let asking = false;
async function ask(c) {
  if (asking) return;
  asking = true;
  try {
    const r = await fetch("json?explain=" + c.id);
    if (r.ok) {
      const one = await r.json();
      [c.explain, c.ok] = [one.explain, one.ok];
    }
  } catch { /* the next look asks again */ }
  asking = false;
}

$("filter").addEventListener("input", e => {
  table.setFilter(e.target.value);
  filtered = table.words.length > 0 ? historyOf(table.list) : null;
  if (!head) return;
  showTotals();
  showSelected();
  showEnded();
});
$("pause").addEventListener("click", e => {
  paused = !paused;
  e.target.setAttribute("aria-pressed", paused);
  e.target.textContent = paused ? "go on" : "pause";
  if (!paused) show();
});

// connect hears the events, and tries again when they end.
function connect() {
  const source = new EventSource("events");
  const status = (text, name) => { $("status").textContent = text; $("status").className = name; };
  source.onmessage = m => { status("live", "live"); receive(JSON.parse(m.data)); };
  source.onerror = () => {
    status("not connected", "lost");
    lastT = 0;
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}
connect();
