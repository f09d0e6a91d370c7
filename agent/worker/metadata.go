package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// metadata are the addresses at which clouds serve a machine's credentials without authentication.
var metadata = []struct{ family, address string }{{"-4", "169.254.169.254/32"}, {"-6", "fd00:ec2::254/128"}}

// metadataPriority is the priority of the rules: before the rules of overlay networks. Without it,
// the kernel would choose another priority at each start and add the rule again.
const metadataPriority = "169"

// closeMetadata blocks them for the task users by routing rules. The rules stay, because tasks may
// outlive the agent.
func closeMetadata(ctx context.Context, r Users) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var failed []error
	for _, m := range metadata {
		args := []string{m.family, "rule", "add", "priority", metadataPriority, "uidrange", fmt.Sprintf("%d-%d", r.First, r.Last), "to", m.address, "prohibit"}
		cmd := exec.CommandContext(ctx, "ip", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LC_ALL=C"}
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "File exists") {
			failed = append(failed, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(failed...)
}
