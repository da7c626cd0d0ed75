package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// volumes is the folder of a node's volumes: for each a folder of its ID, with a file of its size and a folder of its
// files. A volume exists if the file of its size does, which is written last and removed first.
type volumes struct {
	folder string
}

func (v volumes) files(id string) string {
	return filepath.Join(v.folder, id, "files")
}

func (v volumes) sizeFile(id string) string {
	return filepath.Join(v.folder, id, "size")
}

// size returns the bytes of a volume, and whether it exists.
func (v volumes) size(id string) (int64, bool, error) {
	text, err := os.ReadFile(v.sizeFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	size, err := strconv.ParseInt(string(text), 10, 64)
	return size, true, err
}

// total returns the bytes of all volumes.
func (v volumes) total() (int64, error) {
	entries, err := os.ReadDir(v.folder)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, each := range entries {
		size, _, err := v.size(each.Name())
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

func (v volumes) create(id string, size int64) error {
	if err := os.MkdirAll(v.files(id), 0o777); err != nil {
		return err
	}
	draft := v.sizeFile(id) + ".new"
	if err := os.WriteFile(draft, []byte(strconv.FormatInt(size, 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, v.sizeFile(id))
}

// remove removes a volume, if it exists.
func (v volumes) remove(id string) error {
	if err := os.Remove(v.sizeFile(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(filepath.Join(v.folder, id))
}

// checked returns an error unless an ID is the name of one folder.
func checked(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsRune(id, filepath.Separator) {
		return fmt.Errorf("%q is not the ID of a volume", id)
	}
	return nil
}
