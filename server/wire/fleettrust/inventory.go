package fleettrust

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// Inventory is the signed, numbered list of the fleet's hosts. Coverage is "N of M", and M
// is the number of hosts in the list that a query selects: the bus cannot remove one. The
// certificates of hosts are sent separately, by name.
type Inventory struct {
	Number uint64
	Made   time.Time
	Hosts  []InventoryHost // by name
}

// InventoryHost is a host of an inventory.
type InventoryHost struct {
	Name        string
	Fingerprint [16]byte          // the beginning of the SHA-256 of its certificate
	Labels      map[string]string // as in its certificate
}

// Is reports whether a certificate in DER is the one that the inventory lists.
func (h InventoryHost) Is(certificate []byte) bool {
	sum := sha256.Sum256(certificate)
	return h.Fingerprint == [16]byte(sum[:16])
}

// An inventory:
//
//	"EI" version
//	length(4) number(8) made(8) (length(1) name, fingerprint(16), count(1) (length(1) key, length(1) value)*)*
//	signature of the CA, ECDSA with SHA-256
const inventoryMagic = "EI"

// MakeInventory returns an inventory of hosts that the CA has signed.
func MakeInventory(number uint64, made time.Time, hosts []*Member, key crypto.Signer) ([]byte, error) {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b *Member) int { return strings.Compare(a.Name, b.Name) })
	var p cryptobyte.Builder
	p.AddUint64(number)
	p.AddUint64(uint64(made.UnixNano()))
	for _, m := range hosts {
		p.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(m.Name)) })
		p.AddBytes(m.Fingerprint[:16])
		p.AddUint8(uint8(len(m.Labels)))
		for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
			for _, s := range []string{key, m.Labels[key]} {
				p.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
			}
		}
	}
	payload, err := p.Bytes()
	if err != nil {
		return nil, err
	}
	if len(payload) > maxBody {
		return nil, fmt.Errorf("the inventory of %d hosts has %d bytes, at most %d are allowed", len(hosts), len(payload), maxBody)
	}
	sum := sha256.Sum256(inventoryBytes(payload))
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var out cryptobyte.Builder
	out.AddBytes([]byte(inventoryMagic))
	out.AddUint8(version)
	out.AddUint32(uint32(len(payload)))
	out.AddBytes(payload)
	out.AddBytes(signature)
	return out.Bytes()
}

func inventoryBytes(payload []byte) []byte { return append([]byte(domainOf("inventory")), payload...) }

// Inventory verifies an inventory. It refuses one that is older than one before.
func (t *Trust) Inventory(msg []byte) (*Inventory, error) {
	if len(msg) > MaxMessage {
		return nil, refuse(Oversized, "the inventory has %d bytes, at most %d are allowed", len(msg), MaxMessage)
	}
	var v uint8
	var n uint32
	var prefix, payload []byte
	s := cryptobyte.String(msg)
	if !s.ReadBytes(&prefix, len(inventoryMagic)) || string(prefix) != inventoryMagic || !s.ReadUint8(&v) || v != version ||
		!s.ReadUint32(&n) || uint64(n) > uint64(len(s)) || !s.ReadBytes(&payload, int(n)) {
		return nil, refuse(Malformed, "the inventory is truncated or malformed")
	}
	if err := t.ca.CheckSignature(x509.ECDSAWithSHA256, inventoryBytes(payload), s); err != nil {
		return nil, refuse(Forged, "the inventory is not signed by the CA: %v", err)
	}
	p := cryptobyte.String(payload)
	inv := &Inventory{}
	var made uint64
	if !p.ReadUint64(&inv.Number) || !p.ReadUint64(&made) {
		return nil, refuse(Malformed, "the inventory is truncated")
	}
	inv.Made = time.Unix(0, int64(made))
	for !p.Empty() {
		var name cryptobyte.String
		var h InventoryHost
		if !p.ReadUint8LengthPrefixed(&name) || !p.CopyBytes(h.Fingerprint[:]) {
			return nil, refuse(Malformed, "the inventory is truncated")
		}
		h.Name = string(name)
		if err := h.readLabels(&p); err != nil {
			return nil, err
		}
		inv.Hosts = append(inv.Hosts, h)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if inv.Number < t.inventory {
		return nil, refuse(Replayed, "inventory %d is older than inventory %d", inv.Number, t.inventory)
	}
	t.inventory = inv.Number
	return inv, nil
}

func (h *InventoryHost) readLabels(p *cryptobyte.String) error {
	truncated := refuse(Malformed, "the inventory is truncated")
	var n uint8
	if !p.ReadUint8(&n) || n > maxLabels {
		return truncated
	}
	for range n {
		var key, value cryptobyte.String
		if !p.ReadUint8LengthPrefixed(&key) || !p.ReadUint8LengthPrefixed(&value) {
			return truncated
		}
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		h.Labels[string(key)] = string(value)
	}
	return nil
}
