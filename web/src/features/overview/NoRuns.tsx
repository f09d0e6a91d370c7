import { Button } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { EmptyState } from "@/ui/States";

export const NoRuns = () => (
  <EmptyState
    icon={IconPlayerPlay}
    title="Nothing has run yet"
    action={
      <Button renderRoot={(p) => <Link to="/jobs" {...p} />} variant="default">
        See the jobs
      </Button>
    }
  >
    A run is one execution of a job. Start one by hand, give a job a schedule, or start it from your own tools
    through the API.
  </EmptyState>
);
