// A plan as a picture: operators from the result at the top down to what is acquired, with
// their sites, costs and rates.

import { h } from './dom.js';
import { brief, visible } from './format.js';

/** @typedef {{depth: number, name: string, detail: string, site: string, note?: string, measured?: boolean, in?: number, out?: number, time?: string, sites?: {text: string, cost?: string}[]}} Operator */
/** @typedef {{operators: Operator[], lines: string[], notices?: string[], analyzed: boolean, seconds?: number}} Explained */

/** @typedef {{o: Operator, children: Node[], show: (o: Operator, rate: number|null, most: number) => void}} Node */

const SHOWN = 8; // probe sites, before "more"
const EVERY = 1000; // ms between questions about a running plan

/** @param {Explained} plan */
export function drawPlan(plan) {
  return picture(plan).root;
}

/**
 * A plan as an element, and a function that shows what was measured since.
 * @param {Explained} plan
 */
function picture(plan) {
  const tops = /** @type {Node[]} */ ([]), all = /** @type {Node[]} */ ([]), path = /** @type {Node[]} */ ([]);
  for (const o of plan.operators) {
    const n = /** @type {Node} */ ({ o, children: [], show: () => {} });
    path.length = Math.min(path.length, o.depth);
    if (path.length) path[path.length - 1].children.push(n);
    else tops.push(n);
    path.push(n);
    all.push(n);
  }
  const root = h('div', { class: 'plan', role: 'region', 'aria-label': 'Plan', tabindex: 0 },
    h('ul', { class: 'plan-key', 'aria-label': 'Sites' }, ...[...new Set(plan.operators.map((o) => o.site))].map((site) => h('li', { class: 'site ' + kind(site) }, site))),
    h('div', { class: 'plan-tree', role: 'tree', 'aria-label': 'Operators' }, ...tops.map((n) => branch(n, 1))),
    h('div', { class: 'plan-lines' }, ...[...(plan.notices || []).map((n) => 'notice: ' + n), ...plan.lines].map((l) => h('p', {}, visible(l)))));
  /**
   * @param {Explained} now with the same operators
   * @param {Explained|null} before the measurement before it; null: rates are those of the whole time
   */
  const show = (now, before) => {
    const seconds = (now.seconds || 0) - (before?.seconds || 0);
    const most = Math.max(1, ...now.operators.map((o) => o.out || 0));
    now.operators.forEach((o, i) => all[i].show(o, o.measured && seconds > 0 ? ((o.out || 0) - (before?.operators[i].out || 0)) / seconds : null, most));
  };
  show(plan, null);
  return { root, show };
}

/**
 * @param {Node} n
 * @param {number} level
 * @returns {HTMLElement}
 */
function branch(n, level) {
  const { o } = n;
  const flow = h('span', { class: 'flow', hidden: true }), cost = h('p', { class: 'op-cost', hidden: true });
  const edge = h('div', { class: 'edge' }, flow);
  const sites = o.sites || [];
  const list = sites.slice(0, SHOWN).map(row), rest = sites.slice(SHOWN).map(row);
  const box = h('div', { class: 'op ' + kind(o.site) },
    h('div', { class: 'op-head' }, h('b', {}, o.name), h('span', { class: 'site ' + kind(o.site) }, o.site)),
    o.detail && h('p', { class: 'op-detail' }, visible(o.detail)),
    o.note && h('p', { class: 'op-note' }, o.note),
    cost,
    sites.length > 0 && h('ul', { class: 'sites', 'aria-label': 'Probe sites' }, ...list),
    rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more probe sites`), h('ul', { class: 'sites', 'aria-label': 'More probe sites' }, ...rest)));
  const item = h('div', { class: 'branch', role: 'treeitem', 'aria-level': level }, level > 1 && edge, box,
    n.children.length > 0 && h('div', { class: 'below', role: 'group' }, ...n.children.map((c) => branch(c, level + 1))));
  n.show = (o, rate, most) => {
    const says = o.measured ? `${brief(o.out || 0)} rows` + (rate !== null ? `, ${brief(Math.round(rate * 10) / 10)}/s` : '') : '';
    edge.style.setProperty('--thick', (o.measured ? 1 + Math.round((5 * Math.log1p(o.out || 0)) / Math.log1p(most)) : 1) + 'px');
    flow.hidden = cost.hidden = !o.measured;
    flow.textContent = says;
    cost.textContent = o.measured ? `${brief(o.in || 0)} → ${brief(o.out || 0)} rows` + (level === 1 && rate !== null ? `, ${brief(Math.round(rate * 10) / 10)}/s` : '') + `, ${o.time}` : '';
    item.setAttribute('aria-label', `${o.name} at ${o.site}` + (says && ': ' + says));
  };
  return item;
}

/** The plan of a running result, with rates. */
export class Running {
  /**
   * @param {import('./result.js').Result} result
   * @param {import('./api.js').Session} session
   */
  constructor(result, session) {
    this.result = result;
    this.session = session;
    this.root = h('div', { class: 'plan-box' }, h('p', { class: 'message' }, 'asking for the plan…'));
    this.asked = -EVERY;
    this.asking = false;
    this.ended = false; // the last answer is that of the whole result
    this.shape = '';
    /** @type {Explained|null} */
    this.got = null;
    /** @type {ReturnType<typeof picture>|null} */
    this.drawn = null;
  }

  update() {
    if (this.asking || this.ended || (this.result.running && performance.now() - this.asked < EVERY)) return;
    this.ask();
  }

  async ask() {
    this.asking = true;
    this.asked = performance.now();
    const running = this.result.running;
    try {
      const now = /** @type {Explained} */ (await this.session.call('rates', { q: this.result.id }));
      const shape = now.operators.map((o) => [o.depth, o.name, o.detail, o.site, (o.sites || []).length].join()).join('\n');
      if (!this.drawn || shape !== this.shape) {
        this.drawn = picture(now);
        this.shape = shape;
        this.got = null;
        this.root.replaceChildren(this.drawn.root);
      }
      this.drawn.show(now, running ? this.got : null);
      this.got = now;
      this.ended = !running;
    } catch (e) {
      this.ended = true;
      if (!this.drawn) this.root.replaceChildren(h('p', { class: 'message' }, e instanceof Error ? e.message : String(e)));
    }
    this.asking = false;
  }
}

/** @param {{text: string, cost?: string}} s */
function row(s) {
  return h('li', {}, h('span', {}, visible(s.text)), s.cost && h('span', { class: 'cost', title: 'about, for an event' }, s.cost));
}

/** @param {string} site */
function kind(site) {
  return ['kernel', 'server', 'client'].find((k) => site.startsWith(k)) || 'host';
}
