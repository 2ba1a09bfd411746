package transfer

import (
	"fmt"
	"testing"
)

func TestCopiesFilesOfAllSizes(t *testing.T) {
	run(t, Options{}, func(w *world) {
		var files []File
		for i, size := range []int{0, 1, 4096, 4097, 1 << 20, 1<<20 + 1, 3<<20 + 17} {
			files = append(files, w.add(fmt.Sprintf("snapshot/part-%04d.parquet", i), size))
		}
		summary, err := w.copy(files...)
		w.wantCopied(summary, err, files...)
		for _, file := range files {
			if w.visits[file.Name] != 1 || w.signed[file.Name] != 1 || w.creates[file.Key] != 1 {
				t.Errorf("%s: %d visits, signed %d times, created %d times, want 1 each",
					file.Name, w.visits[file.Name], w.signed[file.Name], w.creates[file.Key])
			}
		}
	})
}

func TestAsksForLinksInFullBatches(t *testing.T) {
	for _, count := range []int{1, 200, 201, 1000, 1001} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			run(t, Options{}, func(w *world) {
				files := make([]File, count)
				for i := range files {
					size := 100
					if i%50 == 0 {
						size = 2 << 20
					}
					files[i] = w.add(fmt.Sprintf("document:%d", i), size)
				}
				summary, err := w.copy(files...)
				w.wantCopied(summary, err, files...)
				if want := (count + 199) / 200; len(w.calls) != want {
					t.Errorf("calls of %v names, want %d calls", w.calls, want)
				}
			})
		})
	}
}
