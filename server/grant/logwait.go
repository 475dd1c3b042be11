package grant

import (
	"context"
	"time"
)

// An audit log must be complete, and no user may fill the disk with it. So nothing that
// a user has executed is left out of it or summarised, since only the statement itself
// says what was done. Instead, users who write too much wait before their next statement:
// each record is charged to the user's account, and LogWait says how long it takes until
// the account is even at the rate of Limits.Log. A minute's worth may be written at once.

// logBurst is how much may be written at once, in terms of the rate.
const logBurst = time.Minute

// charge counts n bytes in the audit log.
func (a *Account) charge(n int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle()
	a.logged += float64(n)
}

// settle subtracts what the user may have written since the last call. The caller holds
// a.mu.
func (a *Account) settle() {
	now := time.Now()
	rate := float64(a.limits.Log)
	a.logged = max(a.logged-rate*now.Sub(a.counted).Seconds(), -rate*logBurst.Seconds())
	a.counted = now
}

// LogWait returns how long the user has to wait before the next statement.
func (a *Account) LogWait() time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limits.Log <= 0 {
		return 0
	}
	a.settle()
	return max(0, time.Duration(a.logged/float64(a.limits.Log)*float64(time.Second)))
}

// AwaitLog waits until LogWait is 0, and returns how long that took.
func (a *Account) AwaitLog(ctx context.Context) (waited time.Duration, err error) {
	began := time.Now()
	for d := a.LogWait(); d > 0; d = a.LogWait() {
		t := time.NewTimer(min(d, time.Second)) // the limit may be raised meanwhile
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return time.Since(began), ctx.Err()
		}
	}
	return time.Since(began), nil
}
