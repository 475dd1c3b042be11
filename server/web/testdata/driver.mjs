// Drives a browser for the tests: each line of standard input is {code, args}, the body of
// an async function; each line of standard output is {value} or {error}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.argv[2] + '/x.js');
const { chromium } = require('playwright-core');
const browser = await chromium.launch({ executablePath: process.argv[3], args: ['--no-sandbox', '--disable-dev-shm-usage'] });
const pages = {};

// patience is that of package testenv, ms: the machine may be busy.
const patience = 3 * 60 * 1000;

// open opens a page in a profile of its own. Its errors are kept.
async function open(name, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.trouble = [];
  page.on('pageerror', (e) => page.trouble.push(e.message));
  page.on('console', (m) => { if (m.type() === 'error' && !/the server responded with a status of 4/.test(m.text())) page.trouble.push(m.text()); });
  page.on('dialog', (d) => { page.trouble.push('dialog ' + d.message()); d.dismiss(); });
  await page.goto(url);
  pages[name] = page;
  return page;
}

// enter opens a page and waits until it is connected.
async function enter(name, url, options) {
  const page = await open(name, url, options);
  await page.waitForFunction(() => document.querySelector('#link-state').textContent === 'connected');
  return page;
}

// run runs statements and waits until the result in sight has so many rows.
async function run(page, text, rows = 1) {
  await page.fill('#editor', text);
  await page.click('#run');
  try {
    await page.waitForFunction(([text, rows]) => {
      const p = document.querySelector('#results > section:not([hidden])');
      return p && p.panel.result.statement === text && p.panel.result.length >= rows;
    }, [text, rows]);
  } catch (e) {
    throw new Error(e.message + '\nThe page has:\n' + await page.innerText('body'));
  }
}

// stop ends the query of the page.
async function stop(page) {
  await page.click('#stop');
  await page.waitForFunction(() => document.querySelector('#results > section:not([hidden])').panel.result.state === 'ended');
}

const Body = Object.getPrototypeOf(async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  const { code, args } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await new Body('pages', 'open', 'enter', 'run', 'stop', 'args', code)(pages, open, enter, run, stop, args)) ?? null };
  } catch (e) {
    answer = { error: String(e && e.message || e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await browser.close();
