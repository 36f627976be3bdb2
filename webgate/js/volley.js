// volley.js is the client of package volley for browsers. It has no dependencies.
//
//	import { dial } from "./volley.js"
//	const c = await dial("https://play.example:7443/join", { ticket })
//	c.onmessage = bytes => …
//	const receipt = await c.send(bytes)
//
// volley.d.ts describes everything that it exports.

// ---- The format: docs/reliable.md, section 1

// newer tells whether sequence a is newer than b.
export const newer = (a, b) => (a > b && a - b <= 32768) || (a < b && b - a > 32768);

// writeHeader returns the header of a packet, in the only form that a sender may use.
export function writeHeader(sequence, ack, bits) {
  const out = [0, sequence & 255, sequence >> 8];
  const back = (sequence - ack) & 0xffff;
  if (back <= 255) {
    out[0] |= 32;
    out.push(back);
  } else {
    out.push(ack & 255, ack >> 8);
  }
  for (let i = 0; i < 4; i++) {
    const b = (bits >>> (8 * i)) & 255;
    if (b !== 255) {
      out[0] |= 2 << i;
      out.push(b);
    }
  }
  return Uint8Array.from(out);
}

// readHeader reads the header of a packet. It returns null if there is none.
export function readHeader(b) {
  if (b.length < 3 || b[0] & 1) return null;
  const short = b[0] & 32;
  let size = short ? 4 : 5;
  if (b.length < size) return null;
  const sequence = b[1] | (b[2] << 8);
  const ack = short ? (sequence - b[3]) & 0xffff : b[3] | (b[4] << 8);
  let bits = 0;
  for (let i = 0; i < 4; i++) {
    if (!(b[0] & (2 << i))) {
      bits |= 255 << (8 * i);
    } else if (size < b.length) {
      bits |= b[size++] << (8 * i);
    } else {
      return null;
    }
  }
  return { sequence, ack, bits: bits >>> 0, size };
}

// readFragment reads a fragment. It returns null if it must be refused.
export function readFragment(b, maxFragments, fragmentSize) {
  if (b.length < 5 || b[0] !== 1) return null;
  const sequence = b[1] | (b[2] << 8), id = b[3], count = b[4] + 1;
  if (count > maxFragments || id >= count) return null;
  let data = b.subarray(5), header = null;
  if (id === 0) {
    header = readHeader(data);
    if (!header || header.sequence !== sequence) return null;
    const form = writeHeader(sequence, header.ack, header.bits);
    if (form.length !== header.size || form.some((v, i) => v !== data[i])) return null;
    data = data.subarray(header.size);
  }
  if (data.length > fragmentSize || (id < count - 1 && data.length !== fragmentSize)) return null;
  return { sequence, id, count, header, data };
}

// ---- The endpoint: docs/reliable.md, section 2

// A Window remembers something for each of the last sequences.
export class Window {
  constructor(size) {
    this.size = size;
    this.clear();
  }
  clear() {
    this.next = 0;
    this.sequences = new Int32Array(this.size).fill(-1);
    this.entries = new Array(this.size);
  }
  has(s) {
    return this.sequences[s % this.size] === s;
  }
  get(s) {
    return this.has(s) ? this.entries[s % this.size] : undefined;
  }
  stale(s) {
    return newer((this.next - this.size) & 0xffff, s);
  }
  // remove empties the place of a sequence, whatever is there, as the reference does.
  remove(s) {
    this.free(s % this.size);
  }
  free(slot) {
    this.sequences[slot] = -1;
    this.entries[slot] = undefined;
  }
  // advance moves the window to a sequence, if it is ahead.
  advance(s) {
    const next = (s + 1) & 0xffff;
    if (!newer(next, this.next)) return false;
    const ahead = (s - this.next) & 0xffff;
    for (let i = 0; i <= Math.min(ahead, this.size - 1); i++) this.free((this.next + i) % this.size);
    this.next = next;
    return true;
  }
  insert(s, entry) {
    if (this.stale(s)) return false;
    this.advance(s);
    this.put(s, entry);
    return true;
  }
  // replace is insert for reassemblies, which looks first whether s is ahead.
  replace(s, entry) {
    if (!this.advance(s) && this.stale(s)) return false;
    this.put(s, entry);
    return true;
  }
  put(s, entry) {
    this.sequences[s % this.size] = s;
    this.entries[s % this.size] = entry;
  }
  // acks returns the ack and the bits of a header that leaves now.
  acks() {
    const ack = (this.next - 1) & 0xffff;
    let bits = 0;
    for (let i = 0; i < 32; i++) if (this.has((ack - i) & 0xffff)) bits |= 1 << i;
    return [ack, bits >>> 0];
  }
}

