"use strict";

// Table shows connections in rows of which only those in sight exist.

const HEAD = 26; // pixels of the head, and of a row
const NARROW_ROW = 46; // of a row where Explain has a line of its own
const NARROW = "(max-width: 700px)";
const REFILLS = 10; // rows that are filled anew in a frame

const ms = v => v === null ? "–" : v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : v.toFixed(0);
const percent = v => v === null ? "–" : (100 * v).toFixed(v > 0 && v < 0.1 ? 2 : 1) + " %";
const number = v => v === null ? "–" : short(v, "");
const perSecond = v => v === null || Number.isNaN(v) ? "–" : short(v, "/s");

// inShort returns the first of what Explain says, without the reasons and figures
// behind it, and how much more there is. The details have all of it.
function inShort(text) {
  const lines = text.split("\n");
  return lines[0].split(/: |\. |\.$/)[0] + (lines.length > 1 ? ` (+${lines.length - 1})` : "");
}

// What a column shows of a connection: text, and what to sort by. It is there in
// windows from a width on, so that there is room for Explain in all.
const TABLE = [
  { name: "protocol", width: 110, from: 900, text: c => c.over ? c.protocol + " / " + c.over : c.protocol, key: c => c.protocol + c.over },
  { name: "remote", width: 190, text: c => c.remote, key: c => c.remote },
  { name: "local", width: 190, from: 1600, text: c => c.local, key: c => c.local },
  { name: "peer", width: 84, from: 701, text: c => c.label || c.role, key: c => c.label || c.role },
  { name: "rtt ms", width: 70, n: true, text: c => ms(c.get("rtt_ms")), key: c => c.get("rtt_ms") },
  { name: "jitter", width: 70, from: 1600, n: true, text: c => ms(c.get("jitter_ms")), key: c => c.get("jitter_ms") },
  { name: "loss", width: 70, n: true, text: c => percent(c.get("loss")), key: c => c.get("loss") },
  { name: "missed", width: 84, from: 900, n: true, text: c => perSecond(c.missed), key: c => c.missed },
  { name: "sent", width: 96, from: 1100, n: true, text: c => short(c.send, "B/s"), key: c => c.send },
  { name: "received", width: 96, from: 1100, n: true, text: c => short(c.receive, "B/s"), key: c => c.receive },
  { name: "in flight", width: 84, from: 1600, n: true, text: c => number(c.get("in_flight")), key: c => c.get("in_flight") },
  { name: "queued", width: 84, from: 1250, n: true, text: c => short(c.queued, "B"), key: c => c.queued },
  { name: "explain", words: true, text: c => inShort(c.explain), key: c => (c.ok ? 1 : 0) },
];

const cellClass = column => "cell" + (column.width ? " w" + column.width : "") + (column.from ? " from" + column.from : "") +
  (column.n ? " n" : "") + (column.words ? " words long" : "");

// isLong reports whether a text may have to be cut off. Only cells that have to are
// clipped, since every clip costs the browser time in every frame.
const isLong = (column, text) => !column.words && 16 + 9 * text.length > column.width;

class Table {
  constructor(onSelect) {
    this.scroll = document.getElementById("scroll");
    this.rows = document.getElementById("rows");
    this.empty = document.getElementById("empty");
    this.pool = []; // the connection in a place has the row place % pool.length, so that scrolling fills few rows
    this.top = this.height = 0; // of what is in sight; kept, for to ask costs a layout
    this.version = 0; // of what rows show
    this.list = [];
    this.conns = new Map();
    this.words = []; // of the filter
    this.column = 6;
    this.down = true;
    this.selected = 0;
    this.onSelect = onSelect;
    this.buildHead();
    this.scroll.addEventListener("scroll", () => { this.top = this.scroll.scrollTop; this.ask(); }, { passive: true });
    this.scroll.addEventListener("keydown", e => this.key(e));
    const narrow = matchMedia(NARROW);
    const adapt = () => { this.size = narrow.matches ? NARROW_ROW : HEAD; this.version++; this.sort(); };
    narrow.addEventListener("change", adapt);
    adapt();
    new ResizeObserver(() => { this.height = this.scroll.clientHeight; this.ask(); }).observe(this.scroll);
  }

