package telemetry

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"feedmirror/internal/fault"
)

// LogOptions say what the log looks like.
type LogOptions struct {
	Format   string // "auto": console on a terminal, else JSON; "console"; "json"
	Level    string // "trace", "debug", "info", "warn" or "error"
	Terminal bool   // whether the log is read on a terminal
	Color    bool   // colours in the console format
}

// NewLogger returns a logger that writes to guard, so that secrets cannot pass.
func NewLogger(guard *Guard, options LogOptions) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(options.Level)
	if err != nil || options.Level == "" {
		return zerolog.Nop(), fmt.Errorf("read log level %q: want trace, debug, info, warn or error", options.Level)
	}
	var out io.Writer = guard
	switch {
	case options.Format == "console" || options.Format == "auto" && options.Terminal:
		// Values are quoted by the library where they need it, messages are not.
		out = zerolog.ConsoleWriter{Out: guard, NoColor: !options.Color, TimeFormat: time.TimeOnly,
			FormatMessage: func(text any) string {
				message, _ := text.(string) // nil where a line has none
				return OneLine(message)
			}}
	case options.Format != "json" && options.Format != "auto":
		return zerolog.Nop(), fmt.Errorf("read log format %q: want auto, console or json", options.Format)
	}
	if out == io.Writer(guard) {
		out = NewPlain(guard)
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

// Failure adds an error to a log event with what programs can filter by: its kind, side, object,
// dataset, version, status and hint.
//
//	log.Error().Func(telemetry.Failure(err)).Msg("dataset failed")
func Failure(err error) func(*zerolog.Event) {
	return func(event *zerolog.Event) {
		event.Err(err)
		place := new(fault.Error)
		if !errors.As(err, &place) {
			return
		}
		event.Str("kind", string(place.Kind))
		for _, field := range []struct{ name, text string }{
			{"side", string(fault.SideOf(err))}, {"object", place.Object}, {"dataset", place.Dataset}, {"hint", fault.HintOf(err)},
		} {
			if field.text != "" {
				event.Str(field.name, field.text)
			}
		}
		if place.Version != 0 {
			event.Int64("version", place.Version)
		}
		if place.Status != 0 {
			event.Int("status", place.Status)
		}
	}
}
