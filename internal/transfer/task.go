package transfer

import "time"

// task is one file on its way. Its link and signing state are guarded by the job's mutex; what
// a worker alone needs lives in a fetch.
type task struct {
	File
	job     *job
	order   int64 // in the job's sequence
	state   signing
	started bool
	link    link
	err     error         // why there will be no link
	signed  int           // how often the name was signed
	ready   chan struct{} // made by a worker that waits for a link; closed when it is there
}

func (t *task) large() bool { return t.Size > smallFile }

// signing says where a task's link is.
type signing int

const (
	unsigned signing = iota
	asked            // in a call that is under way, or about to be made
	signed
)

// link is a signed link. It must not be printed: its query is a secret.
type link struct {
	url     string
	expires time.Time // with a monotonic reading
}

// String keeps a link out of text that prints a task by accident.
func (link) String() string { return "signed link" }

// GoString does the same for %#v.
func (link) GoString() string { return "signed link" }

// queue is a list of tasks in order.
type queue struct{ tasks []*task }

func (q *queue) push(t *task) { q.tasks = append(q.tasks, t) }

func (q *queue) len() int { return len(q.tasks) }

func (q *queue) head() *task {
	if len(q.tasks) == 0 {
		return nil
	}
	return q.tasks[0]
}

func (q *queue) pop() *task {
	t := q.head()
	if t != nil {
		q.tasks[0] = nil
		q.tasks = q.tasks[1:]
	}
	return t
}
