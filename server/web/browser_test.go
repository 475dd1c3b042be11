package web

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/client/demo"
	"endoscope/probes/testenv"
)

const countCalls = "SELECT function_name, COUNT(*) FROM function_start WHERE function_name LIKE 'cache\\_%' GROUP BY function_name EMIT EVERY 200ms"

func TestPage(t *testing.T) {
	testenv.Long(t)
	testenv.NeedUprobes(t)
	target, err := demo.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer target.Stop()
	d, b := newDesk(t, target.PID()), newBrowser(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *desk, *browser)
	}{
		{"login", pageLogin},
		{"shared link", pageShared},
		{"keyboard and completion", pageKeyboard},
		{"error with its place", pageError},
		{"flame graph", pageFlame},
		{"live", pageLive},
		{"chart and heat map", pageCharts},
		{"picture", pagePicture},
		{"plan", pagePlan},
		{"trigger", pageTrigger},
		{"100,000 rows", pageRows},
		{"closed", pageClosed},
		{"many pages", pageMany},
		{"a million points", pagePan},
		{"estimates", pageEstimates},
		{"wide and small, light and dark", pageLayout},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, d, b) })
	}
}

func pageLogin(t *testing.T, d *desk, b *browser) {
	url := d.url()
	if hash := b.text(t, "const p = await enter('login', args[0]); return p.url()", url); hash != "http://"+d.addr+"/" {
		t.Errorf("the address is %s: the token stays in it", hash)
	}
	b.none(t, "login")
	b.do(t, nil, `
		if (await pages.login.evaluate(() => document.cookie + Object.keys(sessionStorage) + JSON.stringify(localStorage)) !== '{}') throw new Error('something is stored');`)
	for _, wrong := range []string{url, "http://" + d.addr + "/#token=wrong"} {
		if why := b.text(t, `
			const p = await open('wrong', args[0]);
			await p.waitForSelector('#login:not([hidden])');
			return p.textContent('#login-why')`, wrong); !strings.Contains(why, "the link is not valid") {
			t.Errorf("%s: %s", wrong, why)
		}
		b.do(t, nil, "await pages.wrong.context().close()")
	}
	b.do(t, nil, "await pages.login.context().close()")
}

func pageShared(t *testing.T, d *desk, b *browser) {
	const text = "SELECT COUNT(*) FROM function_start WHERE function_name = 'fib'"
	if got := b.text(t, `
		const p = await enter('shared', args[0] + '&q=' + encodeURIComponent(args[1]));
		if (await p.locator('#result-tabs [role=tab]').count()) throw new Error('it runs');
		return p.inputValue('#editor')`, d.url(), text); got != text {
		t.Errorf("the editor has %q", got)
	}
	if n := d.running(t, "fib"); n != 0 {
		t.Errorf("%d queries run", n)
	}
	link := b.text(t, "const p = pages.shared; await p.click('#share'); return p.inputValue('#share-link')")
	if !strings.HasPrefix(link, "http://"+d.addr+"/#q=SELECT%20COUNT") || strings.Contains(link, "token") {
		t.Errorf("the link is %s", link)
	}
	b.none(t, "shared")
	b.do(t, nil, "await pages.shared.context().close()")
}

