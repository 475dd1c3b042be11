// A profile: the stacks of a result as a tree of calls, and their times.

/** @typedef {{name: string, total: number, self: number, states: Map<string, number>, children: Map<string, CallNode>, parent: CallNode|null}} CallNode */

/**
 * The column that has stacks: lists of functions, root first, or folded texts.
 * @param {import('./result.js').Result} r
 */
export function stackColumn(r) {
  const list = r.columns.findIndex((c, i) => c.type === 'LIST' && r.data[i].slice(0, 20).some((v) => Array.isArray(v)));
  if (list >= 0) return list;
  return r.columns.findIndex((c, i) => c.type === 'VARCHAR' && /stack|path|folded/.test(c.name) && r.data[i].slice(0, 20).some((v) => typeof v === 'string' && v.includes(';')));
}

/**
 * Columns by which stacks can be weighed; -1 is the number of rows.
 * @param {import('./result.js').Result} r
 */
export function weights(r) {
  const numbers = r.columns.map((c, i) => ({ c, i })).filter(({ c }) => ['BIGINT', 'DURATION', 'DOUBLE'].includes(c.type) && !/^(pid|tid|arg\d|retval|depth|goroutine)$/.test(c.name));
  const rank = (/** @type {string} */ name) => (/exclusive|self/.test(name) ? 0 : /bytes|sum|count/.test(name) ? 1 : 2);
  return [...numbers.sort((a, b) => rank(a.c.name) - rank(b.c.name)).map(({ i }) => i), -1];
}

/** @param {string} name @param {CallNode|null} parent @returns {CallNode} */
function node(name, parent) {
  return { name, total: 0, self: 0, states: new Map(), children: new Map(), parent };
}

/**
 * The tree of the rows between two times.
 * @param {import('./result.js').Result} r
 * @param {number} stack
 * @param {number} weight
 * @param {{column: number, from: number, to: number}|null} only
 */
export function tree(r, stack, weight, only) {
  const root = node('all', null);
  const state = r.column('state');
  /** @type {Map<any, CallNode>} leaves by stack: most rows repeat one */
  const leaves = new Map();
  const column = r.data[stack], times = only ? r.data[only.column] : null;
  let rows = 0;
  for (let i = 0; i < r.length; i++) {
    const v = column[i];
    if (v === null || v === undefined) continue;
    if (times && only && !(times[i] >= only.from && times[i] < only.to)) continue;
    const w = weight < 0 ? 1 : Number(r.data[weight][i]) || 0;
    const leaf = leaves.get(v) || descend(root, Array.isArray(v) ? v : String(v).split(';'));
    leaves.set(v, leaf);
    rows++;
    leaf.self += w;
    if (state >= 0) {
      const s = r.data[state][i] || '';
      leaf.states.set(s, (leaf.states.get(s) || 0) + w);
    }
  }
  total(root);
  return { root, rows };
}

/**
 * The node of a stack, which is created if it is new.
 * @param {CallNode} from
 * @param {string[]} names
 */
function descend(from, names) {
  let at = from;
  for (const name of names) {
    const next = at.children.get(name) || node(name, at);
    at.children.set(name, next);
    at = next;
  }
  return at;
}

/** @param {CallNode} n */
function total(n) {
  n.total = n.self;
  for (const c of n.children.values()) {
    total(c);
    n.total += c.total;
    for (const [s, w] of c.states) n.states.set(s, (n.states.get(s) || 0) + w);
  }
}

/** @param {CallNode} n */
export function commonState(n) {
  let best = '', most = -1;
  for (const [s, w] of n.states) if (w > most) [best, most] = [s, w];
  return best;
}

/** @param {CallNode} n */
export function byTotal(n) {
  return [...n.children.values()].sort((a, b) => b.total - a.total);
}

/**
 * The number of samples in equal parts of the time, by state: in tenths of a second, but at
 * least 20 and at most 240.
 * @param {import('./result.js').Result} r
 * @param {number} times
 */
export function timeline(r, times) {
  const column = r.data[times], state = r.column('state');
  let from = Infinity, to = -Infinity;
  for (let i = 0; i < r.length; i++) {
    if (column[i] < from) from = column[i];
    if (column[i] > to) to = column[i];
  }
  to += 1;
  const parts = Math.max(20, Math.min(240, Math.round((to - from) / 1e8) || 20));
  /** @type {Map<string, number>[]} */
  const out = Array.from({ length: parts }, () => new Map());
  for (let i = 0; i < r.length; i++) {
    const part = out[Math.min(parts - 1, Math.floor(((column[i] - from) / (to - from)) * parts))];
    const s = state >= 0 ? r.data[state][i] || '' : '';
    if (part) part.set(s, (part.get(s) || 0) + 1);
  }
  return { from, to, parts: out };
}
