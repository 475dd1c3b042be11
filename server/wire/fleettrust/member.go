package fleettrust

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nkeys"
)

// Role is what a member of a fleet may do.
type Role uint8

// Roles. The zero Role is none.
const (
	Host    Role = iota + 1 // executes queries and sends results
	Author                  // asks queries and reads their results
	Reducer                 // merges the results of hosts, and renews leases of standing queries
)

var roleNames = [...]string{Host: "host", Author: "author", Reducer: "reducer"}

func (r Role) String() string {
	if int(r) < len(roleNames) && r != 0 {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole is the reverse of String.
func ParseRole(text string) (Role, error) {
	for r, name := range roleNames {
		if name != "" && name == text {
			return Role(r), nil
		}
	}
	return 0, fmt.Errorf("%q is not a role: host, author or reducer", text)
}

// Member is a certified member of the fleet: a host, an author or a reducer. It is
// immutable.
type Member struct {
	Name   string
	Role   Role
	Labels map[string]string
	// BusUser is the public key of the member's user at the NATS server.
	BusUser   string
	NotBefore time.Time
	NotAfter  time.Time
	// Serial is the serial number of the certificate in hexadecimal.
	Serial      string
	Certificate []byte   // DER
	Fingerprint [32]byte // SHA-256 of Certificate

	verifyKey ed25519.PublicKey
	sealKey   hpke.PublicKey
}

// Profile is what a certificate says of a member.
type Profile struct {
	Name   string
	Role   Role
	Labels map[string]string
}

// A member's certificate has one URI, which describes the member:
//
//	endoscope-fleet://host/db17?bus=U...&label.rack=r1&seal=...
//
// seal is the X25519 key to which messages for the member are sealed. The subject's key
// is the Ed25519 key that verifies the member's signatures.
const (
	uriScheme   = "endoscope-fleet"
	sealParam   = "seal"
	busParam    = "bus"
	labelPrefix = "label."
)

// documentSigning is the extended key usage of a member's certificate (RFC 9336). It has
// no other, so that TLS does not accept it.
var documentSigning = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 36}

const (
	maxLabels      = 32
	maxLabelValue  = 128
	maxCertificate = 8 << 10
)

var (
	validName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$`)
	validLabel = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)
)

func (p Profile) check() error {
	switch {
	case !validName.MatchString(p.Name):
		return fmt.Errorf("%q is not a valid name: use letters, digits and _, and . @ - after the first character", p.Name)
	case p.Role < Host || p.Role > Reducer:
		return fmt.Errorf("%s is not a role of a fleet", p.Role)
	case len(p.Labels) > maxLabels:
		return fmt.Errorf("%s has %d labels, at most %d are allowed", p.Name, len(p.Labels), maxLabels)
	}
	for k, v := range p.Labels {
		if !validLabel.MatchString(k) {
			return fmt.Errorf("%q is not a valid label: use lower-case letters, digits and _", k)
		}
		if len(v) > maxLabelValue || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return fmt.Errorf("the value of label %s must be at most %d bytes of text", k, maxLabelValue)
		}
	}
	return nil
}

// uri returns the URI of a member with these keys.
func (p Profile) uri(seal hpke.PublicKey, bus string) *url.URL {
	q := url.Values{sealParam: {base64.RawURLEncoding.EncodeToString(seal.Bytes())}, busParam: {bus}}
	for k, v := range p.Labels {
		q.Set(labelPrefix+k, v)
	}
	return &url.URL{Scheme: uriScheme, Host: p.Role.String(), Path: "/" + p.Name, RawQuery: q.Encode()}
}

// parseMember returns the member that a certificate describes. It does not verify the
// certificate.
func parseMember(c *x509.Certificate) (*Member, error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != uriScheme {
		return nil, errors.New("the certificate is not that of a member of a fleet")
	}
	u := c.URIs[0]
	m := &Member{
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, Serial: fmt.Sprintf("%x", c.SerialNumber),
		Certificate: c.Raw, Fingerprint: sha256.Sum256(c.Raw),
	}
	var err error
	if m.Role, err = ParseRole(u.Host); err != nil {
		return nil, err
	}
	m.Name = strings.TrimPrefix(u.Path, "/")
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the certificate's URI: %w", err)
	}
	for k, values := range params {
		if len(values) != 1 {
			return nil, fmt.Errorf("the certificate's URI has %s more than once", k)
		}
		if label, ok := strings.CutPrefix(k, labelPrefix); ok {
			if m.Labels == nil {
				m.Labels = map[string]string{}
			}
			m.Labels[label] = values[0]
		}
	}
	if err := (Profile{m.Name, m.Role, m.Labels}).check(); err != nil {
		return nil, err
	}
	var ok bool
	if m.verifyKey, ok = c.PublicKey.(ed25519.PublicKey); !ok {
		return nil, errors.New("the certificate's key is not an Ed25519 key")
	}
	raw, err := base64.RawURLEncoding.DecodeString(params.Get(sealParam))
	if err == nil {
		m.sealKey, err = kem.NewPublicKey(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate's sealing key: %w", err)
	}
	if m.BusUser = params.Get(busParam); !nkeys.IsValidPublicUserKey(m.BusUser) {
		return nil, errors.New("the certificate has no key of a NATS user")
	}
	return m, nil
}

// ReadMember returns the member that a certificate in DER describes, without verifying
// it: for files that the caller trusts.
func ReadMember(der []byte) (*Member, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return parseMember(c)
}

// The suite of every sealed message.
var (
	kem  = hpke.DHKEM(ecdh.X25519())
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)
