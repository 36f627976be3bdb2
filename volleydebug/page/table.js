"use strict";

// Table shows connections in rows of which only those in sight exist.

const ROW = 26;

const ms = v => v === null ? "–" : v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : v.toFixed(0);
const percent = v => v === null ? "–" : (100 * v).toFixed(v > 0 && v < 0.1 ? 2 : 1) + " %";
const number = v => v === null ? "–" : short(v, "");
const perSecond = v => v === null || Number.isNaN(v) ? "–" : short(v, "/s");

// What a column shows of a connection: text, and what to sort by.
const TABLE = [
  { name: "protocol", width: "w110", text: c => c.over ? c.protocol + " / " + c.over : c.protocol, key: c => c.protocol + c.over },
  { name: "remote", width: "w190", text: c => c.remote, key: c => c.remote },
  { name: "local", width: "w190", text: c => c.local, key: c => c.local },
  { name: "peer", width: "w84", text: c => c.label || c.role, key: c => c.label || c.role },
  { name: "rtt ms", width: "w70", n: true, text: c => ms(c.get("rtt_ms")), key: c => c.get("rtt_ms") },
  { name: "jitter", width: "w70", n: true, text: c => ms(c.get("jitter_ms")), key: c => c.get("jitter_ms") },
  { name: "loss", width: "w70", n: true, text: c => percent(c.get("loss")), key: c => c.get("loss") },
  { name: "missed", width: "w84", n: true, text: c => perSecond(c.missed), key: c => c.missed },
  { name: "sent", width: "w96", n: true, text: c => short(c.send, "bit/s"), key: c => c.send },
  { name: "received", width: "w96", n: true, text: c => short(c.receive, "bit/s"), key: c => c.receive },
  { name: "in flight", width: "w84", n: true, text: c => number(c.get("in_flight")), key: c => c.get("in_flight") },
  { name: "queued", width: "w84", n: true, text: c => short(c.queued, "B"), key: c => c.queued },
  { name: "explain", words: true, text: c => c.explain.split("\n")[0], key: c => (c.ok ? 1 : 0) },
];

class Table {
  constructor(onSelect) {
    this.scroll = document.getElementById("scroll");
    this.rows = document.getElementById("rows");
    this.empty = document.getElementById("empty");
    this.pool = [];
    this.list = [];
    this.conns = new Map();
    this.filter = "";
    this.column = 6;
    this.down = true;
    this.selected = 0;
    this.onSelect = onSelect;
    this.buildHead();
    this.scroll.addEventListener("scroll", () => this.ask(), { passive: true });
    this.scroll.addEventListener("keydown", e => this.key(e));
    new ResizeObserver(() => this.ask()).observe(this.scroll);
  }

  buildHead() {
    const head = document.getElementById("head");
    this.heads = TABLE.map((column, i) => {
      const b = document.createElement("button");
      b.type = "button";
      b.className = "cell " + (column.width || "") + (column.n ? " n" : "") + (column.words ? " words" : "");
      b.textContent = column.name;
      b.addEventListener("click", () => {
        this.down = this.column === i ? !this.down : !!column.n;
        this.column = i;
        this.sort();
      });
      head.append(b);
      return b;
    });
  }

  // sort puts those that the filter lets through in order, and shows them.
  sort() {
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const list = [];
    for (const c of this.conns.values()) {
      if (words.every(w => c.text.includes(w) || c.explain.toLowerCase().includes(w))) list.push(c);
    }
    const { key } = TABLE[this.column];
    const sign = this.down ? -1 : 1;
    for (const c of list) c.key = key(c);
    list.sort((a, b) => {
      const x = a.key, y = b.key;
      const noX = x === null || Number.isNaN(x), noY = y === null || Number.isNaN(y);
      if (noX || noY) return noX - noY || a.id - b.id; // what is not known comes last
      return (x < y ? -sign : x > y ? sign : 0) || a.id - b.id;
    });
    this.list = list;
    this.heads.forEach((b, i) => {
      if (i === this.column) b.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else b.removeAttribute("aria-sort");
    });
    this.empty.hidden = list.length > 0;
    this.rows.style.height = list.length * ROW + "px";
    this.ask();
  }

  // ask has the rows drawn before the next frame, once.
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    const top = Math.max(0, this.scroll.scrollTop - ROW);
    const first = Math.max(0, Math.floor(top / ROW) - 4);
    const last = Math.min(this.list.length, Math.ceil((top + this.scroll.clientHeight) / ROW) + 4);
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    this.pool.forEach((row, i) => {
      const c = first + i < last ? this.list[first + i] : null;
      this.fill(row, c, first + i);
    });
  }

  newRow() {
    const box = document.createElement("div");
    box.className = "row";
    box.hidden = true;
    const cells = TABLE.map(column => {
      const cell = document.createElement("span");
      cell.className = "cell " + (column.width || "") + (column.n ? " n" : "") + (column.words ? " words" : "");
      box.append(cell);
      return cell;
    });
    const row = { box, cells, texts: cells.map(() => ""), c: null };
    box.addEventListener("click", () => row.c && this.select(row.c.id === this.selected ? 0 : row.c.id));
    this.rows.append(box);
    return row;
  }

  fill(row, c, place) {
    row.c = c;
    if (!c) {
      row.box.style.display = "none";
      return;
    }
    row.box.hidden = false;
    row.box.style.display = "";
    if (row.place !== place) {
      row.place = place;
      row.box.style.transform = `translateY(${place * ROW}px)`;
    }
    const name = "row" + (c.id === this.selected ? " selected" : "") + (c.explain && !c.ok ? " bad" : "");
    if (row.box.className !== name) row.box.className = name;
    TABLE.forEach((column, i) => {
      const text = column.text(c);
      if (row.texts[i] === text) return;
      row.texts[i] = text;
      row.cells[i].textContent = text;
      if (column.words) row.cells[i].title = c.explain;
    });
  }

  select(id) {
    this.selected = id;
    this.onSelect(id);
    this.ask();
  }

  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (e.key === "Escape") this.select(0);
    if (!step || this.list.length === 0) return;
    e.preventDefault();
    const at = this.list.findIndex(c => c.id === this.selected);
    const next = Math.min(this.list.length - 1, Math.max(0, at + step));
    this.select(this.list[next].id);
    const y = next * ROW;
    if (y < this.scroll.scrollTop) this.scroll.scrollTop = y;
    const bottom = this.scroll.scrollTop + this.scroll.clientHeight - 2 * ROW;
    if (y > bottom) this.scroll.scrollTop += y - bottom;
  }
}
