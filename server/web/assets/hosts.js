// The hosts of a result of a fleet: which have answered, which are late, which are missing.

import { h } from './dom.js';
import { number, visible } from './format.js';

/** @typedef {{name: string, state: string, why?: string}} Host */

const STATES = ['missing', 'late', 'answered']; // in the order of the table
const MOST = 1000; // rows of the table

export class Hosts {
  constructor() {
    this.summary = h('summary', {}, 'Hosts');
    this.body = h('tbody');
    this.more = h('p', { class: 'muted', hidden: true });
    this.root = h('details', { class: 'hosts', hidden: true }, this.summary,
      h('div', { class: 'hosts-box', tabindex: 0, role: 'region', 'aria-label': 'Hosts of the result' },
        h('table', { 'aria-label': 'Hosts' }, h('thead', {}, h('tr', {}, ...['Host', 'State', 'Reason'].map((t) => h('th', { scope: 'col' }, t)))), this.body), this.more));
    /** @type {Host[]} */
    this.shown = [];
  }

  /** @param {Host[]} hosts */
  update(hosts) {
    if (hosts === this.shown) return;
    this.shown = hosts;
    this.root.hidden = !hosts.length;
    const counts = STATES.map((s) => ({ s, n: hosts.filter((x) => x.state === s).length }));
    const absent = counts[0].n + counts[1].n;
    this.summary.textContent = `Hosts: ${number(hosts.length - absent)} of ${number(hosts.length)} answered` + counts.slice(0, 2).filter((c) => c.n).map((c) => `, ${number(c.n)} ${c.s}`).join('');
    this.summary.classList.toggle('bad', absent > 0);
    const order = STATES.flatMap((s) => hosts.filter((x) => x.state === s));
    this.body.replaceChildren(...order.slice(0, MOST).map((x) => h('tr', { class: x.state }, h('th', { scope: 'row' }, visible(x.name)), h('td', {}, x.state), h('td', {}, visible(x.why || '')))));
    this.more.hidden = order.length <= MOST;
    this.more.textContent = `and ${number(order.length - MOST)} more that have answered`;
  }
}
