package fleettrust

import (
	"errors"
	"fmt"
)

// Reason is why a message was refused. Receivers count messages by it.
type Reason string

// Reasons.
const (
	Oversized   Reason = "oversized"
	Malformed   Reason = "malformed"
	Foreign     Reason = "foreign"      // the certificate is not of this installation
	Revoked     Reason = "revoked"      // the certificate, or the query
	Unpermitted Reason = "unpermitted"  // the signer's role, or name, does not permit it
	Forged      Reason = "forged"       // the signature, or what is sealed, is not the signer's
	Expired     Reason = "expired"      // the message, or the certificate
	Early       Reason = "early"        // not valid yet
	Replayed    Reason = "replayed"     // not newer than what was received before
	Behind      Reason = "behind"       // the signer knows a newer list of revoked certificates than the receiver, or the receiver's is too old
	Unsealed    Reason = "not for here" // it is sealed to others
	Unknown     Reason = "unknown"      // the query is not known here
	Overflow    Reason = "overflow"     // the receiver keeps as many as it may
)

// Refusal is the error of a refused message.
type Refusal struct {
	Reason Reason
	text   string
}

func (r *Refusal) Error() string { return r.text }

func refuse(r Reason, format string, args ...any) error {
	return &Refusal{r, fmt.Sprintf(format, args...)}
}

// ReasonOf returns the reason of a refusal; "" for another error.
func ReasonOf(err error) Reason {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}
