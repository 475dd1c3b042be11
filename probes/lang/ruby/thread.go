package ruby

import "endoscope/probes/lang/interpreter"

// Frames returns where the interpreter has the frames of a thread.
func (l *layout) Frames() interpreter.Frames {
	const nowhere = interpreter.Nowhere
	return interpreter.Frames{ID: uint16(l.native), Frame: uint16(l.context), Inner: contextFrame, Code: frameCode, Place: framePlace,
		Method: frameEnvironment, Stack: contextStack, Size: uint16(l.frameSize), Previous: nowhere, Owner: nowhere}
}

// tidInPthread is the offset of the thread's number in glibc's struct pthread,
// which pthread_self points to (x86-64, since 2.4).
const tidInPthread = 0x2d0

// Threads returns the threads of all ractors.
func (l *layout) Threads(m interpreter.Memory) map[int]interpreter.Thread {
	threads := map[int]interpreter.Thread{}
	vm, err := m.Word(l.vm + m.Bias)
	if err != nil || vm == 0 {
		return threads
	}
	each(m, vm+ractors, func(node uint64) bool {
		ractor := node - l.nextRactor
		return each(m, ractor+l.threads, func(node uint64) bool {
			state := node - threadNode
			if tid, t, ok := l.open(m, vm, ractor, state); ok {
				threads[tid] = t
			}
			return len(threads) < interpreter.MaxThreads
		})
	})
	return threads
}

// open returns a thread and its number. It is false if the structures do not point to each
// other as they do in the version.
func (l *layout) open(m interpreter.Memory, vm, ractor, state uint64) (tid int, t interpreter.Thread, ok bool) {
	if of, err := m.Word(state + threadVM); err != nil || of != vm {
		return 0, t, false
	}
	if of, err := m.Word(state + threadRactor); err != nil || of != ractor {
		return 0, t, false
	}
	context, err := m.Word(state + l.context)
	if err != nil {
		return 0, t, false
	}
	if of, err := m.Word(context + l.thread); err != nil || of != state {
		return 0, t, false
	}
	native, err := m.Word(state + l.native)
	if err != nil || native == 0 {
		return 0, t, false
	}
	at := state + l.tid
	switch {
	case l.separate:
		at = native + l.tid
	case l.tid == 0:
		at = native + tidInPthread
	}
	n, err := m.Half(at)
	return int(n), interpreter.Thread{State: state, ID: native}, err == nil
}

// each calls visit with the nodes of a list (ccan/list/list.h), until it returns false. It is
// false if that ended it, or the list could not be read.
func each(m interpreter.Memory, list uint64, visit func(node uint64) bool) bool {
	node, err := m.Word(list)
	for n := 0; err == nil && node != list && n < interpreter.MaxThreads; n++ {
		if !visit(node) {
			return false
		}
		node, err = m.Word(node)
	}
	return err == nil
}

// conditionSize is the size of glibc's pthread_cond_t.
const conditionSize = 48

// AwaitsLock reports whether a thread waits for the interpreter's lock: it waits at its own
// condition variable, as it does when it sleeps, but cannot be woken up by others
// (thread_pthread.c).
func (l *layout) AwaitsLock(m interpreter.Memory, t interpreter.Thread, w interpreter.Wait) bool {
	at := t.State + l.condition
	if l.separate {
		at = t.ID + l.condition
	}
	if t.State == 0 || w.Futex-at >= conditionSize {
		return false
	}
	unblock, err := m.Word(t.State + l.unblock)
	return err == nil && unblock == 0
}