func pageKeyboard(t *testing.T, d *desk, b *browser) {
	got := b.text(t, `
		const p = await enter('keys', args[0]);
		await p.keyboard.press('Control+A');
		await p.keyboard.type("SELECT function_name, COUNT(*) FROM function_st");
		await p.waitForSelector('#completions li:has-text("function_start")');
		await p.keyboard.press('Tab');
		await p.keyboard.type(" WHERE function_name LIKE 'cache\\_%' GROUP BY function_name EMIT EVERY 200ms");
		await p.keyboard.press('Escape');
		const text = await p.inputValue('#editor');
		await p.keyboard.press('Control+Enter');
		await p.waitForSelector('#results .row:not([hidden]) >> text=cache_put');
		const count = () => p.evaluate(() => { const r = document.querySelector('#results > section').panel.result; return Number(r.data[1][r.data[0].indexOf('cache_put')]); });
		const first = await count();
		await p.waitForFunction((first) => { const r = document.querySelector('#results > section').panel.result; return Number(r.data[1][r.data[0].indexOf('cache_put')]) > first; }, first);
		// Buttons are reached by Tab alone.
		for (let i = 0; i < 6 && await p.evaluate(() => document.activeElement.id) !== 'stop'; i++) await p.keyboard.press('Tab');
		await p.keyboard.press('Enter');
		await p.waitForFunction(() => document.querySelector('#results > section').panel.result.state === 'ended');
		return text`, d.url())
	if got != countCalls {
		t.Errorf("the editor has\n%s\nwant\n%s", got, countCalls)
	}
	// The footer is drawn with the next frame.
	if footer := b.text(t, "await pages.keys.waitForSelector('.footer:has-text(\"complete\")'); return pages.keys.textContent('.footer')"); !strings.Contains(footer, "complete") {
		t.Errorf("the footer is %q", footer)
	}
	b.named(t, "keys", "a table")
	b.none(t, "keys")
	b.do(t, nil, "await pages.keys.context().close()")
}

func pageError(t *testing.T, d *desk, b *browser) {
	var got struct{ Wrong, Text, Tabs string }
	b.do(t, &got, `
		const p = await enter('wrong', args[0]);
		await p.fill('#editor', "SELECT 'é😀', COUNT(*)\nFROM function_strat WHERE function_name = 'fib'");
		await p.click('#run');
		await p.waitForSelector('#editor-error:not([hidden])');
		return { Wrong: await p.textContent('.wrong'), Text: await p.textContent('#editor-error'), Tabs: await p.textContent('#result-tabs') }`, d.url())
	const want = "error: there is no stream function_strat\n  FROM function_strat WHERE function_name = 'fib'\n       ^\nhint: did you mean function_start?"
	if got.Wrong != "function_strat" || got.Text != want || got.Tabs != "" {
		t.Errorf("%+v\nwant %s", got, want)
	}
	b.do(t, nil, "await pages.wrong.context().close()")
}

func pageFlame(t *testing.T, d *desk, b *browser) {
	var got struct {
		Before, After float64
		All, Some     int
		Found, Tree   string
	}
	testenv.Once(t, func() error { // a quarter of the time may have no stacks
		b.do(t, &got, `
			const p = await enter('flame', args[0]);
			await run(p, "SELECT timestamp, thread_name, state, stack FROM SAMPLE(stack_sample, 20ms)", 300);
			await stop(p);
			const frame = (name) => p.locator('.frame').filter({ hasText: new RegExp('^' + name + '$') }).first();
			const width = (name) => frame(name).locator('rect').evaluate((e) => Number(e.getAttribute('width')));
			await frame('worker').waitFor();
			const out = { Before: await width('worker') };
			const stacks = async () => Number((await p.inputValue('.view-bar output').catch(() => '') || await p.textContent('.view-bar output')).replace(/[^0-9]/g, ''));
			out.All = await p.evaluate(() => document.querySelector('#results > section').panel.views.get('flame').rows);
			await frame('worker').click();
			for (let i = 0; i < 100 && (out.After = await width('worker')) < 1.5 * out.Before; i++) await p.waitForTimeout(50);
			await p.fill('.flame-view input[type=search]', 'process_job');
			out.Found = await p.evaluate(() => document.querySelector('.flame-view .view-bar output').value);
			await p.fill('.flame-view input[type=search]', '');
			const line = await p.locator('.timeline').boundingBox();
			await p.mouse.move(line.x + line.width * 0.25, line.y + 20);
			await p.mouse.down();
			await p.mouse.move(line.x + line.width * 0.5, line.y + 20, { steps: 4 });
			await p.mouse.up();
			out.Some = await p.evaluate(() => document.querySelector('#results > section').panel.views.get('flame').rows);
			await p.click('[data-view=tree]');
			out.Tree = await p.textContent('.calltree');
			return out`, d.url())
		if got.Some <= 0 || got.Some*3 > got.All*2 {
			b.do(t, nil, "await pages.flame.context().close()")
			return fmt.Errorf("%d stacks, %d of a quarter of the time", got.All, got.Some)
		}
		return nil
	})
	b.named(t, "flame", "a call tree")
	b.do(t, nil, "await pages.flame.click('[data-view=flame]')")
	b.named(t, "flame", "a flame graph")
	if got.After < got.Before*1.5 {
		t.Errorf("the width of worker is %v, and after a click %v", got.Before, got.After)
	}
	if !strings.HasSuffix(got.Found, "% have it") {
		t.Errorf("search %q", got.Found)
	}
	if !strings.Contains(got.Tree, "start_thread") {
		t.Errorf("the call tree is %q", got.Tree)
	}
	b.none(t, "flame")
	b.do(t, nil, "await pages.flame.context().close()")
}

