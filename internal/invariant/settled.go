package invariant

import "fmt"

// Kinds of violations by Unsettled.
const (
	StillOwed    Kind = "still-owed"    // a shard document owes a dataset
	NotObeyed    Kind = "not-obeyed"    // a decision that the dataset's pointer does not obey
	StillPruning Kind = "still-pruning" // a prune began and did not end
	NotCommitted Kind = "not-committed" // a version's manifest without a record or a note that it is gone
)

// Unsettled returns what a bucket says is still to do, in the order of its keys: work that a run
// left to the next. A bucket in which nothing is has none.
func Unsettled(b Bucket) []Violation {
	c := newChecker(b)
	c.violations = nil // of Check's
	obeyed := make(map[string]string)
	for _, key := range c.keys() {
		if where := c.places[key]; where.class == classPointer {
			c.document(key, func(data []byte) error {
				var p pointer
				err := decode(data, &p)
				for _, decision := range p.Decisions {
					obeyed[where.dataset] = max(obeyed[where.dataset], decision)
				}
				return err
			})
		}
	}
	for _, key := range c.keys() {
		switch where := c.places[key]; where.class {
		case classShard:
			c.document(key, func(data []byte) error { return c.checkOwed(key, data) })
		case classDecision:
			c.document(key, func(data []byte) error {
				var d decision
				err := decode(data, &d)
				if err == nil && d.moves() && key > obeyed[where.dataset] {
					c.report(NotObeyed, key, "%s of %s", d.Action, d.Dataset)
				}
				return err
			})
		case classManifest:
			_, record := c.objects[where.recordKey()]
			_, gone := c.objects[versionPrefix(where)+"gone.json"]
			if !record && !gone {
				c.report(NotCommitted, key, "no record stands beside it")
			}
		case classOwn:
			if key == pruneKey {
				c.document(key, func(data []byte) error { return c.checkPrune(key, data) })
			}
		}
	}
	return c.violations
}

func (c *checker) checkOwed(key string, data []byte) error {
	var shard struct {
		Owed []struct {
			Dataset string `json:"dataset"`
			Reason  string `json:"reason"`
		} `json:"owed"`
	}
	if err := decode(data, &shard); err != nil {
		return err
	}
	for _, owed := range shard.Owed {
		c.report(StillOwed, key, "%s: %s", owed.Dataset, owed.Reason)
	}
	return nil
}

const pruneKey = "_mirror/prune.json"

// pruneState returns the state that a prune.json names.
func pruneState(data []byte) (string, error) {
	var prune struct {
		State string `json:"state"`
	}
	err := decode(data, &prune)
	return prune.State, err
}

func (c *checker) checkPrune(key string, data []byte) error {
	state, err := pruneState(data)
	switch {
	case err != nil || state == "finished":
		return err
	case state == "deciding" || state == "deleting":
		c.report(StillPruning, key, "it is %s", state)
		return nil
	}
	return fmt.Errorf("state %q is unknown", state)
}