const defaults = {
  maxPacketSize: 16384, fragmentAbove: 1024, maxFragments: 16, fragmentSize: 1024,
  acks: 256, sent: 256, received: 256, reassembly: 64,
};

// An Endpoint is the state of the protocol on one side: it takes payloads and datagrams,
// and knows no clock and no network.
export class Endpoint {
  constructor(config) {
    this.config = { ...defaults, ...config };
    this.sent = new Window(this.config.sent);
    this.received = new Window(this.config.received);
    this.reassembly = new Window(this.config.reassembly);
    this.process = () => true; // (sequence, payload) => whether the payload is taken
    this.acked = () => {}; // (sequence, entry), for each packet that was acknowledged
    this.reset();
  }
  reset() {
    this.sequence = 0;
    this.acks = [];
    this.counters = {
      packets_sent: 0, packets_received: 0, packets_acked: 0, packets_stale: 0, packets_invalid: 0,
      packets_too_large_to_send: 0, packets_too_large_to_receive: 0, fragments_sent: 0, fragments_received: 0,
      fragments_invalid: 0, packets_duplicate: 0,
    };
    for (const w of [this.sent, this.received, this.reassembly]) w.clear();
  }
  // begin has the first packet carry a sequence other than 0.
  begin(sequence) {
    this.sequence = this.sent.next = sequence;
  }
  // meet takes up a peer whose first datagram is b, whatever its sequence.
  meet(b) {
    if (b.length >= 3) this.received.next = this.reassembly.next = b[1] | (b[2] << 8);
  }
  // send returns the datagrams of a payload, or null if it is too large. The entry is
  // handed to acked, and ack and bits stand in the place of those of the header.
  send(payload, entry = {}, [ack, bits] = this.received.acks()) {
    const { maxPacketSize, fragmentAbove, fragmentSize } = this.config;
    if (payload.length > maxPacketSize) {
      this.counters.packets_too_large_to_send++;
      return null;
    }
    const sequence = this.sequence;
    this.sequence = (sequence + 1) & 0xffff;
    entry.acked = false;
    this.sent.insert(sequence, entry);
    const header = writeHeader(sequence, ack, bits), out = [];
    if (payload.length <= fragmentAbove) {
      out.push(join(header, payload));
    } else {
      const count = Math.ceil(payload.length / fragmentSize);
      for (let id = 0; id < count; id++) {
        const head = [1, sequence & 255, sequence >> 8, id, count - 1];
        out.push(join(head, id ? [] : header, payload.subarray(id * fragmentSize, (id + 1) * fragmentSize)));
        this.counters.fragments_sent++;
      }
    }
    this.counters.packets_sent++;
    return out;
  }
  // receive handles a datagram.
  receive(b) {
    if (b.length > this.config.maxPacketSize + 14) this.counters.packets_too_large_to_receive++;
    else if (b.length === 0) this.counters.packets_invalid++;
    else if (b[0] & 1) this.fragment(b);
    else this.packet(b);
  }
  packet(b) {
    const n = this.counters, h = readHeader(b);
    n.packets_received++;
    if (!h) n.packets_invalid++;
    else if (b.length - h.size > this.config.maxPacketSize) n.packets_too_large_to_receive++;
    else if (this.received.stale(h.sequence)) n.packets_stale++;
    else if (this.received.has(h.sequence)) n.packets_duplicate++;
    else if (this.process(h.sequence, b.subarray(h.size), h)) {
      this.received.insert(h.sequence, true);
      this.reassembly.advance(h.sequence);
      this.acknowledge(h);
    }
  }
  acknowledge({ ack, bits }) {
    for (let i = 0; i < 32; i++) {
      const s = (ack - i) & 0xffff;
      if (!((bits >>> i) & 1)) continue;
      const entry = this.sent.get(s);
      if (!entry || entry.acked || this.acks.length >= this.config.acks) continue;
      this.acks.push(s);
      this.counters.packets_acked++;
      entry.acked = true;
      this.acked(s, entry);
    }
  }
  fragment(b) {
    const n = this.counters, f = readFragment(b, this.config.maxFragments, this.config.fragmentSize);
    if (!f) {
      n.fragments_invalid++;
      return;
    }
    const s = f.sequence;
    if (this.received.has(s)) return;
    let r = this.reassembly.get(s);
    if (!r) {
      r = { count: f.count, left: f.count, parts: [], header: null };
      if (!this.reassembly.replace(s, r)) {
        n.fragments_invalid++;
        return;
      }
      this.received.advance(s);
    }
    if (r.count !== f.count) {
      n.fragments_invalid++;
      return;
    }
    if (r.parts[f.id]) return;
    r.parts[f.id] = f.data;
    if (f.header) r.header = b.subarray(5, 5 + f.header.size);
    if (--r.left === 0) {
      const whole = join(r.header, ...r.parts);
      if (whole.length > this.config.maxPacketSize + 14) n.packets_too_large_to_receive++;
      else this.packet(whole);
      this.reassembly.remove(s);
    }
    n.fragments_received++;
  }
}