// What is drawn again while the button is down takes the click all the same.
func pageLive(t *testing.T, d *desk, b *browser) {
	var got struct {
		Rows, Closed string
		Hidden       bool
		Open, Shut   int
	}
	b.do(t, &got, `
		const p = await enter('live', args[0]);
		await run(p, "SELECT stack, COUNT(*) FROM SAMPLE(stack_sample, 20ms) GROUP BY stack EMIT EVERY 100ms", 2);
		const press = async (at) => { // the page shows two more versions before the button is up
			const { x, y, width, height } = await p.evaluate((at) => document.querySelector(at).getBoundingClientRect().toJSON(), at);
			await p.mouse.move(x + width / 2, y + height / 2);
			await p.mouse.down();
			for (let i = 0; i < 2; i++) await p.evaluate(async () => {
				const panel = document.querySelector('#results > section').panel;
				for (const from = panel.result.version; panel.result.version === from;) await new Promise(requestAnimationFrame);
				panel.views.get(panel.current).update(true);
			});
			await p.mouse.up();
		};
		const out = {};
		await p.click('[data-view=table]');
		await p.locator('.row').first().click();
		out.Rows = await p.textContent('.details-head');
		await press('.details-head button');
		out.Hidden = await p.evaluate(() => document.querySelector('.details').hidden);
		await p.click('[data-view=tree]');
		const opened = () => p.locator('[aria-expanded=true]').count();
		await p.locator('.twig').first().waitFor();
		out.Open = await opened();
		await press('.twig');
		out.Shut = await opened();
		out.Closed = await p.locator('.twig').first().getAttribute('aria-label');
		await p.evaluate(() => document.querySelector('.twig').focus());
		await p.keyboard.press('Enter');
		await p.waitForFunction(() => document.activeElement.matches('[aria-expanded=true] .twig'));
		return out`, d.url())
	if got.Rows != "Row 1×" || !got.Hidden || got.Open == 0 || got.Shut != 0 || !strings.HasPrefix(got.Closed, "Open ") {
		t.Errorf("%+v", got)
	}
	b.none(t, "live")
	b.do(t, nil, "await pages.live.context().close()")
}

func pageCharts(t *testing.T, d *desk, b *browser) {
	var got struct {
		Series  []string
		Zoomed  bool
		Buckets int
		Columns int
		Slowest float64
	}
	b.do(t, &got, `
		const p = await enter('chart', args[0]);
		await run(p, "SELECT timestamp, function_name, duration FROM function_duration WHERE function_name LIKE 'cache\\_%'", 20);
		await p.waitForFunction(() => new Set(document.querySelector('#results > section').panel.result.data[1]).size >= 3);
		await stop(p);
		await p.click('[data-view=chart]');
		await p.waitForSelector('.legend button');
		const chart = () => p.evaluate(() => { const c = document.querySelector('#results > section canvas').chart; return { window: c.window, got: c.got && c.got.series.map((s) => s.name), slowest: c.slowest }; });
		const out = { Series: (await chart()).got.sort() };
		await p.focus('canvas.plot');
		await p.keyboard.press('+');
		await p.keyboard.press('ArrowRight');
		out.Zoomed = (await chart()).window !== null;
		out.Slowest = (await chart()).slowest;
		await run(p, "SELECT window_start, HISTOGRAM(duration) FROM TUMBLE(function_duration, 200ms) WHERE function_name LIKE '%request%'", 5);
		await p.waitForFunction(() => { const v = document.querySelector('#results > section:not([hidden])').panel.views.get('heat'); return v && v.columns.length >= 5 && v.buckets.length >= 3; });
		await stop(p);
		Object.assign(out, await p.evaluate(() => { const v = document.querySelector('#results > section:not([hidden])').panel.views.get('heat'); return { Buckets: v.buckets.length, Columns: v.columns.length }; }));
		return out`, d.url())
	b.named(t, "chart", "a heat map")
	b.do(t, nil, "await pages.chart.locator('#result-tabs [role=tab]').first().click()")
	b.named(t, "chart", "a chart")
	if strings.Join(got.Series, " ") != "cache_evict cache_get cache_put" || !got.Zoomed || got.Buckets < 3 || got.Columns < 5 {
		t.Errorf("%+v", got)
	}
	t.Logf("a chart was drawn in at most %.1f ms", got.Slowest)
	b.none(t, "chart")
	b.do(t, nil, "await pages.chart.context().close()")
}

