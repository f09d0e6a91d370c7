import { ActionIcon, Button, Group, Stack, Table, Textarea, TextInput } from "@mantine/core";
import { modals } from "@mantine/modals";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import { Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { useRole } from "@/lib/session";
import { TableHead } from "@/ui/Table";
import { useTrackingRunActions } from "./actions";
import type { TrackingRun } from "./queries";
import { ValuesCard } from "./RunValues";

const modalId = "add-tag";

/** Tags that the platform or the client sets. */
const reserved = (key: string) => key.startsWith("millpond.") || key.startsWith("mlflow.");

/** The run's tags: added, replaced and deleted. */
export function Tags({ run }: { run: TrackingRun }) {
  const editor = includes(useRole(), Role.Editor) && run.deletedAt === null;
  const { deleteTag } = useTrackingRunActions();
  const add = () => modals.open({ modalId, title: "Set a tag", children: <TagForm run={run} /> });
  return (
    <ValuesCard
      title="Tags"
      count={run.tags.length}
      none="A tag is a note on the run that searches can use."
      tools={
        editor ? (
          <Button size="compact-xs" variant="default" leftSection={<IconPlus size={13} />} onClick={add}>
            Set a tag
          </Button>
        ) : null
      }
    >
      <Table aria-label="Tags" className="rows values">
        <TableHead columns={["Key", "Value", editor && { hidden: "Actions" }]} />
        <Table.Tbody>
          {run.tags.map((t) => (
            <Table.Tr key={t.key}>
              <Table.Td>{t.key}</Table.Td>
              <Table.Td className="tag-value">{t.value}</Table.Td>
              {editor && (
                <Table.Td ta="right">
                  {!reserved(t.key) && (
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      size={26}
                      aria-label={`Delete the tag ${t.key}`}
                      onClick={() => deleteTag.mutate({ id: run.id, key: t.key })}
                    >
                      <IconTrash size={14} />
                    </ActionIcon>
                  )}
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ValuesCard>
  );
}

function TagForm({ run }: { run: TrackingRun }) {
  const { setTag } = useTrackingRunActions();
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [missing, setMissing] = useState(false);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!key.trim()) return setMissing(true);
    setTag.mutate({ id: run.id, key: key.trim(), value }, { onSuccess: () => modals.close(modalId) });
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <TextInput
          label="Key"
          value={key}
          error={missing ? "Give the tag a key." : setTag.error?.message}
          data-autofocus
          onChange={(e) => {
            setKey(e.currentTarget.value);
            setMissing(false);
          }}
        />
        <Textarea
          label="Value"
          description="It replaces the value of a tag with the same key."
          value={value}
          autosize
          maxRows={8}
          onChange={(e) => setValue(e.currentTarget.value)}
        />
        <Group justify="flex-end">
          <Button variant="default" onClick={() => modals.close(modalId)}>
            Cancel
          </Button>
          <Button type="submit" loading={setTag.isPending}>
            Set the tag
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
