package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Side says who has to be called when it fails.
type Side string

// The sides of a pass.
const (
	SideFeed   Side = "feed"   // the API that lists versions and signs links
	SideSource Side = "source" // the host behind a signed link
	SideBucket Side = "bucket" // the customer's store
	SideConfig Side = "config" // settings and command line
)

// Kind is what a program decides on; texts are for people.
type Kind string

// The kinds of errors. The comments say when.
const (
	Usage         Kind = "usage"          // settings or command line are wrong; exit 2
	BucketUnfit   Kind = "bucket-unfit"   // the bucket is missing, denied, or lacks a guarantee; exit 5
	FeedUnfit     Kind = "feed-unfit"     // the feed refused the key or cannot be used at all; exit 4
	NotFound      Kind = "not-found"      // no such object, version or dataset
	Exists        Kind = "exists"         // a create met an object that stands
	Conflict      Kind = "conflict"       // a swap met another tag than expected, or other bytes than named
	Contended     Kind = "contended"      // the store asks to send the same conditional write again (409)
	Denied        Kind = "denied"         // 401 or 403
	Gone          Kind = "gone"           // the feed answered 410
	NotSubscribed Kind = "not-subscribed" // the feed answered 409 not_subscribed
	Transient     Kind = "transient"      // worth another try: 408, 425, 429, 5xx, broken connections
	WrongBytes    Kind = "wrong-bytes"    // size or sha256 is not what was named
	Malformed     Kind = "malformed"      // an answer or document that cannot be used
	Missing       Kind = "missing"        // the feed names a file that it cannot link to
	Archived      Kind = "archived"       // the object is in an archive tier and cannot be read now
	History       Kind = "history-changed"
	Rebuilding    Kind = "rebuilding" // the feed is rebuilding a version's files; exit 6
	Budget        Kind = "budget"     // a time or byte budget is used up; exit 6
	Unsupported   Kind = "unsupported"
	NoSpace       Kind = "no-space" // the store is full
	Internal      Kind = "internal" // a bug or an impossible state
)

// Error is one failure in one place. Build it with a literal; wrap causes in Err.
type Error struct {
	Op      string // verb noun: "put object", "read version"
	Object  string // key, path or dataset; never a link's query
	Side    Side
	Kind    Kind
	Status  int           // HTTP status when there was one
	After   time.Duration // the server's Retry-After, a floor for the next try; zero when none
	Hint    string        // what to do about it, a full sentence or a command
	Dataset string
	Version int64
	Err     error
}

// Error returns "op object (side): cause". The hint is left to the place that prints.
func (e *Error) Error() string {
	var out strings.Builder
	out.WriteString(e.Op)
	if e.Object != "" {
		out.WriteString(" " + e.Object)
	}
	if e.Side != "" {
		out.WriteString(" (" + string(e.Side) + ")")
	}
	switch {
	case e.Err != nil:
		out.WriteString(": " + e.Err.Error())
	case e.Status != 0:
		fmt.Fprintf(&out, ": status %d", e.Status)
	default:
		out.WriteString(": " + string(e.Kind))
	}
	return out.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain, or "" when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// Is reports whether the outermost Error in err's chain has this kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// HintOf returns the first hint found from the outside in, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// SideOf returns the first side found from the outside in, or "".
func SideOf(err error) Side {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Side != "" {
			return e.Side
		}
		err = e.Err
	}
	return ""
}

// RetryAfter returns the greatest Retry-After in err's chain, or zero.
func RetryAfter(err error) time.Duration {
	var after time.Duration
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			break
		}
		after = max(after, e.After)
		err = e.Err
	}
	return after
}
