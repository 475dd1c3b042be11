package access

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// File names in a directory of certificates.
const (
	caCert     = "ca.pem"
	caKey      = "ca.key"
	serverCert = "server.pem"
	serverKey  = "server.key"
	clientsDir = "clients" // NAME.pem, NAME.key
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	certLife = 2 * 365 * 24 * time.Hour
	skew     = time.Hour // tolerance for client clocks that are behind
)

// validName matches user names: a name is also a file name, and appears in logs.
var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q is not a valid user name: use letters, digits and _, and . @ - after the first character", name)
	}
	return nil
}

// CA is the certificate authority of an installation.
type CA struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewCA creates a CA in memory.
func NewCA() (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t, err := template("endoscope CA", caLife)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	return &CA{c, key}, err
}

// OpenCA reads the CA in dir.
func OpenCA(dir string) (*CA, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, caCert), filepath.Join(dir, caKey))
	if err != nil {
		return nil, fmt.Errorf("the CA cannot be read: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not a key made by init", filepath.Join(dir, caKey))
	}
	return &CA{pair.Leaf, key}, nil
}

// lifetime returns how long a certificate may be valid; life 0 is certLife.
func (ca *CA) lifetime(life time.Duration) (time.Duration, error) {
	until := ca.Certificate.NotAfter
	life = cmp.Or(life, min(certLife, time.Until(until)))
	if time.Now().Add(life).After(until) {
		return 0, fmt.Errorf("the CA expires on %s, before the certificate would", until.Format(time.DateOnly))
	}
	return life, nil
}

// Init creates a CA and a server certificate for hosts (names and addresses by which
// clients reach the server) in dir, and returns the files. If any of the files
// exists, Init changes nothing and fails.
func Init(dir string, hosts []string) (files []string, err error) {
	if len(hosts) == 0 {
		return nil, errors.New("a server's certificate needs the names by which clients reach it")
	}
	for _, name := range []string{caCert, caKey, serverCert, serverKey} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s already exists: nothing was changed", filepath.Join(dir, name))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // remove the files of an incomplete set
			for _, f := range files {
				_ = os.Remove(f)
			}
			files = nil
		}
	}()
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	if files, err = writePair(files, dir, caCert, caKey, ca.Certificate.Raw, ca.key); err != nil {
		return files, err
	}
	files, _, err = ca.issue(files, dir, serverCert, serverKey, "endoscoped", certLife, x509.ExtKeyUsageServerAuth, hosts)
	return files, err
}

// ClientOptions of a client's certificate.
type ClientOptions struct {
	Life    time.Duration // 0: two years
	Replace bool          // replace the files of an earlier certificate
}

// NewClient issues a client certificate for the user name, signed by the CA in dir. It
// returns its files and the certificate. Without Replace it does not overwrite an
// existing one.
func NewClient(dir, name string, o ClientOptions) (files []string, made *x509.Certificate, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	ca, err := OpenCA(dir)
	if err != nil {
		return nil, nil, err
	}
	life, err := ca.lifetime(o.Life)
	if err != nil {
		return nil, nil, err
	}
	to := filepath.Join(dir, clientsDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, nil, err
	}
	if o.Replace {
		for _, file := range []string{name + ".pem", name + ".key"} {
			if err := os.Remove(filepath.Join(to, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
		}
	}
	files, made, err = ca.issue(nil, to, name+".pem", name+".key", name, life, x509.ExtKeyUsageClientAuth, nil)
	if err != nil { // remove the key of an incomplete pair
		for _, f := range files {
			_ = os.Remove(f)
		}
		files = nil
	}
	return files, made, err
}

// issue writes a certificate and its key, and returns files with their names.
func (ca *CA) issue(files []string, dir, cert, keyFile, name string, life time.Duration, use x509.ExtKeyUsage, hosts []string) ([]string, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, nil, err
	}
	t, err := template(name, life)
	if err != nil {
		return files, nil, err
	}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{use}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.Certificate, key.Public(), ca.key)
	if err != nil {
		return files, nil, err
	}
	files, err = writePair(files, dir, cert, keyFile, der, key)
	return files, t, err
}

func template(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(life),
	}, nil
}

// writePair appends the names of the files that it has written to files, also when it
// fails.
func writePair(files []string, dir, cert, key string, der []byte, private *ecdsa.PrivateKey) ([]string, error) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return files, err
	}
	for _, f := range []struct {
		name, kind string
		mode       os.FileMode
		der        []byte
	}{{key, "PRIVATE KEY", 0o600, pkcs8}, {cert, "CERTIFICATE", 0o644, der}} {
		path := filepath.Join(dir, f.name)
		if err := writeNew(path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return files, err
		}
		files = append(files, path)
	}
	return files, nil
}

// writeNew creates a file; it fails if the file exists.
func writeNew(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// ServerTLS returns the TLS configuration of a server with the certificates in dir:
// TLS 1.3 only. A client may present a certificate of the CA, and otherwise needs a
// token. If required is set, the certificate is mandatory.
func ServerTLS(dir string, required bool) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, serverCert), filepath.Join(dir, serverKey))
	if err != nil {
		return nil, fmt.Errorf("the server's certificate cannot be read: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, caCert))
	if err != nil {
		return nil, fmt.Errorf("the CA's certificate cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no certificate", filepath.Join(dir, caCert))
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	if required {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}
