import { Alert, Button, Checkbox, Code, Group, Stack, Text } from "@mantine/core";
import { modals } from "@mantine/modals";
import { IconAlertTriangle } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { CopyButton } from "./Copy";

/** Asks for a confirmation, with the effect in words. */
export function confirm(o: {
  title: string;
  effect: ReactNode;
  action: string;
  cancel?: string;
  run: () => void;
}) {
  modals.openConfirmModal({
    title: o.title,
    children: <Text size="sm">{o.effect}</Text>,
    labels: { confirm: o.action, cancel: o.cancel ?? "Keep it" },
    confirmProps: { color: "red", variant: "filled" },
    onConfirm: o.run,
  });
}

function Secret({ id, secret, note, use }: { id: string; secret: string; note: string; use?: ReactNode }) {
  const [stored, setStored] = useState(false);
  return (
    <Stack>
      <Alert color="yellow" icon={<IconAlertTriangle size={18} aria-hidden />}>
        {note} It is shown only now: nobody, we included, can read it again.
      </Alert>
      <Group gap="xs" wrap="nowrap">
        <Code block className="secret" data-testid="secret">
          {secret}
        </Code>
        <CopyButton value={secret} label="Copy" />
      </Group>
      {use}
      <Checkbox
        label="I have stored it in a safe place"
        checked={stored}
        onChange={(e) => setStored(e.currentTarget.checked)}
      />
      <Group justify="flex-end">
        <Button disabled={!stored} onClick={() => modals.close(id)}>
          Done
        </Button>
      </Group>
    </Stack>
  );
}

/** Shows a secret once; closes only when it has been stored. */
export function showSecret(o: { title: string; secret: string; note: string; use?: ReactNode }) {
  const id = `secret-${Date.now()}`;
  modals.open({
    modalId: id,
    title: o.title,
    size: "lg",
    closeOnClickOutside: false,
    closeOnEscape: false,
    withCloseButton: false,
    children: <Secret id={id} secret={o.secret} note={o.note} use={o.use} />,
  });
}