function join(...parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

// ---- A session: one endpoint over one link, with the greetings of section 1.4

const HELLO = 5, QUESTION = 7, ANSWER = 9, CONFIRM = 11, REFUSAL = 13, GOODBYE = 15, HEARD = 17;

// All times are in milliseconds.
const ACK_DELAY = 25, // the longest that an acknowledgement waits
  ACK_AT_ONCE = 8, // acknowledgements that do not wait any longer
  MEASURE = 16, // of so many messages one is answered at once, so that the server measures
  KEEPALIVE = 5000, IDLE = 30000, LOST_AFTER = 10000, PEER_DELAY = 150, MAX_PROBES = 6,
  ASK_EVERY = 100, FAST_ASKS = 8, MAX_ASKS = 14, UNREAD = 1024;

const now = () => performance.now();

function token() {
  const b = new Uint8Array(8);
  do crypto.getRandomValues(b);
  while (b.every((v) => v === 0));
  return b;
}

const equal = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);
const zero = new Uint8Array(8);

// A Session sends and receives messages on a link until either side ends it.
class Session {
  constructor(link, config, events) {
    this.link = link;
    this.events = events; // message(bytes), end({ reason, error })
    this.own = token();
    this.peer = null;
    this.protocol = new Uint8Array(8);
    new DataView(this.protocol.buffer).setBigUint64(0, BigInt(config.protocol ?? 0), true);
    const e = (this.endpoint = new Endpoint({
      maxPacketSize: config.maxMessageSize, maxFragments: Math.ceil(config.maxMessageSize / config.fragmentSize),
      fragmentSize: config.fragmentSize, fragmentAbove: Math.max(config.fragmentSize, Math.min(1200, link.max - 9)),
      acks: Infinity, sent: 1024, received: 1024,
    }));
    e.begin(1 + (crypto.getRandomValues(new Uint16Array(1))[0] % 32511));
    e.process = (s, payload, h) => this.packet(s, payload, h);
    e.acked = (s, entry) => this.acked(s, entry);
    const t = now();
    this.pending = new Map(); // what has no fate yet, by sequence, the oldest first
    this.waiting = 0; // messages that are not acknowledged yet
    this.ackAt = Infinity;
    this.messages = 0;
    this.rtt = this.latest = this.jitter = 0;
    this.measured = false; // the server answers to measure
    this.ackedAt = -Infinity; // when the newest packet that was acknowledged had left
    this.heardAt = this.sentAt = t;
    this.probes = 0;
    this.probeAt = Infinity;
    this.asks = 0;
    this.askAt = t;
    this.fates = []; // of the last messages: was it delivered?
    this.figures = { sent: 0, received: 0, delivered: 0, lost: 0, bytesSent: 0, bytesReceived: 0 };
    this.timer = null;
    this.over = false;
    this.open = new Promise((resolve, reject) => ((this.opened = resolve), (this.failed = reject)));
    this.open.catch(() => {});
    link.ondatagram = (b) => this.receive(b);
    link.onend = (error) => this.end({ error });
    this.empty(true);
    this.tick();
  }

  // send sends a message, and returns a promise of its receipt.
  send(payload) {
    const t = now(), s = this.endpoint.sequence;
    return new Promise((resolve) => {
      const entry = { at: t, resolve };
      const datagrams = this.endpoint.send(payload, entry);
      this.pending.set(s, entry);
      this.figures.sent++;
      this.figures.bytesSent += payload.length;
      this.leave(datagrams);
      this.probes = 0;
      this.probeAt = t + this.patience();
      this.schedule();
    });
  }

