// Histograms over time: a column for each window or emitted total, a row for each bucket.

import { h, context, colour } from './dom.js';
import { bucket, scale, brief, time } from './format.js';
import { timeTicks } from './chart.js';

const MARGIN = { left: 72, right: 12, top: 8, bottom: 24 };

/** @typedef {{at: number, counts: Map<number, number>}} Column */

export class Heat {
  /** @param {import('./result.js').Result} result */
  constructor(result) {
    this.result = result;
    this.cursor = /** @type {{x: number, y: number}|null} */ (null);
    this.canvas = h('canvas', { class: 'plot', tabindex: 0, role: 'img', 'aria-label': 'Heat map of a histogram over time' });
    this.readout = h('output', { class: 'readout', 'aria-label': 'Bucket at the cursor' });
    this.group = h('select', { 'aria-label': 'Group', change: () => this.update() }, h('option', { value: '' }, 'all groups'));
    this.root = h('div', { class: 'chart' }, h('div', { class: 'view-bar' }, h('label', {}, 'Group ', this.group), this.readout), this.canvas, h('p', { class: 'muted heat-legend' }, 'Darker is more calls (logarithmic).'));
    this.canvas.addEventListener('pointermove', (e) => { const b = this.canvas.getBoundingClientRect(); this.cursor = { x: e.clientX - b.left, y: e.clientY - b.top }; this.draw(); });
    this.canvas.addEventListener('pointerleave', () => { this.cursor = null; this.draw(); });
    this.canvas.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[e.key];
      if (!step) return;
      e.preventDefault();
      const at = this.cursor || { x: MARGIN.left + 4, y: MARGIN.top + 4 };
      this.cursor = { x: at.x + step[0], y: at.y + step[1] };
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    /** @type {Column[]} */
    this.columns = [];
    /** @type {{lo: any, hi: any}[]} */
    this.buckets = [];
    this.type = 'BIGINT';
  }

  // read makes columns of the rows: of windows by their start, of totals by the difference from the ones before.
  read() {
    const r = this.result;
    const hist = r.data.findIndex((c) => c.some((v) => v && v.h));
    const start = r.columns.findIndex((c) => c.type === 'TIMESTAMP');
    const texts = r.columns.map((c, i) => (c.type === 'VARCHAR' ? i : -1)).filter((i) => i >= 0);
    /** @type {Map<string, {lo: any, hi: any, n: number}>} */
    const known = new Map();
    /** @type {Map<number, Map<string, number>>} */
    const by = new Map();
    const groups = new Set();
    const chosen = this.group.value;
    if (hist < 0) return;
    /** @param {number} at @param {any} v @param {Map<string, number>|null} before */
    const put = (at, v, before) => {
      this.type = v.type;
      let counts = by.get(at);
      if (!counts) by.set(at, (counts = new Map()));
      for (const [lo, hi, n] of v.h) {
        const key = lo + ' ' + hi;
        if (!known.has(key)) known.set(key, { lo, hi, n: 0 });
        const more = before ? n - (before.get(key) || 0) : n;
        if (before) before.set(key, n);
        if (more > 0) counts.set(key, (counts.get(key) || 0) + more);
      }
    };
    /** @param {any[][]} data @param {(row: number, group: string) => void} each */
    const rows = (data, each) => {
      for (let i = 0; i < data[hist].length; i++) {
        const group = texts.map((c) => data[c][i]).join(' · ');
        groups.add(group);
        if (data[hist][i] && data[hist][i].h && (!chosen || chosen === group)) each(i, group);
      }
    };
    if (start >= 0) rows(r.data, (i) => put(r.data[start][i], r.data[hist][i], null));
    else if (r.emitted.length) {
      /** @type {Map<string, Map<string, number>>} */
      const before = new Map();
      for (const e of r.emitted) {
        rows(e.data, (i, group) => {
          let b = before.get(group);
          if (!b) before.set(group, (b = new Map()));
          put(e.at, e.data[hist][i], b);
        });
      }
    } else rows(r.data, (i) => put(0, r.data[hist][i], null));
    const low = (/** @type {any} */ x) => (x === null ? -Infinity : Number(x));
    const order = [...known.entries()].sort((a, b) => low(a[1].lo) - low(b[1].lo));
    const place = new Map(order.map(([key], i) => [key, i]));
    this.buckets = order.map(([, b]) => b);
    this.columns = [...by.entries()].sort((a, b) => a[0] - b[0]).map(([at, m]) => ({ at, counts: new Map([...m].map(([key, n]) => [/** @type {number} */ (place.get(key)), n])) }));
    const options = ['', ...[...groups].sort().slice(0, 200)];
    if (options.length !== this.group.options.length) {
      this.group.replaceChildren(...options.map((g) => h('option', { value: g, selected: g === chosen }, g || 'all groups')));
      this.group.value = chosen;
    }
  }

  update() {
    this.read();
    this.draw();
  }

  draw() {
    if (!this.canvas.clientWidth) return;
    const { c, width, height } = context(this.canvas);
    const plot = { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = colour('muted');
    const n = this.columns.length;
    if (!n || !this.buckets.length) { c.fillText('no histogram yet', plot.x, plot.y + 20); return; }
    const first = this.columns[0].at, last = this.columns[n - 1].at;
    const step = n > 1 ? Math.max(1, Math.min(...this.columns.slice(1).map((x, i) => x.at - this.columns[i].at))) : 1;
    const span = last - first + step;
    const row = plot.h / this.buckets.length;
    const most = Math.max(1, ...this.columns.map((x) => Math.max(0, ...x.counts.values())));
    c.textAlign = 'right';
    for (let i = 0, every = Math.ceil(14 / row); i < this.buckets.length; i += every) {
      const b = this.buckets[i];
      c.fillText(b.lo === null ? '…' : scale(Number(b.lo), this.type), plot.x - 6, plot.y + plot.h - i * row - 2);
    }
    c.textAlign = 'center';
    if (n > 1) for (const t of timeTicks(first, last + step, this.result.epoch, Math.floor(plot.w / 110))) c.fillText(t.text, plot.x + ((t.at - first) / span) * plot.w, plot.y + plot.h + 16);
    const ink = colour('heat');
    for (const x of this.columns) {
      const left = plot.x + ((x.at - first) / span) * plot.w, w = Math.max(1, (step / span) * plot.w - (plot.w / n > 6 ? 1 : 0));
      for (const [b, count] of x.counts) {
        c.globalAlpha = 0.12 + 0.88 * (Math.log1p(count) / Math.log1p(most));
        c.fillStyle = ink;
        c.fillRect(left, plot.y + plot.h - (b + 1) * row, w, Math.max(1, row - (row > 4 ? 1 : 0)));
      }
    }
    c.globalAlpha = 1;
    this.readout.value = '';
    if (!this.cursor) return;
    const at = first + ((this.cursor.x - plot.x) / plot.w) * span;
    const col = this.columns.findLast((x) => x.at <= at && at < x.at + step), b = Math.floor((plot.y + plot.h - this.cursor.y) / row);
    c.strokeStyle = colour('ink');
    c.strokeRect(this.cursor.x - 4, this.cursor.y - 4, 8, 8);
    if (col && this.buckets[b]) {
      const k = this.buckets[b];
      this.readout.value = `${n > 1 ? time(col.at, this.result.epoch).slice(0, 12) + '  ' : ''}${bucket([k.lo, k.hi, 0], this.type)}: ${brief(col.counts.get(b) || 0)}`;
    }
  }
}
