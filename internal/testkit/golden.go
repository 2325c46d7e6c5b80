package testkit

import (
	"os"
	"testing"

	"golang.org/x/tools/txtar"
)

// Updating reports whether golden files are to be rewritten instead of compared: set
// UPDATE_GOLDEN=1, or run "make golden".
func Updating() bool { return os.Getenv("UPDATE_GOLDEN") != "" }

// Archive is a txtar file of a golden test: inputs, and sections that are compared.
type Archive struct {
	path    string
	ar      *txtar.Archive
	changed bool
}

// OpenArchive reads the txtar file at path.
func OpenArchive(t testing.TB, path string) *Archive {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Archive{path: path, ar: ar}
}

// Get returns a section; ok is false where there is none.
func (a *Archive) Get(name string) (data string, ok bool) {
	for _, f := range a.ar.Files {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

// Compare fails t where section name is not got; when updating, it becomes got.
func (a *Archive) Compare(t testing.TB, name, got string) {
	t.Helper()
	want, ok := a.Get(name)
	if ok && want == got {
		return
	}
	if !Updating() {
		t.Errorf("%s: section %s differs (make golden rewrites it)\ngot:\n%s\nwant:\n%s", a.path, name, got, want)
		return
	}
	a.changed = true
	for i := range a.ar.Files {
		if a.ar.Files[i].Name == name {
			a.ar.Files[i].Data = []byte(got)
			return
		}
	}
	a.ar.Files = append(a.ar.Files, txtar.File{Name: name, Data: []byte(got)})
}

// Close writes the archive back if it was updated.
func (a *Archive) Close(t testing.TB) {
	t.Helper()
	if a.changed {
		if err := os.WriteFile(a.path, txtar.Format(a.ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
