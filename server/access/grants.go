package access

import (
	"fmt"

	"endoscope/planner/plan"
	"endoscope/server/grant"
)

// grantOf returns the grant of a user listed in the file; false if there is none.
// Account and Audit are not set.
func (p *Policy) grantOf(name string, known directory) (*grant.Grant, grant.Limits, bool) {
	e := p.users[name]
	if e == nil {
		return nil, grant.Limits{}, false
	}
	g := &grant.Grant{User: name, Admin: e.role == adminRole, Trace: e.role >= traceRole, Commands: e.commands, Models: e.models,
		Read: e.read, Write: e.write, Webhooks: e.webhooks, Exports: e.exports, Scrape: e.scrape}
	v := e.viewer
	if g.Admin {
		// An administrator can see every user's queries, and any process.
		g.Models, v.Any, v.Shared = true, true, true
	} else {
		v.Name = name
	}
	if e.unix != "" {
		v.Local, v.UID = true, e.uid
		if _, gids, err := known.byID(e.uid); err == nil {
			v.GIDs = gids
		}
	}
	g.Viewer = &v
	return g, e.limits, true
}

// localPrefix begins the names of local users without an entry. Names in the file
// cannot contain it.
const localPrefix = "unix:"

// localName returns the name of a local user without an entry.
func localName(uid uint32, known directory) string {
	if name, _, err := known.byID(uid); err == nil {
		return localPrefix + name
	}
	return fmt.Sprintf("%s%d", localPrefix, uid)
}

// userOf returns the name of a local user; "" if the user has no access.
func (p *Policy) userOf(uid uint32, known directory) string {
	for _, name := range p.names() {
		if e := p.users[name]; e.unix != "" && e.uid == uid {
			return name
		}
	}
	if uid != 0 && p.locals == noRole {
		return ""
	}
	return localName(uid, known)
}

// localGrant returns the grant of a local user without an entry. Root is granted
// everything.
func (p *Policy) localGrant(uid uint32, known directory) (*grant.Grant, grant.Limits, bool) {
	name := localName(uid, known)
	if uid == 0 {
		return &grant.Grant{User: name, Admin: true, Trace: true, Commands: true, Models: true, Anywhere: true,
			Viewer: &plan.Viewer{Any: true, Shared: true}}, grant.Limits{}, true
	}
	if p.locals == noRole {
		return nil, grant.Limits{}, false
	}
	v := &plan.Viewer{Name: name, Local: true, UID: uid}
	if _, gids, err := known.byID(uid); err == nil {
		v.GIDs = gids
	}
	return &grant.Grant{User: name, Trace: p.locals == traceRole, Viewer: v}, defaultLimits, true
}
