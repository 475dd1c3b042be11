package fleettrust

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// list is a numbered list of revoked certificates: an X.509 certificate revocation list
// that the CA has signed.
type list struct {
	number  uint64 // 0: there was none yet
	serials map[string]bool
	next    time.Time // valid until then
	text    []byte    // in PEM
	signed  []byte    // what the CA has signed
}

const (
	listBlock = "X509 CRL"
	maxList   = maxBody
)

// MakeList returns a list of revoked certificates in PEM, signed by the CA. After
// next, members refuse messages until they have a newer list.
func MakeList(number uint64, serials []*big.Int, now, next time.Time, ca *x509.Certificate, key crypto.Signer) ([]byte, error) {
	t := &x509.RevocationList{Number: new(big.Int).SetUint64(number), ThisUpdate: now, NextUpdate: next}
	for _, s := range serials {
		t.RevokedCertificateEntries = append(t.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: s, RevocationTime: now})
	}
	der, err := x509.CreateRevocationList(rand.Reader, t, ca, key)
	if err != nil {
		return nil, err
	}
	if len(der) > maxList {
		return nil, fmt.Errorf("the list of %d revoked certificates has %d bytes, at most %d are allowed", len(serials), len(der), maxList)
	}
	return pem.EncodeToMemory(&pem.Block{Type: listBlock, Bytes: der}), nil
}

// parseList parses and verifies a list in PEM.
func (t *Trust) parseList(text []byte) (*list, error) {
	if len(text) > 2*maxList {
		return nil, refuse(Oversized, "the list of revoked certificates has %d bytes", len(text))
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != listBlock {
		return nil, refuse(Malformed, "this is not a list of revoked certificates")
	}
	crl, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return nil, refuse(Malformed, "the list of revoked certificates cannot be parsed: %v", err)
	}
	if err := crl.CheckSignatureFrom(t.ca); err != nil {
		return nil, refuse(Forged, "the list of revoked certificates is not signed by the CA: %v", err)
	}
	for _, x := range crl.Extensions {
		if x.Critical { // such as that of a list that is not complete
			return nil, refuse(Malformed, "the list of revoked certificates has the unknown extension %s", x.Id)
		}
	}
	if crl.Number == nil || !crl.Number.IsUint64() || crl.Number.Sign() == 0 {
		return nil, refuse(Malformed, "the list of revoked certificates has no number")
	}
	l := &list{number: crl.Number.Uint64(), serials: map[string]bool{}, next: crl.NextUpdate, text: bytes.Clone(text), signed: crl.RawTBSRevocationList}
	for _, e := range crl.RevokedCertificateEntries {
		l.serials[fmt.Sprintf("%x", e.SerialNumber)] = true
	}
	return l, nil
}

// SetList accepts a list of revoked certificates in PEM, and reports whether it is newer
// than the one before. An older one is refused.
func (t *Trust) SetList(text []byte) (newer bool, err error) {
	l, err := t.parseList(text)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.number < t.list.number:
		return false, refuse(Replayed, "list %d of revoked certificates is older than list %d", l.number, t.list.number)
	case l.number == t.list.number && !bytes.Equal(l.signed, t.list.signed):
		return false, refuse(Replayed, "there is another list %d of revoked certificates", l.number)
	case l.number == t.list.number:
		return false, nil
	}
	if t.o.List != "" {
		if err := replaceFile(t.o.List, text); err != nil {
			return false, err
		}
	}
	t.list = l
	return true, nil
}

// ListNumber returns the number of the list of revoked certificates; 0: there was none.
func (t *Trust) ListNumber() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.list.number
}

// List returns the list of revoked certificates in PEM; nil: there was none.
func (t *Trust) List() []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.list.text
}

// readList reads the list that was kept.
func (t *Trust) readList() error {
	if t.o.List == "" {
		return nil
	}
	text, err := os.ReadFile(t.o.List)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := t.parseList(text)
	if err != nil {
		return fmt.Errorf("%s: %w", t.o.List, err)
	}
	t.list = l
	return nil
}

// replaceFile replaces a file at once, so that a crash leaves the old or the new one.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
