// replay.js gives the golden vectors of the reliable protocol to volley.js, in node and
// in a browser.

const hex = (b) => Array.from(b, (v) => v.toString(16).padStart(2, "0")).join("");
const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (v) => parseInt(v, 16));

// payload is the generator that the traces use.
function payload(length, seed) {
  const b = new Uint8Array(length);
  for (let i = 0, x = seed; i < length; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    b[i] = x >>> 24;
  }
  return b;
}

// replay returns how many things it has compared in a file, and what differs.
export async function replay(volley, name, text) {
  const lines = text.trim().split("\n").map((l) => JSON.parse(l));
  const result = { checks: 0, problems: [] };
  const check = (got, want, what) => {
    result.checks++;
    const a = JSON.stringify(got), b = JSON.stringify(want);
    if (a !== b && result.problems.length < 10) result.problems.push(`${name}: ${what}: ${a}, want ${b}`);
  };
  if (name.startsWith("trace_")) await trace(volley, lines, check);
  else codecs[name](volley, lines, check);
  return result;
}

const codecs = {
  "packet_header_encode.jsonl": encode,
  "conformance_headers.jsonl": encode,
  "packet_header_decode.jsonl"(volley, lines, check) {
    for (const l of lines) {
      const h = volley.readHeader(bytes(l.hex));
      check(h !== null, l.ok, l.hex);
      if (!h || !l.ok) continue;
      check([h.sequence, h.ack, h.bits, h.size], [l.sequence, l.ack, l.ack_bits, l.header_bytes], l.hex);
      check(l.hex.startsWith(hex(volley.writeHeader(h.sequence, h.ack, h.bits))), l.canonical, l.hex + " canonical");
    }
  },
  "fragment_header_decode.jsonl"(volley, lines, check) {
    for (const l of lines) {
      const f = volley.readFragment(bytes(l.hex), l.max_fragments, l.fragment_size);
      check(f !== null, l.ok, l.hex);
      if (!f || !l.ok) continue;
      check([f.sequence, f.id, f.count, f.data.length], [l.sequence, l.fragment_id, l.num_fragments, l.fragment_bytes], l.hex);
      if (f.id === 0) check([f.header.ack, f.header.bits, f.header.size], [l.ack, l.ack_bits, l.embedded_header_bytes], l.hex);
    }
  },
  "sequence_compare.jsonl"(volley, lines, check) {
    for (const l of lines) check([volley.newer(l.a, l.b), volley.newer(l.b, l.a)], [l.greater, l.less], `${l.a} ${l.b}`);
  },
  "sequence_buffer.jsonl"(volley, lines, check) {
    for (const l of lines) {
      const w = new volley.Window(l.size);
      l.ops.forEach(([op, s, want, bits], i) => {
        const what = `size ${l.size} op ${i} ${op} ${s}`;
        switch (op) {
          case "insert": return check(w.insert(s, true), want, what);
          case "insert_cleanup": return check(w.replace(s, true), want, what);
          case "can_insert": return check(!w.stale(s), want, what);
          case "exists": return check(w.has(s), want, what);
          case "advance": return w.advance(s);
          case "remove": return w.remove(s);
          case "reset": return w.clear();
          case "acks": return check(w.acks(), [s, want], what);
          default: check(op, "", "unknown operation");
        }
      });
    }
  },
  "conformance_fragments.jsonl"(volley, lines, check) {
    for (const l of lines) conformanceFragments(volley, l, check);
  },
};

function encode(volley, lines, check) {
  for (const l of lines) check(hex(volley.writeHeader(l.sequence, l.ack, l.ack_bits)), l.hex, `${l.sequence} ${l.ack} ${l.ack_bits}`);
}

function conformanceFragments(volley, l, check) {
  const config = { maxPacketSize: l.max_packet_size, maxFragments: l.max_fragments, fragmentSize: l.fragment_size, fragmentAbove: l.fragment_above };
  const message = Uint8Array.from({ length: l.payload_bytes }, (_, i) => i * 7);
  const from = new volley.Endpoint(config), to = new volley.Endpoint(config), got = [];
  to.process = (sequence, b) => got.push([sequence, hex(b)]);
  from.sequence = l.sequence;
  check(from.send(message).map(hex), l.datagrams, "fragments");
  for (const d of l.datagrams) to.receive(bytes(d));
  check(got, [[l.sequence, hex(message)]], "the message");
}

const order = [
  "packets_sent", "packets_received", "packets_acked", "packets_stale", "packets_invalid", "packets_too_large_to_send",
  "packets_too_large_to_receive", "fragments_sent", "fragments_received", "fragments_invalid", "packets_duplicate",
];

