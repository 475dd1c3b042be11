// Values as people read them. NULL is empty in tables.

/**
 * Low and high are the columns of the bounds of an estimate; a bound has no column in tables.
 * @typedef {{name: string, type: string, low?: number, high?: number, bound?: boolean}} Column
 */

/** @param {number} x */
function three(x) {
  return x.toFixed(x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2);
}

/** @param {number} ns */
export function duration(ns) {
  const sign = ns < 0 ? '-' : '';
  const u = Math.abs(ns);
  if (u < 1000) return sign + Math.round(u) + 'ns';
  if (u < 999500) return sign + three(u / 1e3) + 'µs';
  if (u < 999.5e6) return sign + three(u / 1e6) + 'ms';
  if (u < 59.95e9) return sign + three(u / 1e9) + 's';
  const s = Math.round(u / 1e9);
  if (s < 3600) return sign + Math.floor(s / 60) + 'min' + String(s % 60).padStart(2, '0') + 's';
  const m = Math.round(s / 60);
  if (m < 1440) return sign + Math.floor(m / 60) + 'h' + String(m % 60).padStart(2, '0') + 'min';
  return sign + Math.floor(m / 1440) + 'd' + String(Math.floor(m / 60) % 24).padStart(2, '0') + 'h';
}

/** @param {number} x */
export function number(x) {
  if (!Number.isFinite(x)) return String(x);
  const a = Math.abs(x);
  if (Number.isInteger(x) && a < 1e15) return x.toLocaleString('en-US');
  if (a !== 0 && (a < 1e-4 || a >= 1e15)) return x.toExponential(3);
  return x.toLocaleString('en-US', { maximumFractionDigits: a >= 100 ? 1 : a >= 1 ? 3 : 5 });
}

/**
 * A short number for axes and counts: 1.2k, 3.4M.
 * @param {number} x
 */
export function brief(x) {
  const a = Math.abs(x);
  for (const [limit, unit] of /** @type {[number, string][]} */ ([[1e9, 'G'], [1e6, 'M'], [1e3, 'k']])) {
    if (a >= limit) return (x / limit).toFixed(a >= 10 * limit ? 0 : 1).replace(/\.0$/, '') + unit;
  }
  return Number.isInteger(x) ? String(x) : number(x);
}

/**
 * The local time of day with microseconds.
 * @param {number} ns since the epoch of the result
 * @param {bigint} epoch
 */
export function time(ns, epoch) {
  const all = epoch + BigInt(Math.round(ns));
  const ms = Number(all / 1000000n), rest = Number(all % 1000000n);
  const d = new Date(ms);
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(ms % 1000).padStart(3, '0')}${String(Math.floor(rest / 1000)).padStart(3, '0')}`;
}

/**
 * A value on an axis or in a legend.
 * @param {number} x
 * @param {string} type
 */
export function scale(x, type) {
  return type === 'DURATION' ? duration(x) : brief(x);
}

const BARS = '▁▂▃▄▅▆▇█';

/** @param {{h: [any, any, number][]}} hist */
export function bars(hist) {
  const most = Math.max(1, ...hist.h.map((b) => b[2]));
  return hist.h.map((b) => (b[2] === 0 ? '·' : BARS[Math.min(7, Math.floor((b[2] / most) * 7.999))])).join('');
}

/**
 * The bounds of a bucket.
 * @param {[any, any, number]} b
 * @param {string} type
 */
export function bucket(b, type) {
  const bound = (/** @type {any} */ x) => (x === null ? '…' : typeof x === 'number' ? scale(x, type) : String(x));
  return bound(b[0]) + ' – ' + bound(b[1]);
}

/**
 * A cell of a table: one line.
 * @param {any} v
 * @param {string} type
 * @param {bigint} epoch
 * @returns {string}
 */
export function cell(v, type, epoch) {
  if (v === null || v === undefined) return '';
  if (typeof v === 'number') {
    if (type === 'DURATION') return duration(v);
    if (type === 'TIMESTAMP') return time(v, epoch);
    return number(v);
  }
  if (typeof v === 'boolean') return v ? 'true' : 'false';
  if (Array.isArray(v)) return [...v].reverse().join(' < ');
  if (typeof v === 'object') {
    if (v.h) return bars(v);
    return oneLine(v.text);
  }
  return oneLine(v);
}

/**
 * An estimate with its interval, in one line: 1.2M ±2%, >=400 with one bound, ~1.2M without any.
 * @param {any} v
 * @param {any} low
 * @param {any} high
 * @param {string} type
 * @param {bigint} epoch
 * @returns {string}
 */
export function estimate(v, low, high, type, epoch) {
  if (v !== null && typeof v === 'object') return (JSON.stringify([v, v]) === JSON.stringify([low, high]) ? '' : '~') + cell(v, type, epoch);
  const none = (/** @type {any} */ x) => x === null || x === undefined;
  const x = Number(v), l = Number(low), h = Number(high);
  if (none(v) || (!none(low) && !none(high) && l === x && h === x)) return cell(v, type, epoch);
  if (none(low) && none(high)) return '~' + scale(x, type);
  if (none(high)) return '>=' + scale(l, type);
  if (none(low) || x === 0) return '<=' + scale(h, type);
  const percent = (100 * Math.max(h - x, x - l)) / Math.abs(x);
  // Rounded up: it is not narrower than it is.
  return `${scale(x, type)} ±${percent < 0.95 ? (Math.ceil(percent * 10) / 10).toFixed(1) : Math.ceil(percent)}%`;
}

/**
 * A value in full, possibly in several lines.
 * @param {any} v
 * @param {string} type
 * @param {bigint} epoch
 */
export function whole(v, type, epoch) {
  if (v === null || v === undefined) return 'NULL';
  if (Array.isArray(v)) return [...v].reverse().join('\n');
  if (typeof v === 'object' && v.h) return v.h.map((/** @type {any} */ b) => bucket(b, v.type).padEnd(24) + b[2]).join('\n');
  if (typeof v === 'object') return visible(v.text);
  if (typeof v === 'number' && type === 'DURATION') return duration(v) + `  (${v.toLocaleString('en-US')} ns)`;
  if (typeof v === 'number' && type === 'BIGINT') return v > 1e9 ? `${number(v)}  (0x${v.toString(16)})` : number(v);
  return typeof v === 'string' ? visible(v) : cell(v, type, epoch);
}

// Characters that are not shown, or that reverse the direction of text, are shown by their
// code: names of functions are hostile.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** @param {string} text */
export function visible(text) {
  return text.replace(HIDDEN, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

/** @param {string} text */
export function oneLine(text) {
  const cut = text.length > 400 ? text.slice(0, 400) + '…' : text;
  return visible(cut.replace(/\n/g, ' ⏎ ').replace(/\t/g, ' '));
}

/**
 * Round steps for an axis.
 * @param {number} lo
 * @param {number} hi
 * @param {number} count
 */
export function ticks(lo, hi, count) {
  const rough = (hi - lo) / Math.max(1, count);
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((x) => x >= rough) || rough;
  const out = [];
  for (let x = Math.ceil(lo / step) * step; x <= hi + step * 1e-9; x += step) out.push(x);
  return out;
}
