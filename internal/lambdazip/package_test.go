package main

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two people package the same code: in other folders, in other time zones, with other settings of Go, one of them in a git work
// tree. Both get the same file, and it holds what Lambda wants.
func TestThePackageIsReproducible(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "another", "folder")
	copySource(t, first)
	if err := os.CopyFS(second, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "-C", second, "init", "-q").Run(); err != nil {
		t.Logf("no work tree of git is made: %v", err)
	}
	other := []string{"TZ=Pacific/Chatham", "GOFLAGS=-tags=other", "GOARM64=v9.0", "CGO_ENABLED=1", "GOOS=linux", "GOARCH=arm64", "SOURCE_DATE_EPOCH=1"}
	a, b := makePackage(t, first, "TZ=UTC"), makePackage(t, second, other...)
	if !bytes.Equal(a, b) {
		t.Errorf("two packages of the same code differ: %d and %d bytes", len(a), len(b))
	}
	binary := unpack(t, a)
	checkProgram(t, binary)
	if bytes.Contains(binary, []byte(first)) {
		t.Errorf("the program names the folder in which it was built")
	}
}

// copySource copies what a build reads: beside a running test the work tree may change.
func copySource(t *testing.T, target string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "testdata" || name == "dist" || len(name) > 2 && name[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".mod", ".sum", ".sh", ".html", ".css": // the last two are embedded
		default:
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(target, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(target, name), text, 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func makePackage(t *testing.T, root string, env ...string) []byte {
	t.Helper()
	build := exec.Command(filepath.Join(root, "scripts", "package.sh"), "out")
	build.Env = append(os.Environ(), env...)
	text, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("package: %v\n%s", err, text)
	}
	t.Logf("%s", text)
	archive, err := os.ReadFile(filepath.Join(root, "out", "awsmp-bootstrap.zip"))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// unpack is the program in a package, which holds nothing else.
func unpack(t *testing.T, archive []byte) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name     string
		Mode     fs.FileMode
		Modified time.Time
	}
	var entries []entry
	for _, f := range r.File {
		entries = append(entries, entry{f.Name, f.Mode(), f.Modified.UTC()})
	}
	want := []entry{{"bootstrap", 0o755, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Fatal(diff)
	}
	f, err := r.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	binary, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// checkProgram asks for a static program for arm64 without what one machine alone needs.
func checkProgram(t *testing.T, binary []byte) {
	t.Helper()
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if program.Machine != elf.EM_AARCH64 || slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("the program is for %v, or wants a dynamic linker", program.Machine)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	if !slices.Contains(modules, "github.com/aws/aws-lambda-go") {
		t.Errorf("the program's modules are not to be had: %v", modules)
	}
	for _, m := range []string{"modernc.org/sqlite", "modernc.org/libc", "github.com/spf13/cobra", "github.com/tidwall/btree"} {
		if slices.Contains(modules, m) {
			t.Errorf("%s is linked in", m)
		}
	}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs") {
			t.Errorf("the program is stamped with %s=%s", s.Key, s.Value)
		}
	}
}
