// The panel of a result: its tab, its views, and its footer, which always says what was
// lost and what the query costs.

import { h, tabs } from './dom.js';
import { number, visible } from './format.js';
import { Table } from './table.js';
import { Chart, charted } from './chart.js';
import { Heat } from './heat.js';
import { Flame, CallTree } from './flame.js';
import { Hosts } from './hosts.js';
import { Picture } from './picture.js';
import { Running } from './plan.js';
import { stackColumn } from './profile.js';

/** @typedef {import('./result.js').Result} Result */
/** @typedef {{root: HTMLElement, update: (now?: boolean) => void}} View */

/** The views in order; each says for which results it is. */
const VIEWS = /** @type {{name: string, title: string, fits: (r: Result) => boolean, make: (r: Result, s: any) => View}[]} */ ([
  { name: 'table', title: 'Table', fits: () => true, make: (r) => new Table(r) },
  { name: 'chart', title: 'Chart', fits: (r) => charted(r).length > 0 && (r.replace || r.preview || r.columns.some((c) => c.type === 'TIMESTAMP')), make: (r, s) => new Chart(r, s) },
  { name: 'heat', title: 'Heat map', fits: (r) => r.data.some((c) => c.slice(0, 20).some((v) => v && v.h)), make: (r) => new Heat(r) },
  { name: 'flame', title: 'Flame graph', fits: (r) => stackColumn(r) >= 0, make: (r) => new Flame(r) },
  { name: 'tree', title: 'Call tree', fits: (r) => stackColumn(r) >= 0, make: (r) => new CallTree(r) },
  { name: 'picture', title: 'Picture', fits: (r) => r.data.some((c) => c.slice(0, 20).some((v) => v && v.picture)), make: (r, s) => new Picture(r, s) },
  { name: 'plan', title: 'Plan', fits: (r) => r.planned, make: (r, s) => new Running(r, s) },
]);

// What is shown first, if it fits.
const PREFERRED = ['flame', 'heat', 'picture'];

export class Panel {
  /**
   * @param {Result} result
   * @param {import('./api.js').Session} session
   * @param {(p: Panel) => void} close
   */
  constructor(result, session, close) {
    this.result = result;
    this.session = session;
    const id = 'result-' + result.id;
    const title = result.statement.replace(/\s+/g, ' ').slice(0, 42);
    this.dot = h('span', { class: 'dot' });
    this.tab = h('button', { role: 'tab', id: 'tab-' + id, 'aria-controls': id, type: 'button', title: result.statement }, this.dot, visible(title));
    this.cross = h('button', { type: 'button', class: 'quiet close', 'aria-label': 'Close result', click: () => close(this) }, '×');
    this.switch = h('div', { class: 'tabs views', role: 'tablist', 'aria-label': 'Views' });
    this.choose = tabs(this.switch, (t) => this.show(t.dataset.view || 'table', true));
    this.box = h('div', { class: 'view' });
    this.rows = h('span', { class: 'fact' });
    this.losses = h('span', { class: 'fact losses' });
    this.hosts = new Hosts();
    this.notes = h('details', { class: 'notes', hidden: true }, h('summary', {}, 'Notices'), h('div'));
    this.footer = h('div', { class: 'footer', role: 'status', 'aria-label': 'Footer of the result' }, this.rows, this.losses);
    this.root = h('section', { id, role: 'tabpanel', 'aria-labelledby': 'tab-' + id, class: 'panel' }, h('div', { class: 'panel-head' }, this.switch, h('span', { class: 'grow' }), this.cross), this.box, this.hosts.root, this.notes, this.footer);
    /** @type {Map<string, View>} */
    this.views = new Map();
    this.current = '';
    /** The rows of the result arrive; a plan has none. */
    this.live = true;
    /** @type {HTMLElement|null} */
    this.failure = null;
    this.noted = 0;
    this.picked = false;
    this.seen = -1;
    /** @type {any} */ (this.root).panel = this;
  }

