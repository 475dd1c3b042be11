package wire

import (
	"errors"
	"io"
)

// Broken returns an error that is not taken for the end of a result: io.EOF from anywhere else,
// such as a connection, a file or a decoder, becomes io.ErrUnexpectedEOF, and an error that
// wraps it one with the same text.
func Broken(err error) error {
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return errors.New(err.Error())
	}
	return err
}
