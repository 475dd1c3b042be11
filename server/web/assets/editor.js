// The editor: colours, completion and errors come from the engine's own parser and
// completer. The text area has the text; colours are behind it.

import { byId, h } from './dom.js';
import { visible } from './format.js';

const KINDS = ['name', 'keyword', 'function', 'string', 'number', 'param', 'operator', 'comment', 'invalid'];
const CHECK_AFTER = 500; // ms without a key

export class Editor {
  /**
   * @param {import('./api.js').Session} session
   * @param {() => void} run
   */
  constructor(session, run) {
    this.session = session;
    this.run = run;
    /** @type {HTMLTextAreaElement} */
    this.area = byId('editor');
    this.colours = byId('editor-colours');
    this.list = byId('completions');
    this.problem = byId('editor-error');
    /** @type {[number, number, number][]} */
    this.tokens = [];
    /** @type {[number, number][]} */
    this.statements = [];
    /** @type {import('./api.js').Failure|null} */
    this.error = null;
    /** @type {{text: string, kind: string}[]} */
    this.candidates = [];
    this.word = 0;
    this.chosen = 0;
    this.last = '';
    /** @type {{busy: boolean, next: string|null}} */
    this.keys = { busy: false, next: null };
    /** @type {{busy: boolean, next: string|null}} */
    this.checks = { busy: false, next: null };
    this.timer = 0;
    this.ready = false;
    this.area.addEventListener('input', () => this.typed());
    this.area.addEventListener('keydown', (e) => this.key(e));
    this.area.addEventListener('scroll', () => this.scroll());
    this.area.addEventListener('blur', () => setTimeout(() => this.close(), 150));
    this.area.addEventListener('click', () => this.close());
  }

  get text() { return this.area.value; }
  set text(text) {
    this.area.value = text;
    this.error = null;
    this.showError(null);
    this.close();
    this.shift();
    this.ask('');
    this.checkLater();
  }

  typed() {
    this.shift();
    this.error = null;
    this.showError(null);
    const before = this.text.slice(0, this.area.selectionStart);
    // Completion appears while a word is typed, and after a name that ends with a dot.
    this.ask(/[\w$]{2,}$|[\w"]\.$|'[^']{2,}$/.test(before) ? 'complete' : '');
    this.checkLater();
  }

  checkLater() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask('check'), CHECK_AFTER);
  }

  // shift moves the tokens by what was typed, until the server has answered.
  shift() {
    const text = this.text, last = this.last;
    let same = 0;
    while (same < text.length && same < last.length && text[same] === last[same]) same++;
    const delta = text.length - last.length;
    this.tokens = /** @type {[number, number, number][]} */ (this.tokens.flatMap(([a, b, k]) => (b <= same ? [[a, b, k]] : a >= same - Math.min(0, delta) ? [[a + delta, b + delta, k]] : [])));
    this.last = text;
    this.draw();
  }

  /** The session is open. */
  opened() {
    this.ready = true;
    this.ask('');
    this.checkLater();
  }

  /**
   * Asks about the text: its tokens and statements, and completions or the first error. One
   * question of a kind is under way; of those meanwhile the last is asked afterwards.
   * @param {string} want "", "complete" or "check"
   */
  async ask(want) {
    if (!this.ready) return;
    const lane = want === 'check' ? this.checks : this.keys;
    if (lane.busy) {
      lane.next = want;
      return;
    }
    lane.busy = true;
    await this.answer(want).catch(() => {}); // the page says that it is offline
    lane.busy = false;
    const next = lane.next;
    lane.next = null;
    if (next !== null) this.ask(next);
  }

  /** @param {string} want */
  async answer(want) {
    const text = this.text, cursor = this.area.selectionStart;
    const a = await this.session.call('edit', { text, cursor, want });
    if (text !== this.text) return;
    this.tokens = a.tokens;
    this.statements = a.statements;
    if (want === 'check') {
      // An error at the cursor is what is being written.
      const writing = a.error && document.activeElement === this.area && (a.error.start >= text.trimEnd().length || (a.error.start <= cursor && cursor <= a.error.stop));
      if (a.error && !writing) this.showError(a.error);
    }
    this.draw();
    if (want !== 'complete') return;
    const word = text.slice(a.word, cursor);
    this.word = a.word;
    this.candidates = (a.candidates || []).filter((/** @type {{text: string}} */ c) => c.text !== word);
    this.chosen = 0;
    this.open();
  }

