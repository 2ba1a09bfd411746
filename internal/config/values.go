package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	pathpkg "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"feedmirror/internal/feed"
)

// none switches a limit off.
const none = "none"

// errValue stands for a value that is not of the form the setting's "allowed" names already.
var errValue = errors.New("not understood")

var (
	durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d|w)`)
	sizeForm     = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)b?$`)
	globForm     = regexp.MustCompile(`^[A-Za-z0-9._*?\[\]^-]+$`)
)

// ParseDuration reads a time as Go does, and days and weeks beside it: 90s, 1h30m, 2d, 1w.
func ParseDuration(text string) (time.Duration, error) {
	units := map[string]time.Duration{
		"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": week,
	}
	rest := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	if rest == "0" {
		return 0, nil
	}
	total := 0.0
	for rest != "" {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			if _, err := strconv.ParseFloat(rest, 64); err == nil {
				return 0, fmt.Errorf("a unit is missing, as in %ss", rest)
			}
			return 0, errValue
		}
		number, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, errValue
		}
		total += number * float64(units[part[2]])
		rest = rest[len(part[0]):]
	}
	if strings.TrimSpace(text) == "" {
		return 0, errValue
	}
	if total > float64(100*365*24*time.Hour) {
		return 0, errors.New("longer than a hundred years")
	}
	return time.Duration(math.Round(total)), nil
}

// ParseSize reads bytes: 1024, 64KiB, 50 GiB, 1.5Gi (powers of 1024) or 50GB, 50G (of 1000).
func ParseSize(text string) (int64, error) {
	part := sizeForm.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if part == nil || part[2] == "" && part[3] != "" {
		return 0, errValue
	}
	number, err := strconv.ParseFloat(part[1], 64)
	if err != nil {
		return 0, errValue
	}
	base := 1000.0
	if part[3] != "" {
		base = 1024
	}
	if part[2] != "" {
		number *= math.Pow(base, float64(strings.Index("kmgtp", part[2])+1))
	}
	if number >= 1<<53 {
		return 0, errors.New("2^53 bytes or more")
	}
	return int64(math.Round(number)), nil
}

func duration(field func(*Settings) *time.Duration, least, greatest time.Duration) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := ParseDuration(text)
		if err != nil {
			return err
		}
		if value < least || value > greatest {
			return errors.New("out of range")
		}
		*field(s) = value
		return nil
	}
}

func readMaxDuration(s *Settings, text string) error {
	if text == none {
		s.MaxDuration = 0
		return nil
	}
	value, err := ParseDuration(text)
	if err == nil && value == 0 {
		err = errors.New("out of range")
	}
	s.MaxDuration = value
	return err
}

func rate(field func(*Settings) *int64) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == none {
			*field(s) = 0
			return nil
		}
		value, err := ParseSize(strings.TrimSuffix(text, "/s"))
		*field(s) = value
		return err
	}
}

func whole(field func(*Settings) *int, least, greatest int) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := strconv.Atoi(text)
		if err != nil {
			return errValue
		}
		if value < least || value > greatest {
			return errors.New("out of range")
		}
		*field(s) = value
		return nil
	}
}

func word(field func(*Settings) *string, words ...string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if !slices.Contains(words, text) {
			return errValue
		}
		*field(s) = text
		return nil
	}
}

func path(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if text == "" || strings.ContainsRune(text, 0) {
			return errValue
		}
		*field(s) = text
		return nil
	}
}

func yes(field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return errValue
		}
		*field(s) = value
		return nil
	}
}

func readFeedURL(s *Settings, text string) error {
	if err := feed.CheckURL(text); err != nil {
		return err
	}
	s.FeedURL = text
	return nil
}

// readBucket checks the scheme; the rest is the store's to check.
func readBucket(s *Settings, text string) error {
	address, err := url.Parse(text)
	if err != nil {
		return errValue
	}
	if !slices.Contains([]string{"s3", "gs", "azblob", "file"}, address.Scheme) || address.Opaque != "" {
		return errors.New("no scheme of a bucket")
	}
	s.Bucket = text
	return nil
}

func readGlobs(s *Settings, text string) error {
	s.Datasets = nil
	for glob := range strings.SplitSeq(text, ",") {
		glob = strings.TrimSpace(glob)
		if _, err := pathpkg.Match(glob, ""); err != nil || !globForm.MatchString(glob) {
			return fmt.Errorf("%q is no glob", glob)
		}
		s.Datasets = append(s.Datasets, glob)
	}
	return nil
}

func readShard(s *Settings, text string) error {
	first, second, ok := strings.Cut(text, "/")
	index, errIndex := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	if !ok || errIndex != nil || errOf != nil {
		return errValue
	}
	if index < 0 || index >= of || of > 10_000 {
		return errors.New("out of range")
	}
	s.ShardIndex, s.ShardOf = index, of
	return nil
}

// hostForm is a host name or an address with the signs of a glob in it.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:*?\[\]-]{1,253}$`)

func readHosts(s *Settings, text string) error {
	s.LinksHosts = nil
	for host := range strings.SplitSeq(text, ",") {
		host = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(host), "."))
		if _, err := pathpkg.Match(host, ""); err != nil || !hostForm.MatchString(host) {
			return fmt.Errorf("%q is no host name", host)
		}
		if name, port, ok := strings.Cut(host, ":"); ok && !strings.Contains(port, ":") {
			return fmt.Errorf("%q names a port: %s is meant", host, name)
		}
		s.LinksHosts = append(s.LinksHosts, host)
	}
	return nil
}

func readNetworks(s *Settings, text string) error {
	s.AllowPrivateLinks = nil
	for one := range strings.SplitSeq(text, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(one))
		if err != nil {
			return fmt.Errorf("%q is no network", strings.TrimSpace(one))
		}
		if network != network.Masked() {
			return fmt.Errorf("%s has bits beyond its prefix: %s is meant", network, network.Masked())
		}
		s.AllowPrivateLinks = append(s.AllowPrivateLinks, network)
	}
	return nil
}
