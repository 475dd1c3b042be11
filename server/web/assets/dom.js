// Small helpers for elements. Text is always set as text: nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element. Attributes whose value is null or false are left out; functions are
 * event listeners.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, any>} [attrs]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, attrs = {}, ...children) {
  const e = document.createElement(name);
  set(e, attrs);
  add(e, children);
  return e;
}

/**
 * Creates an element of SVG.
 * @param {string} name
 * @param {Record<string, any>} [attrs]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(name, attrs = {}, ...children) {
  const e = document.createElementNS(SVG, name);
  set(e, attrs);
  add(e, children);
  return /** @type {SVGElement} */ (e);
}

/**
 * @param {Element} e
 * @param {Record<string, any>} attrs
 */
function set(e, attrs) {
  for (const [k, v] of Object.entries(attrs)) {
    if (v === null || v === undefined || v === false) continue;
    if (typeof v === 'function') e.addEventListener(k, v);
    else e.setAttribute(k, v === true ? '' : String(v));
  }
}

/**
 * @param {Element} e
 * @param {Child[]} children
 */
function add(e, children) {
  for (const c of children) {
    if (c !== null && c !== undefined && c !== false) e.append(typeof c === 'number' ? String(c) : c);
  }
}

/**
 * Returns the element of an id; the page has it.
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  const e = document.getElementById(id);
  if (!e) throw new Error('no element ' + id);
  return /** @type {T} */ (e);
}

/**
 * Calls act when something below root is pressed. There is no click event where it is drawn
 * again while the button is down, as a live result is.
 * @param {Element} root
 * @param {(at: EventTarget|null) => string|undefined} keyOf names what is at a place; undefined for nothing
 * @param {(key: string) => void} act
 */
export function onPress(root, keyOf, act) {
  /** @type {string|undefined} */
  let down;
  const pointer = (/** @type {Event} */ e) => /** @type {PointerEvent} */ (e);
  root.addEventListener('pointerdown', (e) => { down = pointer(e).button ? undefined : keyOf(e.target); });
  root.addEventListener('pointerup', (e) => { const key = keyOf(e.target); if (key !== undefined && key === down) act(key); });
  root.addEventListener('click', (e) => { const key = keyOf(e.target); if (key !== undefined && !pointer(e).detail) act(key); }); // without a pointer
}

/**
 * Makes a tab list work: one tab is selected, arrows move between them.
 * @param {HTMLElement} list
 * @param {(tab: HTMLElement) => void} chosen
 */
export function tabs(list, chosen) {
  const all = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll('[role=tab]')]);
  list.addEventListener('click', (e) => {
    const tab = /** @type {HTMLElement|null} */ (/** @type {Element} */ (e.target).closest('[role=tab]'));
    if (tab) choose(tab);
  });
  list.addEventListener('keydown', (e) => {
    const tabs = all();
    const at = tabs.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (at < 0 || !step) return;
    e.preventDefault();
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.focus();
    choose(next);
  });
  /** @param {HTMLElement} tab */
  function choose(tab) {
    for (const t of all()) {
      t.setAttribute('aria-selected', String(t === tab));
      t.tabIndex = t === tab ? 0 : -1;
    }
    chosen(tab);
  }
  return choose;
}

/**
 * The theme's colour of a name (a custom property of the style sheet).
 * @param {string} name
 */
export function colour(name) {
  return theme.getPropertyValue('--' + name).trim();
}

const theme = getComputedStyle(document.documentElement); // it is live

/**
 * Sizes a canvas to its box and returns its context in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 */
export function context(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}
