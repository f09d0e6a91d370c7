#include <fcntl.h>
#include <sys/stat.h>

// DuckDB makes the directories of partitions for their owner alone to write in (0755), while tasks and other engines of the workspace, which are other users,
// write there too. This stands in for the C library's mkdir in all C and C++ of the program, and leaves that to the umask, as other programs do, or to the
// access control list of the storage (store/objects/share.go).
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode == 0755 ? 0777 : mode); }
