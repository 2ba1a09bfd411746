// Package jsonstream reads JSON from a stream with bounded memory: objects and arrays are
// visited while they arrive, and nothing that was not asked for is kept.
//
// It exists because encoding/json's Decoder buffers a value of any size before it hands it
// over, keeps a stack entry for every open bracket, matches names without regard to case and
// turns broken text into replacement characters. The feed's answers can list a million files
// and come from a network, so here a string has a greatest length, nesting a greatest depth,
// a region of the text a greatest size, and text that is not UTF-8 is an error.
//
// It knows JSON only: nothing of the feed, no I/O beyond the reader it is handed.
package jsonstream