  // empty sends a packet without a payload. With bit 0 of its acks set it says that it
  // left when the packet that it acknowledges came.
  empty(prompt) {
    let [ack, bits] = this.endpoint.received.acks();
    if (!prompt) [ack, bits] = [(ack + 1) & 0xffff, (bits << 1) >>> 0];
    this.leave(this.endpoint.send(zero.subarray(0, 0), { at: now() }, [ack, bits]));
  }

  // leave sends datagrams that begin with a header, and so acknowledge.
  leave(datagrams) {
    for (const d of datagrams) this.link.send(d);
    this.sentAt = now();
    this.waiting = 0;
    this.ackAt = Infinity;
  }

  receive(b) {
    if (this.over || b.length === 0) return;
    this.heardAt = now();
    if (b[0] & 1 && b[0] !== 1) this.control(b);
    else {
      if (!this.met) this.endpoint.meet(b);
      this.met = true;
      this.endpoint.receive(b);
    }
    if (!this.over) this.tick(); // timers of hidden pages are late
  }

  // packet handles a packet that is new, before it counts as received.
  packet(s, payload, h) {
    const e = this.endpoint, ahead = (s - e.received.next) & 0xffff;
    this.note(h, payload.length === 0);
    if (payload.length === 0) {
      // A gap in front of an empty packet may be a probe.
      if (ahead > 0 && ahead < 32768 && e.counters.packets_received > 1) queueMicrotask(() => this.over || this.empty(false));
      return true;
    }
    this.messages++;
    this.waiting++;
    this.figures.received++;
    this.figures.bytesReceived += payload.length;
    const prompt = ahead === 0 && (this.messages <= 3 || this.messages % MEASURE === 0);
    if (prompt || this.waiting >= ACK_AT_ONCE) {
      // The packet counts as received only after this call.
      queueMicrotask(() => this.over || this.empty(prompt && e.received.next === ((s + 1) & 0xffff)));
    } else {
      this.ackAt = Math.min(this.ackAt, now() + ACK_DELAY);
    }
    this.events.message(payload);
    return !this.over;
  }

  // note takes a sample of the round trip from a header, if it has not waited.
  note({ ack, bits }, empty) {
    this.sampling = null;
    if (!empty || !(bits & 1)) return;
    this.measured = true;
    this.sampling = ack;
  }

  acked(s, entry) {
    const t = now();
    if (s === this.sampling || (!this.measured && entry.resolve)) this.sample(t - entry.at);
    this.ackedAt = Math.max(this.ackedAt, entry.at);
    this.settle(s, entry, true, t);
    this.endpoint.acks.length = 0;
  }

  sample(rtt) {
    this.latest = rtt;
    if (this.rtt === 0) {
      this.rtt = rtt;
      this.jitter = rtt / 2;
    } else {
      this.jitter += (Math.abs(rtt - this.rtt) - this.jitter) / 4;
      this.rtt += (rtt - this.rtt) / 8;
    }
  }

  // settle gives a message its receipt.
  settle(s, entry, delivered, t) {
    if (this.pending.get(s) !== entry) return;
    this.pending.delete(s);
    this.fates.push(delivered);
    if (this.fates.length > 64) this.fates.shift();
    this.figures[delivered ? "delivered" : "lost"]++;
    entry.resolve({ delivered, rtt: delivered ? t - entry.at : 0 });
  }

  // patience is how long the acknowledgement of the last message may take.
  patience() {
    return (this.rtt || 250) * 1.25 + PEER_DELAY;
  }

  // judge gives up messages that are overtaken by acknowledged ones, or too old.
  judge(t) {
    const margin = Math.max(this.rtt, this.latest) * 1.125 + this.jitter + 5;
    for (const [s, entry] of this.pending) {
      const behind = (this.endpoint.sequence - s) & 0xffff;
      if (entry.at + margin >= this.ackedAt && t - entry.at < LOST_AFTER && behind < 1024) return;
      this.settle(s, entry, false, t);
    }
  }

