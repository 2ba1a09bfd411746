package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"feedmirror/internal/bucket"
	"feedmirror/internal/fault"
)

// copyFile fetches, verifies and writes one file.
func (e *Engine) copyFile(t *task) Outcome {
	f := &fetch{engine: e, task: t, ctx: t.job.ctx}
	for {
		write := e.writeStreamed
		if !t.large() {
			write = e.writeWhole
		}
		info, err := write(f)
		if err == nil {
			return Outcome{Status: Copied, Info: info}
		}
		if fault.Is(err, fault.Exists) {
			return e.present(t)
		}
		f.ctx = t.job.ctx
		retry, err := f.after(err)
		if err != nil {
			return Outcome{Status: Failed, Err: err}
		}
		if retry == afterWrite {
			if outcome, known := e.standing(t, Copied); known {
				return outcome
			}
		}
	}
}

// writeWhole fetches a small file into memory and then writes it. The sink can repeat the write.
func (e *Engine) writeWhole(f *fetch) (bucket.Info, error) {
	buffer := e.buffers.get(int(f.task.Size))
	defer e.buffers.put(buffer)
	data := (*buffer)[:f.task.Size]
	s := f.newStream(nil)
	err := s.readAll(data)
	if cause := s.close(); err == nil && cause != nil {
		err = cause
	}
	if err != nil {
		return bucket.Info{}, err
	}
	info, err := e.opts.Sink.Create(f.task.job.ctx, f.task.Key, bucket.Content{
		Size: f.task.Size, SHA256: f.task.SHA256, Class: bucket.Data, Body: bytes.NewReader(data),
	})
	return info, sinkError(f.task, err)
}

// writeStreamed hands a larger file on while it arrives.
func (e *Engine) writeStreamed(f *fetch) (bucket.Info, error) {
	buffer := e.buffers.get(streamBuffer)
	defer e.buffers.put(buffer)
	s := f.newStream(*buffer)
	f.held = true
	info, err := e.opts.Sink.Create(f.task.job.ctx, f.task.Key, bucket.Content{
		Size: f.task.Size, SHA256: f.task.SHA256, Class: bucket.Data, Body: s,
	})
	cause := s.close()
	f.held = false
	switch {
	case fault.Is(err, fault.Exists):
		return info, err
	case cause != nil:
		return info, cause // the sink saw only that its body failed
	case err == nil && !s.whole:
		return info, f.internal("the store took a file that was not verified to its end")
	}
	return info, sinkError(f.task, err)
}

// sinkFailure is a write that failed for the bucket's own reasons.
type sinkFailure struct {
	kind fault.Kind
	err  error
}

func (s *sinkFailure) Error() string { return s.err.Error() }

func (s *sinkFailure) Unwrap() error { return s.err }

func sinkError(t *task, err error) error {
	if err == nil || fault.Is(err, fault.Exists) {
		return err
	}
	kind := fault.KindOf(err)
	return &sinkFailure{kind: kind, err: &fault.Error{
		Op: "store file", Object: t.Name, Side: fault.SideBucket, Kind: kind,
		After: fault.RetryAfter(err), Dataset: t.job.Dataset, Version: int64(t.job.Version), Err: err,
	}}
}

// next step after a failed write.
type step int

const (
	fromStart  step = iota // fetch it again
	afterWrite             // look first: a write that failed may have landed
)

// after decides whether a failed write is tried again; the error is the file's when not.
func (f *fetch) after(err error) (step, error) {
	if f.ctx.Err() != nil {
		return fromStart, context.Cause(f.ctx)
	}
	var unmet *unmetError
	var sink *sinkFailure
	switch {
	case errors.Is(err, errRestart):
		return fromStart, nil
	case errors.As(err, &unmet):
		return fromStart, f.spend(unmet.problem)
	case errors.As(err, &sink):
		return afterWrite, f.afterSink(sink)
	default:
		return fromStart, err
	}
}

// afterSink spends a try on a write that the bucket failed. Small files were repeated by the
// sink already, where that helps.
func (f *fetch) afterSink(failure *sinkFailure) error {
	repeat := failure.kind == fault.WrongBytes
	if f.task.large() {
		repeat = repeat || failure.kind == fault.Transient || failure.kind == fault.Contended
	}
	f.tries++
	if !repeat || f.tries >= f.engine.opts.Attempts {
		return failure.err
	}
	pause := max(f.engine.backoff(f.tries, false), fault.RetryAfter(failure.err))
	if pause > f.engine.opts.MaxWait {
		return failure.err
	}
	f.engine.opts.Counts.Retries.Add(1)
	return f.engine.slots.pause(f.ctx, f.task, pause)
}

// standing says what a key that we came to write holds already: the file, which ends it with the
// status, nothing (known is false), or something else.
func (e *Engine) standing(t *task, status Status) (outcome Outcome, known bool) {
	info, same, err := bucket.Holds(t.job.ctx, e.opts.Sink, t.Key, t.Size, t.SHA256)
	switch {
	case err != nil:
		return Outcome{Status: Failed, Err: unwrapSink(sinkError(t, err))}, true
	case same:
		return Outcome{Status: status, Info: info}, true
	case info.Key == "" && info.Tag == bucket.Absent:
		return Outcome{}, false
	}
	return Outcome{Status: Failed, Err: t.conflict(info)}, true
}

// present ends a file whose key was taken when we came to write.
func (e *Engine) present(t *task) Outcome {
	outcome, known := e.standing(t, Present)
	if !known {
		outcome = Outcome{Status: Failed, Err: &fault.Error{
			Op: "store file", Object: t.Key, Side: fault.SideBucket, Kind: fault.Transient, Hint: hintAgain,
			Dataset: t.job.Dataset, Version: int64(t.job.Version),
			Err: errors.New("the key was taken when we wrote and free when we looked"),
		}}
	}
	return outcome
}

// unwrapSink returns the error that people see.
func unwrapSink(err error) error {
	var sink *sinkFailure
	if errors.As(err, &sink) {
		return sink.err
	}
	return err
}

func (t *task) conflict(info bucket.Info) error {
	holds := fmt.Sprintf("%d bytes", info.Size)
	switch {
	case info.SHA256 != nil:
		holds += " with sha256 " + info.SHA256.String()
	case info.Size == t.Size:
		holds = "other bytes of the same number"
	}
	return &fault.Error{
		Op: "store file", Object: t.Key, Side: fault.SideBucket, Kind: fault.Conflict,
		Dataset: t.job.Dataset, Version: int64(t.job.Version),
		Err:  fmt.Errorf("the key holds %s, the manifest names %d bytes with sha256 %s", holds, t.Size, t.SHA256),
		Hint: fmt.Sprintf("If the version was rebuilt between two tries: prune --uncommitted %s %d", t.job.Dataset, t.job.Version),
	}
}

func (f *fetch) internal(text string) error {
	return &fault.Error{
		Op: "store file", Object: f.task.Name, Side: fault.SideBucket, Kind: fault.Internal,
		Dataset: f.task.job.Dataset, Version: int64(f.task.job.Version), Err: errors.New(text),
	}
}

// stopsJob reports whether a file's error will meet every other file too.
func stopsJob(err error) bool {
	if fault.SideOf(err) != fault.SideBucket {
		return false
	}
	switch fault.KindOf(err) {
	case fault.Denied, fault.NoSpace, fault.BucketUnfit, fault.Unsupported:
		return true
	default:
		return false
	}
}
