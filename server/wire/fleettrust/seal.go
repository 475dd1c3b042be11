package fleettrust

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hpke"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/crypto/cryptobyte"
)

// A sealed text has a key of its own, and that key is sealed to each receiver with HPKE
// (RFC 9180; X25519, HKDF-SHA256, AES-256-GCM):
//
//	fingerprint(16) of the receiver's certificate, encapsulated key(32), sealed key(48)

const (
	contentKey  = 32
	shortPrint  = 16
	sealedKey   = 32 + contentKey + 16
	receiverKey = shortPrint + sealedKey
)

// keyInfo binds a sealed key to its use, installation and query.
func keyInfo(use string, installation [32]byte, id ID) []byte {
	out := append([]byte(domainOf("key of "+use)), installation[:]...)
	return append(out, id[:]...)
}

// sealKeys seals a content key to each member. It uses all processors: there may be
// thousands of members.
func sealKeys(key, info []byte, to []*Member) ([]byte, error) {
	out := make([]byte, len(to)*receiverKey)
	workers := min(runtime.GOMAXPROCS(0), (len(to)+15)/16)
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := w; n < len(to); n += workers {
				sealed, err := hpke.Seal(to[n].sealKey, kdf, aead, info, key)
				if err != nil {
					errs[w] = fmt.Errorf("sealing to %s: %w", to[n].Name, err)
					return
				}
				at := out[n*receiverKey:]
				copy(at, to[n].Fingerprint[:shortPrint])
				copy(at[shortPrint:], sealed)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unsealKey finds the key that is sealed to i among keys, and opens it.
func (i *Identity) unsealKey(keys, info []byte) ([]byte, error) {
	if len(keys)%receiverKey != 0 {
		return nil, refuse(Malformed, "the sealed keys are truncated")
	}
	s := cryptobyte.String(keys)
	var print, sealed []byte
	for s.ReadBytes(&print, shortPrint) && s.ReadBytes(&sealed, sealedKey) {
		if string(print) != string(i.Fingerprint[:shortPrint]) {
			continue
		}
		key, err := hpke.Open(i.unseal, kdf, aead, info, sealed)
		if err != nil || len(key) != contentKey {
			return nil, refuse(Forged, "the key that is sealed to %s cannot be opened", i.Name)
		}
		return key, nil
	}
	return nil, refuse(Unsealed, "it is not sealed to the certificate %s of %s", i.Serial, i.Name)
}

// newContentKey returns a key, and its cipher.
func newContentKey() ([]byte, cipher.AEAD) {
	key := make([]byte, contentKey)
	_, _ = rand.Read(key) // it does not fail
	return key, contentCipher(key)
}

func contentCipher(key []byte) cipher.AEAD {
	b, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is right
	}
	c, err := cipher.NewGCM(b)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return c
}
