package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const confName = "millpond.conf"

// include makes the cluster read our settings. Later settings of an administrator override them.
func include(data string) error {
	f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n# Millpond's settings, rewritten at each start. Settings after this line override them.\ninclude = '%s'\n", confName)
	return errors.Join(err, f.Close())
}

// configure writes our settings for the next start.
func (c *cluster) configure() error {
	name := filepath.Join(c.data, confName)
	if err := writeFile(name, []byte(c.settings()), 0o600); err != nil {
		return fmt.Errorf("configure the database: %w", err)
	}
	return c.account.own(name)
}

func (c *cluster) settings() string {
	lines := []string{
		"listen_addresses = ''",
		"port = " + socketPort,
		`unix_socket_directories = '"` + c.socket.path + `"'`,
		"unix_socket_permissions = 0600",
		fmt.Sprintf("max_connections = %d", c.maxConns),
		"password_encryption = 'scram-sha-256'",
		"shared_buffers = '128MB'",
		"max_wal_size = '2GB'",
		"wal_compression = on",
		"random_page_cost = 1.1",
		"jit = off", // compiling costs more than our short statements take
		"timezone = 'UTC'",
		"log_timezone = 'UTC'",
		"log_line_prefix = '%m [%p] %q%u@%d '",
	}
	if c.volatile {
		// Without fsync, synchronous_commit costs nothing. It lets commits survive a crash of
		// PostgreSQL.
		lines = append(lines, "fsync = off", "full_page_writes = off", "wal_level = minimal", "max_wal_senders = 0", "min_wal_size = '32MB'")
	} else {
		lines = append(lines, "logging_collector = on", "log_directory = 'log'", "log_filename = 'postgres-%a.log'",
			"log_rotation_age = '1d'", "log_rotation_size = 0", "log_truncate_on_rotation = on")
	}
	return strings.Join(lines, "\n") + "\n"
}