func pagePicture(t *testing.T, d *desk, b *browser) {
	got := b.text(t, `
		const p = await enter('picture', args[0]);
		await run(p, "SELECT AUTOMATON(function_name) FROM function_start WHERE function_name IN (cache_put, cache_evict) GROUP BY tid");
		await p.waitForSelector('.picture svg text >> text=cache_put');
		await p.waitForSelector('.picture svg text >> text=cache_evict');
		await stop(p);
		if (await p.locator('.picture [style], .picture script, .picture style').count()) throw new Error('styles or scripts');
		return p.textContent('.picture')`, d.url())
	b.named(t, "picture", "a picture")
	if !strings.Contains(got, "cache_evict") {
		t.Errorf("the picture has %q", got)
	}
	b.none(t, "picture")
	b.do(t, nil, "await pages.picture.context().close()")
}

func pagePlan(t *testing.T, d *desk, b *browser) {
	var got struct{ Explain, Analyze string }
	b.do(t, &got, `
		const p = await enter('plan', args[0]);
		await p.fill('#editor', "SELECT function_name, COUNT(*) FROM function_start WHERE function_name LIKE 'cache\\_%' GROUP BY function_name FOR 1s");
		await p.click('#explain');
		await p.waitForSelector('.plan .op');
		const out = { Explain: await p.textContent('.plan') };
		await p.click('#analyze');
		await p.waitForSelector('#results > section:not([hidden]) .plan .flow');
		out.Analyze = await p.textContent('#results > section:not([hidden]) .plan');
		return out`, d.url())
	b.named(t, "plan", "a plan")
	for _, want := range []string{"aggregate", "acquire", "kernel", "server", "uprobe cache_put"} {
		if !strings.Contains(got.Explain, want) {
			t.Errorf("the plan lacks %s: %s", want, got.Explain)
		}
	}
	if !strings.Contains(got.Analyze, "rows, ") || !strings.Contains(got.Analyze, "/s") {
		t.Errorf("the plan has no rates: %s", got.Analyze)
	}
	// The plan of a running query has rates, which are measured again while it runs.
	var live struct {
		First, Later []string
		Same, Ended  bool
	}
	b.do(t, &live, `
		const p = pages.plan;
		await run(p, args[0]);
		await p.click('#results > section:not([hidden]) [data-view=plan]');
		const root = '#results > section:not([hidden]) .plan';
		await p.waitForSelector(root + ' .flow:not([hidden])');
		const texts = () => p.locator(root + ' .op-cost').allTextContents();
		const out = { First: await texts() };
		await p.evaluate((root) => { window.drawnPlan = document.querySelector(root); }, root);
		await p.waitForFunction(([root, first]) => { const all = [...document.querySelectorAll(root + ' .op-cost')].map((e) => e.textContent); return all.join() !== first.join() && /[1-9].*\/s/.test(all[0]); }, [root, out.First]);
		out.Later = await texts();
		out.Same = await p.evaluate((root) => window.drawnPlan === document.querySelector(root), root);
		await p.click('#stop');
		await p.waitForFunction(() => { const q = document.querySelector('#results > section:not([hidden])').panel; return q.result.state === 'ended' && q.views.get('plan').ended; });
		out.Ended = true;
		return out`, countCalls)
	t.Logf("the plan of a running query: %q, and later %q", live.First, live.Later)
	if !live.Same || !live.Ended || len(live.Later) < 2 {
		t.Errorf("%+v", live)
	}
	b.named(t, "plan", "a plan with rates")
	b.none(t, "plan")
	b.do(t, nil, "await pages.plan.context().close()")
}

