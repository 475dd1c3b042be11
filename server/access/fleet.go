package access

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"endoscope/server/wire/fleettrust"
)

// Files of a fleet, in a directory of certificates. ROLE is hosts, authors or reducers:
//
//	fleet/ROLE/NAME.creds   what the member needs
//	fleet/ROLE/NAME.pem     its certificate
//	fleet/inventory         the list of hosts
//	revoked                 the list of revoked certificates, also those of clients
const (
	fleetDir      = "fleet"
	inventoryFile = "inventory"
	revokedFile   = "revoked"
)

// Fleet is the directory of an installation with a fleet. Its methods exclude each other,
// also between processes.
type Fleet struct {
	dir string
	ca  *CA
}

// OpenFleet opens the fleet of the CA in dir.
func OpenFleet(dir string) (*Fleet, error) {
	ca, err := OpenCA(dir)
	return &Fleet{dir, ca}, err
}

// Enroll creates the keys and the certificate of a member.
func (ca *CA) Enroll(p fleettrust.Profile, life time.Duration) (*fleettrust.Identity, error) {
	life, err := ca.lifetime(life)
	if err != nil {
		return nil, err
	}
	t, err := template(p.Name, life)
	if err != nil {
		return nil, err
	}
	return fleettrust.Enroll(p, t, ca.Certificate, ca.key)
}

func (f *Fleet) roleDir(r fleettrust.Role) string {
	return filepath.Join(f.dir, fleetDir, r.String()+"s")
}

// Enroll is CA.Enroll, and writes the credentials, the certificate and, for a host, a new
// inventory. It returns the file of credentials.
func (f *Fleet) Enroll(p fleettrust.Profile, o ClientOptions) (file string, made *fleettrust.Identity, err error) {
	unlock, err := lockDir(f.dir)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if made, err = f.ca.Enroll(p, o.Life); err != nil {
		return "", nil, err
	}
	text, err := made.Encode()
	if err != nil {
		return "", nil, err
	}
	to := f.roleDir(p.Role)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return "", nil, err
	}
	file = filepath.Join(to, p.Name+".creds")
	if _, err := os.Lstat(file); !o.Replace && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%s already exists: --replace makes other credentials; the old ones stay valid until they expire or are revoked", file)
	}
	if err := replace(file, text, 0o600); err != nil {
		return "", nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate})
	if err := replace(filepath.Join(to, p.Name+".pem"), certificate, 0o644); err != nil {
		return "", nil, err
	}
	if p.Role == fleettrust.Host {
		err = f.writeInventory()
	}
	return file, made, err
}

