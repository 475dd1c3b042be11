// Time series of a result. The server has the points; for what is in sight it computes the
// minimum and maximum of each pixel, one width on either side included, so that panning
// draws what is here already.

import { h, context, colour } from './dom.js';
import { scale, time, ticks } from './format.js';

const MARGIN = { left: 64, right: 12, top: 10, bottom: 24 };
const AGAIN = 400; // ms between questions for a live result

/** @typedef {{name: string, x: number[], lo: number[], hi: number[]}} Drawn */

export class Chart {
  /**
   * @param {import('./result.js').Result} result
   * @param {import('./api.js').Session} session
   */
  constructor(result, session) {
    this.result = result;
    this.session = session;
    this.number = charted(result)[0] ?? -1;
    /** @type {{from: number, to: number}|null} what is in sight, ns since the epoch; null: all */
    this.window = null;
    /** @type {{from: number, to: number, width: number, first: number, last: number, series: Drawn[], points: number, left?: number}|null} */
    this.got = null;
    this.asking = false;
    this.asked = 0;
    this.cursor = -1;
    this.drag = null;
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.slowest = 0;
    this.seen = -1;
    this.named = '';
    this.failed = '';
    this.again = false;
    this.pending = false;
    this.canvas = h('canvas', { class: 'plot', tabindex: 0, role: 'img', 'aria-label': 'Time series. Arrows move, plus and minus zoom, 0 shows all.' });
    this.readout = h('output', { class: 'readout', 'aria-label': 'Values at the cursor' });
    this.legend = h('ul', { class: 'legend', 'aria-label': 'Series' });
    this.pick = h('select', { 'aria-label': 'Column of the chart', change: () => { this.number = Number(this.pick.value); this.got = null; this.ask(); } },
      ...charted(result).map((i) => h('option', { value: i }, result.columns[i].name)));
    const zoom = (/** @type {number} */ f) => () => this.zoom(f, 0.5);
    this.root = h('div', { class: 'chart' },
      h('div', { class: 'view-bar' }, h('label', {}, 'Column ', this.pick),
        h('button', { type: 'button', 'aria-label': 'Zoom in', click: zoom(0.5) }, '+'),
        h('button', { type: 'button', 'aria-label': 'Zoom out', click: zoom(2) }, '−'),
        h('button', { type: 'button', title: 'Show all', click: () => this.all() }, 'All')),
      this.readout, this.canvas, this.legend);
    this.events();
    new ResizeObserver(() => this.update()).observe(this.canvas);
    /** @type {any} */ (this.canvas).chart = this;
  }

  events() {
    const c = this.canvas;
    const share = (/** @type {MouseEvent} */ e) => {
      const box = c.getBoundingClientRect();
      return (e.clientX - box.left - MARGIN.left) / Math.max(1, box.width - MARGIN.left - MARGIN.right);
    };
    c.addEventListener('wheel', (e) => { e.preventDefault(); this.zoom(e.deltaY < 0 ? 0.8 : 1.25, share(e)); }, { passive: false });
    c.addEventListener('pointerdown', (e) => { this.drag = { from: share(e), to: share(e), pan: e.shiftKey || e.button === 1 }; c.setPointerCapture(e.pointerId); });
    c.addEventListener('pointermove', (e) => {
      const at = share(e);
      this.cursor = at;
      if (this.drag && this.drag.pan) { this.pan(this.drag.to - at); this.drag.to = at; } else if (this.drag) this.drag.to = at;
      this.later();
    });
    c.addEventListener('pointerup', () => {
      const d = this.drag;
      this.drag = null;
      if (d && !d.pan && Math.abs(d.to - d.from) > 0.01) {
        const w = this.range();
        if (w) this.look(w.from + Math.min(d.from, d.to) * (w.to - w.from), w.from + Math.max(d.from, d.to) * (w.to - w.from));
      }
      this.later();
    });
    c.addEventListener('pointerleave', () => { this.cursor = -1; this.later(); });
    c.addEventListener('dblclick', () => this.all());
    c.addEventListener('keydown', (e) => {
      const act = {
        ArrowLeft: () => this.pan(-0.1), ArrowRight: () => this.pan(0.1), '+': () => this.zoom(0.5, 0.5), '=': () => this.zoom(0.5, 0.5),
        '-': () => this.zoom(2, 0.5), 0: () => this.all(), Escape: () => this.all(),
      }[e.key];
      if (act) { e.preventDefault(); act(); }
    });
  }

  range() {
    if (this.window) return this.window;
    return this.got ? { from: this.got.first, to: Math.max(this.got.last, this.got.first + 1) } : null;
  }

  all() { this.window = null; this.ask(); this.later(); }

  /** @param {number} from @param {number} to */
  look(from, to) {
    this.window = { from, to: Math.max(to, from + 1000) };
    this.ask();
    this.later();
  }