func pageTrigger(t *testing.T, d *desk, b *browser) {
	got := b.text(t, `
		const p = await enter('trigger', args[0]);
		await p.click('#tab-triggers');
		await p.click('#trigger-new summary');
		await p.fill('#trigger-name', 'put');
		await p.fill('#trigger-when', "function_name = 'cache_put'");
		await p.fill('#trigger-text', "it's a <b>put</b>");
		await p.click('#trigger-form button');
		await p.waitForSelector('#alerts li');
		await p.waitForSelector('#trigger-list >> text=put');
		const text = await p.textContent('#alerts li span');
		if (await p.locator('#alerts b:not(.times)').count()) throw new Error('markup');
		await p.click('#trigger-list button');
		await p.waitForSelector('#trigger-list >> text=There is no trigger');
		return text`, d.url())
	if !strings.Contains(got, "it's a <b>put</b>") {
		t.Errorf("the alert is %q", got)
	}
	b.none(t, "trigger")
	b.do(t, nil, "await pages.trigger.context().close()")
}

// pageRows scrolls 100,000 rows. How long a frame takes is logged; that it does not grow with
// the rows follows from the number of elements.
func pageRows(t *testing.T, d *desk, b *browser) {
	var got struct {
		Rows, Elements int
		Last, Sorted   string
		Frame          float64
	}
	b.do(t, &got, `
		const p = await enter('rows', args[0]);
		await run(p, "SELECT n, 'row ' || n::VARCHAR AS name, n % 1000 AS rest FROM series(100000)", 100000);
		// The time of the thread, not of the clock: others use the machine, too.
		const cdp = await p.context().newCDPSession(p);
		await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
		const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
		const before = await script();
		const out = await p.evaluate(async () => {
			const panel = document.querySelector('#results > section').panel;
			panel.show('table', true);
			const frame = () => new Promise(requestAnimationFrame);
			await frame();
			const element = panel.root.querySelector('.table');
			// The table is drawn a frame after the last rows have arrived.
			while (element.getAttribute('aria-rowcount') !== '100001') await frame();
			const height = element.scrollHeight;
			for (let i = 0; i <= 100; i++) {
				element.scrollTop = (height * i) / 100;
				await frame();
			}
			await frame();
			await frame();
			const last = [...element.querySelectorAll('.row:not([hidden])')].map((e) => e.textContent).sort().pop();
			element.querySelectorAll('.sort')[0].click();
			element.scrollTop = 0;
			await frame();
			await frame();
			const first = [...element.querySelectorAll('.row:not([hidden])')].find((e) => e.dataset.at === '0').textContent;
			return { Rows: panel.result.length, Elements: element.querySelectorAll('.row').length, Last: last, Sorted: first };
		});
		return { ...out, Frame: (await script() - before) / 103 }`, d.url())
	if got.Rows != 100_000 || got.Elements > 100 || !strings.Contains(got.Last, "row 99999") || !strings.Contains(got.Sorted, "row 100000") {
		t.Errorf("%+v", got)
	}
	t.Logf("scrolling takes %.2f ms of script a frame, on average", got.Frame)
	b.none(t, "rows")
	b.do(t, nil, "await pages.rows.context().close()")
}

func pageClosed(t *testing.T, d *desk, b *browser) {
	const text = "SELECT function_name, COUNT(*) FROM function_start WHERE function_name = 'fib' GROUP BY function_name EMIT EVERY 100ms"
	b.do(t, nil, "const p = await enter('closed', args[0]); await run(p, args[1])", d.url(), text)
	if n := d.running(t, "fib"); n != 1 {
		t.Fatalf("%d queries run", n)
	}
	b.do(t, nil, "await pages.closed.close()")
	took := testenv.Until(t, "the query of the closed page has ended", func() bool { return d.running(t, "fib") == 0 })
	t.Logf("the query ended %v after its page was closed", took)
	b.do(t, nil, "await pages.closed.context().close()")
}

