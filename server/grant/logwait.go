package grant

import "time"

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

// AwaitLog waits until LogWait is 0 or done is closed, and returns how long that took.
func (a *Account) AwaitLog(done <-chan struct{}) (waited time.Duration) {
	began := time.Now()
	for d := a.LogWait(); d > 0; d = a.LogWait() {
		select {
		case <-time.After(min(d, time.Second)): // the limit may be raised meanwhile
		case <-done:
			return time.Since(began)
		}
	}
	return time.Since(began)
}
