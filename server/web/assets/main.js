// The page: login, the stream of lines, statements and their results.

import { byId, h, tabs } from './dom.js';
import { Refused, Session } from './api.js';
import { Editor } from './editor.js';
import { Panel } from './panel.js';
import { Result } from './result.js';
import { Side } from './side.js';
import { drawPlan } from './plan.js';
import { visible } from './format.js';

const session = new Session();
/** @type {Map<number, Result>} */
const results = new Map();
/** @type {Panel[]} */
const panels = [];
/** @type {Panel|null} */
let current = null;
let next = 1;
/** @type {Editor} */
let editor;
/** @type {Side} */
let side;

// The number of the result that has the rows of this page's triggers.
const ALERTS = -1;
const MOST = 8; // results; older ones that have ended are closed
const tabList = byId('result-tabs');
const chooseTab = tabs(tabList, (tab) => select(panels.find((p) => p.tab === tab) || null));

/** @param {unknown} e */
function reason(e) {
  return e instanceof Refused ? e.failure.msg : e instanceof Error ? e.message : String(e);
}

/**
 * Shows a message for some seconds. Equal ones are counted, and at most three are shown.
 * @param {string} text
 */
function toast(text) {
  const box = byId('toasts');
  const same = [...box.children].find((t) => /** @type {HTMLElement} */ (t).dataset.text === text);
  const n = same ? Number(/** @type {HTMLElement} */ (same).dataset.n) + 1 : 1;
  const t = h('p', { 'data-text': text, 'data-n': n }, visible(text) + (n > 1 ? `  ×${n}` : ''));
  if (same) same.replaceWith(t);
  else box.append(t);
  while (box.children.length > 3) box.firstElementChild?.remove();
  setTimeout(() => t.remove(), 6000);
}

/** @param {string} state @param {string} text */
function connection(state, text) {
  const e = byId('link-state');
  e.className = 'state ' + state;
  e.textContent = text;
}

// The token and a shared query are in the fragment, which is never sent. The token works
// once; the fragment is removed at once, so that it stays in no history.
function fragment() {
  const parts = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, '', location.pathname);
  return { token: parts.get('token') || '', query: parts.get('q') || '' };
}

