import { Group, Kbd, Modal, Stack, Title } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { shortcuts } from "@/lib/hotkeys";

/** The shortcuts that work on this page. */
export function ShortcutsDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const groups = useSyncExternalStore(shortcuts.subscribe, shortcuts.get);
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard shortcuts">
      <Stack gap="lg">
        {groups.map((g) => (
          <div key={g.title}>
            <Title order={3} size="h6" mb={4}>
              {g.title}
            </Title>
            {g.shortcuts.map((s) => (
              <div key={s.label} className="shortcut-row">
                <span>{s.label}</span>
                <Group gap={4}>
                  {s.keys.map((k) => (
                    <Kbd key={k}>{k}</Kbd>
                  ))}
                </Group>
              </div>
            ))}
          </div>
        ))}
      </Stack>
    </Modal>
  );
}