  draw() {
    const text = this.text;
    const out = [];
    let done = 0;
    const mark = this.error && this.error.start >= 0 ? this.error : null;
    /** @param {number} from @param {number} to @param {string} kind */
    const piece = (from, to, kind) => {
      if (from >= to) return;
      if (mark) {
        const end = Math.max(mark.stop, mark.start + 1);
        const a = Math.max(from, mark.start), b = Math.min(to, end);
        if (a < b) {
          if (from < a) out.push(h('span', { class: kind }, text.slice(from, a)));
          out.push(h('span', { class: kind + ' wrong' }, text.slice(a, b)));
          if (b < to) out.push(h('span', { class: kind }, text.slice(b, to)));
          return;
        }
      }
      out.push(kind ? h('span', { class: kind }, text.slice(from, to)) : text.slice(from, to));
    };
    for (const [a, b, k] of this.tokens) {
      if (a < done || b > text.length) continue;
      piece(done, a, '');
      piece(a, b, 'tok-' + KINDS[k]);
      done = b;
    }
    piece(done, text.length, '');
    if (mark && mark.start >= text.length) out.push(h('span', { class: 'wrong' }, ' '));
    out.push('\n');
    this.colours.replaceChildren(...out);
    this.scroll();
  }

  scroll() {
    this.colours.scrollTop = this.area.scrollTop;
    this.colours.scrollLeft = this.area.scrollLeft;
  }

  /** @param {import('./api.js').Failure|null} error */
  showError(error) {
    this.error = error;
    this.problem.hidden = !error;
    this.problem.textContent = error ? visible(error.text).replace(/\\u000a/g, '\n') : '';
    this.area.setAttribute('aria-invalid', String(!!error));
    this.draw();
  }

  open() {
    if (!this.candidates.length || document.activeElement !== this.area) return this.close();
    this.list.replaceChildren(...this.candidates.map((c, i) => h('li', { role: 'option', id: 'option-' + i, 'aria-selected': String(i === this.chosen), pointerdown: (/** @type {Event} */ e) => { e.preventDefault(); this.accept(i); } },
      h('span', {}, visible(c.text)), h('small', {}, c.kind))));
    this.list.hidden = false;
    this.area.setAttribute('aria-expanded', 'true');
    this.area.setAttribute('aria-activedescendant', 'option-' + this.chosen);
    // The place of the word: that of a mark in the coloured copy of the text.
    const probe = h('span', {}, '\u200b');
    const copy = /** @type {HTMLElement} */ (this.colours.cloneNode(false));
    copy.append(this.text.slice(0, this.word), probe);
    this.colours.after(copy);
    const left = probe.offsetLeft - this.area.scrollLeft, top = probe.offsetTop - this.area.scrollTop + 20;
    copy.remove();
    this.list.style.left = Math.max(0, Math.min(left, this.area.clientWidth - 240)) + 'px';
    this.list.style.top = top + 'px';
  }

  close() {
    this.candidates = [];
    this.list.hidden = true;
    this.area.setAttribute('aria-expanded', 'false');
    this.area.removeAttribute('aria-activedescendant');
  }

  /** @param {number} i */
  accept(i) {
    const c = this.candidates[i], end = this.area.selectionStart;
    this.close();
    if (!c) return;
    this.area.setSelectionRange(this.word, end);
    this.area.setRangeText(c.text, this.word, end, 'end');
    this.shift();
    this.ask('');
    this.checkLater();
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const open = this.candidates.length > 0;
    if ((e.ctrlKey || e.metaKey) && e.key === 'Enter') {
      e.preventDefault();
      this.close();
      this.run();
    } else if (e.ctrlKey && (e.key === ' ' || e.code === 'Space')) {
      e.preventDefault();
      this.ask('complete');
    } else if (open && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      e.preventDefault();
      const n = this.candidates.length;
      this.chosen = (this.chosen + (e.key === 'ArrowDown' ? 1 : n - 1)) % n;
      this.open();
      this.list.children[this.chosen]?.scrollIntoView({ block: 'nearest' });
    } else if (open && (e.key === 'Enter' || e.key === 'Tab')) {
      e.preventDefault();
      this.accept(this.chosen);
    } else if (open && e.key === 'Escape') {
      e.preventDefault();
      this.close();
    }
  }
}
