package invariant

import "testing"

func TestMovesThatAPointerMayAndMayNotMake(t *testing.T) {
	const one, two = `"_mirror/decisions/ds/1.json"`, `"_mirror/decisions/ds/2.json"`
	tests := map[string]struct {
		before, after string
		broken        bool
	}{
		"the first":                   {"", `{"revision":1,"version":4}`, false},
		"the first, of revision two":  {"", `{"revision":2,"version":4}`, true},
		"up":                          {`{"revision":1,"version":4}`, `{"revision":2,"version":5}`, false},
		"in place":                    {`{"revision":1,"version":4}`, `{"revision":2,"version":4}`, false},
		"under the same revision":     {`{"revision":2,"version":4}`, `{"revision":2,"version":5}`, true},
		"over a revision":             {`{"revision":2,"version":4}`, `{"revision":4,"version":5}`, true},
		"down":                        {`{"revision":1,"version":4}`, `{"revision":2,"version":3}`, true},
		"down by a rollback":          {`{"revision":1,"version":4}`, `{"revision":2,"version":3,"pinned":true,"decisions":[` + one + `]}`, false},
		"down by one that is old":     {`{"revision":1,"version":4,"decisions":[` + one + `]}`, `{"revision":2,"version":3,"pinned":true,"decisions":[` + one + `]}`, true},
		"down by an approval":         {`{"revision":1,"version":4}`, `{"revision":2,"version":3,"decisions":[` + one + `]}`, true},
		"a pin lifted by an approval": {`{"revision":1,"version":4,"pinned":true}`, `{"revision":2,"version":5,"decisions":[` + one + `]}`, false},
		"a pin lifted by nobody":      {`{"revision":1,"version":4,"pinned":true,"decisions":[` + one + `]}`, `{"revision":2,"version":5,"decisions":[` + one + `]}`, true},
		"a decision forgotten":        {`{"revision":1,"version":4,"decisions":[` + one + `]}`, `{"revision":2,"version":4,"decisions":[` + two + `]}`, true},
		"no pointer after":            {`{"revision":1,"version":4}`, `[]`, true},
		"no pointer before":           {`[]`, `{"revision":1,"version":4}`, true},
	}
	for name, test := range tests {
		var before []byte
		if test.before != "" {
			before = []byte(test.before)
		}
		if err := CheckMove(before, []byte(test.after)); (err != nil) != test.broken {
			t.Errorf("%s: %v", name, err)
		}
	}
}