  control(b) {
    const mine = b.length >= 9 && equal(b.subarray(1, 9), this.own);
    const theirs = b.slice(1, 9);
    switch (b[0]) {
      case HELLO: case QUESTION:
        if (b.length === 25) this.salute(ANSWER, theirs);
        break;
      case ANSWER: case CONFIRM:
        if (b.length !== 25 || !equal(b.subarray(9, 17), this.own)) break;
        this.peer = theirs;
        this.askAt = Infinity;
        if (!this.agrees(b.subarray(17))) {
          this.link.send(join([GOODBYE], theirs, cut("protocol")));
          this.refused("protocol");
          break;
        }
        if (b[0] === ANSWER) this.salute(CONFIRM, theirs);
        this.opened();
        break;
      case REFUSAL:
        if (mine && !this.peer) this.refused(text(b));
        break;
      case GOODBYE:
        if (!mine) break;
        this.link.send(join([HEARD], this.own));
        this.end({ reason: text(b) });
        break;
      case HEARD:
        if (this.parting && equal(theirs, this.peer)) this.parting();
    }
  }

  // agrees tells whether the server's protocol goes with ours: 0 goes with any.
  agrees(protocol) {
    return [this.protocol, protocol].some((p) => equal(p, zero)) || equal(this.protocol, protocol);
  }

  refused(reason) {
    this.end({ reason, error: Object.assign(new Error("volley: refused: " + reason), { refused: true }) }, true);
    setTimeout(() => this.link.close(), 100); // so that the goodbye leaves
  }

  // salute sends one of the datagrams of the greeting.
  salute(kind, echo) {
    this.link.send(join([kind], this.own, echo, this.protocol));
  }

  // tick does what is due, and waits for what comes next.
  tick() {
    const t = now();
    if (t - this.heardAt >= IDLE) return this.end({ error: new Error("volley: nothing was heard for 30 s") });
    this.judge(t);
    if (t >= this.askAt) {
      this.salute(this.endpoint.counters.packets_received ? QUESTION : HELLO, zero);
      if (this.asks) this.empty(false);
      this.asks++;
      this.askAt = this.asks >= MAX_ASKS ? Infinity : t + ASK_EVERY * 2 ** Math.max(0, this.asks - FAST_ASKS);
    }
    if (t >= this.probeAt) {
      if (this.pending.size && this.ackedAt > 0 && this.probes < MAX_PROBES) {
        this.endpoint.sequence = (this.endpoint.sequence + 1) & 0xffff; // the gap is answered
        this.empty(false);
        this.probeAt = t + this.patience() * 2 ** ++this.probes;
      } else {
        this.probeAt = Infinity;
      }
    }
    if (t >= this.ackAt || t - this.sentAt >= KEEPALIVE) this.empty(false);
    this.schedule();
  }

  schedule() {
    const first = this.pending.size ? this.pending.values().next().value.at + LOST_AFTER : Infinity;
    const next = Math.min(this.ackAt, this.probeAt, this.askAt, first, this.sentAt + KEEPALIVE, this.heardAt + IDLE);
    if (this.timer !== null && this.due <= next) return;
    clearTimeout(this.timer);
    this.due = next;
    this.timer = setTimeout(() => ((this.timer = null), this.over || this.tick()), Math.max(0, Math.ceil(next - now())));
  }

  // close says goodbye, until the server has heard it, and ends the session.
  async close(reason = "") {
    if (this.over) return;
    const rtt = this.rtt;
    this.end({ reason, closed: true }, true);
    if (this.peer) {
      const goodbye = join([GOODBYE], this.peer, cut(reason));
      const heard = new Promise((resolve) => (this.parting = resolve));
      this.link.ondatagram = (b) => b[0] & 1 && this.control(b);
      let left = 5;
      const gap = Math.min(250, Math.max(5, rtt / 2 || 50));
      for (this.link.send(goodbye); left-- > 1; ) {
        this.link.send(goodbye);
        if (await Promise.race([heard.then(() => true), new Promise((r) => setTimeout(r, gap))])) break;
      }
    }
    this.link.close();
  }

  // end ends the session. Messages without a fate are lost.
  end(why, keep) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    const t = now();
    for (const [s, entry] of [...this.pending]) this.settle(s, entry, false, t);
    if (!keep) this.link.close();
    this.failed(why.error ?? new Error("volley: closed by the server: " + why.reason));
    this.events.end(why);
  }

  get loss() {
    const lost = this.fates.filter((f) => !f).length;
    return this.fates.length ? lost / this.fates.length : 0;
  }
}

