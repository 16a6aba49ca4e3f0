package quorum

import "fmt"

// Left says what a Locker that holds nothing has left in its process, or "".
func Left(l *Locker) string {
	if queues, scheduled := ofList(l, "queues"), l.core.Held(); queues+scheduled > 0 {
		return fmt.Sprintf("%d queues, %d locks that are renewed", queues, scheduled)
	}
	select {
	case <-l.core.Idle():
		return ""
	default:
		return "something under way"
	}
}
