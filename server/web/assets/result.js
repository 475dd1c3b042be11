// A result: its rows by column, as they arrive.

/** @typedef {import('./format.js').Column} Column */

// The newest rows that a page keeps.
export const MOST = 200_000;
// Emitted results that are kept for the heat map.
const EMITTED = 1200;

export class Result {
  /**
   * @param {number} id
   * @param {string} statement
   */
  constructor(id, statement) {
    this.id = id;
    this.statement = statement;
    /** @type {Column[]} */
    this.columns = [];
    /** @type {any[][]} by column */
    this.data = [];
    this.length = 0;
    /** Rows that were dropped here, being the oldest. */
    this.forgotten = 0;
    this.epoch = 0n;
    this.replace = false;
    /** preparing, running, ended or failed */
    this.state = 'preparing';
    this.message = '';
    /** @type {string[]} */
    this.notices = [];
    /** @type {any} */
    this.summary = null;
    /** @type {{name: string, state: string, why?: string}[]} of a result of several hosts */
    this.hosts = [];
    /** Its plan can be asked for. */
    this.planned = false;
    /** @type {import('./api.js').Failure|null} */
    this.error = null;
    /** @type {{at: number, data: any[][]}[]} totals as they were emitted, if they have histograms */
    this.emitted = [];
    /** Changes with the rows. */
    this.version = 0;
    /** Changes when earlier rows are not what they were. */
    this.generation = 0;
    this.began = Date.now();
    /** @type {any[][]} texts by column */
    this.words = [];
    /** @type {any[][]|null} the next emitted result */
    this.stage = null;
    this.preview = false;
    this.lastAt = 0;
  }

  get running() { return this.state === 'running' || this.state === 'preparing'; }
  get keepsEmitted() { return this.columns.some((c) => c.type === 'LIST'); }

  /**
   * @param {string} name
   * @param {string} [type]
   */
  column(name, type) {
    return this.columns.findIndex((c) => c.name === name && (!type || c.type === type));
  }

  /**
   * Handles a line of the server.
   * @param {any} l
   */
  line(l) {
    switch (l.t) {
      case 'begin':
        this.state = 'running';
        this.began = Date.now();
        this.columns = l.columns || [];
        this.data = this.columns.map(() => []);
        this.epoch = BigInt(l.epoch);
        this.replace = !!l.replace;
        this.planned = !!l.planned;
        this.message = l.text || '';
        break;
      case 'rows': this.rows(l); break;
      case 'flush': this.flush(l); break;
      case 'notice': this.notices.push(l.text); break;
      case 'footer': this.summarize(l.summary); break;
      case 'end':
        this.summarize(l.summary);
        this.message = l.text || this.message;
        this.error = l.error || null;
        this.state = l.error ? 'failed' : 'ended';
        if (this.stage && !this.preview) this.flush({ at: this.lastAt });
        break;
    }
    this.version++;
  }

  /** @param {any} s */
  summarize(s) {
    this.summary = s;
    if (s && s.hosts) this.hosts = s.hosts;
  }

  /** @param {any} l */
  rows(l) {
    for (const w of l.words || []) {
      if (w.first === 0) this.words[w.c] = [];
      for (let i = 0; i < w.w.length; i++) this.words[w.c][w.first + i] = w.w[i];
    }
    const texts = this.columns.map((c, i) => (c.type === 'VARCHAR' || c.type === 'BYTES' || c.type === 'LIST' ? this.words[i] || [] : null));
    const staged = l.preview || this.replace;
    if (staged) {
      if (!this.stage) this.stage = this.columns.map(() => []);
      this.preview = !!l.preview;
    } else if (this.preview) { // the final result takes the place of its previews
      this.clear();
      this.stage = null;
      this.preview = false;
    }
    const into = staged ? /** @type {any[][]} */ (this.stage) : this.data;
    for (let c = 0; c < this.columns.length; c++) {
      const cells = l.cells[c], words = texts[c], to = into[c];
      for (let i = 0; i < cells.length; i++) {
        const v = cells[i];
        to.push(words && typeof v === 'number' ? words[v] : v);
      }
    }
    if (staged) return;
    this.length += l.n;
    if (this.length > MOST) this.forget(this.length - MOST + MOST / 8);
  }

  /** @param {{at: number}} l */
  flush(l) {
    this.lastAt = l.at;
    if (!this.stage) return;
    this.data = this.stage;
    this.length = this.data.length ? this.data[0].length : 0;
    this.stage = null;
    this.generation++;
    if (this.keepsEmitted) {
      this.emitted.push({ at: l.at, data: this.data });
      if (this.emitted.length > EMITTED) this.emitted.splice(0, EMITTED / 4);
    }
  }

  clear() {
    this.data = this.columns.map(() => []);
    this.length = 0;
    this.generation++;
  }

  /** @param {number} n */
  forget(n) {
    n = Math.floor(n);
    this.data = this.data.map((c) => c.slice(n));
    this.length -= n;
    this.forgotten += n;
    this.generation++;
  }
}