// pageMany holds that fifty pages have the probes of one.
func pageMany(t *testing.T, d *desk, b *browser) {
	const probes = "SELECT COUNT(*) FROM sys.probes WHERE provider = 'uprobe'"
	const pages, inBrowser = 50, 3
	b.do(t, nil, "const p = await enter('page0', args[0]); await run(p, args[1])", d.url(), countCalls)
	one := d.ask(t, probes)
	for i := 1; i < inBrowser; i++ {
		b.do(t, nil, "const p = await enter(args[2], args[0]); await run(p, args[1])", d.url(), countCalls, fmt.Sprintf("page%d", i))
	}
	var closing []func()
	for range pages - inBrowser { // what a browser requests, without its memory
		c := loggedIn(t, d.Server, d.addr)
		lines, closePage := c.open()
		closing = append(closing, closePage)
		if status, out := c.post("query", ask{Query: 1, Text: countCalls, Cursor: units(countCalls)}); status != http.StatusOK {
			t.Fatal(status, out)
		}
		c.next(lines, "rows")
	}
	if n := d.running(t, "cache"); n != pages {
		t.Errorf("%d queries run, want %d", n, pages)
	}
	if many := d.ask(t, probes); fmt.Sprint(many) != fmt.Sprint(one) {
		t.Errorf("probes of one page %v, of %d pages %v", one, pages, many)
	}
	for _, closePage := range closing {
		closePage()
	}
	for i := range inBrowser {
		name := fmt.Sprintf("page%d", i)
		b.none(t, name)
		b.do(t, nil, "await pages[args[0]].context().close()", name)
	}
	testenv.Until(t, "all queries have ended", func() bool { return d.running(t, "cache") == 0 })
}

// pagePan pans a chart of a million points, of which each frame draws what is in sight. The time
// of the script is that of the thread.
func pagePan(t *testing.T, d *desk, b *browser) {
	var got struct{ Points, Moved, Mean, Most, Drawn float64 }
	b.do(t, &got, `
		const p = await enter('pan', args[0]);
		await run(p, "SELECT '2026-01-01T00:00:00Z'::TIMESTAMP + n * 1us AS timestamp, n * 7919 % 10007 AS x FROM series(1000000)", 100000);
		await p.waitForFunction(() => document.querySelector('#results > section:not([hidden])').panel.result.state === 'ended');
		await p.click('[data-view=chart]');
		await p.waitForSelector('.legend button');
		await p.waitForFunction(() => { const c = document.querySelector('#results > section:not([hidden]) canvas').chart; return c.got && c.got.points >= 1e6; });
		await p.evaluate(() => document.querySelector('#results > section:not([hidden]) canvas').chart.zoom(0.2, 0.5));
		await p.waitForFunction(() => !document.querySelector('#results > section:not([hidden]) canvas').chart.asking);
		const cdp = await p.context().newCDPSession(p);
		await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
		const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
		const from = await p.evaluate(() => document.querySelector('#results > section:not([hidden]) canvas').chart.range().from);
		const out = { Mean: 0, Most: 0, Drawn: 0 };
		let before = await script();
		for (let i = 0; i < 200; i++) {
			// A frame: what was panned is drawn before the second one begins.
			const drawn = await p.evaluate(async () => {
				const c = document.querySelector('#results > section:not([hidden]) canvas').chart;
				c.pan(0.01);
				await new Promise(requestAnimationFrame);
				await new Promise(requestAnimationFrame);
				return Math.max(...c.got.series.map((s) => s.x.length));
			});
			const now = await script();
			out.Mean += (now - before) / 200;
			out.Most = Math.max(out.Most, now - before);
			out.Drawn = Math.max(out.Drawn, drawn);
			before = now;
		}
		Object.assign(out, await p.evaluate((from) => { const c = document.querySelector('#results > section:not([hidden]) canvas').chart; return { Points: c.got.points, Moved: c.range().from - from }; }, from));
		await p.context().close();
		return out`, d.url())
	// A frame draws two values for each pixel in sight and for as many at both sides, not a million.
	if got.Points < 1e6 || got.Moved <= 0 || got.Drawn > 3*1280 {
		t.Errorf("%+v", got)
	}
	t.Logf("panning a million points takes at most %.2f ms of script a frame, %.2f ms on average", got.Most, got.Mean)
}