// Members returns the members whose certificates are in the directory and have neither
// expired nor been revoked, by role and name.
func (f *Fleet) Members() (all []*fleettrust.Member, err error) {
	_, revoked, err := f.revoked()
	if err != nil {
		return nil, err
	}
	for _, r := range []fleettrust.Role{fleettrust.Host, fleettrust.Author, fleettrust.Reducer} {
		files, err := filepath.Glob(filepath.Join(f.roleDir(r), "*.pem"))
		if err != nil {
			return nil, err
		}
		slices.Sort(files)
		for _, file := range files {
			m, err := readMember(file)
			if err != nil {
				return nil, err
			}
			if !revoked[m.Serial] && time.Now().Before(m.NotAfter) {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

func readMember(file string) (*fleettrust.Member, error) {
	certificates, err := readCertificates(file)
	if err == nil && len(certificates) != 1 {
		err = fmt.Errorf("it contains %d certificates, not one", len(certificates))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m, err := fleettrust.ReadMember(certificates[0].Raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// writeInventory writes a new inventory. The caller has locked the directory.
func (f *Fleet) writeInventory() error {
	members, err := f.Members()
	if err != nil {
		return err
	}
	hosts := slices.DeleteFunc(members, func(m *fleettrust.Member) bool { return m.Role != fleettrust.Host })
	file := filepath.Join(f.dir, fleetDir, inventoryFile)
	var number uint64
	old, err := os.ReadFile(file)
	switch {
	case err == nil:
		t, err := fleettrust.NewTrust(f.ca.Certificate, fleettrust.Options{})
		if err != nil {
			return err
		}
		last, err := t.Inventory(old)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		number = last.Number
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	now := time.Now()
	text, err := fleettrust.MakeInventory(nextNumber(number, now), now, hosts, f.ca.key)
	if err != nil {
		return err
	}
	return replace(file, text, 0o644)
}

// nextNumber returns a number above last. It is a time, so that it is also above those of
// files that were lost.
func nextNumber(last uint64, now time.Time) uint64 { return max(last+1, uint64(now.Unix())) }

// Inventory returns the signed inventory; nil: no host is enrolled.
func (f *Fleet) Inventory() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, fleetDir, inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Revoked returns the signed list of revoked certificates; nil: there is none.
func (f *Fleet) Revoked() ([]byte, error) {
	if number, _, err := f.revoked(); err != nil || number == 0 {
		return nil, err
	}
	return os.ReadFile(filepath.Join(f.dir, revokedFile))
}

// revoked reads the list of revoked certificates: the number of the newest list, 0 if the
// file has serial numbers only, and the serial numbers in hexadecimal.
func (f *Fleet) revoked() (number uint64, serials map[string]bool, err error) {
	serials = map[string]bool{}
	path := filepath.Join(f.dir, revokedFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, serials, nil
	}
	if err != nil {
		return 0, nil, err
	}
	if !strings.Contains(string(text), "-----BEGIN") {
		return 0, serials, addSerials(serials, string(text), path)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		l, err := parseList(block.Bytes, []*x509.Certificate{f.ca.Certificate})
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", path, err)
		}
		if l.Number != nil && l.Number.IsUint64() {
			number = max(number, l.Number.Uint64())
		}
		for _, e := range l.RevokedCertificateEntries {
			serials[e.SerialNumber.Text(16)] = true
		}
	}
	return number, serials, nil
}

// addSerials adds the serial numbers of a text to serials, in hexadecimal.
func addSerials(serials map[string]bool, text, from string) error {
	lines, err := parseSerials(text, from)
	for decimal := range lines {
		n, _ := new(big.Int).SetString(decimal, 10)
		serials[n.Text(16)] = true
	}
	return err
}

// Revoke adds certificates to the list of revoked ones, by serial number in hexadecimal,
// and returns the number of the new list. Members accept nothing after valid without a
// newer list; 0: it does not end.
func (f *Fleet) Revoke(serials []string, valid time.Duration) (number uint64, err error) {
	unlock, err := lockDir(f.dir)
	if err != nil {
		return 0, err
	}
	defer unlock()
	number, revoked, err := f.revoked()
	if err != nil {
		return 0, err
	}
	if err := addSerials(revoked, strings.Join(serials, "\n"), "the command line"); err != nil {
		return 0, err
	}
	all := make([]*big.Int, 0, len(revoked))
	for hex := range revoked {
		n, _ := new(big.Int).SetString(hex, 16)
		all = append(all, n)
	}
	slices.SortFunc(all, (*big.Int).Cmp)
	now := time.Now()
	next := f.ca.Certificate.NotAfter
	if valid > 0 {
		next = now.Add(valid)
	}
	number = nextNumber(number, now)
	list, err := fleettrust.MakeList(number, all, now, next, f.ca.Certificate, f.ca.key)
	if err != nil {
		return 0, err
	}
	if err := replace(filepath.Join(f.dir, revokedFile), list, 0o644); err != nil {
		return 0, err
	}
	if _, err := os.Stat(filepath.Join(f.dir, fleetDir, inventoryFile)); err != nil {
		return number, nil // there is no fleet
	}
	return number, f.writeInventory()
}
