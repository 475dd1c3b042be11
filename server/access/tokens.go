package access

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tokenPrefix lets secret scanners recognise tokens.
const tokenPrefix = "endoscope_"

// Token is a stored token. It contains only the hash, so that a reader of the file
// cannot use it.
type Token struct {
	User    string
	Hash    [sha256.Size]byte
	Created time.Time
	Expires time.Time // zero: never
}

// ID returns the token's identifier in lists and logs.
func (t Token) ID() string { return hex.EncodeToString(t.Hash[:4]) }

// Tokens is a file of tokens: one per line, with user, SHA-256, creation and expiry
// time. It is reread when it changes. It is safe for concurrent use.
type Tokens struct {
	path string

	mu   sync.Mutex
	seen stamp
	list []Token
}

// stamp identifies a version of a file.
type stamp struct {
	there bool
	inode uint64
	size  int64
	at    time.Time
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}, nil
	}
	if err != nil {
		return stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{true, st.Ino, st.Size, time.Unix(st.Mtim.Unix())}, nil
}

// OpenTokens reads a file of tokens. A missing file is an empty one.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	_, err := t.List()
	return t, err
}

// List returns the tokens, oldest first.
func (t *Tokens) List() ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := stampOf(t.path)
	if err != nil || now == t.seen {
		return slices.Clone(t.list), err
	}
	list, err := readTokens(t.path)
	if err != nil {
		return nil, err
	}
	t.seen, t.list = now, list
	return slices.Clone(list), nil
}

func readTokens(path string) ([]Token, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Token
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		t, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		list = append(list, t)
	}
	return list, lines.Err()
}

func parseToken(fields []string) (t Token, err error) {
	if len(fields) != 4 {
		return t, errors.New("a token line has a user, a hash, a creation time and an expiry time (or -)")
	}
	t.User = fields[0]
	if n, err := hex.Decode(t.Hash[:], []byte(fields[1])); err != nil || n != len(t.Hash) || len(fields[1]) != 2*len(t.Hash) {
		return t, errors.New("the hash is not a SHA-256")
	}
	if t.Created, err = time.Parse(time.RFC3339, fields[2]); err == nil && fields[3] != "-" {
		t.Expires, err = time.Parse(time.RFC3339, fields[3])
	}
	return t, errors.Join(err, checkName(t.User))
}

// Find returns the token that matches text. Its running time reveals nothing about
// the existing tokens. If the file cannot be read, no token matches.
func (t *Tokens) Find(text string) (Token, bool) {
	list, err := t.List()
	if err != nil {
		return Token{}, false
	}
	hash := sha256.Sum256([]byte(text))
	found := -1
	for i := range list {
		if subtle.ConstantTimeCompare(hash[:], list[i].Hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 || list[found].expired(time.Now()) {
		return Token{}, false
	}
	return list[found], true
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Has reports whether user has a valid token with that id.
func (t *Tokens) Has(user, id string) bool {
	list, err := t.List()
	return err == nil && slices.ContainsFunc(list, func(k Token) bool {
		return k.User == user && k.ID() == id && !k.expired(time.Now())
	})
}

// Add creates a token for a user and returns its text, which is not stored. life 0:
// the token does not expire.
func (t *Tokens) Add(user string, life time.Duration) (text string, k Token, err error) {
	if err := checkName(user); err != nil {
		return "", k, err
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", k, err
	}
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	k = Token{User: user, Hash: sha256.Sum256([]byte(text)), Created: time.Now().UTC().Truncate(time.Second)}
	if life > 0 {
		k.Expires = k.Created.Add(life)
	}
	return text, k, t.change(func(list []Token) ([]Token, error) { return append(list, k), nil })
}

// Revoke removes and returns the token with that id.
func (t *Tokens) Revoke(id string) (gone Token, err error) {
	return gone, t.change(func(list []Token) ([]Token, error) {
		i := slices.IndexFunc(list, func(k Token) bool { return k.ID() == id })
		if i < 0 {
			return nil, fmt.Errorf("there is no token %s", id)
		}
		gone = list[i]
		return slices.Delete(list, i, i+1), nil
	})
}

// change rewrites the file under a lock. The replacement is atomic for readers.
func (t *Tokens) change(f func([]Token) ([]Token, error)) error {
	unlock, err := lockDir(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	defer unlock()
	list, err := readTokens(t.path)
	if err != nil {
		return err
	}
	if list, err = f(list); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# user sha256 made expires; endoscoped token add|list|revoke changes it\n")
	for _, k := range list {
		until := "-"
		if !k.Expires.IsZero() {
			until = k.Expires.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "%s %x %s %s\n", k.User, k.Hash, k.Created.Format(time.RFC3339), until)
	}
	return replace(t.path, []byte(b.String()), 0o600)
}
