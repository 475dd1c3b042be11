// The side panel: the library of queries, the history, and triggers with their alerts.

import { byId, h, tabs } from './dom.js';
import { number, visible } from './format.js';

const KEPT = 100; // statements of the history
const ALERTS = 200;
const STORE = 'endoscope-history';

export class Side {
  /**
   * @param {import('./api.js').Session} session
   * @param {(text: string) => void} use puts a text into the editor
   * @param {(text: string) => Promise<any[][]|null>} ask executes a statement and returns its rows
   */
  constructor(session, use, ask) {
    this.session = session;
    this.use = use;
    this.ask = ask;
    this.alerts = 0;
    /** Triggers that exist: their probes cost, too. */
    this.armed = 0;
    this.choose = tabs(/** @type {HTMLElement} */ (document.querySelector('.side .tabs')), (tab) => {
      for (const p of document.querySelectorAll('.side [role=tabpanel]')) p.toggleAttribute('hidden', p.id !== tab.getAttribute('aria-controls'));
      if (tab.id === 'tab-triggers') { this.alerts = 0; this.count(); this.triggers(); }
    });
    byId('history-clear').addEventListener('click', () => { this.write([]); this.history(); });
    byId('library-language').addEventListener('change', () => this.questions());
    byId('trigger-form').addEventListener('submit', (e) => { e.preventDefault(); this.create(); });
    this.history();
    setInterval(() => { if (!byId('side-triggers').hidden && !document.hidden) this.triggers(); }, 2000);
  }

  async library() {
    this.entries = await this.session.call('library', {});
    const all = [...new Set(this.entries.flatMap((/** @type {any} */ e) => e.languages))].filter((l) => l !== 'any');
    const names = /** @type {Record<string, string>} */ ({ c: 'C, C++, Rust', go: 'Go', java: 'Java', python: 'Python', node: 'Node', ruby: 'Ruby', php: 'PHP', postgresql: 'PostgreSQL' });
    byId('library-language').replaceChildren(h('option', { value: '' }, 'any language'), ...all.map((l) => h('option', { value: l }, names[l] || l)));
    this.questions();
  }

  questions() {
    const language = /** @type {HTMLSelectElement} */ (byId('library-language')).value;
    byId('library-list').replaceChildren(...this.entries
      .filter((/** @type {any} */ e) => !language || e.languages.includes(language) || e.languages.includes('any'))
      .map((/** @type {any} */ e) => h('li', {}, h('button', { type: 'button', 'data-name': e.name, title: e.text, click: () => this.use(e.text) }, h('span', {}, e.question), h('small', {}, e.languages.join(' '))))));
  }

  /** @returns {string[]} */
  read() {
    try { return JSON.parse(localStorage.getItem(STORE) || '[]'); } catch { return []; }
  }

  /** @param {string[]} all */
  write(all) {
    try { localStorage.setItem(STORE, JSON.stringify(all)); } catch { /* the browser keeps nothing */ }
  }

  /** @param {string} text */
  remember(text) {
    this.write([text, ...this.read().filter((t) => t !== text)].slice(0, KEPT));
    this.history();
  }

  history() {
    byId('history-list').replaceChildren(...this.read().map((t) => h('li', {}, h('button', { type: 'button', class: 'code', title: t, click: () => this.use(t) }, visible(t.replace(/\s+/g, ' ').slice(0, 160))))));
  }

  count() {
    const c = byId('alert-count');
    c.hidden = this.alerts === 0;
    c.textContent = String(this.alerts);
    c.setAttribute('aria-label', `${this.alerts} new alerts`);
  }

  /**
   * Shows an alert; those with the text of the newest are counted. Returns whether the list
   * is in sight.
   * @param {string} text
   */
  alert(text) {
    const list = byId('alerts'), newest = /** @type {HTMLElement|null} */ (list.firstElementChild);
    const n = newest && newest.dataset.text === text ? Number(newest.dataset.n) + 1 : 1;
    const item = h('li', { 'data-text': text, 'data-n': n }, h('time', {}, new Date().toTimeString().slice(0, 8)), h('span', {}, visible(text)), n > 1 && h('b', { class: 'times' }, `×${n}`));
    if (n > 1) newest?.replaceWith(item);
    else list.prepend(item);
    while (list.children.length > ALERTS) list.lastElementChild?.remove();
    const hidden = byId('side-triggers').hidden;
    if (hidden) { this.alerts++; this.count(); }
    return !hidden;
  }

  async triggers() {
    let rows;
    try { rows = await this.ask('SELECT trigger, state, activations, statement FROM sys.triggers'); } catch { return; }
    if (!rows) return;
    this.armed = rows.length;
    byId('trigger-list').replaceChildren(...(rows.length ? rows : []).map(([name, state, activations, statement]) => h('li', { class: 'trigger', title: statement },
      h('b', {}, visible(String(name))), h('span', { class: 'muted' }, ` ${state} · ${number(Number(activations))} activations`),
      h('button', { type: 'button', class: 'quiet', 'aria-label': 'Drop trigger ' + name, click: () => this.drop(String(name)) }, 'Drop'))));
    if (!rows.length) byId('trigger-list').replaceChildren(h('li', { class: 'muted' }, 'There is no trigger.'));
  }

  async create() {
    const value = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (byId(id)).value;
    const text = `CREATE OR REPLACE TRIGGER ${value('trigger-name')} ON ${value('trigger-stream')}\nWHEN ${value('trigger-when')}\nBEGIN NOTIFY '${value('trigger-text').replaceAll("'", "''")}' END`;
    this.use(text);
    try { await this.ask(text); } catch { return; } // the editor shows the error
    this.triggers();
  }

  /** @param {string} name */
  async drop(name) {
    await this.ask(`DROP TRIGGER "${name.replaceAll('"', '""')}"`).catch(() => {});
    this.triggers();
  }
}
