package audit

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"feedmirror/internal/bucket"
	"feedmirror/manifest"
)

func pull[V any](seq iter.Seq2[V, error]) (next func() (V, error, bool), stop func()) {
	return iter.Pull2(seq)
}

// checkAttachments walks the listing of all attachment objects beside the hashes that the indexes
// name. Both are in the order of the hashes.
func (a *auditor) checkAttachments(ctx context.Context) error {
	wanted := a.attachments.settle()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Workers)
	var ahead int64
	for _, want := range wanted {
		if a.Level.includes(LevelBytes) {
			ahead += want.size
		}
	}
	a.Planned(int64(len(wanted)), ahead)
	at := 0
	for info, err := range a.Reader.List(groupCtx, manifest.AttachmentPrefix, "") {
		if err != nil {
			_ = group.Wait() // where it failed first, this error is its consequence
			return err
		}
		key, ok := manifest.ParseDataKey(info.Key)
		if !ok || key.SHA256.IsZero() {
			a.find(Finding{Kind: KindAttachmentName, Key: info.Key, Detail: "its name is no hash", Hint: "Something else writes to this prefix."})
			continue
		}
		for ; at < len(wanted) && less(wanted[at].sum, key.SHA256); at++ {
			want := wanted[at].expected()
			group.Go(func() error { return a.absentAttachment(groupCtx, want) })
		}
		if at == len(wanted) || wanted[at].sum != key.SHA256 {
			a.orphan(info)
			continue
		}
		for ; at < len(wanted) && wanted[at].sum == key.SHA256; at++ {
			want := wanted[at].expected()
			group.Go(func() error {
				a.count(func(c *Checked, _ *NotChecked) { c.Attachments++ })
				return a.object(groupCtx, want, info)
			})
		}
	}
	for ; at < len(wanted); at++ {
		want := wanted[at].expected()
		group.Go(func() error { return a.absentAttachment(groupCtx, want) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.noteLoose()
	return nil
}

func (a *auditor) absentAttachment(ctx context.Context, want expected) error {
	a.count(func(c *Checked, _ *NotChecked) { c.Attachments++ })
	return a.absent(ctx, want)
}

func less(a, b manifest.SHA256) bool {
	for at := range a {
		if a[at] != b[at] {
			return a[at] < b[at]
		}
	}
	return false
}

func (d digest) expected() expected {
	return expected{key: manifest.AttachmentKey(d.sum), size: d.size, sum: d.sum}
}

// orphan notes an attachment that no index names. In an audit of some datasets only, others may
// name it; while something is owed, a copy may be under way; and where a record or an index could not
// be used, nobody knows what it names.
func (a *auditor) orphan(info bucket.Info) {
	switch {
	case a.Partial:
	case a.namesUnknown:
		a.count(func(_ *Checked, n *NotChecked) { n.Objects++; n.NoRecord++ })
	case len(a.owed) > 0 || a.Now().Sub(info.Modified) < inProgressFor:
		a.loose[KindInProgress].add(info)
	default:
		a.loose[KindOrphan].add(info)
	}
}

// looseAttachments are attachments that no index names; there can be thousands.
type looseAttachments struct {
	count, bytes int64
	example      string
}

func (l *looseAttachments) add(info bucket.Info) {
	if l.count == 0 {
		l.example = info.Key
	}
	l.count++
	l.bytes += max(info.Size, 0)
}

// noteLoose tells of all of them in one line a kind.
func (a *auditor) noteLoose() {
	for kind, what := range map[Kind]string{KindInProgress: "no index names them yet: a copy is under way, or was cut short", KindOrphan: "no index names them"} {
		if loose := a.loose[kind]; loose.count > 0 {
			a.note(Finding{Kind: kind, Key: loose.example, Detail: fmt.Sprintf("%d attachments like this one (%d bytes): %s", loose.count, loose.bytes, what)})
		}
	}
}
