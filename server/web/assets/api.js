// Requests to the server, and the stream of lines of the page.

/** @typedef {{msg: string, hint?: string, text: string, start: number, stop: number}} Failure */

/** An error that the server has answered with. */
export class Refused extends Error {
  /** @param {number} status @param {Failure} failure */
  constructor(status, failure) {
    super(failure.msg);
    this.status = status;
    this.failure = failure;
  }
}

// How long lines are handled before the browser may draw.
const SLICE = 8;

/** The session of this page. Its key is only here: in no cookie and in no storage. */
export class Session {
  #key = '';
  #stream = new AbortController();

  /**
   * Exchanges a token for a key.
   * @param {string} token
   */
  async login(token) {
    const out = await this.call('login', { token });
    this.#key = out.key;
    return out;
  }

  /**
   * @param {string} what
   * @param {object} body
   * @returns {Promise<any>}
   */
  async call(what, body) {
    const answer = await this.#post(what, body, null);
    return answer.json();
  }

  /**
   * @param {string} what
   * @param {object} body
   * @param {AbortSignal|null} signal
   */
  async #post(what, body, signal) {
    /** @type {Record<string, string>} */
    const headers = { 'Content-Type': 'application/json' };
    if (this.#key) headers.Authorization = 'Bearer ' + this.#key;
    const answer = await fetch('/api/' + what, {
      method: 'POST', headers, body: JSON.stringify(body), signal, credentials: 'omit', cache: 'no-store', referrerPolicy: 'no-referrer',
    });
    if (!answer.ok) {
      const body = await answer.json().catch(() => ({ error: { msg: 'the server answered ' + answer.status, text: '', start: -1, stop: -1 } }));
      throw new Refused(answer.status, body.error);
    }
    return answer;
  }

  /**
   * Opens the session and calls line for each line, until the connection ends.
   * @param {(line: any) => void} line
   */
  async open(line) {
    this.#stream.abort();
    this.#stream = new AbortController();
    const answer = await this.#post('open', {}, this.#stream.signal);
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
      rest = lines.pop() || '';
      let began = performance.now();
      for (const text of lines) {
        line(JSON.parse(text));
        if (performance.now() - began > SLICE) {
          // What is not read stays at the server, which drops rows and counts them.
          await nextFrame();
          began = performance.now();
        }
      }
    }
  }

  close() {
    this.#stream.abort();
  }
}

function nextFrame() {
  return new Promise((go) => (document.hidden ? setTimeout(go, 50) : requestAnimationFrame(go)));
}