// A side is one endpoint of a trace.
function side(volley, c) {
  const e = new volley.Endpoint({
    maxPacketSize: c.max_packet_size, fragmentAbove: c.fragment_above, maxFragments: c.max_fragments, fragmentSize: c.fragment_size,
    acks: c.ack_buffer_size, sent: c.sent_packets_buffer_size, received: c.received_packets_buffer_size, reassembly: c.fragment_reassembly_buffer_size,
  });
  const s = { e, accept: true, rx: [], figures: new Figures(e, c) };
  e.process = (sequence, b, h) => {
    s.rx.push({ sequence, b: hex(b), accepted: s.accept });
    if (s.accept) s.figures.receive(sequence, h.size + b.length);
    return s.accept;
  };
  e.acked = (sequence, entry) => s.figures.sample(sequence, entry);
  return s;
}

const f32 = Math.fround;

// Figures are the reference's estimators over the windows of an endpoint, with its
// roundings: so the traces tell which packets the endpoint holds, when each left or came,
// and when it was acknowledged.
class Figures {
  constructor(endpoint, config) {
    this.e = endpoint;
    this.config = config;
    this.now = 0;
    this.received = []; // by sequence
    this.history = new Float32Array(config.rtt_history_size).fill(-1);
    this.rtt = this.loss = this.sent = this.acked = this.came = 0;
  }
  // entry is that of a packet that is sent.
  entry(length) {
    return { at: this.now, bytes: this.config.packet_header_size + length };
  }
  receive(sequence, length) {
    this.received[sequence] = this.entry(length);
  }
  sample(sequence, { at }) {
    const ms = f32(f32(this.now - at) * 1000), apart = f32(this.rtt - ms);
    this.history[sequence % this.history.length] = ms;
    if ((this.rtt === 0 && ms > 0) || Math.abs(apart) < 0.00001) this.rtt = ms;
    else this.rtt = f32(this.rtt + f32(f32(ms - this.rtt) * this.config.rtt_smoothing_factor));
  }
  // update takes the time, and returns the figures in the order of names.
  update(t) {
    this.now = t;
    const { e, config } = this, samples = [...this.history].filter((v) => v >= 0), n = samples.length;
    const mean = (f) => (n ? f32(samples.reduce((sum, v) => f32(sum + f(v)), 0) / n) : 0);
    let min = samples.reduce((a, b) => Math.min(a, b), 10000);
    if (min >= 10000) min = 0;
    const max = samples.reduce((a, b) => Math.max(a, b), 0), average = mean((v) => v);
    const square = (v) => f32(f32(v - average) * f32(v - average));

    const sent = half(e.sent, (s) => e.sent.get(s)), acked = sent.filter((p) => p.acked);
    const loss = sent.length && f32(f32(f32(sent.length - acked.length) / sent.length) * 100);
    this.loss = sent.length ? smooth(this.loss, loss, config.packet_loss_smoothing_factor) : 0;
    const rate = (old, packets) => {
      const times = packets.map((p) => p.at), span = Math.max(...times) - Math.min(...times);
      const kilobits = packets.reduce((sum, p) => sum + p.bytes, 0) * 8 / 1000;
      return span > 0 ? smooth(old, f32(kilobits / span), config.bandwidth_smoothing_factor) : old;
    };
    this.sent = rate(this.sent, sent);
    this.acked = rate(this.acked, acked);
    this.came = rate(this.came, half(e.received, (s) => this.received[s]));
    return [
      this.rtt, min, max, average, mean((v) => f32(v - min)), n ? f32(max - min) : 0, f32(Math.sqrt(mean(square))),
      this.loss, this.sent, this.came, this.acked,
    ];
  }
}

const names = [
  "rtt", "rtt_min", "rtt_max", "rtt_avg", "jitter_avg_vs_min_rtt", "jitter_max_vs_min_rtt", "jitter_stddev_vs_avg_rtt",
  "packet_loss", "sent_kbps", "received_kbps", "acked_kbps",
];

const smooth = (old, to, factor) => (Math.abs(f32(old - to)) > 0.00001 ? f32(old + f32(f32(to - old) * factor)) : to);

// half returns what is in the older half of a window.
function half(window, get) {
  const all = [];
  for (let i = 0; i < window.size >> 1; i++) {
    const s = (window.next - window.size + i) & 0xffff;
    if (window.has(s)) all.push(get(s));
  }
  return all;
}

