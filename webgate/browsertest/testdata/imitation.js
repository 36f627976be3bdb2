// imitation.js lets the client talk to an imitated server, over an imitated network, by a
// clock that only run moves. So nothing depends on the machine.

// imitate replaces the clock, the timers and WebTransport.
function imitate(volley) {
  let time = 1000, timers = [], last = 0;
  const channel = new MessageChannel();
  const turn = () => new Promise((resolve) => { // promises that are kept go on meanwhile
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(0);
  });
  const later = (ms, f) => (timers.push({ id: ++last, at: time + Math.max(0, ms), f }), last);
  performance.now = () => time;
  window.setTimeout = (f, ms) => later(ms, f);
  window.clearTimeout = (id) => void (timers = timers.filter((t) => t.id !== id));

  const net = {
    lost: () => false, // (up, datagram) => whether it gets lost
    delay: () => 10, // how long the next datagram takes
    wait: () => 0, // how long the next acknowledgement waits
    message() {}, // called with each message of the client
    left: [], // when datagrams of the client left
    acks: [], // when the client's acknowledgements came, and the entry that send was given
    heardAt: 0, // when a datagram came to the client
    now: () => time,
    async run(ms) {
      for (const end = time + ms; ; ) {
        await turn();
        const next = timers.reduce((a, b) => (b.at < a.at ? b : a), { at: Infinity });
        if (next.at > end) return void (time = end);
        timers = timers.filter((t) => t !== next);
        time = Math.max(time, next.at);
        next.f();
      }
    },
  };

  window.WebTransport = class {
    constructor() {
      const server = new volley.Endpoint({ sent: 1024, received: 1024, acks: Infinity, maxPacketSize: 65536, maxFragments: 64 });
      let to, met = false;
      const send = (b) => net.lost(false, b) || later(net.delay(), () => ((net.heardAt = time), to.enqueue(b)));
      net.send = (payload, entry) => server.send(payload, entry).forEach(send);
      server.begin(100);
      server.acked = (sequence, entry) => net.acks.push({ at: time, entry });
      server.process = (sequence, payload) => {
        const wait = net.wait();
        const answer = () => { // one that has waited acknowledges nothing by its first bit
          let [ack, bits] = server.received.acks();
          if (wait) [ack, bits] = [(ack + 1) & 0xffff, (bits << 1) >>> 0];
          server.send(new Uint8Array(0), {}, [ack, bits]).forEach(send);
        };
        // A gap in front of an empty packet asks for an answer. The packet counts as received
        // only after this call.
        if (payload.length || sequence !== server.received.next) later(wait, answer);
        if (payload.length) net.message(payload);
        return true;
      };
      const take = (b) => {
        if (b[0] === 5) return send(Uint8Array.from([9, ...Array(8).fill(1), ...b.subarray(1, 9), ...Array(8).fill(0)]));
        if (b[0] & 1 && b[0] !== 1) return;
        if (!met) server.meet(b);
        met = true;
        server.receive(b);
      };
      this.ready = Promise.resolve();
      this.closed = new Promise(() => {});
      this.datagrams = {
        readable: new ReadableStream({ start: (c) => void (to = c) }),
        writable: new WritableStream({ write: (b) => (net.left.push(time), void (net.lost(true, b) || later(net.delay(), () => take(b)))) }),
      };
    }
    close() {}
  };
  return net;
}
