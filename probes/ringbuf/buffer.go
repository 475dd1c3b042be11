package ringbuf

// Buffer is a Ring with its Waiter. It is not safe for concurrent use, except for
// Wake.
type Buffer struct {
	*Ring
	*Waiter
}

// Open maps the buffer of a BPF_MAP_TYPE_RINGBUF of size bytes.
func Open(mapFD, size int) (*Buffer, error) {
	ring, err := Map(mapFD, size)
	if err != nil {
		return nil, err
	}
	waiter, err := NewWaiter(mapFD)
	if err != nil {
		ring.Unmap()
		return nil, err
	}
	return &Buffer{ring, waiter}, nil
}

// Close unmaps the buffer.
func (b *Buffer) Close() {
	b.Waiter.Close()
	b.Unmap()
}