  buildHead() {
    const head = document.getElementById("head");
    this.heads = TABLE.map((column, i) => {
      const cell = document.createElement("span");
      cell.className = cellClass(column);
      cell.setAttribute("role", "columnheader");
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = column.name;
      cell.append(b);
      b.addEventListener("click", () => {
        this.down = this.column === i ? !this.down : !!column.n;
        this.column = i;
        this.sort();
      });
      head.append(cell);
      return cell;
    });
  }

  setFilter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.sort();
  }

  // matches reports whether the filter lets a connection through.
  matches(c) { return this.words.every(w => c.text.includes(w) || c.explain.toLowerCase().includes(w)); }

  // sort puts those that the filter lets through in order, and shows them.
  sort() {
    const list = [];
    for (const c of this.conns.values()) {
      if (this.matches(c)) list.push(c);
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
    const height = list.length * this.size + "px";
    if (this.rows.style.height !== height) this.rows.style.height = height;
    this.scroll.setAttribute("aria-rowcount", list.length + 1);
    this.version++;
    this.ask();
  }

  // ask has the rows drawn before the next frame, once.
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  // draw fills the rows in sight: those that come into it at once, and of those that
  // only have other values some, and the rest in the next frames.
  draw() {
    const top = Math.max(0, this.top - HEAD);
    const first = Math.max(0, Math.floor(top / this.size) - 4);
    const last = Math.min(this.list.length, Math.ceil((top + this.height) / this.size) + 4);
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    let budget = REFILLS;
    for (let i = 0; i < this.pool.length; i++) {
      const place = first + i;
      const row = this.pool[place % this.pool.length], c = place < last ? this.list[place] : null;
      if (row.c === c && row.place === place && row.version === this.version) continue;
      if (c && row.c && row.place === place && budget-- <= 0) this.ask();
      else this.fill(row, c, place);
    }
  }

  newRow() {
    const box = document.createElement("div");
    box.className = "row";
    box.style.display = "none";
    box.setAttribute("role", "row");
    const cells = TABLE.map(column => {
      const cell = document.createElement("span");
      cell.setAttribute("role", "gridcell");
      cell.className = cellClass(column);
      cell.append("");
      box.append(cell);
      return cell;
    });
    const row = { box, cells, texts: cells.map(() => ""), c: null };
    box.addEventListener("click", () => row.c && this.select(row.c.id === this.selected ? 0 : row.c.id));
    this.rows.append(box);
    return row;
  }

  fill(row, c, place) {
    if (!c !== !row.c) row.box.style.display = c ? "" : "none";
    row.c = c;
    if (!c) return;
    row.version = this.version;
    const y = place * this.size;
    if (row.y !== y) {
      row.y = y;
      row.box.style.top = y + "px";
    }
    if (row.place !== place) {
      row.place = place;
      row.box.setAttribute("aria-rowindex", place + 2);
    }
    const name = "row" + (c.id === this.selected ? " selected" : "") + (c.explain && !c.ok ? " bad" : "");
    if (row.box.className !== name) {
      row.box.className = name;
      row.box.setAttribute("aria-selected", c.id === this.selected);
    }
    const id = "conn" + c.id;
    if (row.box.id !== id) row.box.id = id;
    TABLE.forEach((column, i) => {
      const text = column.text(c), cell = row.cells[i];
      if (column.words && cell.title !== c.explain) cell.title = c.explain;
      if (row.texts[i] === text) return;
      if (isLong(column, text) !== isLong(column, row.texts[i])) cell.classList.toggle("long");
      row.texts[i] = text;
      cell.firstChild.data = text;
    });
  }

  select(id) {
    this.selected = id;
    if (id) this.scroll.setAttribute("aria-activedescendant", "conn" + id);
    else this.scroll.removeAttribute("aria-activedescendant");
    this.onSelect(id);
    this.version++;
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
    const y = next * this.size;
    if (y < this.scroll.scrollTop) this.scroll.scrollTop = y;
    const bottom = this.scroll.scrollTop + this.scroll.clientHeight - HEAD - this.size;
    if (y > bottom) this.scroll.scrollTop += y - bottom;
  }
}
