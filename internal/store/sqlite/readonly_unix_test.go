//go:build unix

package sqlite_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The file system refuses nothing to root, so another user looks.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, f := range []string{filepath.Dir(folder), folder} {
		check(t, "open the folder", os.Chmod(f, 0o755))
	}
	program, err := os.Executable()
	check(t, "find the test binary", err)
	copied := filepath.Join(folder, "program")
	// By another process: a file that is open for writing here while another test starts a process could not be executed.
	check(t, "copy the test binary", exec.CommandContext(t.Context(), "cp", program, copied).Run())
	check(t, "let others execute it", os.Chmod(copied, 0o755))
	content := bytesOf(t, filled(t))

	for _, tt := range []struct {
		name         string
		folder, file os.FileMode
		why, hint    string
	}{
		{"the file", 0o777, 0o444, "this user may not open it", "give this user read and write access to the file and its folder"},
		{"the folder", 0o555, 0o666, "it, or its folder, may not be written to", "give this user write access to the folder and the file"},
		{"a folder without the file", 0o555, 0, "this user may not open it", "give this user read and write access to the file and its folder"},
		{"none", 0o777, 0o666, "", ""},
	} {
		place := filepath.Join(folder, tt.name)
		check(t, "make a folder", os.Mkdir(place, 0o777))
		path := filepath.Join(place, "usage.db")
		if tt.name != "a folder without the file" {
			write(t, path, content)
			check(t, "set the file's mode", os.Chmod(path, tt.file))
		}
		check(t, "set the folder's mode", os.Chmod(place, tt.folder))
		c := child(t, "look", path)
		c.Path = copied
		if os.Getuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		answer, err := c.Output()
		check(t, tt.name, err)
		var got, want []string
		check(t, "read "+string(answer), json.Unmarshal(answer, &got))
		if tt.why != "" {
			want = []string{path, tt.why, tt.hint}
		}
		same(t, tt.name, want, got)
		check(t, "set the folder's mode back", os.Chmod(place, 0o755))
		if tt.why != "" && tt.name != "a folder without the file" {
			check(t, "set the file's mode back", os.Chmod(path, 0o644))
			unchanged(t, path, content)
		}
	}
}
