// Package web serves an engine to browsers: a page with an editor, live results, pictures,
// triggers and plans. The page is in assets: ECMAScript modules without a framework or a
// build step, embedded in the program.
//
//	page ─ POST login ─► key ─ POST open ─► session, as long as that response is read
//	     ─ POST query ─► Execute ─► pump ─► encoder ─► lines of JSON of that response
//	     ─ POST edit, series, picture, plan ─► an answer
//
// All results of a page are sent in one response, line by line. When the page is closed
// the request is canceled, and its session and queries end. A page that does not read
// blocks its results' pumps: the engine drops rows and counts them (wire.Options.Unread).
// If a line cannot be sent for Options.Stall the session ends.
//
// To add a query to the page's library, write library/NAME.sql: the question, the
// languages, the statement.
//
// None is held while the engine is called. Locks are taken in this order, though none is
// held while another is taken:
//
//	Server.mu  listeners, number of pages
//	logins.mu  links and keys
//	page.mu    results by number
//	result.mu  what a result has kept
//
// # Threat model
//
// Other web pages in the same browser, names in the monitored program, and other users of
// the machine are hostile.
//
//   - A request is answered only if its Host is one that the server was told (DNS
//     rebinding), and a POST only if its Origin is that host (cross-site requests).
//   - No cookie exists. A key is in the memory of one page and travels as Authorization, so
//     that neither another site nor another port of the loopback can send it.
//   - On the loopback a link has a token, valid once and for LinkLife, in its fragment:
//     fragments are not sent, so no log has it. With Options.Access the users are those of
//     the Access.
//   - The page has a Content-Security-Policy without inline scripts and styles, and requires
//     Trusted Types without a policy: text from targets cannot become markup. Pictures are
//     sent as trees of permitted elements and attributes (picture.go).
//   - Bodies are bounded, requests before a login have deadlines, and the number of pages and
//     of results of a page is limited.
//
// It must not know how statements are executed nor who is permitted what.
package web