async function start() {
  const { token, query } = fragment();
  byId('login-form').addEventListener('submit', (e) => {
    e.preventDefault();
    const typed = /** @type {HTMLInputElement} */ (byId('login-token'));
    enter(typed.value.trim().replace(/^.*[#&]token=/, ''), query);
    typed.value = '';
  });
  await enter(token, query);
}

/** @param {string} token @param {string} query */
async function enter(token, query) {
  let out;
  try {
    out = await session.login(token);
  } catch (e) {
    byId('login').hidden = false;
    byId('login-why').textContent = token || !(e instanceof Refused) ? reason(e) : 'This page needs a token, or the link that endoscope web prints.';
    byId('login-token').focus();
    return;
  }
  byId('login').hidden = true;
  byId('work').hidden = false;
  byId('target').textContent = visible([out.user, out.target].filter(Boolean).join(' · '));
  editor = new Editor(session, run);
  side = new Side(session, use, rowsOf);
  actions();
  connect();
  if (query) toast('The statement comes from a link. It runs only if you run it.');
  editor.text = query || 'SELECT function_name, COUNT(*), QUANTILE(duration, 0.99) AS p99\nFROM function_duration\nWHERE function_name LIKE \'%request%\'\nGROUP BY function_name EMIT EVERY 1s FOR 1min';
  editor.area.focus();
}

async function connect() {
  connection('waiting', 'connecting');
  try {
    await session.open(line);
    throw new Error('the server has closed the connection');
  } catch (e) {
    connection('offline', 'offline');
    for (const r of results.values()) {
      if (r.running) r.line({ t: 'end', error: { msg: 'the connection has ended', text: 'error: the connection has ended: ' + reason(e), start: -1, stop: -1 }, summary: r.summary });
    }
    toast('The connection has ended: ' + reason(e));
    const again = h('button', { type: 'button', click: () => { again.remove(); connect(); } }, 'Connect again');
    byId('link-state').append(' ', again);
  }
}

/** @param {any} l a line of the server */
function line(l) {
  switch (l.t) {
    case 'hello':
      results.set(ALERTS, new Result(ALERTS, 'rows of triggers'));
      connection('online', 'connected');
      editor.opened();
      side.library();
      break;
    case 'note':
      if (!side.alert(l.text)) toast(l.text);
      break;
    case 'beat': break;
    default: {
      const r = results.get(l.q);
      if (r) r.line(l);
      if (l.q === ALERTS && l.t === 'rows' && !panels.some((p) => p.result === r)) add(new Panel(/** @type {Result} */ (r), session, close), true);
    }
  }
}

/** @param {string} text */
function use(text) {
  editor.text = text;
  editor.area.focus();
}


/**
 * Executes a statement and returns its rows.
 * @param {string} text
 * @returns {Promise<any[][]|null>}
 */
async function rowsOf(text) {
  const r = new Result(next++, text);
  results.set(r.id, r);
  const ended = new Promise((done) => {
    const original = r.line.bind(r);
    r.line = (l) => { original(l); if (l.t === 'end') done(null); };
  });
  try {
    await session.call('query', { q: r.id, text, start: 0, cursor: text.length });
    await ended;
    return r.error ? null : Array.from({ length: r.length }, (_, i) => r.data.map((c) => c[i]));
  } catch (e) {
    if (e instanceof Refused && e.failure && text === editor.text) editor.showError(e.failure);
    throw e;
  } finally {
    results.delete(r.id);
    session.call('close', { q: r.id }).catch(() => {});
  }
}

async function run() {
  const text = editor.text;
  await editor.answer('').catch((e) => toast(reason(e)));
  if (!editor.statements.length) return;
  editor.showError(null);
  side.remember(text.trim());
  for (const [start, stop] of editor.statements) {
    const statement = text.slice(start, stop);
    if (/^\s*EXPLAIN\b/i.test(statement)) {
      if (!(await explain(text, start, stop, false))) return;
      continue;
    }
    const r = new Result(next++, statement), p = new Panel(r, session, close);
    results.set(r.id, r);
    add(p);
    try {
      await session.call('query', { q: r.id, text, start, cursor: stop });
    } catch (e) {
      close(p);
      if (e instanceof Refused) editor.showError(e.failure);
      else toast(reason(e));
      return;
    }
    if (/\bTRIGGER\b/i.test(statement)) side.triggers();
  }
}

/** @param {Panel} p @param {boolean} [aside] it is not selected */
function add(p, aside) {
  panels.push(p);
  tabList.append(p.tab);
  byId('results').append(p.root);
  byId('no-results').hidden = true;
  const ended = panels.filter((q) => !q.result.running && q !== p);
  if (panels.length > MOST && ended.length) close(ended[0]);
  if (!aside || panels.length === 1) chooseTab(p.tab);
  else p.root.hidden = true;
}

/** @param {Panel} p */
function close(p) {
  const at = panels.indexOf(p);
  if (at < 0) return;
  panels.splice(at, 1);
  if (p.result.id > 0) results.delete(p.result.id);
  p.tab.remove();
  p.root.remove();
  if (p.live && p.result.id > 0) session.call('close', { q: p.result.id }).catch(() => {});
  const other = panels[Math.min(at, panels.length - 1)] || null;
  if (current === p) {
    if (other) chooseTab(other.tab);
    else select(null);
  }
  byId('no-results').hidden = panels.length > 0;
}

/** @param {Panel|null} p */
function select(p) {
  current = p;
  for (const q of panels) q.root.hidden = q !== p;
  if (p && p.live) p.update(true);
  p?.tab.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

/**
 * @param {string} text @param {number} start @param {number} stop @param {boolean} analyze
 */
async function explain(text, start, stop, analyze) {
  const r = new Result(next++, (analyze ? 'ANALYZE ' : 'EXPLAIN ') + text.slice(start, stop).replace(/^\s*EXPLAIN\s+/i, ''));
  const p = new Panel(r, session, close);
  p.live = false;
  p.switch.replaceWith(h('span', { class: 'plan-title' }, analyze ? 'Plan, measured' : 'Plan'));
  p.box.replaceChildren(h('p', { class: 'message' }, analyze ? 'running for at most 5 s…' : 'planning…'));
  add(p);
  try {
    const plan = await session.call('plan', { text, start, cursor: stop, analyze });
    p.box.replaceChildren(drawPlan(plan));
    r.state = 'ended';
    p.update(false);
    p.rows.textContent = `${plan.operators.length} operators` + (plan.seconds ? ` · ran ${plan.seconds.toFixed(2)} s` : '');
    p.losses.textContent = plan.lines.filter((/** @type {string} */ l) => /^(lost|complete)/.test(l)).join('; ');
    return true;
  } catch (e) {
    close(p);
    if (e instanceof Refused) editor.showError(e.failure);
    else toast(reason(e));
    return false;
  }
}

/** The statement at the cursor, or the last. */
function atCursor() {
  const at = editor.area.selectionStart;
  return editor.statements.find(([a, b]) => a <= at && at <= b + 1) || editor.statements[editor.statements.length - 1];
}

function actions() {
  byId('run').addEventListener('click', run);
  byId('stop').addEventListener('click', () => { if (current) session.call('stop', { q: current.result.id }).catch((e) => toast(reason(e))); });
  for (const what of ['explain', 'analyze']) {
    byId(what).addEventListener('click', async () => {
      await editor.answer('').catch((e) => toast(reason(e)));
      const s = atCursor();
      if (s) explain(editor.text, s[0], s[1], what === 'analyze');
    });
  }
  byId('share').addEventListener('click', async () => {
    const link = location.origin + '/#q=' + encodeURIComponent(editor.text);
    const box = /** @type {HTMLInputElement} */ (byId('share-link'));
    byId('share-box').hidden = false;
    box.value = link;
    box.select();
    try { await navigator.clipboard.writeText(link); toast('The link is copied. It fills the editor and runs nothing.'); } catch { /* it can be copied by hand */ }
  });
  byId('new-page').addEventListener('click', async () => {
    const page = window.open('about:blank', '_blank');
    try {
      const { token } = await session.call('link', {});
      if (page) { page.opener = null; page.location.href = '/#token=' + token; }
    } catch (e) { toast(reason(e)); }
  });
  window.addEventListener('pagehide', () => session.close());
  requestAnimationFrame(frame);
  setInterval(overhead, 2000);
}

let drawn = 0;
// frame shows what has arrived, ten times a second.
function frame() {
  requestAnimationFrame(frame);
  if (performance.now() - drawn < 100) return;
  drawn = performance.now();
  for (const p of panels) if (p.live) p.update(p === current);
  /** @type {HTMLButtonElement} */ (byId('stop')).disabled = !(current && current.live && current.result.running && current.result.id > 0);
}

/** @type {{at: number, spent: number}|null} */
let before = null;

// overhead shows what the probes cost: hits × price. A second measurement tells the rate.
async function overhead() {
  const meter = byId('overhead');
  if (document.hidden) return;
  if (!side.armed && !panels.some((p) => p.live && p.result.running && p.result.id > 0)) {
    before = null;
    meter.textContent = 'no probes';
    return;
  }
  const hosts = Math.max(0, ...panels.map((p) => p.result.hosts.length));
  if (hosts) { // each of them has probes of its own
    before = null;
    meter.textContent = `${hosts} hosts`;
    return;
  }
  let rows;
  try { rows = await rowsOf('SELECT COUNT(*), SUM(hits * cost), SUM(hits) FROM sys.probes WHERE cost > 0'); } catch { return; }
  if (!rows || !rows.length) return;
  const [probes, spent] = rows[0].map(Number);
  const now = { at: performance.now(), spent: spent || 0 };
  if (before && now.spent >= before.spent && now.at > before.at) {
    const share = (now.spent - before.spent) / ((now.at - before.at) * 1e6);
    meter.textContent = `${probes} probes · ${(100 * share).toFixed(share < 0.1 ? 2 : 0)} % of a CPU`;
    meter.classList.toggle('high', share > 0.05);
  } else meter.textContent = `${probes} probes`;
  before = now;
}

start();
