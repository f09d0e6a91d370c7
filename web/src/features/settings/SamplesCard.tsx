import { Button, Text } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { RemoveSamplesDocument, Role } from "@/gql/gen";
import { plural } from "@/lib/format";
import { request } from "@/lib/graphql";
import { done, failed } from "@/lib/notify";
import { Allowed } from "@/ui/Allowed";
import { confirm } from "@/ui/dialogs";

/** Removes the first workspace's samples. */
export function SamplesCard() {
  const qc = useQueryClient();
  const remove = useMutation({
    mutationFn: () => request(RemoveSamplesDocument, {}),
    onSuccess: ({ removeSamples: { removedJobs } }) => {
      void qc.invalidateQueries();
      done(
        removedJobs
          ? `Removed ${plural(removedJobs, "sample job")}.`
          : "There are no samples in this workspace.",
      );
    },
    onError: (e) => failed("The samples were not removed", e),
  });
  const ask = () =>
    confirm({
      title: "Remove the samples?",
      effect: "The sample jobs are deleted. Their runs and logs stay in the list of runs.",
      action: "Remove the samples",
      run: () => remove.mutate(),
    });
  return (
    <section className="card" aria-label="Samples">
      <div className="section-title">
        <h2>Samples</h2>
      </div>
      <div className="card-pad" style={{ paddingTop: 0 }}>
        <Text size="sm" mb="sm">
          The first workspace of an installation starts with a sample job, so that there is something to look
          at. Samples are marked “sample”; other workspaces start empty.
        </Text>
        <Allowed role={Role.Admin}>
          {(disabled) => (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconTrash size={14} />}
              disabled={disabled}
              loading={remove.isPending}
              onClick={ask}
            >
              Remove the samples
            </Button>
          )}
        </Allowed>
      </div>
    </section>
  );
}
