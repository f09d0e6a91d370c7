#include <fcntl.h>
#include <sys/stat.h>

// DuckDB creates partition directories that only their owner may write (0755). Tasks and other
// engines of the workspace run as other users and write there too. This function replaces the C
// library's mkdir in all C and C++ code of the program. It leaves the mode to the umask, or to the
// access control list of the storage (store/objects/share.go).
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode == 0755 ? 0777 : mode); }
