// The table of a result: only the rows in sight are elements.

import { h } from './dom.js';
import { cell, estimate, whole } from './format.js';

const ROW = 24;
const BEYOND = 6;

export class Table {
  /** @param {import('./result.js').Result} result */
  constructor(result) {
    this.result = result;
    this.sort = -1;
    this.down = false;
    this.clicks = 0;
    this.pending = false;
    this.sized = false;
    /** @type {number[]|null} rows in order; null: as they arrived */
    this.order = null;
    this.sorted = { generation: -1, length: 0 };
    this.selected = -1;
    /** The longest time that drawing has taken, in ms. */
    this.slowest = 0;
    /** @type {{row: HTMLElement, cells: HTMLElement[], at: number}[]} */
    this.pool = [];
    /** @type {number[]} the columns that are shown: all but bounds, which are shown with their estimates */
    this.shown = [];
    this.head = h('div', { class: 'head', role: 'row', 'aria-rowindex': 1 });
    this.body = h('div', { class: 'rows', role: 'rowgroup' });
    this.element = h('div', { class: 'table', role: 'grid', tabindex: 0, 'aria-label': 'Rows' }, this.head, this.body);
    this.details = h('dl', { class: 'details', 'aria-label': 'Selected row', tabindex: 0, hidden: true });
    this.number = new Text(); // of the selected row
    /** @type {Text[]} of the selected row, by column */
    this.values = [];
    this.root = h('div', { class: 'table-box' }, this.element, this.details);
    this.element.addEventListener('scroll', () => this.later());
    this.element.addEventListener('keydown', (e) => this.key(e));
    this.body.addEventListener('click', (e) => {
      const row = /** @type {HTMLElement|null} */ (/** @type {Element} */ (e.target).closest('.row'));
      if (row) this.select(Number(row.dataset.at));
    });
    this.tall = 0;
    this.counted = -1;
    new ResizeObserver(() => { this.tall = this.element.clientHeight; this.later(); }).observe(this.element);
    /** @type {any} */ (this.element).table = this;
    this.heads();
  }

