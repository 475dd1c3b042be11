// The flame graph of a profile: root at the top, zoom, search, and a timeline whose
// selection filters the stacks. And the same as a tree.

import { h, s, context, colour, onPress } from './dom.js';
import { number, scale, time, visible } from './format.js';
import { byTotal, commonState, stackColumn, timeline, tree, weights } from './profile.js';

const ROW = 19;
const NARROW = 0.6; // px
const MOST = 3000; // frames

/** @typedef {import('./profile.js').CallNode} CallNode */

export class Flame {
  /** @param {import('./result.js').Result} result */
  constructor(result) {
    this.result = result;
    this.times = result.columns.findIndex((c) => c.type === 'TIMESTAMP');
    /** @type {{from: number, to: number}|null} */
    this.only = null;
    /** @type {string[]} names from the root to the function that fills the width */
    this.path = [];
    this.at = 0;
    this.by = -1;
    this.rows = 0;
    this.next = 0;
    this.seen = -1;
    /** @type {CallNode|null} */
    this.tree = null;
    /** @type {ReturnType<typeof timeline>|null} */
    this.span = null;
    /** @type {{n: CallNode, path: string[], x: number, w: number, depth: number}[]} */
    this.frames = [];
    this.search = h('input', { type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions', spellcheck: 'false', input: () => this.draw() });
    this.found = h('output', { class: 'readout', 'aria-label': 'Found' });
    this.weight = h('select', { 'aria-label': 'Weight', change: () => this.update(true) });
    this.reset = h('button', { type: 'button', click: () => this.zoom([]) }, 'Reset zoom');
    this.whole = h('button', { type: 'button', hidden: true, click: () => this.choose(null) }, 'All times');
    this.line = h('canvas', { class: 'timeline', tabindex: 0, role: 'img', 'aria-label': 'Samples over time. Drag, or arrows and shift with arrows, select a time; Escape selects all.' });
    this.svg = s('svg', { class: 'flame', role: 'tree', 'aria-label': 'Flame graph' });
    this.note = h('output', { class: 'readout flame-note', 'aria-label': 'Function' });
    this.box = h('div', { class: 'flame-box' }, this.svg);
    this.root = h('div', { class: 'chart flame-view' }, h('div', { class: 'view-bar' }, this.search, h('label', {}, 'by ', this.weight), this.reset, this.whole, this.found), this.line, this.box, this.note);
    this.line.hidden = this.times < 0;
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.events();
    this.states();
  }

  states() {
    const key = [['RUN', 'runs'], ['WAIT', 'waits'], ['IO', 'reads'], ['OUTPUT', 'writes'], ['BLOCKED', 'is blocked']];
    if (this.result.column('state') >= 0) this.root.append(h('p', { class: 'flame-key muted' }, ...key.map(([k, t]) => h('span', { class: 'swatch state-' + k.toLowerCase() }, t))));
  }

  events() {
    const keyOf = (/** @type {EventTarget|null} */ at) => { const f = this.frameOf(at); return f ? JSON.stringify(f.path) : undefined; };
    onPress(this.svg, keyOf, (key) => this.zoom(JSON.parse(key)));
    this.svg.addEventListener('pointerover', (e) => { const f = this.frameOf(e.target); if (f) this.say(f); });
    this.svg.addEventListener('focusin', (e) => { const f = this.frameOf(e.target); if (f) this.say(f); });
    this.svg.addEventListener('keydown', (e) => this.key(e));
    let from = -1;
    const at = (/** @type {PointerEvent} */ e) => { const b = this.line.getBoundingClientRect(); return Math.max(0, Math.min(1, (e.clientX - b.left) / b.width)); };
    this.line.addEventListener('pointerdown', (e) => { from = at(e); this.line.setPointerCapture(e.pointerId); });
    this.line.addEventListener('pointermove', (e) => { if (from >= 0 && this.span) this.select(from, at(e)); });
    this.line.addEventListener('pointerup', (e) => { if (from >= 0 && Math.abs(at(e) - from) < 0.004) this.choose(null); from = -1; });
    this.line.addEventListener('keydown', (e) => {
      const span = this.span;
      if (!span) return;
      const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[e.key];
      if (e.key === 'Escape') this.choose(null);
      if (!step) return;
      e.preventDefault();
      const w = span.to - span.from;
      const old = this.only || { from: span.from, to: span.from + w / 10 };
      const move = (/** @type {number} */ x, /** @type {number} */ d) => (x - span.from) / w + d;
      if (!this.only) this.select(0, 0.1);
      else if (e.shiftKey) this.select(move(old.from, 0), move(old.to, step));
      else this.select(move(old.from, step), move(old.to, step));
    });
  }

  /** @param {number} a @param {number} b shares of the whole time */
  select(a, b) {
    const span = this.span;
    if (!span) return;
    const lo = Math.max(0, Math.min(a, b)), hi = Math.min(1, Math.max(a, b));
    if (hi - lo < 0.002) return;
    this.choose({ from: span.from + lo * (span.to - span.from), to: span.from + hi * (span.to - span.from) });
  }

  /** @param {{from: number, to: number}|null} only */
  choose(only) {
    this.only = only;
    this.whole.hidden = !only;
    this.update(true);
  }

  /** @param {boolean} [now] */
  update(now) {
    const r = this.result;
    if (!now && this.seen === r.version) return;
    // A tree of many rows takes some time: not more than a tenth of it.
    if (!now && r.running && performance.now() < (this.next || 0)) return;
    this.seen = r.version;
    const stack = stackColumn(r);
    if (stack < 0) return;
    const columns = weights(r);
    if (columns.length !== this.weight.options.length) {
      const before = this.weight.value;
      this.weight.replaceChildren(...columns.map((i) => h('option', { value: i }, i < 0 ? 'number of rows' : r.columns[i].name)));
      // Samples count as rows; rows of groups have their weight in a column.
      this.weight.value = before || (r.columns[stack].type === 'LIST' ? '-1' : String(columns[0]));
    }
    this.by = Number(this.weight.value);
    const began = performance.now();
    const { root, rows } = tree(r, stack, this.by, this.only && this.times >= 0 ? { column: this.times, ...this.only } : null);
    this.tree = root;
    this.rows = rows;
    if (this.times >= 0) this.span = timeline(r, this.times);
    this.draw();
    this.next = performance.now() + Math.min(1000, 10 * (performance.now() - began));
  }

  /** @param {CallNode} n */
  text(n) {
    const type = this.by >= 0 ? this.result.columns[this.by].type : 'BIGINT';
    const all = Math.max(1e-9, this.tree ? this.tree.total : 1);
    return `${visible(n.name)}  ${type === 'DURATION' ? scale(n.total, type) : number(n.total)}  ${((100 * n.total) / all).toFixed(1)} %` + (n.self ? `, itself ${((100 * n.self) / all).toFixed(1)} %` : '');
  }

  draw() {
    this.drawTimeline();
    const root = this.tree, width = this.box.clientWidth;
    if (!root || !width) return;
    const query = this.search.value.toLowerCase();
    let top = root;
    /** @type {string[]} */
    const path = [];
    for (const name of this.path) {
      const next = top.children.get(name);
      if (!next) break;
      top = next;
      path.push(name);
    }
    this.reset.disabled = !path.length;
    /** @type {{n: CallNode, path: string[], x: number, w: number, depth: number}[]} */
    const frames = [];
    /** @type {CallNode[]} */
    const above = [];
    for (let n = top.parent; n; n = n.parent) above.unshift(n);
    above.forEach((n, depth) => frames.push({ n, path: path.slice(0, depth), x: 0, w: width, depth }));
    const unit = width / Math.max(1e-9, top.total);
    /** @param {CallNode} n @param {string[]} path @param {number} x @param {number} depth */
    const place = (n, path, x, depth) => {
      const w = n.total * unit;
      if (w < NARROW || frames.length >= MOST) return;
      frames.push({ n, path, x, w, depth });
      let left = x;
      for (const c of byTotal(n)) {
        place(c, [...path, c.name], left, depth + 1);
        left += c.total * unit;
      }
    };
    place(top, path, 0, above.length);
    let matched = 0;
    /** @param {CallNode} n */
    const match = (n) => {
      if (n.parent && n.name.toLowerCase().includes(query)) matched += n.total;
      else for (const c of n.children.values()) match(c);
    };
    if (query) match(root);
    this.found.value = query ? `${((100 * matched) / Math.max(1e-9, root.total)).toFixed(1)} % have it` : `${number(this.rows || 0)} stacks`;
    this.frames = frames;
    const depth = Math.max(0, ...frames.map((f) => f.depth)) + 1;
    this.svg.setAttribute('width', String(width));
    this.svg.setAttribute('height', String(depth * ROW));
    this.svg.setAttribute('viewBox', `0 0 ${width} ${depth * ROW}`);
    const focused = this.svg.contains(document.activeElement) ? this.at : -1;
    this.svg.replaceChildren(...frames.map((f, i) => {
      const room = Math.floor((f.w - 6) / 6.4), name = visible(f.n.name);
      const state = commonState(f.n).toLowerCase().replace(/[^a-z]/g, '');
      const hit = query && f.n.parent && f.n.name.toLowerCase().includes(query);
      return s('g', { class: 'frame ' + (state ? 'state-' + state : 'tone-' + (tone(f.n.name) % 6)) + (f.depth < above.length ? ' above' : '') + (hit ? ' hit' : query ? ' miss' : ''), 'data-at': i,
        tabindex: i === (this.at) ? 0 : -1, role: 'treeitem', 'aria-level': f.depth + 1, 'aria-label': this.text(f.n) },
        s('rect', { x: f.x, y: f.depth * ROW, width: Math.max(0.4, f.w - 0.6), height: ROW - 1, rx: 1.5 }),
        room >= 3 && s('text', { x: f.x + 4, y: f.depth * ROW + 13 }, name.length > room ? name.slice(0, room - 1) + '…' : name));
    }));
    if (focused >= 0) this.focus(Math.min(focused, frames.length - 1));
  }

  drawTimeline() {
    if (this.times < 0 || !this.line.clientWidth || !this.span) return;
    const { c, width, height } = context(this.line);
    const { from, to, parts } = this.span;
    const most = Math.max(1, ...parts.map((p) => [...p.values()].reduce((a, b) => a + b, 0)));
    const w = width / parts.length;
    parts.forEach((p, i) => {
      let y = height;
      for (const [state, n] of [...p].sort()) {
        const tall = (n / most) * (height - 14);
        c.fillStyle = colour(state ? 'state-' + state.toLowerCase() : 'accent') || colour('accent');
        c.fillRect(i * w, y - tall, Math.max(1, w - 0.4), tall);
        y -= tall;
      }
    });
    c.fillStyle = colour('muted');
    c.font = '10px system-ui, sans-serif';
    c.textAlign = 'left';
    c.fillText(time(from, this.result.epoch).slice(0, 12), 2, 10);
    c.textAlign = 'right';
    c.fillText(time(to, this.result.epoch).slice(0, 12), width - 2, 10);
    if (this.only) {
      c.fillStyle = colour('veil');
      const a = ((this.only.from - from) / (to - from)) * width, b = ((this.only.to - from) / (to - from)) * width;
      c.fillRect(0, 0, a, height);
      c.fillRect(b, 0, width - b, height);
    }
  }

  /** @param {EventTarget|null} target */
  frameOf(target) {
    const g = target instanceof Element ? target.closest('g[data-at]') : null;
    return g ? this.frames[Number(g.getAttribute('data-at'))] : null;
  }

  /** @param {{n: CallNode}} f */
  say(f) { this.note.value = this.text(f.n); }

  /** @param {string[]} path */
  zoom(path) {
    this.path = path;
    this.at = path.length;
    this.draw();
  }

  /** @param {number} i */
  focus(i) {
    const g = /** @type {SVGGElement|null} */ (this.svg.querySelector(`g[data-at="${i}"]`));
    if (!g) return;
    this.svg.querySelectorAll('g[tabindex="0"]').forEach((e) => e.setAttribute('tabindex', '-1'));
    g.setAttribute('tabindex', '0');
    this.at = i;
    g.focus();
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const frames = this.frames, at = this.at, f = frames[at];
    if (!f) return;
    let next = -1;
    switch (e.key) {
      case 'ArrowDown': next = frames.findIndex((g, i) => i > at && g.depth === f.depth + 1 && g.x >= f.x - 0.01 && g.x < f.x + f.w); break;
      case 'ArrowUp': next = frames.findLastIndex((g, i) => i < at && g.depth === f.depth - 1); break;
      case 'ArrowRight': next = frames.findIndex((g) => g.depth === f.depth && g.x > f.x); break;
      case 'ArrowLeft': next = frames.findLastIndex((g) => g.depth === f.depth && g.x < f.x); break;
      case 'Enter': case ' ': e.preventDefault(); this.zoom(f.path); this.focus(this.at); return;
      case 'Escape': this.zoom([]); this.focus(0); return;
      default: return;
    }
    e.preventDefault();
    if (next >= 0) this.focus(next);
  }
}

/** @param {string} name */
function tone(name) {
  let x = 0;
  for (let i = 0; i < name.length; i++) x = (x * 31 + name.charCodeAt(i)) >>> 0;
  return x;
}

/** The tree of calls as a table whose rows open. */
export class CallTree {
  /** @param {import('./result.js').Result} result */
  constructor(result) {
    this.result = result;
    /** @type {Set<string>} paths of open rows */
    this.open = new Set(['']);
    this.seen = -1;
    this.next = 0;
    this.opened = false;
    /** @type {string|undefined} */
    this.focused = undefined;
    this.body = h('tbody');
    this.root = h('div', { class: 'calltree' }, h('table', { role: 'treegrid', 'aria-label': 'Call tree' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Function'), h('th', { scope: 'col', class: 'num' }, 'Total'), h('th', { scope: 'col', class: 'num' }, '%'), h('th', { scope: 'col', class: 'num' }, 'Self'))), this.body));
    onPress(this.body, pathOf, (path) => {
      if (!this.open.delete(path)) this.open.add(path);
      this.focused = path;
      this.update(true);
    });
  }

  /** @param {boolean} [now] */
  update(now) {
    const r = this.result;
    if (!now && (this.seen === r.version || (r.running && performance.now() < (this.next || 0)))) return;
    this.seen = r.version;
    const stack = stackColumn(r);
    if (stack < 0) return;
    const began = performance.now();
    const by = r.columns[stack].type === 'LIST' ? -1 : weights(r)[0];
    const { root } = tree(r, stack, by, null);
    const type = by >= 0 ? r.columns[by].type : 'BIGINT';
    const shown = (/** @type {number} */ x) => (type === 'DURATION' ? scale(x, type) : number(x));
    if (!this.opened && root.total > 0) { // the heaviest path is open
      this.opened = true;
      let n = root, path = '';
      for (let i = 0; i < 6 && n.children.size; i++) {
        n = byTotal(n)[0];
        path += '\n' + n.name;
        this.open.add(path);
      }
    }
    this.focused ??= this.body.contains(document.activeElement) ? pathOf(document.activeElement) : undefined;
    /** @type {HTMLElement[]} */
    const rows = [];
    /** @type {HTMLElement|undefined} */
    let focused;
    /** @param {CallNode} n @param {string} path @param {number} level */
    const walk = (n, path, level) => {
      if (rows.length > 2000) return;
      const open = this.open.has(path), some = n.children.size > 0;
      const button = h('button', { type: 'button', class: 'twig', 'aria-label': (open ? 'Close ' : 'Open ') + visible(n.name), 'data-path': path, disabled: !some }, !some ? '·' : open ? '▾' : '▸');
      const name = h('td', {}, button, visible(n.name));
      name.style.paddingLeft = level * 14 + 4 + 'px';
      const share = (100 * n.total) / Math.max(1e-9, root.total);
      const bar = h('td', { class: 'num share' }, share.toFixed(1));
      bar.style.setProperty('--share', share + '%');
      rows.push(h('tr', { role: 'row', 'aria-level': level + 1, 'aria-expanded': some ? String(open) : null }, name, h('td', { class: 'num' }, shown(n.total)), bar, h('td', { class: 'num' }, n.self ? shown(n.self) : '')));
      if (this.focused === path) focused = button;
      if (open) for (const c of byTotal(n)) walk(c, path + '\n' + c.name, level + 1);
    };
    walk(root, '', 0);
    this.body.replaceChildren(...rows);
    focused?.focus();
    this.focused = undefined;
    this.next = performance.now() + Math.min(1000, 10 * (performance.now() - began));
  }
}

/**
 * The path of the twig that an element is, or is part of.
 * @param {EventTarget|null} at
 */
function pathOf(at) {
  const twig = at instanceof Element ? at.closest('.twig:enabled') : null;
  return twig?.getAttribute('data-path') ?? undefined;
}
