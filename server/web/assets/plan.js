// A plan as a picture: operators from the result at the top down to what is acquired, with
// their sites, costs and rates.

import { h } from './dom.js';
import { brief, visible } from './format.js';

/** @typedef {{depth: number, name: string, detail: string, site: string, note?: string, measured?: boolean, in?: number, out?: number, time?: string, sites?: {text: string, cost?: string}[]}} Operator */
/** @typedef {{operators: Operator[], lines: string[], notices?: string[], analyzed: boolean, seconds?: number}} Explained */

const SHOWN = 8; // probe sites, before "more"

/** @param {Explained} plan */
export function drawPlan(plan) {
  const tops = [];
  /** @type {{o: Operator, children: any[]}[]} */
  const path = [];
  for (const o of plan.operators) {
    const n = { o, children: [] };
    path.length = Math.min(path.length, o.depth);
    if (path.length) path[path.length - 1].children.push(n);
    else tops.push(n);
    path.push(n);
  }
  const most = Math.max(1, ...plan.operators.map((o) => o.out || 0));
  return h('div', { class: 'plan', role: 'region', 'aria-label': 'Plan', tabindex: 0 },
    h('ul', { class: 'plan-key', 'aria-label': 'Sites' }, ...[...new Set(plan.operators.map((o) => o.site))].map((site) => h('li', { class: 'site ' + kind(site) }, site))),
    h('div', { class: 'plan-tree', role: 'tree', 'aria-label': 'Operators' }, ...tops.map((n) => branch(n, plan, most, 1))),
    h('div', { class: 'plan-lines' }, ...[...(plan.notices || []).map((n) => 'notice: ' + n), ...plan.lines].map((l) => h('p', {}, visible(l)))));
}

/**
 * @param {{o: Operator, children: any[]}} n
 * @param {Explained} plan
 * @param {number} most
 * @param {number} level
 * @returns {HTMLElement}
 */
function branch(n, plan, most, level) {
  const { o } = n;
  const rate = o.measured && plan.seconds ? (o.out || 0) / plan.seconds : null;
  const width = o.measured ? 1 + Math.round((5 * Math.log1p(o.out || 0)) / Math.log1p(most)) : 1;
  const edge = h('div', { class: 'edge' }, o.measured && h('span', { class: 'flow' }, `${brief(o.out || 0)} rows` + (rate !== null ? `, ${brief(Math.round(rate * 10) / 10)}/s` : '')));
  edge.style.setProperty('--thick', width + 'px');
  const sites = o.sites || [];
  const list = sites.slice(0, SHOWN).map(row), rest = sites.slice(SHOWN).map(row);
  const box = h('div', { class: 'op ' + kind(o.site) },
    h('div', { class: 'op-head' }, h('b', {}, o.name), h('span', { class: 'site ' + kind(o.site) }, o.site)),
    o.detail && h('p', { class: 'op-detail' }, visible(o.detail)),
    o.note && h('p', { class: 'op-note' }, o.note),
    o.measured && h('p', { class: 'op-cost' }, `${brief(o.in || 0)} → ${brief(o.out || 0)} rows, ${o.time}`),
    sites.length > 0 && h('ul', { class: 'sites' }, ...list),
    rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more`), h('ul', { class: 'sites' }, ...rest)));
  return h('div', { class: 'branch', role: 'treeitem', 'aria-level': level, 'aria-label': `${o.name} at ${o.site}` }, level > 1 && edge, box,
    n.children.length > 0 && h('div', { class: 'below', role: 'group' }, ...n.children.map((c) => branch(c, plan, most, level + 1))));
}

/** @param {{text: string, cost?: string}} s */
function row(s) {
  return h('li', {}, h('span', {}, visible(s.text)), s.cost && h('span', { class: 'cost', title: 'about, for an event' }, s.cost));
}

/** @param {string} site */
function kind(site) {
  return ['kernel', 'server', 'client'].find((k) => site.startsWith(k)) || 'host';
}