  heads() {
    const { columns } = this.result;
    this.shown = columns.flatMap((c, i) => (c.bound ? [] : [i]));
    this.head.replaceChildren(...this.shown.map((i) => h('div', { role: 'columnheader', 'aria-sort': 'none', class: this.kind(columns[i]) },
      h('button', { type: 'button', class: 'sort', title: columns[i].type, click: () => this.sortBy(i) }, columns[i].name))));
    this.values = columns.map(() => new Text());
    this.details.replaceChildren(
      h('div', { class: 'details-head' }, this.number,
        h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close details', click: () => this.deselect() }, '×')),
      ...columns.flatMap((c, i) => [h('dt', {}, c.name), h('dd', {}, this.values[i])]));
    this.widths();
  }

  /** @param {import('./format.js').Column} c */
  kind(c) {
    return ['BIGINT', 'DOUBLE', 'DURATION'].includes(c.type) ? 'cell num' : 'cell';
  }

  /**
   * @param {number} c column
   * @param {number} row
   */
  text(c, row) {
    const { columns, data, epoch } = this.result;
    const { type, low, high } = columns[c];
    return low && high ? estimate(data[c][row], data[low][row], data[high][row], type, epoch) : cell(data[c][row], type, epoch);
  }

  // The widths go by the first rows.
  widths() {
    const { columns, length } = this.result;
    this.sized = length > 0;
    const chars = this.shown.map((i) => {
      let n = columns[i].name.length + 3;
      for (let r = 0; r < Math.min(length, 40); r++) n = Math.max(n, this.text(i, r).length + 1);
      return Math.min(n, 64);
    });
    const px = chars.map((n) => Math.ceil(n * 7.3) + 18);
    const total = px.reduce((a, b) => a + b, 0);
    const template = px.map((w) => `minmax(${w}px, ${w}fr)`).join(' ');
    this.element.style.setProperty('--columns', template);
    this.element.style.setProperty('--width', total + 'px');
  }

  /** @param {number} i */
  sortBy(i) {
    // A second click turns the direction, a third restores the order of arrival.
    if (this.sort !== i) [this.sort, this.down, this.clicks] = [i, this.isNumber(i), 1];
    else if (this.clicks === 1) [this.down, this.clicks] = [!this.down, 2];
    else this.sort = -1;
    [...this.head.children].forEach((e, k) => e.setAttribute('aria-sort', this.shown[k] !== this.sort ? 'none' : this.down ? 'descending' : 'ascending'));
    this.sorted = { generation: -1, length: 0 };
    this.draw();
  }

  /** @param {number} i */
  isNumber(i) { return this.kind(this.result.columns[i]).includes('num'); }

  // arrange brings the order up to date: rows that have arrived are merged into those that are sorted.
  arrange() {
    const { data, length, generation } = this.result;
    if (this.sort < 0) { this.order = null; return; }
    if (this.sorted.generation === generation && this.sorted.length === length && this.order) return;
    const column = data[this.sort], sign = this.down ? -1 : 1;
    /** @param {number} a @param {number} b */
    const compare = (a, b) => sign * compareValues(column[a], column[b]) || a - b;
    const old = this.sorted.generation === generation && this.order ? this.order : [];
    const fresh = [];
    for (let i = old.length; i < length; i++) fresh.push(i);
    fresh.sort(compare);
    const merged = new Array(length);
    let i = 0, j = 0;
    for (let k = 0; k < length; k++) {
      merged[k] = j >= fresh.length || (i < old.length && compare(old[i], fresh[j]) <= 0) ? old[i++] : fresh[j++];
    }
    this.order = merged;
    this.sorted = { generation, length };
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.scrolled(); });
  }

  // update shows what has arrived.
  update() {
    if (!this.sized) this.widths();
    this.arrange();
    const e = this.element;
    const atEnd = e.scrollTop + e.clientHeight >= e.scrollHeight - 2 * ROW;
    this.draw();
    if (this.result.running && this.sort < 0 && !this.result.replace && atEnd && this.result.length > 50) {
      e.scrollTop = e.scrollHeight;
    }
    if (this.selected >= 0) this.showDetails();
  }

  scrolled() {
    const began = performance.now();
    this.draw();
    this.slowest = Math.max(this.slowest, performance.now() - began);
  }

  draw() {
    this.arrange();
    const { columns, length } = this.result;
    const top = this.element.scrollTop; // before anything changes: it needs no layout then
    if (this.counted !== length) {
      this.counted = length;
      this.body.style.height = length * ROW + 'px';
      this.element.setAttribute('aria-rowcount', String(length + 1));
    }
    const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
    const last = Math.min(length, Math.ceil((top + this.tall) / ROW) + BEYOND);
    const need = Math.max(0, last - first);
    while (this.pool.length < need) {
      const cells = this.shown.map((i) => h('div', { role: 'gridcell', class: this.kind(columns[i]) }, ''));
      const row = h('div', { class: 'row', role: 'row' }, ...cells);
      this.pool.push({ row, cells, at: -1 });
      this.body.append(row);
    }
    // A place in the pool belongs to the rows that leave the same rest, so that a row that
    // stays in sight keeps its element.
    const used = new Set();
    for (let at = first; at < last; at++) {
      const slot = this.pool[at % this.pool.length];
      used.add(slot);
      const index = this.order ? this.order[at] : at;
      if (slot.at !== at) {
        slot.row.style.transform = `translateY(${at * ROW}px)`;
        slot.row.dataset.at = String(at);
        slot.row.setAttribute('aria-rowindex', String(at + 2));
        slot.row.hidden = false;
        slot.at = at;
      }
      const chosen = String(at === this.selected);
      if (slot.row.ariaSelected !== chosen) slot.row.ariaSelected = chosen;
      for (let c = 0; c < this.shown.length; c++) {
        const text = this.text(this.shown[c], index);
        const node = /** @type {Text} */ (slot.cells[c].firstChild);
        if (node.data !== text) node.data = text;
      }
    }
    for (const slot of this.pool) {
      if (!used.has(slot) && slot.at >= 0) {
        slot.row.hidden = true;
        slot.at = -1;
      }
    }
  }

  /** @param {number} at */
  select(at) {
    this.selected = Math.max(0, Math.min(at, this.result.length - 1));
    const e = this.element;
    const top = this.selected * ROW, head = this.head.offsetHeight;
    if (top < e.scrollTop) e.scrollTop = top;
    if (top + ROW + head > e.scrollTop + e.clientHeight) e.scrollTop = top + ROW + head - e.clientHeight;
    this.draw();
    this.showDetails();
  }

  showDetails() {
    const { columns, data, epoch, length } = this.result;
    this.details.hidden = this.selected < 0 || this.selected >= length;
    if (this.details.hidden) return;
    const index = this.order ? this.order[this.selected] : this.selected;
    this.number.data = `Row ${(index + 1 + this.result.forgotten).toLocaleString('en-US')}`;
    columns.forEach((c, i) => { this.values[i].data = whole(data[i][index], c.type, epoch); });
  }

  deselect() {
    this.selected = -1;
    this.details.hidden = true;
    this.draw();
    this.element.focus();
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.target !== this.element) return;
    const page = Math.floor(this.element.clientHeight / ROW) - 2;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[e.key];
    if (step !== undefined) {
      e.preventDefault();
      const from = this.selected < 0 ? -1 : this.selected;
      this.select(step === Infinity ? this.result.length - 1 : step === -Infinity ? 0 : from + step);
    } else if (e.key === 'Escape') this.deselect();
  }
}

/**
 * Orders values: NULL last; numbers, texts, and integers beyond 2^53, which are texts, by
 * their value.
 * @param {any} a
 * @param {any} b
 */
export function compareValues(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'number' || typeof b === 'number') return Number(a) - Number(b);
  const x = typeof a === 'object' ? JSON.stringify(a) : String(a), y = typeof b === 'object' ? JSON.stringify(b) : String(b);
  return x < y ? -1 : x > y ? 1 : 0;
}
