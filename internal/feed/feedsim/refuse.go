package feedsim

import (
	"net/http"
	"time"
)

// refuse is an error answer in the shape that is assumed.
func (f *Feed) refuse(r *refusal) answer {
	header := jsonHeader()
	var body any
	switch f.options.Assume.Errors {
	case ErrorNested:
		body = object{{"error", object{{"code", r.code}, {"message", r.message}}}}
	case ErrorFlat:
		body = object{{"code", r.code}, {"message", r.message}}
	case ErrorCodeAndMessage:
		body = object{{"error", r.code}, {"message", r.message}}
	case ErrorProblem:
		header.Set("Content-Type", "application/problem+json")
		body = object{
			{"type", "https://ploti.example/problems/" + r.code}, {"title", r.code},
			{"status", int64(r.status)}, {"detail", r.message}, {"code", r.code},
		}
	default:
		return bytesAnswer(r.status, http.Header{}, nil)
	}
	refused := jsonAnswer(body, nil)
	refused.status, refused.header = r.status, header
	return refused
}

// busyCall is the API request that is answered busy, once: late enough to be in the middle of a pass.
const busyCall = 3

// busy answers the one request that Assume.Busy asks for.
func (f *Feed) busy() (answer, bool) {
	f.mu.Lock()
	f.apiCalls++
	hit := f.apiCalls == busyCall
	now := f.clock.Now()
	f.mu.Unlock()
	style := f.options.Assume.Busy
	if style == BusyNever || !hit {
		return answer{}, false
	}
	r := &refusal{http.StatusTooManyRequests, "rate_limited", "Too many requests."}
	if style == Busy503Seconds || style == Busy503Bare {
		r = &refusal{http.StatusServiceUnavailable, "unavailable", "The service is not available for the moment."}
	}
	refused := f.refuse(r)
	switch style {
	case Busy429Seconds, Busy503Seconds:
		refused.header.Set("Retry-After", "1")
	case Busy429Date:
		refused.header.Set("Retry-After", now.Add(time.Second).Format(http.TimeFormat))
	}
	return refused, true
}
