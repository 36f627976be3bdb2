"use strict";

// The page hears of all connections by server-sent events: of everything in the
// first one, and then of what has changed. It keeps the last POINTS looks.

const POINTS = 180;
const MAX_HISTORIES = 2000; // connections whose history is kept before they are selected

const $ = id => document.getElementById(id);
const conns = new Map();
let columns = [], place = {};
let ticks = 0, lastT = 0, paused = false;
const times = [];
const history = SERIES.map(() => []); // of all connections

class Conn {
  constructor(fresh) {
    Object.assign(this, fresh);
    this.text = [this.protocol, this.over, this.role, this.label, this.remote, this.local, this.network].join(" ").toLowerCase();
    this.since = ticks;
    this.before = null;
    this.missed = this.send = this.receive = this.queued = null;
  }

  get(name) {
    const v = this.v[place[name]];
    return v === undefined ? null : v;
  }

  // per returns how fast a counter grows.
  per(name, dt) {
    const now = this.get(name), i = place[name];
    if (now === null || !this.before || this.before[i] === null || dt <= 0) return null;
    return Math.max(0, now - this.before[i]) / dt;
  }

  // step reckons what follows from this look and the one before.
  step(dt, keep) {
    const network = this.per("missed_network", dt), socket = this.per("missed_socket", dt), inbox = this.per("missed_inbox", dt);
    const bits = (rate, counter) => {
      const v = this.get(rate);
      if (v !== null) return v;
      const bytes = this.per(counter, dt);
      return bytes === null ? null : 8 * bytes;
    };
    this.missed = network === null && socket === null && inbox === null ? null : network + socket + inbox;
    this.send = bits("send_bps", "bytes_sent");
    this.receive = bits("receive_bps", "bytes_received");
    const sendQueue = this.get("send_queue_bytes"), readQueue = this.get("read_queue_bytes");
    this.queued = sendQueue === null && readQueue === null ? null : sendQueue + readQueue;
    this.now = [this.get("rtt_ms"), this.get("rtt_min_ms"), this.get("jitter_ms"), network, socket, inbox, this.per("messages_lost", dt),
      this.send, this.receive, this.get("acked_bps"), this.get("window"), this.get("in_flight"), sendQueue, readQueue];
    this.before = this.v.slice();
    if (!keep) {
      this.past = null;
      return;
    }
    if (!this.past) this.past = new Float32Array(SERIES.length * POINTS).fill(NaN);
    const at = ticks % POINTS;
    for (let i = 0; i < SERIES.length; i++) this.past[i * POINTS + at] = this.now[i] === null ? NaN : this.now[i];
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

// median returns the middle one of some numbers, null if there are none.
function median(list) {
  if (list.length === 0) return null;
  list.sort((a, b) => a - b);
  return list[list.length >> 1];
}

// overall returns what stands for all connections: the median of times, the sum
// of everything else.
function overall() {
  return SERIES.map((name, i) => {
    const known = [];
    for (const c of conns.values()) if (c.now && c.now[i] !== null) known.push(c.now[i]);
    if (name === "rtt" || name === "rttMin" || name === "jitter") return median(known);
    return known.length ? known.reduce((a, b) => a + b, 0) : null;
  });
}

const charts = new Charts($("charts"));
const table = new Table(select);
table.conns = conns;

function receive(e) {
  if (e.full) {
    conns.clear();
    columns = e.columns;
    place = Object.fromEntries(columns.map((name, i) => [name, i]));
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
  overall().forEach((v, i) => {
    history[i].push(v);
    if (history[i].length > POINTS) history[i].shift();
  });
  explained = e.explained;
  head = e;
  if (!paused) show();
  document.body.dataset.conns = conns.size;
  document.body.dataset.ticks = ticks;
}

let head = null, explained = true;

// show draws everything that has changed.
function show() {
  if (!head) return;
  const hidden = head.total - conns.size;
  $("totals").textContent = `${head.total} connection${head.total === 1 ? "" : "s"}` + (hidden > 0 ? `, of which the worst ${conns.size} are shown` : "");
  showListeners(head.listeners);
  showSelected();
  table.sort();
}

function showListeners(list) {
  const box = $("listeners");
  while (box.children.length > list.length) box.lastChild.remove();
  list.forEach((l, i) => {
    let el = box.children[i];
    if (!el) {
      el = document.createElement("div");
      el.className = "listener";
      el.append(document.createElement("b"), " ", document.createElement("span"));
      box.append(el);
    }
    const text = `${l.conns} now, ${l.accepted} accepted` + (l.refused ? `, ${l.refused} refused` : "") +
      (l.socket_drops ? `, ${l.socket_drops} dropped by the socket` : "") + (l.invalid ? `, ${l.invalid} invalid` : "") +
      (l.max_memory_bytes ? `, ${short(l.memory_bytes, "B")} of ${short(l.max_memory_bytes, "B")}` : "");
    el.firstChild.textContent = `${l.protocol} ${l.kind} ${l.addr}`;
    if (el.lastChild.textContent !== text) el.lastChild.textContent = text;
  });
}

function select() {
  show();
}

function showSelected() {
  const c = conns.get(table.selected);
  $("detail").hidden = !c;
  $("subject").textContent = c ? `${c.protocol}${c.over ? " over " + c.over : ""}, ${c.remote}, ${c.role}${c.label ? ", " + c.label : ""}` :
    "all connections: medians of times, sums of the rest";
  charts.show(times.slice(), c ? c.series() : history.map(line => line.slice()));
  if (!c) return;
  $("explain").textContent = c.explain || (explained ? "The protocol explains nothing." : "");
  if (!explained) ask(c);
  const list = $("figures");
  if (list.childElementCount !== columns.length) {
    list.replaceChildren(...columns.map(name => {
      const pair = document.createElement("div");
      const dt = document.createElement("dt");
      dt.textContent = name.replaceAll("_", " ");
      pair.append(dt, document.createElement("dd"));
      return pair;
    }));
  }
  columns.forEach((name, i) => {
    const text = c.v[i] === null ? "–" : String(c.v[i]);
    const dd = list.children[i].lastChild;
    if (dd.textContent !== text) dd.textContent = text;
  });
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
  table.filter = e.target.value;
  table.sort();
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
