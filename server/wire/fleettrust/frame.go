package fleettrust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// ID identifies a query: the hash of its body.
type ID [32]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID is the reverse of String.
func ParseID(text string) (id ID, err error) {
	if hex.DecodedLen(len(text)) != len(id) {
		return id, fmt.Errorf("%q is not the id of a query", text)
	}
	_, err = hex.Decode(id[:], []byte(text))
	return id, err
}

// Header is what every signed message says.
type Header struct {
	ID        ID        // the query; zero: the message is not about one
	NotBefore time.Time // when it was signed
	Expiry    time.Time
	// List is the number of the newest list of revoked certificates that the signer
	// knows. A receiver with an older list refuses the message: it has missed a list.
	List uint64
}

// A signed message:
//
//	"EF" version kind
//	length(2) certificate of the signer
//	length(4) payload: id(32) not-before(8) expiry(8) list(8) body
//	signature(64)
//
// The signature covers the domain (project, version, kind), the installation, the
// certificate and the exact payload. Nothing of the payload is parsed before it is
// verified.
const (
	magic       = "EF"
	version     = 1
	headerBytes = 32 + 8 + 8 + 8
)

type frame struct {
	kind        Kind
	certificate []byte
	payload     []byte
	signature   []byte
}

// KindOf returns the kind that a message claims to be of; 0: it is none of a fleet.
func KindOf(msg []byte) Kind {
	if len(msg) < len(magic)+2 || string(msg[:len(magic)]) != magic || msg[len(magic)] != version {
		return 0
	}
	return Kind(msg[len(magic)+1])
}

// parseFrame parses a message of a kind. The parts share its memory.
func parseFrame(k Kind, msg []byte) (f frame, err error) {
	if len(msg) > kinds[k].size+overhead {
		return f, refuse(Oversized, "the %s has %d bytes, at most %d are allowed", k, len(msg), kinds[k].size+overhead)
	}
	var v, kind uint8
	var prefix, certificate, payload cryptobyte.String
	s := cryptobyte.String(msg)
	if !s.ReadBytes((*[]byte)(&prefix), len(magic)) || string(prefix) != magic || !s.ReadUint8(&v) || !s.ReadUint8(&kind) {
		return f, refuse(Malformed, "the message is not one of a fleet")
	}
	if v != version {
		return f, refuse(Malformed, "the message has version %d, this program knows version %d", v, version)
	}
	if Kind(kind) != k {
		return f, refuse(Malformed, "the message is a %s, not a %s", Kind(kind), k)
	}
	var n uint32
	if !s.ReadUint16LengthPrefixed(&certificate) || len(certificate) > maxCertificate ||
		!s.ReadUint32(&n) || uint64(n) > uint64(len(s)) || !s.ReadBytes((*[]byte)(&payload), int(n)) ||
		!s.ReadBytes(&f.signature, ed25519.SignatureSize) || !s.Empty() {
		return f, refuse(Malformed, "the %s is truncated or malformed", k)
	}
	f.kind, f.certificate, f.payload = k, certificate, payload
	return f, nil
}

// parsePayload parses a verified payload.
func parsePayload(k Kind, payload []byte) (h Header, body []byte, err error) {
	var before, expiry uint64
	s := cryptobyte.String(payload)
	if !s.CopyBytes(h.ID[:]) || !s.ReadUint64(&before) || !s.ReadUint64(&expiry) || !s.ReadUint64(&h.List) {
		return h, nil, refuse(Malformed, "the header of the %s is truncated", k)
	}
	if before > math.MaxInt64 || expiry > math.MaxInt64 {
		return h, nil, refuse(Malformed, "the %s has an impossible time", k)
	}
	h.NotBefore, h.Expiry = time.Unix(0, int64(before)), time.Unix(0, int64(expiry))
	return h, s, nil
}

// signedBytes returns what the signature of a message covers.
func signedBytes(k Kind, installation, fingerprint [32]byte, payload []byte) []byte {
	domain := domainOf(k.String())
	out := make([]byte, 0, len(domain)+64+len(payload))
	out = append(out, domain...)
	out = append(out, installation[:]...)
	out = append(out, fingerprint[:]...)
	return append(out, payload...)
}

// domainOf returns the prefix that separates uses of a key or a hash from each other.
func domainOf(use string) string { return fmt.Sprintf("endoscope fleet %d %s\x00", version, use) }

// installationOf identifies an installation by the certificate of its CA.
func installationOf(ca []byte) [32]byte {
	return sha256.Sum256(append([]byte(domainOf("installation")), ca...))
}

// Sign returns a signed message.
func (i *Identity) Sign(k Kind, h Header, body []byte) ([]byte, error) {
	rules, known := kinds[k]
	switch {
	case !known || !k.may(i.Role):
		return nil, fmt.Errorf("%s is of role %s, which may not sign a %s", i.Name, i.Role, k)
	case len(body) > rules.size:
		return nil, fmt.Errorf("a %s of %d bytes is too long, at most %d are allowed", k, len(body), rules.size)
	case h.Expiry.Sub(h.NotBefore) > rules.life:
		return nil, fmt.Errorf("a %s is valid for at most %s", k, rules.life)
	case h.Expiry.After(i.NotAfter):
		return nil, fmt.Errorf("the certificate of %s expires on %s, before the %s", i.Name, i.NotAfter.UTC().Format(time.RFC3339), k)
	}
	var p cryptobyte.Builder
	p.AddBytes(h.ID[:])
	p.AddUint64(uint64(h.NotBefore.UnixNano()))
	p.AddUint64(uint64(h.Expiry.UnixNano()))
	p.AddUint64(h.List)
	p.AddBytes(body)
	payload, err := p.Bytes()
	if err != nil {
		return nil, err
	}
	sum := ed25519.Sign(i.signKey, signedBytes(k, installationOf(i.CA.Raw), i.Fingerprint, payload))
	out := cryptobyte.NewBuilder(make([]byte, 0, len(payload)+len(i.Certificate)+128))
	out.AddBytes([]byte(magic))
	out.AddUint8(version)
	out.AddUint8(uint8(k))
	out.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(i.Certificate) })
	out.AddUint32(uint32(len(payload)))
	out.AddBytes(payload)
	out.AddBytes(sum)
	return out.Bytes()
}
