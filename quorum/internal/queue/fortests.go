package queue

// The functions of this file are for tests.

// Queues returns how many sets of names or semaphores calls wait for.
func (list *List) Queues() int {
	list.mu.Lock()
	defer list.mu.Unlock()
	return len(list.queues)
}

// Spare returns how many queues are kept to be used again.
func (list *List) Spare() int {
	list.mu.Lock()
	defer list.mu.Unlock()
	return len(list.spare)
}

// StopAlarm stops the waiter's timer as if it had fired, too early to matter.
func (w *Waiter) StopAlarm() {
	w.queue.list.mu.Lock()
	defer w.queue.list.mu.Unlock()
	w.alarm.Stop()
}
