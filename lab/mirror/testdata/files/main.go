// The program of the tests. Each argument is an operation and its operands, separated by
// "|". It prints one line for each.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/windows"
)

func main() {
	for _, arg := range os.Args[1:] {
		f := strings.Split(arg, "|")
		fmt.Println(f[0], do(f[0], f[1:]))
	}
}

func do(operation string, a []string) string {
	var result any
	var err error
	switch operation {
	case "mkdir":
		err = os.MkdirAll(a[0], 0o755)
	case "write":
		err = os.WriteFile(a[0], []byte(a[1]), 0o644)
	case "rename":
		err = os.Rename(a[0], a[1])
	case "remove":
		err = os.Remove(a[0])
	case "removeall":
		err = os.RemoveAll(a[0])
	case "readlink":
		result, err = os.Readlink(a[0])
	case "list":
		var names []string
		var entries []os.DirEntry
		entries, err = os.ReadDir(a[0])
		for _, e := range entries {
			names = append(names, e.Name())
		}
		slices.Sort(names)
		result = names
	case "isdir":
		var info os.FileInfo
		if info, err = os.Stat(a[0]); err == nil {
			result = info.IsDir()
		}
	case "mode":
		var info os.FileInfo
		if info, err = os.Lstat(a[0]); err == nil {
			result = info.Mode().Type()
		}
	case "size":
		var info os.FileInfo
		if info, err = os.Stat(a[0]); err == nil {
			result = info.Size()
		}
	case "total":
		var free, total, all uint64
		err = windows.GetDiskFreeSpaceEx(windows.StringToUTF16Ptr(a[0]), &free, &total, &all)
		result = total
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if result == nil {
		return "ok"
	}
	return fmt.Sprint(result)
}
