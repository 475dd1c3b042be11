package fleettrust

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/nats-io/nkeys"
)

// Identity is a member with its private keys. There are three, because a key has one
// use: a NATS server chooses what the key of its user signs, so that key must not be
// the one that signs queries.
type Identity struct {
	*Member
	CA *x509.Certificate

	signKey ed25519.PrivateKey
	unseal  hpke.PrivateKey
	bus     nkeys.KeyPair
}

// Enroll creates the keys of a member, and its certificate from template, which has the
// serial number, the subject and the period. The CA signs it.
func Enroll(p Profile, template, ca *x509.Certificate, caKey crypto.Signer) (*Identity, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	_, signKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	unseal, err := hpke.NewDHKEMPrivateKey(x)
	if err != nil {
		return nil, err
	}
	bus, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	user, err := bus.PublicKey()
	if err != nil {
		return nil, err
	}
	t := *template
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage, t.UnknownExtKeyUsage = nil, append(t.UnknownExtKeyUsage[:0:0], documentSigning)
	t.URIs = append(t.URIs[:0:0], p.uri(unseal.PublicKey(), user))
	der, err := x509.CreateCertificate(rand.Reader, &t, ca, signKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	if len(der) > maxCertificate {
		return nil, fmt.Errorf("the certificate of %s has %d bytes, at most %d are allowed: use fewer labels", p.Name, len(der), maxCertificate)
	}
	m, err := ReadMember(der)
	if err != nil {
		return nil, err
	}
	return &Identity{Member: m, CA: ca, signKey: signKey, unseal: unseal, bus: bus}, nil
}

// Types of the PEM blocks in a file of credentials: the member's certificate, that of
// the CA, and the keys.
const (
	certificateBlock = "CERTIFICATE"
	signBlock        = "ENDOSCOPE SIGNING KEY"   // Ed25519 seed
	sealBlock        = "ENDOSCOPE SEALING KEY"   // X25519
	busBlock         = "ENDOSCOPE NATS USER KEY" // nkeys seed
)

// Encode returns the contents of a file of credentials, which ParseIdentity reads.
func (i *Identity) Encode() ([]byte, error) {
	seal, err := i.unseal.Bytes()
	if err != nil {
		return nil, err
	}
	seed, err := i.bus.Seed()
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, b := range []pem.Block{
		{Type: certificateBlock, Bytes: i.Certificate},
		{Type: certificateBlock, Bytes: i.CA.Raw},
		{Type: signBlock, Bytes: i.signKey.Seed()},
		{Type: sealBlock, Bytes: seal},
		{Type: busBlock, Bytes: seed},
	} {
		out = append(out, pem.EncodeToMemory(&b)...)
	}
	return out, nil
}

// AreCredentials reports whether a file is one of Encode, whole or not.
func AreCredentials(text []byte) bool { return bytes.Contains(text, []byte("-----BEGIN "+signBlock)) }

// ParseIdentity parses what Encode returned.
func ParseIdentity(text []byte) (*Identity, error) {
	i := &Identity{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var err error
		switch {
		case block.Type == certificateBlock && i.Member == nil:
			i.Member, err = ReadMember(block.Bytes)
		case block.Type == certificateBlock && i.CA == nil:
			i.CA, err = x509.ParseCertificate(block.Bytes)
		case block.Type == signBlock && len(block.Bytes) == ed25519.SeedSize:
			i.signKey = ed25519.NewKeyFromSeed(block.Bytes)
		case block.Type == sealBlock:
			i.unseal, err = kem.NewPrivateKey(block.Bytes)
		case block.Type == busBlock:
			i.bus, err = nkeys.FromSeed(block.Bytes)
		default:
			err = fmt.Errorf("unexpected block %s", block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("invalid credentials: %w", err)
		}
	}
	if i.Member == nil || i.CA == nil || i.signKey == nil || i.unseal == nil || i.bus == nil {
		return nil, errors.New("the credentials are not complete: endoscoped enroll makes a file of them")
	}
	user, err := i.bus.PublicKey()
	switch {
	case err != nil:
		return nil, err
	case !i.verifyKey.Equal(i.signKey.Public()) || string(i.sealKey.Bytes()) != string(i.unseal.PublicKey().Bytes()) || user != i.BusUser:
		return nil, errors.New("the keys of the credentials are not those of their certificate")
	}
	return i, nil
}

// LoadIdentity reads a file of credentials. It refuses a file that other users can read.
func LoadIdentity(path string) (*Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("other users can use the file: chmod o= makes it private")}
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, err
	}
	i, err := ParseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return i, nil
}

// SignNonce signs what a NATS server sends to identify the user i.BusUser.
func (i *Identity) SignNonce(nonce []byte) ([]byte, error) { return i.bus.Sign(nonce) }