// text returns the reason in a datagram.
const text = (b) => new TextDecoder().decode(b.subarray(9)).replace(/\p{C}/gu, "\ufffd");

// cut returns at most 64 bytes of a reason.
const cut = (reason) => {
  const b = new Uint8Array(64);
  return b.subarray(0, new TextEncoder().encodeInto(reason, b).written);
};

// ---- Links

const OUTGOING = 256, // datagrams that wait to be sent; more are dropped
  BURST = 12, // datagrams that leave together: a server's queue for a session holds 32
  PAUSE = 4; // then the next ones leave

async function openWebTransport(url, config) {
  const options = { congestionControl: "low-latency" };
  if (config.certificateHash) {
    const value = Uint8Array.from(atob(config.certificateHash), (c) => c.charCodeAt(0));
    options.serverCertificateHashes = [{ algorithm: "sha-256", value }];
  }
  const wt = new WebTransport(url, options);
  wt.closed.catch(() => {});
  await within(config.timeout, wt.ready, () => wt.close());
  const d = wt.datagrams;
  d.incomingHighWaterMark = OUTGOING;
  d.outgoingHighWaterMark = OUTGOING;
  const writer = (d.createWritable ? d.createWritable() : d.writable).getWriter();
  writer.closed.catch(() => {});
  let waiting = 0, burst = 0, began = 0, timer = null;
  const sent = () => void waiting--;
  const queue = [];
  // flush sends what may leave now.
  const flush = () => {
    timer = null;
    if (now() - began >= PAUSE) {
      burst = 0;
      began = now();
    }
    for (; queue.length && burst < BURST; burst++) writer.write(queue.shift()).then(sent, sent);
    if (queue.length) timer = setTimeout(flush, PAUSE);
  };
  const link = {
    name: "webtransport",
    max: d.maxDatagramSize || 1215,
    dropped: 0,
    send(b) {
      if (waiting >= OUTGOING) return void link.dropped++;
      waiting++;
      queue.push(b);
      if (timer === null) flush();
    },
    close() {
      try {
        wt.close();
      } catch {} // it has ended
    },
  };
  (async () => {
    const reader = d.readable.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        link.ondatagram?.(value);
      }
      await wt.closed;
      link.onend?.(new Error("volley: the session has ended"));
    } catch (error) {
      link.onend?.(error);
    }
  })();
  return link;
}

async function openWebSocket(url, config) {
  const ws = new WebSocket(url.replace(/^http/, "ws"));
  ws.binaryType = "arraybuffer";
  const link = {
    name: "websocket",
    max: 1215,
    dropped: 0,
    send(b) {
      if (ws.readyState !== 1 || ws.bufferedAmount > OUTGOING * 1200) return void link.dropped++;
      ws.send(b);
    },
    close: () => ws.close(),
  };
  const open = new Promise((resolve, reject) => {
    ws.onopen = resolve;
    ws.onclose = () => {
      const error = new Error("volley: the WebSocket has ended");
      reject(error);
      link.onend?.(error);
    };
  });
  ws.onmessage = ({ data }) => data instanceof ArrayBuffer && link.ondatagram?.(new Uint8Array(data));
  await within(config.timeout, open, () => ws.close());
  return link;
}

// within waits for a promise for some time, and then gives up.
function within(ms, promise, giveUp) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error("volley: no answer within " + ms + " ms"));
      giveUp();
    }, ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

// ---- The connection

const MAX_MESSAGE = 65536, // what the queues on the way hold
  BACKOFF = 250, MAX_BACKOFF = 8000;

// A Connection is what dial returns: a session, and the next one if that is lost.
class Connection {
  #config;
  #url;
  #session = null;
  #unread = [];
  #onmessage = null;
  #past = { sent: 0, received: 0, delivered: 0, lost: 0, bytesSent: 0, bytesReceived: 0, dropped: 0, redials: 0 };
  #wake = () => {};

  constructor(url, config) {
    this.#url = url;
    this.#config = config;
    this.state = "dialing";
    this.onclose = this.onredial = null;
  }