// pageEstimates holds that an estimate is shown with its interval, in one column.
func pageEstimates(t *testing.T, d *desk, b *browser) {
	var got struct {
		Heads []string
		Texts []string
	}
	b.do(t, &got, `
		const p = await enter('estimates', args[0]);
		await run(p, "SELECT function_name, COUNT(*) AS n, AVG(duration) AS mean FROM function_duration WHERE function_name LIKE 'cache\\_%' GROUP BY function_name FOR 2s WITHIN OVERHEAD 1%", 0);
		await p.waitForFunction(() => document.querySelector('#results > section:not([hidden])').panel.result.state === 'ended');
		const out = await p.evaluate(async () => {
			const { estimate } = await import('/app/format.js');
			return { Heads: [...document.querySelectorAll('#results > section:not([hidden]) [role=columnheader]')].map((e) => e.textContent),
				Texts: [[1234567, 1215000, 1255000, 'BIGINT'], [7, 7, 7, 'BIGINT'], [450, 400, null, 'BIGINT'], [5000, null, null, 'DURATION'], [0, 0, 3, 'BIGINT'], [null, null, null, 'BIGINT'], [1e6, 999500, 1e6, 'DURATION']].map((a) => estimate(...a, 0n)) };
		});
		await p.context().close();
		return out`, d.url())
	// While the query runs, the cells of its estimates change, within bounds that change with them.
	var live struct {
		Texts  []string
		Inside bool
	}
	b.do(t, &live, `
		const p = await enter('estimates', args[0]);
		await run(p, "SELECT function_name, COUNT(*) AS n FROM function_duration WHERE function_name = 'cache_put' GROUP BY function_name EMIT EVERY 200ms WITHIN OVERHEAD 20%");
		const out = await p.evaluate(async () => {
			const r = document.querySelector('#results > section:not([hidden])').panel.result;
			const out = { Texts: [], Inside: true };
			while (out.Texts.length < 2 && r.running) {
				await new Promise(requestAnimationFrame);
				const text = document.querySelector('#results > section:not([hidden]) .row:not([hidden])')?.children[1].textContent;
				if (text && text !== out.Texts[out.Texts.length - 1]) out.Texts.push(text);
				const c = r.columns[1], [n, low, high] = [1, c.low, c.high].map((i) => r.data[i] && r.data[i][0]);
				if (!c.low || !c.high || (low !== null && low > n) || (high !== null && high < n)) out.Inside = false;
			}
			return out;
		});
		await p.context().close();
		return out`, d.url())
	if len(live.Texts) < 2 || !live.Inside {
		t.Errorf("the cell was %q; the value is within its bounds: %t", live.Texts, live.Inside)
	}
	if want := "function_name n mean"; strings.Join(got.Heads, " ") != want {
		t.Errorf("the columns are %q, want %q", got.Heads, want)
	}
	if want := []string{"1.2M ±2%", "7", ">=400", "~5.00µs", "<=3", "", "1.00ms ±0.1%"}; !slices.Equal(got.Texts, want) {
		t.Errorf("%q, want %q", got.Texts, want)
	}
}

