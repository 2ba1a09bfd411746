package telemetry

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Terminal is a Progress that draws on a terminal: what some datasets are at, and one bar for
// all. It is also a writer that prints lines above the bar: give it to the logger's guard, or log
// lines and bar overwrite each other.
type Terminal struct {
	*tally
	out     io.Writer
	bars    *mpb.Progress
	bar     *mpb.Bar
	refresh chan any
	ended   chan any // closed when nothing can be drawn any more, such as after out broke
	stop    chan struct{}
	done    chan struct{}
	close   sync.Once

	drawing sync.Mutex
	shown   snapshot // what the next frame shows
}

// NewTerminal returns a Progress that draws on out at every tick: give the channel of a
// time.Ticker of a fifth of a second or so.
func NewTerminal(out io.Writer, tick <-chan time.Time, now func() time.Time) *Terminal {
	t := &Terminal{tally: newTally(now), out: out, refresh: make(chan any), ended: make(chan any), stop: make(chan struct{}), done: make(chan struct{})}
	t.bars = mpb.New(mpb.WithOutput(out), mpb.WithManualRefresh(t.refresh), mpb.WithShutdownNotifier(t.ended), mpb.WithWidth(100))
	t.bar = t.bars.AddBar(0,
		mpb.BarTopExtender(mpb.BarFillerFunc(t.stageLine)),
		mpb.BarWidth(24),
		mpb.PrependDecorators(t.decorator(func(s snapshot) string {
			return fmt.Sprintf("%d/%d files ", s.files.done, s.files.planned)
		})),
		mpb.AppendDecorators(t.decorator(func(s snapshot) string {
			return fmt.Sprintf(" %s/%s", FormatBytes(s.bytes.done), FormatBytes(s.bytes.planned))
		}), t.decorator(func(s snapshot) string {
			return "  " + FormatBytes(int64(s.rate)) + "/s"
		}), t.decorator(func(s snapshot) string {
			if s.left == 0 {
				return ""
			}
			return "  " + s.left.String() + " left"
		})))
	go t.run(tick)
	return t
}

func (t *Terminal) decorator(text func(snapshot) string) decor.Decorator {
	return decor.Any(func(decor.Statistics) string { return text(t.current()) })
}

// stageLine draws what some datasets are at. It is one line, and no wider than the terminal: the
// library counts on that when it moves up to draw the next frame.
func (t *Terminal) stageLine(out io.Writer, stat decor.Statistics) error {
	stages := t.current().stages
	line := strings.Join(head(stages), " | ")
	if more := len(stages) - maxStages; more > 0 {
		line += fmt.Sprintf(" | and %d more", more)
	}
	_, err := fmt.Fprintln(out, clip(OneLine(line), stat.AvailableWidth))
	return err
}

// clip cuts a line to a width in characters.
func clip(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:max(width-1, 0)]) + "…"
}

func (t *Terminal) current() snapshot {
	t.drawing.Lock()
	defer t.drawing.Unlock()
	return t.shown
}

func (t *Terminal) run(tick <-chan time.Time) {
	defer close(t.done)
	for {
		select {
		case <-tick:
			t.draw()
		case <-t.stop:
			t.Stage("", "")
			t.draw()
			t.bar.Abort(false)
			t.bars.Wait()
			return
		}
	}
}

// draw asks for a frame. The bar is fed here and not by every Bytes, which must return at once.
func (t *Terminal) draw() {
	now := t.snapshot()
	t.drawing.Lock()
	t.shown = now
	t.drawing.Unlock()
	t.bar.SetTotal(now.bytes.planned, false)
	t.bar.SetCurrent(now.bytes.done)
	select {
	case t.refresh <- now:
	case <-t.ended:
	}
}

// Write prints whole lines above the bar, at the next frame, and straight after Close.
func (t *Terminal) Write(p []byte) (int, error) {
	n, err := t.bars.Write(p)
	if errors.As(err, new(mpb.ErrDone[*mpb.Progress])) {
		<-t.ended // the last frame is drawn
		return t.out.Write(p)
	}
	return n, err
}

// Close implements Progress. The last frame stays on the terminal.
func (t *Terminal) Close() {
	t.close.Do(func() { close(t.stop) })
	<-t.done
}