  async _dial() {
    const errors = [];
    for (const kind of this.#config.transports) {
      const open = { webtransport: globalThis.WebTransport && openWebTransport, websocket: globalThis.WebSocket && openWebSocket }[kind];
      if (!open) continue;
      try {
        const url = new URL(this.#url);
        if (this.#config.ticket !== undefined) url.searchParams.set("ticket", this.#config.ticket);
        const session = await this.#start(await open(url.href, this.#config));
        if (this.state === "closed") return session.close();
        this.#session = session;
        this.state = "open";
        this.#config.transports = [kind, ...this.#config.transports.filter((k) => k !== kind)];
        return;
      } catch (error) {
        if (error.refused) throw error;
        errors.push(kind + ": " + error.message);
      }
    }
    throw new Error("volley: cannot connect: " + (errors.join("; ") || "no transport"));
  }

  // #start greets the server, and returns the session once that has answered.
  async #start(link) {
    const session = new Session(link, this.#config, {
      message: (bytes) => this.#message(bytes),
      end: (why) => session === this.#session && this.#ended(why),
    });
    await within(this.#config.timeout, session.open, () => session.end({ error: new Error("volley: no answer") }));
    return session;
  }

  #message(bytes) {
    if (this.#onmessage) this.#onmessage(bytes);
    else if (this.#unread.push(bytes) > UNREAD) this.#unread.shift();
  }

  #ended(why) {
    this.#sum();
    this.#session = null;
    if (why.closed) return;
    const [, , to] = /^(redial)(?: (https:\S+))?$/.exec(why.reason ?? "") ?? [];
    if (to) this.#url = to;
    if (this.#config.redial > 0 && (why.error ? !why.reason : /^redial\b/.test(why.reason))) this.#redial();
    else this.#close(why);
  }

  // #redial dials until there is a session again, or the time is over.
  async #redial() {
    this.state = "redialing";
    const end = now() + this.#config.redial;
    for (let wait = 0; ; wait = Math.min(MAX_BACKOFF, 2 * wait || BACKOFF)) {
      await new Promise((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, wait * (0.5 + Math.random()));
      });
      if (this.state === "closed") return;
      try {
        await this._dial();
        if (this.state !== "open") return;
        this.#past.redials++;
        this.onredial?.();
        return;
      } catch (error) {
        if (this.state === "closed") return;
        if (error.refused || now() > end) return this.#close({ error });
      }
    }
  }

  #close({ reason = "", error = null }) {
    this.state = "closed";
    this.onclose?.({ reason, error });
  }

  #sum() {
    for (const [k, v] of Object.entries(this.#session.figures)) this.#past[k] += v;
    this.#past.dropped += this.#session.link.dropped;
  }

  set onmessage(f) {
    this.#onmessage = f;
    while (f && this.#onmessage === f && this.#unread.length) f(this.#unread.shift());
  }
  get onmessage() {
    return this.#onmessage;
  }
  get transport() {
    return this.#session?.link.name ?? "";
  }
  get maxMessageSize() {
    return this.#config.maxMessageSize;
  }

  async send(bytes) {
    const b = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    if (!(b instanceof Uint8Array)) throw new TypeError("volley: a message is a Uint8Array or an ArrayBuffer");
    if (b.length === 0 || b.length > this.maxMessageSize) throw new RangeError(`volley: a message of ${b.length} bytes; there may be 1 to ${this.maxMessageSize}`);
    if (this.state === "closed") throw new Error("volley: the connection is closed");
    return this.#session ? this.#session.send(b) : { delivered: false, rtt: 0 };
  }

  stats() {
    const s = this.#session, all = { ...this.#past };
    if (s) {
      for (const [k, v] of Object.entries(s.figures)) all[k] += v;
      all.dropped += s.link.dropped;
    }
    return { transport: this.transport, rtt: s?.rtt ?? 0, jitter: s?.jitter ?? 0, loss: s?.loss ?? 0, unsettled: s?.pending.size ?? 0, ...all };
  }

  async close(reason = "") {
    if (this.state === "closed") return;
    const session = this.#session;
    this.#close({ reason });
    this.#wake();
    await session?.close(reason);
  }
}

// dial connects to a server, and resolves once that has answered.
export async function dial(url, options = {}) {
  const config = {
    transports: ["webtransport", "websocket"], timeout: 5000, redial: 60000, maxMessageSize: 16384, fragmentSize: 1024,
    ...options,
  };
  if (config.maxMessageSize > MAX_MESSAGE) throw new RangeError(`volley: maxMessageSize is ${config.maxMessageSize}, more than ${MAX_MESSAGE}`);
  const c = new Connection(url, config);
  await c._dial();
  return c;
}