  /** @param {number} factor @param {number} at share of the width */
  zoom(factor, at) {
    const w = this.range();
    if (!w) return;
    const middle = w.from + at * (w.to - w.from);
    this.look(middle - (middle - w.from) * factor, middle + (w.to - middle) * factor);
  }

  /** @param {number} share */
  pan(share) {
    const w = this.range();
    if (w) this.look(w.from + share * (w.to - w.from), w.to + share * (w.to - w.from));
  }

  // ask asks the server for what is in sight.
  async ask() {
    if (this.asking) { this.again = true; return; }
    const width = Math.max(1, this.canvas.clientWidth - MARGIN.left - MARGIN.right);
    const w = this.window;
    const span = w ? w.to - w.from : 0;
    const question = w ? { from: Math.round(w.from - span), to: Math.round(w.to + span), width: Math.min(3 * width, 8000) } : { from: 0, to: 0, width };
    this.asking = true;
    this.asked = performance.now();
    try {
      const a = await this.session.call('series', { q: this.result.id, column: this.number, ...question });
      if (!w) [question.from, question.to] = [a.first, Math.max(a.last, a.first + 1)];
      this.got = { ...a, ...question };
      this.failed = '';
    } catch (e) {
      this.failed = e instanceof Error ? e.message : String(e);
    }
    this.asking = false;
    if (this.again) { this.again = false; this.ask(); }
    this.later();
  }

  update() {
    if (!this.pick.options.length && this.result.columns.length) {
      this.pick.replaceChildren(...charted(this.result).map((i) => h('option', { value: i }, this.result.columns[i].name)));
      this.number = charted(this.result)[0] ?? -1;
    }
    if (this.seen !== this.result.version && performance.now() - this.asked > AGAIN) {
      this.seen = this.result.version;
      this.ask();
    }
    this.later();
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const began = performance.now();
      this.draw();
      this.slowest = Math.max(this.slowest, performance.now() - began);
    });
  }

  draw() {
    if (!this.canvas.clientWidth) return;
    const { c, width, height } = context(this.canvas);
    const plot = { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    const text = colour('muted'), grid = colour('line');
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = text;
    const w = this.range(), got = this.got;
    if (!w || !got || !got.series.some((s) => s.x.length)) {
      c.fillText(this.failed || 'no points yet', plot.x, plot.y + 20);
      return;
    }
    const shown = got.series.map((s, i) => ({ s, i })).filter(({ s }) => !this.hidden.has(s.name));
    const toX = (/** @type {number} */ px) => plot.x + ((got.from + (px / got.width) * (got.to - got.from) - w.from) / (w.to - w.from)) * plot.w;
    let lo = Infinity, hi = -Infinity;
    for (const { s } of shown) {
      for (let k = 0; k < s.x.length; k++) {
        const x = toX(s.x[k]);
        if (x < plot.x - 1 || x > plot.x + plot.w + 1) continue;
        lo = Math.min(lo, s.lo[k]);
        hi = Math.max(hi, s.hi[k]);
      }
    }
    if (!(lo <= hi)) [lo, hi] = [0, 1];
    if (lo > 0 && lo < hi * 0.6) lo = 0;
    if (lo === hi) [lo, hi] = [Math.min(0, lo), hi || 1];
    const toY = (/** @type {number} */ v) => plot.y + plot.h - ((v - lo) / (hi - lo)) * plot.h;
    const type = this.result.columns[this.number].type;
    c.strokeStyle = grid;
    c.lineWidth = 1;
    c.textAlign = 'right';
    for (const v of ticks(lo, hi, Math.floor(plot.h / 36))) {
      const y = Math.round(toY(v)) + 0.5;
      line(c, plot.x, y, plot.x + plot.w, y);
      c.fillText(scale(v, type), plot.x - 6, y + 4);
    }
    c.textAlign = 'center';
    for (const t of timeTicks(w.from, w.to, this.result.epoch, Math.floor(plot.w / 110))) {
      const x = Math.round(plot.x + ((t.at - w.from) / (w.to - w.from)) * plot.w) + 0.5;
      line(c, x, plot.y, x, plot.y + plot.h);
      c.fillText(t.text, Math.min(Math.max(x, plot.x + 24), plot.x + plot.w - 24), plot.y + plot.h + 16);
    }
    c.save();
    c.beginPath();
    c.rect(plot.x, plot.y, plot.w, plot.h);
    c.clip();
    for (const { s, i } of shown) {
      c.strokeStyle = c.fillStyle = colour('series-' + (i % 8));
      c.lineWidth = 1.25;
      c.setLineDash(i >= 16 ? [2, 3] : i >= 8 ? [6, 3] : []);
      c.beginPath();
      for (let k = 0; k < s.x.length; k++) {
        const x = toX(s.x[k]);
        if (k) c.lineTo(x, toY(s.hi[k]));
        else c.moveTo(x, toY(s.hi[k]));
        if (s.lo[k] !== s.hi[k]) c.lineTo(x, toY(s.lo[k]));
      }
      c.stroke();
      if (s.x.length < plot.w / 8) for (let k = 0; k < s.x.length; k++) c.fillRect(toX(s.x[k]) - 1.5, toY(s.hi[k]) - 1.5, 3, 3);
    }
    c.setLineDash([]);
    this.point(c, plot, w, shown, toX, type, text);
    c.restore();
    this.names(got);
  }

  /**
   * Draws the cursor and the selection, and writes the values there.
   * @param {CanvasRenderingContext2D} c
   * @param {{x: number, y: number, w: number, h: number}} plot
   * @param {{from: number, to: number}} w
   * @param {{s: Drawn, i: number}[]} shown
   * @param {(px: number) => number} toX
   * @param {string} type
   * @param {string} ink
   */
  point(c, plot, w, shown, toX, type, ink) {
    if (this.drag && !this.drag.pan) {
      c.fillStyle = colour('select');
      c.fillRect(plot.x + Math.min(this.drag.from, this.drag.to) * plot.w, plot.y, Math.abs(this.drag.to - this.drag.from) * plot.w, plot.h);
    }
    if (this.cursor < 0 || this.cursor > 1) { this.readout.value = ''; return; }
    const x = plot.x + this.cursor * plot.w;
    c.strokeStyle = ink;
    line(c, x, plot.y, x, plot.y + plot.h);
    const values = shown.slice(0, 6).map(({ s }) => {
      let best = -1;
      for (let k = 0; k < s.x.length; k++) if (best < 0 || Math.abs(toX(s.x[k]) - x) < Math.abs(toX(s.x[best]) - x)) best = k;
      if (best < 0) return '';
      const range = s.lo[best] === s.hi[best] ? scale(s.hi[best], type) : scale(s.lo[best], type) + ' – ' + scale(s.hi[best], type);
      return (s.name ? s.name + ' ' : '') + range;
    });
    this.readout.value = time(w.from + this.cursor * (w.to - w.from), this.result.epoch).slice(0, 12) + '   ' + values.filter(Boolean).join('   ');
  }

  /** @param {{series: Drawn[], left?: number, points: number}} got */
  names(got) {
    const names = got.series.map((s) => s.name).join('\n') + (got.left || 0);
    if (names === this.named) return;
    this.named = names;
    this.legend.replaceChildren(...got.series.map((s, i) => h('li', {}, h('button', {
      type: 'button', class: 'key k' + (i % 8), 'aria-pressed': String(!this.hidden.has(s.name)),
      click: (/** @type {Event} */ e) => {
        if (!this.hidden.delete(s.name)) this.hidden.add(s.name);
        /** @type {Element} */ (e.currentTarget).setAttribute('aria-pressed', String(!this.hidden.has(s.name)));
        this.later();
      },
    }, s.name || this.result.columns[this.number].name))), got.left ? h('li', { class: 'muted' }, `and ${got.left} more groups, not drawn`) : '');
  }
}

