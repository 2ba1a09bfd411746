package buckettest

import (
	"sync"
	"time"
)

// Meeting returns a Between in which two writers of one key wait for each other, so that both have
// looked before either writes. A writer that stays alone goes on after a tenth of a second.
func Meeting() func(key string) {
	var mu sync.Mutex
	waiting := make(map[string]chan struct{})
	return func(key string) {
		mu.Lock()
		second, met := waiting[key]
		if met {
			select {
			case <-second:
			default:
				close(second)
			}
			mu.Unlock()
			return
		}
		second = make(chan struct{})
		waiting[key] = second
		mu.Unlock()
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-second:
		case <-timer.C:
		}
	}
}
