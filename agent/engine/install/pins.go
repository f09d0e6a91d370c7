package install

// release is a pinned archive of one version.
type release struct {
	version  string
	sha256   string // of the archive
	size     int64  // of the archive, in bytes
	unpacked int64  // of its files, in bytes
	platform string // in the package clients' form; empty for all
}

// pins are the pinned releases.
type pins struct {
	trino     release
	keep      []string           // kept directories of the server
	java      map[string]release // by platform
	javaMajor int                // the oldest supported major version of Java
}

const (
	trinoPrefix = "trino-"
	javaPrefix  = "java-"
)

var pinned = pins{
	trino: release{version: "476", sha256: "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f", size: 821045832, unpacked: 936655091},
	keep:  []string{"bin", "lib", "secrets-plugin", "plugin/iceberg", "plugin/spooling-filesystem", "plugin/exchange-filesystem"},
	java: map[string]release{
		"linux/amd64": {
			version: "25.0.2.1", platform: "manylinux_2_17_x86_64", size: 35411575, unpacked: 108155561,
			sha256: "383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c",
		},
		"linux/arm64": {
			version: "25.0.2.1", platform: "manylinux_2_17_aarch64", size: 34514613, unpacked: 107283292,
			sha256: "b7246170d605dd7b65340994fedea2615737e63955f0b95389202e0ab4a166ac",
		},
	},
	javaMajor: 24,
}