/**
 * The columns that the server has series of, the most likely first.
 * @param {import('./result.js').Result} result
 */
export function charted(result) {
  const ids = ['pid', 'tid', 'ppid', 'parent_pid', 'address', 'query_id'];
  const all = result.columns.map((c, i) => ({ c, i })).filter(({ c }) => ['BIGINT', 'DOUBLE', 'DURATION'].includes(c.type) && !ids.includes(c.name)).slice(0, 6);
  const rank = (/** @type {{c: {name: string, type: string}}} */ { c }) => (c.type === 'DURATION' ? 0 : /[(%]|percent|count|rate|sum|avg|p\d\d/i.test(c.name) ? 1 : /^arg\d|retval|depth/.test(c.name) ? 3 : 2);
  return all.sort((a, b) => rank(a) - rank(b) || a.i - b.i).map(({ i }) => i);
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2
 */
function line(c, x1, y1, x2, y2) {
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
}

const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 1.5e10, 3e10, 6e10, 1.2e11, 3e11, 6e11, 9e11, 1.8e12, 3.6e12, 7.2e12, 2.16e13, 8.64e13];

/**
 * Times for an axis, at round times of the clock.
 * @param {number} from @param {number} to @param {bigint} epoch @param {number} count
 */
export function timeTicks(from, to, epoch, count) {
  const step = STEPS.find((s) => s >= (to - from) / Math.max(1, count)) || 8.64e13;
  const offset = Number(epoch % BigInt(step));
  const digits = step >= 1e9 ? 8 : step >= 1e6 ? 12 : 15;
  const out = [];
  for (let at = Math.ceil((from + offset) / step) * step - offset; at <= to && out.length < 50; at += step) {
    out.push({ at, text: time(at, epoch).slice(0, digits) });
  }
  return out;
}