// checkFigures compares figures with those of the reference, which has other roundings on
// some machines.
function checkFigures(got, want, check, what) {
  const far = names.filter((n, i) => !(Math.abs(got[i] - want[n]) <= 1e-4 + 1e-5 * Math.abs(want[n])));
  check(far.map((n) => [n, got[names.indexOf(n)]]), far.map((n) => [n, want[n]]), what + " figures");
}

async function trace(volley, lines, check) {
  const { config } = lines[0];
  const sides = { a: side(volley, config.a), b: side(volley, config.b) };
  for (const s of Object.values(sides)) s.figures.now = lines[0].t0;
  const all = []; // datagrams
  for (const [i, l] of lines.entries()) {
    if (i === 0) continue;
    const s = sides[l.ep], what = `line ${i + 1} ${l.op}`, before = s && { ...s.e.counters };
    switch (l.op) {
      case "update":
        checkFigures(s.figures.update(l.t), l.stats, check, what);
        check(order.map((n) => s.e.counters[n]), l.counters, what);
        check([s.e.sequence, s.e.acks.length], [l.next_seq, l.num_acks], what);
        break;
      case "send": {
        const sequence = s.e.sequence, out = s.e.send(payload(l.len, l.seed), s.figures.entry(l.len));
        check(out === null ? null : sequence, l.seq, what);
        check((out ?? []).map(hex), (l.tx ?? []).map((d) => d.hex), what);
        for (const d of out ?? []) all.push(d);
        break;
      }
      case "deliver": case "inject": {
        const acks = s.e.acks.length;
        s.rx = [];
        s.e.receive(l.op === "inject" ? bytes(l.hex) : all[l.i].slice());
        check(s.e.acks.slice(acks), l.acks ?? [], what);
        check(
          s.rx.map((r) => [r.sequence, r.b, r.accepted]),
          (l.rx ?? []).map((r) => [r.seq, r.hex ?? hex(payload(r.len, r.seed)), r.accepted ?? true]), what);
        break;
      }
      case "clear_acks": s.e.acks = []; break;
      case "accept": s.accept = l.value; break;
      case "reset": s.e.reset(); break;
      case "bulk": await bulk(sides, l, all, check, what); break;
      case "drop": break;
      default: check(l.op, "", "unknown operation");
    }
    if (["send", "deliver", "inject"].includes(l.op)) {
      const changed = {};
      for (const n of order) if (s.e.counters[n] !== before[n]) changed[n] = s.e.counters[n] - before[n];
      check(Object.entries(changed).sort(), Object.entries(l.dc ?? {}).sort(), what);
    }
  }
}

const sha256 = async (parts) => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", await new Blob(parts).arrayBuffer())));
const u16 = (list) => new Uint8Array(Uint16Array.from(list).buffer); // every machine with a browser is little-endian

async function bulk({ a, b }, l, all, check, what) {
  const out = [], acksA = [], acksB = [];
  let left = [];
  a.rx = [];
  b.rx = [];
  const note = (datagrams) => {
    for (const d of datagrams) out.push(u16([d.length]), d);
    all.push(...datagrams);
    return datagrams;
  };
  const collect = () => {
    acksA.push(...a.e.acks.splice(0));
    acksB.push(...b.e.acks.splice(0));
  };
  const last = [];
  for (let k = 0; k < l.count; k++) {
    if (k % l.update_every === 0) {
      for (const [i, s] of [a, b].entries()) last[i] = s.figures.update(l.t + (k / l.update_every) * l.dt);
    }
    for (const d of left) a.e.receive(d);
    for (const d of note(a.e.send(payload(l.len, l.seed + 2 * k), a.figures.entry(l.len)))) b.e.receive(d);
    left = note(b.e.send(payload(l.len, l.seed + 2 * k + 1), b.figures.entry(l.len)));
    collect();
  }
  for (const d of left) a.e.receive(d);
  collect();
  check(out.length / 2, l.datagrams, what);
  check(await sha256(out), l.sha256, what);
  check([a.rx.length, b.rx.length], [l.rx_a, l.rx_b], what);
  for (const [list, want] of [[acksA, [l.acks_a, l.acks_a_sha256]], [acksB, [l.acks_b, l.acks_b_sha256]]]) check([list.length, await sha256([u16(list)])], want, what);
  // The round trip changes with each acknowledgement, the others with an update.
  checkFigures([a.figures.rtt, ...last[0].slice(1)], l.a.stats, check, what);
  checkFigures([b.figures.rtt, ...last[1].slice(1)], l.b.stats, check, what);
  for (const [s, want] of [[a, l.a], [b, l.b]]) check([order.map((n) => s.e.counters[n]), s.e.sequence], [want.counters, want.next_seq], what);
}
