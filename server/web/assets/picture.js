// Pictures that the engine draws: automata, grammars, graphs. They come as trees of
// permitted elements and are created one by one.

import { h, s } from './dom.js';
import { cell } from './format.js';

/** @typedef {{n: string, a?: Record<string, string>, c?: (Tree|string)[]}} Tree */

export class Picture {
  /**
   * @param {import('./result.js').Result} result
   * @param {import('./api.js').Session} session
   */
  constructor(result, session) {
    this.result = result;
    this.session = session;
    this.pick = h('select', { 'aria-label': 'Row of the picture', change: () => this.show() });
    this.fit = h('button', { type: 'button', 'aria-pressed': 'true', click: () => { this.fit.setAttribute('aria-pressed', String(this.frame.classList.toggle('fit'))); } }, 'Fit');
    this.frame = h('div', { class: 'picture fit', tabindex: 0, role: 'region', 'aria-label': 'Picture' });
    this.root = h('div', { class: 'chart' }, h('div', { class: 'view-bar' }, h('label', {}, 'Row ', this.pick), this.fit), this.frame);
    this.shown = 0;
    this.seen = -1;
    this.asking = false;
  }

  /** The cells that have pictures. */
  cells() {
    const r = this.result;
    /** @type {{row: number, column: number, picture: number}[]} */
    const out = [];
    for (let i = 0; i < r.length && out.length < 64; i++) {
      r.columns.forEach((_, c) => { const v = r.data[c][i]; if (v && v.picture) out.push({ row: i, column: c, picture: v.picture }); });
    }
    return out;
  }

  update() {
    if (this.seen === this.result.version) return;
    this.seen = this.result.version;
    const r = this.result, cells = this.cells();
    const names = cells.map(({ row, column }) => {
      const others = r.columns.map((c, i) => (i === column || c.type === 'ENCODING' ? '' : cell(r.data[i][row], c.type, r.epoch))).filter(Boolean).join(' · ');
      return `${row + 1}  ${others}`.slice(0, 60);
    });
    const chosen = Math.max(0, this.pick.selectedIndex);
    this.pick.replaceChildren(...names.map((n, i) => h('option', { value: i }, n)));
    this.pick.selectedIndex = Math.min(chosen, names.length - 1);
    this.show();
  }

  async show() {
    const at = this.cells()[this.pick.selectedIndex];
    if (!at || at.picture === this.shown || this.asking) return;
    this.asking = true;
    try {
      const tree = await this.session.call('picture', { q: this.result.id, picture: at.picture });
      this.shown = at.picture;
      const svg = build(tree);
      svg.setAttribute('role', 'img');
      this.frame.replaceChildren(svg);
    } catch (e) {
      this.frame.replaceChildren(h('p', { class: 'muted' }, e instanceof Error ? e.message : String(e)));
    }
    this.asking = false;
    if (this.result.running || this.cells()[this.pick.selectedIndex]?.picture !== this.shown) setTimeout(() => this.show(), 200);
  }
}

/** @param {Tree} tree @returns {SVGElement} */
function build(tree) {
  return s(tree.n, tree.a || {}, ...(tree.c || []).map((c) => (typeof c === 'string' ? c : build(c))));
}