// pageLayout holds that nothing leaves the screen, and that no control overlaps another, wide
// and small, light and dark, with a table, a chart and a plan.
func pageLayout(t *testing.T, d *desk, b *browser) {
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1280, 390} {
			var found []string
			b.do(t, &found, `
			const [url, scheme, width, statement, folder] = args;
			const p = await enter('layout', url, { viewport: { width, height: 844 }, colorScheme: scheme });
			const found = [];
			const check = async (what) => {
				if (folder) await p.screenshot({ path: folder + '/' + what + '-' + width + '-' + scheme + '.png', fullPage: true });
				found.push(...await p.evaluate((what) => {
					const out = [];
					if (document.documentElement.scrollWidth > innerWidth) out.push(what + ': the page is ' + document.documentElement.scrollWidth + ' wide, the screen ' + innerWidth);
					// A region that scrolls shows a part of what it has, and what is sticky lies above what scrolls.
					const inScroll = (e) => { for (let a = e.parentElement; a; a = a.parentElement) if (/auto|scroll|hidden/.test(getComputedStyle(a).overflowX) && a !== document.body && a !== document.documentElement) return true; return false; };
					const all = [...document.querySelectorAll('button, input, select, textarea, h1, .meter, .state, .footer, canvas, summary')]
						.filter((e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !inScroll(e) && getComputedStyle(e).position !== 'sticky')
						.map((e) => ({ e, name: e.tagName + '#' + e.id + '.' + e.className + ' ' + e.textContent.slice(0, 20), r: e.getBoundingClientRect() })).filter((x) => x.r.width > 0 && x.r.height > 0);
					for (const x of all) if (x.r.left < -1 || x.r.right > innerWidth + 1) out.push(what + ': ' + x.name + ' leaves the screen');
					for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length; j++) {
						const [a, b] = [all[i], all[j]];
						if (a.e.contains(b.e) || b.e.contains(a.e)) continue;
						const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left), h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
						if (w > 1 && h > 1) out.push(what + ': ' + a.name + ' overlaps ' + b.name);
					}
					return out;
				}, what));
			};
			await run(p, statement);
			await check('table');
			await p.click('[data-view=chart]');
			await p.waitForSelector('.legend button');
			await check('chart');
			// What is at the end of a chart is in sight when it is scrolled to.
			const covered = await p.evaluate(() => {
				const end = document.querySelector('.legend li:last-child');
				end.scrollIntoView({ block: 'end' });
				const r = end.getBoundingClientRect(), at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
				return at && end.contains(at) ? '' : 'the end of the chart is below ' + (at ? at.className || at.tagName : 'the screen');
			});
			if (covered) found.push(covered);
			await p.click('[data-view=plan]');
			await p.waitForSelector('.plan .flow:not([hidden])');
			await check('rates');
			await p.click('#explain');
			await p.waitForSelector('#results > section:not([hidden]) .plan .op');
			await check('plan');
			await p.context().close();
			return found`, d.url(), scheme, width, countCalls, os.Getenv("ENDOSCOPE_SCREENSHOTS"))
			for _, f := range found {
				t.Errorf("%d px, %s: %s", width, scheme, f)
			}
		}
	}
}

// Names of functions are what the target says they are.
func TestHostileNamesAreText(t *testing.T) {
	testenv.Long(t)
	testenv.NeedUprobes(t)
	const hostile = "<img src=x onerror=document.title='hacked'>"
	pid := testenv.Run(t, exec.Command(testenv.CompileCText(t, `
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void work(void) __asm__("\"<img src=x onerror=document.title='hacked'>\"");
void work(void) { sink++; usleep(1000); }
int main(void) { for (;;) work(); }`, "-O1", "-fno-omit-frame-pointer")))
	d, b := newDesk(t, pid), newBrowser(t)
	var got struct{ Cell, Frame, Title string }
	b.do(t, &got, `
		const p = await enter('hostile', args[0]);
		await run(p, "SELECT function_name, COUNT(*) FROM function_start WHERE function_name LIKE '<img%' GROUP BY function_name EMIT EVERY 200ms");
		const out = { Cell: await p.locator('.row .cell').first().textContent() };
		await p.click('[data-view=chart]');
		await p.waitForSelector('.legend button');
		await stop(p);
		await run(p, "SELECT timestamp, stack FROM SAMPLE(stack_sample, 10ms)", 10);
		await stop(p);
		await p.waitForSelector('.frame >> text=<img');
		await p.locator('.frame').last().hover();
		out.Frame = await p.locator('.frame[aria-label^="<img"]').first().getAttribute('aria-label');
		await p.click('#explain');
		await p.waitForSelector('.plan .op');
		await p.fill('#editor', "SELECT COUNT(*) FROM function_start WHERE function_name = '<img");
		await p.focus('#editor');
		await p.keyboard.press('Control+End');
		await p.keyboard.press('Control+Space');
		await p.waitForSelector('#completions li');
		if (await p.locator('img').count()) throw new Error('markup');
		out.Title = await p.title();
		return out`, d.url())
	if got.Cell != hostile || !strings.HasPrefix(got.Frame, hostile) || got.Title != "Endoscope" {
		t.Errorf("%+v", got)
	}
	b.none(t, "hostile")
}
