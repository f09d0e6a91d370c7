import { Avatar, Menu, Text, UnstyledButton } from "@mantine/core";
import { IconLogout, IconSettings } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useViewer } from "@/lib/session";
import { useLogout } from "./useLogout";

/** First letters of the first and the last word. */
function initials(name: string): string {
  const words = name.trim().split(/\s+/);
  const letters = words.length > 1 ? [words[0], words.at(-1)] : [words[0]];
  return letters.map((w) => [...(w ?? "")][0]?.toUpperCase() ?? "").join("");
}

export function AccountMenu() {
  const viewer = useViewer();
  const logout = useLogout();
  if (!viewer) return null;
  const name = viewer.user?.name || viewer.user?.email || "API key";
  return (
    <Menu width={240}>
      <Menu.Target>
        <UnstyledButton aria-label={`${initials(name)}, account of ${name}`}>
          <Avatar size={30} radius="xl" color="pond" variant="filled">
            {initials(name)}
          </Avatar>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <div style={{ padding: "8px 12px" }}>
          <Text size="sm" fw={600} truncate>
            {name}
          </Text>
          <Text size="xs" c="dimmed" truncate>
            {viewer.user?.email}
          </Text>
          <Text size="xs" c="dimmed" mt={4}>
            {viewer.role.toLowerCase()} of {viewer.workspace.name}
          </Text>
        </div>
        <Menu.Divider />
        <Menu.Item
          leftSection={<IconSettings size={15} />}
          renderRoot={(p) => <Link to="/settings" {...p} />}
        >
          Settings and password
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={15} />} onClick={() => logout.mutate()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
