package bucket

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // compared with what a store keeps; proves nothing by itself
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"feedmirror/internal/fault"
	"feedmirror/manifest"
)

// probeData is what the probe writes first.
const probeData = "Written by mirror doctor. It can be deleted."

// checkWrite writes one object, and reads at once what the store says of it.
func (p *probe) checkWrite(ctx context.Context) error {
	key := p.key("first.txt")
	before := p.options.Now()
	if _, err := CreateDocument(ctx, p.store, key, []byte(probeData)); err != nil {
		if fault.Is(err, fault.Transient) || ctx.Err() != nil {
			return err
		}
		return &fault.Error{
			Op: "probe bucket", Object: key, Side: fault.SideBucket, Kind: fault.BucketUnfit,
			Err: fmt.Errorf("the first write was refused: %w", err), Hint: fault.HintOf(err),
		}
	}
	after := p.options.Now()
	got, opened, err := ReadAll(ctx, p.store, key, 1<<10)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	holds := err == nil && string(got) == probeData
	text := "An object can be read as soon as it was written."
	if !holds {
		text = "An object that was just written could not be read back as it was written."
	}
	p.addNeeded(CheckReadAfterWrite, "", holds, text)
	if !holds {
		return nil
	}
	info, err := p.store.Stat(ctx, key)
	if err != nil {
		return err
	}
	p.checkEncoding(info, opened)
	p.checkAttests(info)
	p.checkClock(info, before, after)
	return nil
}

func (p *probe) checkEncoding(info, opened Info) {
	encoding := info.Encoding + opened.Encoding
	text := "The store adds no Content-Encoding."
	if encoding != "" {
		text = fmt.Sprintf("The store says that what it keeps is encoded as %q: readers would unpack plain bytes.", encoding)
	}
	p.addNeeded(CheckEncoding, "", encoding == "", text)
}

// checkAttests compares the checksum that the store keeps with one of our own.
func (p *probe) checkAttests(info Info) {
	kept, right := attested(info, []byte(probeData))
	finding := ProbeFinding{Name: CheckAttests, Declared: orNone(p.declared.Attests), Observed: orNone(kept), Verdict: VerdictOK}
	switch {
	case !right:
		finding.Verdict = VerdictLacking
		finding.Text = fmt.Sprintf("The store keeps a %s that is not that of the bytes.", kept)
	case kept == "" && p.declared.Attests != "":
		finding.Verdict = VerdictLacking
		finding.Text = "The store keeps no checksum: only reading proves what it holds."
	case kept == "":
		finding.Text = "The store keeps no checksum of whole objects: only reading proves what it holds."
	default:
		finding.Text = fmt.Sprintf("The store keeps a %s of small objects.", kept)
	}
	if right {
		p.report.Observed.Attests = kept
	}
	p.add(finding)
}

// attested names the checksum that the store keeps, and says whether it is that of data. An
// algorithm that we do not know is not wrong.
func attested(info Info, data []byte) (name string, right bool) {
	if info.SHA256 != nil {
		return "sha256", *info.SHA256 == manifest.SumBytes(data)
	}
	name, sum, _ := strings.Cut(info.Checksum, ":")
	switch name {
	case "crc32c":
		return name, sum == fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	case "md5":
		return name, sum == fmt.Sprintf("%x", md5.Sum(data)) //nolint:gosec // see the import
	default:
		return name, true
	}
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

// checkClock compares the store's time of the write with ours around it.
func (p *probe) checkClock(info Info, before, after time.Time) {
	finding := ProbeFinding{Name: CheckClock, Verdict: VerdictOK}
	if info.Modified.IsZero() {
		finding.Verdict, finding.Observed = VerdictNotTested, "unknown"
		finding.Text = "The store does not say when an object was written."
		p.add(finding)
		return
	}
	middle := before.Add(after.Sub(before) / 2)
	skew := info.Modified.Sub(middle)
	p.report.SkewSeconds = skew.Seconds()
	finding.Observed = skew.Round(time.Second).String()
	finding.Text = "The store's clock agrees with ours to within a minute."
	if skew.Abs() > maxSkew {
		finding.Verdict = VerdictWarning
		finding.Text = fmt.Sprintf("The store's clock is off ours by %s: set this machine's clock.", skew.Round(time.Second))
	}
	p.add(finding)
}

// checkList looks for the object in a listing right after its write.
func (p *probe) checkList(ctx context.Context) error {
	holds := false
	for info, err := range p.store.List(ctx, p.report.Prefix, "") {
		if fault.Is(err, fault.Denied) {
			p.addNeeded(CheckListAfterWrite, "", false, "The store does not let us list: the right to list is missing.")
			return nil
		}
		if err != nil {
			return err
		}
		if info.Key == p.key("first.txt") && info.Size == int64(len(probeData)) {
			holds = true
		}
	}
	text := "A listing shows an object as soon as it was written."
	if !holds {
		text = "A listing does not show an object that was just written, or shows it with another size."
	}
	p.addNeeded(CheckListAfterWrite, "", holds, text)
	return nil
}

// checkMissing asks for a key that surely is not there: a store that says "forbidden" would make a
// first run and a lost right look alike.
func (p *probe) checkMissing(ctx context.Context) error {
	_, err := p.store.Stat(ctx, p.key("missing.txt"))
	switch {
	case fault.Is(err, fault.NotFound):
		p.addNeeded(CheckMissing, "", true, "A key that is not there is reported as missing.")
	case fault.Is(err, fault.Denied):
		p.addNeeded(CheckMissing, "", false,
			"A key that is not there is reported as forbidden: the right to list the bucket (s3:ListBucket) is missing.")
	case err == nil:
		p.addNeeded(CheckMissing, "", false, "A key that is not there is reported as present.")
	default:
		return err
	}
	return p.checkLetterCase(ctx)
}

// checkLetterCase looks for the object under a name in capitals. The names within a version are
// unique also when case is folded, those of datasets are the feed's.
func (p *probe) checkLetterCase(ctx context.Context) error {
	stands, err := p.stands(ctx, p.key("FIRST.txt"))
	if err != nil {
		return err
	}
	text := "Names that differ only in case are two."
	if stands {
		text = "Names that differ only in case are one here: do not mirror datasets whose ids differ only in case."
	}
	p.add(ProbeFinding{Name: CheckLetterCase, Observed: yesNo(!stands), Verdict: verdictOf(!stands, VerdictWarning), Text: text})
	return nil
}

// checkRange reads two bytes out of the middle.
func (p *probe) checkRange(ctx context.Context) error {
	body, _, err := p.store.Open(ctx, p.key("first.txt"), 3, 2)
	if err != nil {
		p.addNeeded(CheckRange, "", false, fmt.Sprintf("A range of two bytes could not be read (%s).", fault.KindOf(err)))
		return ctx.Err()
	}
	defer func() { _ = body.Close() }() // only read from: nothing can be lost
	got, err := io.ReadAll(io.LimitReader(body, 1<<10))
	if err != nil {
		return err
	}
	holds := bytes.Equal(got, []byte(probeData[3:5]))
	text := "A range of an object can be read."
	if !holds {
		text = fmt.Sprintf("A range of two bytes gave %d bytes, or others than were asked for.", len(got))
	}
	p.addNeeded(CheckRange, "", holds, text)
	return nil
}
