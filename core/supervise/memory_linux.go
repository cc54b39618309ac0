package supervise

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is what the kernel says of a process's memory, in bytes.
type memory struct {
	peak   uint64 // resident at most, files included
	own    uint64 // what belongs to no file, and page tables
	shared uint64 // pages that others may have too
	tables uint64 // page tables alone
}

func (m *memory) held() uint64 { return m.own + m.shared }

func (m *memory) add(o memory) {
	m.own += o.own
	m.shared += o.shared
}

func memoryOf(pid int) (m memory, err error) {
	at, err := placeOf(pid)
	if err != nil {
		return m, err
	}
	err = eachSize(at+"/status", func(name string, n uint64) {
		switch name {
		case "VmHWM":
			m.peak = n
		case "VmPTE":
			m.tables = n
			m.own += n
		case "RssAnon", "VmSwap":
			m.own += n
		case "RssShmem":
			m.shared += n
		}
	})
	return m, err
}

// togetherOf is the memory of several processes, and how many of them live. What each has in use is added up, and where
// that is more than most it is looked at again, page by page: what they share counts once then.
func togetherOf(pids []int, most uint64) (living int, sum memory) {
	all := map[int]memory{}
	for _, pid := range pids {
		if m, err := memoryOf(pid); err == nil { // an error: it has ended
			all[pid] = m
			sum.add(m)
		}
	}
	if most == 0 || sum.held() <= most || len(all) < 2 {
		return len(all), sum
	}
	sum = memory{}
	for _, pid := range apartOf(slices.Collect(maps.Keys(all))) {
		m := all[pid]
		if parts, err := partsOf(pid); err == nil {
			parts.own += m.tables
			m = parts
		}
		sum.add(m) // an error: it has ended, or may not be looked at so closely, and counts as a whole
	}
	return len(all), sum
}

// apartOf leaves one process of those that have one memory, as a process and the one that it is about to start have
// until that becomes a program. Each page counts as a whole for both. Where the kernel does not compare them, they
// count each for itself.
func apartOf(pids []int) []int {
	const vm = 1             // KCMP_VM
	threads := map[int]int{} // of each process one that lives: the first shows no memory once it has ended
	for _, pid := range pids {
		if at, err := placeOf(pid); err == nil {
			threads[pid], _ = strconv.Atoi(filepath.Base(at)) // it is a number
		}
	}
	compare := func(a, b int) int {
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(threads[a]), uintptr(threads[b]), vm, 0, 0, 0)
		switch {
		case errno == 0 && order == 0:
			return 0
		case errno == 0 && order == 1:
			return -1
		case errno == 0 && order == 2:
			return 1
		}
		return cmp.Compare(a, b)
	}
	slices.SortFunc(pids, compare)
	return slices.CompactFunc(pids, func(a, b int) bool { return a != b && compare(a, b) == 0 })
}

// partsOf is a process's memory where a page that several processes have counts for each by its part, as
// proc_pid_smaps(5) says. Page tables are not in it.
func partsOf(pid int) (m memory, err error) {
	at, err := placeOf(pid)
	if err != nil {
		return m, err
	}
	err = eachSize(at+"/smaps_rollup", func(name string, n uint64) {
		switch name {
		case "Pss_Anon", "SwapPss":
			m.own += n
		case "Pss_Shmem":
			m.shared += n
		}
	})
	return m, err
}

// eachSize gives the sizes in a file of /proc, in bytes.
func eachSize(path string, do func(name string, n uint64)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue // not a size
		}
		do(name, n<<10)
	}
	return nil
}
