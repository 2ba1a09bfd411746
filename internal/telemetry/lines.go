package telemetry

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Lines is a Progress that logs a line now and then, when something changed.
type Lines struct {
	*tally
	log   zerolog.Logger
	stop  chan struct{}
	done  chan struct{}
	close sync.Once
}

// NewLines returns a Progress that logs at every tick: give the channel of a time.Ticker of half
// a minute or so. Stages are logged at debug level as they come.
func NewLines(log zerolog.Logger, tick <-chan time.Time, now func() time.Time) *Lines {
	l := &Lines{tally: newTally(now), log: log, stop: make(chan struct{}), done: make(chan struct{})}
	go l.run(tick)
	return l
}

func (l *Lines) run(tick <-chan time.Time) {
	defer close(l.done)
	for {
		select {
		case <-tick:
			l.print()
		case <-l.stop:
			l.print()
			return
		}
	}
}

func (l *Lines) print() {
	s := l.snapshot()
	if !s.changed || s.files.planned == 0 && s.bytes.planned == 0 {
		return
	}
	l.log.Info().
		Int64("files", s.files.done).Int64("filesPlanned", s.files.planned).
		Int64("bytes", s.bytes.done).Int64("bytesPlanned", s.bytes.planned).
		Int64("bytesPerSecond", int64(s.rate)).
		Strs("stages", head(s.stages)).
		Msg("progress: " + s.line())
}

// Stage implements Progress.
func (l *Lines) Stage(dataset, stage string) {
	l.tally.Stage(dataset, stage)
	if stage != "" {
		l.log.Debug().Str("dataset", dataset).Msg(stage)
	}
}

// Close implements Progress.
func (l *Lines) Close() {
	l.close.Do(func() { close(l.stop) })
	<-l.done
}

// maxStages bounds how many datasets are shown at a time.
const maxStages = 5

func head(stages []string) []string { return stages[:min(len(stages), maxStages)] }