  /** @param {string} name @param {boolean} [byUser] */
  show(name, byUser) {
    this.picked ||= !!byUser;
    const v = VIEWS.find((v) => v.name === name);
    if (!v || name === this.current) return;
    this.current = name;
    let view = this.views.get(name);
    if (!view) this.views.set(name, (view = v.make(this.result, this.session)));
    this.box.replaceChildren(view.root);
    view.update(true);
    for (const t of this.switch.children) {
      t.setAttribute('aria-selected', String(/** @type {HTMLElement} */ (t).dataset.view === name));
      /** @type {HTMLElement} */ (t).tabIndex = /** @type {HTMLElement} */ (t).dataset.view === name ? 0 : -1;
    }
  }

  /** Brings the panel up to date. @param {boolean} visible_ */
  update(visible_) {
    const r = this.result;
    this.dot.className = 'dot ' + (r.error ? 'failed' : r.running ? 'running' : r.summary && r.summary.losses ? 'lossy' : 'done');
    this.tab.setAttribute('aria-label', `${r.error ? 'failed' : r.running ? 'running' : 'ended'}: ${r.statement.slice(0, 80)}`);
    if (!visible_ || this.seen === r.version) {
      if (visible_ && this.current && r.running) this.views.get(this.current)?.update();
      return;
    }
    this.seen = r.version;
    if (r.state === 'preparing') {
      this.box.replaceChildren(h('p', { class: 'message' }, 'loading programs…'));
    } else if (r.columns.length) {
      for (const v of VIEWS) {
        if (this.switch.querySelector(`[data-view=${v.name}]`) || !v.fits(r)) continue;
        const tab = h('button', { role: 'tab', type: 'button', 'data-view': v.name, 'aria-selected': 'false', tabindex: -1 }, v.title);
        const after = VIEWS.slice(VIEWS.indexOf(v) + 1).map((w) => this.switch.querySelector(`[data-view=${w.name}]`)).find(Boolean);
        this.switch.insertBefore(tab, after || null);
        if (!this.picked && PREFERRED.includes(v.name)) this.show(v.name);
      }
      if (!this.current) this.show('table');
      this.views.get(this.current)?.update();
    } else if (!r.running || r.message) {
      this.box.replaceChildren(h('p', { class: 'message' }, visible(r.message || 'done')));
    }
    if (r.error) this.box.append(...(this.failure ? [] : [(this.failure = h('pre', { class: 'problem', role: 'alert' }, visible(r.error.text)))]));
    this.foot();
  }

  foot() {
    const r = this.result, s = r.summary;
    const seconds = s && !r.running ? s.elapsed : (Date.now() - r.began) / 1000;
    const rows = s ? Math.max(s.rows, r.replace || r.preview ? 0 : r.length + r.forgotten) : r.length;
    this.rows.textContent = `${number(rows)} row${rows === 1 ? '' : 's'} · ${seconds < 10 ? seconds.toFixed(2) : Math.round(seconds)} s` + (r.state === 'running' ? ' · running' : '')
      + (r.forgotten ? ` · the page keeps the newest ${number(r.length)}` : '');
    const losses = (s && s.losses) || [];
    this.losses.className = 'fact losses ' + (losses.length ? 'bad' : 'good');
    const counts = ((s && s.counts) || []).map((/** @type {any} */ c) => `${number(c.n)} ${c.cause}`);
    this.losses.textContent = (losses.length ? losses.map((/** @type {any} */ l) => `lost ${number(l.n)}: ${visible(l.cause)}`).join('; ') : r.running ? 'nothing lost' : r.error ? 'failed' : s && s.sample ? 'a sample' : 'complete')
      + (counts.length ? ` (${counts.join(', ')})` : '');
    this.hosts.update(r.hosts);
    const notes = [...r.notices, ...((s && s.notes) || [])];
    this.notes.hidden = !notes.length;
    if (notes.length !== this.noted) {
      this.noted = notes.length;
      const [summary, list] = this.notes.children;
      summary.textContent = `${notes.length} notice${notes.length === 1 ? '' : 's'}: ${visible(notes[0] || '').slice(0, 110)}`;
      list.replaceChildren(...notes.map((n) => h('p', {}, visible(n))));
    }
  }
}
