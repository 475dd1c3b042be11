// A server as Node has them: sockets, HTTP, timers.
const http = require("http"), net = require("net");
let sink = 0;
function burn(ms) {
  const end = process.hrtime.bigint() + BigInt(ms * 1e6);
  while (process.hrtime.bigint() < end) for (let i = 0; i < 2000; i++) sink += i;
}
function onMessage(b) { burn(1.5); sink += b.length; }
function onTick() { burn(1.5); }
function onRequest(q, r) { burn(1.5); r.end("hello"); }
const messages = net.createServer((c) => c.on("data", onMessage));
const web = http.createServer(onRequest);
messages.listen(0, "127.0.0.1", () => {
  const c = net.connect(messages.address().port, "127.0.0.1");
  setInterval(function ping() { c.write("hello"); }, 15);
});
web.listen(0, "127.0.0.1", () => {
  const agent = new http.Agent({ keepAlive: true });
  setInterval(function fetchPage() { http.get({ port: web.address().port, host: "127.0.0.1", agent }, (r) => r.resume()); }, 15);
});
setInterval(onTick, 15);
